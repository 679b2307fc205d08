package store

import (
	"context"
	"encoding/json"
	"time"

	"modelgate/internal/storage/journal"
)

// Integration holds credentials for a provider, for the organisation or one of its
// workspaces. Workspaces use it through a [Provider].
//
// At run time, Provider names the provider definition, opening Sealed gives [Secrets],
// Configuration has the other settings, and [IntegrationSettings.TargetOptions]
// combines them. A workspace for which [Queries.HasIntegration] reports true may use
// any model if AllowAllModels is set, otherwise the models enabled by an
// [IntegrationModel].
type Integration struct {
	ID           string
	Organisation string
	Workspace    string // id of its only workspace; empty for the organisation
	Slug         string // unique among the organisation's active ones
	Name         string
	Description  string
	Provider     string // id of a provider definition
	Sealed       string // [Secrets.Text], sealed for the organisation; empty for none

	Configuration  IntegrationSettings
	SecretMappings json.RawMessage // array: fields filled from secret references at run time
	Pricing        json.RawMessage // object or null: adjustments of the catalogue's prices
	Tags           map[string]string
	AllowAllModels bool

	// Access of workspaces without a row of their own in integration_workspaces.
	GlobalEnabled     bool
	GlobalUsageLimits json.RawMessage // array
	GlobalRateLimits  json.RawMessage // array

	// Implicit integrations belong to one virtual key and are archived with it.
	Implicit  bool
	Status    string // Active or Archived
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Mappings returns the fields of i that are filled from secret references.
func (i Integration) Mappings() (list []SecretMapping, err error) {
	if len(i.SecretMappings) > 0 {
		err = json.Unmarshal(i.SecretMappings, &list)
	}
	return list, err
}

var integrationTable = table[Integration]{
	name: "integrations", row: "integration", order: "id DESC", fixed: "id", live: "status = 'active'",
	columns: func(i *Integration) []column {
		return []column{
			{"id", &i.ID}, {"organisation_id", &i.Organisation}, {"workspace_id", &i.Workspace}, {"slug", &i.Slug}, {"name", &i.Name},
			{"description", &i.Description}, {"provider", &i.Provider}, {"sealed", &i.Sealed}, {"configurations", object(&i.Configuration)},
			{"secret_mappings", array(&i.SecretMappings)}, {"pricing", nullable(&i.Pricing)}, {"tags", object(&i.Tags)},
			{"allow_all_models", &i.AllowAllModels}, {"global_enabled", &i.GlobalEnabled}, {"global_usage_limits", array(&i.GlobalUsageLimits)},
			{"global_rate_limits", array(&i.GlobalRateLimits)}, {"implicit", &i.Implicit}, {"status", &i.Status},
			{"created_at", &i.CreatedAt}, {"updated_at", &i.UpdatedAt},
		}
	},
}

// IntegrationFilter filters active integrations of an organisation.
type IntegrationFilter struct {
	Organisation string
	Shared       bool // integrations of the organisation
	Own          bool // integrations of workspaces

	// Workspace, if not empty, restricts the result to integrations that it has: its
	// own, and those of the organisation that were granted to it.
	Workspace string

	Tags map[string]string // all must match
}

// Integrations returns a page of integrations, newest first, and the number of all.
func (q Queries) Integrations(ctx context.Context, f IntegrationFilter, p Page) (list []Integration, total int, err error) {
	where := `
		WHERE organisation_id = $1 AND ` + p.state(`status = 'active'`) + `
			AND ($2 AND workspace_id = '' AND ($4 = '' OR ` + granted + `)
				OR $3 AND workspace_id <> '' AND ($4 = '' OR workspace_id = $4))`
	args := []any{f.Organisation, f.Shared, f.Own, f.Workspace}
	if len(f.Tags) == 0 {
		return integrationTable.page(ctx, q.Reader, p, where, args...)
	}
	where, args = p.named(where, args)
	list, err = integrationTable.list(ctx, q.Reader, where+` ORDER BY id DESC`, args...)
	list, total = withTags(list, func(i Integration) map[string]string { return i.Tags }, f.Tags, p)
	return list, total, err
}

// granted is the condition that the workspace $4 has an integration of the
// organisation.
const granted = `COALESCE((
				SELECT enabled
				FROM integration_workspaces
				WHERE integration_id = integrations.id AND workspace_id = $4), global_enabled)`

// Integration returns the active integration of an organisation with this id or
// slug.
func (q Queries) Integration(ctx context.Context, organisation, ref string) (Integration, error) {
	return integrationTable.one(ctx, q.Reader, `
		WHERE organisation_id = $1 AND (id = $2 OR slug = $2) AND status = 'active'
		ORDER BY CASE WHEN id = $2 THEN 0 ELSE 1 END
		LIMIT 1`, organisation, ref)
}

// GlobalIntegrations returns the integrations that every new workspace of an
// organisation gets, oldest first.
func (q Queries) GlobalIntegrations(ctx context.Context, organisation string) ([]Integration, error) {
	return integrationTable.list(ctx, q.Reader, `
		WHERE organisation_id = $1 AND workspace_id = '' AND global_enabled AND status = 'active'
		ORDER BY id`, organisation)
}

// UsedIntegrations returns the integrations, including archived ones, of all providers
// that are not archived.
func (q Queries) UsedIntegrations(ctx context.Context) ([]Integration, error) {
	return integrationTable.list(ctx, q.Reader, `
		WHERE id IN (SELECT integration_id FROM providers WHERE status <> 'archived')
		ORDER BY id`)
}

// CreateIntegration stores i.
func (tx *Tx) CreateIntegration(ctx context.Context, i Integration) error {
	return integrationTable.insert(ctx, tx, i)
}

// UpdateIntegration replaces the active integration with i's id.
func (tx *Tx) UpdateIntegration(ctx context.Context, i Integration) error {
	return integrationTable.update(ctx, tx, i)
}

// ArchiveIntegration archives an integration and its providers, and deletes its
// secrets. It cannot be restored.
func (tx *Tx) ArchiveIntegration(ctx context.Context, id string, now time.Time) error {
	const text = `
		UPDATE integrations
		SET status = 'archived', sealed = '', updated_at = $2
		WHERE id = $1 AND status = 'active'`
	const models = `
		UPDATE integration_models
		SET sealed = ''
		WHERE integration_id = $1`
	const providers = `
		UPDATE providers
		SET status = 'archived', updated_at = $2
		WHERE integration_id = $1 AND status <> 'archived'`
	if err := tx.write(ctx, journal.Integrations, "integration", text, id, millis(now)); err != nil {
		return err
	}
	if err := tx.exec(ctx, journal.IntegrationModels, "models", models, id); err != nil {
		return err
	}
	return tx.exec(ctx, journal.Providers, "providers", providers, id, millis(now))
}

// ArchiveWorkspaceIntegrations archives the integrations of a workspace and all of its
// providers, and deletes its credentials of partners. It is called when the workspace is
// archived.
func (tx *Tx) ArchiveWorkspaceIntegrations(ctx context.Context, workspace string, now time.Time) error {
	const providers = `
		UPDATE providers
		SET status = 'archived', updated_at = $2
		WHERE workspace_id = $1 AND status <> 'archived'`
	list, err := integrationTable.list(ctx, tx.Reader, `
		WHERE workspace_id = $1 AND status = 'active'`, workspace)
	if err != nil {
		return err
	}
	for _, i := range list {
		if err := tx.ArchiveIntegration(ctx, i.ID, now); err != nil {
			return err
		}
	}
	if err := tx.deleteWorkspaceTools(ctx, workspace); err != nil {
		return err
	}
	const partners = `
		DELETE FROM guardrail_credentials
		WHERE workspace_id = $1`
	if err := tx.exec(ctx, journal.GuardrailCredentials, "guardrail credentials", partners, workspace); err != nil {
		return err
	}
	return tx.exec(ctx, journal.Providers, "providers", providers, workspace, millis(now))
}
