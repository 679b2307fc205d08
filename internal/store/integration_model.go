package store

import (
	"context"
	"encoding/json"
)

// IntegrationModel is what an integration says of one model.
type IntegrationModel struct {
	Integration string // id
	Slug        string // the model's name as requests have it
	Name        string
	Enabled     bool
	IsCustom    bool // the provider's catalogue does not have it
	IsFinetune  bool
	BaseModel   string          // slug of the model it was made of; empty for none
	Pricing     json.RawMessage // object or null, instead of the catalogue's price

	// Configuration has an address of its own and masks of the headers that
	// Sealed, once opened, has: see [Secrets.Headers].
	Configuration IntegrationSettings
	Sealed        string
}

const modelColumns = `integration_id, slug, name, enabled, is_custom, is_finetune, base_model_slug, pricing, configurations, sealed`

func scanIntegrationModel(r row) (m IntegrationModel, err error) {
	err = r.Scan(&m.Integration, &m.Slug, &m.Name, &m.Enabled, &m.IsCustom, &m.IsFinetune, &m.BaseModel,
		jsonText{&m.Pricing}, jsonText{&m.Configuration}, &m.Sealed)
	return m, err
}

// IntegrationModels returns what an integration says of models, by slug.
func (q Queries) IntegrationModels(ctx context.Context, integration string) ([]IntegrationModel, error) {
	const text = `
		SELECT ` + modelColumns + `
		FROM integration_models
		WHERE integration_id = $1
		ORDER BY slug`
	return rows(ctx, q.q, "models", text, scanIntegrationModel, integration)
}

// PutIntegrationModel stores m, instead of what was said of the model before.
func (q Queries) PutIntegrationModel(ctx context.Context, m IntegrationModel) error {
	const insert = `
		INSERT INTO integration_models (` + modelColumns + `)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
		ON CONFLICT (integration_id, slug) DO UPDATE
		SET name = excluded.name, enabled = excluded.enabled, is_custom = excluded.is_custom, is_finetune = excluded.is_finetune,
			base_model_slug = excluded.base_model_slug, pricing = excluded.pricing, configurations = excluded.configurations,
			sealed = excluded.sealed`
	return write(ctx, q.q, "model", insert, m.Integration, m.Slug, m.Name, m.Enabled, m.IsCustom, m.IsFinetune, m.BaseModel,
		orEmpty(m.Pricing, "null"), text(m.Configuration), m.Sealed)
}

// DeleteCustomModel forgets a model that was added by hand. Any other stays.
func (q Queries) DeleteCustomModel(ctx context.Context, integration, slug string) error {
	const text = `
		DELETE FROM integration_models
		WHERE integration_id = $1 AND slug = $2 AND is_custom`
	return exec(ctx, q.q, "models", text, integration, slug)
}

// IntegrationWorkspace is whether and how far a workspace may use an integration.
type IntegrationWorkspace struct {
	Integration string // id
	Workspace   string // id
	Enabled     bool
	UsageLimits json.RawMessage // array
	RateLimits  json.RawMessage // array
	Status      string          // Active or Exhausted
}

const grantColumns = `integration_id, workspace_id, enabled, usage_limits, rate_limits, status`

func scanIntegrationWorkspace(r row) (w IntegrationWorkspace, err error) {
	err = r.Scan(&w.Integration, &w.Workspace, &w.Enabled, jsonText{&w.UsageLimits}, jsonText{&w.RateLimits}, &w.Status)
	return w, err
}

// IntegrationWorkspaces returns what was said of active workspaces, the oldest
// first.
func (q Queries) IntegrationWorkspaces(ctx context.Context, integration string) ([]IntegrationWorkspace, error) {
	const text = `
		SELECT ` + grantColumns + `
		FROM integration_workspaces
		WHERE integration_id = $1 AND workspace_id IN (
			SELECT id
			FROM workspaces
			WHERE status = 'active')
		ORDER BY workspace_id`
	return rows(ctx, q.q, "workspaces of an integration", text, scanIntegrationWorkspace, integration)
}

// PutIntegrationWorkspace stores w, instead of what was said before.
func (q Queries) PutIntegrationWorkspace(ctx context.Context, w IntegrationWorkspace) error {
	const insert = `
		INSERT INTO integration_workspaces (` + grantColumns + `)
		VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (integration_id, workspace_id) DO UPDATE
		SET enabled = excluded.enabled, usage_limits = excluded.usage_limits, rate_limits = excluded.rate_limits, status = excluded.status`
	return write(ctx, q.q, "workspace of an integration", insert, w.Integration, w.Workspace, w.Enabled,
		orEmpty(w.UsageLimits, "[]"), orEmpty(w.RateLimits, "[]"), w.Status)
}

// HasIntegration reports whether a workspace may use an active integration of
// its organisation: what its row in integration_workspaces says, or else whether
// all workspaces get it.
func (q Queries) HasIntegration(ctx context.Context, i Integration, workspace string) (bool, error) {
	const text = `
		SELECT COUNT(*)
		FROM integrations
		WHERE organisation_id = $1 AND id = $2 AND status = 'active' AND workspace_id IN ($3, $4) AND ` + granted
	n, err := count(ctx, q.q, text, i.Organisation, i.ID, "", workspace)
	return n > 0, err
}

// IntegrationReach returns how many active workspaces may use an integration.
func (q Queries) IntegrationReach(ctx context.Context, i Integration) (int, error) {
	const text = `
		SELECT COUNT(*)
		FROM workspaces
		WHERE organisation_id = $1 AND status = 'active' AND ($2 = '' OR id = $2) AND COALESCE((
			SELECT enabled
			FROM integration_workspaces
			WHERE integration_id = $3 AND workspace_id = workspaces.id), $4)`
	return count(ctx, q.q, text, i.Organisation, i.Workspace, i.ID, i.GlobalEnabled)
}

// WorkspaceIDs returns the active workspaces of an organisation, the oldest first.
func (q Queries) WorkspaceIDs(ctx context.Context, organisation string) ([]string, error) {
	const text = `
		SELECT id
		FROM workspaces
		WHERE organisation_id = $1 AND status = 'active'
		ORDER BY id`
	return rows(ctx, q.q, "workspaces", text, scanID, organisation)
}

func scanID(r row) (id string, err error) {
	err = r.Scan(&id)
	return id, err
}

// PublishedModel is what an integration says of one model.
type PublishedModel struct {
	Slug       string
	Enabled    bool
	BaseModel  string          // it was made of; empty for none
	Pricing    json.RawMessage // instead of the catalogue's price
	CustomHost string
	Sealed     string // [Secrets.Text] with headers alone, sealed for the organisation; empty for none
}

// publishedModels returns what integrations say of models, by integration.
func (q Queries) publishedModels(ctx context.Context) (map[string][]PublishedModel, error) {
	const text = `
		SELECT integration_id, slug, enabled, base_model_slug, pricing, configurations, sealed
		FROM integration_models
		ORDER BY integration_id, slug`
	models := make(map[string][]PublishedModel)
	_, err := rows(ctx, q.q, "models", text, func(r row) (none struct{}, err error) {
		var integration string
		var m PublishedModel
		var c IntegrationSettings
		err = r.Scan(&integration, &m.Slug, &m.Enabled, &m.BaseModel, jsonText{&m.Pricing}, jsonText{&c}, &m.Sealed)
		m.CustomHost = c.CustomHost
		models[integration] = append(models[integration], m)
		return none, err
	})
	return models, err
}
