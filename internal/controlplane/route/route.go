// Package route declares and serves the routes of the control plane.
//
// A route is declared once with its request and response types, its scopes and its
// audit resource. Decoding, validation, authentication, audit events, error format and
// the OpenAPI document all derive from the declaration. The package guarantees that a
// handler runs only for a caller who may call it, and that every change and every
// attempt at one is in the audit log. It does not implement objects (see the other
// packages of the control plane) or store rows (see store).
package route

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/base/egress"
	"modelgate/internal/guardrail"
	"modelgate/internal/identity/access"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
)

// Deps are the dependencies that all routes have in common. What one family needs is in
// its own package.
type Deps struct {
	DB     *store.DB
	Logger *slog.Logger

	// Authenticate returns the identity of the sender. An error is an *apierr.Error.
	Authenticate func(r *http.Request) (*access.Identity, error)

	// OnChange is called after every committed change. It returns the time within which
	// other nodes apply it; zero if there are none. Nil is not called.
	OnChange func() time.Duration

	// Now is the clock. Nil is time.Now.
	Now func() time.Time

	// AwaitSpending returns when all settlements of this process are counted in budgets; see
	// [Caller.AwaitSpending]. Nil does not wait.
	AwaitSpending func(ctx context.Context) error

	// Guardrails compiles saved guardrails, to check them; nil checks none.
	Guardrails *guardrail.Table

	// Bodies counts the memory of request bodies, and Keyless limits what the audit log
	// stores of requests without a valid key. Nil has no limit.
	Bodies  *bytepool.Pool
	Keyless *reqlog.Allowance

	// Time limits a request after its body was read. Zero means unlimited.
	Time time.Duration

	// Secrets seals secrets for storage. If nil, requests with secrets are rejected.
	Secrets Sealer

	// CheckHost checks an address that a request sets for a provider and returns it as
	// base address. Nil allows only public addresses.
	CheckHost func(raw string) (*url.URL, error)

	// Egress returns the egress policies of a workspace, or of the organisation if the
	// workspace is empty; nil for none. If nil there are none.
	Egress func(organisation, workspace string) *egress.Policies

	Links

	// Files returns the objects declared in the settings file. Nil is none.
	Files func() Declared

	Off     DisabledFeatures // disabled features
	Version string           // of the program, for the OpenAPI document
}

// Route declares a route. Paths are written without /v1 and with {name} for path
// parameters. A path that begins with /v2/ is served as it is, and so is a further path that
// begins with one of the [standardPaths].
type Route struct {
	Method string
	Path   string
	Also   []string // further paths of the same route

	Name    string // unique, for example list-configs; OpenAPI's operationId
	Summary string // what it does, in one sentence
	Tag     string // the family, in the OpenAPI document

	// Scopes allow the route: a caller needs one of them. Empty allows every
	// authenticated caller. Open routes need no authentication.
	Scopes []access.Scope
	Open   bool

	// Resource is the audit log's name of what the route changes; empty for routes that
	// change nothing.
	Resource string

	// Pending lists what pending sessions that may call the route wait for. Empty allows none.
	Pending []string

	// Fresh routes refuse sessions whose user has not proved for some minutes who they are.
	Fresh bool

	// Versioned routes accept If-Match: their handlers call [Caller.CheckIfMatch].
	Versioned bool

	// Data marks a route of the data plane: only workspace keys and tokens may call it,
	// even while the control plane accepts only sessions.
	Data bool

	// MaxBody is the limit of a request body, in bytes. Zero is 4 MB, or 64 KB for Open
	// routes.
	MaxBody int64
	// Private routes have codes in their bodies, of which the audit log stores nothing but what
	// [Caller.AddAuditDetail] adds.
	Private bool
	// Bulk is a member of the body of which the audit log stores only the length.
	Bulk string
	// Form also accepts the body as a form, whose fields are the members of the object. It
	// ignores fields that the object does not have.
	Form bool
	// UncheckedBody leaves checking the shape of the body to the handler.
	UncheckedBody bool

	params     params   // of the query
	filters    params   // in the body
	fields     []string // of a form: members of the body
	budgets    budgetForm
	paged      bool     // a list, whose pages are selected by parameters
	browser    bool     // added by AddBrowser, or of a private protocol
	keptByNull []string // of a PUT: the fields in its body that null leaves unchanged

	protocol *Protocol // whose errors it has; nil for the control plane's
}

// standardPaths begin further paths that are served as they are, mostly because standards or
// their clients expect them there.
var standardPaths = []string{"/v0.1/", "/v2/", "/scim/v2/", "/oauth/", "/.well-known/"}

// Paths returns all paths of the route as clients send them, the main one first.
func (r *Route) Paths() []string {
	list := []string{api.BasePath + r.Path}
	for _, p := range r.Also {
		if !slices.ContainsFunc(standardPaths, func(prefix string) bool { return strings.HasPrefix(p, prefix) }) {
			p = api.BasePath + p
		}
		list = append(list, p)
	}
	return list
}

// right returns the permission that users need in the request's workspace, in addition
// to a scope: the permission of the first scope that has one. [Caller.InWorkspace]
// checks it.
func (r *Route) right() access.Permission {
	for _, s := range r.Scopes {
		if right := s.Permission(); right != "" {
			return right
		}
	}
	return ""
}

// API serves the routes that were added to it. Routes must be added before serving;
// after that it is safe for concurrent use.
type API struct {
	Deps
	mux    *paths
	routes map[string]*Route // by mux pattern
	etags  map[string]bool   // paths of mux patterns whose objects have an ETag
	firsts map[string]bool   // first path segments of the routes, without the base path
	listed []*Route

	huma     huma.API
	describe sync.Once
	pending  []func() // what describe does
	handlers handlers // complete after describe

	refusals refusals
	minutely []Task
}

// New returns an API without routes, except for its own description at /openapi.json
// and /openapi.yaml.
func New(d Deps) *API {
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Bodies == nil {
		d.Bodies = bytepool.New(0)
	}
	configureHuma()
	c := huma.DefaultConfig("modelgate", d.Version)
	c.Info.Description = "Administration of the gateway. Every request is authenticated by a key, a token or a session; its scopes determine what it may do."
	c.CreateHooks = nil // they would add $schema to every response
	c.DocsPath = ""     // replaced by a page that loads nothing from elsewhere
	c.SchemasPath = ""
	c.Servers = []*huma.Server{{URL: "/"}}
	c.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaNames())
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"key":   {Type: "apiKey", In: "header", Name: "x-gateway-api-key"},
		"token": {Type: "http", Scheme: "bearer"},
	}
	a := &API{Deps: d, mux: new(paths), routes: make(map[string]*Route), etags: make(map[string]bool),
		firsts: make(map[string]bool), handlers: make(handlers)}
	a.EachMinute(a.pruneIdempotent)
	a.huma = humago.New(a.handlers, c)
	for pattern := range a.handlers { // those of the description
		a.mux.HandleFunc(pattern, a.handle)
	}
	return a
}

// Routes returns all routes in the order in which they were added. The slice is shared.
func (a *API) Routes() []*Route { return a.listed }

// Handles reports whether a request is for one of the routes. It reports false for a
// path that is not canonical.
func (a *API) Handles(r *http.Request) bool {
	if !storable(r.URL.Path) || r.URL.Path != path.Clean(r.URL.Path) || r.URL.RawPath != "" && plainAt.Replace(r.URL.RawPath) != r.URL.Path {
		return false
	}
	// Model requests pass here too, and for an unknown path the mux would search the
	// routes of every method.
	if rest, ok := strings.CutPrefix(r.URL.Path, api.BasePath); ok && !a.firsts[first(rest)] {
		return false
	}
	pattern, _ := a.mux.find(r)
	return pattern != ""
}

// plainAt decodes the at sign of a version, which some clients encode.
var plainAt = strings.NewReplacer("%40", "@")

// first returns the first segment of a path.
func first(p string) string {
	segment, _, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
	return segment
}

// ServeHTTP serves a request for which Handles reports true.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	pattern, _ := a.mux.find(r)
	route := a.routes[pattern]
	if route == nil { // the OpenAPI document
		a.mux.ServeHTTP(w, r)
		return
	}
	c := a.caller(r, route)
	c.header = w.Header()
	held, err := a.receive(r, route, c)
	if held != nil {
		defer held.Release()
	}
	r, cancel := a.inTime(r)
	defer cancel()
	out := &bufferedResponse{header: w.Header(), status: http.StatusOK}
	replayed := false
	if err == nil {
		replayed, err = a.replay(r.Context(), c, out)
	}
	switch {
	case err != nil:
		a.fail(out, route, err)
	case !replayed:
		a.mux.ServeHTTP(out, r.WithContext(withCaller(r.Context(), c)))
		a.describeState(r, c, pattern, out)
		a.remember(r.Context(), c, out)
	}
	c.finish(r.Context(), out.status)
	c.sign(out)
	w.WriteHeader(out.status)
	w.Write(out.body.Bytes())
}

// receive admits a request and reads its body into a buffer, which the caller must
// release if it is not nil. The request is admitted before the body, whose limits depend
// on the sender, and again after it: the key or session may have ended while it arrived.
func (a *API) receive(r *http.Request, route *Route, c *Caller) (*bytepool.Buffer, error) {
	if err := a.admitInTime(r, route, c); err != nil {
		return nil, err
	}
	if err := route.checkState(r.Header); err != nil {
		return nil, err
	}
	if route.paged && r.URL.RawQuery != "" {
		if err := selectPage(r); err != nil {
			return nil, err
		}
	}
	held, err := a.readBody(r, route, c)
	if err != nil {
		return nil, err
	}
	c.body = held.Bytes()
	err = route.normaliseInput(r, c)
	r.Body = io.NopCloser(bytes.NewReader(c.body))
	if err == nil && len(c.body) > 0 {
		err = a.admitInTime(r, route, c)
	}
	if err == nil {
		err = a.checkBody(r, route, c)
	}
	if err == nil {
		err = route.readIdempotencyKey(r, c)
	}
	return held, err
}

// selectPage gives the parameters of a page in the query of a list one name.
func selectPage(r *http.Request) error {
	query, err := pageQuery(r.URL.Query())
	if err == nil {
		u := *r.URL
		u.RawQuery = query.Encode()
		r.URL = &u
	}
	return err
}

// admit authenticates the request and checks that the caller may call the route.
func (a *API) admit(r *http.Request, route *Route, c *Caller) error {
	if route.Open {
		return nil
	}
	id, err := a.Authenticate(r)
	if err != nil {
		c.noteRefusal(err)
		return err
	}
	c.identify(id)
	if err := route.checkHolder(id); err != nil {
		return err
	}
	if route.Fresh {
		if err := c.CheckFresh(); err != nil {
			return err
		}
	}
	if route.Data && (id.Workspace == "" || id.Type == access.Session) {
		return apierr.New(apierr.Forbidden, "use a workspace key; organisation keys and sessions are for administration only").WithCode("AB03")
	}
	if !route.isAllowed(id) {
		return apierr.New(apierr.Forbidden, "this key or session lacks the scope %q", string(route.Scopes[0])).WithCode("AB03")
	}
	return route.checkFixed(id)
}

// isAllowed reports whether an identity has one of the scopes of the route.
func (r *Route) isAllowed(id *access.Identity) bool {
	return len(r.Scopes) == 0 || slices.ContainsFunc(r.Scopes, id.Allows)
}

// bufferedResponse holds a response until the audit event is written.
type bufferedResponse struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (k *bufferedResponse) Header() http.Header         { return k.header }
func (k *bufferedResponse) WriteHeader(status int)      { k.status = status }
func (k *bufferedResponse) Write(b []byte) (int, error) { return k.body.Write(b) }

// configureHuma sets package variables of huma, once: the constructors of errors, and
// how names of fields are compared.
var configureHuma = sync.OnceFunc(func() {
	huma.ValidateStrictCasing = true // a name in other capitals would be decoded, but not validated
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		return invalid(status, message, errs)
	}
	huma.NewErrorWithContext = func(hc huma.Context, status int, message string, errs ...error) huma.StatusError {
		f := invalid(status, message, errs)
		if c := callerOf(hc.Context()); c != nil {
			f.err = apierr.From(RestoreNames(f.err, c.sent))
		}
		return f
	}
})
