package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/identity/access"
	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// States of a [Key]. An expired key may still be stored as active; see [Key.StatusAt].
const (
	KeyActive  = "active"
	KeyRevoked = "revoked"
	KeyExpired = "expired"

	// KeyDisabled is the state of a key that is [Key.Disabled]. It is not stored.
	KeyDisabled = "disabled"

	// KeyExhausted is the state of a key whose budget is exhausted.
	KeyExhausted = "exhausted"
)

// Key is a gateway key without its secret, which is never stored.
type Key struct {
	ID           string         // time-ordered UUID
	Type         access.KeyType // empty means workspace-service
	UserID       string         // owner of a user key; empty for service keys
	Name         string
	Description  string
	Hash         access.Hash
	Mask         string // shown to recognise the key; see [Mask]
	Organisation string
	Workspace    string
	Scopes       []access.Scope
	Tools        []string // patterns of what the key may use of tool servers; nil for all, empty for nothing
	Providers    []string // provider ids and slugs that the key is limited to; empty allows all

	// The meaning of these fields is defined by the control plane. Nil is the column's
	// empty value.
	Defaults       json.RawMessage // object
	UsageLimits    json.RawMessage // object or null
	RateLimits     json.RawMessage // array
	AlertEmails    json.RawMessage // array
	RotationPolicy json.RawMessage // object or null

	// RotationDueAt is when the secret is due for rotation. Zero means never.
	RotationDueAt time.Time

	// PreviousHash is the hash of the secret before the last rotation, which is valid
	// until TransitionEndsAt.
	PreviousHash     *access.Hash
	TransitionEndsAt time.Time

	Origin KeyOrigin // changed only by [Queries.ReleaseKeys]

	CreationMode string // ui, api or auto
	Status       string
	Disabled     bool // may not be used until it is enabled
	CreatedAt    time.Time
	UpdatedAt    time.Time
	ExpiresAt    time.Time // zero means never
}

// Mask returns the visible part of a key: its first and last two characters.
func Mask(key secret.String) string {
	text := key.Reveal()
	const shown = 2
	if len(text) < 8*shown {
		return "***"
	}
	return text[:shown] + "***" + text[len(text)-shown:]
}

// maskForm matches the output of Mask.
var maskForm = regexp.MustCompile(`(?s)^(.{2}\*\*\*.{2}|\*\*\*)$`)

// errNoSecret is the error for a mask that does not match a stored secret.
var errNoSecret = errors.New("is a mask, not a credential; send the credential itself")

// KeepsSecret reports whether text, given as a secret, stands for the stored secret
// with this mask: it is the mask or ***. An empty mask means that none
// is stored. Any other mask is refused with an error.
func KeepsSecret(text, mask string) (bool, error) {
	switch {
	case mask != "" && (text == mask || text == hiddenConfigValue):
		return true, nil
	case maskForm.MatchString(text):
		return false, errNoSecret
	}
	return false, nil
}

// StatusAt returns the state of k at now.
func (k Key) StatusAt(now time.Time) string {
	switch {
	case k.Status == KeyRevoked:
		return KeyRevoked
	case k.ended(now):
		return KeyExpired
	case k.Disabled:
		return KeyDisabled
	}
	return k.Status
}

func (k Key) ended(now time.Time) bool { return !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt) }

// expiry returns when k expires, which is in the past if it is marked as expired.
func (k Key) expiry() time.Time {
	if k.Status == KeyExpired && k.ExpiresAt.IsZero() {
		return time.UnixMilli(0)
	}
	return k.ExpiresAt
}

// Identity returns the identity of k without the limits of its makers. It shares k's
// slices.
func (k Key) Identity() *access.Identity {
	var d KeyDefaults
	if len(k.Defaults) > 0 && json.Unmarshal(k.Defaults, &d) != nil {
		d = KeyDefaults{} // this program wrote the column
	}
	addresses, _ := access.ParseAddresses(d.AllowedAddresses) // an unreadable list allows no address
	return &access.Identity{
		AllowedAddresses: addresses,

		KeyID:        k.ID,
		Type:         k.Type,
		UserID:       k.UserID,
		Name:         k.Name,
		Hash:         k.Hash,
		Organisation: k.Organisation,
		Workspace:    k.Workspace,
		Scopes:       k.Scopes,
		Providers:    k.Providers,
		Tools:        toolLists(k.Tools),
		Config:       d.Config,
		ConfigFixed:  d.ConfigFixed,
		Metadata:     d.Metadata,
		Exhausted:    k.Status == KeyExhausted,
		Disabled:     k.Disabled,
		ExpiresAt:    k.expiry(),
		Logging:      access.Logging{Key: access.ParseLogLevel(d.Logging)},

		ResponseModel: d.ResponseModel,

		Lineage: k.Origin.Lineage,
		Rank:    k.Origin.Rank,
		Egress:  d.policies(),
	}
}

// toolLists returns a list of patterns as one of several that all apply.
func toolLists(patterns []string) [][]string {
	if patterns == nil {
		return nil
	}
	return [][]string{patterns}
}

// Identities returns the identities of k's secrets: of the current one, and of the
// previous one, which is valid until the transition ends. Both have the key's id.
func (k Key) Identities() []*access.Identity {
	list := []*access.Identity{k.Identity()}
	if k.PreviousHash == nil || k.TransitionEndsAt.IsZero() {
		return list
	}
	before := *list[0]
	before.Hash = *k.PreviousHash
	if before.ExpiresAt.IsZero() || k.TransitionEndsAt.Before(before.ExpiresAt) {
		before.ExpiresAt = k.TransitionEndsAt
	}
	return append(list, &before)
}

// CreateKey stores k and makes a revision. An empty Status means active, an empty
// organisation or workspace the initial one. Times are rounded to milliseconds. An id
// or secret in use is a conflict.
func (db *DB) CreateKey(ctx context.Context, k Key) error {
	return db.Update(ctx, nil, func(tx *Tx) error { return tx.CreateKey(ctx, k) })
}

// CreateKey is [DB.CreateKey] in the current transaction.
func (tx *Tx) CreateKey(ctx context.Context, k Key) error {
	k = k.withDefaults()
	if err := checkKey(k); err != nil {
		return err
	}
	return keyTable.insert(ctx, tx, k)
}

// UpdateKey replaces the key with k's id.
func (tx *Tx) UpdateKey(ctx context.Context, k Key) error {
	k = k.withDefaults()
	if err := checkKey(k); err != nil {
		return err
	}
	return keyTable.update(ctx, tx, k)
}

// withDefaults returns k with its empty fields replaced by their defaults.
func (k Key) withDefaults() Key {
	orElse := func(s *string, value string) {
		if *s == "" {
			*s = value
		}
	}
	orElse(&k.Organisation, DefaultOrganisation)
	if k.Workspace == "" && k.Type != access.OrganisationService {
		k.Workspace = DefaultWorkspace
	}
	if k.Type == "" {
		k.Type = access.WorkspaceService
	}
	orElse(&k.Status, KeyActive)
	orElse(&k.CreationMode, "api")
	if k.UpdatedAt.IsZero() {
		k.UpdatedAt = k.CreatedAt
	}
	return k
}

func checkKey(k Key) error {
	switch {
	case k.ID == "":
		return apierr.New(apierr.Invalid, "an API key must have an id").WithParam("id")
	case k.Name == "":
		return apierr.New(apierr.Invalid, "an API key must have a name").WithParam("name")
	case k.Hash == access.Hash{}:
		return apierr.New(apierr.Invalid, "an API key must have the hash of its secret").WithParam("hash")
	case !slices.Contains([]string{KeyActive, KeyRevoked, KeyExpired, KeyExhausted}, k.Status):
		return apierr.New(apierr.Invalid, "the status of an API key must be active, revoked, expired or exhausted, not %q",
			k.Status).WithParam("status")
	}
	return nil
}

var keyTable = table[Key]{
	name: "gateway_keys", row: "API key", order: "id DESC", fixed: "id", byRow: true,
	columns: func(k *Key) []column {
		return []column{
			{"id", &k.ID}, {"type", &k.Type}, {"organisation_id", &k.Organisation}, {"workspace_id", &k.Workspace}, {"user_id", &k.UserID},
			{"name", &k.Name}, {"description", &k.Description}, {"hash", hashText{&k.Hash}}, {"mask", &k.Mask}, {"scopes", nullable(&k.Scopes)},
			{"providers", nullable(&k.Providers)}, {"defaults", object(&k.Defaults)}, {"usage_limits", nullable(&k.UsageLimits)},
			{"rate_limits", array(&k.RateLimits)}, {"alert_emails", array(&k.AlertEmails)}, {"rotation_policy", nullable(&k.RotationPolicy)},
			{"previous_hash", previousHash{&k.PreviousHash}}, {"transition_ends_at", &k.TransitionEndsAt}, {"creation_mode", &k.CreationMode},
			{"status", &k.Status}, {"created_at", &k.CreatedAt}, {"updated_at", &k.UpdatedAt}, {"expires_at", &k.ExpiresAt},
			{"rotation_due_at", &k.RotationDueAt}, {"origin", object(&k.Origin)}, {"disabled", &k.Disabled},
			{"tools", nullable(&k.Tools)},
		}
	},
}

// hashText stores a hash as text.
type hashText struct{ *access.Hash }

// Scan implements sql.Scanner.
func (h hashText) Scan(v any) (err error) {
	var s sql.NullString
	if err := s.Scan(v); err != nil {
		return err
	}
	*h.Hash, err = access.ParseHash(s.String)
	return err
}

// Value implements driver.Valuer.
func (h hashText) Value() (driver.Value, error) { return h.String(), nil }

// previousHash stores a hash that may be nil.
type previousHash struct{ into **access.Hash }

// Scan implements sql.Scanner.
func (p previousHash) Scan(v any) error {
	if *p.into = nil; v == nil {
		return nil
	}
	*p.into = new(access.Hash)
	return hashText{*p.into}.Scan(v)
}

// Value implements driver.Valuer.
func (p previousHash) Value() (driver.Value, error) {
	if *p.into == nil {
		return nil, nil
	}
	return hashText{*p.into}.Value()
}

func orEmpty(raw json.RawMessage, empty string) string {
	if raw == nil {
		return empty
	}
	return string(raw)
}

// Keys returns all keys, oldest first.
func (q Queries) Keys(ctx context.Context) ([]Key, error) {
	return keyTable.list(ctx, q.Reader, `
		ORDER BY id`)
}

// Key returns the key of an organisation with this id.
func (q Queries) Key(ctx context.Context, organisation, id string) (Key, error) {
	return keyTable.one(ctx, q.Reader, `
		WHERE organisation_id = $1 AND id = $2`, organisation, id)
}

// KeyExists reports whether there is or was a key with this id. An empty organisation
// means any, and an empty workspace any of the organisation.
func (q Queries) KeyExists(ctx context.Context, organisation, workspace, id string) (bool, error) {
	const text = `
		SELECT COUNT(*)
		FROM gateway_keys
		WHERE ($1 = '' OR organisation_id = $1) AND ($2 = '' OR workspace_id = $2) AND id = $3`
	n, err := sqlrow.Count(ctx, q.Reader, text, organisation, workspace, id)
	return n > 0, err
}

// UserKeys returns the number of valid keys that a user has in a workspace.
func (q Queries) UserKeys(ctx context.Context, workspace, user string, now time.Time) (int, error) {
	const text = `
		SELECT COUNT(*)
		FROM gateway_keys
		WHERE workspace_id = $1 AND user_id = $2 AND status IN ('active', 'exhausted')
			AND (expires_at IS NULL OR expires_at > $3)`
	return sqlrow.Count(ctx, q.Reader, text, workspace, user, now.UnixMilli())
}

// KeysOfUser returns all keys that a user has or had in a workspace, newest first.
func (q Queries) KeysOfUser(ctx context.Context, organisation, workspace, user string) ([]Key, error) {
	return keyTable.list(ctx, q.Reader, `
		WHERE organisation_id = $1 AND workspace_id = $2 AND user_id = $3
		ORDER BY id DESC`, organisation, workspace, user)
}

// KeyIDs returns the ids of all keys that a user has or had in a workspace.
func (q Queries) KeyIDs(ctx context.Context, organisation, workspace, user string) ([]string, error) {
	const text = `
		SELECT id
		FROM gateway_keys
		WHERE organisation_id = $1 AND workspace_id = $2 AND user_id = $3
		ORDER BY id`
	return sqlrow.List(ctx, q.Reader, "API keys", text, scanID, organisation, workspace, user)
}

// RevokeKey revokes a key and makes a revision. Revoking it again is not an error; a
// key that does not exist is not found.
func (db *DB) RevokeKey(ctx context.Context, id string) error {
	return db.Update(ctx, nil, func(tx *Tx) error { return tx.RevokeKey(ctx, id) })
}

// RevokeKey is [DB.RevokeKey] in the current transaction.
func (tx *Tx) RevokeKey(ctx context.Context, id string) error {
	const text = `
		UPDATE gateway_keys
		SET status = 'revoked'
		WHERE id = $1`
	err := tx.write(ctx, journal.Keys.Row(id), "API key", text, id)
	if apierr.IsNotFound(err) {
		return apierr.New(apierr.NotFound, "API key %s not found; list the keys for their ids", id)
	}
	return err
}

// KeyOrganisation returns the id of the organisation of a key.
func (q Queries) KeyOrganisation(ctx context.Context, id string) (string, error) {
	const text = `
		SELECT organisation_id
		FROM gateway_keys
		WHERE id = $1`
	return sqlrow.One(ctx, q.Reader, "API key", text, scanID, id)
}

// HasKeys reports whether a key was ever created.
func (q Queries) HasKeys(ctx context.Context) (bool, error) {
	const text = `
		SELECT COUNT(*)
		FROM (SELECT id FROM gateway_keys LIMIT 1) AS k`
	n, err := sqlrow.Count(ctx, q.Reader, text)
	return n > 0, err
}
