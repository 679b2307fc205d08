// Package breaker keeps a store that fails from holding up requests.
//
// A [Breaker] gives each call a deadline. After five failures in a row it lets one
// call a second through until one succeeds. What happens instead of a call is the
// caller's business. It has nothing to do with the circuit breakers of targets (see
// pipeline).
package breaker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// ErrUnavailable is the error of a call that failed, was too slow, or was not made
// because earlier ones failed.
var ErrUnavailable = errors.New("the store is unavailable")

// Failures is the number of failures in a row after which the store is not called,
// and Pause how long until one call tests it.
const (
	Failures = 5
	Pause    = time.Second
)

// Breaker guards calls of one store. It is safe for concurrent use; fields must not
// change once it is used.
type Breaker struct {
	Name   string       // of the store, begins messages of the log
	Effect string       // what happens while the store is not called, for the log
	Logger *slog.Logger // nil is silent

	failures atomic.Int32
	closed   atomic.Int64 // unix nanoseconds until which the store is not called; zero if it works
	probing  atomic.Bool

	calls, failed, skipped atomic.Int64
}

// Stats count the calls of a store.
type Stats struct {
	Calls, Failed, Skipped int64
	Open                   bool // the store is not called
}

// Stats returns the counts since the start.
func (b *Breaker) Stats() Stats {
	return Stats{b.calls.Load(), b.failed.Load(), b.skipped.Load(), b.closed.Load() != 0}
}

// Call calls the store with a deadline. The end of ctx does not end the call, so that
// a client may leave without a failure. Errors are [ErrUnavailable].
func (b *Breaker) Call(ctx context.Context, deadline time.Duration, f func(context.Context) error) error {
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
			b.Logger.Info(b.Name + " available")
		}
		b.probing.Store(false)
		return
	}
	b.failed.Add(1)
	if b.failures.Add(1) < Failures {
		return
	}
	if b.closed.Swap(time.Now().Add(Pause).UnixNano()) == 0 && b.Logger != nil {
		b.Logger.Warn(b.Name+" unavailable; "+b.Effect, "err", err.Error())
	}
	b.probing.Store(false)
}
