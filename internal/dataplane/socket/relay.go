package socket

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/model/llm"
)

// Protocol is what the messages of a relayed connection mean.
type Protocol uint8

// Protocols.
const (
	Opaque   Protocol = iota // nothing of it is read
	Realtime                 // the realtime protocol, with events that have a type
	Live                     // the live protocol of gemini
)

// Turn is what the provider reports of a turn.
type Turn struct {
	Usage llm.Usage
	Model string // that served it; empty if it is unknown
	Other bool   // Model is not the model of the session, such as one that transcribes
}

// Relay is a connection that the data plane has admitted and whose provider has accepted it.
// [Server.Follow] uses Provider, Protocol, Check, BeginTurn, EndTurn and MaxMessage only.
type Relay struct {
	// Provider is the connection to the provider, from [Dial].
	Provider *Provider
	Protocol Protocol
	// Subprotocols are those that the client may get, the first of which it gets.
	Subprotocols []string
	// Check returns why the client may not go on, nil if it may.
	Check func() error
	// BeginTurn is called when the provider begins a turn, and EndTurn with each turn that it
	// reports, whether its beginning was seen or not. An error ends the session.
	BeginTurn func() error
	EndTurn   func(t Turn) error
	// AllowModel returns why the client may not use a model.
	AllowModel func(model string) error
	// Fixed are the fields of the session that the client may not change, as a JSON object;
	// they are set when the provider has begun the session. Nil for none.
	Fixed []byte
	// Memory counts messages. Nil does not.
	Memory *bytepool.Share
	// MaxMessage is the limit of a message in bytes, in both directions.
	MaxMessage int64
}

// Result is what happened in a session.
type Result struct {
	Messages, Bytes int64 // to the client
	Unfinished      Turn  // the estimated use of a turn without an end; its usage is not Known if there is none
	Err             error // why the gateway ended the session; nil if a peer did
}

// Provider is an open connection to a provider.
type Provider struct{ conn *websocket.Conn }

// Subprotocol returns the sub-protocol that the provider has chosen, empty for none.
func (p *Provider) Subprotocol() string { return p.conn.Subprotocol() }

// Close closes a connection that was not relayed.
func (p *Provider) Close() {
	timer := time.AfterFunc(closeTimeout, func() { p.conn.CloseNow() })
	defer timer.Stop()
	p.conn.Close(websocket.StatusGoingAway, "")
}

// Dial opens a connection to a provider. send sends the request of the handshake, which has the
// headers h, and returns its response; an error of it is returned.
func Dial(ctx context.Context, protocols []string, send func(h http.Header) (*http.Response, error)) (*Provider, error) {
	var failed error
	through := roundTripper(func(r *http.Request) (*http.Response, error) {
		res, err := send(r.Header)
		failed = err
		return res, err
	})
	conn, _, err := websocket.Dial(ctx, "ws://provider", &websocket.DialOptions{Subprotocols: protocols, HTTPClient: &http.Client{
		Transport: through, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}})
	switch {
	case failed != nil:
		return nil, failed
	case err != nil:
		return nil, apierr.New(apierr.UpstreamFailed, "the provider does not accept the WebSocket connection as the protocol demands").
			WithCode("upstream_unreadable").WithCause(err)
	}
	return &Provider{conn}, nil
}

type roundTripper func(r *http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// relay is a session that is joined with a connection to a provider.
type relay struct {
	*session
	o        Relay
	observer observer

	mu     sync.Mutex
	result Result // guarded by mu
}

// Relay joins the connection of a client with that to the provider, until either ends. An error
// means that nothing has been written, and that the caller closes the provider's.
func (s *Server) Relay(w http.ResponseWriter, r *http.Request, o Relay) (Result, error) {
	if err := s.admit(); err != nil {
		return Result{}, err
	}
	conn, batch, err := accept(w, r, o.Subprotocols)
	if err != nil {
		return Result{}, err
	}
	c := &relay{session: s.newSession(r.Context()), o: o}
	c.observer = observer{protocol: o.Protocol, fixed: newFixed(o.Fixed), allowModel: o.AllowModel}
	conn.SetReadLimit(o.MaxMessage)
	o.Provider.conn.SetReadLimit(o.MaxMessage)
	c.client, c.provider, c.check = newPeer(conn, batch), newPeer(o.Provider.conn, nil), o.Check
	c.fault = realtimeError
	if o.Protocol != Realtime {
		c.fault = noFault
	}
	c.drain = func() {
		if text := c.fault(shuttingDown()); text != nil {
			c.client.sendLast(text)
		}
	}
	c.stop = func() { c.endFor(shuttingDown(), websocket.StatusServiceRestart) }
	c.start()
	var fromClient sync.WaitGroup
	fromClient.Go(func() {
		c.pass(c.client, c.provider, c.observer.fromClient)
		c.cancel(errEnded)
	})
	c.pass(c.provider, c.client, c.fromProvider)
	c.awaitEnd()
	c.finish()
	fromClient.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result.Unfinished = c.observer.unfinished()
	return c.result, nil
}

// endFor ends the session for a reason of the gateway.
func (c *relay) endFor(err error, code websocket.StatusCode) {
	c.fail(err)
	e := apierr.From(err)
	c.end(ending{code: code, reason: closeReason(e.Message), event: c.fault(e)})
}

// awaitEnd waits until the connection of the client is closed, if the session ends for a reason
// of the gateway: its last words are on their way.
func (c *relay) awaitEnd() {
	c.mu.Lock()
	ending := c.result.Err != nil
	c.mu.Unlock()
	if ending {
		<-c.ctx.Done()
	}
}

// pass passes messages from one peer to the other until either connection ends. inspect returns
// what is passed on: the message, or nothing with an error for the client.
func (c *relay) pass(from, to *peer, inspect func(text []byte) error) {
	for {
		kind, r, err := from.next()
		if err != nil {
			c.forwardClose(to, err)
			return
		}
		room := buffer()
		message, err := from.readMessage(*room, r)
		if err != nil {
			c.forwardClose(to, err)
			return
		}
		if err := c.passOn(from, to, kind, message, inspect); err != nil {
			return
		}
		reuse(room, message)
	}
}

// passOn inspects a message and passes it on.
func (c *relay) passOn(from, to *peer, kind websocket.MessageType, message []byte, inspect func([]byte) error) error {
	release, err := c.hold(len(message))
	if err != nil {
		c.endFor(err, websocket.StatusTryAgainLater)
		return err
	}
	defer release()
	// The live protocol has JSON in binary messages too.
	if kind == websocket.MessageText || c.o.Protocol == Live {
		if err := inspect(message); err != nil {
			return c.refuse(from, err)
		}
	}
	if err := to.write(kind, message); err != nil {
		return err
	}
	if to == c.client {
		c.count(len(message))
	}
	return nil
}

// refuse tells the client that a message of it was refused. The session goes on. An error of
// the provider's messages ends it.
func (c *relay) refuse(from *peer, err error) error {
	if from == c.provider {
		return err
	}
	text := c.fault(apierr.From(err))
	if text == nil {
		c.endFor(err, websocket.StatusPolicyViolation)
		return err
	}
	return c.client.write(websocket.MessageText, text)
}

// fromProvider reads a message of the provider. A turn is reserved and settled before the client
// learns of it; if a limit refuses it, the session ends after the message.
func (c *relay) fromProvider(text []byte) error {
	seen := c.observer.fromProvider(text)
	if seen.session && c.o.Fixed != nil {
		if err := c.provider.write(websocket.MessageText, sessionUpdate(c.o.Fixed)); err != nil {
			return err
		}
	}
	err := c.account(seen)
	if err == nil {
		return nil
	}
	if e := c.client.write(websocket.MessageText, text); e != nil {
		return e
	}
	code := websocket.StatusPolicyViolation
	if apierr.From(err).Kind == apierr.Unavailable {
		code = websocket.StatusTryAgainLater
	}
	c.endFor(err, code)
	return err
}

// account reserves the turn that begins with a message, and settles the one that ends with it.
func (c *relay) account(seen sighting) error {
	switch {
	case seen.turn.Usage.Known:
		return c.o.EndTurn(seen.turn)
	case seen.begins:
		return c.o.BeginTurn()
	}
	return nil
}

// forwardClose ends the other connection as this one ended: by the same close frame, or without
// one.
func (c *relay) forwardClose(to *peer, err error) {
	e, ok := closeOf(err)
	tooBig := errors.Is(err, websocket.ErrMessageTooBig)
	switch {
	case c.ctx.Err() != nil:
	case tooBig && to == c.provider:
		c.client.conn.Close(websocket.StatusMessageTooBig, "the message is too large") // reads the rest
		to.conn.Close(websocket.StatusGoingAway, "")
	case ok && to == c.client:
		c.end(ending{code: e.Code, reason: strings.ToValidUTF8(e.Reason, "")})
		<-c.ctx.Done()
	case ok:
		to.conn.Close(e.Code, e.Reason)
	case tooBig && to == c.client:
		c.endFor(apierr.New(apierr.UpstreamFailed, "a message of the provider is larger than %d bytes", c.o.MaxMessage).
			WithCode("message_too_large"), websocket.StatusMessageTooBig)
	case to == c.client:
		c.end(ending{})
		<-c.ctx.Done()
	default:
		to.conn.CloseNow()
	}
}

// hold counts the memory of a message.
func (c *relay) hold(n int) (release func(), err error) {
	if c.o.Memory == nil || n <= firstRead {
		return func() {}, nil
	}
	release, err = c.o.Memory.Hold(n)
	if err != nil {
		return nil, apierr.BodyMemoryFull(err)
	}
	return release, nil
}

// maxKept is the size in bytes up to which the room for messages is kept.
const maxKept = 64 << 10

func buffer() *[]byte {
	if b, ok := messagePool.Get().(*[]byte); ok {
		return b
	}
	return new([]byte)
}

func reuse(room *[]byte, message []byte) {
	if cap(message) <= maxKept {
		*room = message[:0]
		messagePool.Put(room)
	}
}

// messagePool holds *[]byte for messages, which a session has only while it passes one on.
var messagePool sync.Pool

// closeTimeout bounds closing the connection of a provider whose client was not accepted.
const closeTimeout = time.Second
