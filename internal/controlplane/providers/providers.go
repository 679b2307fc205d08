// Package providers implements the control plane's routes for managed providers, which
// requests name by @slug, and for virtual keys, their older form.
//
// It guarantees that a caller sees and changes only what belongs to them, that both
// forms show the same rows, and that a rejected change has no effect. A virtual key
// contains credentials; its integration is created and archived with it. The package
// does not check provider settings (see credentials), store rows (see store) or apply
// them to requests (see snapshot).
package providers

import (
	"context"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/budgets"
	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/provider/health"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
)

// Routes are the routes of managed providers.
type Routes struct {
	// Health returns what was seen of the provider with a slug in a workspace, and why
	// requests cannot use it. Nil has seen nothing.
	Health func(workspace, slug string) (seen *health.Recent, fault error)
	Node   string // name of this process among those with the same database

	Tests *credentials.Tester // of credentials of virtual keys; nil has none
}

// Add adds the routes of providers without their health.
func Add(a *route.API) { Routes{}.Add(a) }

// Add adds the routes of providers.
func (o Routes) Add(a *route.API) {
	f := route.Family{Path: "/providers", Tag: "Providers", Scopes: []string{"providers"}, Resource: "provider", Versioned: true}
	route.Add(a, f.Route(http.MethodPost, "", "create-provider", "create", "Create a provider from an integration"), create)
	route.Add(a, f.Route(http.MethodGet, "", "list-providers", "list", "List a workspace's providers"), o.list)
	route.Add(a, f.Route(http.MethodGet, "/{provider}", "get-provider", "read", "Read a provider"), get)
	route.Add(a, f.Route(http.MethodGet, "/{provider}/health", "get-provider-health", "read",
		"Read what this node saw of a provider in the last hour at most"), o.health)
	route.Add(a, f.Route(http.MethodPut, "/{provider}", "update-provider", "update", "Change a provider"), update)
	route.Add(a, f.Route(http.MethodDelete, "/{provider}", "delete-provider", "delete", "Archive a provider"), archive)
	f.AddRestore(a, store.RestoreProvider, nil)
	addVirtualKeys(a, o.Tests)
}

// Input describes a provider completely: a new one, or one of a file.
type Input = createInput

type createInput struct {
	Body struct {
		Name        string              `json:"name" minLength:"1" maxLength:"255"`
		Integration string              `json:"integration_id" minLength:"1" maxLength:"255" doc:"Id or slug"`
		Workspace   string              `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug; required for organisation keys"`
		Slug        string              `json:"slug,omitempty" pattern:"^[a-zA-Z0-9_-]+$" maxLength:"255" doc:"Name in requests, after @; generated from the name by default"`
		Note        string              `json:"note,omitempty" maxLength:"1024"`
		UsageLimits *limits.BudgetInput `json:"usage_limits,omitempty"`
		RateLimits  limits.Rates        `json:"rate_limits,omitempty" maxItems:"7" doc:"Limits of requests and tokens in fixed windows, and of requests at a time; null or empty for none"`
		ExpiresAt   string              `json:"expires_at,omitempty" maxLength:"40" doc:"A future time such as 2026-12-31T12:00:00Z, or +90d from now"`
		Tags        credentials.Tags    `json:"tags,omitempty"`

		MadeByGrant bool `json:"-"` // see [store.Provider]; of a file only
	}
}

// changes returns the changes that make a provider what in describes.
func (in *Input) changes() *updateInput {
	b, out := &in.Body, new(updateInput)
	to := &out.Body
	to.Name, to.Note, to.ExpiresAt, to.Tags = route.Set(b.Name), route.Set(b.Note), route.Set(b.ExpiresAt), route.Set(b.Tags)
	to.UsageLimits, to.RateLimits = route.SetOrNull(b.UsageLimits), route.Set(b.RateLimits)
	return out
}

// changedResponse is the response to creating or changing a provider.
type changedResponse struct {
	ID   string `json:"id"`
	Slug string `json:"slug"`
}

func create(ctx context.Context, c *route.Caller, in *Input) (*changedResponse, error) {
	b := &in.Body
	w, err := c.InWorkspace(ctx, b.Workspace)
	if err != nil {
		return nil, err
	}
	if owned, ok := route.FindDeclared(c.Files().Providers, w.ID, b.Slug, place); ok {
		return nil, c.RefuseFileManaged(owned.ID, "provider", owned.Slug)
	}
	row := store.Provider{
		ID: c.NewID(), Organisation: w.Organisation, Workspace: w.ID, Slug: b.Slug, MadeByGrant: b.MadeByGrant,
		Status: store.Active, CreatedAt: c.Now, UpdatedAt: c.Now,
	}
	if err := in.changes().apply(&row, c); err != nil {
		return nil, err
	}
	c.SetAuditSubject(w.ID, row.ID)
	err = c.Change(ctx, func(tx *store.Tx) error {
		i, err := integration(ctx, c, tx.Queries, w, b.Integration)
		if err != nil {
			return err
		}
		row.Integration = i.ID
		if err := checkTwin(ctx, c, tx, &row); err != nil {
			return err
		}
		return insert(ctx, tx, c, &row)
	})
	return &changedResponse{row.ID, row.Slug}, err
}

// Put makes the provider with an id, a new one if it is empty, what in describes. It is for
// entries of a file, which name workspace and integration by their ids.
func Put(ctx context.Context, c *route.Caller, id string, in *Input) error {
	if id == "" {
		_, err := create(ctx, c, in)
		return err
	}
	return c.Change(ctx, func(tx *store.Tx) error {
		return changeRow(ctx, tx, c, id, func(row *store.Provider) error {
			row.Integration, row.MadeByGrant = in.Body.Integration, in.Body.MadeByGrant
			return in.changes().apply(row, c)
		})
	})
}

// Archive archives the provider with an id.
func Archive(ctx context.Context, c *route.Caller, id string) error {
	return c.Change(ctx, func(tx *store.Tx) error { return remove(ctx, tx, c, id) })
}

// integration returns the integration that a request names if the workspace has it. A file
// may describe a provider whose workspace has it no more.
func integration(ctx context.Context, c *route.Caller, q store.Queries, w store.Workspace, ref string) (store.Integration, error) {
	missing := route.Missing("integration_id", "integration", ref)
	i, err := q.Integration(ctx, w.Organisation, ref)
	if apierr.IsNotFound(err) {
		return i, missing
	}
	if err != nil || c.Restores() {
		return i, err
	}
	has, err := q.HasIntegration(ctx, i, w.ID)
	if err == nil && !has {
		err = missing
	}
	return i, err
}

// insert stores a new provider, with a generated slug if it has none.
func insert(ctx context.Context, tx *store.Tx, c *route.Caller, row *store.Provider) error {
	if row.Slug == "" {
		row.Slug = route.NewSlug("", row.Name)
	}
	taken, err := tx.ProviderSlugTaken(ctx, row.Workspace, row.Slug)
	if err != nil {
		return err
	}
	if taken {
		return apierr.New(apierr.Conflict, "provider slug %q already exists in the workspace; choose another", row.Slug).WithParam("slug")
	}
	if err := tx.CreateProvider(ctx, *row); err != nil {
		return err
	}
	if err := checkLimits(ctx, c, tx, new(store.Provider), row); err != nil {
		return err
	}
	return budgets.Refresh(ctx, tx, store.ProviderBudget, row.ID)
}

// Item is a provider in a response.
type Item struct {
	ID          string                 `json:"id"`
	Name        string                 `json:"name"`
	Slug        string                 `json:"slug"`
	Workspace   string                 `json:"workspace_id"`
	Integration string                 `json:"integration_id"`
	Note        string                 `json:"note"`
	Status      string                 `json:"status" doc:"active, exhausted or expired"`
	UsageLimits *limits.BudgetResponse `json:"usage_limits"`
	RateLimits  limits.Rates           `json:"rate_limits"`
	ResetUsage  *bool                  `json:"reset_usage" doc:"Always null; only for changes"`
	Tags        credentials.Tags       `json:"tags"`
	CreatedAt   route.Time             `json:"created_at"`
	UpdatedAt   route.Time             `json:"last_updated_at"`
	ExpiresAt   route.Time             `json:"expires_at"`
	ManagedBy   string                 `json:"managed_by" doc:"api, or file if it is declared in the settings file"`
	Object      string                 `json:"object"`

	Health *Health `json:"health,omitempty" doc:"Of the last 15 minutes, if the list asked for it"`
}

// place returns where a declared provider is.
func place(p store.Provider) (id, workspace, slug string) { return p.ID, p.Workspace, p.Slug }

// spending returns the total spend of providers that have a budget, by provider id.
func spending(ctx context.Context, c *route.Caller, list ...store.Provider) (map[string]reqlog.Spend, error) {
	var ids []string
	for _, p := range list {
		if string(p.UsageLimits) != "null" {
			ids = append(ids, p.ID)
		}
	}
	return c.DB().Spending(ctx, store.ProviderBudget, ids...)
}

// toResponse returns p with the given spend.
func toResponse(p store.Provider, spent reqlog.Spend, c *route.Caller) (Item, error) {
	status := p.StatusAt(c.Now)
	budget, err := limits.ReadUsage(p.UsageLimits)
	if err != nil {
		return Item{}, err
	}
	rates, err := limits.ReadRates(p.RateLimits)
	return Item{
		ID: p.ID, Name: p.Name, Slug: p.Slug, Workspace: p.Workspace, Integration: p.Integration, Note: p.Note, Status: status,
		UsageLimits: budget.Response(spent, status), RateLimits: rates, Tags: p.Tags, CreatedAt: route.Time(p.CreatedAt),
		UpdatedAt: route.Time(p.UpdatedAt), ExpiresAt: route.Time(p.ExpiresAt), ManagedBy: route.ManagedBy(p.ID), Object: "provider",
	}, err
}

// PageQuery selects a page of a list. It is exported because the OpenAPI generator does
// not see embedded unexported fields.
type PageQuery struct {
	Workspace string `query:"workspace_id" maxLength:"255" doc:"Id or slug; required for organisation keys"`
	Page      int    `query:"current_page" minimum:"0" maximum:"1000000"`
	Size      int    `query:"page_size" minimum:"1" maximum:"1000" default:"50"`
	Name      string `query:"name" maxLength:"255" doc:"Case-sensitive substring of the name"`
	Status    string `query:"status" maxLength:"64" doc:"active, archived, or both separated by a comma; defaults to all but archived ones, which are visible only to the organisation's owner and admins"`
}

// rows returns the selection in the form of the store.
func (in *PageQuery) rows(ctx context.Context, c *route.Caller) (store.Page, error) {
	statuses, err := c.Statuses(ctx, in.Status)
	return store.Page{Number: in.Page, Size: in.Size, Name: in.Name, Statuses: statuses}, err
}

// declared returns the providers of the settings file that a list contains.
func (in *PageQuery) declared(c *route.Caller, w store.Workspace, p store.Page) []store.Provider {
	return slices.DeleteFunc(route.DeclaredIn(c.Files().Providers, w.ID, place), func(row store.Provider) bool {
		return !strings.Contains(row.Name, p.Name) || p.Statuses != nil && !slices.Contains(p.Statuses, row.Status)
	})
}

type listInput struct {
	PageQuery
	Tags   string `query:"tags" maxLength:"8192" doc:"JSON object; returns only items with all of these tags"`
	Health bool   `query:"health" doc:"Adds what this node saw of each provider"`
}

func (o Routes) list(ctx context.Context, c *route.Caller, in *listInput) (*route.List[Item], error) {
	tags, err := credentials.ParseTags(in.Tags)
	if err != nil {
		return nil, err
	}
	w, err := c.InWorkspace(ctx, in.Workspace)
	if err != nil {
		return nil, err
	}
	p, err := in.rows(ctx, c)
	if err != nil {
		return nil, err
	}
	found, total, err := c.DB().Providers(ctx, w.Organisation, w.ID, tags, p)
	if err != nil {
		return nil, err
	}
	var owned []store.Provider
	if len(tags) == 0 {
		owned = in.declared(c, w, p)
	}
	spent, err := spending(ctx, c, found...)
	if err != nil {
		return nil, err
	}
	return route.ConvertDeclared(owned, found, in.Page, total,
		func(p store.Provider) (Item, error) {
			item, err := toResponse(p, spent[p.ID], c)
			if in.Health {
				item.Health = o.report(p, c.Now.Add(-defaultPeriod), c.Now)
			}
			return item, err
		})
}

// Named identifies a provider in a request. It is exported because the OpenAPI
// generator does not see embedded unexported fields.
type Named struct {
	Provider  string `path:"provider" maxLength:"255" doc:"Slug or id"`
	Workspace string `query:"workspace_id" maxLength:"255" doc:"Id or slug; required for organisation keys that name a provider by its slug"`
}

// find returns the provider that a request names if the caller may see it.
func find(ctx context.Context, c *route.Caller, in Named) (store.Provider, error) {
	row, err := lookup(ctx, c, in)
	if apierr.IsNotFound(err) {
		if e := apierr.From(err); e.Param != "" { // the workspace is missing
			return row, err
		}
		return row, route.NotFound("provider", "provider", in.Provider)
	}
	c.SetAuditSubject(row.Workspace, row.ID)
	return row, err
}

// uuid matches ids.
var uuid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// lookup finds a provider by id wherever the caller may see it, or by slug in one
// workspace.
func lookup(ctx context.Context, c *route.Caller, in Named) (store.Provider, error) {
	limit, err := c.VisibleWorkspace(ctx, in.Workspace)
	if err != nil {
		return store.Provider{}, err
	}
	if owned, ok := route.FindDeclared(c.Files().Providers, limit, in.Provider, place); ok {
		return owned, c.RefuseFileManaged(owned.ID, "provider", owned.Slug)
	}
	row, err := c.DB().Provider(ctx, c.Organisation, limit, in.Provider)
	if limit != "" || !apierr.IsNotFound(err) || c.Workspace == "" && uuid.MatchString(in.Provider) {
		return row, err
	}
	w, err := c.InWorkspace(ctx, in.Workspace)
	if err != nil {
		return row, err
	}
	return c.DB().Provider(ctx, c.Organisation, w.ID, in.Provider)
}

func get(ctx context.Context, c *route.Caller, in *Named) (*Item, error) {
	row, err := find(ctx, c, *in)
	if err != nil {
		return nil, err
	}
	spent, err := spending(ctx, c, row)
	if err != nil {
		return nil, err
	}
	item, err := toResponse(row, spent[row.ID], c)
	return &item, err
}

func archive(ctx context.Context, c *route.Caller, in *Named) (*route.Empty, error) {
	row, err := find(ctx, c, *in)
	if err != nil {
		return nil, err
	}
	return &route.Empty{}, Archive(ctx, c, row.ID)
}

// remove archives a provider, with its integration if that was created for it only.
func remove(ctx context.Context, tx *store.Tx, c *route.Caller, id string) error {
	row, err := tx.Provider(ctx, c.Organisation, "", id)
	if err := c.CheckIfMatch(row.UpdatedAt, row.UpdatedAt, err); err != nil {
		return err
	}
	row.Status, row.UpdatedAt = store.Archived, c.NextUpdateTime(row.UpdatedAt)
	if err := tx.UpdateProvider(ctx, row); err != nil {
		return err
	}
	i, err := tx.Integration(ctx, c.Organisation, row.Integration)
	if apierr.IsNotFound(err) || err == nil && !i.Implicit {
		return nil
	}
	if err != nil {
		return err
	}
	return tx.ArchiveIntegration(ctx, i.ID, row.UpdatedAt)
}

// Visible returns the provider with an id or slug if the caller may see it.
func Visible(ctx context.Context, c *route.Caller, ref, workspace string) (store.Provider, error) {
	return find(ctx, c, Named{Provider: ref, Workspace: workspace})
}
