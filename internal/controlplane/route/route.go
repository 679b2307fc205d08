// Package route is how every route of the control plane is declared and served.
//
// A route is declared once with its request and answer types, the scopes that
// open it and what it is called in the audit log. From that one declaration come
// decoding and validation, the check of the caller, the audit row, the error's
// shape and the OpenAPI document. It promises that a handler runs only for a
// caller who may call it, and that whatever changes something or tries to is in
// the audit log. It does not act on objects (see the other packages of the control plane) or rows (store).
package route

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"modelgate/api"
	"modelgate/internal/access"
	"modelgate/internal/apierr"
	"modelgate/internal/bytepool"
	"modelgate/internal/logstore"
	"modelgate/internal/reqlog"
	"modelgate/internal/secret"
	"modelgate/internal/secretref"
	"modelgate/internal/snapshot"
	"modelgate/internal/store"
)

// Deps is what routes work with.
type Deps struct {
	DB     *store.DB
	Logger *slog.Logger

	// Authenticate finds who sends a request. An error is an *apierr.Error.
	Authenticate func(r *http.Request) (*access.Identity, error)

	// Token returns what a JSON Web Token of an organisation's own issuer proves.
	// An error is an *apierr.Error. Nil takes none.
	Token func(text string) (*access.Identity, error)

	// Changed is called after every change that was kept. Nil is not called.
	Changed func()

	// Sessions returns how long sessions are valid. Nil means the defaults.
	Sessions func() Lifetimes

	// SignIn is called for every attempt to sign in with its outcome: ok, wrong,
	// limited or busy. Nil is not called.
	SignIn func(outcome string)

	// Now is the clock. Nil is time.Now.
	Now func() time.Time

	// Sum sums what was recorded before. Nil knows of nothing.
	Sum func(ctx context.Context, q logstore.GroupQuery) ([]logstore.Group, error)

	// Log is what was recorded before, and FlushLog returns when all of it can be
	// read there. Recorder takes what is recorded by a route. Nil are none.
	Log      *logstore.Store
	FlushLog func(ctx context.Context) error
	Recorder reqlog.Recorder

	// Counted returns when everything that this process settled before is counted
	// for budgets: see [Caller.AwaitSpending]. Nil waits for nothing.
	Counted func(ctx context.Context) error

	// Bodies counts the memory of request bodies. Nil has no limit.
	Bodies *bytepool.Pool

	// Keyless is what the audit log may keep of requests without a valid key. Nil
	// has no limit.
	Keyless *reqlog.Allowance

	// Time bounds a request once its body was read. Zero is no limit.
	Time time.Duration

	// Kept is how much is kept of what a route records. Nil keeps no bodies.
	Kept func() snapshot.LogPolicy

	// Exports makes files of the log. Nil leaves to other nodes what is started.
	Exports Exports

	// Secrets seals what is stored and never shown. Nil refuses what has secrets.
	Secrets Sealer

	// References reads external secrets. Nil reads none of the
	// machine's own.
	References *secretref.Resolver

	// CheckHost checks an address that a request chose for a provider and returns
	// it as the base address to use. Nil takes public addresses alone.
	CheckHost func(raw string) (*url.URL, error)

	// PublicURL returns the address that links begin with, without a slash at its
	// end; empty when none is configured. ListenURL is the address that is listened
	// on. The Host header of a request decides nothing. Nil is none.
	PublicURL func() string
	ListenURL string

	// Files returns what the file declares that the gateway runs with. Nil is
	// nothing.
	Files func() Declared

	Off       DisabledFeatures // features that are turned off
	Retention Retention        // as it is shown

	Version string // of the program, for the OpenAPI document
}

// Sealer seals secrets for storage. Neither method is called inside a change:
// an organisation's first secret may make one.
type Sealer interface {
	// Seal returns s as a text that only Open, for the same organisation, opens.
	Seal(ctx context.Context, organisation string, s secret.String) (string, error)
	// Open returns what was sealed. Its errors hold nothing of it.
	Open(ctx context.Context, organisation, sealed string) (secret.String, error)
}

// Route declares one route. Paths are written without /v1, with {name} for the
// parts that a request gives. One that begins with /v2/ stands beside /v1.
type Route struct {
	Method string
	Path   string
	Also   []string // further paths for the same thing

	Name    string // unique, as in list-configs; OpenAPI's operationId
	Summary string // what it does, in a sentence
	Tag     string // the family, for readers of the document

	// Scopes open the route: one of them is enough. Empty opens it to every
	// caller. Open is for routes without a caller.
	Scopes []access.Scope
	Open   bool

	// Resource is what the route changes, in the words of the audit log; empty
	// for routes that change nothing.
	Resource string

	// Versioned routes take If-Match: their handlers call [Caller.CheckIfMatch].
	Versioned bool

	// Data marks a route of the data plane: keys and tokens of a workspace alone
	// call it, and do so while the control plane takes sessions alone.
	Data bool

	// MaxBody bounds a request, in bytes. Zero is 4 MB, or 64 KB for Open routes.
	MaxBody int64
	// UncheckedBody leaves it to the handler to refuse a body of another shape than the
	// one that the document shows.
	UncheckedBody bool
}

// Paths are all paths of the route as clients ask for them, its own first.
func (r *Route) Paths() []string {
	list := []string{api.BasePath + r.Path}
	for _, p := range r.Also {
		if !strings.HasPrefix(p, "/v2/") {
			p = api.BasePath + p
		}
		list = append(list, p)
	}
	return list
}

// Right is what people need to have in the workspace that a request is about,
// besides a scope: what the first scope asks for that asks for any. It is
// checked wherever [Caller.InWorkspace] finds that workspace.
func (r *Route) Right() access.Permission {
	for _, s := range r.Scopes {
		if right := s.Permission(); right != "" {
			return right
		}
	}
	return ""
}

// API serves the routes that were added to it. Adding is for the start; after
// that it is safe for concurrent use.
type API struct {
	Deps
	mux    *paths
	huma   huma.API
	routes map[string]*Route // by pattern of the mux
	firsts map[string]bool   // first segments of the routes' paths, after the base
	listed []*Route

	refusals refusals
	minutely []Task
}

// New returns an API without routes, except for its own description at
// /openapi.json and /openapi.yaml.
func New(d Deps) *API {
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Bodies == nil {
		d.Bodies = bytepool.New(0)
	}
	shapeErrors()
	c := huma.DefaultConfig("modelgate", d.Version)
	c.Info.Description = "Administration of the gateway. Every request shows a key or a session; what it may do is its scopes'."
	c.CreateHooks = nil // they would put $schema into every answer
	c.DocsPath = ""     // the page is our own: it loads nothing from elsewhere
	c.SchemasPath = ""
	c.Servers = []*huma.Server{{URL: "/"}}
	c.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaNames())
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"key":   {Type: "apiKey", In: "header", Name: "x-gateway-api-key"},
		"token": {Type: "http", Scheme: "bearer"},
	}
	a := &API{Deps: d, mux: new(paths), routes: make(map[string]*Route), firsts: make(map[string]bool)}
	a.huma = humago.New(a.mux, c)
	return a
}

// Routes returns every route in the order of adding. The slice is shared.
func (a *API) Routes() []*Route { return a.listed }

// OpenAPI returns the description of all routes as JSON.
func (a *API) OpenAPI() ([]byte, error) { return json.Marshal(a.huma.OpenAPI()) }

// Add adds a route that f serves. In is a struct as huma reads requests into:
// fields with path, query or header tags, and a Body. Out is the answer's body;
// the status is always 200. An error that f returns is an *apierr.Error, or
// becomes an internal one.
func Add[In, Out any](a *API, r Route, f func(ctx context.Context, c *Caller, in *In) (*Out, error)) {
	type answer struct{ Body *Out }
	a.listed = append(a.listed, &r)
	for i, p := range r.Paths() {
		op := r.operation(p)
		if i > 0 {
			op.OperationID, op.Hidden = "", true
		}
		a.routes[op.Method+" "+op.Path] = &r
		if rest, ok := strings.CutPrefix(p, api.BasePath); ok {
			a.firsts[first(rest)] = true
		}
		huma.Register(a.huma, op, func(ctx context.Context, in *In) (*answer, error) {
			out, err := f(ctx, callerOf(ctx), in)
			if err != nil {
				return nil, a.failure(err)
			}
			return &answer{out}, nil
		})
	}
}

func (r *Route) operation(p string) huma.Operation {
	op := huma.Operation{
		OperationID: r.Name, Method: r.Method, Path: p, Summary: r.Summary, Tags: []string{r.Tag},
		DefaultStatus: http.StatusOK, MaxBodyBytes: r.maxBody(), RejectUnknownQueryParameters: true, SkipValidateBody: r.UncheckedBody,
	}
	if !r.Open {
		op.Security = []map[string][]string{{"key": {}}, {"token": {}}}
	}
	if r.Versioned {
		op.Parameters = append(op.Parameters, stateParam())
	}
	if len(r.Scopes) > 0 {
		words := make([]string, len(r.Scopes))
		for i, s := range r.Scopes {
			words[i] = "`" + string(s) + "`"
		}
		op.Description = "Needs " + strings.Join(words, " or ") + "."
	}
	return op
}

// Handles reports whether a request is for one of the routes. A path that is
// not written plainly is not.
func (a *API) Handles(r *http.Request) bool {
	if !storable(r.URL.Path) || r.URL.Path != path.Clean(r.URL.Path) || r.URL.RawPath != "" && plainAt.Replace(r.URL.RawPath) != r.URL.Path {
		return false
	}
	// Requests for models come by here too, and the mux looks for a path that it
	// does not know among those of every method.
	if rest, ok := strings.CutPrefix(r.URL.Path, api.BasePath); ok && !a.firsts[first(rest)] {
		return false
	}
	pattern, _ := a.mux.find(r)
	return pattern != ""
}

// plainAt writes the at sign of a version plainly: some clients encode it.
var plainAt = strings.NewReplacer("%40", "@")

// first returns the first segment of a path.
func first(p string) string {
	segment, _, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
	return segment
}

// ServeHTTP serves a request that Handles takes.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	pattern, _ := a.mux.find(r)
	route := a.routes[pattern]
	if route == nil { // the API's own description
		a.mux.ServeHTTP(w, r)
		return
	}
	c := a.caller(r, route)
	err := a.admitInTime(r, route, c)
	if err == nil {
		err = route.checkState(r.Header)
	}
	if err == nil {
		var held *bytepool.Buffer
		if held, err = a.readBody(r, route); err == nil {
			defer held.Release()
			c.body = held.Bytes()
			err = a.checkBody(r, route, c)
			r.Body = io.NopCloser(bytes.NewReader(c.body))
		}
	}
	r, cancel := a.inTime(r)
	defer cancel()
	out := &bufferedResponse{header: w.Header(), status: http.StatusOK}
	if err != nil {
		a.failure(err).write(out)
	} else {
		a.mux.ServeHTTP(out, r.WithContext(withCaller(r.Context(), c)))
	}
	c.finish(r.Context(), out.status)
	c.sign(out)
	w.WriteHeader(out.status)
	w.Write(out.body.Bytes())
}

// admit checks who sends the request and whether they may.
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
	if route.Data && (id.Workspace == "" || id.Type == access.Session) {
		return apierr.New(apierr.Forbidden, "use a workspace key; organisation keys and sessions are for administration only").WithCode("AB03")
	}
	if len(route.Scopes) == 0 {
		return nil
	}
	for _, s := range route.Scopes {
		if id.Allows(s) {
			return route.checkFixed(id)
		}
	}
	return apierr.New(apierr.Forbidden, "this key or session lacks the scope %q", string(route.Scopes[0])).WithCode("AB03")
}

// bufferedResponse holds an answer until the audit log knows of it.
type bufferedResponse struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (k *bufferedResponse) Header() http.Header         { return k.header }
func (k *bufferedResponse) WriteHeader(status int)      { k.status = status }
func (k *bufferedResponse) Write(b []byte) (int, error) { return k.body.Write(b) }

// shapeErrors gives huma's own errors the control plane's shape. huma keeps the
// function in a variable of its package, so it is set once.
var shapeErrors = sync.OnceFunc(func() {
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		return invalid(status, message, errs)
	}
	huma.NewErrorWithContext = func(_ huma.Context, status int, message string, errs ...error) huma.StatusError {
		return invalid(status, message, errs)
	}
})
