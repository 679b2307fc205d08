package store

import (
	"context"
	"encoding/json"
	"time"

	"modelgate/internal/storage/journal"
)

// States of an [Invite]. An expired invite may still be stored as pending; see
// [Invite.StatusAt].
const (
	InvitePending   = "pending"
	InviteAccepted  = "accepted"
	InviteCancelled = "cancelled"
	InviteExpired   = "expired"
)

// Invite invites a user to an organisation.
type Invite struct {
	ID           string
	Organisation string
	Email        string          // lower case
	Role         string          // admin or member
	Workspaces   json.RawMessage // array of {id, role}
	KeyDetails   json.RawMessage // object or null
	TokenHash    string          // SHA-256 of the link's token
	Status       string
	InvitedBy    string
	CreatedAt    time.Time
	ExpiresAt    time.Time
	AcceptedAt   time.Time // zero unless accepted
}

// StatusAt returns the state of i at now.
func (i Invite) StatusAt(now time.Time) string {
	if i.Status == InvitePending && !now.Before(i.ExpiresAt) {
		return InviteExpired
	}
	return i.Status
}

var inviteTable = table[Invite]{
	name: "invites", row: "invite", order: "id DESC", fixed: "id organisation_id email role workspaces key_details invited_by created_at",
	columns: func(i *Invite) []column {
		return []column{
			{"id", &i.ID}, {"organisation_id", &i.Organisation}, {"email", &i.Email}, {"role", &i.Role}, {"workspaces", array(&i.Workspaces)},
			{"key_details", nullable(&i.KeyDetails)}, {"token_hash", &i.TokenHash}, {"status", &i.Status}, {"invited_by", &i.InvitedBy},
			{"created_at", &i.CreatedAt}, {"expires_at", &i.ExpiresAt}, {"accepted_at", &i.AcceptedAt},
		}
	},
}

// InviteQuery filters invites. The zero value of a field filters nothing.
type InviteQuery struct {
	Organisation string
	Role         string
	Email        string
	Status       string    // state at Now
	Now          time.Time // required with Status
}

// Invites returns a page of an organisation's invites, newest first, and the number of
// all matches.
func (q Queries) Invites(ctx context.Context, i InviteQuery, p Page) (list []Invite, total int, err error) {
	return inviteTable.page(ctx, q.Reader, p, `
		WHERE organisation_id = $1 AND ($2 = '' OR role = $2) AND ($3 = '' OR email = $3)
			AND ($4 = '' OR $4 = CASE WHEN status = 'pending' AND expires_at <= $5 THEN 'expired' ELSE status END)`,
		i.Organisation, i.Role, i.Email, i.Status, i.Now.UnixMilli())
}

// Invite returns an invite of an organisation.
func (q Queries) Invite(ctx context.Context, organisation, id string) (Invite, error) {
	return inviteTable.one(ctx, q.Reader, `
		WHERE organisation_id = $1 AND id = $2`, organisation, id)
}

// InviteByToken returns the invite whose link has the token with this hash.
func (q Queries) InviteByToken(ctx context.Context, hash string) (Invite, error) {
	return inviteTable.one(ctx, q.Reader, `
		WHERE token_hash = $1`, hash)
}

// CreateInvite stores an invite. Expired pending invites for the same address are
// marked first; one that is still valid is a conflict.
func (tx *Tx) CreateInvite(ctx context.Context, i Invite) error {
	const expire = `
		UPDATE invites
		SET status = 'expired'
		WHERE organisation_id = $1 AND email = $2 AND status = 'pending' AND expires_at <= $3`
	if _, err := tx.change.Exec(ctx, journal.Unpublished, expire, i.Organisation, i.Email, i.CreatedAt.UnixMilli()); err != nil {
		return err
	}
	return inviteTable.insert(ctx, tx, i)
}

// UpdateInvite stores the state, token and times of an invite.
func (tx *Tx) UpdateInvite(ctx context.Context, i Invite) error {
	return inviteTable.update(ctx, tx, i)
}
