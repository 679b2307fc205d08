package publication_test

import (
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"modelgate/internal/identity/access"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
)

// made counts the keys of all tests.
var made atomic.Int64

// sampleKey returns a key that is newer than those made before.
func sampleKey(name string) store.Key {
	created := time.UnixMilli(1_800_000_000_000).Add(time.Duration(made.Add(1)) * time.Millisecond)
	return store.Key{
		ID: reqlog.NewID(created).String(), Name: name, Hash: access.HashKey(access.NewKey().Reveal()), Mask: "mg-…abcd",
		Scopes: []access.Scope{access.ScopeAll}, Status: store.KeyActive, Type: access.WorkspaceService,
		Defaults: json.RawMessage("{}"), CreatedAt: created.UTC(), UpdatedAt: created.UTC(),
	}
}

func mustCreate(t *testing.T, db *store.DB, k store.Key) {
	t.Helper()
	if err := db.CreateKey(t.Context(), k); err != nil {
		t.Fatal(err)
	}
}

func mustSaveConfig(t *testing.T, db *store.DB) {
	t.Helper()
	c := store.Config{ID: "c1", Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, Slug: "pc", Name: "n",
		IsDefault: true, VersionID: "v1", Status: store.Active, CreatedAt: time.Now(), UpdatedAt: time.Now()}
	err := db.Update(t.Context(), nil, func(tx *store.Tx) error {
		return tx.CreateConfig(t.Context(), c, store.ConfigVersion{ID: "v1", Config: "c1", Text: `{"retry":{"attempts":1}}`, CreatedAt: c.CreatedAt})
	})
	if err != nil {
		t.Fatal(err)
	}
}
