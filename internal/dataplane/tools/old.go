package tools

import (
	"context"
	"crypto/rand"
	"net/http"
	"sync"
)

// oldStream is the stream of a client with the transport of the revision 2024-11-05: its messages
// are requests of their own, and all responses come on the stream.
// https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse
type oldStream struct {
	caller, slug string
	answer       *answer
	ended        context.Context // when the client leaves

	mu    sync.Mutex
	token *token // nil until the session is initialized
	once  sync.Once
	begun chan struct{} // closed once the client knows of its session
}

// oldSession is the parameter of the address that names the session of a message.
const oldSession = "sessionId"

// keep keeps the session that the client initializes, for its next message. The caller calls begin
// once the client has been answered: what servers send by themselves comes after that.
func (s *oldStream) keep(t *token) (begin func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = t
	return func() { s.once.Do(func() { close(s.begun) }) }
}

// session returns the session, nil before it is initialized.
func (s *oldStream) session() *token {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.token
}

// serveOldStream opens a stream and serves it until the client leaves.
func serveOldStream(x *request) error {
	caller := callerOf(x.tools.Identity)
	leave, ok := x.running.enter(caller)
	if !ok {
		return errStreams
	}
	defer func() { leave() }()
	if err := x.tools.Count(x.http.Context()); err != nil {
		return err
	}
	s := &oldStream{caller: caller, slug: x.tools.Slug, answer: x.answer, ended: x.http.Context(), begun: make(chan struct{})}
	id := x.running.addOldStream(s)
	defer x.running.removeOldStream(id)
	if err := x.answer.sendEndpoint("?" + oldSession + "=" + id); err != nil {
		return err
	}
	select {
	case <-s.begun:
	case <-x.draining:
		x.answer.close()
		return nil
	case <-s.ended.Done():
		x.answer.close()
		return nil
	}
	leave()
	leave = func() {}
	x.useToken(s.session())
	return watchAll(x)
}

// useOldStream makes the client's stream get the response to its message, which is accepted at
// once. The message is served until the stream ends: clients close the connection by which they
// sent it. The caller calls the function that it returns once the message is served.
func useOldStream(x *request) (served func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(x.http.Context()))
	stop := context.AfterFunc(x.old.ended, cancel)
	x.http = x.http.WithContext(ctx)
	h := x.answer.w.Header()
	h["Connection"] = []string{"close"} // it is busy until the message is served
	h["Content-Length"] = []string{"0"}
	x.answer.w.WriteHeader(http.StatusAccepted)
	if err := x.answer.rc.Flush(); err != nil {
		cancel()
	}
	x.answer.stream, x.answer.events = x.old.answer, true
	return func() {
		stop()
		cancel()
	}
}

// useOldSession finds the session of a message.
func useOldSession(x *request) *rpcError {
	t := x.old.session()
	if t == nil {
		return errNoSession
	}
	x.useToken(t)
	return nil
}

func (r *running) addOldStream(s *oldStream) (id string) {
	id = rand.Text()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.old[id] = s
	return id
}

func (r *running) removeOldStream(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.old, id)
}

// oldStream returns a stream of a caller at an address, nil if there is none.
func (r *running) oldStream(id, caller, slug string) *oldStream {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.old[id]
	if s == nil || s.caller != caller || s.slug != slug {
		return nil
	}
	return s
}
