// Package kept is what the families of the state plane share: a request to an object that
// outlives it, its record, pages, bodies and calls to providers.
//
// It guarantees that an object of another workspace is answered like one that does not
// exist. It does not know what objects are for (see files, batches).
package kept

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane"
	"modelgate/internal/identity/access"
	"modelgate/internal/limits/policy"
	"modelgate/internal/limits/quota"
	"modelgate/internal/model/catalog"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/storage/blob"
	"modelgate/internal/store"
)

// Contents stores the contents of files, sealed for an organisation. It is safe for
// concurrent use.
type Contents interface {
	// Put stores what r has left as a file and returns its size. If r or the store fails,
	// no file is left.
	Put(ctx context.Context, organisation, name string, r io.Reader) (size int64, err error)
	// Get opens length bytes of a file from offset; a negative length is all that follow.
	Get(ctx context.Context, organisation, name string, offset, length int64) (io.ReadCloser, error)
	// Delete deletes a file. A missing file is not an error.
	Delete(ctx context.Context, name string) error
	// List returns the files that only this deployment can have written, and
	// DeleteIncomplete deletes what interrupted writes left before a time.
	List(ctx context.Context) iter.Seq2[blob.Info, error]
	DeleteIncomplete(ctx context.Context, before time.Time) error
}

// Limits bound what workspaces keep. They are complete: zero allows nothing.
type Limits struct {
	WorkspaceBytes int64         // of all files of a workspace
	FileBytes      int64         // of one file
	CopyBytes      int64         // of a file that is copied to another provider
	BatchFileBytes int64         // of a file of batch lines
	BatchLines     int           // of a managed batch
	KeepBatchFiles time.Duration // after which files of batches are deleted
	AtOnce         int           // requests of a managed batch that a node has in progress
	Unrecorded     bool          // ids without a record are passed to the providers that requests name

	// StrictBudgets refuses a batch whose estimate is more than a budget has left. Otherwise its
	// lines fail from there on.
	StrictBudgets bool
}

// Deps is what the families need. All fields are required.
type Deps struct {
	DB       *store.DB
	Contents Contents
	Logger   *slog.Logger
	Now      func() time.Time
	NewID    func() string // time-ordered
	Limits   Limits

	// Call serves a request for an identity; see [dataplane.Plane.Call].
	Call func(w http.ResponseWriter, r *http.Request, c *dataplane.Call)
	// Fetch sends a request without credentials to a public address that a provider
	// returned.
	Fetch func(r *http.Request) (*http.Response, error)
	// Managed returns the managed provider of a workspace with a slug, and the id of its
	// integration.
	Managed func(workspace, slug string) (target *provider.Target, integration string, ok bool)
	// KeyOwner returns the identity of a key, or an error if it is no longer valid.
	KeyOwner func(hash access.Hash, now time.Time) (*access.Identity, error)
	// Budgets estimates what batches use of budgets, and keeps it for them.
	Budgets Budgets
	// Prices returns the current price book.
	Prices func() *catalog.PriceBook
	// Record records an entry of the log. Entries with the same id are one.
	Record func(ctx context.Context, e *reqlog.Entry)
	// Spent applies the budgets of objects whose counters increased.
	Spent func(ctx context.Context, raised map[store.BudgetRef]reqlog.Spend)
	// Queued tells the runner of jobs that one was queued.
	Queued func()
}

// Budgets are the budgets that bind batches.
type Budgets struct {
	// Counters are those of limits. Nil means that no limits are enforced, and that the
	// functions are not called.
	Counters *quota.Holds
	// MayBind reports whether an identity has any budgets, and Estimate returns what a line
	// may use of them; see [dataplane.Plane.EstimateBudgets].
	MayBind  func(id *access.Identity) bool
	Estimate func(r *http.Request, id *access.Identity, line *exchange.BatchLine) ([]dataplane.BudgetUse, error)
	// Policies returns the current policies.
	Policies func() *policy.Set
}

// Request is a request to an object, or to all objects of a kind.
type Request struct {
	Deps *Deps
	From *dataplane.KeptRequest
	HTTP *http.Request
	W    http.ResponseWriter
}

// NewObject returns an object of the workspace and the key of the request, with an id that
// begins with prefix.
func (q *Request) NewObject(kind, prefix string) store.Object {
	now := q.Deps.Now()
	return store.Object{
		ID: q.Deps.ObjectID(prefix), Kind: kind, Organisation: q.From.Identity.Organisation, Workspace: q.From.Identity.Workspace,
		KeyID: q.From.Identity.KeyID, CreatedAt: now, UpdatedAt: now,
	}
}

// ObjectID returns a new id of an object, which begins with prefix. Later ids are larger.
func (d *Deps) ObjectID(prefix string) string { return prefix + strings.ReplaceAll(d.NewID(), "-", "") }

// Find returns the object of a kind with this id in the workspace of the request.
func (q *Request) Find(kind, id string) (store.Object, error) {
	o, err := q.Deps.DB.Object(q.HTTP.Context(), q.From.Identity.Workspace, kind, id)
	if apierr.IsNotFound(err) {
		return o, NotFound(kind, "id")
	}
	return o, q.Deps.DB.ClientError(err)
}

// NotFound returns the error for an object that does not exist or is another workspace's:
// it does not say which.
func NotFound(kind, param string) error {
	return apierr.New(apierr.NotFound, "this workspace has no %s with this id", kind).WithParam(param).WithCode("not_found")
}

// maxObjects limits the objects of a kind in a workspace.
const maxObjects = 100_000

// Add stores a new object, unless the workspace has as many of its kind as it may.
func (q *Request) Add(ctx context.Context, tx *store.Tx, o store.Object) error {
	full, err := tx.HasObjects(ctx, o.Workspace, o.Kind, maxObjects)
	if err != nil {
		return err
	}
	if full {
		return apierr.New(apierr.Conflict, "this workspace has %d objects of the kind %s, which is the limit; delete some", maxObjects,
			o.Kind).WithCode("too_many_objects")
	}
	return tx.AddObject(ctx, o)
}

// Change stores a change of objects.
func (q *Request) Change(f func(tx *store.Tx) error) error {
	return q.Deps.DB.Transact(context.WithoutCancel(q.HTTP.Context()), f)
}

// JSON writes a response.
func (q *Request) JSON(status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	q.W.Header().Set("Content-Type", "application/json")
	q.W.WriteHeader(status)
	_, err = q.W.Write(b)
	return err
}

// Body reads the JSON body of the request, a JSON object.
func (q *Request) Body() ([]byte, error) {
	if t, _, _ := strings.Cut(q.HTTP.Header.Get("Content-Type"), ";"); t != "" && !strings.EqualFold(strings.TrimSpace(t),
		"application/json") {
		return nil, apierr.New(apierr.Invalid, "this route accepts application/json, not %.60q", t).WithParam("content-type")
	}
	b, err := io.ReadAll(io.LimitReader(q.HTTP.Body, maxBody+1))
	if err != nil {
		return nil, apierr.New(apierr.Invalid, "the request body is incomplete; send it again").WithCode("body_incomplete").WithCause(err)
	}
	if len(b) > maxBody {
		return nil, apierr.New(apierr.TooLarge, "the request body is larger than the limit of %d bytes", maxBody)
	}
	return b, nil
}

// maxBody limits the JSON bodies of the state plane, which name files instead of holding
// them.
const maxBody = 1 << 20

// Names reports whether the request names a provider or a config, so that its object is a
// provider's.
func (q *Request) Names() bool { return q.From.Provider != "" || q.From.Config != "" }

// MayPass reports whether a request for an object without a record may be one to a provider
// with credentials of the client, which [Request.Pass] finds out.
func (q *Request) MayPass() bool {
	if q.From.Provider != "" {
		return q.Deps.Limits.Unrecorded
	}
	return q.From.Config != "" || q.From.Default != ""
}

// Pass passes the request through to what it names, unless that is a managed provider:
// workspaces share its account, so only objects with a record are read and changed there.
func (q *Request) Pass(kind string) error {
	c := q.From.ClientCall()
	c.Admit = q.ownTargetsOnly(kind)
	q.From.Relay(q.W, q.HTTP, c)
	return nil
}

// PassBody is [Request.Pass] for a request whose body has been read.
func (q *Request) PassBody(kind string, body []byte) error {
	r := q.HTTP.Clone(q.HTTP.Context())
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	c := q.From.ClientCall()
	c.Admit = q.ownTargetsOnly(kind)
	q.From.Relay(q.W, r, c)
	return nil
}

// Through passes the request through as it is, to whatever it names.
func (q *Request) Through() error {
	q.From.Relay(q.W, q.HTTP, q.From.ClientCall())
	return nil
}

func (q *Request) ownTargetsOnly(kind string) func([]exchange.Leaf) error {
	if q.Deps.Limits.Unrecorded {
		return nil
	}
	return func(targets []exchange.Leaf) error {
		for i := range targets {
			if t := targets[i].Target; t != nil && t.Slug != "" {
				return NotFound(kind, "id")
			}
		}
		return nil
	}
}

// Target returns the managed provider of an object. An error says that it was removed.
func (q *Request) Target(provider string) (*provider.Target, string, error) {
	return q.Deps.Target(q.From.Identity.Workspace, provider)
}

// Target returns a managed provider of a workspace by "@" and its slug.
func (d *Deps) Target(workspace, name string) (*provider.Target, string, error) {
	t, integration, ok := d.Managed(workspace, strings.TrimPrefix(name, "@"))
	if !ok {
		return nil, "", apierr.New(apierr.Conflict, "the provider %s of this object was removed from the workspace or is not usable; add it again", name).
			WithCode("provider_removed")
	}
	return t, integration, nil
}

// Forwarded returns the request of the client as one to a managed provider, or to what its
// own headers name if provider is empty. A config of the request stays in force; see
// [Request.CallTo].
func (q *Request) Forwarded(provider string) *http.Request {
	r := q.HTTP.Clone(q.HTTP.Context())
	r.Trailer = q.HTTP.Trailer // filled in as the body ends
	if provider != "" && q.From.Config == "" {
		for _, name := range [...]string{api.HeaderConfig, api.HeaderVirtualKey, api.HeaderCustomHost} {
			r.Header.Del(name)
		}
		r.Header.Set(api.HeaderProvider, provider)
	}
	return r
}

// CallTo returns a call in place of the client's request that only a managed provider may
// receive, whatever its config says; an empty provider is any.
func (q *Request) CallTo(provider string) *dataplane.Call {
	c := q.From.ClientCall()
	if provider == "" || q.From.Config == "" {
		return c
	}
	c.Admit = func(targets []exchange.Leaf) error {
		for i := range targets {
			if t := targets[i].Target; t != nil && "@"+t.Slug != provider {
				return apierr.New(apierr.Invalid, "the object is at the provider %s, and the config of the request has other targets", provider).
					WithParam("x-gateway-config").WithCode("object_of_another_provider")
			}
		}
		return nil
	}
	return c
}

// ForwardedTo returns the request of the client as one to the provider of an object, with
// the provider's id in its path.
func (q *Request) ForwardedTo(o *store.Object) *http.Request {
	r := q.Forwarded(o.Provider)
	r.RequestURI = strings.Replace(r.RequestURI, "/"+o.ID, "/"+url.PathEscape(o.ProviderID), 1)
	return r
}

// Speaks reports whether a provider offers an operation in the protocol of OpenAI.
func Speaks(t *provider.Target, op api.Operation) bool {
	_, ok := t.Paths[op]
	return ok && (t.Dialect == api.DialectChat || t.Dialect == api.DialectResponses || t.Dialect == "")
}

// NoRoute passes a request through whose method or path a family does not have, or returns
// an error.
func NoRoute(q *Request) error {
	if q.MayPass() {
		return q.Pass("object")
	}
	return apierr.New(apierr.NotFound, "%s %s%.100s is not a route of objects that are kept; its documentation is at /reference", q.HTTP.Method, api.BasePath, q.From.Path)
}

// RefuseUnreadable returns the error for an object of a provider that is not in its protocol.
func RefuseUnreadable(kind string) error {
	return apierr.New(apierr.UpstreamFailed, "the provider's response is no %s", kind).WithCode("upstream_unreadable")
}
