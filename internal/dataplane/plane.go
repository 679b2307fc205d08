// Package dataplane is the HTTP of model requests.
//
// It reads a client's request into an exchange, has the pipeline answer it and
// writes the answer: whole, event by event, or byte for byte on pass-through.
// Every exchange is recorded, refusals too. It reads one snapshot per request
// and never touches a database. Listeners, health and draining are left to
// server, calling providers to pipeline.
package dataplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"modelgate/api"
	"modelgate/internal/apierr"
	"modelgate/internal/bytepool"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/jsonedit"
	"modelgate/internal/pipeline"
	"modelgate/internal/reqlog"
	"modelgate/internal/snapshot"
	"modelgate/internal/upstream"
)

// ErrShutdown is the cause with which server ends requests that outlast the
// drain. Their clients get an in-band error.
var ErrShutdown = errors.New("the gateway is shutting down")

// Options is what a [Plane] needs. The zero value of each limit takes its default.
type Options struct {
	Snapshot *snapshot.Holder
	Engine   *pipeline.Engine
	Recorder reqlog.Recorder
	// Keyless takes the entries of requests without a valid key, cut short. Nil
	// gives them to Recorder.
	Keyless reqlog.Recorder
	Logger  *slog.Logger

	// MaxJSON bounds a JSON body and MaxUpload one that streams through, in
	// bytes. Defaults: 50 MB and 512 MB.
	MaxJSON, MaxUpload int64

	// KeepAlive is the silence after which a stream gets a comment. Default
	// 15 s; negative sends none.
	KeepAlive time.Duration

	// ClientStall is how long a client may take nothing of an answer that
	// streams through. Zero waits for ever.
	ClientStall time.Duration

	// AttemptsTimeout bounds all attempts of an exchange with a config, until its answer
	// can be checked. Default 10 minutes; negative means unlimited.
	AttemptsTimeout time.Duration

	// PromptEnvelopeOnly leaves out of the envelope around the answer to a saved
	// prompt what is in its body already.
	PromptEnvelopeOnly bool

	// Clients are the dialects that clients may speak. Default: chat alone.
	Clients map[api.Dialect]dialect.ClientDialect

	// IsModelRoute reports whether the server passes a request with a canonical
	// path to the plane, for dry runs. Nil explains every path.
	IsModelRoute func(r *http.Request) bool

	// ModelsTimeout bounds asking all providers for their models. Default 2 s.
	ModelsTimeout time.Duration
}

// Plane serves model requests. It is an http.Handler for every path below
// api.BasePath and is safe for concurrent use.
type Plane struct {
	Options
	capturePool *bytepool.Pool // lends what bodies are kept in for the log
	models      modelLists
	compiler    pipeline.Compiler
	trees       *trees
	handle      pipeline.Handler // of admitted requests: all stages
	decoding    atomic.Int32     // passed-through answers that are decompressed now
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
	if o.Keyless == nil {
		o.Keyless = o.Recorder
	}
	return &Plane{
		Options:     o,
		capturePool: bytepool.New(captureMemory),
		compiler:    pipeline.Compiler{Engine: o.Engine, State: new(pipeline.State)},
		trees:       newTrees(),
		handle:      pipeline.Chain(pipeline.Routing{}, stages()...),
	}
}

// exchange is one request being served: what admission finds, and then what
// happens to it.
type exchange struct {
	admission
	trail    pipeline.Trail
	entry    reqlog.Entry
	plane    *Plane
	panicked bool

	headerValues [8]string        // values of the gateway's own response headers
	headWritten  bool             // the response headers were sent
	complete     bool             // the client took the complete response
	array        *jsonArrayWriter // puts a stream into a JSON array; nil for events
	bodies       *bodies          // what the log keeps of both; nil for nothing
}

// admission is what a request is found to be, step by step; see Plane.prepare. Its
// Request is complete and does not change once a stage has it.
type admission struct {
	pipeline.Request
	single pipeline.TargetHandler // Routing of a request without a config
	id     string                 // the request id as text

	snap    *snapshot.Snapshot
	reach   *upstream.Client // checks custom hosts
	route   route
	noRoute error  // why there is no route
	remote  string // host:port of the client

	opts requestOptions
	// ownKey is true when the gateway key came in its own header, so that other
	// credential headers are meant for the provider.
	ownKey     bool
	skipBodies bool // the request wants its bodies left out of the log

	doc    jsonedit.Doc
	upload *upload // nil unless the body streams through
	// noModel is the refusal of a body without model, should nothing else give one.
	noModel *apierr.Error
	models  *requestedModels // what the request names outside of Doc; nil until a target asks

	// variables are those that the request brings for saved prompts, and filled
	// what the prompts of its config make of it, by their references.
	variables      map[string]string
	filled         map[string]*promptResult
	promptProvider string // slug that the prompt of the path names; empty for none

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

// Refuse answers a request with err, for a reason that is the same for everybody,
// such as a path without canonical form, and records it.
func (p *Plane) Refuse(w http.ResponseWriter, r *http.Request, err error) {
	x := p.open(r)
	defer p.end(w, r, x)
	defer p.recoverPanic(w, r, x)
	if x.authenticate() == nil { // so that the log says whose request it was
		x.admit()
		p.startCapture(r, x)
	}
	p.writeError(w, r, x, err)
}

// open begins an exchange. The path is that of the request line, in its
// canonical form.
func (p *Plane) open(r *http.Request) *exchange {
	now := time.Now()
	path, query, marked := requestPath(r)
	x := &exchange{plane: p, admission: admission{snap: p.Snapshot.Load(), reach: p.Engine.Client, remote: r.RemoteAddr}}
	x.route, x.noRoute = findRoute(r.Method, path)
	if p.Clients[x.route.clientDialect()] == nil {
		x.route = passThrough
	}
	x.entry = reqlog.Entry{
		ID:           reqlog.NewID(now),
		Time:         now,
		Method:       r.Method,
		Path:         path,
		CacheStatus:  "DISABLED",
		RequestBytes: max(r.ContentLength, 0),
		UserAgent:    r.UserAgent(),
	}
	x.id = x.entry.ID.String()
	x.Request = pipeline.Request{
		ID:             x.entry.ID,
		Time:           now,
		Client:         p.Clients[x.route.clientDialect()],
		Dialect:        x.route.clientDialect(),
		Method:         r.Method,
		Path:           strings.TrimPrefix(path, api.BasePath),
		Query:          query,
		EmptyQuery:     marked && query == "",
		Header:         r.Header,
		HeaderPrefixes: x.snap.HeaderPrefixes,
		Length:         r.ContentLength,
		Prices:         x.snap.Prices,
	}
	return x
}

// requestPath parts the request line's address. marked is true when it holds a
// question mark, be the query empty.
func requestPath(r *http.Request) (path, query string, marked bool) {
	target := r.RequestURI
	if !strings.HasPrefix(target, "/") { // absolute form, and requests made in tests
		target = r.URL.RequestURI()
	}
	return strings.Cut(target, "?")
}

// serve answers the exchange. An error means that nothing was written yet.
func (p *Plane) serve(w http.ResponseWriter, r *http.Request, x *exchange) error {
	defer x.releaseBody()
	defer p.releaseTrees(x)
	if err := p.prepare(r, x); err != nil {
		return err
	}
	if x.Routing == nil {
		return p.answerItself(w, r, x)
	}
	res, err := p.handle.Handle(r.Context(), &x.Request, &x.trail)
	if err != nil {
		return err
	}
	defer res.Close()
	return p.write(w, r, x, res)
}

// answerItself answers the routes that no provider is asked for.
func (p *Plane) answerItself(w http.ResponseWriter, r *http.Request, x *exchange) error {
	x.reportIgnored()
	switch {
	case x.route.op == api.Explain:
		return p.explain(w, r, x)
	case x.route.op == api.ConfigSchema:
		return p.schema(w, x)
	case x.route.renders:
		return p.showRendered(w, x)
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
	if x.Body != nil {
		x.Body.Release()
		x.Body, x.Doc = nil, nil
		x.doc.Reset()
	}
}

// end records the exchange, after the last byte was written.
func (p *Plane) end(w http.ResponseWriter, r *http.Request, x *exchange) {
	e := &x.entry
	e.Total = time.Since(e.Time)
	e.Metadata = x.Metadata
	if x.Identity == nil {
		if e.Level = x.level(); e.Level == reqlog.LevelFull {
			e.Level = reqlog.LevelMetadata
		}
		p.finishCapture(w, x)
		e.Keyless()
		p.Keyless.Record(context.Background(), e)
		return
	}
	x.trail.Record(e)
	e.UpstreamModel = truncate(e.UpstreamModel)
	if x.upload != nil {
		n, model := x.upload.seen()
		e.RequestBytes, e.Model = n, cmp.Or(model, e.Model)
	}
	if !x.complete && r.Context().Err() != nil && context.Cause(r.Context()) != ErrShutdown {
		x.clientLeft()
	}
	p.finishCapture(w, x)
	if !x.panicked { // the entry may wait in memory, and need not keep these
		x.Request, x.trail = pipeline.Request{}, pipeline.Trail{}
	}
	p.Recorder.Record(context.Background(), e) // a client that left is recorded like any other
}

// recoverPanic turns a panic into a 500 and a log line. A deliberate abort of
// the connection goes on.
func (p *Plane) recoverPanic(w http.ResponseWriter, r *http.Request, x *exchange) {
	v := recover()
	if v == nil {
		return
	}
	x.panicked = true // hedges may still be running
	if v == http.ErrAbortHandler {
		panic(v)
	}
	// The value may hold what a client sent, so only its type is logged.
	p.Logger.Error("panic while serving", "exchange", x.entry.ID.String(), "type", fmt.Sprintf("%T", v), "stack", string(debug.Stack()))
	err := apierr.From(errPanic)
	if x.headWritten {
		x.entry.ErrorSource, x.entry.ErrorCode = "gateway", err.CodeOrDefault()
		panic(http.ErrAbortHandler)
	}
	p.writeError(w, r, x, err)
}

var errPanic = errors.New("panic")

// bodyError says why a request body could not be taken in.
func bodyError(err error, limit int64) error {
	switch {
	case errors.Is(err, bytepool.ErrTooLarge):
		return apierr.New(apierr.TooLarge, "the request body is larger than the limit of %d bytes", limit)
	case errors.Is(err, bytepool.ErrBudget):
		return apierr.BodyMemoryFull()
	}
	if e, ok := errors.AsType[*apierr.Error](err); ok { // of a time limit
		return e
	}
	return apierr.New(apierr.Invalid, "the request body is shorter than its Content-Length; send it again").WithCode("body_incomplete").WithCause(err)
}
