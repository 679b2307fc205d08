package store

import (
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
