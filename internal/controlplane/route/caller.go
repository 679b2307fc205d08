package route

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/guardrail"
	"modelgate/internal/identity/access"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
)

// Caller is the authenticated sender of a request, and collects what the audit log
// records about it. It must be used by one goroutine only.
type Caller struct {
	*access.Identity
	RequestID string
	Now       time.Time

	api   *API
	route *Route
	audit store.Audit
	body  []byte
	noted bool

	// appliedWithin is what Deps.OnChange returned for the change.
	appliedWithin time.Duration

	userAgent string            // shortened to maxUserAgent
	request   *http.Request     // for the audit log
	header    http.Header       // of the response
	details   map[string]string // what the audit log stores instead of the body; nil for the body

	refused bool // a rejected token that the audit log must record

	sent       map[string]string // the other names of parameters that the client sent
	ifMatch    string            // as in the request
	idempotent *idempotent       // nil unless the request has an Idempotency-Key

	tx *store.Tx // the change that the caller is part of; nil for a request
}

type callerKey struct{}

// withCaller stores the caller in a context, because huma gives handlers only a context
// and the request.
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
	if id.Type == access.Directory {
		c.audit.UserType = "directory"
	}
}

// Actor returns the id recorded as creator of objects: the user, otherwise the key.
func (c *Caller) Actor() string {
	if c.UserID != "" {
		return c.UserID
	}
	return c.KeyID
}

// NewID returns a new id for a row.
func (c *Caller) NewID() string { return reqlog.NewID(c.api.Now()).String() }

// Guardrails returns the checks that guardrails may have, nil if they are unknown.
func (c *Caller) Guardrails() *guardrail.Table {
	if c.api.Guardrails == nil {
		return nil
	}
	return c.api.Guardrails.For(guardrail.Compilation{Organisation: c.Organisation})
}

// DB reads the store, in the transaction of the change that the caller is part of if there is
// one; see [API.Operator].
func (c *Caller) DB() store.Queries {
	if c.tx != nil {
		return c.tx.Queries
	}
	return c.api.DB.Queries
}

// SetAuditSubject records in the audit log which object the request is about. Workspace
// is empty for an object of the organisation.
func (c *Caller) SetAuditSubject(workspace, id string) {
	c.audit.Workspace, c.audit.ResourceID = workspace, id
}

// CheckFound records in the audit log which object the request is about, and returns
// nil. If reading the object failed it returns err instead, or none if the object does
// not exist.
func (c *Caller) CheckFound(workspace, id string, err, none error) error {
	switch {
	case apierr.IsNotFound(err):
		return none
	case err == nil:
		c.SetAuditSubject(workspace, id)
	}
	return err
}

// SetAuditOrganisation sets the organisation whose audit log records the request, for
// routes open to unauthenticated callers.
func (c *Caller) SetAuditOrganisation(organisation string) { c.audit.Organisation = organisation }

// maxUserAgent is the limit of a stored user agent, in bytes.
const maxUserAgent = 200

// cut returns the first n bytes of text at most, as valid UTF-8.
func cut(text string, n int) string {
	text = strings.ToValidUTF8(text, "")
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "")
}

// ClientIP returns the client's IP address.
func (c *Caller) ClientIP() string { return c.audit.ClientIP }

// UserAgent returns the client's user agent, shortened.
func (c *Caller) UserAgent() string { return c.userAgent }

// SetAuditAction sets the action recorded in the audit log, instead of the one derived
// from the route, and the id of the object.
func (c *Caller) SetAuditAction(action, id string) { c.audit.Action, c.audit.ResourceID = action, id }

// SetAuditActor sets the user recorded in the audit log, for routes open to
// unauthenticated callers: the user that the request authenticated.
func (c *Caller) SetAuditActor(user string) { c.audit.UserID, c.audit.UserType = user, "user" }

// RecordEvent writes a further event to the audit log. A failure is logged.
func (c *Caller) RecordEvent(ctx context.Context, row *store.Audit) { c.api.RecordEvent(ctx, row) }

// RecordEvent is [Caller.RecordEvent] for work outside a request.
func (a *API) RecordEvent(ctx context.Context, row *store.Audit) {
	if err := a.DB.AddAudit(context.WithoutCancel(ctx), row); err != nil {
		a.Logger.Error("audit log not written", "request", row.RequestID, "err", err.Error())
	}
}

// Change runs f in a transaction that also writes the audit event. If f fails, nothing
// is stored. The change of an [API.Operator] is part of the operator's, whose audit event
// covers all.
func (c *Caller) Change(ctx context.Context, f func(*store.Tx) error) error {
	if c.tx != nil {
		return f(c.tx)
	}
	c.describe()
	change := f
	if i := c.idempotent; i != nil && !c.noted { // stored with the change, so that it is made once
		change = func(tx *store.Tx) error {
			if err := f(tx); err != nil {
				return err
			}
			return tx.AddIdempotentRequest(ctx, i.row, c.Now.Add(-idempotencyTime))
		}
	}
	if err := c.api.DB.Update(ctx, &c.audit, change); err != nil {
		return err
	}
	c.noted = true
	if c.api.OnChange != nil {
		c.appliedWithin = c.api.OnChange()
	}
	return nil
}

// describe copies the request to the audit event.
func (c *Caller) describe() {
	if c.route.browser || c.route.Private || c.details != nil {
		c.describeBrowser()
		return
	}
	c.audit.QueryParams, c.audit.RequestHeaders = maskQuery(c.request.URL.Query()), maskHeader(c.request.Header)
	c.audit.RequestBody = maskBody(c.body)
	if c.route.Bulk != "" {
		c.audit.RequestBody = shortenBulk(c.audit.RequestBody, c.route.Bulk)
	}
}

// maxKeylessBody is the length in bytes up to which the audit log stores the body of a
// request without a valid key.
const maxKeylessBody = 1 << 10

// describeKeyless is [Caller.describe] for a request without a valid key. It reports whether the
// event fits the day's allowance.
func (c *Caller) describeKeyless() bool {
	a := &c.audit
	a.Method, a.URI = reqlog.Cut(a.Method, 16), reqlog.Cut(a.URI, reqlog.KeylessPath)
	a.QueryParams = "{}"
	a.RequestHeaders = object(map[string]string{"User-Agent": reqlog.Cut(c.request.UserAgent(), reqlog.KeylessUserAgent)})
	a.RequestBody = maskBody(c.body)
	if c.route.browser || c.route.Private || c.details != nil {
		a.RequestBody = c.detailText()
	}
	if len(a.RequestBody) > maxKeylessBody {
		a.RequestBody = `"(too long)"`
	}
	return c.api.Keyless.Take(keylessRow+len(a.URI)+len(a.RequestHeaders)+len(a.RequestBody), c.Now)
}

// keylessRow is the maximum number of bytes that an audit event takes on disk in
// addition to its body, including indexes.
const keylessRow = 1 << 10

// finish records a request that tried to change something and failed.
func (c *Caller) finish(ctx context.Context, status int) {
	if c.noted || c.route.Resource == "" && !c.refused || c.audit.Organisation == "" {
		return
	}
	c.audit.Status = status
	if c.KeyID == "" && c.UserID == "" { // unauthenticated
		if !c.describeKeyless() {
			return
		}
	} else {
		c.describe()
	}
	if err := c.api.DB.AddAudit(context.WithoutCancel(ctx), &c.audit); err != nil {
		c.api.Logger.Error("writing the audit log failed", "request", c.RequestID, "err", err.Error())
	}
}

// CheckOrganisation returns an error of kind NotFound if named, an id or slug in the field
// organisation_id, is another organisation than the caller's. Empty is the caller's.
func (c *Caller) CheckOrganisation(ctx context.Context, named string) error {
	if named == "" || named == c.Organisation {
		return nil
	}
	o, err := c.DB().Organisation(ctx, c.Organisation)
	if err == nil && named != o.Slug {
		err = Missing("organisation_id", "organisation", named)
	}
	return err
}

// InWorkspace returns the active workspace of a request: the workspace of the caller's
// key, otherwise the one that the request names by id or slug, otherwise, for
// installation keys, their own. A workspace that is archived, of another organisation
// or not one of the user's is not found, nor is another than the key's own. A user whose role lacks the route's permission
// is refused.
func (c *Caller) InWorkspace(ctx context.Context, named string) (store.Workspace, error) {
	ref := named
	if c.Workspace != "" && (ref == "" || !c.Allows(access.ScopeAll)) {
		ref = c.Workspace
	}
	if ref == "" {
		return store.Workspace{}, Invalid("workspace_id", "is required: this key or session is not bound to one workspace")
	}
	w, err := c.ActiveWorkspace(ctx, "workspace_id", ref)
	if err == nil && ref != named && named != "" && named != w.ID && named != w.Slug {
		return store.Workspace{}, Missing("workspace_id", "workspace", named)
	}
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
	return w, checkPermission(ctx, c.DB(), place{c.Organisation, w.ID}, m.RoleIn(w.ID), c.route.right())
}

// ActiveWorkspace returns the workspace of the caller's organisation that a field of
// the request names by id or slug. An archived one is not found.
func (c *Caller) ActiveWorkspace(ctx context.Context, field, ref string) (store.Workspace, error) {
	w, err := c.DB().Workspace(ctx, c.Organisation, ref)
	if apierr.IsNotFound(err) || err == nil && w.Status != store.Active {
		return store.Workspace{}, Missing(field, "workspace", ref)
	}
	return w, err
}

// ChosenWorkspaces returns the ids of the workspaces that a field of the request names,
// or every if all workspaces are chosen. All is the request's allow_all_workspaces, nil
// if it is not set.
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

// VisibleWorkspace returns the workspace that the caller's view is limited to: the
// workspace of the key, or the one the request names; empty is all of the organisation.
// A user who does not administer the organisation must name one of their workspaces
// unless they have only one.
func (c *Caller) VisibleWorkspace(ctx context.Context, named string) (string, error) {
	if named != "" || c.Type != access.Session {
		return c.WorkspaceFilter(ctx, named)
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

// WorkspaceFilter is [Caller.VisibleWorkspace] for families that restrict users' views
// themselves: for users who name no workspace it returns none.
func (c *Caller) WorkspaceFilter(ctx context.Context, named string) (string, error) {
	if named == "" && (c.Workspace == "" || c.Allows(access.ScopeAll)) {
		return "", nil
	}
	w, err := c.InWorkspace(ctx, named)
	return w.ID, err
}
