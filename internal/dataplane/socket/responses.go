package socket

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/format/jsonedit"
)

const (
	// maxActive is the number of turns in progress on a connection, and maxStreams that of
	// lanes with a name. Both are the vendor's.
	// https://developers.openai.com/api/docs/guides/websocket-mode
	maxActive, maxStreams = 16, 32
	// maxWaiting is the number of turns that wait on a connection.
	maxWaiting = 64
)

// Responses is a connection for responses that the data plane has admitted.
type Responses struct {
	// Check returns why the client may not go on, nil if it may.
	Check func() error
	// Serve serves a request for a response with this body, as a stream. It may be called
	// concurrently.
	Serve func(ctx context.Context, w http.ResponseWriter, body []byte)
	// Memory counts messages that wait and turns that are kept. Nil does not.
	Memory *bytepool.Share
	// MaxMessage is the limit of a message of the client in bytes.
	MaxMessage int64
}

// turns is a session whose messages are requests for responses.
type turns struct {
	*session
	request Responses
	history *history
	served  atomic.Int64
	active  chan struct{} // a token for each turn in progress
	running sync.WaitGroup

	mu      sync.Mutex
	lanes   map[string]*lane // guarded by mu
	waiting int              // turns in lanes that have not begun; guarded by mu
	busy    int              // lanes at work; guarded by mu
	last    *ending          // how the session ends once no turn is in progress; guarded by mu
	refusal *apierr.Error    // of turns that are not begun any more; guarded by mu
}

// lane is a queue of turns, of which one is in progress at a time.
type lane struct {
	queue []*frame
	works bool
}

// ServeResponses serves a connection until it ends. An error means that nothing has been
// written. turns is the number of requests that the client made.
func (s *Server) ServeResponses(w http.ResponseWriter, r *http.Request, o Responses) (turnsServed int64, err error) {
	if err := s.admit(); err != nil {
		return 0, err
	}
	conn, batch, err := accept(w, r, nil)
	if err != nil {
		return 0, err
	}
	conn.SetReadLimit(o.MaxMessage)
	c := &turns{session: s.newSession(r.Context()), request: o, history: newHistory(o.Memory),
		active: make(chan struct{}, maxActive), lanes: map[string]*lane{}}
	c.client, c.check, c.fault = newPeer(conn, batch), o.Check, func(e *apierr.Error) []byte { return errorEvent(e, "") }
	c.drain = func() { c.endAfterTurns(restart, shuttingDown()) }
	c.stop = c.drain
	began := time.Now()
	c.tick = func(now time.Time) {
		if now.Sub(began) >= s.o.Lifetime {
			c.expire()
		}
	}
	c.start()
	c.read()
	c.finish()
	c.running.Wait()
	c.dropWaiting()
	c.history.close()
	return c.served.Load(), nil
}

// read reads messages until the connection ends.
func (c *turns) read() {
	for {
		kind, r, err := c.client.next()
		if err != nil {
			return
		}
		text, release, err := c.message(r)
		if errors.Is(err, websocket.ErrMessageTooBig) {
			c.client.conn.Close(websocket.StatusMessageTooBig, "the message is too large") // reads the rest
		}
		if err != nil {
			return
		}
		if err := c.handle(kind, text, release); err != nil {
			release()
			e := apierr.From(err)
			c.client.write(websocket.MessageText, errorEvent(e, streamOf(text)))
		}
	}
}

// message reads a message. Its memory is counted until release.
func (c *turns) message(r io.Reader) (text []byte, release func(), err error) {
	if text, err = c.client.readMessage(nil, r); err != nil {
		return nil, nil, err
	}
	if c.request.Memory == nil {
		return text, func() {}, nil
	}
	if release, err = c.request.Memory.Hold(len(text)); err != nil {
		c.history.clear()
		release, err = c.request.Memory.Hold(len(text))
	}
	if err != nil {
		c.end(ending{code: websocket.StatusTryAgainLater, reason: "the gateway has no memory for the message",
			event: errorEvent(apierr.BodyMemoryFull(err), "")})
		return nil, nil, err
	}
	return text, release, nil
}

// readMessage reads a message over dst.
func readMessage(dst []byte, r io.Reader) ([]byte, error) {
	dst = slices.Grow(dst[:0], firstRead)
	for {
		if len(dst) == cap(dst) {
			dst = slices.Grow(dst, len(dst))
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
	}
}

// firstRead is the room for a message in bytes, before its size is known.
const firstRead = 4 << 10

// streamOf returns the lane of a message that is refused, if it has a valid one.
func streamOf(text []byte) string {
	v, err := jsonedit.ParseValue(text)
	if err != nil {
		return ""
	}
	if id := v.TextOf("stream_id"); validStream(id) {
		return id
	}
	return ""
}

// handle handles a message. An error is for the client.
func (c *turns) handle(kind websocket.MessageType, text []byte, release func()) error {
	if kind != websocket.MessageText {
		return apierr.New(apierr.Invalid, "the connection accepts text messages only")
	}
	f, err := parseFrame(text)
	if err != nil {
		return err
	}
	switch f.kind() {
	case "response.create":
		if err := f.readCreate(); err != nil {
			return err
		}
		f.release = release
		return c.enqueue(f)
	case "response.steer":
		release()
		return c.client.write(websocket.MessageText, steerFailed(f))
	}
	return apierr.New(apierr.Invalid, "the connection accepts messages of the type response.create, not %.60q", f.kind()).
		WithParam("type")
}

// steerFailed returns the event that refuses to steer a response. Requests to providers are
// complete when they are sent.
func steerFailed(f *frame) []byte {
	b := jsonedit.Append(nil)
	b.Open('{')
	b.Name("type")
	b.String("response.steer.failed")
	b.Name("sequence_number")
	b.Int(0)
	b.Name("steer")
	b.Open('{')
	b.Name("previous_response_id")
	b.String(f.previous)
	b.Name("input")
	if input, ok := f.doc.Find("input"); ok {
		b.Raw(input.Raw())
	} else {
		b.Null()
	}
	b.Close('}')
	b.Name("error")
	b.Open('{')
	b.Name("type")
	b.String("invalid_request_error")
	b.Name("code")
	b.String("steering_not_supported")
	b.Name("message")
	b.String("the gateway cannot steer a response in progress; send the input with the next response.create")
	b.Close('}')
	b.Close('}')
	return b.Bytes()
}

// enqueue adds a turn to its lane.
func (c *turns) enqueue(f *frame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.last != nil:
		return c.refusal
	case c.waiting >= maxWaiting:
		return apierr.New(apierr.RateLimited, "%d requests wait on this connection; wait for responses", maxWaiting).
			WithCode("websocket_queue_full")
	}
	l := c.lanes[f.stream]
	if l == nil {
		if named := len(c.lanes); f.stream != "" && (named > maxStreams || named == maxStreams && c.lanes[""] == nil) {
			return apierr.New(apierr.Invalid, "a connection has at most %d different stream_id; use one again or connect again",
				maxStreams).WithParam("stream_id").WithCode("websocket_stream_limit_reached")
		}
		l = new(lane)
		c.lanes[f.stream] = l
	}
	l.queue = append(l.queue, f)
	c.waiting++
	if !l.works {
		l.works = true
		c.busy++
		c.running.Go(func() { c.work(l) })
	}
	return nil
}

// work serves the turns of a lane in order, until there are none.
func (c *turns) work(l *lane) {
	for {
		select {
		case c.active <- struct{}{}:
		case <-c.ctx.Done():
		}
		f, refusal := c.take(l)
		if f == nil {
			return
		}
		if refusal != nil {
			c.client.write(websocket.MessageText, errorEvent(refusal, f.stream))
		} else {
			c.serve(c.ctx, f)
		}
		f.release()
		<-c.active
	}
}

// take returns the next turn of a lane, and why it is not begun. If there is no turn, the lane
// rests.
func (c *turns) take(l *lane) (f *frame, refusal *apierr.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(l.queue) > 0 && c.ctx.Err() == nil {
		f, l.queue = l.queue[0], l.queue[1:]
		c.waiting--
		return f, c.refusal
	}
	l.works = false
	c.busy--
	select {
	case <-c.active:
	default: // the session ended before there was a place
	}
	c.endIfIdle()
	return nil, nil
}

// endAfterTurns ends the session once the turns in progress have ended. Others are refused.
func (c *turns) endAfterTurns(e ending, refusal *apierr.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.last, c.refusal = &e, refusal
	}
	c.endIfIdle()
}

// endIfIdle ends the session if it should end and no lane works. The caller holds mu.
func (c *turns) endIfIdle() {
	if c.last != nil && c.busy == 0 {
		c.end(*c.last)
	}
}

// expire ends the session after its lifetime.
func (c *turns) expire() {
	e := lifetimeOver(c.server.o.Lifetime)
	c.endAfterTurns(ending{code: websocket.StatusGoingAway, reason: closeReason(e.Message), event: errorEvent(e, "")}, e)
}

func lifetimeOver(d time.Duration) *apierr.Error {
	return apierr.New(apierr.Invalid, "the connection has reached its limit of %v; connect again", d).
		WithCode("websocket_connection_limit_reached")
}

// dropWaiting releases turns that were not begun.
func (c *turns) dropWaiting() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lanes {
		for _, f := range l.queue {
			f.release()
		}
		l.queue = nil
	}
}

// accept upgrades the connection of a client.
func accept(w http.ResponseWriter, r *http.Request, protocols []string) (*websocket.Conn, *batcher, error) {
	if err := CheckHandshake(r); err != nil {
		return nil, nil, err
	}
	through := &batchWriter{ResponseWriter: w}
	// Requests are authenticated by a key and not by a cookie, so their origin proves nothing.
	conn, err := websocket.Accept(through, r, &websocket.AcceptOptions{Subprotocols: protocols, InsecureSkipVerify: true})
	if err != nil {
		return nil, nil, errors.Join(errRefused, err)
	}
	return conn, through.conn, nil
}

// errRefused is part of the error of a handshake that was answered already.
var errRefused = errors.New("the handshake was refused")

// IsAnswered reports whether err is that of a handshake that has its response.
func IsAnswered(err error) bool { return errors.Is(err, errRefused) }

// CheckHandshake returns an error for an incomplete handshake.
func CheckHandshake(r *http.Request) error {
	key := r.Header["Sec-Websocket-Key"]
	switch {
	case r.ProtoMajor != 1 || r.ProtoMinor < 1:
		return apierr.New(apierr.UpgradeRefused, "WebSocket connections need HTTP/1.1").WithParam("upgrade")
	case r.ContentLength != 0 || len(r.TransferEncoding) > 0: // whose bytes would be frames
		return apierr.New(apierr.Invalid, "a WebSocket handshake has no body; leave out content-length and transfer-encoding").WithParam("content-length")
	case r.Header.Get("Sec-Websocket-Version") != "13":
		return apierr.New(apierr.UpgradeRefused, "the gateway supports version 13 of the WebSocket protocol only").
			WithParam("sec-websocket-version")
	case len(key) != 1 || len(key[0]) != 24:
		return apierr.New(apierr.Invalid, "the header sec-websocket-key must have 24 characters").WithParam("sec-websocket-key")
	}
	return nil
}
