package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/snapshot"
	"modelgate/internal/store"
	"modelgate/internal/store/publication"
)

// poll is the interval of checking the store's revision, so that a change of another
// process is applied within a second even without notifications.
const poll = 500 * time.Millisecond

// storeTimeout is how long the database may take to respond before it counts as
// unavailable.
const storeTimeout = 5 * time.Second

// publishWait is how long a change waits for being published on this node, so that its
// result can be used with the next request. This takes milliseconds except in very
// large installations.
const publishWait = time.Second

// storeWatcher passes requests for checks to the goroutine that watches the store. The
// zero value is not ready; see newFollower.
type storeWatcher struct {
	signal chan struct{} // holds one token

	mu      sync.Mutex
	running bool            // guarded by mu, like the following fields
	waiting []chan struct{} // of callers that wait for the next check
}

func newFollower() *storeWatcher { return &storeWatcher{signal: make(chan struct{}, 1)} }

// wake requests a check.
func (f *storeWatcher) wake() {
	select {
	case f.signal <- struct{}{}:
	default: // already requested
	}
}

// poll requests a check and returns a channel that is closed when a check that began
// later has ended. It is nil if the store is not watched.
func (f *storeWatcher) poll() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.running {
		return nil
	}
	done := make(chan struct{})
	f.waiting = append(f.waiting, done)
	f.wake()
	return done
}

// run sets whether the store is watched.
func (f *storeWatcher) run(running bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running = running
}

// take returns the callers that wait for the check about to begin.
func (f *storeWatcher) take() []chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	waiting := f.waiting
	f.waiting = nil
	return waiting
}

// storeChanged publishes a change of the control plane on this node, and waits a little
// for that. It returns the time within which the other nodes of the database apply the
// change, and zero if there can be no others.
func (s *Server) storeChanged() time.Duration {
	began := time.Now()
	if done := s.follower.poll(); done == nil {
		s.catchUp(context.Background())
	} else {
		t := time.NewTimer(publishWait)
		defer t.Stop()
		select {
		case <-done:
		case <-t.C:
		}
	}
	if !s.store.Remote() {
		return 0
	}
	return propagationTime(time.Since(began))
}

// propagationTime returns the time within which a node that misses the notification of a
// change has applied it, in seconds: it polls, and then it may take twice as long as this
// node took.
func propagationTime(took time.Duration) time.Duration {
	return (poll + 2*took + time.Second - 1).Truncate(time.Second)
}

// reportListening logs when notifications of other nodes' changes stop and when they
// arrive again.
func (s *Server) reportListening(err error) {
	down := err != nil
	switch was := s.deaf.Swap(down); {
	case down && !was:
		s.Logger.Warn("notifications of changes stopped; polling the database twice a second", "err", err.Error())
	case was && !down:
		s.Logger.Info("notifications of changes recovered")
	}
	s.metrics.listening(!down)
}

// listenToStore requests a check when another process changed the store, until ctx ends.
func (s *Server) listenToStore(ctx context.Context) {
	s.store.Listen(ctx, store.Listener{Changed: s.follower.wake, Listening: s.reportListening})
}

// watchStore publishes changes of this and other processes until ctx ends: at once when
// notified, and by polling.
func (s *Server) watchStore(ctx context.Context) {
	s.follower.run(true)
	defer func() {
		s.follower.run(false)
		release(s.follower.take())
	}()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.follower.signal:
		case <-tick.C:
		}
		began, before := time.Now(), s.holder.Load()
		waiting := s.follower.take()
		s.catchUp(ctx)
		release(waiting)
		if s.holder.Load() != before { // a burst of changes takes at most half of the time
			pause(ctx, min(time.Since(began), 100*time.Millisecond))
		}
	}
}

func release(waiting []chan struct{}) {
	for _, c := range waiting {
		close(c)
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// catchUp checks once, and logs when the database becomes unavailable and when it
// recovers.
func (s *Server) catchUp(ctx context.Context) {
	err := s.refresh(ctx)
	if err == nil {
		s.writeUses(ctx)
	}
	if ctx.Err() != nil {
		return
	}
	away := unavailable(s.store.ClientError(err))
	switch was := s.away.Swap(away); {
	case away && !was:
		s.Logger.Warn("database unreachable; serving the last known state read-only", "err", err.Error())
	case was && err == nil:
		s.Logger.Info("database connection recovered")
	}
	s.metrics.followed(err, away)
	if err != nil && !away {
		s.Logger.Error("snapshot rebuild failed; keeping the previous snapshot", "err", err.Error())
	}
}

// unavailable reports whether an error means that the database is unavailable.
func unavailable(err error) bool {
	e, ok := errors.AsType[*apierr.Error](err)
	return ok && e.Kind == apierr.Unavailable
}

// refresh publishes the state of the store if it differs from the current snapshot's.
func (s *Server) refresh(ctx context.Context) error {
	if !s.store.Ready() { // unavailable at the start
		bounded, cancel := context.WithTimeout(ctx, migrating)
		defer cancel()
		if err := s.migrate(bounded); err != nil {
			return err
		}
	}
	look, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	revision, err := s.store.Revision(look)
	if err != nil {
		return err
	}
	before := s.current().stored
	if before != nil && before.Revision == revision {
		return nil
	}
	read, cancel := context.WithTimeout(ctx, reading)
	defer cancel()
	stored, err := publication.Load(read, s.store, before)
	if err != nil {
		return err
	}
	if err := s.publish(nil, stored); err != nil {
		return err
	}
	s.copy.put(stored)
	return nil
}

// warnDangling logs configs of the settings whose managed provider was removed since
// the current snapshot was built.
func (s *Server) warnDangling(next *snapshot.Snapshot) {
	known := make(map[string]bool)
	if now := s.holder.Load(); now != nil {
		for _, err := range now.Dangling {
			known[err.Error()] = true
		}
	}
	for _, err := range next.Dangling {
		if !known[err.Error()] {
			s.Logger.Warn("provider of a config in the settings was removed; a start or a reload rejects this file", "config", s.Config, "err", err.Error())
		}
	}
}

// Time limits of the database for large operations.
const (
	migrating = 5 * time.Minute
	reading   = time.Minute
)
