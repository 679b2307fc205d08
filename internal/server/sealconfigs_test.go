package server_test

import (
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/server"
	"modelgate/internal/storage/sqlite"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

func TestStartSealsCredentialsOfConfigsThatWereStoredPlainly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := "file:" + dir + "/modelgate.db"
	db := storetest.Open(t, path)
	const text = `{"provider":"openai","api_key":"canary-0123456789"}`
	now := time.Now()
	err := db.Update(t.Context(), nil, func(tx *store.Tx) error {
		c := store.Config{ID: "c", Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, Slug: "pc", Name: "n", VersionID: "v", Status: store.Active, CreatedAt: now, UpdatedAt: now}
		return tx.CreateConfig(t.Context(), c, store.ConfigVersion{ID: "v", Config: "c", Text: text, CreatedAt: now})
	})
	if err != nil {
		t.Fatal(err)
	}
	o := server.Options{Data: dir, Listen: "127.0.0.1:0", BootstrapKey: secret.New("a bootstrap key of a test"), MasterKey: secret.New("a master key of a test")}
	for range 2 { // the second start has nothing to do
		s, err := server.New(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	v, err := db.ConfigVersion(t.Context(), "v")
	if err != nil || strings.Contains(v.Text, "canary") || !secret.SealedByDataKey(v.Sealed) {
		t.Errorf("stored as %q, sealed %q, %v", v.Text, v.Sealed, err)
	}
	file, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var n int
	if err := file.Read.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM config_versions WHERE text LIKE '%canary%'`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d rows hold the credential, %v", n, err)
	}
}
