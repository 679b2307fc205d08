package store

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// Origins of a membership.
const (
	OriginManual = "manual" // an administrator set the role
	OriginGroup  = "group"  // groups give a higher role than an administrator set
)

// roleOrder is the order of roles in a workspace or organisation. Empty is no membership.
var roleOrder = map[string]int{"member": 1, "manager": 2, "admin": 3, "owner": 4}

// HigherRole returns the higher of two roles, of which either may be empty.
func HigherRole(a, b string) string {
	if roleOrder[a] >= roleOrder[b] {
		return a
	}
	return b
}

// place is a user in a workspace, or in the organisation if workspace is empty.
type place struct{ user, workspace string }

// standing is a membership: its role, and the role that an administrator set.
type standing struct{ role, origin, manual string }

// with returns the membership if groups give a role; empty is none.
func (s standing) with(given string) standing {
	manual := s.manual
	if s.origin == OriginManual {
		manual = s.role
	}
	if roleOrder[given] > roleOrder[manual] {
		return standing{given, OriginGroup, manual}
	}
	return standing{manual, OriginManual, ""}
}

// RefreshRoles makes the memberships of users what their groups and administrators say: the
// highest role that one of them gives. It writes only rows that change. A user who loses a
// workspace loses their keys there. Owners of the organisation stay owners.
func (tx *Tx) RefreshRoles(ctx context.Context, organisation string, users []string, now time.Time) error {
	for _, part := range chunks(users) {
		given, err := tx.givenRoles(ctx, organisation, part)
		if err != nil {
			return err
		}
		have, err := tx.standings(ctx, organisation, part)
		if err != nil {
			return err
		}
		if err := tx.changeStandings(ctx, organisation, have, given, now); err != nil {
			return err
		}
	}
	return nil
}

// givenRoles returns the highest role that groups give to users in each place.
func (q Queries) givenRoles(ctx context.Context, organisation string, users []string) (map[place]string, error) {
	in := placeholders(1, len(users))
	text := `
		SELECT m.user_id, p.workspace_id, p.role
		FROM directory_group_members m
		JOIN directory_mappings p ON p.group_id = m.group_id AND p.status = 'active'
		WHERE p.organisation_id = $1 AND m.user_id IN ` + in + `
		UNION ALL
		SELECT user_id, workspace_id, role
		FROM role_grants
		WHERE organisation_id = $1 AND user_id IN ` + in
	out := make(map[place]string)
	_, err := sqlrow.List(ctx, q.Reader, "roles", text, func(r sqlrow.Scanner) (none struct{}, err error) {
		var p place
		var role string
		err = r.Scan(&p.user, &p.workspace, &role)
		out[p] = HigherRole(role, out[p])
		return none, err
	}, append([]any{organisation}, toArgs(users)...)...)
	return out, err
}

// standings returns the memberships of users. Users who do not belong to the organisation have
// none.
func (q Queries) standings(ctx context.Context, organisation string, users []string) (map[place]standing, error) {
	in := placeholders(1, len(users))
	text := `
		SELECT user_id, '', role, origin, manual_role
		FROM organisation_members
		WHERE organisation_id = $1 AND user_id IN ` + in + `
		UNION ALL
		SELECT m.user_id, m.workspace_id, m.role, m.origin, m.manual_role
		FROM workspace_members m
		JOIN workspaces w ON w.id = m.workspace_id
		WHERE w.organisation_id = $1 AND m.user_id IN ` + in
	out := make(map[place]standing)
	_, err := sqlrow.List(ctx, q.Reader, "memberships", text, func(r sqlrow.Scanner) (none struct{}, err error) {
		var p place
		var s standing
		err = r.Scan(&p.user, &p.workspace, &s.role, &s.origin, &s.manual)
		out[p] = s
		return none, err
	}, append([]any{organisation}, toArgs(users)...)...)
	return out, err
}

// changeStandings writes the memberships that differ. Those of the organisation come last,
// because a user who is no longer an admin keeps only the keys of their workspaces.
func (tx *Tx) changeStandings(ctx context.Context, organisation string, have map[place]standing, given map[place]string, now time.Time) error {
	places := make(map[place]bool, len(have))
	for p := range have {
		places[p] = true
	}
	for p := range given {
		places[p] = true
	}
	added := make(map[standing][]place)
	for p := range places {
		_, belongs := have[place{user: p.user}]
		before, exists := have[p]
		if !belongs || p.workspace == "" {
			continue
		}
		if !exists {
			before = standing{origin: OriginManual}
		}
		after := before.with(given[p])
		switch {
		case after == before:
		case after.role == "":
			if err := tx.RemoveWorkspaceMember(ctx, p.workspace, p.user, now); err != nil {
				return err
			}
		default:
			added[after] = append(added[after], p)
		}
	}
	for s, list := range added {
		if err := tx.putStandings(ctx, s, list, now); err != nil {
			return err
		}
	}
	return tx.changeOrganisationRoles(ctx, organisation, have, given, now)
}

// putStandings gives users in workspaces the same membership.
func (tx *Tx) putStandings(ctx context.Context, s standing, list []place, now time.Time) error {
	text := `INSERT INTO workspace_members (workspace_id, user_id, role, origin, manual_role, created_at, updated_at) VALUES `
	args := []any{s.role, s.origin, s.manual, millis(now)}
	for i, p := range list {
		if i > 0 {
			text += `, `
		}
		args = append(args, p.workspace, p.user)
		text += fmt.Sprintf(`($%d, $%d, $1, $2, $3, $4, $4)`, len(args)-1, len(args))
	}
	text += `
		ON CONFLICT (workspace_id, user_id) DO UPDATE
		SET role = excluded.role, origin = excluded.origin, manual_role = excluded.manual_role, updated_at = excluded.updated_at`
	return tx.write(ctx, journal.WorkspaceMembers, "member", text, args...)
}

// changeOrganisationRoles writes the roles in the organisation that differ.
func (tx *Tx) changeOrganisationRoles(ctx context.Context, organisation string, have map[place]standing,
	given map[place]string, now time.Time) error {
	const text = `
		UPDATE organisation_members
		SET origin = $3, manual_role = $4, updated_at = $5
		WHERE organisation_id = $1 AND user_id = $2`
	for p, before := range have {
		if p.workspace != "" || before.role == "owner" {
			continue
		}
		after := before.with(given[p])
		after.role = cmp.Or(after.role, "member")
		if after == before {
			continue
		}
		if err := tx.setUserRole(ctx, organisation, p.user, after.role, now); err != nil {
			return err
		}
		if err := tx.write(ctx, journal.Members, "user", text, organisation, p.user, after.origin, after.manual, millis(now)); err != nil {
			return err
		}
	}
	return nil
}
