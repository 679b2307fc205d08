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

	mu       sync.Mutex
	ends     bool           // has begun to end; guarded by mu
	finished bool           // nothing may be begun any more; guarded by mu
	tasks    sync.WaitGroup // what runs in addition to the goroutines that read
}

// errEnded is the cause of the context of a session that has ended.
var errEnded = errors.New("the session has ended")

// newSession returns a session whose context ends with that of the handshake's request. It has
// nothing else of that context, which belongs to a connection of net/http.
func (s *Server) newSession(of context.Context) *session {
	one := &session{server: s}
	one.ctx, one.cancel = context.WithCancelCause(context.Background())
	context.AfterFunc(of, func() { one.cancel(context.Cause(of)) })
	return one
}

// end ends the session, unless it ends already.
func (s *session) end(e ending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ends {
		s.ends = true
		s.launch(func() { s.close(e) })
	}
}

// do runs f next to the session, unless the session has finished. Idle sessions have no goroutine
// for that.
func (s *session) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.launch(f)
}

// launch runs f as do does, for a caller that holds mu.
func (s *session) launch(f func()) {
	if !s.finished {
		s.tasks.Go(f)
	}
}

// start begins to watch the session, which is open.
func (s *session) start() {
	context.AfterFunc(s.ctx, func() { s.do(func() { s.stopFor(context.Cause(s.ctx)) }) })
	s.server.add(s)
}

// finish ends everything of the session. The reading goroutine calls it.
func (s *session) finish() {
	s.cancel(errEnded)
	s.client.conn.CloseNow()
	if s.provider != nil {
		s.provider.conn.CloseNow()
	}
	s.mu.Lock()
	s.finished = true
	s.mu.Unlock()
	s.tasks.Wait()
	s.server.remove(s)
}

// stopFor ends a session whose context has ended. A shutdown leaves it time for last words.
func (s *session) stopFor(cause error) {
	if cause == errEnded {
		return
	}
	time.AfterFunc(lastWords, func() { s.end(restart) })
	s.stop()
}

// restart is how sessions end when the gateway shuts down: clients connect again.
var restart = ending{code: websocket.StatusServiceRestart, reason: "the gateway is shutting down; connect again"}

// inspect ends the session if its client may not go on, or a peer is gone or accepts nothing.
func (s *session) inspect(now time.Time) {
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
			s.do(func() {
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
