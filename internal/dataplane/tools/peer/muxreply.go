package peer

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"

	"modelgate/internal/upstream"
)

// errEnd is the clean end of a reply.
var errEnd = io.EOF

// maxQueued is how many messages wait for a reader who is slower than the server. Their bytes
// are limited by the size of one message.
const maxQueued = 1024

// muxReply is the reply to a call on a connection that others share, or the messages that
// belong to no call.
type muxReply struct {
	mux     *mux
	ctx     context.Context // of the caller
	watch   *upstream.Watchdog
	session string // id of the caller's session
	number  uint64 // instead of its id
	id      []byte // that the caller gave the request
	token   []byte // that the caller gave for progress; nil for none
	listens bool

	answered bool // the response was returned, or nothing was sent
	closed   bool

	mu    sync.Mutex
	queue [][]byte // guarded by mu, as are the fields below
	size  int
	ended error // what Next returns after the queue; nil before the end
	wake  chan struct{}
}

func (m *mux) newReply(ctx context.Context, c *Call, limits upstream.Timeouts) *muxReply {
	return &muxReply{mux: m, ctx: ctx, watch: upstream.NewWatchdog(ctx, limits), session: c.Session.ID, wake: make(chan struct{}, 1)}
}

func (r *muxReply) Status() int { return http.StatusOK }

func (r *muxReply) Streams() bool { return true }

func (r *muxReply) Next() ([]byte, error) {
	if r.closed {
		return nil, io.EOF
	}
	r.watch.Phase(upstream.Idle)
	defer r.watch.Pause()
	for {
		if text, ended := r.pop(); text != nil || ended != nil {
			r.answered = r.answered || text != nil && !r.listens && endsCall(text)
			return text, ended
		}
		select {
		case <-r.wake:
		case <-r.watch.Context().Done():
			r.finish(connectionFailure(r.ctx, (&http.Request{}).WithContext(r.watch.Context()), r.watch.Context().Err()))
		}
	}
}

// pop returns the next message, or the end.
func (r *muxReply) pop() (text []byte, ended error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		return nil, r.ended
	}
	text, r.queue = r.queue[0], r.queue[1:]
	r.size -= len(text)
	return text, nil
}

// push adds a message, after which the reply ends if it is the last. A reply whose reader is
// too slow ends.
func (r *muxReply) push(text []byte, last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended != nil {
		return
	}
	if len(r.queue) >= maxQueued || len(r.queue) > 0 && r.size+len(text) > r.mux.peers.maxMessage {
		if r.listens {
			return // what changed is asked for anyway
		}
		r.ended = invalid(0, "the tool server sent more messages than could be passed on", nil)
	} else {
		r.queue, r.size = append(r.queue, text), r.size+len(text)
	}
	if last && r.ended == nil {
		r.ended = errEnd
	}
	r.signal()
}

// finish ends the reply after what is queued.
func (r *muxReply) finish(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended == nil {
		r.ended = why
	}
	r.signal()
}

func (r *muxReply) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *muxReply) Close() {
	if r.closed {
		return
	}
	r.closed = true
	r.watch.Stop()
	awaited := r.mux.remove(r)
	if r.listens || r.answered || !awaited {
		return
	}
	text := cancelMessage(strconv.AppendUint(nil, r.number, 10))
	r.mux.peers.background(func() {
		ctx, stop := context.WithTimeout(context.Background(), cancelTime)
		defer stop()
		r.mux.write(ctx, text)
	})
}
