package peer

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"modelgate/internal/provider/toolserver"
	"modelgate/internal/upstream"
)

// maxEndpoint bounds the address that a server names for messages.
const maxEndpoint = 8 << 10

// oldStream is a session of the older HTTP with server-sent events, of the revision
// 2024-11-05: a stream on which all messages of the server come, and an address for those of
// the client.
type oldStream struct {
	peers    *Peers
	mux      *mux
	server   *toolserver.Server
	cred     Credential
	stream   *httpReply
	stop     context.CancelFunc
	endpoint *url.URL
}

// openStream begins a session.
func (p *Peers) openStream(ctx context.Context, s *toolserver.Server, c Credential, by Client) (Session, []byte, error) {
	if !p.connections.reserveStream() {
		return Session{}, nil, &Failure{Kind: Unavailable, Unsent: true, Wait: time.Second,
			Reason: "the gateway keeps as many streams to tool servers as it may; try again later"}
	}
	o := &oldStream{peers: p, server: s, cred: c}
	o.mux = p.newMux(keyOf(s, c), newID(), false)
	o.mux.write = o.post
	if err := o.connect(ctx); err != nil {
		p.connections.releaseStream()
		return Session{}, nil, err
	}
	p.connections.add(o.mux)
	p.running.Go(o.run)
	version, result, err := p.greet(ctx, o.mux, s, by)
	if err != nil {
		o.mux.end(sessionLost())
		return Session{}, nil, err
	}
	return Session{ID: o.mux.newSession(), Version: version}, result, nil
}

// connect opens the stream and reads the address for messages. The stream outlives ctx.
func (o *oldStream) connect(ctx context.Context) error {
	streamContext, stop := context.WithCancel(context.WithoutCancel(ctx))
	detach := context.AfterFunc(ctx, stop)
	late := time.AfterFunc(openTime, stop)
	defer late.Stop()
	call := &Call{Server: o.server, Credential: o.cred, Session: Session{Version: "2024-11-05"}}
	h := baseHeader(call)
	h["Accept"] = acceptStream
	reply, err := o.peers.exchange(streamContext, call, form{method: http.MethodGet, header: h, listens: true})
	if err == nil {
		o.stream, o.stop = reply, stop
		if err = o.readEndpoint(); err != nil {
			reply.Close()
		}
	}
	if err != nil || !detach() {
		stop()
		if err == nil {
			reply.Close()
			err = &Failure{Kind: Cancelled, Reason: "the call was cancelled", Err: context.Cause(ctx)}
		}
	}
	return err
}

// readEndpoint reads the first event. An address of another origin is refused: it would get
// the credential.
func (o *oldStream) readEndpoint() error {
	if o.stream.events == nil {
		return invalid(o.stream.Status(), "the response of the tool server is not a stream of events", nil)
	}
	event, err := o.stream.events.Next()
	for err == nil && len(event.Data) == 0 {
		event, err = o.stream.events.Next()
	}
	if err != nil {
		return connectionFailure(o.stream.ctx, o.stream.req, convertEnd(err))
	}
	if string(event.Type) != "endpoint" || len(event.Data) > maxEndpoint {
		return invalid(0, "the tool server did not name an address for messages", nil)
	}
	o.endpoint, err = o.server.URL.Parse(string(event.Data))
	if err != nil {
		return invalid(0, "the address for messages that the tool server named is malformed", nil)
	}
	if o.endpoint.Scheme != o.server.URL.Scheme || o.endpoint.Host != o.server.URL.Host || o.endpoint.User != nil {
		return &Failure{Kind: Refused, Reason: "the tool server named an address for messages on another host, which is not used"}
	}
	return nil
}

// run passes on what comes on the stream, until it or the session ends.
func (o *oldStream) run() {
	read := make(chan struct{})
	go func() { // ends with the stream, which stop ends
		defer close(read)
		o.read()
	}()
	o.peers.watchIdle(o.mux)
	o.stop()
	<-read
	o.stream.Close()
	o.peers.connections.remove(o.mux)
	o.peers.connections.releaseStream()
}

// read passes on messages until the stream ends.
func (o *oldStream) read() {
	for {
		text, err := o.stream.Next()
		if err != nil {
			o.mux.end(connectionFailure(o.stream.ctx, o.stream.req, convertEnd(err)))
			return
		}
		if answer := o.mux.receive(text); answer != nil {
			o.peers.background(func() {
				ctx, stop := context.WithTimeout(context.Background(), cancelTime)
				defer stop()
				o.post(ctx, answer)
			})
		}
	}
}

// post sends a message to the address for messages.
func (o *oldStream) post(ctx context.Context, text []byte) *Failure {
	call := &Call{Server: o.server, Credential: o.cred, Session: Session{Version: "2024-11-05"}, Notify: true}
	h := baseHeader(call)
	h["Content-Type"], h["Accept"] = jsonType, acceptBoth
	reply, err := o.peers.exchange(ctx, call, form{method: http.MethodPost, header: h, body: &message{bytes: text}, url: o.endpoint})
	if err == nil {
		reply.Close()
		return nil
	}
	f := connectionFailure(ctx, (&http.Request{}).WithContext(ctx), err)
	if f.Status == http.StatusNotFound {
		o.mux.end(sessionLost())
		return &Failure{Kind: SessionLost, Status: f.Status, Reason: sessionLost().Reason}
	}
	return f
}

// convertEnd returns an error also for the end of a stream that should not end.
func convertEnd(err error) error {
	if err == errEnd {
		return &Failure{Kind: Unreachable, Reason: connectionFailures[upstream.Reset].text}
	}
	return err
}

// reserveStream counts another stream, and reports false if there are too many.
func (c *connections) reserveStream() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.streams >= maxStreams {
		return false
	}
	c.streams++
	return true
}

func (c *connections) releaseStream() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streams--
}
