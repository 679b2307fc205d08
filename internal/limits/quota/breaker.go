package quota

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"modelgate/internal/storage/breaker"
)

// ErrUnavailable is the error of a store that cannot decide: it failed, was too
// slow, or is not called because it failed before.
var ErrUnavailable = breaker.ErrUnavailable

// DefaultDeadline is how long a request waits for a shared store.
const DefaultDeadline = 50 * time.Millisecond

// correctDeadline is the deadline of corrections, for which no request waits.
const correctDeadline = 5 * time.Second

// Breaker is a [Store] that gives each call of another store a deadline, and stops
// calling a store that fails; see [breaker.Breaker]. A reservation whose client has
// gone is made all the same, as it would be lost in the store. Its errors are
// [ErrUnavailable]. Settlements are passed on, as they do not wait.
type Breaker struct {
	Store    Store
	Deadline time.Duration // zero means [DefaultDeadline]
	Logger   *slog.Logger  // nil is silent

	once  sync.Once
	calls breaker.Breaker // use guard
}

var _ Store = (*Breaker)(nil)

// guard returns what guards the calls.
func (b *Breaker) guard() *breaker.Breaker {
	b.once.Do(func() {
		b.calls.Name, b.calls.Effect, b.calls.Logger = "limit counters", "each limit's on_store_down applies", b.Logger
	})
	return &b.calls
}

// Stats returns the counts since the start.
func (b *Breaker) Stats() breaker.Stats { return b.guard().Stats() }

func (b *Breaker) deadline() time.Duration {
	if b.Deadline == 0 {
		return DefaultDeadline
	}
	return b.Deadline
}

// Reserve implements [Store].
func (b *Breaker) Reserve(ctx context.Context, now time.Time, claims []Claim) (v Verdict, err error) {
	err = b.guard().Call(ctx, b.deadline(), func(ctx context.Context) (err error) {
		v, err = b.Store.Reserve(ctx, now, claims)
		return err
	})
	return v, err
}

// Settle implements [Store].
func (b *Breaker) Settle(now time.Time, grants []Grant, u Use) { b.Store.Settle(now, grants, u) }

// Read implements [Store].
func (b *Breaker) Read(ctx context.Context, now time.Time, limits []*Limit) (states []State, err error) {
	err = b.guard().Call(ctx, b.deadline(), func(ctx context.Context) (err error) {
		states, err = b.Store.Read(ctx, now, limits)
		return err
	})
	return states, err
}

// Correct implements [Store].
func (b *Breaker) Correct(ctx context.Context, list []Correction) error {
	return b.guard().Call(ctx, max(b.deadline(), correctDeadline), func(ctx context.Context) error { return b.Store.Correct(ctx, list) })
}
