package quota

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Leased is a [Store] that takes slices of limits from another store, shared with
// other gateways, and grants from them in this process.
//
// A slice is reserved in the other store before any of it is granted, so that
// limits are exact; what other gateways have leased and not used is missing until
// they return it, which they do after two seconds without a request. A request
// calls the other store only if a slice has less than it asks for. A slice is a small part of what is left, so it becomes smaller as
// the limit is used up. The caller must call Start and Close.
type Leased struct {
	Store Store // usually a [Breaker]

	slices  sync.Map // of *slice by counter
	renewal sync.WaitGroup
	stop    chan struct{}
	refills atomic.Int64
}

var _ Store = (*Leased)(nil)

const (
	sliceParts = 16                     // a slice is this part of what is left
	sliceIdle  = 2 * time.Second        // after which a slice is returned
	sliceRetry = 100 * time.Millisecond // between refills of a limit that is used up
)

// slice is the part of a limit that this process may grant.
type slice struct {
	counter string

	mu     sync.Mutex
	limit  *Limit // as last seen
	window int64
	lease  int64 // of the shared store
	left   int64 // leased and not granted
	// state is the limit's state when the store was last asked, with what was
	// leased then as held, and used what was settled here since.
	state State
	used  int64

	asked   bool      // the store was asked in this window
	short   time.Time // until when the store is not asked for more than room
	room    int64     // left in the store when it had less than it was asked for
	wanted  int64     // by requests that wait for the next call
	touched time.Time
	filling chan struct{} // closed when a call that leases more has ended; nil if there is none
	err     error         // of the last such call
	removed bool
}

// Start starts to return slices that are not used.
func (d *Leased) Start() {
	d.stop = make(chan struct{})
	d.renewal.Go(func() {
		t := time.NewTicker(sliceIdle / 2)
		defer t.Stop()
		for {
			select {
			case <-d.stop:
				return
			case <-t.C:
				d.release(time.Now(), sliceIdle)
			}
		}
	})
}

// Close returns all slices. It does not close the other store.
func (d *Leased) Close() {
	close(d.stop)
	d.renewal.Wait()
	d.release(time.Now(), 0)
}

// Refills returns how often the other store was asked for more.
func (d *Leased) Refills() int64 { return d.refills.Load() }

// release returns slices that were not touched for a time.
func (d *Leased) release(now time.Time, idle time.Duration) {
	d.slices.Range(func(name, value any) bool {
		s := value.(*slice)
		if !s.mu.TryLock() { // in use
			return true
		}
		defer s.mu.Unlock()
		if s.filling == nil && now.Sub(s.touched) >= idle {
			d.giveBack(now, s)
			s.removed = true
			d.slices.Delete(name)
		}
		return true
	})
}

// giveBack returns what is left of a slice. The caller holds s.mu.
func (d *Leased) giveBack(now time.Time, s *slice) {
	if s.left > 0 {
		d.Store.Settle(now, []Grant{{Limit: s.limit, Window: s.window, Lease: s.lease, Amount: s.left}}, Use{})
	}
	s.left = 0
}

// lock returns the slice of a limit, locked and in its window.
func (d *Leased) lock(now time.Time, l *Limit) *slice {
	for {
		value, ok := d.slices.Load(l.Counter)
		if !ok {
			value, _ = d.slices.LoadOrStore(l.Counter, &slice{counter: l.Counter, touched: time.Now()})
		}
		s := value.(*slice)
		s.mu.Lock()
		if !s.removed {
			d.enter(now, s, l)
			return s
		}
		s.mu.Unlock()
	}
}

// enter moves a slice to the window of l. It returns a lease before it lapses, and
// one of a limit that was changed.
func (d *Leased) enter(now time.Time, s *slice, l *Limit) {
	n, _ := l.WindowAt(now)
	moved := l.Window != 0 && (n > s.window || n < s.window-l.Tolerance())
	if s.asked && (moved || GenerationAt(now) > s.lease || l.Max != s.limit.Max || l.Base != s.limit.Base) {
		d.giveBack(now, s)
		s.asked, s.used, s.short = false, 0, time.Time{}
	}
	s.limit, s.touched = l, time.Now()
	if !s.asked {
		s.window = n
		s.state = State{Reset: l.ResetOf(n)}
	}
}

// available returns the state of a slice's limit as this process knows it.
func (s *slice) available() State {
	state := s.state
	state.Used += s.used
	state.Held = max(state.Held-s.left-s.used, 0)
	return state
}

// maxRefills is how often a request waits for the other store at most: for a call
// that was running, for one that asks for all who waited, and for one of its own.
const maxRefills = 3

// Reserve implements [Store]. It waits for the other store at most three times.
func (d *Leased) Reserve(ctx context.Context, now time.Time, claims []Claim) (Verdict, error) {
	for refills := 0; ; refills++ {
		list := d.lockAll(now, claims)
		lacking := d.lacking(list, claims)
		if len(lacking) == 0 || refills == maxRefills {
			defer d.unlock(list)
			return d.decide(ctx, now, list, claims)
		}
		d.unlock(list)
		d.refill(ctx, now, list, lacking)
	}
}

// lockAll locks the slices of claims in the order of their names.
func (d *Leased) lockAll(now time.Time, claims []Claim) []*slice {
	order := make([]int, len(claims))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return strings.Compare(claims[a].Limit.Counter, claims[b].Limit.Counter)
	})
	list := make([]*slice, len(claims))
	for _, i := range order {
		list[i] = d.lock(now, claims[i].Limit)
	}
	return list
}

func (d *Leased) unlock(list []*slice) {
	for _, s := range list {
		s.mu.Unlock()
	}
}

// lacking returns the claims that a slice has too little for, if the store may
// have more.
func (d *Leased) lacking(list []*slice, claims []Claim) (lacking []Claim) {
	for i, s := range list {
		c := claims[i]
		if s.left >= c.Amount {
			continue
		}
		if s.filling != nil || !time.Now().Before(s.short) || s.left < c.Least && c.Least-s.left <= s.room {
			lacking = append(lacking, c)
		}
	}
	return lacking
}

// Peek implements [Peeker]: it knows a limit of which the slice has something, and one
// whose slice is used up if the other store had no more a moment ago.
func (d *Leased) Peek(now time.Time, l *Limit) (State, bool) {
	value, ok := d.slices.Load(l.Counter)
	if !ok {
		return State{}, false
	}
	s := value.(*slice)
	s.mu.Lock()
	defer s.mu.Unlock()
	n, _ := l.WindowAt(now)
	current := s.asked && !s.removed && s.window == n && s.lease == GenerationAt(now) && s.limit.Max == l.Max && s.limit.Base == l.Base
	if !current || s.err != nil {
		return State{}, false
	}
	usedUp := s.filling == nil && s.room == 0 && time.Now().Before(s.short)
	return s.available(), s.left > 0 || usedUp
}

// decide grants claims from slices, all or none. The caller holds their locks.
func (d *Leased) decide(ctx context.Context, now time.Time, list []*slice, claims []Claim) (Verdict, error) {
	v := Verdict{Refused: -1, States: make([]State, len(claims))}
	for i, s := range list {
		if s.left < claims[i].Least && s.err != nil {
			return Verdict{}, s.err
		}
		v.States[i] = s.available()
		if v.Refused < 0 && s.left < claims[i].Least {
			v.Refused = i
		}
	}
	if v.Refused >= 0 {
		return v, nil
	}
	v.Grants = make([]Grant, len(claims))
	for i, s := range list {
		amount := min(claims[i].Amount, s.left)
		s.left -= amount
		v.Grants[i] = Grant{Limit: claims[i].Limit, Window: s.window, Lease: s.lease, Amount: amount}
		d.prepare(ctx, now, s, claims[i])
	}
	return v, nil
}

// prepare leases more, in the background, for a slice that the next few claims
// would use up. It does not for a limit that has little left, which other gateways
// may need. The caller holds s.mu.
func (d *Leased) prepare(ctx context.Context, now time.Time, s *slice, c Claim) {
	soon := 4 * c.Amount
	if s.left >= soon || s.filling != nil || time.Now().Before(s.short) || s.available().Left(c.Limit)/sliceParts < soon {
		return
	}
	s.filling = make(chan struct{})
	background := context.WithoutCancel(ctx)
	d.renewal.Go(func() { d.lease(background, now, s, c) })
}

// refill leases more for claims, or waits for the calls that do.
func (d *Leased) refill(ctx context.Context, now time.Time, list []*slice, lacking []Claim) {
	var wait sync.WaitGroup
	for _, c := range lacking {
		i := slices.IndexFunc(list, func(s *slice) bool { return s.counter == c.Limit.Counter })
		s := list[i]
		s.mu.Lock()
		filling := s.filling
		s.wanted = add(s.wanted, c.Amount)
		if filling == nil {
			s.filling = make(chan struct{})
		}
		s.mu.Unlock()
		if filling == nil {
			wait.Go(func() { d.lease(ctx, now, s, c) })
			continue
		}
		wait.Go(func() {
			select {
			case <-filling:
			case <-ctx.Done():
			}
		})
	}
	wait.Wait()
}

// lease asks the store for more of a claim's limit, and ends s.filling.
func (d *Leased) lease(ctx context.Context, now time.Time, s *slice, c Claim) {
	d.refills.Add(1)
	s.mu.Lock()
	known := c.Limit.Max - c.Limit.Base
	if s.asked {
		known = s.available().Left(c.Limit)
	}
	need, least := max(c.Amount-s.left, s.wanted-s.left, 1), max(c.Least-s.left, 1)
	s.wanted = 0
	s.mu.Unlock()
	v, err := d.Store.Reserve(ctx, now, []Claim{{Limit: c.Limit, Amount: max(need, known/sliceParts), Least: least}})
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.filling)
	s.filling, s.err = nil, err
	if err != nil {
		s.short, s.room = time.Now().Add(sliceRetry), 0
		return
	}
	s.state, s.used = v.States[0], 0
	s.room = s.state.Left(c.Limit)
	if v.Refused >= 0 {
		s.asked, s.short = true, time.Now().Add(sliceRetry)
		if s.left == 0 {
			s.lease = GenerationAt(now)
		}
		return
	}
	g := v.Grants[0]
	if s.left > 0 && (g.Window != s.window || g.Lease != s.lease) {
		d.giveBack(now, s)
	}
	s.window, s.lease, s.asked = g.Window, g.Lease, true
	s.left += g.Amount
	s.state.Held += g.Amount
	s.room -= g.Amount
	if g.Amount < need {
		s.short = time.Now().Add(sliceRetry)
	}
}

// Settle implements [Store]. What a grant has not used returns to its slice.
func (d *Leased) Settle(now time.Time, grants []Grant, u Use) {
	shared := make([]Grant, len(grants))
	for i, g := range grants {
		if g.Lease >= 0 {
			g.Amount = d.settle(g, u.Of(g.Limit.Measure))
		}
		shared[i] = g
	}
	d.Store.Settle(now, shared, u)
}

// settle returns what the store no longer holds: a grant without what returns to
// the slice, or with what the attempt used beyond it.
func (d *Leased) settle(g Grant, used int64) int64 {
	value, ok := d.slices.Load(g.Limit.Counter)
	if !ok {
		return g.Amount
	}
	s := value.(*slice)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.removed || s.window != g.Window || s.lease != g.Lease || !s.asked {
		return g.Amount
	}
	used = max(used, 0)
	s.used += used
	unused := max(g.Amount-used, -s.left)
	s.left += unused
	return g.Amount - unused
}

// Read implements [Store]. What gateways have leased is held.
func (d *Leased) Read(ctx context.Context, now time.Time, limits []*Limit) ([]State, error) {
	return d.Store.Read(ctx, now, limits)
}

// Correct implements [Store].
func (d *Leased) Correct(ctx context.Context, list []Correction) error {
	return d.Store.Correct(ctx, list)
}
