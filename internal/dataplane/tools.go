package dataplane

import (
	"net/http"
	"strings"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/identity/access"
	"modelgate/internal/snapshot"
)

// Tools serves the requests of callers who may use tool servers.
type Tools interface {
	// ServeTools serves a request. An error before the first byte of the response is written
	// as one of JSON-RPC; after that, the connection is broken off.
	ServeTools(w http.ResponseWriter, r *http.Request, t *ToolRequest) error
}

// ToolRequest is an admitted request to tool servers: its caller is known and has the scope.
// What a message of it does is limited, checked and recorded by its methods.
type ToolRequest struct {
	Identity *access.Identity
	Snapshot *snapshot.Snapshot
	ID       string    // of the request
	Time     time.Time // when it arrived
	Slug     string    // of the server or bundle in the path; empty for all servers
	TraceID  string
	Metadata map[string]string

	plane *Plane
	trip  *roundTrip
}

// Describe sets what the log says of the message: its operation, the slug of its server and
// the name of the tool, prompt or resource, as the server knows it. Unknown names are empty.
func (t *ToolRequest) Describe(op api.Operation, server, name string) {
	e := &t.trip.entry
	t.trip.admission.request.Operation, e.Operation = op, op
	e.Slug, e.Model = server, truncate(name)
}

// Address returns the address of the gateway as the client sees it, without a slash at its
// end. Empty means that it is unknown.
func (t *ToolRequest) Address(r *http.Request) string {
	return strings.TrimSuffix(t.plane.ownAddress(r), "/")
}

var toolRoute = route{op: api.Tools, body: bodyNone, scope: access.ScopeTools, tools: true}

// findToolRoute returns the route of a path of tool servers: /mcp for all servers of the
// caller, /mcp/{slug} and /{slug}/mcp for one, also below the base path.
func findToolRoute(path string) (route, bool) {
	_, ok := toolSlug(path)
	return toolRoute, ok
}

// toolSlug returns the slug in a path of tool servers, and false for other paths.
func toolSlug(path string) (slug string, ok bool) {
	rest, _ := strings.CutPrefix(path, api.BasePath+"/")
	rest = strings.TrimPrefix(rest, "/")
	if rest == "mcp" {
		return "", true
	}
	slug, ok = strings.CutPrefix(rest, "mcp/")
	if !ok {
		slug, ok = strings.CutSuffix(rest, "/mcp")
	}
	return slug, ok && slug != "" && !strings.Contains(slug, "/")
}

var errNoTools = apierr.New(apierr.NotFound, "this gateway has no tool servers")

// serveTools passes the request to what serves tool servers.
func (p *Plane) serveTools(w http.ResponseWriter, r *http.Request, x *roundTrip) error {
	if p.Tools == nil {
		return errNoTools
	}
	a := &x.admission
	t := &ToolRequest{Identity: a.request.Identity, Snapshot: a.snap, ID: a.id, Time: a.request.Time,
		TraceID: a.request.TraceID, Metadata: a.request.Metadata, plane: p, trip: x}
	t.Slug, _ = toolSlug(x.entry.Path)
	return p.writeObject(w, r, x, func(w http.ResponseWriter) error { return p.Tools.ServeTools(w, r, t) })
}
