package route

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"modelgate/internal/access"
	"modelgate/internal/apierr"
	"modelgate/internal/reqlog"
	"modelgate/internal/store"
)

// Caller is who sends one request, and what the audit log will say of it. It is
// for one goroutine.
type Caller struct {
	*access.Identity
	RequestID string
	Now       time.Time

	api   *API
	route *Route
	audit store.Audit
	body  []byte
	noted bool

	userAgent string        // cut to maxUserAgent
	request   *http.Request // for the audit log

	refused bool // a token that the audit log is to know of

	ifMatch string // as the request has it
}

type callerKey struct{}

// withCaller hands the caller through huma, which gives handlers a context and
// the request alone.
func withCaller(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

func callerOf(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}

func (a *API) caller(r *http.Request, route *Route) *Caller {
	now := a.Now()
	id := reqlog.NewID(now).String()
	c := &Caller{Identity: new(access.Identity), RequestID: id, Now: now, api: a, route: route, request: r, ifMatch: r.Header.Get(ifMatch)}
	c.userAgent = cut(r.UserAgent(), maxUserAgent)
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	c.audit = store.Audit{
		ID: id, RequestID: id, Time: now, Method: r.Method, URI: r.URL.Path,
		ClientIP:     host,
		ResourceType: route.Resource, Action: route.Action(), UserType: "api_key", Status: http.StatusOK,
	}
	return c
}

func (c *Caller) identify(id *access.Identity) {
	c.Identity = id
	c.audit.Organisation, c.audit.Workspace, c.audit.UserID = id.Organisation, id.Workspace, id.KeyID
	if id.UserID != "" {
		c.audit.UserID, c.audit.UserType = id.UserID, "user"
	}
}

// Actor is who is named as the maker of what the caller makes: the user, or
// else the key.
func (c *Caller) Actor() string {
	if c.UserID != "" {
		return c.UserID
	}
	return c.KeyID
}

// NewID returns a fresh id for a row.
func (c *Caller) NewID() string { return reqlog.NewID(c.api.Now()).String() }

// DB returns the store, for reading.
func (c *Caller) DB() *store.DB { return c.api.DB }

// SetAuditSubject says in the audit log what the request is about: the id of the object
// and of its workspace, which is empty for what belongs to the organisation.
func (c *Caller) SetAuditSubject(workspace, id string) {
	c.audit.Workspace, c.audit.ResourceID = workspace, id
}

// CheckFound says in the audit log that the request is about an object, of which the
// workspace and the id are given, and returns nil. If reading the object failed
// it returns that error, and none for an object that is not there.
func (c *Caller) CheckFound(workspace, id string, err, none error) error {
	switch {
	case apierr.IsNotFound(err):
		return none
	case err == nil:
		c.SetAuditSubject(workspace, id)
	}
	return err
}

// SetAuditOrganisation says in whose audit log the request belongs, for routes that are open
// to callers who are nobody yet.
func (c *Caller) SetAuditOrganisation(organisation string) { c.audit.Organisation = organisation }

// maxUserAgent bounds the client's name as it is stored, in bytes.
const maxUserAgent = 200

// cut returns the beginning of a text as UTF-8 of at most n bytes.
func cut(text string, n int) string {
	text = strings.ToValidUTF8(text, "")
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "")
}

// ClientIP returns the address that the request comes from.
func (c *Caller) ClientIP() string { return c.audit.ClientIP }

// UserAgent returns the beginning of what the client calls itself.
func (c *Caller) UserAgent() string { return c.userAgent }

// Lifetimes returns how long sessions are valid.
func (c *Caller) Lifetimes() Lifetimes { return c.api.lifetimes() }

func (a *API) lifetimes() Lifetimes {
	if a.Sessions == nil {
		return Lifetimes{}.Or()
	}
	return a.Sessions().Or()
}

// SignIn counts an attempt to sign in by its outcome.
func (c *Caller) SignIn(outcome string) {
	if c.api.SignIn != nil {
		c.api.SignIn(outcome)
	}
}

// Did says in the audit log what the request does, instead of its method, and
// the id of what it is about.
func (c *Caller) Did(action, id string) { c.audit.Action, c.audit.ResourceID = action, id }

// Acts is [Caller.Did] for routes that are open to callers who are nobody yet,
// and names the user that the caller turned out to be.
func (c *Caller) Acts(action, user, id string) {
	c.Did(action, id)
	c.audit.UserID, c.audit.UserType = user, "user"
}

// Note adds a row of its own to the audit log. A failure is logged.
func (c *Caller) Note(ctx context.Context, row *store.Audit) { c.api.Note(ctx, row) }

// Note is [Caller.Note] for work that no request waits for.
func (a *API) Note(ctx context.Context, row *store.Audit) {
	if err := a.DB.AddAudit(context.WithoutCancel(ctx), row); err != nil {
		a.Logger.Error("audit log not written", "request", row.RequestID, "err", err.Error())
	}
}

// Change runs f as one change with its audit row. Nothing is kept when f fails.
func (c *Caller) Change(ctx context.Context, f func(*store.Tx) error) error {
	c.describe()
	if err := c.api.DB.Update(ctx, &c.audit, f); err != nil {
		return err
	}
	c.noted = true
	if c.api.Changed != nil {
		c.api.Changed()
	}
	return nil
}

// describe puts into the audit row what the request said.
func (c *Caller) describe() {
	c.audit.QueryParams, c.audit.RequestHeaders = maskQuery(c.request.URL.Query()), maskHeader(c.request.Header)
	c.audit.RequestBody = maskBody(c.body)
}

// maxKeylessBody is the length in bytes up to which the audit log keeps the body
// of a request without a valid key.
const maxKeylessBody = 1 << 10

// describeKeyless is describe for a request without a valid key. It reports
// whether the row fits the day's allowance.
func (c *Caller) describeKeyless() bool {
	a := &c.audit
	a.Method, a.URI = reqlog.Cut(a.Method, 16), reqlog.Cut(a.URI, reqlog.KeylessPath)
	a.QueryParams = "{}"
	a.RequestHeaders = object(map[string]string{"User-Agent": reqlog.Cut(c.request.UserAgent(), reqlog.KeylessUserAgent)})
	if a.RequestBody = maskBody(c.body); len(a.RequestBody) > maxKeylessBody {
		a.RequestBody = `"(too long)"`
	}
	return c.api.Keyless.Take(keylessRow+len(a.URI)+len(a.RequestHeaders)+len(a.RequestBody), c.Now)
}

// keylessRow is the number of bytes that the rest of an audit row takes on the
// disk at most, with its indexes.
const keylessRow = 1 << 10

// finish notes a request that tried to change something and did not.
func (c *Caller) finish(ctx context.Context, status int) {
	if c.noted || c.route.Resource == "" && !c.refused || c.audit.Organisation == "" {
		return
	}
	c.audit.Status = status
	if c.KeyID == "" && c.UserID == "" { // it showed no key
		if !c.describeKeyless() {
			return
		}
	} else {
		c.describe()
	}
	if err := c.api.DB.AddAudit(context.WithoutCancel(ctx), &c.audit); err != nil {
		c.api.Logger.Error("the audit log was not written", "request", c.RequestID, "err", err.Error())
	}
}

// InWorkspace returns the active workspace that a request is about: that of the
// caller's key, else the one that the request names by id or slug, else, for
// the installation's own keys, their own. What is archived, another
// organisation's, or not a person's is not there; a person whose role lacks the
// right of the route is refused.
func (c *Caller) InWorkspace(ctx context.Context, named string) (store.Workspace, error) {
	ref := named
	if c.Workspace != "" && (ref == "" || !c.Allows(access.ScopeAll)) {
		ref = c.Workspace
	}
	if ref == "" {
		return store.Workspace{}, Invalid("workspace_id", "is required: this key or session is not bound to one workspace")
	}
	w, err := c.ActiveWorkspace(ctx, "workspace_id", ref)
	if err != nil || !c.IsPerson() {
		return w, err
	}
	m, err := c.DB().Membership(ctx, c.Organisation, c.UserID)
	switch {
	case err != nil:
		return store.Workspace{}, err
	case c.Type == access.Session && m.RoleIn(w.ID) == "":
		return store.Workspace{}, Missing("workspace_id", "workspace", ref)
	}
	return w, may(ctx, c.DB().Queries, place{c.Organisation, w.ID}, m.RoleIn(w.ID), c.route.Right())
}

// ActiveWorkspace returns the workspace of the caller's organisation that a field
// of the request names by id or slug. One that is archived is not there.
func (c *Caller) ActiveWorkspace(ctx context.Context, field, ref string) (store.Workspace, error) {
	w, err := c.DB().Workspace(ctx, c.Organisation, ref)
	if apierr.IsNotFound(err) || err == nil && w.Status != store.Active {
		return store.Workspace{}, Missing(field, "workspace", ref)
	}
	return w, err
}

// ChosenWorkspaces returns the ids of the workspaces that a field of the request
// names, or that every workspace is chosen. All is what the request says of every
// workspace, nil when it says nothing.
func (c *Caller) ChosenWorkspaces(ctx context.Context, field string, all *bool, named []string) (ids []string, every bool, err error) {
	every = len(named) == 0
	if all != nil && *all != every {
		if *all {
			return nil, false, Invalid("allow_all_workspaces", "cannot be combined with %s; leave one out", field)
		}
		return nil, false, Invalid(field, "must name at least one when allow_all_workspaces is false")
	}
	for _, ref := range named {
		w, err := c.ActiveWorkspace(ctx, field, ref)
		if err != nil {
			return nil, false, err
		}
		if !slices.Contains(ids, w.ID) {
			ids = append(ids, w.ID)
		}
	}
	return ids, every, nil
}

// VisibleWorkspace returns the workspace that the caller's reads are limited to: that of a
// workspace's key, or the one the request names; empty sees all of the
// organisation. A person who does not administer it has to name one of theirs
// unless they have but one.
func (c *Caller) VisibleWorkspace(ctx context.Context, named string) (string, error) {
	if named != "" || c.Type != access.Session {
		return c.Names(ctx, named)
	}
	m, err := c.DB().Membership(ctx, c.Organisation, c.UserID)
	if err != nil || m.Role == "owner" || m.Role == "admin" {
		return "", err
	}
	for id := range m.Workspaces {
		if named = id; len(m.Workspaces) > 1 {
			named = ""
		}
	}
	w, err := c.InWorkspace(ctx, named)
	return w.ID, err
}

// Names is Sees for families that know themselves what a person sees: people who
// name no workspace get none.
func (c *Caller) Names(ctx context.Context, named string) (string, error) {
	if named == "" && (c.Workspace == "" || c.Allows(access.ScopeAll)) {
		return "", nil
	}
	w, err := c.InWorkspace(ctx, named)
	return w.ID, err
}
