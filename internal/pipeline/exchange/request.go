package exchange

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"modelgate/api"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/base/secret"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/identity/access"
	"modelgate/internal/limits/inflight"
	"modelgate/internal/limits/policy"
	"modelgate/internal/limits/quota"
	"modelgate/internal/model/catalog"
	"modelgate/internal/provider"
	"modelgate/internal/records/reqlog"
)

// Handler responds to an admitted request and records in t what it did. An
// error is an *apierr.Error if a client may see it. The caller closes the
// response. Handlers are immutable and safe for concurrent use.
type Handler interface {
	Handle(ctx context.Context, r *Request, t *Trail) (*Response, error)
}

// Request is an admitted client request. It does not change while it is
// handled; a variant, such as a piece of a split request, is a copy. It is safe
// for concurrent reading.
type Request struct {
	ID   reqlog.ID
	Time time.Time // when it was accepted

	// TraceID is the trace of the attempts, and TraceFlags are the flags of the
	// client's traceparent, two hexadecimal digits; empty without one.
	TraceID, TraceFlags string

	Identity *access.Identity
	// Ticket is the admission of the request. Attempts report to it that they are
	// sent. Nil without a gate.
	Ticket *inflight.Ticket
	// Memory is the share of body memory that all counts against which is held for the
	// request. Nil counts it against the pool only.
	Memory *bytepool.Share

	Received Received

	Client    dialect.ClientDialect // nil in tests of routing only
	Dialect   api.Dialect           // of Client
	Operation api.Operation

	// Manages is true for a request to an object, such as a batch, that uses no tokens itself:
	// the usage in its response is that of other requests. Begins is true for one that begins
	// what other requests count: limits must have room for it, but it uses nothing itself.
	Manages  bool
	Begins   bool
	Model    string // the requested model, without the managed provider's prefix
	Stream   bool
	Edits    []jsonedit.Edit // of Doc; those of a target follow
	Prompt   reqlog.Prompt   // the saved prompt that produced the request; zero if none
	Metadata map[string]string
	Cache    CacheOptions

	// Routing is what package pipeline passes the request to: the tree of the request's
	// config, or one target. It may be nil if a handler is called directly.
	Routing Handler

	// Leaves are the leaves of the request's config with the settings of this
	// request, in the order of the compiled config. It may be nil for handlers that
	// were not compiled.
	Leaves []Leaf
	// Embedders are the targets that embed turns for the caches of leaves, in the
	// order of the compiled config.
	Embedders []Leaf

	Limiting Limiting
	Checking Checking

	// AttemptDeadline is the time after which no attempt begins. Zero means
	// none.
	AttemptDeadline time.Time

	// Deadline is when the context of the request ends, because its client waits no
	// longer. Zero means never.
	Deadline time.Time

	// Attempts counts the attempts of a check that is not the config's, which those of the
	// request must not use up. Nil for other requests.
	Attempts *atomic.Uint32

	// Upgrade are the headers with which attempts ask the provider to change the protocol of
	// their connection. Nil for other requests. The response to one that the provider accepts
	// has a Session.
	Upgrade http.Header

	// ToolServers are those of the gateway that the provider may call for the request. Nil has
	// none.
	ToolServers ToolServers

	// DryRun builds attempts but sends none; see [Trail.Planned].
	DryRun bool
}

// ToolServers are the tool servers of the gateway that a caller may let providers call. It is
// safe for concurrent use.
type ToolServers interface {
	// Address returns the address at which a provider reaches the server or bundle with a slug,
	// and a short-lived credential for nothing else. An error says why the caller may not use it.
	Address(slug string) (address string, credential secret.String, err error)
}

// Received is the HTTP request of the client.
type Received struct {
	Method string
	Path   string // after /v1, exactly as sent
	Query  string // exactly as sent
	// EmptyQuery is true if Path was followed by a question mark only.
	EmptyQuery bool
	Header     http.Header
	// HeaderPrefixes are additional prefixes of headers that are meant for the
	// gateway.
	HeaderPrefixes []string
	Key            secret.String // the gateway key or token in its header

	// Body is the complete request body, and Doc its members if it is a JSON
	// object. Both are nil for a body that streams through, which is Upload.
	// Length is the Content-Length, or -1.
	Body   *bytepool.Buffer
	Doc    *jsonedit.Doc
	Upload *Upload
	Length int64
	// RequestedModel is the model exactly as sent. Empty if the request names
	// none.
	RequestedModel string
}

// Limiting is what limits a request, and what it costs.
type Limiting struct {
	// Limits are the limits of the key, its user and its workspace, in the order
	// in which they are checked. Those of a managed provider are in its target.
	Limits []*quota.Limit

	// Policies are the policies, and Facts what they read of the request, without
	// its target. Facts is nil if there are no policies.
	Policies *policy.Set
	Facts    *policy.Facts

	// Prices is the price book for the cost strategy and the ledger. Nil has no
	// prices.
	Prices *catalog.PriceBook

	// ByObject is true if what the request leads to is counted later, for the object that it is
	// about: policies need not know its models.
	ByObject bool

	// Batch is the batch that the request is a line of. Nil for other requests.
	Batch *BatchLine
}

// BatchLine is what is known of a line of a batch.
type BatchLine struct {
	// Kept is what is kept of budgets for the lines of the batch, by counter.
	Kept map[string]int64

	// Output is the output in tokens that an estimate assumes of a line that sets no limit of
	// its own, zero for the largest of its model. Tier is that of its price.
	Output int64
	Tier   catalog.Tier
}

// Leaf holds the settings of one leaf of a config for one request.
type Leaf struct {
	// Target is where attempts go, in the region of Model.
	Target *provider.Target
	// Model is what attempts ask for; empty if nothing names a model.
	Model string
	// Err is why the leaf cannot serve the request. Handling it returns the
	// error. Strategies skip a leaf whose Err has [provider.CodeModelRefused].
	Err error
	// Notes are announced if the leaf is used.
	Notes []dialect.ParamChange
	// Prompt holds the edits of the leaf's saved prompt; nil if it has none.
	Prompt *PromptEdits
	// Checks identifies the versions of the saved checks that apply to the leaf. A
	// response is stored for these versions only.
	Checks string
	// Guards are the hooks of the leaf; nil for none.
	Guards *Guards
	// AllowModel checks each model in the form of an upload. Nil allows all.
	AllowModel func(model string) error
}

// PromptEdits holds the edits that a saved prompt makes to a request. Without
// Edits it cannot be used for the request: a file, embeddings, pass-through.
type PromptEdits struct {
	Prompt reqlog.Prompt
	Edits  []jsonedit.Edit
	Model  string // model set by Edits; empty if none
	Err    error  // why the prompt cannot be rendered
}

// FormFields are the fields of a form that decide its price, as far as it has passed.
type FormFields struct {
	Model         string // empty if the form names none
	Quality, Size string // of images
	Certain       bool   // the form has passed completely, and every parser reads the same
}

// Upload is a request body that streams through. It can be sent once.
type Upload struct {
	Body io.Reader
	// Trailer has the trailer fields after Body; see provider.Call.
	Trailer http.Header
	// Watch checks the models in a form while it is read. A nil Watch, or a nil
	// allow, checks none.
	Watch func(allow func(model string) error)
	// Limit is the most bytes that Body may have.
	Limit int64
	// TokenBytes is the number of bytes of Body that are estimated as a token; 0 for that of
	// media.
	TokenBytes int64
	// Time limits how long parts of Body are held before they are complete. Nil does not.
	Time HoldTimer
	// Fields returns the fields of a form that decide its price. It is nil for other
	// bodies.
	Fields func() FormFields

	Started atomic.Bool
	Sent    atomic.Int64 // bytes

	Mu   sync.Mutex       // of Body, before it is sent
	Held *bytepool.Buffer // the complete body, if hooks have read it
}

// HoldTimer limits how long an incomplete body, or part of one, is held in memory: from
// Hold, which begins a part, to the next call. Pass ends the last part.
type HoldTimer interface {
	Hold()
	Pass()
}

// HoldPart begins a part of the body that is held until it is complete.
func (u *Upload) HoldPart() {
	if u.Time != nil {
		u.Time.Hold()
	}
}

// PassParts ends the last part: what follows is passed on as it arrives.
func (u *Upload) PassParts() {
	if u.Time != nil {
		u.Time.Pass()
	}
}

// Derive returns a request in the chat dialect that the gateway sends itself while it
// serves r, such as that of a check or an embedder. It has the tenant, the trace and
// the limits of r, and neither its headers nor its hooks nor its routing. Its body is
// set by [Received.SetBody].
func (r *Request) Derive(client dialect.ClientDialect, op api.Operation, path, model string) Request {
	own := Request{
		ID: r.ID, Time: r.Time, TraceID: r.TraceID, TraceFlags: r.TraceFlags, Identity: r.Identity, Memory: r.Memory,
		Client: client, Dialect: api.DialectChat, Operation: op, Model: model, Metadata: r.Metadata,
		Limiting: r.Limiting,
	}
	own.Received = Received{
		Method: http.MethodPost, Path: path, Header: http.Header{"Content-Type": {"application/json"}},
		HeaderPrefixes: r.Received.HeaderPrefixes, Key: r.Received.Key, RequestedModel: model,
	}
	if r.Limiting.Facts != nil {
		facts := *r.Limiting.Facts
		facts.Also = nil
		facts.Model, facts.EndpointType, facts.Config, facts.Prompt = model, string(op), "", ""
		own.Limiting.Facts = &facts
	}
	return own
}

// SetBody sets the body to a JSON object in doc, which belongs to the caller. An error
// says that buf holds something else.
func (r *Received) SetBody(buf *bytepool.Buffer, doc *jsonedit.Doc) error {
	if err := doc.Scan(buf.Bytes()); err != nil {
		return err
	}
	r.Body, r.Doc, r.Length = buf, doc, int64(buf.Len())
	return nil
}

// BodyConsumed reports whether the request cannot be sent again, because its
// streamed body has been read.
func (r *Request) BodyConsumed() bool {
	return r.Received.Upload != nil && r.Received.Upload.Started.Load()
}

// PastDeadline reports whether no attempt may begin after waiting for d.
func (r *Request) PastDeadline(d time.Duration) bool {
	if r.AttemptDeadline.IsZero() && r.Deadline.IsZero() {
		return false
	}
	at := time.Now().Add(d)
	return !r.AttemptDeadline.IsZero() && at.After(r.AttemptDeadline) || !r.Deadline.IsZero() && at.After(r.Deadline)
}

// Owner returns the identity that pays for the request.
func (r *Request) Owner() access.Identity {
	if r.Identity == nil {
		return access.Identity{}
	}
	return *r.Identity
}

// MaxModelName is the size in bytes up to which responses repeat the requested
// name, and up to which it is remembered. A longer one could multiply a stream.
const MaxModelName = 500

// ResponseModel returns the requested name if the response must give it to its
// model, and an empty string for the provider's own. of is what a config says of it.
func (r *Request) ResponseModel(of api.ResponseModel) string {
	if len(r.Received.RequestedModel) > MaxModelName || r.Client == nil {
		return ""
	}
	var key api.ResponseModel
	if r.Identity != nil {
		key = r.Identity.ResponseModel
	}
	if cmp.Or(of, key, r.Client.ModelField().Default) != api.ModelRequested {
		return ""
	}
	return r.Received.RequestedModel
}

// NamesRequestedModel reports whether the response gives its model the requested name.
func (r *Request) NamesRequestedModel(of api.ResponseModel) bool {
	return r.Operation != api.Proxy && r.ResponseModel(of) != ""
}

// HasTools reports whether the request offers tools to the model.
func (r *Request) HasTools() bool {
	if r.Received.Doc == nil {
		return false
	}
	for _, name := range [...]string{"tools", "toolConfig", "tool_config"} {
		if v, ok := r.Received.Doc.Find(name); ok && v.Kind() != jsonedit.Null {
			return true
		}
	}
	return false
}

// BetaHeader holds the beta flags of the messages protocol.
const BetaHeader = "Anthropic-Beta"
