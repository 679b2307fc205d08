package tools

import (
	"context"
	"crypto/rand"
	"sync"
	"time"
)

// running are the requests in progress that clients of the legacy era may cancel, and the
// requests that the gateway has sent to them. It is safe for concurrent use.
type running struct {
	mu       sync.Mutex
	requests map[runningKey]context.CancelCauseFunc
	asked    map[runningKey]chan []byte // each has room for one response
	ended    map[string]bool            // digests of sessions that clients ended
	parked   map[string]*parkedCall
	used     map[string]time.Time            // approvals, and when they were used
	streams  map[string]int                  // open, by caller
	old      map[string]*oldStream           // by id
	signIns  map[string]chan<- awaitedSignIn // of open streams, by session
}

// runningKey is a request of a session, by its id as JSON.
type runningKey struct{ session, id string }

// maxEnded is how many ended sessions are remembered.
const maxEnded = 4096

func newRunning() *running {
	return &running{requests: map[runningKey]context.CancelCauseFunc{}, asked: map[runningKey]chan []byte{}, ended: map[string]bool{},
		parked: map[string]*parkedCall{}, used: map[string]time.Time{}, streams: map[string]int{}, old: map[string]*oldStream{},
		signIns: map[string]chan<- awaitedSignIn{}}
}

// begin makes a request cancellable until the function that it returns is called.
func (r *running) begin(key runningKey, cancel context.CancelCauseFunc) (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests[key] = cancel
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.requests, key)
	}
}

// cancel cancels a request, and reports whether it is in progress on this node.
func (r *running) cancel(key runningKey, cause error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	cancel, ok := r.requests[key]
	if ok {
		cancel(cause)
	}
	return ok
}

// ask returns where the response to a request of the gateway arrives. The caller must call
// done.
func (r *running) ask(key runningKey) (response <-chan []byte, done func()) {
	c := make(chan []byte, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked[key] = c
	return c, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.asked, key)
	}
}

// respond passes a response on, and reports whether somebody waits for it.
func (r *running) respond(key runningKey, msg []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.asked[key]
	if ok {
		delete(r.asked, key)
		c <- msg
	}
	return ok
}

// endSession remembers that a client ended its session.
func (r *running) endSession(digest string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ended) >= maxEnded {
		clear(r.ended)
	}
	r.ended[digest] = true
}

func (r *running) hasEnded(digest string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended[digest]
}

// Limits of parked calls.
const (
	maxParked          = 1000
	maxParkedPerHolder = 20
)

// park keeps a call for a while, under a key that cannot be guessed.
func (r *running) park(holder string, p *parkedCall, wait time.Duration) (key string, ok bool) {
	key = rand.Text()
	r.mu.Lock()
	defer r.mu.Unlock()
	same := 0
	for _, other := range r.parked {
		if other.relay.request.holder == holder {
			same++
		}
	}
	if len(r.parked) >= maxParked || same >= maxParkedPerHolder {
		return "", false
	}
	r.parked[key] = p
	p.expires = time.AfterFunc(wait, func() {
		if r.unpark(key) != nil {
			p.relay.reply.Close()
			p.relay.cancel(errParkedExpired)
		}
	})
	return key, true
}

// unpark returns a parked call, once.
func (r *running) unpark(key string) *parkedCall {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.parked[key]
	if p != nil {
		delete(r.parked, key)
		p.expires.Stop()
	}
	return p
}

// markUsed reports whether a key is used for the first time, as far as this node remembers.
func (r *running) markUsed(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if _, ok := r.used[key]; ok {
		return false
	}
	if len(r.used) >= maxUsed {
		for key, at := range r.used {
			if now.Sub(at) > stateTime {
				delete(r.used, key)
			}
		}
	}
	if len(r.used) >= maxUsed { // what cannot be remembered counts as used
		return false
	}
	r.used[key] = now
	return true
}

// maxUsed is how many used approvals are remembered, for as long as their states are valid.
const maxUsed = 100_000

// maxStreams is the limit of open streams of a caller on this node.
const maxStreams = 20

// enter counts a stream of a caller until the function that it returns is called. It returns
// false if the caller has too many.
func (r *running) enter(caller string) (leave func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.streams[caller] >= maxStreams {
		return nil, false
	}
	r.streams[caller]++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.streams[caller]--; r.streams[caller] == 0 {
			delete(r.streams, caller)
		}
	}, true
}
