package integrations

import (
	"cmp"
	"context"
	"fmt"

	"modelgate/internal/controlplane/budgets"
	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

// Entry is what a file says about an integration.
type Entry struct {
	Integration store.Integration
	Global      Limits                   // of workspaces without a setting of their own
	Models      []store.IntegrationModel // that are added or changed
	Removed     []string                 // slugs of models
	Grants      []Grant                  // of all workspaces that have the integration
}

// Grant is the access of a workspace that a file describes.
type Grant struct {
	Workspace string // id
	Enabled   bool
	Limits    Limits
}

// Put stores the integration that a file describes instead of before; nil is a new one.
func Put(ctx context.Context, c *route.Caller, before *store.Integration, e *Entry) (err error) {
	i := e.Integration
	if err := credentials.Tags(i.Tags).Check("tags"); err != nil {
		return err
	}
	if i.Pricing, err = pricing("pricing_adjustments", route.JSON(i.Pricing)); err != nil {
		return err
	}
	i.GlobalUsageLimits, i.GlobalRateLimits, err = e.Global.apply("global", i.GlobalUsageLimits, i.GlobalRateLimits, c)
	if err != nil {
		return err
	}
	return c.Change(ctx, func(tx *store.Tx) error {
		if err := credentials.CheckMappings(ctx, tx.Queries, &i); err != nil {
			return err
		}
		write, was := tx.UpdateIntegration, before
		if i.UpdatedAt = c.NextUpdateTime(i.UpdatedAt); before == nil {
			write, was = tx.CreateIntegration, &store.Integration{ID: i.ID, Workspace: i.Workspace, AllowAllModels: true}
			i.Status, i.CreatedAt = store.Active, c.Now
		}
		if err := write(ctx, i); err != nil {
			return err
		}
		if err := e.putModels(ctx, c, tx, was); err != nil {
			return err
		}
		return e.putGrants(ctx, c, tx)
	})
}

// putModels stores the models of the integration, which was before.
func (e *Entry) putModels(ctx context.Context, c *route.Caller, tx *store.Tx, before *store.Integration) error {
	models, err := modelsOf(ctx, tx.Queries, e.Integration.ID)
	if err != nil {
		return err
	}
	of := modelLimit(*before, models)
	for _, m := range e.Models {
		if err := tx.PutIntegrationModel(ctx, m); err != nil {
			return err
		}
		models[m.Slug] = m
	}
	for _, slug := range e.Removed {
		if err := tx.DeleteIntegrationModel(ctx, e.Integration.ID, slug); err != nil {
			return err
		}
		delete(models, slug)
	}
	of.After = allowed(e.Integration.AllowAllModels, models)
	return limits.Change(ctx, c, tx, of)
}

// putGrants gives the integration to the workspaces that have it, and takes it from others.
func (e *Entry) putGrants(ctx context.Context, c *route.Caller, tx *store.Tx) error {
	list, err := tx.IntegrationWorkspaces(ctx, e.Integration.ID)
	if err != nil {
		return err
	}
	before := make(map[string]store.IntegrationWorkspace, len(list))
	for _, g := range list {
		before[g.Workspace] = g
	}
	for n, g := range e.Grants {
		if err := e.putGrant(ctx, c, tx, n, before[g.Workspace]); err != nil {
			return err
		}
		delete(before, g.Workspace)
	}
	for workspace := range before {
		if err := tx.DeleteIntegrationWorkspace(ctx, e.Integration.ID, workspace); err != nil {
			return err
		}
	}
	return nil
}

// putGrant stores the nth grant instead of before, the zero value for a new one.
func (e *Entry) putGrant(ctx context.Context, c *route.Caller, tx *store.Tx, n int, before store.IntegrationWorkspace) (err error) {
	g, after := &e.Grants[n], before
	after.Integration, after.Workspace, after.Enabled = e.Integration.ID, g.Workspace, g.Enabled
	after.Status = cmp.Or(after.Status, store.Active)
	after.UsageLimits, after.RateLimits, err = g.Limits.apply(fmt.Sprintf("workspaces[%d]", n), before.UsageLimits, before.RateLimits, c)
	if err != nil {
		return err
	}
	if err := tx.PutIntegrationWorkspace(ctx, after); err != nil {
		return err
	}
	of, err := compareLimits(&before, &after)
	if err != nil {
		return err
	}
	if err := limits.Change(ctx, c, tx, of); err != nil {
		return err
	}
	return budgets.Refresh(ctx, tx, of.Kind, of.ID)
}
