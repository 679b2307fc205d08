package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// Origins of a membership.
const (
	OriginManual = "manual" // an administrator set the role
	OriginGroup  = "group"  // groups give a higher role than an administrator set
)

// roleOrder is the order of roles in a workspace or organisation. Empty means no membership.
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
	if len(users) == 0 {
		return nil
	}
	given, err := tx.givenRoles(ctx, organisation, users)
	if err != nil {
		return err
	}
	have, err := tx.standings(ctx, organisation, users)
	if err != nil {
		return err
	}
	return tx.changeStandings(ctx, standingChange{organisation, have, given, now})
}

// selectUsers returns a condition for a column of user ids, and its arguments after before
// others. Many users are not named: the caller reads those of the whole organisation, which is
// faster, and picks them with the returned function.
func selectUsers(column string, users []string, before int) (condition string, args []any, wanted func(id string) bool) {
	if len(users) <= atOnce {
		return ` AND ` + column + ` IN ` + placeholders(before, len(users)), toArgs(users), func(string) bool { return true }
	}
	set := make(map[string]bool, len(users))
	for _, id := range users {
		set[id] = true
	}
	return "", nil, func(id string) bool { return set[id] }
}

// givenRoles returns the highest role that groups give to users in each place.
func (q Queries) givenRoles(ctx context.Context, organisation string, users []string) (map[place]string, error) {
	members, args, wanted := selectUsers(`m.user_id`, users, 1)
	granted, _, _ := selectUsers(`user_id`, users, 1)
	text := `
		SELECT m.user_id, p.workspace_id, p.role
		FROM directory_group_members m
		JOIN directory_mappings p ON p.group_id = m.group_id AND p.status = 'active'
		WHERE p.organisation_id = $1` + members + `
		UNION ALL
		SELECT user_id, workspace_id, role
		FROM role_grants
		WHERE organisation_id = $1` + granted
	out := make(map[place]string)
	_, err := sqlrow.List(ctx, q.Reader, "roles", text, func(r sqlrow.Scanner) (none struct{}, err error) {
		var p place
		var role string
		if err = r.Scan(&p.user, &p.workspace, &role); wanted(p.user) {
			out[p] = HigherRole(role, out[p])
		}
		return none, err
	}, append([]any{organisation}, args...)...)
	return out, err
}

// standings returns the memberships of users. Users who do not belong to the organisation have
// none.
func (q Queries) standings(ctx context.Context, organisation string, users []string) (map[place]standing, error) {
	own, args, wanted := selectUsers(`user_id`, users, 1)
	inner, _, _ := selectUsers(`m.user_id`, users, 1)
	text := `
		SELECT user_id, '', role, origin, manual_role
		FROM organisation_members
		WHERE organisation_id = $1` + own + `
		UNION ALL
		SELECT m.user_id, m.workspace_id, m.role, m.origin, m.manual_role
		FROM workspace_members m
		JOIN workspaces w ON w.id = m.workspace_id
		WHERE w.organisation_id = $1` + inner
	out := make(map[place]standing)
	_, err := sqlrow.List(ctx, q.Reader, "memberships", text, func(r sqlrow.Scanner) (none struct{}, err error) {
		var p place
		var s standing
		if err = r.Scan(&p.user, &p.workspace, &s.role, &s.origin, &s.manual); wanted(p.user) {
			out[p] = s
		}
		return none, err
	}, append([]any{organisation}, args...)...)
	return out, err
}

// standingChange is the memberships of users, and the roles that groups give them.
type standingChange struct {
	organisation string
	have         map[place]standing
	given        map[place]string
	now          time.Time
}

// changeStandings writes the memberships that differ. Those of the organisation come last,
// because a user who is no longer an admin keeps only the keys of their workspaces.
func (tx *Tx) changeStandings(ctx context.Context, c standingChange) error {
	places := make(map[place]bool, len(c.have))
	for p := range c.have {
		places[p] = true
	}
	for p := range c.given {
		places[p] = true
	}
	changed := make(map[standing][]place)
	for p := range places {
		before, exists := c.have[p]
		if _, belongs := c.have[place{user: p.user}]; !belongs || p.workspace == "" {
			continue
		}
		if !exists {
			before = standing{origin: OriginManual}
		}
		if after := before.with(c.given[p]); after != before {
			changed[after] = append(changed[after], p)
		}
	}
	for s, list := range changed {
		for part := range slices.Chunk(list, atOnce) {
			if err := tx.putStandings(ctx, s, part, c.now); err != nil {
				return err
			}
		}
	}
	return tx.changeOrganisationRoles(ctx, c)
}

// putStandings gives users in workspaces the same membership; without a role it removes them.
func (tx *Tx) putStandings(ctx context.Context, s standing, list []place, now time.Time) error {
	if s.role == "" {
		return tx.removeStandings(ctx, list, now)
	}
	var text strings.Builder
	text.WriteString(`INSERT INTO workspace_members (workspace_id, user_id, role, origin, manual_role, created_at, updated_at) VALUES `)
	args := []any{s.role, s.origin, s.manual, millis(now)}
	for i, p := range list {
		if i > 0 {
			text.WriteString(`, `)
		}
		args = append(args, p.workspace, p.user)
		text.WriteString(fmt.Sprintf(`($%d, $%d, $1, $2, $3, $4, $4)`, len(args)-1, len(args)))
	}
	text.WriteString(`
		ON CONFLICT (workspace_id, user_id) DO UPDATE
		SET role = excluded.role, origin = excluded.origin, manual_role = excluded.manual_role, updated_at = excluded.updated_at`)
	return tx.write(ctx, journal.WorkspaceMembers, "member", text.String(), args...)
}

// removeStandings removes users from workspaces and revokes their keys there.
func (tx *Tx) removeStandings(ctx context.Context, list []place, now time.Time) error {
	byWorkspace := make(map[string][]string)
	for _, p := range list {
		byWorkspace[p.workspace] = append(byWorkspace[p.workspace], p.user)
	}
	for workspace, users := range byWorkspace {
		keys := `
			UPDATE gateway_keys
			SET status = 'revoked', previous_hash = NULL, updated_at = $2
			WHERE workspace_id = $1 AND status <> 'revoked' AND user_id IN ` + placeholders(2, len(users))
		if err := tx.exec(ctx, journal.Keys, "keys", keys, append([]any{workspace, millis(now)}, toArgs(users)...)...); err != nil {
			return err
		}
		members := `
			DELETE FROM workspace_members
			WHERE workspace_id = $1 AND user_id IN ` + placeholders(1, len(users))
		if err := tx.exec(ctx, journal.WorkspaceMembers, "members", members, append([]any{workspace}, toArgs(users)...)...); err != nil {
			return err
		}
	}
	return nil
}

// changeOrganisationRoles writes the roles in the organisation that differ.
func (tx *Tx) changeOrganisationRoles(ctx context.Context, c standingChange) error {
	const text = `
		UPDATE organisation_members
		SET origin = $3, manual_role = $4, updated_at = $5
		WHERE organisation_id = $1 AND user_id = $2`
	for p, before := range c.have {
		if p.workspace != "" || before.role == "owner" {
			continue
		}
		after := before.with(c.given[p])
		after.role = cmp.Or(after.role, "member")
		if after == before {
			continue
		}
		if err := tx.setUserRole(ctx, c.organisation, p.user, after.role, c.now); err != nil {
			return err
		}
		if err := tx.write(ctx, journal.Members, "user", text, c.organisation, p.user, after.origin, after.manual, millis(c.now)); err != nil {
			return err
		}
	}
	return nil
}
