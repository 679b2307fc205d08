package tools

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"modelgate/internal/format/sse"
)

// answer writes what a client receives for one request: one message as JSON, or several as
// events. It is safe for concurrent use.
type answer struct {
	w         http.ResponseWriter
	rc        *http.ResponseController
	events    bool          // the client reads events
	keepAlive time.Duration // of silence, after which a comment is sent; not positive sends none
	stream    *answer       // gets all messages instead; nil for none

	mu      sync.Mutex
	begun   bool // as a stream
	ended   bool
	written time.Time
	tick    *time.Timer
	buf     []byte
	err     error // of the first write that failed
}

func newAnswer(w http.ResponseWriter, r *http.Request, keepAlive time.Duration) *answer {
	return &answer{w: w, rc: http.NewResponseController(w), events: acceptsEvents(r), keepAlive: keepAlive}
}

// acceptsEvents reports whether a client reads events. One that says nothing reads
// everything.
func acceptsEvents(r *http.Request) bool {
	list := r.Header.Values("Accept")
	if len(list) == 0 {
		return true
	}
	for _, v := range list {
		if strings.Contains(v, "text/event-stream") || strings.Contains(v, "*/*") || strings.Contains(v, "text/*") {
			return true
		}
	}
	return false
}

// send writes a message before the last one, which a client that reads no events does not
// receive.
func (a *answer) send(msg []byte) error {
	if a.stream != nil {
		return a.stream.send(msg)
	}
	if !a.events {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begin()
	return a.event(msg)
}

// open begins a stream without a message.
func (a *answer) open() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begin()
	a.written = time.Now()
	return a.flush(sse.AppendComment(a.buf[:0], "open"))
}

// sendEndpoint writes the address of a session of the transport HTTP+SSE.
func (a *answer) sendEndpoint(address string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begin()
	a.written = time.Now()
	return a.flush(sse.AppendEvent(a.buf[:0], "endpoint", []byte(address)))
}

// end writes the last message. status is that of a response without events.
func (a *answer) end(msg []byte, status int) error {
	if a.stream != nil {
		return a.stream.send(msg)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return a.err
	}
	a.ended = true
	if a.begun {
		a.stop()
		return a.event(msg)
	}
	h := a.w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(msg))}
	a.w.WriteHeader(status)
	_, a.err = a.w.Write(msg)
	return a.err
}

// accepted responds to a notification or a response.
func (a *answer) accepted() {
	if a.stream == nil {
		a.w.WriteHeader(http.StatusAccepted)
	}
}

// close ends what has not ended: nothing is written afterwards.
func (a *answer) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	a.stop()
}

// hasBegun reports whether a stream has begun.
func (a *answer) hasBegun() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.begun || a.stream != nil
}

func (a *answer) begin() {
	if a.begun {
		return
	}
	a.begun = true
	h := a.w.Header()
	h["Content-Type"] = []string{"text/event-stream"}
	h["Cache-Control"] = []string{"no-cache, no-transform"}
	h["X-Accel-Buffering"] = []string{"no"} // nginx passes events on at once
	a.w.WriteHeader(http.StatusOK)
	if a.keepAlive > 0 {
		a.tick = time.AfterFunc(a.keepAlive, a.comment)
	}
}

func (a *answer) stop() {
	if a.tick != nil {
		a.tick.Stop()
	}
}

// comment keeps a silent stream open.
func (a *answer) comment() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended || a.err != nil {
		return
	}
	wait := a.keepAlive - time.Since(a.written)
	if wait <= 0 {
		a.written = time.Now()
		a.flush(sse.AppendComment(a.buf[:0], "keep-alive"))
		wait = a.keepAlive
	}
	a.tick.Reset(wait)
}

func (a *answer) event(msg []byte) error {
	a.written = time.Now()
	return a.flush(sse.AppendEvent(a.buf[:0], "message", msg))
}

func (a *answer) flush(out []byte) error {
	if a.err != nil {
		return a.err
	}
	if cap(out) <= maxKeptBuffer {
		a.buf = out
	}
	if _, a.err = a.w.Write(out); a.err == nil {
		a.err = a.rc.Flush()
	}
	return a.err
}

// maxKeptBuffer is the size of a buffer that is used again, in bytes.
const maxKeptBuffer = 64 << 10
