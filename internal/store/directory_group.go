package store

import (
	"context"
	"fmt"
	"time"

	"modelgate/internal/identity/scim"
	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// DirectoryGroup is a group of an organisation's directory, without its members.
type DirectoryGroup struct {
	ID           string
	Organisation string
	Name         string
	NameKey      string // in lower case
	ExternalID   string
	Provisioned  bool  // the directory has sent it; otherwise only mappings name it
	Version      int64 // counts changes from 1
	CreatedAt    time.Time
	UpdatedAt    time.Time
}

var directoryGroupTable = table[DirectoryGroup]{
	name: "directory_groups", row: "group", fixed: "id organisation_id created_at",
	columns: func(g *DirectoryGroup) []column {
		return []column{
			{"id", &g.ID}, {"organisation_id", &g.Organisation}, {"name", &g.Name}, {"name_key", &g.NameKey}, {"external_id", &g.ExternalID},
			{"provisioned", &g.Provisioned}, {"version", &g.Version}, {"created_at", &g.CreatedAt}, {"updated_at", &g.UpdatedAt},
		}
	},
}

// DirectoryGroup returns a group of an organisation by id.
func (q Queries) DirectoryGroup(ctx context.Context, organisation, id string) (DirectoryGroup, error) {
	return directoryGroupTable.one(ctx, q.Reader, `
		WHERE organisation_id = $1 AND id = $2`, organisation, id)
}

// DirectoryGroupByName returns a group of an organisation by its name in lower case.
func (q Queries) DirectoryGroupByName(ctx context.Context, organisation, key string) (DirectoryGroup, error) {
	return directoryGroupTable.one(ctx, q.Reader, `
		WHERE organisation_id = $1 AND name_key = $2`, organisation, key)
}

// DirectoryGroups returns groups that the directory of an organisation has sent, sorted by id,
// and the number of all that a filter selects; nil selects all.
func (q Queries) DirectoryGroups(ctx context.Context, organisation string, f *scim.Filter,
	s Span) (list []DirectoryGroup, total int, err error) {
	where, args, err := directoryCondition(organisation, f, groupColumns)
	if err != nil {
		return nil, 0, err
	}
	where += ` AND d.provisioned = TRUE`
	if total, err = sqlrow.Count(ctx, q.Reader, `SELECT COUNT(*) FROM directory_groups d`+where, args...); err != nil || s.Limit == 0 {
		return nil, total, err
	}
	end := fmt.Sprintf(` d%s ORDER BY id LIMIT $%d OFFSET $%d`, where, len(args)+1, len(args)+2)
	list, err = directoryGroupTable.list(ctx, q.Reader, end, append(args, int64(s.Limit), int64(s.Offset))...)
	return list, total, err
}

// CreateDirectoryGroup stores a group.
func (tx *Tx) CreateDirectoryGroup(ctx context.Context, g DirectoryGroup) error {
	return directoryGroupTable.insert(ctx, tx, g)
}

// UpdateDirectoryGroup stores the changed fields of a group.
func (tx *Tx) UpdateDirectoryGroup(ctx context.Context, g DirectoryGroup) error {
	return directoryGroupTable.update(ctx, tx, g)
}

// DeleteDirectoryGroup deletes a group with its members, and archives its mappings. Roles are
// not updated; see [Tx.RefreshRoles].
func (tx *Tx) DeleteDirectoryGroup(ctx context.Context, g DirectoryGroup, now time.Time) error {
	const (
		mappings = `
		UPDATE directory_mappings
		SET status = 'archived', updated_at = $2
		WHERE group_id = $1 AND status = 'active'`
		members = `
		DELETE FROM directory_group_members
		WHERE group_id = $1`
		group = `
		DELETE FROM directory_groups
		WHERE id = $1`
	)
	if err := tx.exec(ctx, journal.Unpublished, "mappings", mappings, g.ID, millis(now)); err != nil {
		return err
	}
	if err := tx.exec(ctx, journal.Unpublished, "members", members, g.ID); err != nil {
		return err
	}
	return tx.write(ctx, journal.Unpublished, "group", group, g.ID)
}

// GroupMemberIDs returns the ids of a group's members, sorted.
func (q Queries) GroupMemberIDs(ctx context.Context, group string) ([]string, error) {
	return q.strings(ctx, "members", `
		SELECT user_id
		FROM directory_group_members
		WHERE group_id = $1
		ORDER BY user_id`, group)
}

// GroupMember is a user in a group.
type GroupMember struct{ Group, GroupName, User string }

const groupMemberSelect = `
		SELECT m.group_id, g.name, m.user_id
		FROM directory_group_members m
		JOIN directory_groups g ON g.id = m.group_id`

func scanGroupMember(r sqlrow.Scanner) (m GroupMember, err error) {
	err = r.Scan(&m.Group, &m.GroupName, &m.User)
	return m, err
}

// GroupMembers returns the members of groups, sorted by group and user.
func (q Queries) GroupMembers(ctx context.Context, groups []string) (all []GroupMember, err error) {
	for _, part := range chunks(groups) {
		list, err := sqlrow.List(ctx, q.Reader, "members", groupMemberSelect+`
		WHERE m.group_id IN `+placeholders(0, len(part))+`
		ORDER BY m.group_id, m.user_id`, scanGroupMember, toArgs(part)...)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

// UserGroups returns the groups of users in an organisation, sorted by user and name.
func (q Queries) UserGroups(ctx context.Context, organisation string, users []string) (all []GroupMember, err error) {
	for _, part := range chunks(users) {
		list, err := sqlrow.List(ctx, q.Reader, "groups", groupMemberSelect+`
		WHERE g.organisation_id = $1 AND g.provisioned = TRUE AND m.user_id IN `+placeholders(1, len(part))+`
		ORDER BY m.user_id, g.name_key`, scanGroupMember, append([]any{organisation}, toArgs(part)...)...)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

// CountGroupMembers returns the number of members of groups.
func (q Queries) CountGroupMembers(ctx context.Context, groups []string) (map[string]int, error) {
	counts := make(map[string]int)
	for _, part := range chunks(groups) {
		text := `
			SELECT group_id, COUNT(*)
			FROM directory_group_members
			WHERE group_id IN ` + placeholders(0, len(part)) + `
			GROUP BY group_id`
		_, err := sqlrow.List(ctx, q.Reader, "members", text, func(r sqlrow.Scanner) (none struct{}, err error) {
			var id string
			var n int
			err = r.Scan(&id, &n)
			counts[id] = n
			return none, err
		}, toArgs(part)...)
		if err != nil {
			return nil, err
		}
	}
	return counts, nil
}

// AddGroupMembers adds users to a group and returns those who were not members. Roles are not
// updated; see [Tx.RefreshRoles].
func (tx *Tx) AddGroupMembers(ctx context.Context, group string, users []string) (added []string, err error) {
	if len(users) == 0 {
		return nil, nil
	}
	condition, args, _ := selectUsers(`user_id`, users, 1)
	have, err := tx.strings(ctx, "members", `
		SELECT user_id
		FROM directory_group_members
		WHERE group_id = $1`+condition, append([]any{group}, args...)...)
	if err != nil {
		return nil, err
	}
	added = exclude(users, have)
	for _, part := range chunks(added) {
		text, args := `INSERT INTO directory_group_members (group_id, user_id) VALUES `, []any{group}
		for i, id := range part {
			if i > 0 {
				text += `, `
			}
			args = append(args, id)
			text += fmt.Sprintf(`($1, $%d)`, len(args))
		}
		if err := tx.exec(ctx, journal.Unpublished, "members", text, args...); err != nil {
			return nil, err
		}
	}
	return added, nil
}

// RemoveGroupMembers removes users from a group and returns those who were members. Roles are
// not updated; see [Tx.RefreshRoles].
func (tx *Tx) RemoveGroupMembers(ctx context.Context, group string, users []string) (removed []string, err error) {
	for _, part := range chunks(users) {
		list, err := tx.strings(ctx, "members", `
			DELETE FROM directory_group_members
			WHERE group_id = $1 AND user_id IN `+placeholders(1, len(part))+`
			RETURNING user_id`, append([]any{group}, toArgs(part)...)...)
		if err != nil {
			return nil, err
		}
		removed = append(removed, list...)
	}
	return removed, nil
}

// exclude returns the ids of a list that are not in another.
func exclude(list, others []string) []string {
	if len(others) == 0 {
		return list
	}
	known := make(map[string]bool, len(others))
	for _, id := range others {
		known[id] = true
	}
	out := make([]string, 0, len(list))
	for _, id := range list {
		if !known[id] {
			out = append(out, id)
		}
	}
	return out
}
