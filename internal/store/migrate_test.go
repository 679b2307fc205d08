package store

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlite"
)

func TestMigrationsGoForwardOnceAndAsAWhole(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	first := file("CREATE TABLE a (n BIGINT); INSERT INTO a (n) VALUES (1)")
	second := file("CREATE TABLE b (n BIGINT)")
	for _, tt := range []struct {
		name   string
		before fstest.MapFS
		then   fstest.MapFS
		says   string // empty when it works
		tables int    // of a and b afterwards
	}{
		{"again", fstest.MapFS{"migrations/0001_a.sql": first}, fstest.MapFS{"migrations/0001_a.sql": first}, "", 1},
		{"forward", fstest.MapFS{"migrations/0001_a.sql": first}, fstest.MapFS{"migrations/0001_a.sql": first, "migrations/0002_b.sql": second}, "", 2},
		{"newer database", fstest.MapFS{"migrations/0001_a.sql": first, "migrations/0002_b.sql": second}, fstest.MapFS{"migrations/0001_a.sql": first}, "newer modelgate", 2},
		{"changed file", fstest.MapFS{"migrations/0001_a.sql": first}, fstest.MapFS{"migrations/0001_a.sql": second}, "other content", 1},
		{"broken file", fstest.MapFS{"migrations/0001_a.sql": first}, fstest.MapFS{"migrations/0001_a.sql": first, "migrations/0002_b.sql": file("CREATE TABLE b (n BIGINT); nonsense")}, "applying migration 0002_b", 1},
		{"gap", fstest.MapFS{"migrations/0001_a.sql": first}, fstest.MapFS{"migrations/0001_a.sql": first, "migrations/0003_b.sql": second}, "0002", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			db, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "a.db")})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if _, err := migrate(t.Context(), journal.New(db.Write, ""), "", tt.before); err != nil {
				t.Fatal(err)
			}
			_, err = migrate(t.Context(), journal.New(db.Write, ""), "", tt.then)
			if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("migrate() = %v, want an error that says %q", err, tt.says)
			}
			var tables int
			q := `SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name IN ('a', 'b')`
			if err := db.Read.QueryRow(q).Scan(&tables); err != nil || tables != tt.tables {
				t.Errorf("%d tables, %v; want %d", tables, err, tt.tables)
			}
		})
	}
}

// TestOlderProgramsStartUnlessAMigrationIsRequired migrates with a newer program, starts an
// older one, and then the newer one again.
func TestOlderProgramsStartUnlessAMigrationIsRequired(t *testing.T) {
	files := func(n int, more ...string) fstest.MapFS {
		all := fstest.MapFS{}
		for i := 1; i <= n; i++ {
			all[fmt.Sprintf("migrations/%04d_a.sql", i)] = &fstest.MapFile{Data: fmt.Appendf(nil, "CREATE TABLE a%d (n BIGINT)", i)}
		}
		for i, text := range more {
			all[fmt.Sprintf("migrations/%04d_b.sql", n+1+i)] = &fstest.MapFile{Data: []byte(text)}
		}
		return all
	}
	const (
		adds  = "CREATE TABLE b (n BIGINT)"
		other = "CREATE TABLE c (n BIGINT)"
	)
	for _, tt := range []struct {
		name         string
		newer, older fstest.MapFS
		says         string // empty when the older program starts
		required     int    // rows that the first release reads
	}{
		{"one addition", files(lastRequired, adds), files(lastRequired), "", lastRequired},
		{"an older program that knows additions", files(lastRequired, adds, other), files(lastRequired, adds), "", lastRequired},
		{"a required one", files(lastRequired, requiredLine+adds), files(lastRequired), "created by a newer modelgate", lastRequired + 1},
		{"a required one after an addition", files(lastRequired, other, requiredLine+adds), files(lastRequired, other), "created by a newer modelgate", lastRequired + 1},
		{"another addition with the same number", files(lastRequired, adds, other), files(lastRequired, other), "other content", lastRequired},
	} {
		t.Run(tt.name, func(t *testing.T) {
			db, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "a.db")})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			w := journal.New(db.Write, "")
			if _, err := migrate(t.Context(), w, "", tt.newer); err != nil {
				t.Fatal(err)
			}
			var n int
			if err := db.Read.QueryRow(`SELECT COUNT(*) FROM schema_migrations`).Scan(&n); err != nil || n != tt.required {
				t.Errorf("%d required migrations, %v; want %d", n, err, tt.required)
			}
			applied, err := migrate(t.Context(), w, "", tt.older)
			if len(applied) > 0 || (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("the older program applied %v, %v; want nothing and %q", applied, err, tt.says)
			}
			if applied, err = migrate(t.Context(), w, "", tt.newer); len(applied) > 0 || err != nil {
				t.Errorf("the newer program applied %v, %v when it came back", applied, err)
			}
		})
	}
}
