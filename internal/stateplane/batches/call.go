package batches

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane"
	"modelgate/internal/identity/access"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/stateplane/vendorcall"
	"modelgate/internal/store"
)

// caller sends requests to the provider of a batch, as calls of the gateway.
type caller struct {
	deps     *kept.Deps
	identity *access.Identity
	provider string // "@" and its slug
	trace    string
	watch    *stallWatch // nil waits as long as the data plane does
}

// callerOf returns the caller of a request to a batch.
func callerOf(q *kept.Request, o *store.Object) *caller {
	return &caller{deps: q.Deps, identity: q.From.Identity, provider: o.Provider, trace: q.From.TraceID}
}

// jobCaller returns the caller of the job of a batch. It acts for the workspace: the key
// that created the batch may have been deleted since, and the batch must be settled.
func jobCaller(deps *kept.Deps, o *store.Object, d *details) *caller {
	id := &access.Identity{
		KeyID: o.KeyID, Organisation: o.Organisation, Workspace: o.Workspace, Name: "batches", Scopes: []access.Scope{access.ScopeCompletions},
	}
	return &caller{deps: deps, identity: id, provider: o.Provider, trace: d.TraceID}
}

// Call implements [vendorcall.Caller].
func (c *caller) Call(ctx context.Context, in *vendorcall.Request) (*vendorcall.Response, error) {
	c.watch.begin()
	defer c.watch.end()
	res, err := c.call(ctx, in)
	if err == nil && c.watch != nil {
		res.Body = &watchedBody{res.Body, c.watch}
	}
	return res, err
}

func (c *caller) call(ctx context.Context, in *vendorcall.Request) (*vendorcall.Response, error) {
	if in.Link != "" {
		return c.fetch(ctx, in)
	}
	if in.Service != "" && in.Service != vendorcall.ServiceHost && in.Service != vendorcall.ServiceBedrock {
		return nil, apierr.New(apierr.Unsupported, "batches of the provider %s need its storage, which the gateway does not reach yet; run the batch without x-gateway-provider", c.provider).
			WithCode("unsupported_operation")
	}
	out := kept.Outgoing{
		Provider: c.provider, TraceID: c.trace, Method: in.Method, Path: in.Path, Query: in.Query,
		Header: in.Header, Body: in.Body, Length: in.Length,
	}
	r, err := out.Request(ctx)
	if err != nil {
		return nil, err
	}
	return c.send(r, in.Service)
}

// fetch sends a request to an address that the provider has signed. It has no credential of
// the provider, and only a public address is reached.
func (c *caller) fetch(ctx context.Context, in *vendorcall.Request) (*vendorcall.Response, error) {
	r, err := http.NewRequestWithContext(ctx, in.Method, in.Link, in.Body)
	if err != nil {
		return nil, apierr.New(apierr.UpstreamFailed, "the provider %s returned an address that is not valid", c.provider).
			WithCode("upstream_unreadable")
	}
	if r.ContentLength = in.Length; in.Header != nil {
		r.Header = in.Header
	}
	res, err := c.deps.Fetch(r)
	if err != nil {
		return nil, fmt.Errorf("a signed address of %s: %w", c.provider, err)
	}
	return &vendorcall.Response{Status: res.StatusCode, Header: res.Header, Body: res.Body}, nil
}

// send serves a call in the background, and returns its response when it begins.
func (c *caller) send(r *http.Request, service string) (*vendorcall.Response, error) {
	out, in := io.Pipe()
	w := &pipeWriter{header: make(http.Header), to: in, begun: make(chan struct{})}
	call := &dataplane.Call{Identity: c.identity, Service: service, Manages: true}
	go func() {
		c.deps.Call(w, r, call)
		w.WriteHeader(http.StatusOK) // a response without a body
		if call.Result.Broken {
			in.CloseWithError(io.ErrUnexpectedEOF)
			return
		}
		in.Close()
	}()
	<-w.begun
	return &vendorcall.Response{Status: w.status, Header: w.header, Body: out}, nil
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

// Write implements [http.ResponseWriter].
func (p *pipeWriter) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	return p.to.Write(b)
}
