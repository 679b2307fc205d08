package dataplane

import (
	"io"
	"net/http"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/guardrail"
	"modelgate/internal/snapshot"
)

// prepareTools admits a request to tool servers whose caller has the scope. What its message
// does is limited by [ToolRequest.Begin]. Only requests with a message take room.
func (p *Plane) prepareTools(r *http.Request, a *admission) error {
	if a.request.DryRun {
		return apierr.New(apierr.Invalid, "requests to tool servers cannot be explained").WithParam("path")
	}
	if err := checkToolOptions(a); err != nil {
		return err
	}
	a.request.Limiting.Limits = a.limits()
	a.request.Limiting.Policies, a.request.Limiting.Facts = a.snap.Policies, a.facts()
	if r.Method != http.MethodPost {
		return nil
	}
	return p.enterGate(r, a)
}

// checkToolCredentials returns an error for a request to tool servers with different
// credentials: a client that has signed in and also sends a key must not be taken for the
// other of the two. A credential that is repeated in another header is one.
func checkToolCredentials(a *admission) error {
	if !a.route.tools {
		return nil
	}
	h := a.request.Received.Header
	names := []string{api.HeaderKey, "X-Api-Key", "X-Goog-Api-Key"}
	for _, prefix := range a.snap.HeaderPrefixes {
		names = append(names, prefix+strings.TrimPrefix(api.HeaderKey, api.HeaderPrefix))
	}
	key, from := snapshot.Bearer(h), "authorization"
	for _, name := range names {
		v := ""
		if len(h[name]) == 1 {
			v = h[name][0]
		}
		switch {
		case v == "" || v == key:
		case key != "":
			return apierr.New(apierr.Invalid, "the headers %s and %s have different credentials; send one of them: a gateway key or a token in authorization, or a gateway key in x-gateway-api-key",
				from, strings.ToLower(name)).WithParam(strings.ToLower(name)).WithCode("conflicting_credentials")
		default:
			key, from = v, strings.ToLower(name)
		}
	}
	return nil
}

// checkToolOptions returns an error for a header that chooses who serves a request and how,
// which has no meaning for tool servers, and announces the others that have none.
func checkToolOptions(a *admission) error {
	o := &a.opts
	for _, refused := range [...]struct {
		name string
		sent bool
	}{
		{api.HeaderProvider, o.provider != ""}, {api.HeaderVirtualKey, o.virtualKey != ""}, {api.HeaderCustomHost, o.customHost != ""},
		{api.HeaderConfig, o.config != a.request.Identity.Config}, {api.HeaderForwardHeaders, len(o.forward) > 0},
	} {
		if refused.sent {
			name := strings.ToLower(refused.name)
			return apierr.New(apierr.Invalid, "the header %s has no meaning for tool servers; remove it", name).
				WithParam(name).WithCode("option_not_for_tools")
		}
	}
	for _, ignored := range [...]struct {
		name string
		sent bool
	}{
		{api.HeaderAttemptTimeout, o.attempt > 0}, {api.HeaderStrict, o.strict != nil}, {api.HeaderCacheRefresh, a.request.Cache.Refresh},
		{api.HeaderCacheNamespace, a.request.Cache.Namespace != ""},
	} {
		if ignored.sent {
			a.noteIgnored(ignored.name)
		}
	}
	a.reportIgnored()
	return nil
}

// findGuards finds the guardrails of the organisation and the workspace, which apply to every
// message. Headers that only they may set are removed from the request.
func (t *ToolRequest) findGuards(r *http.Request) error {
	x := t.trip
	if t.plane.SkipGuardrails {
		return nil
	}
	g, err := x.admission.snap.Guards(t.Identity)
	if err != nil || g == nil {
		return err
	}
	t.tools.guards = g
	x.targets.admitChecks(g.Before, g.After)
	r.Header = guardrail.WithoutFields(r.Header, guardrail.Fields(g.Before))
	return nil
}

// toolBody is the body of a request to tool servers: bounded, counted and captured for the
// log.
type toolBody struct {
	io.ReadCloser
	trip *roundTrip
	read int64
	left int64
}

// Read implements [io.Reader].
func (b *toolBody) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if int64(n) > b.left {
		return 0, apierr.New(apierr.TooLarge, "the message is larger than %d bytes", b.trip.admission.plane.MaxJSON)
	}
	b.read, b.left = b.read+int64(n), b.left-int64(n)
	captureRequest(&b.trip.admission, p[:n])
	b.trip.entry.RequestBytes = max(b.trip.entry.RequestBytes, b.read)
	return n, err
}
