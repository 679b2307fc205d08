package store_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"modelgate/internal/base/apierr"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

func TestEveryEarlierVersionIsBroughtUpToDate(t *testing.T) {
	files, err := filepath.Glob("migrations/*.sql")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		old := mustRaw(t, dsn)
		mustRun(t, old, `CREATE TABLE schema_migrations (version BIGINT PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied_at BIGINT NOT NULL)`)
		mustApply(t, old, 1, files[0])
		hash := access.HashKey("mg-old")
		mustRun(t, old, `INSERT INTO api_keys (id, name, hash, mask, organisation, workspace, scopes, providers, status, created_at, expires_at)
			VALUES ('k1', 'old', '`+hash.String()+`', 'mg-…abcd', '', '', '["completions.write"]', '["groq"]', 'active', 1700000000000, 1900000000000)`)
		mustRun(t, old, `INSERT INTO api_keys (id, name, hash, mask, organisation, workspace, scopes, providers, status, created_at, expires_at)
			VALUES ('k2', 'gone', 'x', 'mg-…', '', '', '["*"]', '[]', 'revoked', 1700000000000, NULL)`)
		mustRun(t, old, `UPDATE revision SET value = 41`)
		for i, file := range files[1 : len(files)-1] { // what lies between the first version and the last
			mustApply(t, old, i+2, file)
		}
		db, err := store.Connect(t.Context(), dsn, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if missing, err := db.Missing(t.Context()); err != nil || len(missing) != 1 || !strings.HasPrefix(files[len(files)-1], "migrations/"+missing[0]) {
			t.Errorf("Missing() = %q, %v; want the last of %q", missing, err, files)
		}
		applied, err := db.Migrate(t.Context())
		if err != nil || len(applied) != 1 {
			t.Fatalf("Migrate() = %q, %v; want the last alone", applied, err)
		}
		mustRun(t, old, `UPDATE gateway_keys SET hash = '`+access.HashKey("x").String()+`' WHERE id = 'k2'`)
		keys := mustKeys(t, db)
		if len(keys) != 2 {
			t.Fatalf("%d keys, want 2", len(keys))
		}
		k := keys[0]
		if k.Name != "old" || k.Hash != hash || k.Organisation != store.DefaultOrganisation || k.Workspace != store.DefaultWorkspace ||
			k.Type != access.WorkspaceService || k.Status != store.KeyActive || len(k.Scopes) != 1 || len(k.Providers) != 1 ||
			k.ExpiresAt.UnixMilli() != 1900000000000 || keys[1].Status != store.KeyRevoked {
			t.Errorf("keys of the first version = %+v", keys)
		}
		mustRevision(t, db, 41)
		if again, err := db.Migrate(t.Context()); err != nil || len(again) != 0 {
			t.Errorf("Migrate() again = %q, %v; want nothing to do", again, err)
		}
	})
}

func TestLookingForMigrationsChangesNothing(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		db, err := store.Connect(t.Context(), dsn, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		for range 2 {
			if missing, err := db.Missing(t.Context()); err != nil || len(missing) < 2 {
				t.Errorf("Missing() of an empty database = %q, %v; want every migration", missing, err)
			}
		}
		var n int
		if err := mustRaw(t, dsn).QueryRow(`SELECT COUNT(*) FROM schema_migrations`).Scan(&n); err == nil {
			t.Error("looking has made the table of migrations")
		}
		err = db.Update(t.Context(), nil, func(*store.Tx) error { return nil })
		if e := apierr.From(err); e == nil || e.Kind != apierr.Unavailable {
			t.Errorf("a change before the tables are there: %v, want it refused", err)
		}
	})
}

// The change looks, and then writes by what it saw. Nothing may move under it.
func TestChangesOfSeveralProcessesComeOneAfterTheOther(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		const processes, each = 4, 5
		db := open()
		mustSaveConfig(t, db)
		var wg sync.WaitGroup
		for p := range processes {
			other := open()
			wg.Go(func() {
				for i := range each {
					err := other.Update(t.Context(), nil, func(tx *store.Tx) error {
						c, err := tx.Config(t.Context(), store.DefaultOrganisation, "", "pc")
						if err != nil {
							return err
						}
						c.Name += "+" // lost where two read the same
						id := fmt.Sprintf("v-%d-%d", p, i)
						c.VersionID = id
						return tx.UpdateConfig(t.Context(), c, &store.ConfigVersion{ID: id, Config: c.ID, Text: "{}", CreatedAt: time.Now()})
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		c, err := db.Config(t.Context(), store.DefaultOrganisation, "", "pc")
		if got := strings.Count(c.Name, "+"); err != nil || got != processes*each {
			t.Errorf("%d of %d changes left their mark, %v", got, processes*each, err)
		}
		versions, err := db.ConfigVersions(t.Context(), c.ID)
		if err != nil || len(versions) != processes*each+1 || versions[0].Number != processes*each+1 {
			t.Errorf("%d versions up to %d, %v; want %d without a gap", len(versions), versions[0].Number, err, processes*each+1)
		}
		mustRevision(t, db, processes*each+1)
	})
}

func TestTheReadPoolRefusesChanges(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		var id string
		err := db.Reader.QueryRowContext(t.Context(), `UPDATE organisations SET name = 'written outside of a change' RETURNING id`).Scan(&id)
		if err == nil {
			t.Error("a change outside of Change was kept: no audit, no revision")
		}
	})
}

func TestAPageIsAPartOfTheList(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		mustSaveConfig(t, db)
		list, total, err := db.Configs(t.Context(), store.DefaultOrganisation, store.DefaultWorkspace, store.Page{Number: 0, Size: 1})
		if err != nil || len(list) != 1 || total != 1 || !list[0].IsDefault {
			t.Errorf("Configs() = %+v, %d, %v; want the one", list, total, err)
		}
		list, total, err = db.Configs(t.Context(), store.DefaultOrganisation, "", store.Page{Number: 1, Size: 1})
		if err != nil || len(list) != 0 || total != 1 {
			t.Errorf("Configs() after the end = %+v, %d, %v; want none of 1", list, total, err)
		}
		for at, want := range map[[3]string]int{
			{store.DefaultOrganisation, "", "pc"}: 1, {store.DefaultOrganisation, store.DefaultWorkspace, "pc"}: 1,
			{store.DefaultOrganisation, "other", "pc"}: 0, {"other", "", "pc"}: 0, {store.DefaultOrganisation, "", "c1"}: 0,
		} {
			if ids, err := db.ConfigIDs(t.Context(), at[0], at[1], at[2]); err != nil || len(ids) != want || want == 1 && ids[0] != "c1" {
				t.Errorf("ConfigIDs(%q) = %q, %v; want %d", at, ids, err, want)
			}
		}
	})
}

func TestOtherProcessesAreNotifiedOfAChange(t *testing.T) {
	dsn := storetest.Postgres(t)
	relay, through := storetest.NewRelay(t, dsn)
	listener, writer := storetest.Open(t, through), storetest.Open(t, dsn)
	told := make(chan struct{}, 100)
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		listener.Listen(t.Context(), store.Listener{Changed: func() { told <- struct{}{} }})
	}()
	t.Cleanup(func() { <-listening })
	word := func(what string) {
		t.Helper()
		select {
		case <-told:
		case <-time.After(time.Minute):
			t.Fatalf("nothing was reported %s", what)
		}
	}
	word("at the beginning")
	mustCreate(t, writer, sampleKey("one"))
	word("of a change")
	writer.Update(t.Context(), nil, func(*store.Tx) error { return apierr.New(apierr.Invalid, "no") })
	relay.Cut()
	word("after the connection broke")
	mustCreate(t, writer, sampleKey("two"))
	word("of a change after the connection broke")
	select {
	case <-told:
		t.Error("a change that was not kept was reported")
	default:
	}
}

func TestAnUnavailableDatabaseIsReported(t *testing.T) {
	server := storetest.NewServer(t)
	db := storetest.Open(t, server.DSN())
	k := sampleKey("before")
	mustCreate(t, db, k)
	server.Stop()
	mustBeUnavailable(t, "a change", db.CreateKey(t.Context(), sampleKey("in the meantime")))
	_, err := db.Keys(t.Context())
	mustBeUnavailable(t, "reading", db.ClientError(err))
	if _, err := store.Open(t.Context(), server.DSN(), store.Options{}); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("Open() = %v, want one line", err)
	} else {
		mustBeUnavailable(t, "opening", err)
	}
	server.Start(t)
	mustCreate(t, db, sampleKey("after"))
	if got := len(mustKeys(t, db)); got != 2 {
		t.Errorf("%d keys after it came back, want 2", got)
	}
	if err := db.RevokeKey(t.Context(), k.ID); err != nil {
		t.Error(err)
	}
}

func TestRejectionsByAServerAreReportedInOneLine(t *testing.T) {
	dsn := storetest.Postgres(t)
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("stranger", "canary")
	stranger := u.String()
	u, _ = url.Parse(dsn)
	u.Path = "/none"
	for address, says := range map[string]string{stranger: "stranger", u.String(): "none"} {
		_, err := store.Open(t.Context(), address, store.Options{})
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "canary") {
			t.Errorf("Open(%s) = %v, want one line with %q and no password", address, err, says)
		}
	}
}

func TestADatabaseThatCanOnlyBeReadIsRead(t *testing.T) {
	dsn := storetest.Postgres(t)
	mustCreate(t, storetest.Open(t, dsn), sampleKey("before"))
	u := dsn + "&default_transaction_read_only=on"
	if !strings.Contains(dsn, "?") {
		u = dsn + "?default_transaction_read_only=on"
	}
	db := storetest.Open(t, u)
	if got := len(mustKeys(t, db)); got != 1 {
		t.Errorf("%d keys, want 1", got)
	}
	mustBeUnavailable(t, "a change", db.CreateKey(t.Context(), sampleKey("in the meantime")))
}

func TestADatabaseThatDoesNotAnswerEndsWithTheRequest(t *testing.T) {
	relay, dsn := storetest.NewRelay(t, storetest.Postgres(t))
	db := storetest.Open(t, dsn)
	relay.Delay(20 * time.Millisecond)
	mustCreate(t, db, sampleKey("slowly"))
	relay.Delay(0)
	relay.Pause(true)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	mustBeUnavailable(t, "a change", db.CreateKey(ctx, sampleKey("never")))
	if took := time.Since(began); took >= 10*time.Second || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Errorf("it took %v, want it to end with its request", took)
	}
}

func mustBeUnavailable(t *testing.T, what string, err error) {
	t.Helper()
	if e := apierr.From(err); e == nil || e.Kind != apierr.Unavailable {
		t.Errorf("%s: %v, want kind Unavailable", what, err)
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

// mustRaw opens the database without the store.
func mustRaw(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	driver, address := "pgx", dsn
	if path, ok := strings.CutPrefix(dsn, "file:"); ok {
		driver, address = "sqlite", path
	}
	db, err := sql.Open(driver, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func mustRun(t *testing.T, db *sql.DB, text string) {
	t.Helper()
	storetest.ExecOn(t, db, text)
}

// mustApply applies a migration as a program of its time did.
func mustApply(t *testing.T, db *sql.DB, version int, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	mustRun(t, db, string(text))
	sum := sha256.Sum256(text)
	name := strings.TrimSuffix(filepath.Base(file), ".sql")
	mustRun(t, db, fmt.Sprintf(`INSERT INTO schema_migrations (version, name, checksum, applied_at) VALUES (%d, '%s', '%s', 1)`,
		version, name, hex.EncodeToString(sum[:])))
}
