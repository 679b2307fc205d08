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
	"sync"
	"sync/atomic"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/base/secret"
	"modelgate/internal/dataplane/socket"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/guardrail"
	"modelgate/internal/identity/access"
	"modelgate/internal/limits/inflight"
	"modelgate/internal/model/catalog"
	"modelgate/internal/pipeline"
	"modelgate/internal/pipeline/attempt"
	"modelgate/internal/pipeline/caching"
	"modelgate/internal/pipeline/guarding"
	"modelgate/internal/pipeline/routing"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/snapshot"
)

// ErrShutdown is the cause with which server ends requests that exceed the
// drain time. Their clients get an in-band error.
var ErrShutdown = errors.New("the gateway is shutting down")

// Options holds what a [Plane] needs. A zero limit means its default.
type Options struct {
	Snapshot *snapshot.Holder
	Engine   *attempt.Engine
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

	// Sockets serves WebSocket connections. Nil refuses them.
	Sockets *socket.Server

	// UnmeteredCalls lets keys with limits of tokens or money connect clients and providers
	// directly.
	UnmeteredCalls bool

	// Guardrails compiles the hooks of configs. Nil ignores them.
	Guardrails *guardrail.Table

	// SkipGuardrails calls targets although their configs have checks that may
	// deny requests: the operator has disabled guardrails.
	SkipGuardrails bool

	// Cache stores responses. Nil stores none: configs with a cache are announced
	// as ignored.
	Cache *caching.Cache

	// HookStatus answers requests that failed a check which does not deny with
	// status 246 instead of 200.
	HookStatus bool

	// Keeper serves the objects that outlive a request. Nil passes their requests
	// through.
	Keeper Keeper

	// Tools serves the requests to tool servers. Nil has none.
	Tools Tools

	// Responses keeps the responses that requests store. Nil keeps none.
	Responses ResponseKeeper

	// UseSecret stores that a client secret, which expires at until, begins a session of an
	// identity, and reports whether it is the first use by any gateway. Nil means that each
	// process counts for itself.
	UseSecret func(ctx context.Context, of *access.Identity, id string, until time.Time) (first bool, err error)

	// Files knows the files that bodies refer to. Nil leaves the references as they are.
	Files FileResolver

	// Feedback stores the feedback of hooks on an ended request. It may take its
	// time: nobody waits for it. Nil stores none.
	Feedback func(ctx context.Context, e *reqlog.Entry, list []guardrail.FeedbackResult)

	// Shadow stores the results of saved guardrails that observe only, as Feedback
	// does. Nil stores none.
	Shadow func(ctx context.Context, e *reqlog.Entry, list []guarding.ShadowResult)

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
	secrets     usedSecrets
	decoding    atomic.Int32   // number of pass-through responses being decompressed
	ending      sync.WaitGroup // requests whose checks or feedback are not complete
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
		o.Gate = inflight.New(inflight.Options{Bodies: o.Engine.Bounds.Pool})
	}
	if o.Keyless == nil {
		o.Keyless = o.Recorder
	}
	if o.Box == nil {
		o.Box, _ = secret.NewBox(secret.New(rand.Text())) // fails only for short keys
	}
	compiler := pipeline.Compiler{Engine: o.Engine, State: new(routing.State), Cache: o.Cache}
	if !o.SkipGuardrails {
		compiler.Guardrails = admitted(o.Guardrails)
	}
	return &Plane{
		Options:     o,
		capturePool: bytepool.New(captureMemory),
		compiler:    compiler,
		trees:       newTrees(),
	}
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
	if a := &x.admission; a.authenticate() == nil { // so that the log contains the identity
		a.admit()
		p.startCapture(r, a)
	}
	p.writeError(w, r, x, err)
}

// serve serves the exchange. An error means that nothing has been written.
func (p *Plane) serve(w http.ResponseWriter, r *http.Request, x *roundTrip) error {
	defer x.admission.releaseBody()
	defer x.trail.ReleaseChecks()
	switch {
	case x.admission.route.socket != noSocket:
		return (&connection{plane: p, round: x}).serve(w, r)
	case x.admission.route.mints:
		return (&connection{plane: p, round: x}).mintSecret(w, r)
	}
	if err := p.prepare(r, x); err != nil {
		return p.earlierLimit(r.Context(), &x.admission, err)
	}
	if x.admission.request.Routing == nil {
		return p.serveLocally(w, r, x)
	}
	if x.admission.turn.runsHere(x.admission.request.Leaves) {
		return startInBackground(w, r, x)
	}
	r, stop := x.admission.limitTime(r)
	defer stop()
	res, err := pipeline.Serve(r.Context(), p.Engine.Quota, &x.admission.request, &x.trail)
	x.admission.noteUnusedCache()
	if err != nil {
		err = p.earlierLimit(r.Context(), &x.admission, err)
		if res = guarding.SoftDenial(&x.admission.request, err); res == nil {
			return reason(r, err)
		}
	}
	defer res.Close()
	return p.write(w, r, x, res)
}

// serveLocally serves the routes that need no provider.
func (p *Plane) serveLocally(w http.ResponseWriter, r *http.Request, x *roundTrip) error {
	switch {
	case x.admission.route.tools:
		return p.serveTools(w, r, x)
	case x.admission.goesToKeeper():
		return p.keepObject(w, r, x)
	}
	x.admission.reportIgnored()
	switch {
	case x.admission.route.op == api.Explain:
		return p.explain(w, r, x)
	case x.admission.route.op == api.ConfigSchema:
		return p.schema(w, r, x)
	case x.admission.route.renders:
		return p.showRendered(w, r, x)
	}
	if x.admission.route.model != "" {
		return showModel(p, w, r, x)
	}
	return listModels(p, w, r, x)
}

// recoverPanic turns a panic into a 500 and a log line. A deliberate abort of
// the connection is raised again.
func (p *Plane) recoverPanic(w http.ResponseWriter, r *http.Request, x *roundTrip) {
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
