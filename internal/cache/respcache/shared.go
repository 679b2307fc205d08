package respcache

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/storage/breaker"
)

// DefaultDeadline is how long a request waits for a shared store.
const DefaultDeadline = 50 * time.Millisecond

const (
	writeDeadline = 5 * time.Second
	closeDeadline = 5 * time.Second

	maxReads     = 128 // at a time; a store that hangs keeps as many goroutines
	maxQueued    = 64 << 20
	maxBatch     = 64
	maxBatchSize = 8 << 20
)

// Backend stores sealed entries. It is safe for concurrent use, and need not be
// trusted: what it returns is checked.
type Backend interface {
	// Read returns the value of a name, or nil if there is none or if it is longer
	// than most bytes.
	Read(ctx context.Context, name string, most int) ([]byte, error)
	// Write stores records. Of those with the same name, the last remains.
	Write(ctx context.Context, records []Record) error
	Close() error
}

// Record is a sealed entry.
type Record struct {
	Name  string
	Value []byte
	TTL   time.Duration // after which it may be removed
}

// Keys gives the data keys of organisations. It is safe for concurrent use.
type Keys interface {
	// Current returns the key in use, or nil if there is none. It does not wait.
	Current(organisation string) *secret.DataKey
	// Create returns the key, which it makes if there is none.
	Create(ctx context.Context, organisation string) (*secret.DataKey, error)
}

// SharedOptions configure a [Shared]. Backend and Keys are required.
type SharedOptions struct {
	Backend     Backend
	Keys        Keys
	MaxResponse int              // limit in bytes of a body
	Deadline    time.Duration    // of a read; zero means [DefaultDeadline]
	Now         func() time.Time // clock of Entry.Expires; nil is time.Now
	Logger      *slog.Logger
}

// Shared is a [Store] in a backend that others can read and write: a file, or a
// server that several gateways share. Entries are sealed with the data key of their
// organisation. It guarantees that a backend that is slow, fails or was tampered with
// yields no entry, and never holds up a request for longer than the deadline. Entries
// are written in the background; until then they are served from memory.
type Shared struct {
	SharedOptions
	reads, writes breaker.Breaker
	slots         chan struct{} // holds a token for each read in progress

	mu      sync.Mutex
	pending map[Key]*Entry // not written yet; guarded by mu, as are the fields below
	order   []Key
	queued  int // bytes
	closed  bool

	work  chan struct{} // holds a token while pending has entries
	ended chan struct{}

	rejected, dropped atomic.Int64
	warned            atomic.Int64 // unix seconds of the last warning about a rejected entry
}

var _ Store = (*Shared)(nil)

// NewShared returns a store. The caller must call Close, which closes the backend.
func NewShared(o SharedOptions) *Shared {
	if o.Deadline == 0 {
		o.Deadline = DefaultDeadline
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Shared{SharedOptions: o, slots: make(chan struct{}, maxReads), pending: make(map[Key]*Entry), work: make(chan struct{}, 1),
		ended: make(chan struct{})}
	s.reads.Name, s.reads.Effect, s.reads.Logger = "cache store", "requests call their providers", o.Logger
	s.writes.Name, s.writes.Effect, s.writes.Logger = "cache store for writing", "responses are not stored", o.Logger
	go s.run()
	return s
}

// SharedStats count what happened since the start.
type SharedStats struct {
	Reads, Writes breaker.Stats
	Rejected      int64 // entries that were not authentic
	Dropped       int64 // entries that were not written
}

// Stats returns the counts since the start.
func (s *Shared) Stats() SharedStats {
	return SharedStats{s.reads.Stats(), s.writes.Stats(), s.rejected.Load(), s.dropped.Load()}
}

// Get implements [Store].
func (s *Shared) Get(ctx context.Context, owner Tenant, key Key, now time.Time) (*Entry, error) {
	dk := s.Keys.Current(owner.Organisation)
	s.mu.Lock()
	e := s.pending[key]
	s.mu.Unlock()
	if e == nil || e.Owner != owner {
		if dk == nil {
			return nil, nil // nothing of the organisation can be read
		}
		sealed, err := s.read(ctx, recordName(dk, owner, key))
		if err != nil || sealed == nil {
			return nil, err
		}
		if e, err = open(dk, owner, key, sealed); err != nil {
			s.reject(owner, err)
			return nil, nil
		}
	}
	if !now.Before(e.Expires) {
		return nil, nil
	}
	return e, nil
}

var errBusy = errors.New("too many reads are in progress")

// read reads a value, and returns at the deadline even if the backend does not.
func (s *Shared) read(ctx context.Context, name string) (value []byte, err error) {
	type result struct {
		value []byte
		err   error
	}
	err = s.reads.Call(ctx, s.Deadline, func(ctx context.Context) error {
		select {
		case s.slots <- struct{}{}:
		case <-ctx.Done():
			return errBusy
		}
		done := make(chan result, 1)
		go func() {
			defer func() { <-s.slots }()
			v, err := s.Backend.Read(ctx, name, s.MaxResponse+sealOverhead)
			done <- result{v, err}
		}()
		select {
		case r := <-done:
			value = r.value
			return r.err
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return value, err
}

// reject reports an entry that is not authentic, at most once a minute.
func (s *Shared) reject(owner Tenant, err error) {
	s.rejected.Add(1)
	now := time.Now().Unix()
	if last := s.warned.Load(); now-last >= 60 && s.warned.CompareAndSwap(last, now) {
		s.Logger.Warn("cache entry rejected; it was changed or belongs to another request", "organisation", owner.Organisation,
			"err", err.Error())
	}
}

var errQueueFull = errors.New("too many entries wait to be written")

// Put implements [Store].
func (s *Shared) Put(_ context.Context, key Key, e *Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.queued+e.size() > maxQueued {
		s.dropped.Add(1)
		return errQueueFull
	}
	if old := s.pending[key]; old != nil {
		s.queued -= old.size()
	} else {
		s.order = append(s.order, key)
	}
	s.pending[key] = e
	s.queued += e.size()
	s.wake()
	return nil
}

func (s *Shared) wake() {
	select {
	case s.work <- struct{}{}:
	default:
	}
}

// queuedEntry is an entry that is being written.
type queuedEntry struct {
	key   Key
	entry *Entry
}

// run writes pending entries until the store is closed.
func (s *Shared) run() {
	defer close(s.ended)
	for range s.work {
		for batch := s.next(); len(batch) > 0; batch = s.next() {
			s.write(batch)
			s.remove(batch)
		}
	}
}

// next returns the oldest pending entries, which stay pending.
func (s *Shared) next() (batch []queuedEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := 0
	for len(s.order) > len(batch) && len(batch) < maxBatch && size < maxBatchSize {
		k := s.order[len(batch)]
		batch = append(batch, queuedEntry{k, s.pending[k]})
		size += s.pending[k].size()
	}
	s.order = s.order[len(batch):]
	return batch
}

// remove removes written entries, except those that were replaced in the meantime.
func (s *Shared) remove(batch []queuedEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range batch {
		if s.pending[q.key] == q.entry {
			s.queued -= q.entry.size()
			delete(s.pending, q.key)
		} else {
			s.order = append(s.order, q.key)
		}
	}
}

// write seals and writes entries. Those that cannot be written are dropped.
func (s *Shared) write(batch []queuedEntry) {
	records := make([]Record, 0, len(batch))
	now := s.Now()
	for _, q := range batch {
		r, err := s.record(q, now)
		if err != nil {
			s.dropped.Add(1)
			s.Logger.Debug("response not cached", "err", err.Error())
			continue
		}
		records = append(records, r)
	}
	if len(records) == 0 {
		return
	}
	err := s.writes.Call(context.Background(), writeDeadline, func(ctx context.Context) error { return s.Backend.Write(ctx, records) })
	if err != nil {
		s.dropped.Add(int64(len(records)))
	}
}

func (s *Shared) record(q queuedEntry, now time.Time) (r Record, err error) {
	dk := s.Keys.Current(q.entry.Owner.Organisation)
	if dk == nil {
		ctx, cancel := context.WithTimeout(context.Background(), writeDeadline)
		defer cancel()
		if dk, err = s.Keys.Create(ctx, q.entry.Owner.Organisation); err != nil {
			return r, err
		}
	}
	r.Name, r.TTL = recordName(dk, q.entry.Owner, q.key), q.entry.Expires.Sub(now)
	if r.Value, err = seal(dk, q.key, q.entry); err != nil {
		return r, err
	}
	if len(r.Value) > s.MaxResponse+sealOverhead || r.TTL <= 0 {
		return r, errors.New("the entry is too large, or has expired")
	}
	return r, nil
}

// Close writes the pending entries, within a few seconds, and closes the backend.
func (s *Shared) Close() error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	close(s.work)
	select {
	case <-s.ended:
	case <-time.After(closeDeadline):
	}
	return s.Backend.Close()
}
