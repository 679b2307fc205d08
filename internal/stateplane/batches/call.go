package batches

import (
	"context"
	"fmt"
	"net/http"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane"
	"modelgate/internal/identity/access"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/stateplane/vendorbatch"
	"modelgate/internal/store"
)

// caller sends requests to the provider of a batch, as calls of the gateway.
type caller struct {
	deps     *kept.Deps
	identity *access.Identity
	provider string // "@" and its slug
	trace    string
}

// callerOf returns the caller of a request to a batch.
func callerOf(q *kept.Request, o *store.Object) *caller {
	return &caller{q.Deps, q.From.Identity, o.Provider, q.From.TraceID}
}

// jobCaller returns the caller of the job of a batch. It acts for the workspace: the key
// that created the batch may have been deleted since, and the batch must be settled.
func jobCaller(deps *kept.Deps, o *store.Object, d *details) *caller {
	id := &access.Identity{
		KeyID: o.KeyID, Organisation: o.Organisation, Workspace: o.Workspace, Name: "batches", Scopes: []access.Scope{access.ScopeCompletions},
	}
	return &caller{deps, id, o.Provider, d.TraceID}
}

// Call implements [vendorbatch.Caller].
func (c *caller) Call(ctx context.Context, in *vendorbatch.Request) (*vendorbatch.Response, error) {
	if in.Link != "" {
		return c.fetch(ctx, in)
	}
	if in.Service != "" && in.Service != vendorbatch.ServiceHost && in.Service != vendorbatch.ServiceBedrock {
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
	res := c.deps.Stream(r, &dataplane.Call{Identity: c.identity, Service: in.Service, Manages: true})
	return &vendorbatch.Response{Status: res.Status, Header: res.Header, Body: res.Body}, nil
}

// fetch sends a request to an address that the provider has signed. It has no credential of
// the provider, and only a public address is reached.
func (c *caller) fetch(ctx context.Context, in *vendorbatch.Request) (*vendorbatch.Response, error) {
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
	return &vendorbatch.Response{Status: res.StatusCode, Header: res.Header, Body: res.Body}, nil
}
