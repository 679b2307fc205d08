package bytepool

import (
	"errors"
	"sync/atomic"
)

// Errors of shares that do not allow another buffer; [ErrBudget] is that of the pool. Their
// texts are for clients.
var (
	ErrKey          = errors.New("the requests of this key hold as much body memory as one key may, half of it")
	ErrOrganisation = errors.New("the requests of this organisation hold as much body memory as one organisation may, three quarters of it")
	ErrKeyless      = errors.New("requests without a key hold as much body memory as they may")
)

// IsFull reports whether err says that a share or the pool does not allow another buffer.
func IsFull(err error) bool {
	return errors.Is(err, ErrBudget) || errors.Is(err, ErrKey) || errors.Is(err, ErrOrganisation) || errors.Is(err, ErrKeyless)
}

// reserve is the part of each limit, one in this many, that only small bodies may use.
const reserve = 8

// small is the number of bytes up to which a body may use the reserve.
const small = 256 << 10

// Share is the part of a pool that one holder may use: a key, within that of its
// organisation. What counts against it counts against all above it. It is safe for
// concurrent use.
type Share struct {
	above *Share // nil for the pool itself
	limit int64  // zero or less means no limit
	full  error  // when the limit is reached
	used  atomic.Int64
}

// Organisation returns the share of an organisation, always the same one: three quarters
// of the pool, so that there is room for others, however many requests one of them sends.
func (p *Pool) Organisation(id string) *Share {
	if s, ok := p.organisations.Load(id); ok {
		return s.(*Share)
	}
	s, _ := p.organisations.LoadOrStore(id, &Share{above: &p.all, limit: p.all.limit - p.all.limit/4, full: ErrOrganisation})
	return s.(*Share)
}

// Keyless returns the share of all requests that have shown no key, a sixteenth of the
// pool.
func (p *Pool) Keyless() *Share { return &p.keyless }

// Key returns a new share of a key, half of the pool, in that of its organisation.
func (p *Pool) Key(organisation string) *Share {
	return &Share{above: p.Organisation(organisation), limit: p.all.limit / 2, full: ErrKey}
}

// allowed returns the limit for a holder of this kind.
func (s *Share) allowed(small bool) int64 {
	if small {
		return s.limit
	}
	return s.limit - s.limit/reserve
}

// add counts n more bytes for a small or another holder. On an error nothing has changed.
func (s *Share) add(n int64, small bool) error {
	for at := s; at != nil; at = at.above {
		if used := at.used.Add(n); at.limit > 0 && used > at.allowed(small) {
			for undo := s; undo != at.above; undo = undo.above {
				undo.used.Add(-n)
			}
			return at.full
		}
	}
	return nil
}

// remove counts n bytes less.
func (s *Share) remove(n int64) {
	for ; s != nil; s = s.above {
		s.used.Add(-n)
	}
}

// Check returns the error of counting n more bytes against the share now, nil if they fit.
func (s *Share) Check(n int64) error {
	for ; s != nil; s = s.above {
		if s.limit > 0 && s.used.Load()+n > s.allowed(n <= small) {
			return s.full
		}
	}
	return nil
}

// Hold counts n bytes that are held elsewhere until release is called, once.
func (s *Share) Hold(n int) (release func(), err error) { return s.hold(int64(n), n <= small) }

// HoldBehind is [Share.Hold] for work that no request waits for. It leaves the reserve to
// requests, however small its pieces are.
func (s *Share) HoldBehind(n int) (release func(), err error) { return s.hold(int64(n), false) }

func (s *Share) hold(n int64, small bool) (release func(), err error) {
	if err := s.add(n, small); err != nil {
		return nil, err
	}
	return func() { s.remove(n) }, nil
}
