package store

import (
	"context"
	"encoding/json"
	"time"
)

// The states of an [Invite]. A pending one whose time has come is expired
// whether or not its row says so already: see [Invite.StatusAt].
const (
	InvitePending   = "pending"
	InviteAccepted  = "accepted"
	InviteCancelled = "cancelled"
	InviteExpired   = "expired"
)

// Invite asks somebody to join an organisation.
type Invite struct {
	ID           string
	Organisation string
	Email        string          // lower case
	Role         string          // admin or member
	Workspaces   json.RawMessage // array of {id, role}
	KeyDetails   json.RawMessage // object or null
	TokenHash    string          // SHA-256 of the link's secret
	Status       string
	InvitedBy    string
	CreatedAt    time.Time
	ExpiresAt    time.Time
	AcceptedAt   time.Time // zero until it was
}

// StatusAt returns the state of i at now.
func (i Invite) StatusAt(now time.Time) string {
	if i.Status == InvitePending && !now.Before(i.ExpiresAt) {
		return InviteExpired
	}
	return i.Status
}

const inviteColumns = `id, organisation_id, email, role, workspaces, key_details, token_hash, status, invited_by, created_at, expires_at, accepted_at`

func scanInvite(r row) (i Invite, err error) {
	err = r.Scan(&i.ID, &i.Organisation, &i.Email, &i.Role, jsonText{&i.Workspaces}, jsonText{&i.KeyDetails}, &i.TokenHash, &i.Status, &i.InvitedBy,
		nullTime{&i.CreatedAt}, nullTime{&i.ExpiresAt}, nullTime{&i.AcceptedAt})
	return i, err
}

// InviteQuery says which invites to list. The zero value of a field filters
// nothing.
type InviteQuery struct {
	Organisation string
	Role         string
	Email        string
	Status       string    // as it is at Now
	Now          time.Time // needed with Status
}

// Invites returns a page of an organisation's invites, the newest first, and how
// many match.
func (q Queries) Invites(ctx context.Context, i InviteQuery, p Page) (list []Invite, total int, err error) {
	const where = `
		FROM invites
		WHERE organisation_id = $1 AND ($2 = '' OR role = $2) AND ($3 = '' OR email = $3)
			AND ($4 = '' OR $4 = CASE WHEN status = 'pending' AND expires_at <= $5 THEN 'expired' ELSE status END)`
	args := []any{i.Organisation, i.Role, i.Email, i.Status, i.Now.UnixMilli()}
	if total, err = count(ctx, q.q, `SELECT COUNT(*)`+where, args...); err != nil {
		return nil, 0, err
	}
	limit, offset := p.limit()
	list, err = rows(ctx, q.q, "invites", `SELECT `+inviteColumns+where+` ORDER BY id DESC LIMIT $6 OFFSET $7`,
		scanInvite, append(args, limit, offset)...)
	return list, total, err
}

// Invite returns an invite of an organisation.
func (q Queries) Invite(ctx context.Context, organisation, id string) (Invite, error) {
	const text = `
		SELECT ` + inviteColumns + `
		FROM invites
		WHERE organisation_id = $1 AND id = $2`
	return one(ctx, q.q, "invite", text, scanInvite, organisation, id)
}

// InviteByToken returns the invite whose link holds this secret, by its hash.
func (q Queries) InviteByToken(ctx context.Context, hash string) (Invite, error) {
	const text = `
		SELECT ` + inviteColumns + `
		FROM invites
		WHERE token_hash = $1`
	return one(ctx, q.q, "invite", text, scanInvite, hash)
}

// CreateInvite stores an invite. Pending ones of the same address whose time has
// come are marked first; one that still counts is a conflict.
func (q Queries) CreateInvite(ctx context.Context, i Invite) error {
	const expire = `
		UPDATE invites
		SET status = 'expired'
		WHERE organisation_id = $1 AND email = $2 AND status = 'pending' AND expires_at <= $3`
	if _, err := q.q.ExecContext(ctx, expire, i.Organisation, i.Email, i.CreatedAt.UnixMilli()); err != nil {
		return err
	}
	const text = `
		INSERT INTO invites (` + inviteColumns + `)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`
	return write(ctx, q.q, "invite", text, i.ID, i.Organisation, i.Email, i.Role, orEmpty(i.Workspaces, "[]"), orEmpty(i.KeyDetails, "null"),
		i.TokenHash, i.Status, i.InvitedBy, millis(i.CreatedAt), millis(i.ExpiresAt), millis(i.AcceptedAt))
}

// UpdateInvite stores the state, the link and the times of an invite.
func (q Queries) UpdateInvite(ctx context.Context, i Invite) error {
	const text = `
		UPDATE invites
		SET token_hash = $2, status = $3, expires_at = $4, accepted_at = $5
		WHERE id = $1`
	return write(ctx, q.q, "invite", text, i.ID, i.TokenHash, i.Status, millis(i.ExpiresAt), millis(i.AcceptedAt))
}
