package integrations

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
)

// globalAccess is the access of workspaces without a setting of their own.
type globalAccess struct {
	Enabled     bool                    `json:"enabled"`
	UsageLimits []limits.BudgetResponse `json:"usage_limits"`
	RateLimits  limits.Rates            `json:"rate_limits"`
}

func globalOf(i store.Integration) (g globalAccess, err error) {
	g.Enabled = i.GlobalEnabled
	g.UsageLimits, g.RateLimits, err = shownLimits(i.GlobalUsageLimits, i.GlobalRateLimits, reqlog.Spend{})
	return g, err
}

func shownLimits(usage, rate json.RawMessage, spent reqlog.Spend) ([]limits.BudgetResponse, limits.Rates, error) {
	usages, err := limits.ReadUsages(usage)
	if err != nil {
		return nil, nil, err
	}
	rates, err := limits.ReadRates(rate)
	return usages.Response(spent), rates, err
}

type workspaceItem struct {
	ID          string                  `json:"id"`
	Enabled     bool                    `json:"enabled"`
	UsageLimits []limits.BudgetResponse `json:"usage_limits"`
	RateLimits  limits.Rates            `json:"rate_limits"`
	Status      string                  `json:"status" doc:"active or exhausted"`
}

type workspaceList struct {
	Total      int             `json:"total"`
	Workspaces []workspaceItem `json:"workspaces"`
	Global     globalAccess    `json:"global_workspace_access"`
}

func (f *family) workspaces(ctx context.Context, c *route.Caller, in *Named) (*workspaceList, error) {
	row, err := f.find(ctx, c, *in, "read")
	if err != nil {
		return nil, err
	}
	found, err := c.DB().IntegrationWorkspaces(ctx, row.ID)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(found))
	for i, w := range found {
		ids[i] = store.GrantID(row.ID, w.Workspace)
	}
	spent, err := c.DB().Spending(ctx, store.GrantBudget, ids...)
	if err != nil {
		return nil, err
	}
	limit, err := c.VisibleWorkspace(ctx, in.Workspace)
	if err != nil {
		return nil, err
	}
	out := &workspaceList{Workspaces: []workspaceItem{}}
	if out.Global, err = globalOf(row); err != nil {
		return nil, err
	}
	for _, w := range found {
		if limit != "" && w.Workspace != limit {
			continue
		}
		item := workspaceItem{ID: w.Workspace, Enabled: w.Enabled, Status: w.Status}
		if item.UsageLimits, item.RateLimits, err = shownLimits(w.UsageLimits, w.RateLimits,
			spent[store.GrantID(row.ID, w.Workspace)]); err != nil {
			return nil, err
		}
		out.Workspaces = append(out.Workspaces, item)
	}
	out.Total = len(out.Workspaces)
	return out, nil
}

// Limits are the limits of a workspace's use of an integration. It is exported because
// the OpenAPI generator does not see embedded unexported fields.
type Limits struct {
	UsageLimits route.Optional[[]limits.BudgetInput] `json:"usage_limits,omitempty" maxItems:"1"`
	RateLimits  route.Optional[limits.Rates]         `json:"rate_limits,omitempty" maxItems:"1" doc:"Limits of requests and tokens in fixed windows; null or empty for none"`
}

// DefaultProvider controls the provider created where an integration is new. It is
// exported for the OpenAPI document.
type DefaultProvider struct {
	Create *bool  `json:"create_default_provider,omitempty"`
	Slug   string `json:"default_provider_slug,omitempty" pattern:"^[a-zA-Z0-9_-]+$" maxLength:"255"`
}

type workspaceInput struct {
	ID      string `json:"id" minLength:"1" maxLength:"255" doc:"Id or slug"`
	Enabled bool   `json:"enabled"`
	Reset   bool   `json:"reset_usage,omitempty" doc:"Resets the usage"`
	Limits
	DefaultProvider
}

type globalInput struct {
	Enabled bool `json:"enabled" doc:"Workspaces created later get access too"`
	Limits
}

type workspacesInput struct {
	Named
	Body struct {
		Workspaces route.Optional[[]workspaceInput] `json:"workspaces,omitempty" maxItems:"1000" doc:"Takes precedence over the other settings"`
		Global     *globalInput                     `json:"global_workspace_access,omitempty"`
		Override   bool                             `json:"override_existing_workspace_access,omitempty" doc:"Resets all workspaces that are not listed to the global setting"`
		DefaultProvider
	}
}

func (f *family) updateWorkspaces(ctx context.Context, c *route.Caller, in *workspacesInput) (*route.Empty, error) {
	row, err := f.find(ctx, c, in.Named, "update")
	if err != nil {
		return nil, err
	}
	b := &in.Body
	if len(b.Workspaces.Value) == 0 && !b.Override && (b.Global == nil || b.Workspaces.Set) {
		return nil, route.Invalid("workspaces", "must not be empty; set override_existing_workspace_access to reset all workspaces")
	}
	if row.Workspace != "" && b.Global != nil && b.Global.Enabled {
		return nil, route.Invalid("global_workspace_access", "cannot be set for an integration of a workspace")
	}
	if slices.ContainsFunc(b.Workspaces.Value, func(w workspaceInput) bool { return w.Reset }) {
		if err := c.AwaitSpending(ctx); err != nil {
			return nil, err
		}
	}
	err = c.Change(ctx, func(tx *store.Tx) error {
		fresh, err := tx.Integration(ctx, row.Organisation, row.ID)
		if err := c.CheckIfMatch(fresh.UpdatedAt, fresh.UpdatedAt, err); err != nil {
			return err
		}
		p := plan{tx: tx, c: c, in: in, before: fresh, after: fresh}
		return p.run(ctx)
	})
	return &route.Empty{}, err
}

// plan is a request to change which workspaces may use an integration.
type plan struct {
	tx            *store.Tx
	c             *route.Caller
	in            *workspacesInput
	before, after store.Integration
	rows          map[string]store.IntegrationWorkspace // before the change, by workspace
	listed        map[string]bool
}

func (p *plan) run(ctx context.Context) error {
	if err := p.readRows(ctx); err != nil {
		return err
	}
	if err := p.setGlobal(); err != nil {
		return err
	}
	if err := p.applyListed(ctx); err != nil {
		return err
	}
	if err := p.applyGlobal(ctx); err != nil {
		return err
	}
	p.after.UpdatedAt = p.c.NextUpdateTime(p.before.UpdatedAt)
	return p.tx.UpdateIntegration(ctx, p.after)
}

func (p *plan) readRows(ctx context.Context) error {
	found, err := p.tx.IntegrationWorkspaces(ctx, p.before.ID)
	p.rows = make(map[string]store.IntegrationWorkspace, len(found))
	for _, w := range found {
		p.rows[w.Workspace] = w
	}
	return err
}

// setGlobal applies the requested global access to the integration.
func (p *plan) setGlobal() (err error) {
	in := p.in.Body.Global
	if in == nil {
		return nil
	}
	p.after.GlobalEnabled = in.Enabled
	p.after.GlobalUsageLimits, p.after.GlobalRateLimits, err = in.apply("global_workspace_access",
		p.before.GlobalUsageLimits, p.before.GlobalRateLimits, p.c)
	return err
}

// apply returns usage and rate limits with the requested changes.
func (in *Limits) apply(path string, usage, rate json.RawMessage, c *route.Caller) (json.RawMessage, json.RawMessage, error) {
	if in.UsageLimits.Set {
		old, err := limits.ReadUsages(usage)
		if err != nil {
			return nil, nil, err
		}
		list, err := limits.ApplyAll(path+".usage_limits", in.UsageLimits.Value, old, c.Now)
		if err != nil {
			return nil, nil, err
		}
		usage = list.JSON()
	}
	if in.RateLimits.Set {
		if err := in.RateLimits.Value.Check(path + ".rate_limits"); err != nil {
			return nil, nil, err
		}
		rate = in.RateLimits.Value.JSON()
	}
	return usage, rate, nil
}

// applyListed applies the requested settings of the listed workspaces.
func (p *plan) applyListed(ctx context.Context) error {
	p.listed = make(map[string]bool)
	for i := range p.in.Body.Workspaces.Value {
		in, path := &p.in.Body.Workspaces.Value[i], fmt.Sprintf("workspaces[%d]", i)
		w, err := p.workspace(ctx, path+".id", in.ID)
		if err != nil {
			return err
		}
		to, known := p.rows[w]
		if !known {
			to = p.likeAll(w)
		}
		to.Enabled = in.Enabled
		if to.UsageLimits, to.RateLimits, err = in.apply(path, to.UsageLimits, to.RateLimits, p.c); err != nil {
			return err
		}
		if in.Reset {
			if to.UsageLimits, err = reset(to.UsageLimits, p.c); err != nil {
				return err
			}
		}
		if in.Reset || in.UsageLimits.Set {
			to.Status = store.Active // the next request finds out whether it is still exhausted
		}
		if err := p.checkLimits(ctx, p.rows[w], to); err != nil {
			return err
		}
		field := path + ".default_provider_slug"
		if in.Slug == "" {
			field = "default_provider_slug"
		}
		if err := p.put(ctx, to, in.DefaultProvider, field); err != nil {
			return err
		}
	}
	return nil
}

// workspace returns the id of a listed workspace.
func (p *plan) workspace(ctx context.Context, field, ref string) (string, error) {
	w, err := p.tx.Workspace(ctx, p.before.Organisation, ref)
	if err != nil && !apierr.IsNotFound(err) {
		return "", err
	}
	if err != nil || w.Status != store.Active || p.before.Workspace != "" && p.before.Workspace != w.ID {
		return "", route.Missing(field, "workspace", ref)
	}
	if p.listed[w.ID] {
		return "", route.Invalid(field, "names a workspace that another entry already names")
	}
	p.listed[w.ID] = true
	return w.ID, nil
}

// checkLimits returns an error if the caller may not make a change of a workspace's
// limits, and otherwise records who made it.
func (p *plan) checkLimits(ctx context.Context, before, after store.IntegrationWorkspace) error {
	of, err := limits.Compare(store.GrantBudget, store.GrantID(after.Integration, after.Workspace), &before, &after, limitFields)
	if err != nil {
		return err
	}
	of.Workspace = p.before.Workspace
	return limits.Change(ctx, p.c, p.tx, of)
}

// limitFields returns the limits of a workspace for [limits.Change].
func limitFields(w *store.IntegrationWorkspace) (limits.Fields, error) {
	u, err := limits.Field(w.UsageLimits)
	return limits.Fields{"usage_limits": u, "rate_limits": limits.RateField(w.RateLimits)}, err
}

func reset(usage json.RawMessage, c *route.Caller) (json.RawMessage, error) {
	list, err := limits.ReadUsages(usage)
	for i := range list {
		list[i].Reset(c.Now)
	}
	return list.JSON(), err
}

// likeAll returns the access of a workspace without a setting of its own.
func (p *plan) likeAll(workspace string) store.IntegrationWorkspace {
	return store.IntegrationWorkspace{
		Integration: p.before.ID, Workspace: workspace, Enabled: p.after.GlobalEnabled,
		UsageLimits: p.after.GlobalUsageLimits, RateLimits: p.after.GlobalRateLimits, Status: store.Active,
	}
}

// applyGlobal applies the global access to the workspaces that are not listed: to those with a
// setting of their own if they must be reset, and to all others.
func (p *plan) applyGlobal(ctx context.Context) error {
	if p.before.Workspace != "" {
		return nil
	}
	all, err := p.tx.WorkspaceIDs(ctx, p.before.Organisation)
	if err != nil {
		return err
	}
	for _, w := range all {
		_, known := p.rows[w]
		fresh := !known && p.after.GlobalEnabled
		if p.listed[w] || !fresh && !(known && p.in.Body.Override) {
			continue
		}
		if err := p.put(ctx, p.likeAll(w), DefaultProvider{}, "default_provider_slug"); err != nil {
			return err
		}
	}
	return nil
}

func (p *plan) put(ctx context.Context, to store.IntegrationWorkspace, own DefaultProvider, field string) error {
	top := p.in.Body.DefaultProvider
	if own.Create == nil {
		own.Create = top.Create
	}
	if own.Slug == "" {
		own.Slug = top.Slug
	}
	return credentials.Grant{
		Integration: p.before, To: to, Default: own.Create == nil || *own.Create, Slug: own.Slug, Field: field,
	}.Apply(ctx, p.tx, p.c)
}
