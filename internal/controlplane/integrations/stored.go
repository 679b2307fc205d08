package integrations

import (
	"context"

	"modelgate/internal/controlplane/credentials"
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

// Grant is the access of a workspace in a request or a file. A file creates providers itself.
type Grant = workspaceInput

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
		m := modelChange{before: *was, after: i, put: e.Models, removed: e.Removed, remove: tx.DeleteIntegrationModel}
		if err := m.store(ctx, c, tx); err != nil {
			return err
		}
		return e.putGrants(ctx, c, tx)
	})
}

// putGrants gives the integration to the workspaces that have it, and takes it from others.
func (e *Entry) putGrants(ctx context.Context, c *route.Caller, tx *store.Tx) error {
	no, in := false, new(workspacesInput)
	in.Body.Workspaces, in.Body.Create = route.Set(e.Grants), &no
	i := e.Integration
	i.Workspace = "" // in a file, other workspaces may have it too
	p := plan{tx: tx, c: c, in: in, before: i, after: i}
	if err := p.readRows(ctx); err != nil {
		return err
	}
	if err := p.applyListed(ctx); err != nil {
		return err
	}
	for workspace := range p.rows {
		if p.listed[workspace] {
			continue
		}
		if err := tx.DeleteIntegrationWorkspace(ctx, e.Integration.ID, workspace); err != nil {
			return err
		}
	}
	return nil
}
