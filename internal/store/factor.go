package store

import (
	"context"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// Passkey is a credential of an authenticator, with which a member signs in.
type Passkey struct {
	ID           string
	Organisation string
	UserID       string
	CredentialID string // as base64url
	Handle       string // random name of the member at authenticators, as base64url
	RPID         string // host for which it was made
	Name         string
	Credential   PasskeyCredential
	SignCount    int64
	Clones       int64 // uses whose counter did not rise
	CreatedAt    time.Time
	LastUsedAt   time.Time // zero if it was not used yet
}

// PasskeyCredential is what an authenticator said of a credential.
type PasskeyCredential struct {
	PublicKey      []byte   `json:"public_key"`    // in the form of COSE
	Flags          byte     `json:"flags"`         // of the authenticator data at the last use
	UserVerified   bool     `json:"user_verified"` // at registration, or later with another factor
	BackupEligible bool     `json:"backup_eligible"`
	BackupState    bool     `json:"backup_state"`
	AAGUID         []byte   `json:"aaguid,omitempty"`
	Attachment     string   `json:"attachment,omitempty"`
	Transports     []string `json:"transports,omitempty"`
	Attestation    string   `json:"attestation,omitempty"` // format
}

var passkeyTable = table[Passkey]{
	name: "passkeys", row: "passkey", order: "id", fixed: "id organisation_id user_id credential_id handle rp_id created_at",
	columns: func(p *Passkey) []column {
		return []column{
			{"id", &p.ID}, {"organisation_id", &p.Organisation}, {"user_id", &p.UserID}, {"credential_id", &p.CredentialID},
			{"handle", &p.Handle}, {"rp_id", &p.RPID}, {"name", &p.Name}, {"credential", object(&p.Credential)},
			{"sign_count", &p.SignCount}, {"clones", &p.Clones}, {"created_at", &p.CreatedAt}, {"last_used_at", &p.LastUsedAt},
		}
	},
}

// Passkeys returns the passkeys of a member, oldest first.
func (q Queries) Passkeys(ctx context.Context, organisation, user string) ([]Passkey, error) {
	return passkeyTable.list(ctx, q.Reader, `
		WHERE organisation_id = $1 AND user_id = $2
		ORDER BY created_at, id`, organisation, user)
}

// PasskeyByCredential returns the passkey with an id of a credential, of whatever member.
func (q Queries) PasskeyByCredential(ctx context.Context, credential string) (Passkey, error) {
	return passkeyTable.one(ctx, q.Reader, `
		WHERE credential_id = $1`, credential)
}

// ForeignPasskeys returns the number of passkeys that were made for another host than rpID,
// which cannot be used.
func (q Queries) ForeignPasskeys(ctx context.Context, rpID string) (int, error) {
	return sqlrow.Count(ctx, q.Reader, `SELECT COUNT(*) FROM passkeys WHERE rp_id <> $1`, rpID)
}

// CreatePasskey stores a passkey. A credential that is known is a conflict.
func (tx *Tx) CreatePasskey(ctx context.Context, p Passkey) error {
	return passkeyTable.insert(ctx, tx, p)
}

// UpdatePasskey replaces the passkey with p's id.
func (tx *Tx) UpdatePasskey(ctx context.Context, p Passkey) error {
	return passkeyTable.update(ctx, tx, p)
}

// UsePasskey stores a use of a passkey, unless its counter changed since it was read: then it
// is a conflict.
func (tx *Tx) UsePasskey(ctx context.Context, before, after Passkey) error {
	ok, err := passkeyTable.updateIf(ctx, tx, after, `sign_count = $2`, before.SignCount)
	if err == nil && !ok {
		err = apierr.New(apierr.Conflict, "the passkey was used by another request")
	}
	return err
}

// DeletePasskey deletes a passkey of a member.
func (tx *Tx) DeletePasskey(ctx context.Context, organisation, user, id string) error {
	const text = `
		DELETE FROM passkeys
		WHERE organisation_id = $1 AND user_id = $2 AND id = $3`
	return tx.write(ctx, journal.Unpublished, "passkey", text, organisation, user, id)
}

// OneTimeCode is the secret with which a member's app makes one-time codes.
type OneTimeCode struct {
	Organisation string
	UserID       string
	Sealed       string // for the organisation
	LastStep     int64  // time step of the last code that was accepted
	CreatedAt    time.Time
}

var oneTimeCodeTable = table[OneTimeCode]{
	name: "one_time_codes", row: "one-time code", fixed: "organisation_id user_id",
	columns: func(o *OneTimeCode) []column {
		return []column{
			{"organisation_id", &o.Organisation}, {"user_id", &o.UserID}, {"sealed", &o.Sealed}, {"last_step", &o.LastStep},
			{"created_at", &o.CreatedAt},
		}
	},
}

// OneTimeCode returns the one-time codes of a member.
func (q Queries) OneTimeCode(ctx context.Context, organisation, user string) (OneTimeCode, error) {
	return oneTimeCodeTable.one(ctx, q.Reader, `
		WHERE organisation_id = $1 AND user_id = $2`, organisation, user)
}

// SetOneTimeCode stores the one-time codes of a member, replacing any previous ones.
func (tx *Tx) SetOneTimeCode(ctx context.Context, o OneTimeCode) error {
	return oneTimeCodeTable.put(ctx, tx, o)
}

// SpendStep records that the code of a time step was accepted. If the code of this step or a
// later one was accepted before, or the secret is no longer the sealed one, it is not found.
func (tx *Tx) SpendStep(ctx context.Context, o OneTimeCode, step int64) error {
	const text = `
		UPDATE one_time_codes
		SET last_step = $4
		WHERE organisation_id = $1 AND user_id = $2 AND sealed = $3 AND last_step < $4`
	return tx.write(ctx, journal.Unpublished, "one-time code", text, o.Organisation, o.UserID, o.Sealed, step)
}

// DeleteOneTimeCode deletes the one-time codes of a member.
func (tx *Tx) DeleteOneTimeCode(ctx context.Context, organisation, user string) error {
	const text = `
		DELETE FROM one_time_codes
		WHERE organisation_id = $1 AND user_id = $2`
	return tx.write(ctx, journal.Unpublished, "one-time code", text, organisation, user)
}

// RecoveryCodes returns how many recovery codes a member has left.
func (q Queries) RecoveryCodes(ctx context.Context, organisation, user string) (int, error) {
	return sqlrow.Count(ctx, q.Reader, `SELECT COUNT(*) FROM recovery_codes WHERE organisation_id = $1 AND user_id = $2`, organisation, user)
}

// SetRecoveryCodes replaces the recovery codes of a member by those with these hashes.
func (tx *Tx) SetRecoveryCodes(ctx context.Context, organisation, user string, hashes []string) error {
	const (
		clear = `
		DELETE FROM recovery_codes
		WHERE organisation_id = $1 AND user_id = $2`
		insert = `
		INSERT INTO recovery_codes (organisation_id, user_id, hash)
		VALUES ($1, $2, $3)`
	)
	if err := tx.exec(ctx, journal.Unpublished, "recovery codes", clear, organisation, user); err != nil {
		return err
	}
	for _, hash := range hashes {
		if err := tx.write(ctx, journal.Unpublished, "recovery code", insert, organisation, user, hash); err != nil {
			return err
		}
	}
	return nil
}

// SpendRecoveryCode deletes a recovery code of a member. An unknown or used one is not found.
func (tx *Tx) SpendRecoveryCode(ctx context.Context, organisation, user, hash string) error {
	const text = `
		DELETE FROM recovery_codes
		WHERE organisation_id = $1 AND user_id = $2 AND hash = $3`
	return tx.write(ctx, journal.Unpublished, "recovery code", text, organisation, user, hash)
}

// DeleteFactors deletes all second factors of a member, and returns how many there were, not
// counting recovery codes.
func (tx *Tx) DeleteFactors(ctx context.Context, organisation, user string) (n int64, err error) {
	for _, text := range []string{
		`DELETE FROM passkeys WHERE organisation_id = $1 AND user_id = $2`,
		`DELETE FROM one_time_codes WHERE organisation_id = $1 AND user_id = $2`,
	} {
		gone, err := tx.change.Exec(ctx, journal.Unpublished, text, organisation, user)
		if err != nil {
			return 0, err
		}
		n += gone
	}
	return n, tx.SetRecoveryCodes(ctx, organisation, user, nil)
}

// OwnersWithoutPassword returns the number of active owners of an organisation who can sign in
// without a password: at an active identity provider, or with a passkey that verifies them.
func (q Queries) OwnersWithoutPassword(ctx context.Context, organisation string) (int, error) {
	const text = `
		SELECT o.user_id
		FROM organisation_members o
		JOIN users u ON u.id = o.user_id
		WHERE o.organisation_id = $1 AND o.role = 'owner' AND o.status = 'active' AND u.status = 'active'`
	owners, err := sqlrow.List(ctx, q.Reader, "owners", text, func(r sqlrow.Scanner) (id string, err error) {
		err = r.Scan(&id)
		return id, err
	}, organisation)
	if err != nil {
		return 0, err
	}
	const linked = `
		SELECT COUNT(*)
		FROM identities i
		JOIN identity_providers p ON p.id = i.provider_id
		WHERE i.organisation_id = $1 AND i.user_id = $2 AND p.status = 'active'`
	n := 0
	for _, owner := range owners {
		ways, err := sqlrow.Count(ctx, q.Reader, linked, organisation, owner)
		if err != nil {
			return 0, err
		}
		keys, err := q.Passkeys(ctx, organisation, owner)
		if err != nil {
			return 0, err
		}
		for _, k := range keys {
			if k.Credential.UserVerified {
				ways++
			}
		}
		n += min(ways, 1)
	}
	return n, nil
}

// EndWeakSessions ends the sessions of an organisation whose users proved one factor only.
func (tx *Tx) EndWeakSessions(ctx context.Context, organisation string) error {
	const text = `
		DELETE FROM sessions
		WHERE organisation_id = $1 AND factor = ''`
	return tx.exec(ctx, journal.Unpublished, "sessions", text, organisation)
}
