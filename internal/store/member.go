package store

import (
	"context"
	"encoding/json"
	"time"

	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// WorkspaceMember is a user in a workspace.
type WorkspaceMember struct {
	Workspace string
	UserID    string
	FirstName string
	LastName  string
	Email     string
	OrgRole   string // in the organisation
	Role      string // admin, manager or member
	Origin    string // OriginManual or OriginGroup
	Status    string // of the user
	CreatedAt time.Time
	UpdatedAt time.Time
}

const memberSelect = `
		SELECT m.workspace_id, m.user_id, u.first_name, u.last_name, u.email, o.role, m.role, m.origin, ` + memberStatus + `,
			m.created_at, m.updated_at`

// memberStatus is the status of the user u as a member o of an organisation.
const memberStatus = `CASE WHEN o.status = 'active' THEN u.status ELSE 'disabled' END`

const memberJoins = `
		FROM workspace_members m
		JOIN workspaces w ON w.id = m.workspace_id
		JOIN users u ON u.id = m.user_id
		JOIN organisation_members o ON o.organisation_id = w.organisation_id AND o.user_id = m.user_id`

func scanMember(r sqlrow.Scanner) (m WorkspaceMember, err error) {
	err = r.Scan(&m.Workspace, &m.UserID, &m.FirstName, &m.LastName, &m.Email, &m.OrgRole, &m.Role, &m.Origin, &m.Status,
		sqlrow.Time(&m.CreatedAt), sqlrow.Time(&m.UpdatedAt))
	return m, err
}

// WorkspaceMembers returns a page of the members of a workspace, sorted by the time
// they joined, and the number of all. An empty role or email filters nothing.
func (q Queries) WorkspaceMembers(ctx context.Context, workspace, role, email string,
	p Page) (list []WorkspaceMember, total int, err error) {
	const where = memberJoins + `
		WHERE m.workspace_id = $1 AND ($2 = '' OR m.role = $2) AND ($3 = '' OR u.email = $3)`
	if total, err = sqlrow.Count(ctx, q.Reader, `SELECT COUNT(*)`+where, workspace, role, email); err != nil {
		return nil, 0, err
	}
	limit, offset := p.limit()
	list, err = sqlrow.List(ctx, q.Reader, "members", memberSelect+where+` ORDER BY m.created_at, m.user_id LIMIT $4 OFFSET $5`,
		scanMember, workspace, role, email, limit, offset)
	return list, total, err
}

// WorkspaceMember returns a member of a workspace.
func (q Queries) WorkspaceMember(ctx context.Context, workspace, user string) (WorkspaceMember, error) {
	const where = memberJoins + `
		WHERE m.workspace_id = $1 AND m.user_id = $2`
	return sqlrow.One(ctx, q.Reader, "member", memberSelect+where, scanMember, workspace, user)
}

// SetWorkspaceMember adds a user to a workspace, or changes the role of a member. A member to
// whom groups give a higher role keeps that.
func (tx *Tx) SetWorkspaceMember(ctx context.Context, workspace, user, role string, now time.Time) error {
	const text = `
		INSERT INTO workspace_members (workspace_id, user_id, role, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $4)
		ON CONFLICT (workspace_id, user_id) DO UPDATE
		SET role = excluded.role, updated_at = excluded.updated_at,
			manual_role = CASE WHEN workspace_members.origin = 'group' THEN excluded.role ELSE '' END`
	if err := tx.write(ctx, journal.WorkspaceMembers, "member", text, workspace, user, role, millis(now)); err != nil {
		return err
	}
	w, err := tx.WorkspaceByID(ctx, workspace)
	if err != nil {
		return err
	}
	return tx.RefreshRoles(ctx, w.Organisation, []string{user}, now)
}

// RemoveWorkspaceMember removes a user from a workspace and revokes their keys there.
func (tx *Tx) RemoveWorkspaceMember(ctx context.Context, workspace, user string, now time.Time) error {
	const keys = `
		UPDATE gateway_keys
		SET status = 'revoked', previous_hash = NULL, updated_at = $3
		WHERE workspace_id = $1 AND user_id = $2 AND status <> 'revoked'`
	if _, err := tx.change.Exec(ctx, journal.Keys, keys, workspace, user, millis(now)); err != nil {
		return err
	}
	if err := tx.endGrants(ctx, "", workspace, user); err != nil {
		return err
	}
	const text = `
		DELETE FROM workspace_members
		WHERE workspace_id = $1 AND user_id = $2`
	return tx.write(ctx, journal.WorkspaceMembers, "member", text, workspace, user)
}

// User is a user of an organisation.
type User struct {
	ID           string
	Email        string // lower case
	FirstName    string
	LastName     string
	PasswordHash string // empty for a user without a password
	Status       string // active or disabled; disabled also if the organisation's directory deactivated them
	Role         string // in the organisation: owner, admin or member
	CreatedAt    time.Time
	UpdatedAt    time.Time

	// UsageLimits and RateLimits are as stored in the organisation: an object or null,
	// and an array.
	UsageLimits, RateLimits json.RawMessage

	Tools []string // patterns of what the user may use of tool servers; nil for all, empty for nothing
}

const userSelect = `
		SELECT u.id, u.email, u.first_name, u.last_name, u.password_hash, ` + memberStatus + `, o.role, u.created_at,
			CASE WHEN o.updated_at > u.updated_at THEN o.updated_at ELSE u.updated_at END, o.usage_limits, o.rate_limits,
			o.tools
		FROM users u
		JOIN organisation_members o ON o.user_id = u.id`

func scanUser(r sqlrow.Scanner) (u User, err error) {
	err = r.Scan(&u.ID, &u.Email, &u.FirstName, &u.LastName, &u.PasswordHash, &u.Status, &u.Role, sqlrow.Time(&u.CreatedAt),
		sqlrow.Time(&u.UpdatedAt),
		sqlrow.JSON(&u.UsageLimits), sqlrow.JSON(&u.RateLimits), sqlrow.JSON(&u.Tools))
	return u, err
}

// User returns a user of an organisation by id or e-mail address.
func (q Queries) User(ctx context.Context, organisation, ref string) (User, error) {
	const where = `
		WHERE o.organisation_id = $1 AND (u.id = $2 OR u.email = $2)`
	return sqlrow.One(ctx, q.Reader, "user", userSelect+where, scanUser, organisation, ref)
}

// Users returns a page of an organisation's users, sorted by the time they joined, and
// the number of all. An empty role or email filters nothing.
func (q Queries) Users(ctx context.Context, organisation, role, email string, p Page) (list []User, total int, err error) {
	const where = `
		WHERE o.organisation_id = $1 AND ($2 = '' OR o.role = $2) AND ($3 = '' OR u.email = $3)`
	const counted = `
		SELECT COUNT(*)
		FROM users u
		JOIN organisation_members o ON o.user_id = u.id` + where
	if total, err = sqlrow.Count(ctx, q.Reader, counted, organisation, role, email); err != nil {
		return nil, 0, err
	}
	limit, offset := p.limit()
	list, err = sqlrow.List(ctx, q.Reader, "users", userSelect+where+` ORDER BY o.created_at, u.id LIMIT $4 OFFSET $5`,
		scanUser, organisation, role, email, limit, offset)
	return list, total, err
}

// CreateUser stores a user and adds them to an organisation in u.Role. An address in
// use is a conflict.
func (tx *Tx) CreateUser(ctx context.Context, organisation string, u User) error {
	const text = `
		INSERT INTO users (id, email, first_name, last_name, password_hash, status, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`
	const join = `
		INSERT INTO organisation_members (organisation_id, user_id, role, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $4)`
	err := tx.write(ctx, journal.Unpublished, "user", text, u.ID, u.Email, u.FirstName, u.LastName, u.PasswordHash, u.Status,
		millis(u.CreatedAt), millis(u.UpdatedAt))
	if err != nil {
		return err
	}
	return tx.write(ctx, journal.Members, "membership", join, organisation, u.ID, u.Role, millis(u.CreatedAt))
}

// SetUserRole changes the role of a user in an organisation. A user who becomes a
// member keeps only the keys of workspaces they belong to. A user to whom groups give a higher
// role keeps that.
func (tx *Tx) SetUserRole(ctx context.Context, organisation, user, role string, now time.Time) error {
	if err := tx.setUserRole(ctx, organisation, user, role, now); err != nil {
		return err
	}
	const manual = `
		UPDATE organisation_members
		SET manual_role = role
		WHERE organisation_id = $1 AND user_id = $2 AND origin = 'group'`
	if err := tx.exec(ctx, journal.Members, "users", manual, organisation, user); err != nil {
		return err
	}
	return tx.RefreshRoles(ctx, organisation, []string{user}, now)
}

// setUserRole is [Tx.SetUserRole] without regard to groups.
func (tx *Tx) setUserRole(ctx context.Context, organisation, user, role string, now time.Time) error {
	const keys = `
		UPDATE gateway_keys
		SET status = 'revoked', previous_hash = NULL, updated_at = $3
		WHERE organisation_id = $1 AND user_id = $2 AND status <> 'revoked'
			AND workspace_id NOT IN (SELECT workspace_id FROM workspace_members WHERE user_id = $2)`
	if role == "member" {
		if _, err := tx.change.Exec(ctx, journal.Keys, keys, organisation, user, millis(now)); err != nil {
			return err
		}
	}
	const text = `
		UPDATE organisation_members
		SET role = $3, updated_at = $4
		WHERE organisation_id = $1 AND user_id = $2`
	return tx.write(ctx, journal.Members, "user", text, organisation, user, role, millis(now))
}

// SetUserLimits stores the limits of a user in an organisation.
func (tx *Tx) SetUserLimits(ctx context.Context, organisation string, u User) error {
	const text = `
		UPDATE organisation_members
		SET usage_limits = $3, rate_limits = $4, tools = $5, updated_at = $6
		WHERE organisation_id = $1 AND user_id = $2`
	return tx.write(ctx, journal.Members, "user", text, organisation, u.ID, orEmpty(u.UsageLimits, "null"), orEmpty(u.RateLimits, "[]"),
		nullable(&u.Tools), millis(u.UpdatedAt))
}

// RemoveUser removes a user from an organisation and its workspaces and revokes their
// keys, sessions and links there. Objects they created stay.
func (tx *Tx) RemoveUser(ctx context.Context, organisation, user string, now time.Time) error {
	const places = `
		DELETE FROM workspace_members
		WHERE user_id = $2 AND workspace_id IN (SELECT id FROM workspaces WHERE organisation_id = $1)`
	if _, err := tx.change.Exec(ctx, journal.WorkspaceMembers, places, organisation, user); err != nil {
		return err
	}
	if err := tx.deleteUserTools(ctx, organisation, user); err != nil {
		return err
	}
	for _, text := range [...]string{`
		DELETE FROM sessions
		WHERE organisation_id = $1 AND user_id = $2`, `
		DELETE FROM password_links
		WHERE organisation_id = $1 AND user_id = $2`, `
		DELETE FROM sign_in_addresses
		WHERE user_id = $2 AND $1 <> ''`, `
		DELETE FROM limit_setters
		WHERE kind = 'user' AND id = $1 || '/' || $2`} {
		if _, err := tx.change.Exec(ctx, journal.Unpublished, text, organisation, user); err != nil {
			return err
		}
	}
	if err := tx.removeFromDirectory(ctx, organisation, user); err != nil {
		return err
	}
	const keys = `
		UPDATE gateway_keys
		SET status = 'revoked', updated_at = $3
		WHERE organisation_id = $1 AND user_id = $2`
	if _, err := tx.change.Exec(ctx, journal.Keys, keys, organisation, user, millis(now)); err != nil {
		return err
	}
	if err := tx.endGrants(ctx, organisation, "", user); err != nil {
		return err
	}
	const text = `
		DELETE FROM organisation_members
		WHERE organisation_id = $1 AND user_id = $2`
	if err := tx.write(ctx, journal.Members, "user", text, organisation, user); err != nil {
		return err
	}
	// The address of a user without any organisation can be invited again.
	const free = `
		UPDATE users
		SET email = email || ' ' || id, password_hash = '', status = 'removed', updated_at = $2
		WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM organisation_members o WHERE o.user_id = users.id)`
	return tx.exec(ctx, journal.Unpublished, "user", free, user, millis(now))
}
