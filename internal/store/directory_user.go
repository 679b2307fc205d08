package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"modelgate/internal/identity/scim"
	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// DirectoryUser is a user as the directory of an organisation describes them. Keys are the
// values that filters compare, in lower case where letter case does not matter.
type DirectoryUser struct {
	Organisation string
	ID           string // of the [User]
	NameKey      string
	ExternalID   string
	DisplayKey   string
	GivenKey     string
	FamilyKey    string
	Active       bool
	Attributes   json.RawMessage // object
	Version      int64           // counts changes from 1
	CreatedAt    time.Time
	UpdatedAt    time.Time

	Emails []DirectoryEmail // written, not read
}

// DirectoryEmail is an e-mail address of a [DirectoryUser], in lower case.
type DirectoryEmail struct {
	Value, Type string
	Primary     bool
}

var directoryUserTable = table[DirectoryUser]{
	name: "directory_users", row: "user", fixed: "id organisation_id created_at",
	columns: func(u *DirectoryUser) []column {
		return []column{
			{"id", &u.ID}, {"organisation_id", &u.Organisation}, {"name_key", &u.NameKey}, {"external_id", &u.ExternalID},
			{"display_key", &u.DisplayKey}, {"given_key", &u.GivenKey}, {"family_key", &u.FamilyKey}, {"active", &u.Active},
			{"attributes", object(&u.Attributes)}, {"version", &u.Version}, {"created_at", &u.CreatedAt}, {"updated_at", &u.UpdatedAt},
		}
	},
}

// DirectoryUser returns a user of an organisation's directory by id.
func (q Queries) DirectoryUser(ctx context.Context, organisation, id string) (DirectoryUser, error) {
	return directoryUserTable.one(ctx, q.Reader, `
		WHERE organisation_id = $1 AND id = $2`, organisation, id)
}

// Span selects rows of a sorted list.
type Span struct{ Offset, Limit int }

// DirectoryUsers returns users of an organisation's directory, sorted by id, and the number of
// all that a filter selects; nil selects all.
func (q Queries) DirectoryUsers(ctx context.Context, organisation string, f *scim.Filter,
	s Span) (list []DirectoryUser, total int, err error) {
	where, args, err := directoryCondition(organisation, f, userColumns)
	if err != nil {
		return nil, 0, err
	}
	if total, err = sqlrow.Count(ctx, q.Reader, `SELECT COUNT(*) FROM directory_users d`+where, args...); err != nil || s.Limit == 0 {
		return nil, total, err
	}
	end := fmt.Sprintf(` d%s ORDER BY id LIMIT $%d OFFSET $%d`, where, len(args)+1, len(args)+2)
	list, err = directoryUserTable.list(ctx, q.Reader, end, append(args, int64(s.Limit), int64(s.Offset))...)
	return list, total, err
}

// DirectoryUserIDs returns which of the ids are users of an organisation's directory.
func (q Queries) DirectoryUserIDs(ctx context.Context, organisation string, ids []string) (map[string]bool, error) {
	condition, args, wanted := selectUsers(`id`, ids, 1)
	list, err := q.strings(ctx, "users", `
		SELECT id
		FROM directory_users
		WHERE organisation_id = $1`+condition, append([]any{organisation}, args...)...)
	found := make(map[string]bool, len(ids))
	for _, id := range list {
		if wanted(id) {
			found[id] = true
		}
	}
	return found, err
}

// atOnce is the number of rows that one statement reads or writes.
const atOnce = 500

// chunks divides ids into parts for one statement.
func chunks(ids []string) (parts [][]string) {
	for len(ids) > 0 {
		n := min(len(ids), atOnce)
		parts, ids = append(parts, ids[:n]), ids[n:]
	}
	return parts
}

// CreateDirectoryUser stores a user of the directory, who is a member of the organisation.
func (tx *Tx) CreateDirectoryUser(ctx context.Context, u DirectoryUser) error {
	if err := directoryUserTable.insert(ctx, tx, u); err != nil {
		return err
	}
	return tx.writeEmails(ctx, u)
}

// UpdateDirectoryUser stores the changed fields of a user of the directory.
func (tx *Tx) UpdateDirectoryUser(ctx context.Context, u DirectoryUser) error {
	updated, err := directoryUserTable.updateIf(ctx, tx, u, `organisation_id = $2`, u.Organisation)
	if err != nil || !updated {
		return err
	}
	const clear = `
		DELETE FROM directory_emails
		WHERE organisation_id = $1 AND user_id = $2`
	if err := tx.exec(ctx, journal.Unpublished, "e-mail addresses", clear, u.Organisation, u.ID); err != nil {
		return err
	}
	return tx.writeEmails(ctx, u)
}

func (tx *Tx) writeEmails(ctx context.Context, u DirectoryUser) error {
	const text = `
		INSERT INTO directory_emails (organisation_id, user_id, position, value_key, type_key, is_primary)
		VALUES ($1, $2, $3, $4, $5, $6)`
	for i, e := range u.Emails {
		err := tx.exec(ctx, journal.Unpublished, "e-mail addresses", text, u.Organisation, u.ID, int64(i), e.Value, e.Type, e.Primary)
		if err != nil {
			return err
		}
	}
	return nil
}

// SetMemberStatus activates or deactivates a member of an organisation, who keeps their roles.
func (tx *Tx) SetMemberStatus(ctx context.Context, organisation, user, status string, now time.Time) error {
	const text = `
		UPDATE organisation_members
		SET status = $3, updated_at = $4
		WHERE organisation_id = $1 AND user_id = $2`
	if err := tx.write(ctx, journal.Members, "user", text, organisation, user, status, millis(now)); err != nil || status == Active {
		return err
	}
	return tx.endGrants(ctx, organisation, "", user)
}

// EndAccess revokes the keys of a user in an organisation and ends their sessions and links
// there.
func (tx *Tx) EndAccess(ctx context.Context, organisation, user string, now time.Time) error {
	const keys = `
		UPDATE gateway_keys
		SET status = 'revoked', previous_hash = NULL, updated_at = $3
		WHERE organisation_id = $1 AND user_id = $2 AND status <> 'revoked'`
	const links = `
		DELETE FROM password_links
		WHERE organisation_id = $1 AND user_id = $2`
	if err := tx.exec(ctx, journal.Keys, "keys", keys, organisation, user, millis(now)); err != nil {
		return err
	}
	if err := tx.exec(ctx, journal.Unpublished, "links", links, organisation, user); err != nil {
		return err
	}
	return tx.EndSessions(ctx, organisation, user, "")
}

// RevokeMadeKeys revokes the service keys that a user created in an organisation.
func (tx *Tx) RevokeMadeKeys(ctx context.Context, organisation string, ids []string, now time.Time) error {
	for _, part := range chunks(ids) {
		text := `
			UPDATE gateway_keys
			SET status = 'revoked', previous_hash = NULL, updated_at = $2
			WHERE organisation_id = $1 AND id IN ` + placeholders(2, len(part))
		if err := tx.exec(ctx, journal.Keys, "keys", text, append([]any{organisation, millis(now)}, toArgs(part)...)...); err != nil {
			return err
		}
	}
	return nil
}

// MadeKeys returns the ids of the service keys that a user created in an organisation and that
// are not revoked.
func (q Queries) MadeKeys(ctx context.Context, organisation, user string) ([]string, error) {
	list, err := keyTable.list(ctx, q.Reader, `
		WHERE organisation_id = $1 AND user_id = '' AND status <> 'revoked' AND origin LIKE '%"' || $2 || '"%'
		ORDER BY id`, organisation, user)
	var ids []string
	for _, k := range list {
		if k.Origin.By == user {
			ids = append(ids, k.ID)
		}
	}
	return ids, err
}

// OtherOwners returns the number of active owners of an organisation other than a user.
func (q Queries) OtherOwners(ctx context.Context, organisation, user string) (int, error) {
	const text = `
		SELECT COUNT(*)
		FROM organisation_members o
		JOIN users u ON u.id = o.user_id
		WHERE o.organisation_id = $1 AND o.user_id <> $2 AND o.role = 'owner' AND o.status = 'active' AND u.status = 'active'`
	return sqlrow.Count(ctx, q.Reader, text, organisation, user)
}

// UserIDByEmail returns the id of the user with this address, of whatever organisation. It
// returns an empty one if there is none.
func (q Queries) UserIDByEmail(ctx context.Context, email string) (string, error) {
	ids, err := q.strings(ctx, "users", `
		SELECT id
		FROM users
		WHERE email = $1`, email)
	return strings.Join(ids, ""), err // there is at most one
}

// MemberIDByEmail is [Queries.UserIDByEmail] for the members of an organisation.
func (q Queries) MemberIDByEmail(ctx context.Context, organisation, email string) (string, error) {
	ids, err := q.strings(ctx, "users", `
		SELECT u.id
		FROM users u
		JOIN organisation_members o ON o.user_id = u.id
		WHERE u.email = $2 AND o.organisation_id = $1`, organisation, email)
	return strings.Join(ids, ""), err // there is at most one
}

// SetUserProfile stores the address and the name of a user who belongs to one organisation
// only. Those of others are left unchanged: they do not belong to its directory.
func (tx *Tx) SetUserProfile(ctx context.Context, organisation string, u User) error {
	const text = `
		UPDATE users
		SET email = $3, first_name = $4, last_name = $5, updated_at = $6
		WHERE id = $2 AND NOT EXISTS (SELECT 1 FROM organisation_members o WHERE o.user_id = users.id AND o.organisation_id <> $1)`
	return tx.exec(ctx, journal.Unpublished, "users", text, organisation, u.ID, u.Email, u.FirstName, u.LastName, millis(u.UpdatedAt))
}

// removeFromDirectory deletes what the directory of an organisation says about a user, and the
// roles that groups give them.
func (tx *Tx) removeFromDirectory(ctx context.Context, organisation, user string) error {
	for _, text := range [...]string{`
		DELETE FROM directory_users
		WHERE organisation_id = $1 AND id = $2`, `
		DELETE FROM directory_emails
		WHERE organisation_id = $1 AND user_id = $2`, `
		DELETE FROM directory_group_members
		WHERE user_id = $2 AND group_id IN (SELECT id FROM directory_groups WHERE organisation_id = $1)`, `
		DELETE FROM role_grants
		WHERE organisation_id = $1 AND user_id = $2`} {
		if err := tx.exec(ctx, journal.Unpublished, "directory", text, organisation, user); err != nil {
			return err
		}
	}
	return nil
}
