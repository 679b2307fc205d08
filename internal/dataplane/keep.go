package dataplane

import (
	"context"
	"net/http"
	"strings"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/base/urlpath"
	"modelgate/internal/identity/access"
	"modelgate/internal/model/llm"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/records/reqlog"
)

// Keeper serves the requests to objects that outlive a request: files, batches, fine-tuning
// jobs, stored responses, conversations and realtime calls. Requests that bring their own provider and its
// credentials pass through without it.
type Keeper interface {
	// Keep serves a request of an identity that may make it. An error before the first
	// byte of the response is written in the client's dialect; after that, the connection
	// is broken off.
	Keep(w http.ResponseWriter, r *http.Request, k *KeptRequest) error
	// FindCall returns a realtime call of a workspace by the id that a connection names. An
	// error says that the workspace has none.
	FindCall(ctx context.Context, workspace, id string) (KeptCall, error)
	// PassesUnrecorded reports whether ids without a record are passed to managed providers.
	PassesUnrecorded() bool
}

// KeptCall is the record of a realtime call.
type KeptCall struct {
	Provider string // "@" and the slug of its managed provider
	ID       string // the provider's
	Metered  bool   // a connection of the gateway counts what it uses
}

// KeptRequest is an admitted request to an object that outlives it.
type KeptRequest struct {
	Identity  *access.Identity
	Operation api.Operation
	Protocol  api.Dialect // of the client: chat for the protocol of OpenAI, messages, gemini
	Time      time.Time   // when it arrived
	Path      string      // canonical, below /v1; complete for gemini
	Query     string
	TraceID   string
	Metadata  map[string]string

	// Provider is "@" with the slug of the managed provider that the headers name, and
	// Config the config that they name; both are empty if they name none. Default is the
	// config of the key.
	Provider, Config, Default string

	// MaxJSON and MaxUpload limit the bodies, in bytes.
	MaxJSON, MaxUpload int64

	plane *Plane
	trip  *roundTrip
}

// Address returns the address of the gateway as the client sees it, without a slash at its
// end. Empty means that it is unknown.
func (k *KeptRequest) Address(r *http.Request) string {
	return strings.TrimSuffix(k.plane.ownAddress(r), "/")
}

// ClientCall returns a call that is made in place of the client's request: with its key, so
// that its other credential headers mean what they do in the request.
func (k *KeptRequest) ClientCall() *Call {
	a := &k.trip.admission
	return &Call{Identity: k.Identity, key: a.request.Received.Key, ownKey: a.ownKey, remote: a.remote}
}

// Relay serves r, which is the client's request or made of it, as a call, and writes the
// response to w. The call is recorded in place of the client's request.
func (k *KeptRequest) Relay(w http.ResponseWriter, r *http.Request, c *Call) {
	k.trip.relayed = true
	if kept, ok := w.(*keptWriter); ok {
		w = kept.ResponseWriter
	}
	k.plane.Call(w, r, c)
}

// Ask serves r as a call with its own record, and returns when the response is complete.
func (k *KeptRequest) Ask(w http.ResponseWriter, r *http.Request, c *Call) { k.plane.Call(w, r, c) }

// Call is a request that the gateway makes for an identity: a line of a batch, or a request
// to the provider of an object. It is checked, limited, guarded and recorded as a request
// of a client.
type Call struct {
	Identity *access.Identity

	// Service names another address of the provider, which the call must name itself; see
	// [provider.Target.At]. Empty is its own.
	Service string

	// Manages is true for a request to an object of a provider that uses no tokens itself. It
	// always is for the routes of files, batches and fine-tuning.
	Manages bool

	// ModelsChecked is true if the models that the call leads to have been compared with the
	// list of its provider: it may be an object whose models it does not name.
	ModelsChecked bool

	// Nested is true for a call that a request waits for which the limit of requests in
	// progress has let in: the call does not wait for room itself.
	Nested bool

	// Admit decides about the targets that the call may be sent to; an error is that of
	// the call. Nil allows all.
	Admit func(targets []exchange.Leaf) error

	// Kept is what is kept of budgets for the batch that the call is a line of, by counter.
	// Nil for other calls.
	Kept map[string]int64

	// Metered is true if a connection of the gateway counts what follows from the call, such
	// as the media of a realtime call, which do not pass through the gateway.
	Metered bool
	// Follow makes the call a connection without a client; see [NewFollow]. Nil for others.
	Follow *Follow

	Result CallResult // once the call has ended

	key    secret.String
	ownKey bool
	remote string
}

// CallResult is what has become of a [Call].
type CallResult struct {
	Slug      string // of the managed provider that responded; empty if none did
	Provider  string // its id, or that of the provider with the client's credentials
	RequestID string
	Status    int
	ErrorCode string // empty on success
	Sent      bool   // a provider may have received the request
	Usage     llm.Usage
	Broken    bool // the response ended early
}

// Call serves r for the identity of c and writes the response to w, as [Plane.ServeHTTP]
// does for the key of a request. It never panics to end the connection: c.Result says
// whether the response is complete.
func (p *Plane) Call(w http.ResponseWriter, r *http.Request, c *Call) {
	x := p.open(r)
	a := &x.admission
	a.call = c
	a.request.Identity, a.request.Received.Key = c.Identity, c.key
	if a.remote == "" {
		a.remote = c.remote
	}
	a.request.Manages, a.request.Begins = c.Manages, c.Metered && c.Follow == nil
	a.request.Limiting.ByObject = c.Manages
	if c.Kept != nil {
		a.request.Limiting.Batch = &exchange.BatchLine{Kept: c.Kept}
	}
	if a.route.keeps {
		op := a.route.kept
		a.request.Manages = c.Manages || op == api.Files || op == api.Batches || op == api.FineTuning
		a.route.keeps = false
	}
	defer c.end(x)
	defer p.end(w, r, x)
	defer p.recoverPanic(w, r, x)
	if err := p.serve(w, r, x); err != nil {
		p.writeError(w, r, x, err)
	}
}

// end stores the result of a call whose record has been written.
func (c *Call) end(x *roundTrip) {
	e := &x.entry
	c.Result.RequestID, c.Result.Status, c.Result.ErrorCode = x.admission.id, e.Status, e.ErrorCode
	c.Result.Sent, c.Result.Usage = len(e.Attempts) > 0 && !refusedUnsent(e), e.Usage
	for i := range e.Attempts {
		c.Result.Slug, c.Result.Provider = e.Attempts[i].Slug, e.Attempts[i].Provider
	}
	if v := recover(); v != nil {
		if v != http.ErrAbortHandler {
			panic(v)
		}
		c.Result.Broken = true
	}
}

// refusedUnsent reports whether the only attempt of a request was refused while it was built, such
// as for a missing credential: there is no response, and the error is not one of a connection.
func refusedUnsent(e *reqlog.Entry) bool {
	if len(e.Attempts) != 1 || e.Attempts[0].Status != 0 {
		return false
	}
	switch e.Status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotImplemented:
		return true
	}
	return false
}

// KeyOwner returns the identity of a gateway key by its hash, or an error if the key is not
// valid at now.
func (p *Plane) KeyOwner(hash access.Hash, now time.Time) (*access.Identity, error) {
	return p.Snapshot.Load().KeyOwner(hash, now)
}

// keptRoutes are the paths of objects that outlive a request. A path that ends in a slash
// stands for everything below it.
var keptRoutes = []struct {
	path string
	op   api.Operation
}{
	{"/v1/files", api.Files}, {"/v1/files/", api.Files},
	{"/v1/uploads", api.Files}, {"/v1/uploads/", api.Files},
	{"/v1/batches", api.Batches}, {"/v1/batches/", api.Batches},
	{"/v1/messages/batches", api.Batches}, {"/v1/messages/batches/", api.Batches},
	{"/v1/fine_tuning/jobs", api.FineTuning}, {"/v1/fine_tuning/jobs/", api.FineTuning},
	{"/v1/responses/", api.Responses},
	{"/v1/conversations", api.Conversations}, {"/v1/conversations/", api.Conversations},
	{"/v1/realtime/calls", api.Realtime}, {"/v1/realtime/calls/", api.Realtime},
	{"/v1/realtime/translations/calls", api.Realtime}, {"/v1/realtime/translations/calls/", api.Realtime},
}

// findKeptRoute returns the route of an object that outlives a request.
func findKeptRoute(path string) (route, bool) {
	for _, k := range keptRoutes {
		if path == k.path || strings.HasSuffix(k.path, "/") && strings.HasPrefix(path, k.path) {
			out := passThrough
			out.keeps, out.kept = true, k.op
			return out, true
		}
	}
	return route{}, false
}

// checkKeptSpelling returns an error for a path that a tolerant provider reads as that of an
// object that outlives a request, and this gateway does not.
func checkKeptSpelling(path string) error {
	if _, ok := findKeptRoute(path); ok {
		return nil
	}
	for _, other := range [...]string{lenient(path), lenient(withoutParams(path))} {
		if _, ok := findKeptRoute(other); ok {
			return apierr.New(apierr.Invalid, "the path is another spelling of %s, and the provider may treat it as that route; send it as %s", other, other).
				WithParam("path").WithCode(urlpath.Code)
		}
	}
	return nil
}

// goesToKeeper reports whether the keeper serves the request: it does, unless the request brings
// a provider of its own.
func (a *admission) goesToKeeper() bool {
	return a.plane.Keeper != nil && a.route.keeps && !a.request.DryRun &&
		a.opts.customHost == "" && (a.opts.provider == "" || strings.HasPrefix(a.opts.provider, "@")) &&
		(a.opts.virtualKey == "" || a.opts.provider == "")
}

// keepObject passes the request to the keeper.
func (p *Plane) keepObject(w http.ResponseWriter, r *http.Request, x *roundTrip) error {
	a := &x.admission
	a.request.Operation, x.entry.Operation = a.route.kept, a.route.kept
	k := &KeptRequest{
		Identity: a.request.Identity, Operation: a.route.kept, Protocol: a.protocol(), Time: a.request.Time,
		Path: a.request.Received.Path, Query: a.request.Received.Query,
		TraceID: a.request.TraceID, Metadata: a.request.Metadata, Provider: a.opts.provider, Default: a.request.Identity.Config,
		MaxJSON: p.MaxJSON, MaxUpload: p.MaxUpload, plane: p, trip: x,
	}
	if a.opts.virtualKey != "" {
		k.Provider = "@" + strings.TrimPrefix(a.opts.virtualKey, "@")
	}
	if a.opts.config != k.Default {
		k.Config = a.opts.config
	}
	return p.writeObject(w, r, x, func(w http.ResponseWriter) error { return p.Keeper.Keep(w, r, k) })
}

// protocol returns the protocol of a request to an object that outlives it.
func (a *admission) protocol() api.Dialect {
	switch {
	case a.route.api == geminiFiles:
		return api.DialectGemini
	case a.isMessagesClient(), strings.HasPrefix(a.request.Received.Path, batchesPath):
		return api.DialectMessages
	}
	return api.DialectChat
}

// writeObject passes f a writer that records the response.
func (p *Plane) writeObject(w http.ResponseWriter, r *http.Request, x *roundTrip, f func(w http.ResponseWriter) error) error {
	kept := &keptWriter{ResponseWriter: w, trip: x, patient: newStallTimer(w, r, p.ClientStall)}
	err := f(kept)
	kept.patient.end()
	switch {
	case err == nil && x.relayed:
		return nil
	case err == nil:
		x.finish(nil)
		return nil
	case !x.headWritten:
		x.relayed = false // what the call responded has not reached the client
		return reason(r, err)
	}
	if r.Context().Err() != nil {
		x.clientLeft()
	} else {
		x.fail(reason(r, err))
	}
	panic(http.ErrAbortHandler)
}

// keptWriter writes a response of the keeper with the gateway's headers, and records it.
type keptWriter struct {
	http.ResponseWriter
	trip    *roundTrip
	patient stallTimer
}

// Unwrap returns the writer below, for [http.ResponseController].
func (k *keptWriter) Unwrap() http.ResponseWriter { return k.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (k *keptWriter) WriteHeader(status int) {
	x := k.trip
	if x.headWritten {
		return
	}
	if t := x.tools; t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		x.trail.UpstreamTime = t.tools.waited()
		x.entry.Stream = strings.HasPrefix(k.Header().Get("Content-Type"), "text/event-stream")
	}
	x.setGatewayHeaders(k.Header())
	x.entry.FirstToken = time.Since(x.entry.Time)
	x.begin(k.ResponseWriter, status)
}

// Write implements [io.Writer].
func (k *keptWriter) Write(b []byte) (int, error) {
	k.WriteHeader(http.StatusOK)
	k.patient.extend(time.Now())
	n, err := k.ResponseWriter.Write(b)
	k.patient.written()
	responseCapture(&k.trip.admission).add(b[:n])
	k.trip.entry.ResponseBytes += int64(n)
	return n, err
}
