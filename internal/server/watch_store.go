package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"modelgate/internal/apierr"
	"modelgate/internal/publication"
	"modelgate/internal/snapshot"
)

// poll is how often the store's revision is looked at, so that a change of
// another process counts within a second even where nothing tells of it.
const poll = 500 * time.Millisecond

// storeTimeout is how long the database may take to answer before it counts as away.
const storeTimeout = 5 * time.Second

// publishWait is how long the maker of a change waits at most for it to count on
// this node, so that what was made can be used with the next request. It takes
// milliseconds, except for very large installations.
const publishWait = time.Second

// storeWatcher hands the goroutine that follows the store what it is to look at.
// The zero value is not ready: see newFollower.
type storeWatcher struct {
	signal chan struct{} // holds one token

	mu      sync.Mutex
	running bool            // guarded by mu, as is all below
	waiting []chan struct{} // of who wait for the next look
}

func newFollower() *storeWatcher { return &storeWatcher{signal: make(chan struct{}, 1)} }

// wake asks for a look.
func (f *storeWatcher) wake() {
	select {
	case f.signal <- struct{}{}:
	default: // asked for already
	}
}

// poll asks for a look and returns a channel that is closed when one that began
// later has ended. It is nil when nobody follows.
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

// run says whether somebody follows.
func (f *storeWatcher) run(running bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running = running
}

// take returns who wait for the look that is about to begin.
func (f *storeWatcher) take() []chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	waiting := f.waiting
	f.waiting = nil
	return waiting
}

// storeChanged makes a change of the control plane count on this node. It waits
// a little for that.
func (s *Server) storeChanged() {
	done := s.follower.poll()
	if done == nil {
		s.catchUp(context.Background())
		return
	}
	t := time.NewTimer(publishWait)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}

// watchStore publishes what this and other processes write to the store, until ctx
// ends: at once when it is told, and by looking now and then.
func (s *Server) watchStore(ctx context.Context) {
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(func() { s.store.Listen(ctx, s.follower.wake) })
	parts.Go(func() { s.writeStateCopies(ctx) })
	parts.Go(func() { s.renew(ctx) })
	parts.Go(func() { s.sendAudits(ctx) })
	parts.Go(func() { s.pruneAudits(ctx) })
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
		if s.holder.Load() != before { // a burst of changes takes no more than half of the time
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

// catchUp looks once, and says when the database goes away and comes back.
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
		s.Logger.Info("the database can be reached again")
	}
	s.metrics.followed(err, away)
	if err != nil && !away {
		s.Logger.Error("snapshot rebuild failed; keeping the previous snapshot", "err", err.Error())
	}
}

// unavailable reports whether an error is that of a database that is away.
func unavailable(err error) bool {
	e, ok := errors.AsType[*apierr.Error](err)
	return ok && e.Kind == apierr.Unavailable
}

// refresh publishes the state of the store, if it is another one than that of
// the current snapshot.
func (s *Server) refresh(ctx context.Context) error {
	if !s.store.Ready() { // it was away at the start
		bounded, cancel := context.WithTimeout(ctx, migrating)
		defer cancel()
		if _, err := s.store.Migrate(bounded); err != nil {
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

// warnDangling logs configs of the settings whose provider entry is gone since
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
			s.Logger.Warn("provider entry of a config in the settings is gone; a start or a reload refuses this file", "config", s.Config, "err", err.Error())
		}
	}
}

// How long the database may take for what is large.
const (
	migrating = 5 * time.Minute
	reading   = time.Minute
)
