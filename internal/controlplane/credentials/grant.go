package credentials

import (
	"context"

	"modelgate/internal/controlplane/budgets"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

// GrantNote is the note of providers that were created by a grant, not requested by
// name.
const GrantNote = "Created automatically when the workspace was given the integration."

// Grant describes the access of a workspace to an integration after a change.
type Grant struct {
	Integration store.Integration // before the change
	To          store.IntegrationWorkspace

	// Default creates a provider in the workspace if it did not have the integration
	// and has no provider of it. Slug is the provider's slug; if empty, it is the
	// integration's slug with a suffix if necessary.
	Default bool
	Slug    string
	Field   string // name of Slug in the request, for errors

	fresh bool // the workspace is new and has not received the organisation-wide grants yet
}

// Apply stores the grant in the current transaction. It is idempotent.
func (g Grant) Apply(ctx context.Context, tx *store.Tx, c *route.Caller) error {
	had, err := tx.HasIntegration(ctx, g.Integration, g.To.Workspace)
	if err != nil {
		return err
	}
	had = had && !g.fresh
	if err := tx.PutIntegrationWorkspace(ctx, g.To); err != nil {
		return err
	}
	err = budgets.Refresh(ctx, tx, store.GrantBudget, store.GrantID(g.To.Integration, g.To.Workspace))
	if err != nil || had || !g.To.Enabled || !g.Default {
		return err
	}
	n, err := tx.ProvidersOf(ctx, g.Integration.ID, g.To.Workspace)
	if err != nil || n > 0 {
		return err
	}
	slug, err := g.slug(ctx, tx, c)
	if err != nil {
		return err
	}
	return tx.CreateProvider(ctx, store.Provider{
		ID: c.NewID(), Organisation: g.Integration.Organisation, Workspace: g.To.Workspace, Integration: g.Integration.ID,
		Slug: slug, Name: g.Integration.Name, Note: GrantNote, Tags: g.Integration.Tags, MadeByGrant: true,
		Status: store.Active, CreatedAt: c.Now, UpdatedAt: c.Now,
	})
}

func (g Grant) slug(ctx context.Context, tx *store.Tx, c *route.Caller) (string, error) {
	slug := g.Slug
	if slug == "" {
		slug = g.Integration.Slug
	}
	taken, err := tx.ProviderSlugTaken(ctx, g.To.Workspace, slug)
	_, owned := route.FindDeclared(c.Files().Providers, g.To.Workspace, slug,
		func(p store.Provider) (string, string, string) { return p.ID, p.Workspace, p.Slug })
	if err != nil || !taken && !owned {
		return slug, err
	}
	if g.Slug != "" {
		return "", route.Invalid(g.Field, "is already the slug of another provider of the workspace")
	}
	return route.NewSlug(slug[:min(len(slug), 248)], ""), nil
}

// GrantDefaults grants a new workspace the integrations that every workspace of its
// organisation has, with a provider for each.
func GrantDefaults(ctx context.Context, tx *store.Tx, c *route.Caller, w store.Workspace) error {
	list, err := tx.GlobalIntegrations(ctx, w.Organisation)
	if err != nil {
		return err
	}
	for _, i := range list {
		to := store.IntegrationWorkspace{
			Integration: i.ID, Workspace: w.ID, Enabled: true, UsageLimits: i.GlobalUsageLimits,
			RateLimits: i.GlobalRateLimits, Status: store.Active,
		}
		if err := (Grant{Integration: i, To: to, Default: true, fresh: true}).Apply(ctx, tx, c); err != nil {
			return err
		}
	}
	return nil
}
