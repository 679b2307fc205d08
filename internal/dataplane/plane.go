// Package dataplane serves HTTP requests to models.
//
// It reads a client's request into an exchange, has the pipeline handle it and
// writes the response: complete, event by event, or byte for byte on
// pass-through. It guarantees that every exchange is recorded, including
// rejected ones, and it reads one snapshot per request and never a database. It
// does not listen, drain or report health (server) or call providers
// (pipeline).
package dataplane

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/base/secret"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/guardrail"
	"modelgate/internal/limits/inflight"
	"modelgate/internal/model/catalog"
	"modelgate/internal/pipeline"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/snapshot"
	"modelgate/internal/upstream"
)

// ErrShutdown is the cause with which server ends requests that exceed the
// drain time. Their clients get an in-band error.
var ErrShutdown = errors.New("the gateway is shutting down")

// Options holds what a [Plane] needs. A zero limit means its default.
type Options struct {
	Snapshot *snapshot.Holder
	Engine   *pipeline.Engine
	Recorder reqlog.Recorder
	// Keyless records the shortened entries of requests without a valid key.
	// Nil means Recorder.
	Keyless reqlog.Recorder
	Logger  *slog.Logger

	// MaxJSON limits a JSON body and MaxUpload a body that streams through, in
	// bytes. Defaults: 50 MB and 512 MB.
	MaxJSON, MaxUpload int64

	// KeepAlive is the silence after which a stream gets a comment. Default 15
	// s; negative sends none.
	KeepAlive time.Duration

	// ClientStall is how long a client may accept nothing of a response that
	// streams through. Zero means forever.
	ClientStall time.Duration

	// AttemptsTimeout is the time for all attempts of an exchange with a
	// config, until its response is usable. Default 10 minutes; negative means
	// unlimited.
	AttemptsTimeout time.Duration

	// PromptEnvelopeOnly leaves out of the envelope of a saved prompt's
	// response what is in its body.
	PromptEnvelopeOnly bool

	// Clients are the supported client dialects. Default: only chat.
	Clients map[api.Dialect]dialect.ClientDialect

	// PublicURL returns the configured address of the gateway, empty if there is
	// none. Nil means none.
	PublicURL func() string

	// Box seals credentials into addresses of uploads. Default: one with a random
	// key, whose addresses no other process accepts.
	Box *secret.Box

	// IsModelRoute reports whether the server passes a request with a canonical
	// path to the plane, for dry runs. Nil explains every path.
	IsModelRoute func(r *http.Request) bool

	// OtherRoutes returns the routes that the server does not pass to the plane, each
	// as method and path, for suggestions. Nil means none.
	OtherRoutes func() []string

	// Gate limits the requests in progress. Default: one with the default limits.
	Gate *inflight.Gate

	// Guardrails compiles the hooks of configs. Nil ignores them.
	Guardrails *guardrail.Table

	// HookStatus answers requests that failed a check which does not deny with
	// status 246 instead of 200.
	HookStatus bool

	// Feedback stores the feedback of hooks on an ended request. It may take its
	// time: nobody waits for it. Nil stores none.
	Feedback func(ctx context.Context, e *reqlog.Entry, list []guardrail.FeedbackResult)

	// Shadow stores the results of saved guardrails that observe only, as Feedback
	// does. Nil stores none.
	Shadow func(ctx context.Context, e *reqlog.Entry, list []pipeline.ShadowResult)

	// PromptCacheSaved returns what prompt caches of providers have saved of the
	// requests with the key, the workspace and the saved config of e, in the last 30
	// days. Only explanations ask for it. Nil leaves it out.
	PromptCacheSaved func(ctx context.Context, e *reqlog.Entry) (catalog.NanoDollars, error)

	// ModelsTimeout is the time for asking all providers for their models.
	// Default 2 s.
	ModelsTimeout time.Duration
}

// Plane serves model requests. It is an http.Handler for every path below
// api.BasePath and is safe for concurrent use.
type Plane struct {
	Options
	capturePool *bytepool.Pool // buffers of captured bodies
	models      modelLists
	compiler    pipeline.Compiler
	trees       *trees
	handle      pipeline.Handler // of admitted requests: all stages
	decoding    atomic.Int32     // number of pass-through responses being decompressed
	ending      sync.WaitGroup   // requests whose checks or feedback are not complete
}

// admitted returns the table for configs that were checked, nil for nil.
func admitted(t *guardrail.Table) *guardrail.Table {
	if t == nil {
		return nil
	}
	return t.For(guardrail.Compilation{Admitted: true})
}

// New returns a plane.
func New(o Options) *Plane {
	if o.MaxJSON == 0 {
		o.MaxJSON = 50 << 20
	}
	if o.MaxUpload == 0 {
		o.MaxUpload = 512 << 20
	}
	if o.KeepAlive == 0 {
		o.KeepAlive = 15 * time.Second
	}
	if o.AttemptsTimeout == 0 {
		o.AttemptsTimeout = 10 * time.Minute
	}
	if o.ModelsTimeout == 0 {
		o.ModelsTimeout = 2 * time.Second
	}
	if o.Clients == nil {
		o.Clients = map[api.Dialect]dialect.ClientDialect{api.DialectChat: chat.Dialect{}}
	}
	if o.Gate == nil {
		o.Gate = inflight.New(inflight.Options{Bodies: o.Engine.Pool})
	}
	if o.Keyless == nil {
		o.Keyless = o.Recorder
	}
	if o.Box == nil {
		o.Box, _ = secret.NewBox(secret.New(rand.Text())) // fails only for short keys
	}
	return &Plane{
		Options:     o,
		capturePool: bytepool.New(captureMemory),
		compiler:    pipeline.Compiler{Engine: o.Engine, State: new(pipeline.State), Guardrails: admitted(o.Guardrails)},
		trees:       newTrees(),
		handle:      pipeline.Chain(pipeline.Routing{}, stages(o.Engine.Quota)...),
	}
}

// exchange is one request being served: the result of admission, and what
// happens afterwards.
type exchange struct {
	admission
	trail    pipeline.Trail
	entry    reqlog.Entry
	plane    *Plane
	panicked bool

	headerValues [8]string        // values of the gateway's own response headers
	headWritten  bool             // the response headers have been sent
	complete     bool             // the client received the complete response
	array        *jsonArrayWriter // converts a stream to a JSON array; nil for events
	bodies       *bodies          // captured bodies; nil for none
}

// admission holds what is found out about a request, step by step; see
// Plane.prepare. Its Request is complete and does not change once a stage has
// it.
type admission struct {
	pipeline.Request
	oneLeaf pipeline.OneLeaf // Routing of a request without a config
	leaf    [1]pipeline.Leaf // its Leaves
	id      string           // the request id as text

	snap    *snapshot.Snapshot
	reach   *upstream.Client // checks custom hosts
	route   route
	noRoute error  // why there is no route
	remote  string // host:port of the client

	opts   requestOptions
	guards guardScope
	// ownKey is true if the gateway key came in its own header, so that other
	// credential headers are for the provider.
	ownKey     bool
	skipBodies bool // the request excludes its bodies from the log

	doc    jsonedit.Doc
	upload *upload // nil unless the body streams through
	// noModel is the error for a body without a model, if nothing else sets
	// one.
	noModel *apierr.Error
	models  *requestedModels // models outside of Doc; nil until a target asks
	// oneModel is true if policies depend on the model of a body that streams through.
	oneModel bool

	// variables are the request's variables for saved prompts, and filled the
	// prompts of its config filled with them, by their references.
	variables      map[string]string
	filled         map[string]*promptResult
	promptProvider string // provider of the prompt in the path; empty if none

	trees []*cachedTree // compiled configs in use
}

// ServeHTTP serves one model request and records it.
func (p *Plane) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := p.open(r)
	defer p.end(w, r, x)
	defer p.recoverPanic(w, r, x)
	if err := p.serve(w, r, x); err != nil {
		p.writeError(w, r, x, err)
	}
}

// Refuse writes err as the response to a request that is rejected regardless of
// the caller, such as one with a path without canonical form, and records it.
func (p *Plane) Refuse(w http.ResponseWriter, r *http.Request, err error) {
	x := p.open(r)
	defer p.end(w, r, x)
	defer p.recoverPanic(w, r, x)
	if x.authenticate() == nil { // so that the log contains the identity
		x.admit()
		p.startCapture(r, x)
	}
	p.writeError(w, r, x, err)
}

// open begins an exchange. Its path is the path of the request line in
// canonical form.
func (p *Plane) open(r *http.Request) *exchange {
	now := time.Now()
	path, query, marked := requestPath(r)
	x := &exchange{plane: p, admission: admission{snap: p.Snapshot.Load(), reach: p.Engine.Client, remote: r.RemoteAddr}}
	x.route, x.noRoute = findRoute(r.Method, routePath(r.Header, path))
	if p.Clients[x.route.clientDialect()] == nil {
		x.route = passThrough
	}
	x.entry = reqlog.Entry{
		ID:     reqlog.NewID(now),
		Time:   now,
		Input:  reqlog.Input{Method: r.Method, Path: path, RequestBytes: max(r.ContentLength, 0)},
		Origin: reqlog.Origin{CacheStatus: "DISABLED"},
		Sender: reqlog.Sender{UserAgent: r.UserAgent()},
	}
	x.id = x.entry.ID.String()
	x.Request = pipeline.Request{
		ID:      x.entry.ID,
		Time:    now,
		Client:  p.Clients[x.route.clientDialect()],
		Dialect: x.route.clientDialect(),
		Received: pipeline.Received{
			Method:         r.Method,
			Path:           path,
			Query:          query,
			EmptyQuery:     marked && query == "",
			Header:         r.Header,
			HeaderPrefixes: x.snap.HeaderPrefixes,
			Length:         r.ContentLength,
		},
		Limiting: pipeline.Limiting{Prices: x.snap.Prices},
	}
	if x.route.api == (vendorAPI{}) {
		x.Received.Path = strings.TrimPrefix(path, api.BasePath)
	}
	return x
}

// requestPath splits the target of the request line. marked is true if it has a
// question mark, even with an empty query.
func requestPath(r *http.Request) (path, query string, marked bool) {
	target := r.RequestURI
	if !strings.HasPrefix(target, "/") { // absolute form, and requests made in tests
		target = r.URL.RequestURI()
	}
	return strings.Cut(target, "?")
}

// serve serves the exchange. An error means that nothing has been written.
func (p *Plane) serve(w http.ResponseWriter, r *http.Request, x *exchange) error {
	defer x.releaseBody()
	defer x.trail.ReleaseChecks()
	if err := p.prepare(r, x); err != nil {
		return p.earlierLimit(r.Context(), x, err)
	}
	if x.Routing == nil {
		return p.serveLocally(w, r, x)
	}
	r, stop := x.limitTime(r)
	defer stop()
	res, err := p.handle.Handle(r.Context(), &x.Request, &x.trail)
	x.noteUnusedCache()
	if err != nil {
		err = p.earlierLimit(r.Context(), x, err)
		if res = x.SoftDenial(err); res == nil {
			return reason(r, err)
		}
	}
	defer res.Close()
	return p.write(w, r, x, res)
}

// serveLocally serves the routes that need no provider.
func (p *Plane) serveLocally(w http.ResponseWriter, r *http.Request, x *exchange) error {
	x.reportIgnored()
	switch {
	case x.route.op == api.Explain:
		return p.explain(w, r, x)
	case x.route.op == api.ConfigSchema:
		return p.schema(w, r, x)
	case x.route.renders:
		return p.showRendered(w, r, x)
	}
	if x.route.model != "" {
		return p.showModel(w, r, x)
	}
	return p.listModels(w, r, x)
}

func (p *Plane) releaseTrees(x *exchange) {
	for _, k := range x.trees {
		p.trees.release(k)
	}
	x.trees = nil
}

func (x *exchange) releaseBody() {
	x.upload.releaseHead()
	if x.Received.Body != nil {
		x.Received.Body.Release()
		x.Received.Body, x.Received.Doc = nil, nil
		x.doc.Reset()
	}
}

// recoverPanic turns a panic into a 500 and a log line. A deliberate abort of
// the connection is raised again.
func (p *Plane) recoverPanic(w http.ResponseWriter, r *http.Request, x *exchange) {
	v := recover()
	if v == nil {
		return
	}
	x.panicked = true // hedges may still be running
	if v == http.ErrAbortHandler {
		panic(v)
	}
	// The value may contain what a client sent, so only its type is logged.
	p.Logger.Error("panic while serving", "exchange", x.entry.ID.String(), "type", fmt.Sprintf("%T", v), "stack", string(debug.Stack()))
	err := apierr.From(errPanic)
	if x.headWritten {
		x.entry.ErrorSource, x.entry.ErrorCode = "gateway", err.CodeOrDefault()
		panic(http.ErrAbortHandler)
	}
	p.writeError(w, r, x, err)
}

var errPanic = errors.New("panic")
