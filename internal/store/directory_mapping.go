package store

import (
	"context"
	"time"

	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// DirectoryMapping gives the members of a group a role.
type DirectoryMapping struct {
	ID           string
	Organisation string
	Workspace    string // id; empty for a role in the organisation
	Group        string
	Role         string
	ByName       bool // from the name of the group, which it follows
	Status       string
	CreatedBy    string
	CreatedAt    time.Time
	UpdatedAt    time.Time

	GroupName string // read only
}

var directoryMappingTable = table[DirectoryMapping]{
	name: "directory_mappings", row: "mapping", order: "id DESC",
	fixed: "id organisation_id workspace_id group_id by_name created_by created_at",
	columns: func(m *DirectoryMapping) []column {
		return []column{
			{"id", &m.ID}, {"organisation_id", &m.Organisation}, {"workspace_id", &m.Workspace}, {"group_id", &m.Group}, {"role", &m.Role},
			{"by_name", &m.ByName}, {"status", &m.Status}, {"created_by", &m.CreatedBy}, {"created_at", &m.CreatedAt},
			{"updated_at", &m.UpdatedAt},
		}
	},
	derived: func(m *DirectoryMapping) []column {
		return []column{{"(SELECT g.name FROM directory_groups g WHERE g.id = directory_mappings.group_id)", &m.GroupName}}
	},
}

// MappingQuery filters the active mappings of an organisation. Empty fields filter nothing.
type MappingQuery struct{ Organisation, Workspace, Group, Role string }

// DirectoryMappings returns the active mappings to workspaces, newest first, and the number of
// all matches.
func (q Queries) DirectoryMappings(ctx context.Context, m MappingQuery, p Page) (list []DirectoryMapping, total int, err error) {
	return directoryMappingTable.page(ctx, q.Reader, p, `
		WHERE organisation_id = $1 AND status = 'active' AND workspace_id <> ''
			AND ($2 = '' OR workspace_id = $2) AND ($3 = '' OR group_id = $3) AND ($4 = '' OR role = $4)`,
		m.Organisation, m.Workspace, m.Group, m.Role)
}

// DirectoryMapping returns an active mapping of an organisation to a workspace.
func (q Queries) DirectoryMapping(ctx context.Context, organisation, id string) (DirectoryMapping, error) {
	return directoryMappingTable.one(ctx, q.Reader, `
		WHERE organisation_id = $1 AND id = $2 AND status = 'active' AND workspace_id <> ''`, organisation, id)
}

// GroupMappings returns the active mappings of a group, of the organisation too.
func (q Queries) GroupMappings(ctx context.Context, group string) ([]DirectoryMapping, error) {
	return directoryMappingTable.list(ctx, q.Reader, `
		WHERE group_id = $1 AND status = 'active'
		ORDER BY id`, group)
}

// CreateDirectoryMapping stores a mapping. A group has one active mapping to a workspace.
// Roles are not updated; see [Tx.RefreshRoles].
func (tx *Tx) CreateDirectoryMapping(ctx context.Context, m DirectoryMapping) error {
	return directoryMappingTable.insert(ctx, tx, m)
}

// ArchiveDirectoryMapping archives a mapping. Roles are not updated; see [Tx.RefreshRoles].
func (tx *Tx) ArchiveDirectoryMapping(ctx context.Context, m DirectoryMapping, now time.Time) error {
	m.Status, m.UpdatedAt = Archived, now
	return directoryMappingTable.update(ctx, tx, m)
}

// RoleGrant is a role that a source other than SCIM gives a user.
type RoleGrant struct {
	Workspace string // id; empty for a role in the organisation
	Role      string
}

// ReplaceGrants replaces the roles that a source gives a user in an organisation, and reports
// whether they changed. Roles are not updated; see [Tx.RefreshRoles].
func (tx *Tx) ReplaceGrants(ctx context.Context, organisation, user, source string, grants []RoleGrant) (changed bool, err error) {
	const (
		have = `
		SELECT workspace_id, role
		FROM role_grants
		WHERE organisation_id = $1 AND user_id = $2 AND source = $3`
		clear = `
		DELETE FROM role_grants
		WHERE organisation_id = $1 AND user_id = $2 AND source = $3`
		add = `
		INSERT INTO role_grants (organisation_id, workspace_id, user_id, source, role)
		VALUES ($1, $2, $3, $4, $5)`
	)
	before, err := sqlrow.List(ctx, tx.Reader, "roles", have, func(r sqlrow.Scanner) (g RoleGrant, err error) {
		err = r.Scan(&g.Workspace, &g.Role)
		return g, err
	}, organisation, user, source)
	if err != nil || sameGrants(before, grants) {
		return false, err
	}
	if err := tx.exec(ctx, journal.Unpublished, "roles", clear, organisation, user, source); err != nil {
		return false, err
	}
	for _, g := range grants {
		if err := tx.exec(ctx, journal.Unpublished, "roles", add, organisation, g.Workspace, user, source, g.Role); err != nil {
			return false, err
		}
	}
	return true, nil
}

func sameGrants(a, b []RoleGrant) bool {
	if len(a) != len(b) {
		return false
	}
	known := make(map[RoleGrant]bool, len(a))
	for _, g := range a {
		known[g] = true
	}
	for _, g := range b {
		if !known[g] {
			return false
		}
	}
	return true
}
