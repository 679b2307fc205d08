package store

import (
	"context"
	"time"

	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// Disabled is the status of a tool server or its integration that requests do not find.
const Disabled = "disabled"

// ToolIntegration is the address of a tool server with its credentials, of an organisation or
// of one of its workspaces. Workspaces use it through a [ToolServer].
type ToolIntegration struct {
	ID           string
	Organisation string
	Workspace    string // id of its only workspace; empty for the organisation
	Slug         string // unique in the organisation, and never changed
	Name         string
	Description  string
	Transport    string
	URL          string // empty for stdio
	Command      string // of stdio: a name in the settings of the node
	Auth         string
	Settings     ToolSettings
	Sealed       string // [Secrets.Text], sealed for the organisation: headers and client_secret; empty for none

	// GlobalEnabled is the access of workspaces without a [ToolGrant].
	GlobalEnabled bool

	Status    string // Active or Disabled
	CreatedBy string
	CreatedAt time.Time
	UpdatedAt time.Time
}

// ClientSecret is the option of [Secrets] that has the secret of an OAuth client.
const ClientSecret = "client_secret"

// ToolSettings are the settings of an integration of a tool server, without secrets.
type ToolSettings struct {
	HeaderMasks map[string]string `json:"header_masks,omitempty"` // masks of the sealed headers, by name
	PassHeaders []string          `json:"passthrough_headers,omitempty"`
	OAuth       *ToolOAuth        `json:"oauth,omitempty"`
	CallTimeout int64             `json:"call_timeout,omitempty"` // in seconds; zero is the default
	IdleTimeout int64             `json:"idle_timeout,omitempty"` // in seconds; zero is the default
	Trust       bool              `json:"trust_annotations,omitempty"`
	Document    string            `json:"document,omitempty"`     // of openapi, as JSON
	DocumentURL string            `json:"document_url,omitempty"` // where Document was fetched; empty if it was pasted
	API         *ToolAPI          `json:"api,omitempty"`          // what Document says; nil for other transports
	SearchAbove int               `json:"search_above,omitempty"` // tools that are listed at most; zero lists all
	ToolRules
}

// ToolAPI is what the document of an API says of it.
type ToolAPI struct {
	Title   string   `json:"title,omitempty"`
	Version string   `json:"version,omitempty"`
	Tools   int      `json:"tools"`
	LeftOut []string `json:"left_out,omitempty"` // what has no tool, and why
}

// ToolRules are the rules of an integration or a server for what it offers. Those of both
// apply.
type ToolRules struct {
	Writes      string `json:"writes,omitempty"` // allow, ask or deny; empty allows
	Destroys    string `json:"destroys,omitempty"`
	HoldChanged bool   `json:"hold_changed,omitempty"`
}

// ToolOAuth are the settings of an OAuth client, without its secret.
type ToolOAuth struct {
	ClientID     string   `json:"client_id,omitempty"`
	SecretMask   string   `json:"secret_mask,omitempty"` // empty for no secret
	Scopes       []string `json:"scopes,omitempty"`
	TokenURL     string   `json:"token_url,omitempty"` // empty if metadata of the server name it
	AuthorizeURL string   `json:"authorization_url,omitempty"`
}

var toolIntegrationTable = table[ToolIntegration]{
	name: "mcp_integrations", row: "MCP integration", order: "id DESC",
	fixed: "id organisation_id workspace_id slug created_by created_at",
	columns: func(i *ToolIntegration) []column {
		return []column{
			{"id", &i.ID}, {"organisation_id", &i.Organisation}, {"workspace_id", &i.Workspace}, {"slug", &i.Slug}, {"name", &i.Name},
			{"description", &i.Description}, {"transport", &i.Transport}, {"url", &i.URL}, {"command", &i.Command}, {"auth_type", &i.Auth},
			{"configurations", object(&i.Settings)}, {"sealed", &i.Sealed}, {"global_enabled", &i.GlobalEnabled}, {"status", &i.Status},
			{"created_by", &i.CreatedBy}, {"created_at", &i.CreatedAt}, {"updated_at", &i.UpdatedAt},
		}
	},
}

// ToolIntegrationFilter filters integrations of tool servers of an organisation.
type ToolIntegrationFilter struct {
	Organisation string
	Agents       bool   // integrations of agents, and none of tool servers
	Shared       bool   // integrations of the organisation
	Own          bool   // integrations of workspaces
	Workspace    string // if not empty, only those that this workspace has
	Search       string // substring of the name or slug, case-sensitive
}

// toolGranted is the condition that the workspace $4 has an integration of the organisation.
const toolGranted = `COALESCE((
				SELECT enabled
				FROM mcp_integration_workspaces
				WHERE integration_id = mcp_integrations.id AND workspace_id = $4), global_enabled)`

// ToolIntegrations returns a page of integrations, newest first, and the number of all.
func (q Queries) ToolIntegrations(ctx context.Context, f ToolIntegrationFilter, p Page) (list []ToolIntegration, total int, err error) {
	return toolIntegrationTable.page(ctx, q.Reader, p, `
		WHERE organisation_id = $1 AND ($2 AND workspace_id = '' AND ($4 = '' OR `+toolGranted+`)
				OR $3 AND workspace_id <> '' AND ($4 = '' OR workspace_id = $4))
			AND ($5 = '' OR REPLACE(name, $5, '') <> name OR REPLACE(slug, $5, '') <> slug) AND (transport = 'a2a') = $6`,
		f.Organisation, f.Shared, f.Own, f.Workspace, f.Search, f.Agents)
}

// ToolIntegration returns the integration of an organisation with this id or slug.
func (q Queries) ToolIntegration(ctx context.Context, organisation, ref string) (ToolIntegration, error) {
	return toolIntegrationTable.one(ctx, q.Reader, `
		WHERE organisation_id = $1 AND (id = $2 OR slug = $2)
		ORDER BY CASE WHEN id = $2 THEN 0 ELSE 1 END
		LIMIT 1`, organisation, ref)
}

// ActiveToolIntegrations returns the active integrations of tool servers of all
// organisations.
func (q Queries) ActiveToolIntegrations(ctx context.Context) ([]ToolIntegration, error) {
	return toolIntegrationTable.list(ctx, q.Reader, `
		WHERE status = 'active'
		ORDER BY id`)
}

// HasToolIntegration reports whether a workspace may use an integration of its organisation.
func (q Queries) HasToolIntegration(ctx context.Context, i ToolIntegration, workspace string) (bool, error) {
	const text = `
		SELECT COUNT(*)
		FROM mcp_integrations
		WHERE organisation_id = $1 AND id = $2 AND workspace_id IN ($3, $4) AND ` + toolGranted
	n, err := sqlrow.Count(ctx, q.Reader, text, i.Organisation, i.ID, "", workspace)
	return n > 0, err
}

// CountToolIntegrations returns the number of integrations of tool servers of an organisation.
func (q Queries) CountToolIntegrations(ctx context.Context, organisation string) (int, error) {
	const text = `
		SELECT COUNT(*)
		FROM mcp_integrations
		WHERE organisation_id = $1`
	return sqlrow.Count(ctx, q.Reader, text, organisation)
}

// CreateToolIntegration stores i. A slug in use is a conflict.
func (tx *Tx) CreateToolIntegration(ctx context.Context, i ToolIntegration) error {
	return toolIntegrationTable.insert(ctx, tx, i)
}

// UpdateToolIntegration replaces the integration with i's id, except its workspace and slug. Its
// servers are read soon.
func (tx *Tx) UpdateToolIntegration(ctx context.Context, i ToolIntegration) error {
	const hasten = `
		UPDATE jobs
		SET next_at = $3
		WHERE kind = $1 AND state = 'queued' AND next_at > $3 AND subject_id IN (SELECT id FROM mcp_servers WHERE integration_id = $2)`
	if err := toolIntegrationTable.update(ctx, tx, i); err != nil {
		return err
	}
	return tx.exec(ctx, journal.Unpublished, "jobs", hasten, JobToolSync, i.ID, millis(i.UpdatedAt))
}

// DeleteToolIntegration deletes an integration with the servers made from it.
func (tx *Tx) DeleteToolIntegration(ctx context.Context, id string) error {
	const grants = `
		DELETE FROM mcp_integration_workspaces
		WHERE integration_id = $1`
	const text = `
		DELETE FROM mcp_integrations
		WHERE id = $1`
	servers, err := tx.ToolServersOf(ctx, id)
	if err != nil {
		return err
	}
	for _, s := range servers {
		if err := tx.DeleteToolServer(ctx, s.ID); err != nil {
			return err
		}
	}
	if err := tx.exec(ctx, journal.ToolGrants, "workspaces of an MCP integration", grants, id); err != nil {
		return err
	}
	if err := tx.deleteToolOwner(ctx, id); err != nil {
		return err
	}
	return tx.write(ctx, journal.ToolIntegrations, "MCP integration", text, id)
}

// deleteWorkspaceTools deletes the integrations of tool servers that a workspace owns and the
// credentials of users for its other servers, because it is archived.
func (tx *Tx) deleteWorkspaceTools(ctx context.Context, workspace string) error {
	const connections = `
		WHERE server_id IN (SELECT id FROM mcp_servers WHERE workspace_id = $1)`
	list, err := toolIntegrationTable.list(ctx, tx.Reader, `
		WHERE workspace_id = $1`, workspace)
	if err != nil {
		return err
	}
	for _, i := range list {
		if err := tx.DeleteToolIntegration(ctx, i.ID); err != nil {
			return err
		}
	}
	return tx.deleteConnections(ctx, connections, workspace)
}

// ToolGrant is the access of a workspace to an integration of tool servers.
type ToolGrant struct {
	Integration string // id
	Workspace   string // id
	Enabled     bool
}

var toolGrantTable = table[ToolGrant]{
	name: "mcp_integration_workspaces", row: "workspace of an MCP integration", fixed: "integration_id workspace_id",
	columns: func(g *ToolGrant) []column {
		return []column{{"integration_id", &g.Integration}, {"workspace_id", &g.Workspace}, {"enabled", &g.Enabled}}
	},
}

// ToolGrants returns the access of active workspaces to an integration, oldest workspace first.
func (q Queries) ToolGrants(ctx context.Context, integration string) ([]ToolGrant, error) {
	return toolGrantTable.list(ctx, q.Reader, `
		WHERE integration_id = $1 AND workspace_id IN (SELECT id FROM workspaces WHERE status = 'active')
		ORDER BY workspace_id`, integration)
}

// AllToolGrants returns the access of workspaces to all integrations of tool servers.
func (q Queries) AllToolGrants(ctx context.Context) ([]ToolGrant, error) {
	return toolGrantTable.list(ctx, q.Reader, `
		ORDER BY integration_id, workspace_id`)
}

// PutToolGrant stores g, replacing the previous row.
func (tx *Tx) PutToolGrant(ctx context.Context, g ToolGrant) error {
	return toolGrantTable.put(ctx, tx, g)
}

// DeleteToolGrants deletes the access of all workspaces, to which [ToolIntegration.GlobalEnabled]
// then applies.
func (tx *Tx) DeleteToolGrants(ctx context.Context, integration string) error {
	const text = `
		DELETE FROM mcp_integration_workspaces
		WHERE integration_id = $1`
	return tx.exec(ctx, journal.ToolGrants, "workspaces of an MCP integration", text, integration)
}
