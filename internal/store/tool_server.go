package store

import (
	"context"
	"time"

	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// ToolServer is a tool server of a workspace.
type ToolServer struct {
	ID            string
	Organisation  string
	Workspace     string // id
	Integration   string // id
	Slug          string // unique among the servers and bundles of the workspace, and never changed
	Name          string
	Description   string
	Rules         ToolRules
	Agent         bool   // it is an agent, and its integration has the transport a2a
	DefaultAccess string // AccessAllow or AccessDeny, for users without a [ToolUserAccess]
	Status        string // Active or Disabled
	CreatedBy     string
	CreatedAt     time.Time
	UpdatedAt     time.Time
}

// Access of users to a tool server.
const (
	AccessAllow = "allow"
	AccessDeny  = "deny"
)

var toolServerTable = table[ToolServer]{
	name: "mcp_servers", row: "MCP server", order: "id DESC", fixed: "id organisation_id workspace_id slug agent created_by created_at",
	columns: func(s *ToolServer) []column {
		return []column{
			{"id", &s.ID}, {"organisation_id", &s.Organisation}, {"workspace_id", &s.Workspace}, {"integration_id", &s.Integration},
			{"slug", &s.Slug}, {"name", &s.Name}, {"description", &s.Description}, {"rules", object(&s.Rules)},
			{"default_user_access", &s.DefaultAccess}, {"status", &s.Status}, {"created_by", &s.CreatedBy}, {"created_at", &s.CreatedAt},
			{"updated_at", &s.UpdatedAt}, {"agent", &s.Agent},
		}
	},
}

// ToolServerFilter filters tool servers, or agents, of an organisation. The zero value of
// another field filters nothing.
type ToolServerFilter struct {
	Organisation string
	Agents       bool // agents, and no tool servers
	Workspace    string
	IDs          []string // at most 100
	Search       string   // substring of the name or slug, case-sensitive
}

// ToolServers returns a page of tool servers, newest first, and the number of all.
func (q Queries) ToolServers(ctx context.Context, f ToolServerFilter, p Page) (list []ToolServer, total int, err error) {
	where, args := `
		WHERE organisation_id = $1 AND ($2 = '' OR workspace_id = $2)
			AND ($3 = '' OR REPLACE(name, $3, '') <> name OR REPLACE(slug, $3, '') <> slug) AND agent = $4`,
		[]any{f.Organisation, f.Workspace, f.Search, f.Agents}
	if len(f.IDs) > 0 {
		where += ` AND id IN ` + placeholders(len(args), len(f.IDs))
		args = append(args, toArgs(f.IDs)...)
	}
	return toolServerTable.page(ctx, q.Reader, p, where, args...)
}

// ToolServer returns the tool server with this id in an organisation, or in one of its
// workspaces, where ref may also be a slug. An empty workspace is all of them.
func (q Queries) ToolServer(ctx context.Context, organisation, workspace, ref string) (ToolServer, error) {
	return toolServerTable.one(ctx, q.Reader, `
		WHERE organisation_id = $1 AND ($2 = '' OR workspace_id = $2) AND (id = $3 OR $2 <> '' AND slug = $3)
		ORDER BY CASE WHEN id = $3 THEN 0 ELSE 1 END
		LIMIT 1`, organisation, workspace, ref)
}

// ToolServerByID returns a tool server of any organisation.
func (q Queries) ToolServerByID(ctx context.Context, id string) (ToolServer, error) {
	return toolServerTable.one(ctx, q.Reader, `
		WHERE id = $1`, id)
}

// ToolServersOf returns the tool servers made from an integration.
func (q Queries) ToolServersOf(ctx context.Context, integration string) ([]ToolServer, error) {
	return toolServerTable.list(ctx, q.Reader, `
		WHERE integration_id = $1
		ORDER BY id`, integration)
}

// ActiveToolServers returns the active tool servers of active workspaces of all organisations.
func (q Queries) ActiveToolServers(ctx context.Context) ([]ToolServer, error) {
	return toolServerTable.list(ctx, q.Reader, `
		WHERE status = 'active' AND workspace_id IN (SELECT id FROM workspaces WHERE status = 'active')
		ORDER BY workspace_id, slug`)
}

// CreateToolServer stores s. A slug in use by another server is a conflict.
func (tx *Tx) CreateToolServer(ctx context.Context, s ToolServer) error {
	return toolServerTable.insert(ctx, tx, s)
}

// UpdateToolServer replaces the tool server with s's id, except its workspace and slug.
func (tx *Tx) UpdateToolServer(ctx context.Context, s ToolServer) error {
	return toolServerTable.update(ctx, tx, s)
}

// DeleteToolServer deletes a tool server with what was read of it, the access of its users and
// their credentials.
func (tx *Tx) DeleteToolServer(ctx context.Context, id string) error {
	const access = `
		DELETE FROM mcp_user_access
		WHERE server_id = $1`
	const connections = `
		WHERE server_id = $1`
	const text = `
		DELETE FROM mcp_servers
		WHERE id = $1`
	if err := tx.exec(ctx, journal.ToolUserAccess, "access of users", access, id); err != nil {
		return err
	}
	if err := tx.deleteConnections(ctx, connections, id); err != nil {
		return err
	}
	if err := tx.deleteToolOwner(ctx, id); err != nil {
		return err
	}
	return tx.write(ctx, journal.ToolServers, "MCP server", text, id)
}

// ToolBundle is a named selection of what the tool servers of a workspace offer.
type ToolBundle struct {
	ID           string
	Organisation string
	Workspace    string // id
	Slug         string // unique among the servers and bundles of the workspace, and never changed
	Name         string
	Description  string
	Selection    []string // patterns of toolserver.Selection
	SearchAbove  int      // tools that are listed at most; zero lists all
	CreatedBy    string
	CreatedAt    time.Time
	UpdatedAt    time.Time
}

var toolBundleTable = table[ToolBundle]{
	name: "mcp_bundles", row: "MCP bundle", order: "id DESC", fixed: "id organisation_id workspace_id slug created_by created_at",
	columns: func(b *ToolBundle) []column {
		return []column{
			{"id", &b.ID}, {"organisation_id", &b.Organisation}, {"workspace_id", &b.Workspace}, {"slug", &b.Slug}, {"name", &b.Name},
			{"description", &b.Description}, {"selection", array(&b.Selection)}, {"created_by", &b.CreatedBy}, {"created_at", &b.CreatedAt},
			{"updated_at", &b.UpdatedAt}, {"search_above", &b.SearchAbove},
		}
	},
}

// ToolBundles returns a page of the bundles of an organisation, newest first, and the number of
// all. An empty workspace selects all.
func (q Queries) ToolBundles(ctx context.Context, organisation, workspace string, p Page) (list []ToolBundle, total int, err error) {
	return toolBundleTable.page(ctx, q.Reader, p, `
		WHERE organisation_id = $1 AND ($2 = '' OR workspace_id = $2)`, organisation, workspace)
}

// ToolBundle returns the bundle with this id in an organisation, or in one of its workspaces,
// where ref may also be a slug. An empty workspace is all of them.
func (q Queries) ToolBundle(ctx context.Context, organisation, workspace, ref string) (ToolBundle, error) {
	return toolBundleTable.one(ctx, q.Reader, `
		WHERE organisation_id = $1 AND ($2 = '' OR workspace_id = $2) AND (id = $3 OR $2 <> '' AND slug = $3)
		ORDER BY CASE WHEN id = $3 THEN 0 ELSE 1 END
		LIMIT 1`, organisation, workspace, ref)
}

// ActiveToolBundles returns the bundles of active workspaces of all organisations.
func (q Queries) ActiveToolBundles(ctx context.Context) ([]ToolBundle, error) {
	return toolBundleTable.list(ctx, q.Reader, `
		WHERE workspace_id IN (SELECT id FROM workspaces WHERE status = 'active')
		ORDER BY workspace_id, slug`)
}

// CreateToolBundle stores b. A slug in use by another bundle is a conflict.
func (tx *Tx) CreateToolBundle(ctx context.Context, b ToolBundle) error {
	return toolBundleTable.insert(ctx, tx, b)
}

// UpdateToolBundle replaces the bundle with b's id, except its workspace and slug.
func (tx *Tx) UpdateToolBundle(ctx context.Context, b ToolBundle) error {
	return toolBundleTable.update(ctx, tx, b)
}

// DeleteToolBundle deletes a bundle.
func (tx *Tx) DeleteToolBundle(ctx context.Context, id string) error {
	const text = `
		DELETE FROM mcp_bundles
		WHERE id = $1`
	return tx.write(ctx, journal.ToolBundles, "MCP bundle", text, id)
}

// HasToolSlug reports whether a server or bundle of a workspace has a slug, and returns the
// number of servers and bundles that it has.
func (q Queries) HasToolSlug(ctx context.Context, workspace, slug string) (taken bool, servers, bundles int, err error) {
	const text = `
		SELECT (SELECT COUNT(*) FROM mcp_servers WHERE workspace_id = $1 AND slug = $2)
				+ (SELECT COUNT(*) FROM mcp_bundles WHERE workspace_id = $1 AND slug = $2),
			(SELECT COUNT(*) FROM mcp_servers WHERE workspace_id = $1),
			(SELECT COUNT(*) FROM mcp_bundles WHERE workspace_id = $1)`
	_, err = sqlrow.One(ctx, q.Reader, "slug", text, func(r sqlrow.Scanner) (none struct{}, err error) {
		var n int
		err = r.Scan(&n, &servers, &bundles)
		taken = n > 0
		return none, err
	}, workspace, slug)
	return taken, servers, bundles, err
}
