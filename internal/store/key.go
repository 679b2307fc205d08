package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"modelgate/internal/access"
	"modelgate/internal/apierr"
	"modelgate/internal/secret"
	"modelgate/internal/sqlite"
)

// The states of a [Key]. A key whose time has come is expired whether or not
// its row says so already: see [Key.StatusAt].
const (
	KeyActive  = "active"
	KeyRevoked = "revoked"
	KeyExpired = "expired"
)

// Key is a gateway key without its secret, which is never stored.
type Key struct {
	ID           string // time-ordered UUID
	Name         string
	Hash         access.Hash
	Mask         string // for people to recognise the key by: see [Mask]
	Organisation string
	Workspace    string
	Scopes       []access.Scope
	Providers    []string // provider ids and slugs it is limited to; empty allows all
	Status       string
	CreatedAt    time.Time
	ExpiresAt    time.Time // zero means never
}

// Mask returns the part of a key that may be shown: its prefix and last four
// characters.
func Mask(key secret.String) string {
	text := key.Reveal()
	const shown = 4
	if len(text) < len(access.KeyPrefix)+4*shown {
		return access.KeyPrefix + "…"
	}
	return access.KeyPrefix + "…" + text[len(text)-shown:]
}

// StatusAt returns the state of k at now.
func (k Key) StatusAt(now time.Time) string {
	if k.Status == KeyActive && k.Identity().Expired(now) {
		return KeyExpired
	}
	return k.Status
}

// Identity returns what k proves. It shares the slices of k.
func (k Key) Identity() *access.Identity {
	return &access.Identity{
		KeyID:        k.ID,
		Name:         k.Name,
		Hash:         k.Hash,
		Organisation: k.Organisation,
		Workspace:    k.Workspace,
		Scopes:       k.Scopes,
		Providers:    k.Providers,
		ExpiresAt:    k.ExpiresAt,
	}
}

// CreateKey stores k and raises the revision. An empty Status means active.
// Times are kept to the millisecond. A key whose id or secret is stored
// already is a conflict.
func (db *DB) CreateKey(ctx context.Context, k Key) error {
	if k.Status == "" {
		k.Status = KeyActive
	}
	if err := checkKey(k); err != nil {
		return err
	}
	err := db.change(ctx, func(tx *sql.Tx) error { return insertKey(ctx, tx, k) })
	if sqlite.Conflict(err) {
		return apierr.New(apierr.Conflict, "API key %s: this id or secret is in use; create another key", k.ID).WithCause(err)
	}
	return err
}

func checkKey(k Key) error {
	switch {
	case k.ID == "":
		return apierr.New(apierr.Invalid, "an API key needs an id").WithParam("id")
	case k.Name == "":
		return apierr.New(apierr.Invalid, "an API key needs a name").WithParam("name")
	case k.Hash == access.Hash{}:
		return apierr.New(apierr.Invalid, "an API key needs the hash of its secret").WithParam("hash")
	case k.Status != KeyActive && k.Status != KeyRevoked && k.Status != KeyExpired:
		return apierr.New(apierr.Invalid, "the status of an API key is active, revoked or expired, not %q", k.Status).WithParam("status")
	}
	return nil
}

func insertKey(ctx context.Context, tx *sql.Tx, k Key) error {
	const q = `
		INSERT INTO api_keys (id, name, hash, mask, organisation, workspace, scopes, providers, status, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`
	scopes, err := json.Marshal(k.Scopes)
	if err != nil {
		return fmt.Errorf("writing the scopes of API key %s: %w", k.ID, err)
	}
	providers, err := json.Marshal(k.Providers)
	if err != nil {
		return fmt.Errorf("writing the providers of API key %s: %w", k.ID, err)
	}
	_, err = tx.ExecContext(ctx, q, k.ID, k.Name, k.Hash.String(), k.Mask, k.Organisation, k.Workspace,
		string(scopes), string(providers), k.Status, k.CreatedAt.UnixMilli(), nullTime(k.ExpiresAt))
	if err != nil {
		return fmt.Errorf("storing API key %s: %w", k.ID, err)
	}
	return nil
}

// Keys returns all keys, the oldest first.
func (db *DB) Keys(ctx context.Context) ([]Key, error) {
	const q = `
		SELECT id, name, hash, mask, organisation, workspace, scopes, providers, status, created_at, expires_at
		FROM api_keys
		ORDER BY id`
	rows, err := db.file.Read.QueryContext(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("reading API keys: %w", err)
	}
	defer rows.Close()
	var keys []Key
	for rows.Next() {
		k, err := scanKey(rows)
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("reading API keys: %w", err)
	}
	return keys, nil
}

func scanKey(rows *sql.Rows) (Key, error) {
	var (
		k                       Key
		hash, scopes, providers string
		created                 int64
		expires                 sql.NullInt64
	)
	err := rows.Scan(&k.ID, &k.Name, &hash, &k.Mask, &k.Organisation, &k.Workspace, &scopes, &providers, &k.Status, &created, &expires)
	if err != nil {
		return Key{}, fmt.Errorf("reading API keys: %w", err)
	}
	k.Hash, err = access.ParseHash(hash)
	err = errors.Join(err, json.Unmarshal([]byte(scopes), &k.Scopes), json.Unmarshal([]byte(providers), &k.Providers))
	if err != nil {
		return Key{}, fmt.Errorf("reading API key %s: %w", k.ID, err)
	}
	k.CreatedAt = time.UnixMilli(created).UTC()
	if expires.Valid {
		k.ExpiresAt = time.UnixMilli(expires.Int64).UTC()
	}
	return k, nil
}

// RevokeKey ends a key and raises the revision. A revoked key may be revoked
// again; one that does not exist is not found.
func (db *DB) RevokeKey(ctx context.Context, id string) error {
	const q = `
		UPDATE api_keys
		SET status = 'revoked'
		WHERE id = $1`
	return db.change(ctx, func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, q, id)
		if err != nil {
			return fmt.Errorf("revoking API key %s: %w", id, err)
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return apierr.New(apierr.NotFound, "API key %s does not exist; list the keys for their ids", id).WithCause(err)
		}
		return nil
	})
}

// nullTime returns unix milliseconds, or NULL for the zero time.
func nullTime(t time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: t.UnixMilli(), Valid: !t.IsZero()}
}
