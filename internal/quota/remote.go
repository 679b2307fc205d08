package quota

import (
	"context"
	"log/slog"
	"time"
)

// Calls are the calls of a store that several gateways share.
type Calls struct {
	// Reserve reserves like [Store.Reserve], and returns grants also if a claim is refused. A
	// claim of nothing changes nothing.
	Reserve func(ctx context.Context, now time.Time, claims []Claim) (Verdict, error)
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
	emptied     chan struct{} // receives a token when what the ledger has counted is missing
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

// Stop sends the remaining settlements.
func (r *Remote) Stop() { r.settlements.Close() }

// Probe checks that the store answers, and compares the clocks.
func (r *Remote) Probe(ctx context.Context) error {
	_, err := r.Calls.Reserve(ctx, r.Clock.Adjust(time.Now()), nil)
	return err
}

// Reserve implements [Store].
func (r *Remote) Reserve(ctx context.Context, now time.Time, claims []Claim) (Verdict, error) {
	v, err := r.Calls.Reserve(ctx, r.Clock.Adjust(now), claims)
	if v.Refused >= 0 {
		v.Grants = nil
	}
	return v, err
}

// Read implements [Store].
func (r *Remote) Read(ctx context.Context, now time.Time, limits []*Limit) ([]State, error) {
	claims := make([]Claim, len(limits))
	for i, l := range limits {
		claims[i].Limit = l
	}
	v, err := r.Calls.Reserve(ctx, r.Clock.Adjust(now), claims)
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

// Latest returns the store's time, in microseconds, after which nobody waits for a call
// with ctx; zero if it has no deadline.
func (r *Remote) Latest(ctx context.Context) int64 {
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
	return [...]int64{window, l.Tolerance(), l.Base, l.Max, l.Counted, c.Amount, c.Least, l.Lifetime(window, now).Milliseconds()}
}

// StateNumbers is how many numbers a shared store answers to a claim.
const StateNumbers = 5

// ParseVerdict returns the verdict of a shared store that refused the claim with an index,
// or none (-1), and answered to each: used, held, window, generation, granted amount.
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
