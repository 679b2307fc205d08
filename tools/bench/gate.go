package bench

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"sync"
)

// copyBuffers lends buffers to the plain handler and the ReverseProxy.
var copyBuffers = sync.Pool{New: func() any { return new([8 << 10]byte) }}

// gate holds requests back until a number of them have arrived with their complete
// bodies, so that all are in flight at once however slow the machine is.
type gate struct {
	mu      sync.Mutex
	missing int           // guarded by mu
	opened  chan struct{} // nil when the gate stands open; guarded by mu
}

// hold closes the gate until count requests have arrived.
func (g *gate) hold(count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.missing, g.opened = n, make(chan struct{})
	return nil
}

// open lets everybody through.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened != nil {
		close(g.opened)
		g.opened = nil
	}
}

// arrive counts a request and returns what to wait for, nil for nothing.
func (g *gate) arrive() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	opened := g.opened
	if opened == nil {
		return nil
	}
	if g.missing--; g.missing == 0 {
		close(opened)
		g.opened = nil
	}
	return opened
}

func (g *gate) closed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opened != nil
}

func (g *gate) wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.closed() && !g.pass(r) {
			return
		}
		h.ServeHTTP(w, r)
	})
}

// pass reads the body, then waits. It reports false when the client left.
func (g *gate) pass(r *http.Request) bool {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	opened := g.arrive()
	if opened == nil {
		return true
	}
	select {
	case <-opened:
		return true
	case <-r.Context().Done():
		return false
	}
}
