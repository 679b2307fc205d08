package dataplane

import (
	"encoding/json"
	"modelgate/internal/pipeline/guarding"
	"net/http"
	"strings"
	"sync"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/identity/access"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/snapshot"
)

// Tools serves the requests of callers who may use tool servers, and of those who may use agents.
type Tools interface {
	// ServeTools serves a request. An error before the first byte of the response is written
	// as one of JSON-RPC; after that, the connection is broken off.
	ServeTools(w http.ResponseWriter, r *http.Request, t *ToolRequest) error

	// CheckServer returns an error if id may use nothing at the address of the server or bundle
	// with a slug.
	CheckServer(s *snapshot.Snapshot, id *access.Identity, slug string) error
}

// ToolRequest is an admitted request to tool servers: its caller is known and has the scope.
// What a message of it does is limited, checked and recorded by its methods.
type ToolRequest struct {
	Identity *access.Identity
	Snapshot *snapshot.Snapshot
	ID       string    // of the request
	Time     time.Time // when it arrived
	Slug     string    // of the server, bundle or agent in the path; empty for all servers
	ForAgent bool      // Slug is that of an agent
	Path     string    // below the address of an agent; empty for the address itself
	TraceID  string
	Metadata map[string]string

	// MessageID is the id of the message, with which errors are written. Nil until it is read.
	MessageID json.RawMessage
	// Session is the session of the protocol that the message belongs to. Policies use it if the
	// metadata names no session. It is set before Begin; empty for none.
	Session string

	plane *Plane
	trip  *roundTrip
	mu    sync.Mutex // guards the trail and the entry of trip, and what follows
	tools toolState
}

// Describe sets what the log says of the message: its operation, the slug of its server and
// the name of the tool, prompt or resource, as the server knows it. Unknown names are empty.
func (t *ToolRequest) Describe(op api.Operation, server, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := &t.trip.entry
	e.Operation, e.Slug, e.Model = op, server, truncate(name)
}

// SetTrace joins the request to the trace of a message, in the form of W3C Trace Context,
// unless its headers name one. An invalid one is ignored, as the standard says. The state of
// the trace passes on with the message.
func (t *ToolRequest) SetTrace(traceparent string) {
	h := http.Header{api.HeaderTraceParent: {traceparent}}
	if _, _, _, ok := traceParent(h); !ok {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	a := &t.trip.admission
	if e := &t.trip.entry; e.TraceID == a.id {
		e.TraceID = ""
		a.traceFrom(h)
		t.TraceID = e.TraceID
	}
}

// Address returns the address of the gateway as the client sees it, without a slash at its
// end. Empty means that it is unknown.
func (t *ToolRequest) Address(r *http.Request) string {
	return strings.TrimSuffix(t.plane.ownAddress(r), "/")
}

// Refresh makes the request see what has changed since it arrived, and reports whether
// anything has. The error says that its caller may no longer use tools. It is for streams,
// which last.
func (t *ToolRequest) Refresh() (changed bool, err error) {
	a, now, s := &t.trip.admission, time.Now(), t.plane.Snapshot.Load()
	if end := t.Identity.ExpiresAt; s == t.Snapshot && (end.IsZero() || now.Before(end)) {
		return false, nil
	}
	id, _, err := a.findIdentity(s, now)
	if err != nil {
		return false, err
	}
	if scope := a.route.scope; !id.Allows(scope) {
		return false, missingScope(scope)
	}
	t.Snapshot, t.Identity = s, id
	return true, id.CheckAddress(a.remote)
}

// Guards reports whether guardrails may deny or change what reaches servers, and what they
// answer. What they do not read must not pass then.
func (t *ToolRequest) Guards() (arguments, results bool) {
	g := guarding.ToolGuard{Guards: t.tools.guards}
	return g.ActsOnArguments(), g.ActsOnResults()
}

// HoldsKey reports whether values of a header have a credential of the gateway.
func (t *ToolRequest) HoldsKey(values []string) bool {
	return t.trip.admission.request.Received.HoldsKey(values)
}

// toolRoute is that of tool servers, and agentRoute that of agents. Their requests are read by
// what serves them.
var (
	toolRoute  = route{op: api.Tools, body: bodyJSON, scope: access.ScopeTools, tools: true}
	agentRoute = route{op: api.Agents, body: bodyJSON, scope: access.ScopeAgents, tools: true}
)

// findToolRoute returns the route of a path of tool servers: /mcp for all servers of the
// caller, /mcp/{slug} and /{slug}/mcp for one, also below the base path; and of agents.
func findToolRoute(path string) (route, bool) {
	if _, _, ok := toolserver.AgentOf(path); ok {
		return agentRoute, true
	}
	_, ok := toolSlug(path)
	return toolRoute, ok
}

// toolSlug returns the slug in a path of tool servers, and false for other paths.
func toolSlug(path string) (slug string, ok bool) {
	return toolserver.SlugOf(path)
}

var errNoTools = apierr.New(apierr.NotFound, "this gateway has no tool servers or agents")

// serveTools passes the request to what serves tool servers.
func (p *Plane) serveTools(w http.ResponseWriter, r *http.Request, x *roundTrip) error {
	if p.Tools == nil {
		return errNoTools
	}
	r, stop := x.admission.limitTime(r)
	defer stop()
	a := &x.admission
	t := &ToolRequest{Identity: a.request.Identity, Snapshot: a.snap, ID: a.id, Time: a.request.Time,
		TraceID: a.request.TraceID, Metadata: a.request.Metadata, plane: p, trip: x}
	if t.Slug, t.Path, t.ForAgent = toolserver.AgentOf(x.entry.Path); !t.ForAgent {
		t.Slug, _ = toolSlug(x.entry.Path)
	}
	x.tools = t
	x.trail.Bill() // before messages share it
	if err := t.findGuards(r); err != nil {
		return err
	}
	r.Body = &toolBody{ReadCloser: r.Body, trip: x, left: p.MaxJSON}
	return p.writeObject(w, r, x, func(w http.ResponseWriter) error {
		defer t.end()
		return p.Tools.ServeTools(w, r, t)
	})
}
