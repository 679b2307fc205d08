// Package guardrails implements the control plane's routes for saved guardrails.
//
// It guarantees that a guardrail is stored as given, with a version for each change,
// and that an organisation guardrail is visible to every workspace but changed only
// with organisation scopes. It does not run checks, which is the job of the data plane.
package guardrails

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"modelgate/internal/pipeline/guarding"
	"net/http"

	"modelgate/config"
	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/guardrail"
	"modelgate/internal/identity/access"
	"modelgate/internal/records/logstore"
	"modelgate/internal/store"
)

// Routes are the routes of guardrails.
type Routes struct {
	// Test tests a guardrail whose checks may ask models and send requests to the hosts
	// that the egress policies allow. Nil tests without models and policies.
	Test func(context.Context, *guarding.Trial) (*guarding.TrialResult, error)

	// CheckModule returns what a WebAssembly module of an organisation exports. Nil
	// allows no modules.
	CheckModule func(organisation string, code []byte) (exports []string, err error)

	// RemoveModule removes what a module with this hash was compiled to. Nil removes
	// nothing.
	RemoveModule func(sum [sha256.Size]byte)

	// Log is the request log, which has the results. Nil has none.
	Log *logstore.Store
}

// Add adds the routes.
func (r Routes) Add(a *route.API) {
	f := route.Family{Path: "/guardrails", Tag: "Guardrails", Scopes: []string{"guardrails", "organisation_guardrails"},
		Resource: "guardrail", Versioned: true}
	route.Add(a, f.Route(http.MethodPost, "", "create-guardrail", "create", "Save a guardrail"), create)
	route.Add(a, f.Route(http.MethodGet, "", "list-guardrails", "list", "List guardrails"), list)
	t := &tests{run: r.Test, slots: route.Slots{Tests: "tests of guardrails"}}
	t.add(a)
	route.Add(a, f.Route(http.MethodGet, "/{guardrail}", "get-guardrail", "read", "Read a guardrail"), get)
	route.Add(a, f.Route(http.MethodPut, "/{guardrail}", "update-guardrail", "update",
		"Change a guardrail; changed checks or actions create a new version"), update)
	route.Add(a, f.Route(http.MethodDelete, "/{guardrail}", "delete-guardrail", "delete", "Archive a guardrail"), archive)
	route.Add(a, f.Route(http.MethodGet, "/{guardrail}/versions", "list-guardrail-versions", "read",
		"List guardrail versions, newest first"), versions)
	route.Add(a, f.Route(http.MethodPost, "/{guardrail}/rollback", "rollback-guardrail", "update",
		"Make the checks and actions of an earlier version the current ones, as a new version"), rollback)
	f.AddRestore(a, store.RestoreGuardrail, checkRestored)
	results{r.Log, a.Now}.add(a)
	r.addModules(a)
	addCredentials(a)
}

// Check is a check and its parameters.
type Check struct {
	ID         string         `json:"id" minLength:"3" maxLength:"128" pattern:"^[a-z0-9-]+\\.[A-Za-z0-9]+(\\.[A-Za-z0-9]+)?$" doc:"family.check, such as default.regexMatch"`
	Parameters map[string]any `json:"parameters,omitempty"`
	Name       string         `json:"name,omitempty" maxLength:"255"`
	Enabled    *bool          `json:"is_enabled,omitempty" doc:"Defaults to true"`
}

// Feedback is the feedback that a verdict adds to a request.
type Feedback struct {
	Value    *float64          `json:"value,omitempty" minimum:"-10" maximum:"10"`
	Weight   *float64          `json:"weight,omitempty" minimum:"0" maximum:"1"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// Outcome is the consequence of a verdict.
type Outcome struct {
	Feedback *Feedback `json:"feedback,omitempty"`
}

// Actions are the consequences of the checks' verdicts.
type Actions struct {
	Deny       bool     `json:"deny,omitempty"`
	Async      bool     `json:"async,omitempty"`
	Sequential bool     `json:"sequential,omitempty"`
	Soft       bool     `json:"soft_deny_200,omitempty" doc:"Returns denials with status 200, as a completion whose text is the message"`
	Mode       string   `json:"mode,omitempty" enum:"enforce,shadow" doc:"shadow observes only: it neither denies, changes nor delays"`
	Stream     string   `json:"stream,omitempty" enum:"window,hold,observe" doc:"How streams are checked; the default depends on the checks"`
	OnSuccess  *Outcome `json:"on_success,omitempty"`
	OnFail     *Outcome `json:"on_fail,omitempty"`
}

type createInput struct {
	Body struct {
		Name         string  `json:"name" minLength:"1" maxLength:"255"`
		Workspace    string  `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug"`
		Organisation string  `json:"organisation_id,omitempty" maxLength:"255" doc:"Id or slug; creates an organisation guardrail"`
		Checks       []Check `json:"checks" nullable:"false" minItems:"1" maxItems:"100"`
		Actions      Actions `json:"actions"`
	}
}

type created struct {
	ID        string `json:"id"`
	Slug      string `json:"slug"`
	VersionID string `json:"version_id"`
}

func create(ctx context.Context, c *route.Caller, in *createInput) (*created, error) {
	b := &in.Body
	workspace, err := place(ctx, c, b.Workspace, b.Organisation)
	if err != nil {
		return nil, err
	}
	g := store.Guardrail{
		ID: c.NewID(), Organisation: c.Organisation, Workspace: workspace, Slug: route.NewSlug("pg", b.Name), Name: b.Name, VersionID: c.NewID(),
		Status: store.Active, OwnerID: c.Actor(), UpdatedBy: c.Actor(), CreatedAt: c.Now, UpdatedAt: c.Now,
	}
	if g.Checks, err = json.Marshal(b.Checks); err != nil {
		return nil, err
	}
	if g.Actions, err = json.Marshal(b.Actions); err != nil {
		return nil, err
	}
	if err := Validate(ctx, c.DB(), c.Guardrails(), &g); err != nil {
		return nil, err
	}
	c.SetAuditSubject(workspace, g.ID)
	if err := c.Change(ctx, func(tx *store.Tx) error { return write(ctx, c, tx, nil, &g) }); err != nil {
		return nil, err
	}
	return &created{g.ID, g.Slug, g.VersionID}, nil
}

// place returns the workspace id of a new guardrail, empty for the organisation.
func place(ctx context.Context, c *route.Caller, workspace, organisation string) (string, error) {
	if organisation == "" {
		w, err := c.InWorkspace(ctx, workspace)
		return w.ID, err
	}
	if workspace != "" {
		return "", route.Invalid("workspace_id", "cannot be combined with organisation_id; leave one out")
	}
	if err := c.CheckOrganisation(ctx, organisation); err != nil {
		return "", err
	}
	return "", checkOrganisationScope(c, "create")
}

// checkOrganisationScope returns an error unless the caller has the scope to change guardrails
// of the organisation.
func checkOrganisationScope(c *route.Caller, verb string) error {
	if scope := access.Scope("organisation_guardrails." + verb); !c.Allows(scope) {
		return apierr.New(apierr.Forbidden, "an organisation guardrail requires the scope %q", string(scope)).WithCode("AB03")
	}
	return nil
}

// Put stores g, which a file describes and [Validate] accepts, instead of before; nil is a new
// guardrail. Other checks or actions are a new version. The caller checks default guardrails
// at the end of its change, see [route.CheckGuardDefaults].
func Put(ctx context.Context, c *route.Caller, before *store.Guardrail, g store.Guardrail) error {
	if before == nil || !bytes.Equal(g.Checks, before.Checks) || !bytes.Equal(g.Actions, before.Actions) {
		g.VersionID = c.NewID()
	}
	if g.UpdatedBy, g.UpdatedAt = c.Actor(), c.NextUpdateTime(g.UpdatedAt); before == nil {
		g.OwnerID, g.CreatedAt = c.Actor(), c.Now
	}
	return c.Change(ctx, func(tx *store.Tx) error { return write(ctx, c, tx, before, &g) })
}

// write stores g instead of before, nil for a new guardrail.
func write(ctx context.Context, c *route.Caller, tx *store.Tx, before, g *store.Guardrail) error {
	if before != nil {
		if err := checkEnforced(ctx, c, tx, before, g); err != nil {
			return err
		}
	}
	if g.Status == store.Active {
		if err := route.CheckModules(ctx, tx.Queries, g); err != nil {
			return err
		}
	}
	if before == nil {
		return tx.CreateGuardrail(ctx, *g)
	}
	return tx.UpdateGuardrail(ctx, *g)
}

// Validate returns an error for a guardrail that contains a credential, which everyone who
// may read the guardrail would see, or that can run neither on requests nor on responses. A
// nil table accepts all checks. It may compile modules, so do not call it in a transaction.
func Validate(ctx context.Context, q store.Queries, t *guardrail.Table, g *store.Guardrail) error {
	if err := cmp.Or(route.CheckExposed("checks", g.Checks), route.CheckExposed("actions", g.Actions)); err != nil {
		return err
	}
	return checkRunnable(ctx, q, t, g)
}

// checkRunnable returns an error for a guardrail with an unknown check or a wrong parameter.
func checkRunnable(ctx context.Context, q store.Queries, t *guardrail.Table, g *store.Guardrail) error {
	if t == nil {
		return nil
	}
	saved := route.SavedGuardrail(ctx, q, g)
	_, before := t.CompileSaved(saved, guardrail.Before)
	_, after := t.CompileSaved(saved, guardrail.After)
	if len(before) == 0 || len(after) == 0 {
		return nil
	}
	return apierr.New(apierr.Invalid, "AB01: %s %s", before[0].Path, before[0].Message).WithParam(before[0].Path).WithCode("AB01")
}

// Item is a guardrail in a list.
type Item struct {
	ID           string     `json:"id"`
	Name         string     `json:"name"`
	Slug         string     `json:"slug"`
	Organisation string     `json:"organisation_id"`
	Workspace    *string    `json:"workspace_id" doc:"null for an organisation guardrail"`
	Status       string     `json:"status"`
	CreatedAt    route.Time `json:"created_at"`
	UpdatedAt    route.Time `json:"last_updated_at"`
	OwnerID      string     `json:"owner_id"`
	UpdatedBy    string     `json:"updated_by"`
}

func toResponse(g store.Guardrail) Item {
	return Item{
		ID: g.ID, Name: g.Name, Slug: g.Slug, Organisation: g.Organisation, Workspace: route.OrNull(g.Workspace), Status: g.Status,
		CreatedAt: route.Time(g.CreatedAt), UpdatedAt: route.Time(g.UpdatedAt), OwnerID: g.OwnerID, UpdatedBy: g.UpdatedBy,
	}
}

type listInput struct {
	Workspace    string `query:"workspace_id" maxLength:"255"`
	Organisation string `query:"organisation_id" maxLength:"255" doc:"The organisation of the key; any other is not found"`
	route.Selection
}

func list(ctx context.Context, c *route.Caller, in *listInput) (*route.List[Item], error) {
	if err := c.CheckOrganisation(ctx, in.Organisation); err != nil {
		return nil, err
	}
	workspace, err := c.VisibleWorkspace(ctx, in.Workspace)
	if err != nil {
		return nil, err
	}
	p, err := in.Rows(ctx, c)
	if err != nil {
		return nil, err
	}
	found, total, err := c.DB().Guardrails(ctx, c.Organisation, workspace, p)
	return route.Listing(found, total, err, toResponse)
}

type oneInput struct {
	Guardrail string `path:"guardrail" maxLength:"255" doc:"Id or slug"`
}

type full struct {
	Item
	VersionID string     `json:"version_id"`
	Checks    route.JSON `json:"checks"`
	Actions   route.JSON `json:"actions"`
}

func get(ctx context.Context, c *route.Caller, in *oneInput) (*full, error) {
	ref, number, err := route.SplitVersion("guardrail", in.Guardrail)
	if err != nil {
		return nil, err
	}
	g, err := find(ctx, c, ref)
	if err == nil && number > 0 {
		err = setVersion(ctx, c, &g, number)
	}
	if err != nil {
		return nil, err
	}
	return &full{toResponse(g), g.VersionID, route.JSON(config.MaskExposed(g.Checks)), route.JSON(config.MaskExposed(g.Actions))}, nil
}

func find(ctx context.Context, c *route.Caller, ref string) (store.Guardrail, error) {
	workspace, err := c.VisibleWorkspace(ctx, "")
	if err != nil {
		return store.Guardrail{}, err
	}
	g, err := c.DB().Guardrail(ctx, c.Organisation, workspace, ref)
	return g, c.CheckFound(g.Workspace, g.ID, err, route.NotFound("guardrail", "guardrail", ref))
}

// changeable returns the guardrail that a request names if the caller may change it.
func changeable(ctx context.Context, c *route.Caller, ref, verb string) (store.Guardrail, error) {
	g, err := find(ctx, c, ref)
	if err == nil && g.Workspace == "" {
		err = checkOrganisationScope(c, verb)
	}
	return g, err
}

type updateInput struct {
	Guardrail string `path:"guardrail" maxLength:"255" doc:"Id or slug"`
	Body      struct {
		Name    string   `json:"name,omitempty" minLength:"1" maxLength:"255"`
		Checks  []Check  `json:"checks,omitempty" minItems:"1" maxItems:"100"`
		Actions *Actions `json:"actions,omitempty"`
	}
}

func update(ctx context.Context, c *route.Caller, in *updateInput) (*created, error) {
	g, err := changeable(ctx, c, in.Guardrail, "update")
	if err != nil {
		return nil, err
	}
	b := &in.Body
	if b.Name != "" {
		g.Name = b.Name
	}
	if b.Checks != nil || b.Actions != nil {
		g.VersionID = c.NewID()
	}
	if b.Checks != nil {
		if g.Checks, err = json.Marshal(b.Checks); err != nil {
			return nil, err
		}
	}
	if b.Actions != nil {
		if g.Actions, err = json.Marshal(b.Actions); err != nil {
			return nil, err
		}
	}
	if b.Checks != nil || b.Actions != nil {
		if err := Validate(ctx, c.DB(), c.Guardrails(), &g); err != nil {
			return nil, err
		}
	}
	if err := change(ctx, c, g); err != nil {
		return nil, err
	}
	return &created{g.ID, g.Slug, g.VersionID}, nil
}

// change stores the changed guardrail, or returns a conflict if it was changed after
// the request read it.
func change(ctx context.Context, c *route.Caller, g store.Guardrail) error {
	read := g.UpdatedAt
	g.UpdatedBy, g.UpdatedAt = c.Actor(), c.NextUpdateTime(read)
	return c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.Guardrail(ctx, g.Organisation, g.Workspace, g.ID)
		if err := c.CheckIfMatch(read, now.UpdatedAt, err); err != nil {
			return err
		}
		if err := write(ctx, c, tx, &now, &g); err != nil {
			return err
		}
		return route.CheckGuardDefaults(ctx, tx.Queries, c.Guardrails(), g.Organisation)
	})
}

func archive(ctx context.Context, c *route.Caller, in *oneInput) (*route.Empty, error) {
	g, err := changeable(ctx, c, in.Guardrail, "delete")
	if err != nil {
		return nil, err
	}
	g.Status = store.Archived
	return &route.Empty{}, change(ctx, c, g)
}
