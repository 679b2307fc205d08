// Package datakey seals what organisations keep secret.
//
// Each organisation has a data key of its own, made with its first secret and
// stored wrapped by the master key. It promises that what one organisation
// sealed opens for no other, and that a change of the master key leaves what is
// sealed as it is. How texts are sealed is secret's, what is in them the
// control plane's.
package datakey

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/store"
)

// Keyring seals and opens with the data keys of organisations. It is safe for
// concurrent use, by several processes on one database too.
type Keyring struct {
	db     *store.DB
	master *secret.Box // nil when there is no master key

	mu   sync.Mutex
	keys map[string]openedKey // by organisation; guarded by mu
}

// openedKey is a data key with the text from which it was opened.
type openedKey struct {
	wrapped string
	key     *secret.DataKey
}

// New returns the ring of a database. Without a master key, nil, it seals and
// opens nothing.
func New(db *store.DB, master *secret.Box) *Keyring {
	return &Keyring{db: db, master: master, keys: make(map[string]openedKey)}
}

// Seal returns s as a string that only Open, for the same organisation, opens. An
// organisation's first secret makes its data key, in a change of its own.
func (r *Keyring) Seal(ctx context.Context, organisation string, s secret.String) (string, error) {
	key, err := r.sealing(ctx, organisation)
	if err != nil {
		return "", err
	}
	return key.Seal(s), nil
}

// Sign returns a signature that only the data key of the organisation makes. As
// in Seal, the first makes the data key.
func (r *Keyring) Sign(ctx context.Context, organisation, text string) (string, error) {
	key, err := r.sealing(ctx, organisation)
	if err != nil {
		return "", err
	}
	return key.Sign(text), nil
}

// Verify reports whether a signature is the one of Sign for a text. An
// organisation without a data key has signed nothing.
func (r *Keyring) Verify(ctx context.Context, organisation, text, signature string) (bool, error) {
	if r.master == nil {
		return false, noMasterKey("signatures can't be verified")
	}
	o, err := r.db.Organisation(ctx, organisation)
	if err != nil || o.DataKey == "" {
		return false, err
	}
	key, err := r.key(organisation, o.DataKey)
	if err != nil {
		return false, foreign(err)
	}
	return key.Verify(text, signature), nil
}

// Create returns the organisation's data key, which it makes if there is none.
func (r *Keyring) Create(ctx context.Context, organisation string) (*secret.DataKey, error) {
	return r.sealing(ctx, organisation)
}

// Opened returns the data key with this wrapped text. It does not read the database.
func (r *Keyring) Opened(organisation, wrapped string) (*secret.DataKey, error) {
	if r.master == nil {
		return nil, noMasterKey("stored secrets can't be read")
	}
	key, err := r.key(organisation, wrapped)
	if err != nil {
		return nil, foreign(err)
	}
	return key, nil
}

// sealing returns the organisation's data key and makes it when there is none.
func (r *Keyring) sealing(ctx context.Context, organisation string) (*secret.DataKey, error) {
	if r.master == nil {
		return nil, noMasterKey("secrets can't be stored")
	}
	wrapped, err := r.wrappedKey(ctx, organisation)
	if err != nil {
		return nil, err
	}
	key, err := r.key(organisation, wrapped)
	if err != nil {
		return nil, foreign(err)
	}
	return key, nil
}

// Open returns what was sealed. Its errors hold nothing of it.
func (r *Keyring) Open(ctx context.Context, organisation, sealed string) (secret.String, error) {
	o, err := r.db.Organisation(ctx, organisation)
	if err != nil {
		return secret.String{}, err
	}
	return r.OpenWith(o.ID, o.DataKey, sealed)
}

// OpenWith is [Keyring.Open] for callers that have already read the organisation's
// wrapped data key. It also opens what the master key itself sealed.
func (r *Keyring) OpenWith(organisation, wrapped, sealed string) (secret.String, error) {
	if r.master == nil {
		return secret.String{}, noMasterKey("stored secrets can't be read")
	}
	if !secret.SealedByDataKey(sealed) {
		return r.master.Open(sealed)
	}
	key, err := r.key(organisation, wrapped)
	if err != nil {
		// The key is the same after it was wrapped by a master key that this
		// process was not given yet.
		if key = r.cachedKey(organisation).key; key == nil {
			return secret.String{}, foreign(err)
		}
	}
	return key.Open(sealed)
}

// Check returns an error in one line, for an operator, unless the master key
// opens all these data keys. They are by organisation.
func (r *Keyring) Check(wrapped map[string]string) error {
	if len(wrapped) > 0 && r.master == nil {
		return fmt.Errorf("the database contains sealed credentials of %d organisations, but there is no master key; set MODELGATE_MASTER_KEY, --master-key-file or --master-key-command to the one they were sealed with", len(wrapped))
	}
	for _, organisation := range slices.Sorted(maps.Keys(wrapped)) {
		if _, err := r.key(organisation, wrapped[organisation]); err != nil {
			return fmt.Errorf("%w; start with the master key that it was sealed with, or, after a rotation, set MODELGATE_MASTER_KEY_PREVIOUS to the previous one", err)
		}
	}
	return nil
}

// wrappedKey returns the organisation's data key and makes it when there is none.
func (r *Keyring) wrappedKey(ctx context.Context, organisation string) (string, error) {
	o, err := r.db.Organisation(ctx, organisation)
	if err != nil || o.DataKey != "" {
		return o.DataKey, err
	}
	err = r.db.Update(ctx, nil, func(tx *store.Tx) error {
		// Changes come one after the other: another may have made it in the meantime.
		if o, err = tx.Organisation(ctx, organisation); err != nil || o.DataKey != "" {
			return err
		}
		o.DataKey = r.master.NewDataKey(o.ID)
		return tx.UpdateOrganisation(ctx, o)
	})
	return o.DataKey, err
}

// key unwraps a data key, or takes the one that was unwrapped before.
func (r *Keyring) key(organisation, wrapped string) (*secret.DataKey, error) {
	if known := r.cachedKey(organisation); known.wrapped == wrapped && known.key != nil {
		return known.key, nil
	}
	key, err := r.master.DataKey(organisation, wrapped)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys[organisation] = openedKey{wrapped, key}
	return key, nil
}

func (r *Keyring) cachedKey(organisation string) openedKey {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keys[organisation]
}

func noMasterKey(what string) error {
	return apierr.New(apierr.Unavailable, "%s: the gateway was started without a master key", what).WithCode("no_master_key")
}

func foreign(err error) error {
	return apierr.New(apierr.Unavailable,
		"secrets cannot be read: they were sealed with a different master key; start the gateway with that key").
		WithCode("wrong_master_key").WithCause(err)
}
