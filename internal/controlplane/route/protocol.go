package route

import (
	"context"
	"net/http"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/identity/access"
)

// Protocol is a standard whose routes write their own responses, such as SCIM. Its routes have
// the limits, the audit log and the features of all others.
type Protocol struct {
	// Holder is the only kind of caller of its routes, and may call no others. Empty is for
	// a protocol whose routes are open.
	Holder access.KeyType

	// Private keeps query and body out of the audit log, which have codes and tokens; see
	// [Caller.SetAuditDetails].
	Private bool

	// WriteError writes the error of a request.
	WriteError func(w http.ResponseWriter, err *apierr.Error)
}

// Handler writes the response to a request, whose body was read. If it returns an error it has
// written nothing.
type Handler func(ctx context.Context, c *Caller, w http.ResponseWriter, r *http.Request) error

// Add adds a route of the protocol to an API; see [Route.Also] for paths without the base path.
// [API.Routes] does not return it.
func (p *Protocol) Add(a *API, r Route, f Handler) {
	r.protocol, r.browser = p, p.Private
	a.addHandler(&r, func(w http.ResponseWriter, req *http.Request) {
		if err := f(req.Context(), callerOf(req.Context()), w, req); err != nil {
			p.WriteError(w, a.failure(err).err)
		}
	})
	a.Document(Documented{Method: r.Method, Path: r.Paths()[0], Tag: r.Tag, Summary: r.Summary})
}

// addHandler adds a route that writes its own responses.
func (a *API) addHandler(r *Route, f http.HandlerFunc) {
	for _, path := range r.Paths() {
		pattern := r.Method + " " + path
		a.routes[pattern] = r
		a.mux.HandleFunc(pattern, f)
		if rest, ok := strings.CutPrefix(path, api.BasePath); ok {
			a.firsts[first(rest)] = true
		}
	}
}

// Body returns the body of the request. The slice is valid until the response is written.
func (c *Caller) Body() []byte { return c.body }

// fail writes the error of a request for a route.
func (a *API) fail(w http.ResponseWriter, route *Route, err error) {
	failure := a.failure(err)
	if route.protocol == nil {
		failure.write(w)
		return
	}
	route.protocol.WriteError(w, failure.err)
}
