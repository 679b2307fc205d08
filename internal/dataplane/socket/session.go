package socket

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/coder/websocket"

	"modelgate/internal/base/apierr"
)

// ending says how a session ends.
type ending struct {
	code   websocket.StatusCode // zero: without a close frame
	reason string
	event  []byte // sent to the client before; nil for none
	drop   bool   // the client is gone
}

// session is an open connection of a client.
type session struct {
	server   *Server
	client   *peer
	provider *peer // nil for responses
	// check returns why the client may not go on, nil if it may.
	check func() error
	// drain is called when the gateway begins to shut down, and stop when it shuts down now:
	// the session ends soon.
	drain, stop func()
	// fault returns the message that tells the client of an error, nil if its protocol has none.
	fault func(e *apierr.Error) []byte
	// tick is called at each check. Nil does nothing.
	tick func(now time.Time)

	ctx    context.Context // of everything that the session does
	cancel context.CancelCauseFunc
	drains chan struct{} // receives a token when the gateway begins to shut down
	ends   chan ending   // the first ending
	watch  sync.WaitGroup
}

// errEnded is the cause of the context of a session that has ended.
var errEnded = errors.New("the session has ended")

// newSession returns a session whose context ends with that of the handshake's request. It has
// nothing else of that context, which belongs to a connection of net/http.
func (s *Server) newSession(of context.Context) *session {
	one := &session{server: s, ends: make(chan ending, 1), drains: make(chan struct{}, 1)}
	one.ctx, one.cancel = context.WithCancelCause(context.Background())
	context.AfterFunc(of, func() { one.cancel(context.Cause(of)) })
	return one
}

// end ends the session, unless it ends already.
func (s *session) end(e ending) {
	select {
	case s.ends <- e:
	default:
	}
}

// start begins to watch the session, which is open.
func (s *session) start() {
	s.server.add(s)
	s.watch.Go(s.observe)
}

// finish ends everything of the session. The reading goroutine calls it.
func (s *session) finish() {
	s.cancel(errEnded)
	s.client.conn.CloseNow()
	if s.provider != nil {
		s.provider.conn.CloseNow()
	}
	s.watch.Wait()
	s.server.remove(s)
}

// observe watches the session until it ends.
func (s *session) observe() {
	var pings sync.WaitGroup
	defer pings.Wait()
	ticker := time.NewTicker(s.server.o.Check)
	defer ticker.Stop()
	for {
		select {
		case <-s.ctx.Done():
			s.stopFor(context.Cause(s.ctx))
			return
		case e := <-s.ends:
			s.close(e)
			return
		case <-s.drains:
			s.drain()
		case now := <-ticker.C:
			s.inspect(now, &pings)
		}
	}
}

// stopFor ends a session whose context has ended. A shutdown leaves it time for last words.
func (s *session) stopFor(cause error) {
	if cause == errEnded {
		return
	}
	s.stop()
	timer := time.NewTimer(lastWords)
	defer timer.Stop()
	select {
	case e := <-s.ends:
		s.close(e)
	case <-timer.C:
		s.close(restart)
	}
}

// restart is how sessions end when the gateway shuts down: clients connect again.
var restart = ending{code: websocket.StatusServiceRestart, reason: "the gateway is shutting down; connect again"}

// inspect ends the session if its client may not go on, or a peer is gone or accepts nothing.
func (s *session) inspect(now time.Time, pings *sync.WaitGroup) {
	o := &s.server.o
	if err := s.check(); err != nil {
		e := apierr.From(err)
		s.end(ending{code: websocket.StatusPolicyViolation, reason: closeReason(e.Message), event: s.fault(e)})
		return
	}
	if s.tick != nil {
		s.tick(now)
	}
	for _, p := range [...]*peer{s.client, s.provider} {
		switch {
		case p == nil:
		case p.stalled(now, o.Stall):
			s.end(s.endingFor(p))
		case p.silent(now, o.Ping):
			p.pinged.Store(true)
			pings.Go(func() {
				if !p.ping(o.Ping + o.Ping/4) {
					s.end(s.endingFor(p))
				}
			})
		}
	}
}

// endingFor returns the ending of a session whose peer p does not react.
func (s *session) endingFor(p *peer) ending {
	if p == s.client {
		return ending{drop: true}
	}
	e := apierr.New(apierr.UpstreamFailed, "the provider's connection no longer responds; connect again").
		WithCode("provider_unresponsive")
	return ending{code: websocket.StatusInternalError, reason: e.Message, event: s.fault(e)}
}

// close closes the client's connection, which ends what reads it.
func (s *session) close(e ending) {
	if e.drop {
		s.client.conn.CloseNow()
		s.cancel(errEnded)
		return
	}
	if e.event != nil {
		s.client.sendLast(e.event)
	}
	if e.code == 0 {
		s.client.conn.CloseNow()
	} else {
		s.client.conn.Close(e.code, e.reason)
	}
	s.cancel(errEnded)
}

// closeReason shortens a text to what a close frame holds.
func closeReason(text string) string {
	const most = 123 // https://www.rfc-editor.org/rfc/rfc6455#section-5.5
	if len(text) <= most {
		return text
	}
	return validPrefix(text, most-len("…")) + "…"
}

// validPrefix returns the longest prefix of at most n bytes that ends between characters.
func validPrefix(text string, n int) string {
	for n > 0 && text[n]&0xC0 == 0x80 {
		n--
	}
	return text[:n]
}
