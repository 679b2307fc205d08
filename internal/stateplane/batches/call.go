package batches

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane"
	"modelgate/internal/dialect"
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
	out := kept.Outgoing{
		Provider: c.provider, TraceID: c.trace, Method: in.Method, Path: in.Path, Query: in.Query,
		Header: in.Header, Body: in.Body, Length: in.Length,
	}
	r, err := out.Request(ctx)
	if err != nil {
		return nil, err
	}
	call := &dataplane.Call{Identity: c.identity, Service: in.Service, Manages: true, ModelsChecked: true}
	res := c.deps.Stream(r, call)
	answer := &vendorcall.Response{Status: res.Status, Header: res.Header, Body: res.Body}
	if res.Status < http.StatusBadRequest {
		return answer, nil
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxError)) // of what has arrived
	io.Copy(io.Discard, res.Body)                             // then the call has ended
	if !call.Result.Sent {
		return nil, refusal(res.Status, body)
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	return answer, nil
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

// maxError limits what is read of an error.
const maxError = 64 << 10

// refusals are the kinds of errors by status if the gateway itself refused the request. That
// an object was not found, only its provider says.
var refusals = map[int]apierr.Kind{
	http.StatusUnauthorized: apierr.Unauthenticated, http.StatusForbidden: apierr.Forbidden, http.StatusNotFound: apierr.Conflict,
	http.StatusConflict: apierr.Conflict, http.StatusPreconditionFailed: apierr.BudgetExhausted,
	http.StatusRequestEntityTooLarge: apierr.TooLarge, http.StatusTooManyRequests: apierr.RateLimited,
	http.StatusNotImplemented: apierr.Unsupported, http.StatusBadRequest: apierr.Invalid,
}

// refusal returns the error of a request that the gateway did not send.
func refusal(status int, body []byte) error {
	kind, ok := refusals[status]
	if !ok {
		kind = apierr.Unavailable
	}
	e := apierr.New(kind, "%s", dialect.ErrorMessage(body))
	var sent struct {
		Error struct{ Param, Code string }
	}
	if json.Unmarshal(body, &sent) == nil {
		e.Param, e.Code = sent.Error.Param, sent.Error.Code
	}
	return e
}
