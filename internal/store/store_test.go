package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/identity/access"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

func TestAKeyIsReadAsItWasCreated(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) { readAsCreated(t, open) })
}

func TestAFileMayBeNamedInAnyWay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b?#%", "modelgate.db")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	readAsCreated(t, func() *store.DB { return mustOpen(t, path) })
}

func readAsCreated(t *testing.T, open func() *store.DB) {
	t.Helper()
	db := open()
	full := sampleKey("ci")
	full.Scopes = []access.Scope{access.ScopeCompletions, access.ScopeModels}
	full.Providers = []string{"openai", "@main"}
	full.ExpiresAt = full.CreatedAt.Add(time.Hour)
	bare := sampleKey("bare")
	bare.Status = ""
	mustCreate(t, db, full, bare)
	bare.Status = store.KeyActive
	want := []store.Key{full, bare}
	if diff := cmp.Diff(want, mustKeys(t, db)); diff != "" {
		t.Errorf("Keys() (-want +got):\n%s", diff)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, mustKeys(t, open())); diff != "" {
		t.Errorf("Keys() after opening again (-want +got):\n%s", diff)
	}
}

func TestEveryChangeRaisesTheRevision(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		k := sampleKey("ci")
		mustRevision(t, db, 0)
		mustCreate(t, db, k)
		mustRevision(t, db, 1)
		if err := db.RevokeKey(t.Context(), k.ID); err != nil {
			t.Fatal(err)
		}
		mustRevision(t, db, 2)
		if got := mustKeys(t, db)[0].Status; got != store.KeyRevoked {
			t.Errorf("status after RevokeKey() = %q, want %q", got, store.KeyRevoked)
		}
	})
}

func TestARefusedChangeLeavesTheRevision(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) { refusedChanges(t, open()) })
}

func refusedChanges(t *testing.T, db *store.DB) {
	t.Helper()
	k := sampleKey("ci")
	mustCreate(t, db, k)
	sameID := sampleKey("other")
	sameID.ID = k.ID
	sameSecret := sampleKey("other")
	sameSecret.Hash = k.Hash
	with := func(change func(*store.Key)) store.Key {
		k := sampleKey("new")
		change(&k)
		return k
	}
	for _, tt := range []struct {
		name string
		err  error
		want apierr.Kind
	}{
		{"id in use", db.CreateKey(t.Context(), sameID), apierr.Conflict},
		{"secret in use", db.CreateKey(t.Context(), sameSecret), apierr.Conflict},
		{"no id", db.CreateKey(t.Context(), with(func(k *store.Key) { k.ID = "" })), apierr.Invalid},
		{"no name", db.CreateKey(t.Context(), with(func(k *store.Key) { k.Name = "" })), apierr.Invalid},
		{"no hash", db.CreateKey(t.Context(), with(func(k *store.Key) { k.Hash = access.Hash{} })), apierr.Invalid},
		{"unknown status", db.CreateKey(t.Context(), with(func(k *store.Key) { k.Status = "off" })), apierr.Invalid},
		{"revoking what is not there", db.RevokeKey(t.Context(), "none"), apierr.NotFound},
	} {
		if e, ok := errors.AsType[*apierr.Error](tt.err); !ok || e.Kind != tt.want {
			t.Errorf("%s: error = %v, want kind %d", tt.name, tt.err, tt.want)
		}
	}
	mustRevision(t, db, 1)
	if got := len(mustKeys(t, db)); got != 1 {
		t.Errorf("%d keys after refused changes, want 1", got)
	}
}

func TestAKeyExpiresByTheClock(t *testing.T) {
	k := sampleKey("ci")
	k.ExpiresAt = k.CreatedAt.Add(time.Hour)
	for _, tt := range []struct {
		name   string
		status string
		after  time.Duration
		want   string
	}{
		{"before", store.KeyActive, time.Minute, store.KeyActive},
		{"at its time", store.KeyActive, time.Hour, store.KeyExpired},
		{"used up before", store.KeyExhausted, 2 * time.Hour, store.KeyExpired},
		{"revoked before", store.KeyRevoked, 2 * time.Hour, store.KeyRevoked},
	} {
		k.Status = tt.status
		if got := k.StatusAt(k.CreatedAt.Add(tt.after)); got != tt.want {
			t.Errorf("%s: StatusAt() = %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestAnIdentityIsWhatTheKeySays(t *testing.T) {
	k := sampleKey("ci")
	k.Providers = []string{"openai"}
	k.ExpiresAt = k.CreatedAt.Add(time.Hour)
	want := &access.Identity{KeyID: k.ID, Type: access.WorkspaceService, Name: "ci", Hash: k.Hash, Organisation: "acme", Workspace: "main",
		Scopes: k.Scopes, Providers: k.Providers, ExpiresAt: k.ExpiresAt}
	if diff := cmp.Diff(want, k.Identity()); diff != "" {
		t.Errorf("Identity() (-want +got):\n%s", diff)
	}
}

func TestAMaskShowsTwoCharactersAtEachEnd(t *testing.T) {
	for key, want := range map[string]string{
		"mg-0123456789abcdefghij": "mg***ij",
		"short":                   "***",
		"":                        "***",
	} {
		if got := store.Mask(secret.New(key)); got != want {
			t.Errorf("Mask(%q) = %q, want %q", key, got, want)
		}
	}
}

// TestProcessesShareADatabase opens the same new database many times at once,
// as a server and commands next to it do.
func TestProcessesShareADatabase(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		const processes, each = 6, 5
		var wg sync.WaitGroup
		for p := range processes {
			wg.Go(func() {
				db, err := store.Open(t.Context(), dsn, store.Options{Connections: 2})
				if err != nil {
					t.Error(err)
					return
				}
				defer db.Close()
				for i := range each {
					if err := db.CreateKey(t.Context(), sampleKey(fmt.Sprint(p, i))); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		db := storetest.Open(t, dsn)
		mustRevision(t, db, processes*each)
		if got := len(mustKeys(t, db)); got != processes*each {
			t.Errorf("%d keys, want %d", got, processes*each)
		}
	})
}

func TestTheFileIsItsOwnersAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "modelgate.db")
	db := mustOpen(t, path)
	mustCreate(t, db, sampleKey("ci"))
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o600 {
			t.Errorf("mode of %s = %o, want 600", filepath.Base(name), got)
		}
	}
}

func TestDatabasesThatCannotBeOpenedAreReportedInOneLine(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir) // where an address that is taken for a path would become a file
	file := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(file, []byte(strings.Repeat("this is not a database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, dsn, says string }{
		{"folder missing", "file:" + filepath.Join(dir, "none", "a.db"), "does not exist"},
		{"folder is a file", "file:" + filepath.Join(file, "a.db"), "does not exist"},
		{"path is a folder", "file:" + dir, "is a folder"},
		{"not a database", "file:" + file, "not an SQLite database"},
		{"another kind", "mysql://host/db", "not supported"},
		{"keywords", "host=h port=5432 user=u password=hush dbname=d", "use postgres://user:password@host:5432/name"},
		{"keywords in another order", " password = hush dbname=d", "use postgres://"},
		{"parameters", "file:" + file + "?mode=ro", "parameters"},
		{"in memory", "file::memory:", "a file path is required"},
		{"empty", "", "a file path is required"},
		{"unwritable folder", "file:/proc/a.db", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := store.Open(t.Context(), tt.dsn, store.Options{})
			if err == nil || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "hush") {
				t.Errorf("Open(%q) = %v; want one line that says %q", tt.dsn, err, tt.says)
			}
		})
	}
}

var made atomic.Int64

func mustOpen(t *testing.T, path string) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func mustCreate(t *testing.T, db *store.DB, keys ...store.Key) {
	t.Helper()
	for _, k := range keys {
		if err := db.CreateKey(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
}

func mustKeys(t *testing.T, db *store.DB) []store.Key {
	t.Helper()
	keys, err := db.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func mustRevision(t *testing.T, db *store.DB, want int64) {
	t.Helper()
	if got, err := db.Revision(t.Context()); err != nil || got != want {
		t.Fatalf("Revision() = %d, %v; want %d", got, err, want)
	}
}

// sampleKey returns a key that is newer than those made before.
func sampleKey(name string) store.Key {
	created := time.UnixMilli(1_800_000_000_000).Add(time.Duration(made.Add(1)) * time.Millisecond)
	return store.Key{
		ID: reqlog.NewID(created).String(), Name: name, Hash: access.HashKey(access.NewKey().Reveal()), Mask: "mg-…abcd",
		Organisation: "acme", Workspace: "main", Scopes: []access.Scope{access.ScopeAll}, Status: store.KeyActive,
		Type: access.WorkspaceService, Defaults: json.RawMessage("{}"), UsageLimits: json.RawMessage("null"),
		RateLimits: json.RawMessage("[]"), AlertEmails: json.RawMessage("[]"), RotationPolicy: json.RawMessage("null"), CreationMode: "api",
		CreatedAt: created.UTC(), UpdatedAt: created.UTC(),
	}
}

func inDefault(name string) store.Key {
	k := sampleKey(name)
	k.Organisation, k.Workspace = store.DefaultOrganisation, store.DefaultWorkspace
	return k
}

func addEntry(t *testing.T, tx *store.Tx) error {
	now := time.Now()
	err := tx.CreateIntegration(t.Context(), store.Integration{ID: "i1", Organisation: store.DefaultOrganisation, Slug: "sim", Name: "Sim",
		Provider: "openai", GlobalEnabled: true, Status: store.Active, CreatedAt: now, UpdatedAt: now})
	if err != nil {
		return err
	}
	err = tx.PutIntegrationModel(t.Context(), store.IntegrationModel{Integration: "i1", Slug: "m", Name: "m", Enabled: true})
	if err != nil {
		return err
	}
	return tx.CreateProvider(t.Context(), store.Provider{ID: "p1", Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace,
		Integration: "i1", Slug: "stored", Name: "Stored", Status: store.Active, CreatedAt: now, UpdatedAt: now})
}
