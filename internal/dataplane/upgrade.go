package dataplane

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane/socket"
	"modelgate/internal/identity/access"
	"modelgate/internal/limits/inbound"
)

// socketKind says what the WebSocket connections of a route carry.
type socketKind uint8

const (
	noSocket       socketKind = iota
	socketTurns               // requests for responses, and the events of their streams
	socketRealtime            // the realtime protocol, which passes through
	socketLive                // the live protocol of gemini, which passes through
	socketOpaque              // messages that pass through and are not read
)

// socketRoutes are the routes that serve WebSocket connections, by path.
var socketRoutes = map[string]route{
	"/v1/responses": {op: api.Responses, body: bodyNone, scope: access.ScopeCompletions, dialect: api.DialectResponses,
		socket: socketTurns},
	"/v1/realtime":              relayRoute(socketRealtime),
	"/v1/realtime/translations": relayRoute(socketRealtime),
	"/v1/live/sessions":         relayRoute(socketOpaque),
}

func relayRoute(k socketKind) route {
	return route{op: api.Proxy, body: bodyNone, scope: access.ScopeCompletions, socket: k}
}

// findSocketRoute returns the route of a request that begins a WebSocket connection. It is
// false for other requests, and for paths that serve none.
func findSocketRoute(p *Plane, r *http.Request, path string) (route, bool) {
	if p.Sockets == nil || r.Method != http.MethodGet || !isUpgrade(r.Header) {
		return route{}, false
	}
	if strings.HasPrefix(path, live) && strings.HasSuffix(path, ".BidiGenerateContent") {
		out := relayRoute(socketLive)
		out.dialect, out.api = api.DialectGemini, geminiLive
		return out, true
	}
	out, ok := socketRoutes[path]
	return out, ok
}

// isUpgrade reports whether a request begins a WebSocket connection.
func isUpgrade(h http.Header) bool {
	return lists(h["Connection"], "upgrade") && lists(h["Upgrade"], "websocket")
}

// checkUpgrade returns an error for a request that begins a WebSocket connection at a path that
// serves none: without the upgrade, a provider would read another request in it. Clients such as
// Codex take its status for "use HTTP", and other statuses for a failure that they repeat.
func (a *admission) checkUpgrade() error {
	if a.route.socket != noSocket || !isUpgrade(a.request.Received.Header) {
		return nil
	}
	return apierr.New(apierr.UpgradeRefused, "the gateway does not support WebSocket connections at this path; send requests over HTTP").WithParam("upgrade")
}

// lists reports whether values of a header list a name, with or without a version.
func lists(values []string, name string) bool {
	for _, v := range values {
		for one := range strings.SplitSeq(v, ",") {
			if one, _, _ = strings.Cut(one, "/"); strings.EqualFold(strings.TrimSpace(one), name) {
				return true
			}
		}
	}
	return false
}

// connection is a handshake with a WebSocket connection, or with a client secret for one.
type connection struct {
	plane *Plane
	round *roundTrip

	// offered are the sub-protocols that the client offers, without keys.
	offered []string
	// fixed are the fields of the session that the client may not change, nil for none.
	// fixedModel is true if its model is one of them.
	fixed      []byte
	fixedModel bool

	grant *clientSecret // that begins the session; nil for none

	// joined is the realtime call that it joins, nil for none. unknownCall is the error for a
	// call that its workspace does not have.
	joined      *KeptCall
	unknownCall error
}

// serve serves a WebSocket connection to its end. An error means that nothing has been
// written: the client gets it as the response to its handshake.
func (c *connection) serve(w http.ResponseWriter, r *http.Request) error {
	p, x := c.plane, c.round
	if err := c.admit(r); err != nil {
		return p.earlierLimit(r.Context(), &x.admission, err)
	}
	if x.admission.route.socket == socketTurns {
		return c.serveTurns(w, r)
	}
	return c.serveRelay(w, r)
}

// admit admits a connection, or a request whose body is read later, in the order in which
// requests are. What the messages of a connection ask for is checked when they arrive.
func (c *connection) admit(r *http.Request) error {
	p, a := c.plane, &c.round.admission
	if a.route.socket > socketTurns {
		if err := c.useSubprotocols(); err != nil {
			return err
		}
	}
	if err := a.authenticate(); err != nil {
		return err
	}
	err := a.admit()
	inbound.MarkAuthenticated(r.Context())
	p.startCapture(r, a)
	if err == nil {
		err = a.checkRoute()
	}
	if err == nil && a.route.socket != noSocket {
		err = socket.CheckHandshake(r)
	}
	if err != nil {
		return err
	}
	a.request.Limiting.Limits = a.limits()
	if err := a.checkBudget(); err != nil {
		return err
	}
	if err := p.checkRates(a); err != nil {
		return err
	}
	return c.checkFirstUse()
}

// check returns an error if the client of an open connection may not go on: its key was
// revoked, is disabled or has expired, or lost its scope.
func (c *connection) check() error {
	p, a := c.plane, &c.round.admission
	now := p.Snapshot.Load()
	id, _, err := now.Authenticate(a.request.Received.Header, time.Now())
	if err != nil {
		return err
	}
	if err := id.CheckAddress(a.remote); err != nil {
		return err
	}
	if !id.Allows(a.route.scope) {
		return missingScope(a.route.scope)
	}
	return now.CheckServed(id)
}

func missingScope(s access.Scope) error {
	return apierr.New(apierr.Forbidden, "this gateway key lacks the scope %q", s)
}

// serveTurns serves a connection for responses. Each turn is a request with the headers of the
// handshake: it is admitted, limited, routed and recorded like one, in the trace of the
// connection.
func (c *connection) serveTurns(w http.ResponseWriter, r *http.Request) error {
	p, x, a := c.plane, c.round, &c.round.admission
	turn := turnRequest{plane: p, header: turnHeader(a), host: r.Host, remote: r.RemoteAddr}
	x.setGatewayHeaders(w.Header())
	served, err := p.Sockets.ServeResponses(w, r, socket.Responses{
		Check:      func() error { return c.check() },
		Serve:      turn.serve,
		Memory:     p.Engine.Bounds.Pool.Organisation(a.request.Identity.Organisation),
		MaxMessage: p.MaxJSON,
	})
	if err != nil && !socket.IsAnswered(err) {
		return err
	}
	x.headWritten, x.complete = true, true
	if x.entry.Status = http.StatusSwitchingProtocols; err != nil {
		x.entry.Status = http.StatusBadRequest
	}
	p.Logger.Debug("connection for responses ended", "exchange", a.id, "turns", served)
	return nil
}

// turnHeader returns the headers of the requests of a connection: those of its handshake that
// are not about the connection.
func turnHeader(a *admission) http.Header {
	h := a.request.Received.Header.Clone()
	for name := range h {
		if strings.HasPrefix(name, "Sec-Websocket-") {
			delete(h, name)
		}
	}
	for _, name := range [...]string{"Connection", "Upgrade", "Content-Length", "Content-Encoding", "Accept-Encoding", "Origin"} {
		delete(h, name)
	}
	h["Content-Type"], h["Accept"] = jsonType, []string{"text/event-stream"}
	if h[api.HeaderTraceID] == nil && h[api.HeaderTraceParent] == nil {
		h[api.HeaderTraceID] = []string{a.request.TraceID}
	}
	return h
}

// turnRequest makes the requests of a connection for responses.
type turnRequest struct {
	plane        *Plane
	header       http.Header // of each request; must not be changed
	host, remote string
}

// serve serves one request. ctx ends with the connection.
func (t *turnRequest) serve(ctx context.Context, w http.ResponseWriter, body []byte) {
	const path = api.BasePath + "/responses"
	r := (&http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: path}, RequestURI: path, Host: t.host, RemoteAddr: t.remote,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: t.header.Clone(),
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}).WithContext(ctx)
	r, err := t.plane.Engine.Client.Enter(r)
	if err != nil {
		t.plane.Refuse(w, r, err)
		return
	}
	t.plane.ServeHTTP(w, r)
}
