package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"modelgate/internal/dataplane"
	"modelgate/internal/limits/inflight"
	"modelgate/internal/server/outbox"
	"modelgate/internal/settings"
)

// lastWords is how long requests have to send an in-band error after the drain.
const lastWords = 2 * time.Second

// Run serves until ctx ends, then drains: for drain.min it stays reachable but not
// ready, then it accepts no new connections and lets open requests continue until
// drain.max, then it ends the rest with an error in the client's dialect. If now is
// closed it stops at once. Everything recorded is written before Run returns.
func (s *Server) Run(ctx context.Context, now <-chan struct{}) error {
	failed := make(chan error, 2)
	start := func(srv *http.Server, serve func() error) {
		if srv == nil {
			return
		}
		go func() {
			if err := serve(); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		}()
	}
	start(s.api, s.serveListener)
	start(s.admin, func() error { return s.admin.Serve(s.adminAddr) })

	watching, stopWatching := context.WithCancel(context.Background())
	var watched sync.WaitGroup
	for _, task := range s.tasks() {
		watched.Go(func() { task(watching) })
	}
	working, stopJobs := context.WithCancel(watching)
	defer stopJobs()
	watched.Go(func() { s.jobs.Run(working) })
	watched.Go(func() { s.kept.Run(working) })
	if s.exports != nil {
		watched.Go(func() { s.exports.Run(working) })
	}
	watched.Go(func() { s.webhooks.Run(working) })
	s.ready.Store(true)

	var err error
	select {
	case <-ctx.Done():
	case <-now:
	case err = <-failed:
		err = fmt.Errorf("serving: %w", err)
	}
	stopJobs() // other nodes, or the next start, run them again
	s.shutDown(now)
	stopWatching()
	watched.Wait()
	last, stop := context.WithTimeout(context.Background(), lastWords)
	defer stop()
	s.minute(last, true)
	return errors.Join(err, s.Close())
}

// tasks returns what runs next to the listeners. Each task runs until its context ends.
func (s *Server) tasks() []func(context.Context) {
	out := outbox.Outbox{
		Store: s.store, Settings: func() *settings.Settings { return s.current().settings }, Client: s.engine.Client, Dial: s.dial,
		Logger: s.Logger, CountAlerts: count(s.metrics.alertsSent), CountAudits: count(s.metrics.auditsSent),
	}
	return []func(context.Context){
		s.watchSettings, s.watchStore, s.listenToStore, s.writeStateCopies, s.renew,
		s.runEveryMinute, s.readHolds, s.pruneAudits, s.toolUsers.Run, out.Run, s.prices.Run, s.releaseMemory, inflight.NewGovernor(s.gate).Run,
	}
}

// runEveryMinute runs what is due by time, and counts spending again after the counters
// were lost, until ctx ends.
func (s *Server) runEveryMinute(ctx context.Context) {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	unused := unusedCounters{snapshot: &s.holder, counters: s.engine.Quota, db: s.store, logger: s.Logger}
	s.markEnded(ctx, time.Now())
	s.touchDeployment(ctx, time.Now())
	s.spender.tick(ctx, time.Now())
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.markEnded(ctx, time.Now())
			s.minute(ctx, false)
			s.touchDeployment(ctx, time.Now())
			s.spender.tick(ctx, time.Now())
			unused.remove(ctx, time.Now())
		case <-s.counters.emptied():
			s.spender.refill(ctx)
		}
	}
}

// minute runs the control plane's tasks.
func (s *Server) minute(ctx context.Context, last bool) {
	s.store.KeepReserve()
	if err := s.control.Minute(ctx, time.Now(), last); err != nil && ctx.Err() == nil {
		s.Logger.Error("control-plane task failed", "err", err.Error())
	}
}

// serveListener serves the API, with TLS if configured.
func (s *Server) serveListener() error {
	if s.certificates != nil {
		return s.api.ServeTLS(s.apiAddr, "", "")
	}
	return s.api.Serve(s.apiAddr)
}

func (s *Server) shutDown(now <-chan struct{}) {
	began := time.Now()
	s.ready.Store(false)
	s.draining.Store(true)
	s.tail.Close() // subscribers would outlast every drain
	s.Logger.Info("draining", "min", s.first.Drain.Min.Or(0).String(), "max", s.drainMax().String())
	wait(s.first.Drain.Min.Or(0), now)

	ctx, cancel := context.WithTimeout(context.Background(), s.drainMax())
	defer cancel()
	done := make(chan error, 1)
	s.sockets.Drain()
	s.toolServers.Drain()
	go func() { done <- errors.Join(s.api.Shutdown(ctx), s.sockets.Wait(ctx)) }()
	select {
	case err := <-done:
		if err != nil {
			s.endRequests()
		}
	case <-now:
		s.endRequests()
		cancel()
		<-done
	}
	s.api.Close()
	s.serving.wait(lastWords) // connections are closed: handlers end and record
	ended, stop := context.WithTimeout(context.Background(), lastWords)
	defer stop()
	s.requests.Wait(ended) // checks that did not delay their requests
	s.toolPeers.Close()
	if s.admin != nil {
		s.admin.Close()
	}
	s.Logger.Info("drained", "took", time.Since(began).String())
}

func (s *Server) drainMax() time.Duration { return s.first.Drain.Max.Or(30 * time.Second) }

// endRequests sends open requests an in-band error.
func (s *Server) endRequests() {
	s.Logger.Warn("drain timeout; aborting open requests")
	s.end(dataplane.ErrShutdown)
	ctx, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	s.api.Shutdown(ctx)
}

// inFlight counts the requests being served.
type inFlight struct {
	n    atomic.Int64
	none chan struct{} // receives a token when n becomes zero
}

func newCrowd() *inFlight { return &inFlight{none: make(chan struct{}, 1)} }

func (c *inFlight) join() { c.n.Add(1) }

func (c *inFlight) leave() {
	if c.n.Add(-1) > 0 {
		return
	}
	select {
	case c.none <- struct{}{}:
	default:
	}
}

// wait waits up to d until no requests are left.
func (c *inFlight) wait(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	for c.n.Load() > 0 {
		select {
		case <-c.none: // may be an old token
		case <-t.C:
			return
		}
	}
}

func wait(d time.Duration, now <-chan struct{}) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-now:
	}
}
