package store

import (
	"context"
	"encoding/json"
	"time"

	"modelgate/internal/base/apierr"
)

// SecretUse is the session that a client secret begins.
type SecretUse struct {
	ID                             string // of the secret
	Organisation, Workspace, KeyID string
	Time                           time.Time
	ExpiresAt                      time.Time // of the secret
}

// UseClientSecret stores that a client secret begins a session, until the secret expires. It
// reports whether it is the first use by any node.
func (db *DB) UseClientSecret(ctx context.Context, u SecretUse) (first bool, err error) {
	o := Object{
		ID: "ek_" + u.ID, Kind: ObjectSecretUse, Organisation: u.Organisation, Workspace: u.Workspace, KeyID: u.KeyID, State: "used",
		Data: json.RawMessage("{}"), CreatedAt: u.Time, UpdatedAt: u.Time, ExpiresAt: u.ExpiresAt,
	}
	err = db.Transact(ctx, func(tx *Tx) error { return tx.AddObject(ctx, o) })
	if err != nil && apierr.From(err).Kind == apierr.Conflict {
		return false, nil
	}
	return err == nil, err
}
