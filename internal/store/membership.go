package store

import (
	"context"

	"modelgate/internal/storage/sqlrow"
)

// Membership holds the roles of a user in an organisation.
type Membership struct {
	Role       string            // owner, admin or member; empty for a user who does not belong to it or is deactivated there
	Workspaces map[string]string // admin, manager or member, by workspace id
}

// RoleIn returns the user's role in a workspace: admin, manager, member, or empty if
// they have no access. Owners and admins of the organisation are admins of all its
// workspaces.
func (m Membership) RoleIn(workspace string) string {
	switch m.Role {
	case "":
		return ""
	case "owner", "admin":
		return "admin"
	}
	return m.Workspaces[workspace]
}

// Membership returns the roles of a user in an organisation. They are empty for a user
// who does not belong to it, and without a role in it for one whom its directory deactivated.
func (q Queries) Membership(ctx context.Context, organisation, user string) (Membership, error) {
	const text = `
		SELECT '', role
		FROM organisation_members
		WHERE organisation_id = $1 AND user_id = $2 AND status = 'active'
		UNION ALL
		SELECT m.workspace_id, m.role
		FROM workspace_members m
		JOIN workspaces w ON w.id = m.workspace_id
		WHERE w.organisation_id = $1 AND m.user_id = $2`
	type part struct{ workspace, role string }
	parts, err := sqlrow.List(ctx, q.Reader, "memberships", text, func(r sqlrow.Scanner) (p part, err error) {
		err = r.Scan(&p.workspace, &p.role)
		return p, err
	}, organisation, user)
	m := Membership{Workspaces: make(map[string]string)}
	for _, p := range parts {
		if p.workspace == "" {
			m.Role = p.role
			continue
		}
		m.Workspaces[p.workspace] = p.role
	}
	return m, err
}
