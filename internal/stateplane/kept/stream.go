package kept

import (
	"io"
	"net/http"
	"sync"

	"modelgate/internal/dataplane"
	"modelgate/internal/stateplane/vendorcall"
)

// Stream serves a call in the background, and returns its response when it begins. The
// receiver closes its body, which ends the call.
func (d *Deps) Stream(r *http.Request, c *dataplane.Call) *vendorcall.Response {
	out, in := io.Pipe()
	w := &pipeWriter{header: make(http.Header), to: in, begun: make(chan struct{})}
	go func() {
		d.Call(w, r, c)
		w.WriteHeader(http.StatusOK) // a response without a body
		if c.Result.Broken {
			in.CloseWithError(io.ErrUnexpectedEOF)
			return
		}
		in.Close()
	}()
	<-w.begun
	return &vendorcall.Response{Status: w.status, Header: w.header, Body: out}
}

// pipeWriter passes a response to a reader.
type pipeWriter struct {
	header http.Header
	to     *io.PipeWriter
	begun  chan struct{} // closed when the response begins
	once   sync.Once
	status int // set before begun is closed
}

// Header implements [http.ResponseWriter].
func (p *pipeWriter) Header() http.Header { return p.header }

// WriteHeader implements [http.ResponseWriter].
func (p *pipeWriter) WriteHeader(status int) {
	p.once.Do(func() {
		p.status = status
		close(p.begun)
	})
}

// Flush implements [http.Flusher]: what is written has been read.
func (p *pipeWriter) Flush() {}

// Write implements [http.ResponseWriter].
func (p *pipeWriter) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	return p.to.Write(b)
}
