// Package pipeline sends an admitted request to providers.
//
// A [Handler] returns the response to a [Request]; a [TargetHandler] calls one
// target. It guarantees that a response is returned only when it is usable: a
// JSON body is complete, a stream has its first event. Until then retry and
// fallback still work. It does not read client requests or write responses (see
// dataplane) or manage connections (see upstream).
package pipeline

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"modelgate/api"
	"modelgate/internal/access"
	"modelgate/internal/bytepool"
	"modelgate/internal/catalog"
	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
	"modelgate/internal/provider"
	"modelgate/internal/reqlog"
	"modelgate/internal/secret"
)

// Handler responds to an admitted request and writes down in t what it did. An
// error is an *apierr.Error where a client may see it. The caller closes the
// response. Handlers are immutable and safe for concurrent use.
type Handler interface {
	Handle(ctx context.Context, r *Request, t *Trail) (*Response, error)
}

// Request is an admitted client request. Nothing of it changes while it is
// handled; one that differs, such as a piece of a split request, is a copy. Any
// number of goroutines may read it.
type Request struct {
	ID   reqlog.ID
	Time time.Time // when it was accepted

	// TraceID is the trace that attempts belong to, and TraceFlags those of the
	// client's traceparent, two hexadecimal digits; empty without one.
	TraceID, TraceFlags string

	Identity *access.Identity
	Key      secret.String         // the gateway key or token that the client sent
	Client   dialect.ClientDialect // nil for none, in tests of routing alone
	Dialect  api.Dialect           // of Client

	Operation api.Operation
	Method    string
	Path      string // after /v1, exactly as sent
	Query     string // exactly as sent
	// EmptyQuery is true for a question mark after Path with nothing behind it.
	EmptyQuery bool
	Header     http.Header // as received
	// HeaderPrefixes are those of further families of headers that are meant for
	// the gateway.
	HeaderPrefixes []string
	Metadata       map[string]string

	// Body is the complete request body, and Doc its members where it is a JSON
	// object. Both are nil for a body that streams through, which is Upload.
	// Length is the announced length of the body, or -1.
	Body   *bytepool.Buffer
	Doc    *jsonedit.Doc
	Upload *Upload
	Length int64

	Model  string // the requested model, without the managed provider before it
	Stream bool
	Edits  []jsonedit.Edit // of Doc, before those of a target
	Prompt reqlog.Prompt   // the saved prompt that made the request; zero for none

	// Routing is who handles the request after all stages: the tree of its config, or
	// one target. Nil is enough where it is called directly.
	Routing Handler

	// Leaves are the leaves of the request's config as this request may use them,
	// in the order of [Tree.Leaves]. Nil is enough for handlers that were not
	// compiled.
	Leaves []Leaf

	// Prices is the price book that choosing by cost and the ledger read. Nil knows
	// no price.
	Prices *catalog.PriceBook

	// AttemptDeadline is when no further attempt is begun. Zero means never.
	AttemptDeadline time.Time

	// DryRun builds attempts and sends none; see [Trail.Planned].
	DryRun bool
}

// Leaf is what one leaf of a config means for one request.
type Leaf struct {
	Target *provider.Target
	// Err is why the leaf cannot serve the request: it fails when its turn comes.
	// Strategies skip a leaf whose Err has [CodeModelRefused].
	Err error
	// Notes are announced when the leaf is used.
	Notes []dialect.ParamChange
	// Prompt is what the saved prompt of the leaf puts into the request; nil where
	// the leaf has none.
	Prompt *PromptEdits
	// AllowModel checks each model that the form of an upload names. Nil allows all.
	AllowModel func(model string) error
}

// PromptEdits is what a saved prompt puts into a request. Without Edits it cannot
// make the request: a file, embeddings, pass-through.
type PromptEdits struct {
	Prompt reqlog.Prompt
	Edits  []jsonedit.Edit
	Model  string // that Edits give; empty for none
	Err    error  // why the prompt cannot be rendered
}

// Upload is a request body that streams through. It can be sent once.
type Upload struct {
	Body io.Reader
	// Trailer has the fields that follow Body, as provider.Call wants them.
	Trailer http.Header
	// Watch checks the models that a form names while it is read. Nil, and with nil
	// for allow, checks none.
	Watch func(allow func(model string) error)

	started atomic.Bool
	sent    atomic.Int64 // bytes
}

// bodyConsumed reports whether the request can't be sent again: its body streamed
// through and was read.
func (r *Request) bodyConsumed() bool { return r.Upload != nil && r.Upload.started.Load() }

// pastDeadline reports whether no attempt may begin after waiting d.
func (r *Request) pastDeadline(d time.Duration) bool {
	return !r.AttemptDeadline.IsZero() && time.Now().Add(d).After(r.AttemptDeadline)
}

// owner returns who pays for the request.
func (r *Request) owner() access.Identity {
	if r.Identity == nil {
		return access.Identity{}
	}
	return *r.Identity
}
