package caching

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"modelgate/internal/cache/respcache"
)

// flights are the calls in progress whose responses may be shared, by key and by
// generation: a response that was invalidated while it was made is not shared with
// requests that come later. The zero value is empty; it is safe for concurrent use.
type flights struct {
	mu    sync.Mutex
	open  map[flightKey]*flight // guarded by mu
	ended [256]atomic.Uint64    // flights that nobody can join any more, by the first byte of the key
}

type flightKey struct {
	key        respcache.Key
	generation int64
}

// endedOf returns a number that changes when a flight of the key ends. It may change
// for other reasons too.
func (s *flights) endedOf(key respcache.Key) uint64 { return s.ended[key[0]].Load() }

// join returns the flight of a key and generation, of which the caller is now a user. first is
// true if the caller began it, and must call its provider. If there is none and one
// may have ended since the caller read ended with endedOf, join returns nil: its
// response may be stored by now.
func (s *flights) join(key respcache.Key, generation int64, ended uint64) (f *flight, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := flightKey{key, generation}
	if f = s.open[at]; f != nil && f.enter() {
		return f, false
	}
	if s.endedOf(key) != ended {
		return nil, false
	}
	f = newFlight(generation)
	f.forget = func() { s.forget(at, f) }
	if s.open == nil {
		s.open = make(map[flightKey]*flight)
	}
	s.open[at] = f
	return f, true
}

// forget makes further requests begin a flight of their own.
func (s *flights) forget(at flightKey, f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended[at.key[0]].Add(1)
	if s.open[at] == f {
		delete(s.open, at)
	}
}

// flight is a call whose response is sent to one or several clients. The request
// that began it waits until the call has ended, even if its own client has
// left, so that its attempts are recorded and paid by one request.
type flight struct {
	forget func()
	ended  chan struct{} // closed once response is set, or the call failed

	generation int64 // of invalidations when it began

	question *question // of the request that began it; nil if it is not compared

	response *sharedResponse // nil if the call failed: each user calls by itself

	mu     sync.Mutex
	users  int  // guarded by mu, as are the fields below
	over   bool // nobody may join
	ready  bool // the call is complete, which no user can end any more
	finish bool // the call goes on without users
	cancel context.CancelCauseFunc
}

func newFlight(generation int64) *flight {
	return &flight{generation: generation, forget: func() {}, ended: make(chan struct{}), users: 1}
}

// enter adds a user, unless the flight has been cancelled or is too long to be
// shared.
func (f *flight) enter() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return false
	}
	f.users++
	return true
}

// begin returns the context of the call, which ends when its last user has
// left.
func (f *flight) begin(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cancel = cancel
	return ctx
}

// leave removes a user for a reason, nil after the complete response. A reason
// other than a client that disconnected, such as a shutdown, ends the call for
// everyone.
func (f *flight) leave(reason error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.users--
	if f.ready {
		return
	}
	everyone := reason != nil && !errors.Is(reason, context.Canceled)
	if !everyone && (f.users > 0 || f.finish) {
		return
	}
	f.over = true
	if f.cancel != nil {
		f.cancel(reason)
	}
}

// complete records that the call has ended. Others may join until close.
func (f *flight) complete() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ready = true
	if f.users == 0 {
		f.over = true
	}
}

// close keeps others from joining.
func (f *flight) close() {
	f.mu.Lock()
	f.over = true
	f.mu.Unlock()
	f.forget()
}

// publish shares the response, nil for a failure.
func (f *flight) publish(s *sharedResponse) {
	f.response = s
	if s == nil {
		f.close()
	}
	close(f.ended)
}

// user is one request's part in a flight.
type user struct {
	f    *flight
	once sync.Once
	stop func() bool
}

// watch returns a user that leaves when ctx ends.
func (f *flight) watch(ctx context.Context) *user {
	u := &user{f: f}
	u.stop = context.AfterFunc(ctx, func() { u.leave(context.Cause(ctx)) })
	return u
}

func (u *user) leave(reason error) { u.once.Do(func() { u.f.leave(reason) }) }

// end ends the user's part.
func (u *user) end() {
	u.stop()
	u.leave(nil)
}
