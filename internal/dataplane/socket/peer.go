package socket

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// lastWords is how long a peer has to accept what a session sends before it closes.
const lastWords = 5 * time.Second

// peer is one end of a session. One goroutine reads; any may write.
type peer struct {
	conn  *websocket.Conn
	batch *batcher      // nil for a provider
	turn  chan struct{} // holds a token while a message is written

	reading atomic.Bool  // a goroutine waits for a message
	seen    atomic.Int64 // when a message was read or written, in nanoseconds since 1970
	writing atomic.Int64 // since when a message is being written; zero for none
	pinged  atomic.Bool  // a ping waits for its answer
}

func newPeer(c *websocket.Conn, b *batcher) *peer {
	p := &peer{conn: c, batch: b, turn: make(chan struct{}, 1)}
	p.seen.Store(time.Now().UnixNano())
	return p
}

// next waits for a message and returns a reader of it.
func (p *peer) next() (websocket.MessageType, io.Reader, error) {
	p.reading.Store(true)
	kind, r, err := p.conn.Reader(context.Background())
	p.reading.Store(false)
	p.seen.Store(time.Now().UnixNano())
	return kind, r, err
}

// readMessage reads a message over dst. A peer that stops in the middle of one is silent.
func (p *peer) readMessage(dst []byte, r io.Reader) ([]byte, error) {
	p.reading.Store(true)
	defer p.reading.Store(false)
	return readMessage(dst, progressReader{r, p})
}

// progressReader notes when something was read of a peer.
type progressReader struct {
	io.Reader
	peer *peer
}

// Read implements [io.Reader].
func (r progressReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.peer.seen.Store(time.Now().UnixNano())
	return n, err
}

// write sends a message. It waits while the peer accepts nothing: watch ends the session
// then. The context is none, since one that ends would cost a timer for each message.
func (p *peer) write(kind websocket.MessageType, b []byte) error {
	p.turn <- struct{}{}
	defer func() { <-p.turn }()
	p.writing.Store(time.Now().UnixNano())
	err := p.conn.Write(context.Background(), kind, b)
	p.writing.Store(0)
	p.seen.Store(time.Now().UnixNano())
	return err
}

// flush sends what the batch holds for its caller.
func (p *peer) flush() error {
	p.writing.Store(time.Now().UnixNano())
	err := p.batch.send()
	p.writing.Store(0)
	return err
}

// sendLast sends a text if the peer accepts it soon.
func (p *peer) sendLast(text []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
		p.conn.Write(ctx, websocket.MessageText, text)
	case <-ctx.Done():
	}
}

// stalled reports whether the peer has not accepted a message for d.
func (p *peer) stalled(now time.Time, d time.Duration) bool {
	since := p.writing.Load()
	return since != 0 && now.UnixNano()-since > int64(d)
}

// silent reports whether a ping should be sent.
func (p *peer) silent(now time.Time, d time.Duration) bool {
	return now.UnixNano()-p.seen.Load() > int64(d) && !p.pinged.Load()
}

// ping asks the peer whether it is there, and reports whether it is. Silence proves nothing
// while nobody reads the peer's answers: it is then the other end that is slow.
func (p *peer) ping(wait time.Duration) bool {
	p.pinged.Store(true)
	defer p.pinged.Store(false)
	asked := time.Now().UnixNano()
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	err := p.conn.Ping(ctx)
	if err == nil {
		p.seen.Store(time.Now().UnixNano())
		return true
	}
	return !errors.Is(err, context.DeadlineExceeded) || !p.reading.Load() || p.seen.Load() > asked
}

// closeOf returns the close frame that ended a connection. It is false if the connection
// ended without one.
func closeOf(err error) (websocket.CloseError, bool) {
	return errors.AsType[websocket.CloseError](err)
}
