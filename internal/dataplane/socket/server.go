// Package socket serves WebSocket connections of clients that the data plane has admitted.
//
// A connection for responses carries requests and the events of their streams: each turn is
// served as a request of its own by what the data plane passes in. A relayed connection is
// joined with one to the provider, and messages pass in both directions unchanged.
//
// It guarantees that a session ends when its client may not go on, when a peer is gone, and
// when the gateway drains; that memory does not grow with a client that reads slowly; and
// that a session ends with a close code that tells the client what to do. It does not
// authenticate, choose providers or record: the data plane does.
package socket

import (
	"context"
	"sync"
	"time"

	"github.com/coder/websocket"

	"modelgate/internal/base/apierr"
)

// Options configures a [Server]. The zero value works.
type Options struct {
	// Ping is the silence after which a peer is asked whether it is there. It has as long
	// again, and a quarter, to answer. Default 20 s.
	Ping time.Duration
	// Check is the interval at which the right to go on is checked. Default 1 s.
	Check time.Duration
	// Stall is how long a peer may take to accept a message. Default 1 minute.
	Stall time.Duration
	// Lifetime is how long a connection for responses accepts turns. Default 60 minutes.
	Lifetime time.Duration
	// MaxSessions is the limit of open sessions. Default 10,000.
	MaxSessions int
}

// Server holds the open sessions. It is safe for concurrent use.
type Server struct {
	o Options

	mu       sync.Mutex
	sessions map[*session]struct{} // guarded by mu
	draining bool                  // guarded by mu
	watching bool                  // a goroutine watches the sessions; guarded by mu
	ended    sync.Cond             // a session has ended; with mu
}

// New returns a server without sessions.
func New(o Options) *Server {
	o.Ping = or(o.Ping, 20*time.Second)
	o.Check = or(o.Check, time.Second)
	o.Stall = or(o.Stall, time.Minute)
	o.Lifetime = or(o.Lifetime, time.Hour)
	o.MaxSessions = or(o.MaxSessions, 10_000)
	s := &Server{o: o, sessions: map[*session]struct{}{}}
	s.ended.L = &s.mu
	return s
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// Sessions returns the number of open sessions.
func (s *Server) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

// Drain refuses new sessions, tells those that are relayed that the gateway shuts down, and
// closes connections for responses as soon as no turn is in progress.
func (s *Server) Drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	for one := range s.sessions {
		one.do(one.drain)
	}
}

// Wait waits until no session is open. It returns the error of ctx if that ends first.
func (s *Server) Wait(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended.Broadcast()
	})
	defer stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.sessions) > 0 && ctx.Err() == nil {
		s.ended.Wait()
	}
	if len(s.sessions) == 0 {
		return nil
	}
	return ctx.Err()
}

// admit returns the error of a session that cannot begin.
func (s *Server) admit() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.checkRoom()
}

// checkRoom returns the error of a session for which there is no room. The caller holds mu.
func (s *Server) checkRoom() error {
	switch {
	case s.draining:
		return shuttingDown()
	case len(s.sessions) >= s.o.MaxSessions:
		e := apierr.New(apierr.Unavailable, "the gateway has reached its limit of WebSocket connections; try again shortly").
			WithCode("overloaded")
		e.RetryAfter = time.Second
		return e
	}
	return nil
}

func shuttingDown() *apierr.Error {
	e := apierr.New(apierr.Unavailable, "the gateway is shutting down; connect again").WithCode("shutting_down")
	e.RetryAfter = time.Second
	return e
}

// add adds a session that has been accepted. If there is no room any more, or a drain has
// begun since, the session ends at once.
func (s *Server) add(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining:
		one.end(restart)
	case s.checkRoom() != nil:
		one.end(ending{code: websocket.StatusTryAgainLater, reason: "the gateway has no room for the session"})
	}
	s.sessions[one] = struct{}{}
	if !s.watching {
		s.watching = true
		go s.watch()
	}
}

// watch inspects the sessions at each interval, until there are none.
func (s *Server) watch() {
	ticker := time.NewTicker(s.o.Check)
	defer ticker.Stop()
	for now := range ticker.C {
		list := s.open()
		if list == nil {
			return
		}
		for _, one := range list {
			one.inspect(now)
		}
	}
}

// open returns the sessions to watch, nil if there are none.
func (s *Server) open() (list []*session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for one := range s.sessions {
		list = append(list, one)
	}
	s.watching = list != nil
	return list
}

func (s *Server) remove(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, one)
	s.ended.Broadcast()
}
