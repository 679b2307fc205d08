package quota

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Calls are the calls of a store that several gateways share.
type Calls struct {
	// Reserve reserves like [Store.Reserve], and returns grants also if a claim is refused. A
	// claim of nothing changes nothing. After latest, which is the store's time in
	// microseconds, it must not reserve; zero means no limit.
	Reserve func(ctx context.Context, latest int64, now time.Time, claims []Claim) (Verdict, error)
	// Settle sends a batch of settlements, in no order.
	Settle func(ctx context.Context, batch []Settlement) error
	// Correct sends a batch of corrections; the store must not execute it
	// if it has executed one of this process with the same or a later number.
	Correct func(ctx context.Context, number int64, list []Correction) error
}

// Remote is a [Store] outside this process, made of its calls. The caller must call Start
// and Stop.
type Remote struct {
	Clock Clock

	// Calls may be replaced in tests.
	Calls Calls

	settlements Settlements
	corrections corrections
	calls       sync.WaitGroup // reservations whose replies have not come
	emptied     chan struct{}  // receives a token when what the ledger has counted is missing
}

var _ Store = (*Remote)(nil)

// NewRemote returns a store of calls. A nil logger is silent.
func NewRemote(calls Calls, logger *slog.Logger) *Remote {
	r := &Remote{Calls: calls, emptied: make(chan struct{}, 1)}
	r.Clock.Logger = logger
	r.settlements = Settlements{Send: calls.Settle, Probe: r.Probe, Logger: logger}
	r.corrections.Send = func(ctx context.Context, number int64, list []Correction) error {
		return r.Calls.Correct(ctx, number, list)
	}
	return r
}

// Start starts sending settlements.
func (r *Remote) Start() { r.settlements.Start() }

// Stop waits for late replies, for up to [lateReply], and sends the remaining settlements.
func (r *Remote) Stop() {
	r.calls.Wait()
	r.settlements.Close()
}

// Probe checks that the store answers, and compares the clocks.
func (r *Remote) Probe(ctx context.Context) error {
	_, err := r.Calls.Reserve(ctx, r.latest(ctx), r.Clock.Adjust(time.Now()), nil)
	return err
}

// lateReply is how long a reply is awaited after the caller has gone.
const lateReply = 2 * time.Second

// Reserve implements [Store]. If ctx ends first, what the store has reserved nevertheless
// is released when its reply comes: otherwise it would be held until it lapses.
func (r *Remote) Reserve(ctx context.Context, now time.Time, claims []Claim) (Verdict, error) {
	type reply struct {
		verdict Verdict
		err     error
	}
	replies := make(chan reply) // unbuffered, so that a reply is either received or released
	latest, now := r.latest(ctx), r.Clock.Adjust(now)
	r.calls.Go(func() {
		call, cancel := outlast(ctx)
		defer cancel()
		v, err := r.Calls.Reserve(call, latest, now, claims)
		if v.Refused >= 0 {
			v.Grants = nil
		}
		select {
		case replies <- reply{v, err}:
		case <-ctx.Done():
			r.Settle(time.Now(), v.Grants, Use{})
		}
	})
	select {
	case got := <-replies:
		return got.verdict, got.err
	case <-ctx.Done():
		return Verdict{}, ctx.Err()
	}
}

// outlast returns a context that ends lateReply after the deadline of ctx. If that has
// none, it ends with ctx.
func outlast(ctx context.Context) (context.Context, context.CancelFunc) {
	t, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(context.WithoutCancel(ctx), t.Add(lateReply))
}

// Read implements [Store].
func (r *Remote) Read(ctx context.Context, now time.Time, limits []*Limit) ([]State, error) {
	claims := make([]Claim, len(limits))
	for i, l := range limits {
		claims[i].Limit = l
	}
	v, err := r.Calls.Reserve(ctx, r.latest(ctx), r.Clock.Adjust(now), claims)
	return v.States, err
}

// Settle implements [Store].
func (r *Remote) Settle(now time.Time, grants []Grant, u Use) {
	r.settlements.Add(r.Clock.Adjust(now), grants, u)
}

// Correct implements [Store].
func (r *Remote) Correct(ctx context.Context, list []Correction) error {
	if len(list) == 0 {
		return nil
	}
	r.settlements.Flush() // what is counted must have been settled before
	return r.corrections.Correct(ctx, list)
}

// Lost returns how many settlements were lost.
func (r *Remote) Lost() int64 { return r.settlements.Lost() }

// Flush waits until earlier settlements are sent.
func (r *Remote) Flush() { r.settlements.Flush() }

// Emptied receives a value when the store is found without what the ledger has counted.
func (r *Remote) Emptied() <-chan struct{} { return r.emptied }

// NoteEmptied sends a value to those who wait for [Remote.Emptied].
func (r *Remote) NoteEmptied() {
	select {
	case r.emptied <- struct{}{}:
	default:
	}
}

// NoteFilled takes back what [Remote.NoteEmptied] has sent before.
func (r *Remote) NoteFilled() {
	select {
	case <-r.emptied:
	default:
	}
}

// latest returns the store's time, in microseconds, after which nobody waits for a call
// with ctx; zero if it has no deadline.
func (r *Remote) latest(ctx context.Context) int64 {
	if t, ok := ctx.Deadline(); ok {
		return r.Clock.Store(t).UnixMicro()
	}
	return 0
}

// Numbers returns what a shared store is sent of c: window, tolerance, base, maximum,
// counted, amount, least, and the lifetime of the counter in milliseconds.
func (c *Claim) Numbers(now time.Time) [8]int64 {
	l := c.Limit
	window, _ := l.WindowAt(now)
	return [...]int64{window, l.Tolerance(), l.Base, l.Max, l.Counted, c.Amount, c.Least, l.lifetime(window, now).Milliseconds()}
}

// StateNumbers is how many numbers a shared store returns for a claim.
const StateNumbers = 5

// ParseVerdict returns the verdict of a shared store that refused the claim with an index,
// or none (-1), and returned for each: used, held, window, generation, granted amount.
func ParseVerdict(refused int64, numbers []int64, claims []Claim) Verdict {
	v := Verdict{Refused: int(refused), States: make([]State, len(claims)), Grants: make([]Grant, len(claims))}
	for i, c := range claims {
		n := numbers[StateNumbers*i:]
		v.States[i] = State{Used: n[0], Held: n[1], Reset: c.Limit.ResetOf(n[2])}
		v.Grants[i] = Grant{Limit: c.Limit, Window: n[2], Lease: n[3], Amount: n[4]}
		if c.Limit.Window == 0 { // a new counter may have another number
			v.Grants[i].Window = 0
		}
	}
	return v
}
