package workspaces

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/budgets"
	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
)

// Item is a workspace in a list.
type Item struct {
	ID           string                  `json:"id"`
	Slug         string                  `json:"slug"`
	Name         string                  `json:"name"`
	Icon         string                  `json:"icon"`
	Description  string                  `json:"description"`
	Organisation string                  `json:"organisation_id"`
	Status       string                  `json:"status"`
	IsDefault    bool                    `json:"is_default"`
	Defaults     route.JSON              `json:"defaults"`
	Settings     route.JSON              `json:"settings"`
	Overridden   []string                `json:"overridden_settings" doc:"Names of settings without effect because the organisation does not delegate them to workspaces"`
	Security     access.RolePermissions  `json:"security_settings" doc:"Effective permissions: sections that the organisation delegates come from this workspace"`
	UsageLimits  []limits.BudgetResponse `json:"usage_limits"`
	RateLimits   limits.Rates            `json:"rate_limits"`
	Tools        []string                `json:"tools" nullable:"true" doc:"What its keys may use of MCP servers, as patterns; null for all, empty for nothing"`
	CreatedBy    string                  `json:"created_by"`
	CreatedAt    route.Time              `json:"created_at"`
	UpdatedAt    route.Time              `json:"last_updated_at"`
	Object       string                  `json:"object"`
}

type full struct {
	Item
	Users []memberItem `json:"users"`
}

// toResponse returns w with the given spend.
func toResponse(w *store.Workspace, spent reqlog.Spend, above *store.OrganisationSettings) (Item, error) {
	own, err := security(w)
	if err != nil {
		return Item{}, err
	}
	usages, err := limits.ReadUsages(w.UsageLimits)
	if err != nil {
		return Item{}, err
	}
	rates, err := limits.ReadRates(w.RateLimits)
	if err != nil {
		return Item{}, err
	}
	overridden, err := Overridden(w.Settings, above)
	if err != nil {
		return Item{}, err
	}
	defaults := map[string]any{}
	if err := json.Unmarshal(w.Defaults, &defaults); err != nil {
		return Item{}, err
	}
	defaults["is_default"], defaults["object"] = w.IsDefault, "workspace"
	raw, err := json.Marshal(defaults)
	return Item{
		ID: w.ID, Slug: w.Slug, Name: w.Name, Icon: w.Icon, Description: w.Description, Organisation: w.Organisation,
		Status: w.Status, IsDefault: w.IsDefault, Defaults: raw, Settings: object(w.Settings),
		Overridden: overridden, Security: above.Security.WithOverrides(own, above.Overridable),
		UsageLimits: usages.Response(spent), RateLimits: rates, Tools: w.Tools,
		CreatedBy: w.CreatedBy, CreatedAt: route.Time(w.CreatedAt), UpdatedAt: route.Time(w.UpdatedAt), Object: "workspace",
	}, err
}

func object(raw json.RawMessage) route.JSON {
	if len(raw) == 0 {
		return route.JSON("{}")
	}
	return route.JSON(raw)
}

// withMembers returns a workspace with its members.
func withMembers(ctx context.Context, c *route.Caller, w store.Workspace) (*full, error) {
	o, err := c.DB().Organisation(ctx, w.Organisation)
	if err != nil {
		return nil, err
	}
	spent, err := c.DB().Spending(ctx, store.WorkspaceBudget, w.ID)
	if err != nil {
		return nil, err
	}
	item, err := toResponse(&w, spent[w.ID], &o.Settings)
	if err != nil {
		return nil, err
	}
	people, _, err := c.DB().WorkspaceMembers(ctx, w.ID, "", "", store.Page{})
	if err != nil {
		return nil, err
	}
	out := &full{Item: item, Users: []memberItem{}}
	for _, m := range people {
		out.Users = append(out.Users, toMemberItem(m))
	}
	return out, nil
}

type oneInput struct {
	Workspace string `path:"workspace" maxLength:"255" doc:"Id or slug"`
}

func get(ctx context.Context, c *route.Caller, in *oneInput) (*full, error) {
	w, err := find(ctx, c, in.Workspace)
	if err != nil {
		return nil, err
	}
	return withMembers(ctx, c, w)
}

// find returns the workspace that a path names if the caller may see it: callers of one
// workspace see that workspace, users see theirs, and archived ones are visible to
// administrators of the organisation. Users need the route's permission.
func find(ctx context.Context, c *route.Caller, ref string) (store.Workspace, error) {
	missing := route.NotFound("workspace", "workspace", ref)
	w, err := c.DB().Workspace(ctx, c.Organisation, ref)
	if apierr.IsNotFound(err) {
		return w, missing
	}
	if err != nil {
		return w, err
	}
	there, err := sees(ctx, c, w)
	if err != nil {
		return w, err
	}
	if !there {
		return w, missing
	}
	c.SetAuditSubject(w.ID, w.ID)
	return w, c.CheckRoutePermission(ctx, w.ID)
}

// sees reports whether the caller may see a workspace.
func sees(ctx context.Context, c *route.Caller, w store.Workspace) (bool, error) {
	if c.Workspace != "" && c.Workspace != w.ID && !c.Allows(access.ScopeAll) {
		return false, nil
	}
	wide, err := c.Administers(ctx)
	if err != nil || wide || w.Status == store.Archived {
		return wide, err
	}
	if !c.IsPerson() {
		return true, nil
	}
	m, err := c.DB().Membership(ctx, c.Organisation, c.UserID)
	return m.RoleIn(w.ID) != "", err
}

type updateInput struct {
	Workspace string `path:"workspace" maxLength:"255" doc:"Id or slug"`
	Body      struct {
		Name        string                                 `json:"name,omitempty" minLength:"1" maxLength:"255"`
		Description route.Optional[string]                 `json:"description,omitempty"`
		Icon        route.Optional[string]                 `json:"icon,omitempty"`
		Defaults    route.Optional[Defaults]               `json:"defaults,omitempty"`
		UsageLimits route.Optional[[]limits.BudgetInput]   `json:"usage_limits,omitempty"`
		RateLimits  route.Optional[limits.Rates]           `json:"rate_limits,omitempty" doc:"Limits of requests and tokens in fixed windows; null or empty for none"`
		Settings    route.Optional[map[string]any]         `json:"settings,omitempty"`
		Security    route.Optional[access.RolePermissions] `json:"security_settings,omitempty" doc:"All permissions; null clears them"`
		Tools       route.Optional[[]string]               `json:"tools,omitempty" maxItems:"500" maxLength:"512" doc:"What its keys may use of MCP servers, as patterns; null for all, empty for nothing"`
	}
}

func update(ctx context.Context, c *route.Caller, in *updateInput) (*route.Empty, error) {
	w, err := find(ctx, c, in.Workspace)
	if err != nil {
		return nil, err
	}
	if w.Status != store.Active {
		return nil, apierr.New(apierr.Conflict, "the workspace %q is archived", w.Slug)
	}
	b := &in.Body
	if b.Name != "" {
		w.Name = b.Name
	}
	w.Description, w.Icon = b.Description.Or(w.Description), b.Icon.Or(w.Icon)
	if err := cmp.Or(route.CheckLength("description", w.Description, 0, 1024), route.CheckLength("icon", w.Icon, 0, 255)); err != nil {
		return nil, err
	}
	if err := change(ctx, c, &w, in); err != nil {
		return nil, clientError(err)
	}
	read := w.UpdatedAt
	w.UpdatedAt = c.NextUpdateTime(read)
	err = c.Change(ctx, func(tx *store.Tx) error {
		if err := checkUnchanged(ctx, tx, c, w.ID, read); err != nil {
			return err
		}
		before, err := tx.Workspace(ctx, c.Organisation, w.ID)
		if err != nil {
			return err
		}
		if err := budget(&before, c, &w, in.Body.UsageLimits); err != nil {
			return err
		}
		if err := checkLimits(ctx, c, tx, &before, &w); err != nil {
			return err
		}
		if err := tx.UpdateWorkspace(ctx, w); err != nil {
			return err
		}
		if err := route.CheckGuardDefaults(ctx, tx.Queries, c.Guardrails(), w.Organisation); err != nil {
			return err
		}
		return budgets.Refresh(ctx, tx, store.WorkspaceBudget, w.ID)
	})
	return &route.Empty{}, err
}

// budget sets the budgets of w to the stored ones, which resets may have changed, with
// the requested changes.
func budget(now *store.Workspace, c *route.Caller, w *store.Workspace, in route.Optional[[]limits.BudgetInput]) error {
	w.UsageLimits = now.UsageLimits
	if in.Set {
		return setUsage(w, in.Value, c)
	}
	return nil
}

// checkUnchanged returns a conflict if a workspace was changed after the request read it.
func checkUnchanged(ctx context.Context, tx *store.Tx, c *route.Caller, id string, read time.Time) error {
	now, err := tx.Workspace(ctx, c.Organisation, id)
	return c.CheckIfMatch(read, now.UpdatedAt, err)
}

// change applies the objects in an update.
func change(ctx context.Context, c *route.Caller, w *store.Workspace, in *updateInput) error {
	b := &in.Body
	var errs []error
	if b.Defaults.Set {
		errs = append(errs, setDefaults(ctx, c, w, b.Defaults.Value))
	}
	if b.UsageLimits.Set {
		errs = append(errs, setUsage(w, b.UsageLimits.Value, c))
	}
	if b.RateLimits.Set {
		errs = append(errs, setRates(w, b.RateLimits.Value))
	}
	if b.Settings.Set {
		given, err := keepEgress(ctx, c, w, b.Settings.Value)
		if err == nil {
			err = changeSettings(ctx, c, w, given)
		}
		errs = append(errs, err)
	}
	if b.Tools.Set {
		w.Tools = b.Tools.Value
		errs = append(errs, limits.CheckTools("tools", w.Tools))
	}
	if b.Security.Set {
		errs = append(errs, setSecurity(ctx, c, w, b.Security))
	}
	return errors.Join(errs...)
}

type archiveInput struct {
	Workspace string `path:"workspace" maxLength:"255" doc:"Id or slug"`
	Body      struct {
		Name  string `json:"name" maxLength:"255" doc:"Name of the workspace, as a confirmation"`
		Force bool   `json:"force_delete,omitempty" doc:"Archives the workspace even if it is not empty"`
	}
}

func archive(ctx context.Context, c *route.Caller, in *archiveInput) (*route.Empty, error) {
	w, err := find(ctx, c, in.Workspace)
	if err != nil {
		return nil, err
	}
	switch {
	case w.IsDefault:
		return nil, apierr.New(apierr.Invalid, "the default workspace cannot be archived").WithParam("workspace")
	case w.Status != store.Active:
		return nil, apierr.New(apierr.Conflict, "the workspace %q is already archived", w.Slug)
	case in.Body.Name != w.Name:
		return nil, route.Invalid("name", "must be the workspace's name, %q, to confirm", w.Name)
	}
	err = c.Change(ctx, func(tx *store.Tx) error {
		if err := checkUnchanged(ctx, tx, c, w.ID, w.UpdatedAt); err != nil {
			return err
		}
		held, err := tx.WorkspaceHolds(ctx, w.ID)
		if err != nil {
			return err
		}
		if held > 0 && !in.Body.Force {
			return apierr.New(apierr.Conflict, "workspace %q is not empty: %d configs, prompts, keys or providers; remove them or set force_delete", w.Slug, held)
		}
		return writeArchived(ctx, c, tx, w)
	})
	return &route.Empty{}, err
}

// Archive archives a workspace, whatever it contains.
func Archive(ctx context.Context, c *route.Caller, w store.Workspace) error {
	return c.Change(ctx, func(tx *store.Tx) error { return writeArchived(ctx, c, tx, w) })
}

// writeArchived archives a workspace and its own integrations.
func writeArchived(ctx context.Context, c *route.Caller, tx *store.Tx, w store.Workspace) error {
	w.Status, w.UpdatedAt = store.Archived, c.NextUpdateTime(w.UpdatedAt)
	if err := tx.ArchiveWorkspaceIntegrations(ctx, w.ID, c.Now); err != nil {
		return err
	}
	return tx.UpdateWorkspace(ctx, w)
}

// Visible returns the workspace with an id or slug if the caller may see it.
func Visible(ctx context.Context, c *route.Caller, ref string) (store.Workspace, error) {
	return find(ctx, c, ref)
}
