package dataplane

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane/socket"
	"modelgate/internal/pipeline/exchange"
)

// Follow is a connection to a realtime call that has no client: it counts what the call uses.
type Follow struct {
	// Model is that of the call, for its price; empty is unknown.
	Model string
	// Check returns why the call may not go on, nil if it may. It is called every second.
	Check func() error

	Result socket.Result // once the connection has ended
}

// NewFollow returns the request of a connection to a call of a managed provider, to be served
// by [Plane.Call]. path is that of connections of its kind, below /v1.
func NewFollow(ctx context.Context, path, provider, id string) (*http.Request, error) {
	address := api.BasePath + path + "?call_id=" + url.QueryEscape(id)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	r.RequestURI = address
	r.Header = http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"},
		"Sec-Websocket-Key": {"AAAAAAAAAAAAAAAAAAAAAA=="}, // the connection to the provider has its own
	}
	r.Header.Set(api.HeaderProvider, provider)
	return r, nil
}

// follow reads the connection to a call until it ends.
func (c *connection) follow(ctx context.Context, conn *socket.Provider, upgraded *exchange.Response) {
	f, relay := c.round.admission.call.Follow, c.relay(conn, upgraded)
	relay.Check = f.Check
	f.Result = c.plane.Sockets.Follow(ctx, relay)
	c.round.endRelay(upgraded, &f.Result, false)
}

// findCall finds the call that a connection names, whose provider it is sent to. A call of
// another workspace is answered like one that does not exist. It does nothing for connections
// to no call, those with credentials of the client, and those of the gateway.
func (c *connection) findCall(ctx context.Context) error {
	p, a := c.plane, &c.round.admission
	values, err := url.ParseQuery(a.request.Received.Query)
	if err != nil {
		return apierr.New(apierr.Invalid, "the query is not valid; encode its values").WithParam("query")
	}
	ids := values["call_id"]
	switch {
	case len(ids) > 1:
		return apierr.New(apierr.Invalid, "the query names several calls; name one").WithParam("call_id")
	case len(ids) == 0 || p.Keeper == nil || a.call != nil || a.opts.customHost != "":
		return nil
	case a.opts.provider != "" && !strings.HasPrefix(a.opts.provider, "@"):
		return nil
	}
	found, err := p.Keeper.FindCall(ctx, a.request.Identity.Workspace, ids[0])
	if err != nil {
		if !apierr.IsNotFound(err) || !p.Keeper.PassesUnrecorded() && a.opts.config == "" {
			return err
		}
		c.unknownCall = err // unless its config leads to an account of the client
		return nil
	}
	if a.opts.config == a.request.Identity.Config || a.opts.config == "" { // the request names none
		a.opts.config, a.opts.virtualKey, a.opts.provider = "", "", found.Provider
	}
	if found.ID != ids[0] {
		a.request.Received.Query = replaceParameter(a.request.Received.Query, "call_id", found.ID)
	}
	c.joined = &found
	return nil
}

// checkCall returns an error for a connection to a call that is not at the target of the
// connection.
func (c *connection) checkCall() error {
	for _, leaf := range c.round.admission.request.Leaves {
		managed := leaf.Target != nil && leaf.Target.Slug != ""
		switch {
		case c.unknownCall != nil && managed && !c.plane.Keeper.PassesUnrecorded():
			return c.unknownCall
		case c.joined != nil && (!managed || "@"+leaf.Target.Slug != c.joined.Provider):
			return apierr.New(apierr.Invalid, "the call is at the provider %s, and the config of the request has other targets", c.joined.Provider).
				WithParam("x-gateway-config").WithCode("object_of_another_provider")
		}
	}
	return nil
}

// endsCall reports whether a request ends a call, which it may do whatever limit is reached.
func (a *admission) endsCall() bool {
	if a.request.Received.Method != http.MethodPost {
		return false
	}
	path, ok := strings.CutSuffix(a.request.Received.Path, "/hangup")
	if !ok {
		path, ok = strings.CutSuffix(a.request.Received.Path, "/reject")
	}
	id, below := strings.CutPrefix(strings.Replace(path, "/translations", "", 1), "/realtime/calls/")
	return ok && below && id != "" && !strings.Contains(id, "/")
}
