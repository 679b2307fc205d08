package quota

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// ErrUnavailable is the error of a store that cannot decide: it failed, was too
// slow, or is not called because it failed before.
var ErrUnavailable = errors.New("the store of limit counters is unavailable")

// DefaultDeadline is how long a request waits for a shared store.
const DefaultDeadline = 50 * time.Millisecond

const (
	breakerFailures = 5           // consecutive failures until the store is not called
	breakerPause    = time.Second // until one call tests it

	// correctDeadline is the deadline of corrections, for which no request waits.
	correctDeadline = 5 * time.Second
)

// Breaker is a [Store] that gives each call of another store a deadline, and stops
// calling a store that fails: after five failures in a row it is called once a
// second until it succeeds. Its errors are [ErrUnavailable]. Settlements are
// passed on, as they do not wait.
type Breaker struct {
	Store    Store
	Deadline time.Duration // zero means [DefaultDeadline]
	Logger   *slog.Logger  // nil is silent

	failures atomic.Int32
	closed   atomic.Int64 // unix nanoseconds until which the store is not called; zero if it works
	probing  atomic.Bool

	calls, failed, skipped atomic.Int64
}

var _ Store = (*Breaker)(nil)

// BreakerStats count the calls of a store.
type BreakerStats struct {
	Calls, Failed, Skipped int64
	Open                   bool // the store is not called
}

// Stats returns the counts since the start.
func (b *Breaker) Stats() BreakerStats {
	return BreakerStats{b.calls.Load(), b.failed.Load(), b.skipped.Load(), b.closed.Load() != 0}
}

// call calls the store with a deadline. The end of ctx does not end the call: a
// reservation whose client has gone would be lost in the store.
func (b *Breaker) call(ctx context.Context, deadline time.Duration, f func(context.Context) error) error {
	if !b.allow() {
		b.skipped.Add(1)
		return ErrUnavailable
	}
	b.calls.Add(1)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deadline)
	defer cancel()
	err := f(ctx)
	b.record(err)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

func (b *Breaker) deadline() time.Duration {
	if b.Deadline == 0 {
		return DefaultDeadline
	}
	return b.Deadline
}

// allow reports whether the store is called. While it fails, one call at a time
// tests it.
func (b *Breaker) allow() bool {
	until := b.closed.Load()
	if until == 0 {
		return true
	}
	return time.Now().UnixNano() >= until && b.probing.CompareAndSwap(false, true)
}

func (b *Breaker) record(err error) {
	if err == nil {
		b.failures.Store(0)
		if b.closed.Swap(0) != 0 && b.Logger != nil {
			b.Logger.Info("limit counters available")
		}
		b.probing.Store(false)
		return
	}
	b.failed.Add(1)
	if b.failures.Add(1) < breakerFailures {
		return
	}
	if b.closed.Swap(time.Now().Add(breakerPause).UnixNano()) == 0 && b.Logger != nil {
		b.Logger.Warn("limit counters unavailable; each limit's on_store_down applies", "err", err.Error())
	}
	b.probing.Store(false)
}

// Reserve implements [Store].
func (b *Breaker) Reserve(ctx context.Context, now time.Time, claims []Claim) (v Verdict, err error) {
	err = b.call(ctx, b.deadline(), func(ctx context.Context) (err error) {
		v, err = b.Store.Reserve(ctx, now, claims)
		return err
	})
	return v, err
}

// Settle implements [Store].
func (b *Breaker) Settle(now time.Time, grants []Grant, u Use) { b.Store.Settle(now, grants, u) }

// Read implements [Store].
func (b *Breaker) Read(ctx context.Context, now time.Time, limits []*Limit) (states []State, err error) {
	err = b.call(ctx, b.deadline(), func(ctx context.Context) (err error) {
		states, err = b.Store.Read(ctx, now, limits)
		return err
	})
	return states, err
}

// Correct implements [Store].
func (b *Breaker) Correct(ctx context.Context, list []Correction) error {
	return b.call(ctx, max(b.deadline(), correctDeadline), func(ctx context.Context) error { return b.Store.Correct(ctx, list) })
}
