package store

import (
	"context"
	"encoding/json"

	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// IntegrationModel is the configuration of a model in an integration.
type IntegrationModel struct {
	Integration string // id
	Slug        string // name of the model in requests
	Name        string
	Enabled     bool
	IsCustom    bool // not in the provider's catalogue
	IsFinetune  bool
	BaseModel   string          // slug of the model it derives from; empty for none
	Pricing     json.RawMessage // object or null; overrides the catalogue's price

	// Configuration has the model's own address and masks of the headers in Sealed; see
	// [Secrets.Headers].
	Configuration IntegrationSettings
	Sealed        string
}

var modelTable = table[IntegrationModel]{
	name: "integration_models", row: "model", fixed: "integration_id slug",
	columns: func(m *IntegrationModel) []column {
		return []column{
			{"integration_id", &m.Integration}, {"slug", &m.Slug}, {"name", &m.Name}, {"enabled", &m.Enabled}, {"is_custom", &m.IsCustom},
			{"is_finetune", &m.IsFinetune}, {"base_model_slug", &m.BaseModel}, {"pricing", nullable(&m.Pricing)},
			{"configurations", object(&m.Configuration)}, {"sealed", &m.Sealed},
		}
	},
}

// IntegrationModels returns the configured models of an integration, sorted by slug.
func (q Queries) IntegrationModels(ctx context.Context, integration string) ([]IntegrationModel, error) {
	return modelTable.list(ctx, q.Reader, `
		WHERE integration_id = $1
		ORDER BY slug`, integration)
}

// UsedIntegrationModels returns the configured models of [Queries.UsedIntegrations],
// sorted by slug.
func (q Queries) UsedIntegrationModels(ctx context.Context) ([]IntegrationModel, error) {
	return modelTable.list(ctx, q.Reader, `
		WHERE integration_id IN (SELECT integration_id FROM providers WHERE status <> 'archived')
		ORDER BY integration_id, slug`)
}

// PutIntegrationModel stores m, replacing the previous row of the model.
func (tx *Tx) PutIntegrationModel(ctx context.Context, m IntegrationModel) error {
	return modelTable.put(ctx, tx, m)
}

// DeleteCustomModel deletes a custom model. Any other model stays.
func (tx *Tx) DeleteCustomModel(ctx context.Context, integration, slug string) error {
	const text = `
		DELETE FROM integration_models
		WHERE integration_id = $1 AND slug = $2 AND is_custom`
	return tx.exec(ctx, journal.IntegrationModels, "models", text, integration, slug)
}

// IntegrationWorkspace is the access of a workspace to an integration, with its limits.
type IntegrationWorkspace struct {
	Integration string // id
	Workspace   string // id
	Enabled     bool
	UsageLimits json.RawMessage // array
	RateLimits  json.RawMessage // array
	Status      string          // Active or Exhausted
}

var grantTable = table[IntegrationWorkspace]{
	name: "integration_workspaces", row: "grant", fixed: "integration_id workspace_id",
	columns: func(w *IntegrationWorkspace) []column {
		return []column{
			{"integration_id", &w.Integration}, {"workspace_id", &w.Workspace}, {"enabled", &w.Enabled},
			{"usage_limits", array(&w.UsageLimits)}, {"rate_limits", array(&w.RateLimits)}, {"status", &w.Status},
		}
	},
}

// IntegrationWorkspaces returns the grants of active workspaces, oldest first.
func (q Queries) IntegrationWorkspaces(ctx context.Context, integration string) ([]IntegrationWorkspace, error) {
	return grantTable.list(ctx, q.Reader, `
		WHERE integration_id = $1 AND workspace_id IN (SELECT id FROM workspaces WHERE status = 'active')
		ORDER BY workspace_id`, integration)
}

// UsedIntegrationWorkspaces returns the grants of [Queries.UsedIntegrations].
func (q Queries) UsedIntegrationWorkspaces(ctx context.Context) ([]IntegrationWorkspace, error) {
	return grantTable.list(ctx, q.Reader, `
		WHERE integration_id IN (SELECT integration_id FROM providers WHERE status <> 'archived')
		ORDER BY integration_id, workspace_id`)
}

// PutIntegrationWorkspace stores w, replacing the previous row.
func (tx *Tx) PutIntegrationWorkspace(ctx context.Context, w IntegrationWorkspace) error {
	return grantTable.put(ctx, tx, w)
}

// HasIntegration reports whether a workspace may use an active integration of its
// organisation, by its row in integration_workspaces or, without one, by the global
// access.
func (q Queries) HasIntegration(ctx context.Context, i Integration, workspace string) (bool, error) {
	const text = `
		SELECT COUNT(*)
		FROM integrations
		WHERE organisation_id = $1 AND id = $2 AND status = 'active' AND workspace_id IN ($3, $4) AND ` + granted
	n, err := sqlrow.Count(ctx, q.Reader, text, i.Organisation, i.ID, "", workspace)
	return n > 0, err
}

// IntegrationReach returns the number of active workspaces that may use an integration.
func (q Queries) IntegrationReach(ctx context.Context, i Integration) (int, error) {
	const text = `
		SELECT COUNT(*)
		FROM workspaces
		WHERE organisation_id = $1 AND status = 'active' AND ($2 = '' OR id = $2) AND COALESCE((
			SELECT enabled
			FROM integration_workspaces
			WHERE integration_id = $3 AND workspace_id = workspaces.id), $4)`
	return sqlrow.Count(ctx, q.Reader, text, i.Organisation, i.Workspace, i.ID, i.GlobalEnabled)
}

// WorkspaceIDs returns the ids of an organisation's active workspaces, oldest first.
func (q Queries) WorkspaceIDs(ctx context.Context, organisation string) ([]string, error) {
	const text = `
		SELECT id
		FROM workspaces
		WHERE organisation_id = $1 AND status = 'active'
		ORDER BY id`
	return sqlrow.List(ctx, q.Reader, "workspaces", text, scanID, organisation)
}

func scanID(r sqlrow.Scanner) (id string, err error) {
	err = r.Scan(&id)
	return id, err
}
