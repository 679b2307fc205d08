package journal_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlite"
)

// mustOpen makes a database with a table of keys, at revision zero.
func mustOpen(t *testing.T) *journal.DB {
	t.Helper()
	file, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "a.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	for _, text := range []string{
		`CREATE TABLE revision (id BIGINT PRIMARY KEY, value BIGINT NOT NULL)`, `INSERT INTO revision (id, value) VALUES (1, 0)`,
		`CREATE TABLE changes (revision BIGINT NOT NULL, mark TEXT NOT NULL, part TEXT NOT NULL, id TEXT NOT NULL)`,
		`CREATE TABLE gateway_keys (id TEXT PRIMARY KEY)`,
	} {
		if _, err := file.Write.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	return journal.New(file.Write, "")
}

// mustChange makes a change that records rows.
func mustChange(t *testing.T, db *journal.DB, rows ...journal.Rows) {
	t.Helper()
	err := db.Change(t.Context(), func(tx *journal.Tx) error {
		for _, r := range rows {
			if err := tx.Record(r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func mustSince(t *testing.T, db *journal.DB, before journal.State, revision int64) *journal.Changes {
	t.Helper()
	c, err := journal.Since(t.Context(), db, before, revision)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestChangesNameWhatWasWrittenSince(t *testing.T) {
	db := mustOpen(t)
	mustChange(t, db, journal.Configs)
	first := mustSince(t, db, journal.State{}, 1)
	if !first.Wrote() || first.Until.Revision != 1 || first.Until.Mark == "" {
		t.Errorf("without a state before: %+v, want that anything may have been written", first)
	}
	mustChange(t, db, journal.Keys.Row("one"), journal.Unpublished)
	mustChange(t, db, journal.Keys.Row("two"), journal.Rows("sessions"))
	c := mustSince(t, db, first.Until, 3)
	if ids, ok := c.IDs(journal.Keys); !ok || len(ids) != 2 || !c.Wrote(journal.Keys) {
		t.Errorf("keys %v, %t, want one and two", ids, ok)
	}
	if c.Wrote(journal.Configs, "sessions") {
		t.Error("tables that were not written to count as written")
	}
	var many []journal.Rows
	for i := range 60 {
		many = append(many, journal.Keys.Row(fmt.Sprint(i)))
	}
	mustChange(t, db, many...)
	if ids, ok := mustSince(t, db, c.Until, 4).IDs(journal.Keys); ok {
		t.Errorf("after many keys: %v, want any", ids)
	}
}

func TestAGapOrAnotherHistoryMayHaveWrittenAnything(t *testing.T) {
	for _, tt := range []struct {
		name   string
		broken string
		before func(journal.State) journal.State
	}{
		{"a change past the journal", `UPDATE revision SET value = 3`, nil},
		{"a record that is gone", `DELETE FROM changes WHERE revision = 2`, nil},
		{"the state before it is gone", `DELETE FROM changes WHERE revision = 1`, nil},
		{"another history", "", func(s journal.State) journal.State { s.Mark = "other"; return s }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			db := mustOpen(t)
			mustChange(t, db)
			before := mustSince(t, db, journal.State{}, 1).Until
			mustChange(t, db)
			if tt.broken != "" {
				if _, err := db.Exec(t.Context(), tt.broken); err != nil {
					t.Fatal(err)
				}
			}
			if tt.before != nil {
				before = tt.before(before)
			}
			var revision int64
			if err := db.QueryRowContext(t.Context(), `SELECT value FROM revision`).Scan(&revision); err != nil {
				t.Fatal(err)
			}
			if c := mustSince(t, db, before, revision); !slices.ContainsFunc(journal.Published(), func(r journal.Rows) bool { return c.Wrote(r) }) {
				t.Error("nothing counts as written")
			}
		})
	}
}

func TestPublishedRowsAreWrittenOnlyWithARevision(t *testing.T) {
	db := mustOpen(t)
	err := db.Transact(t.Context(), func(tx *journal.Tx) error {
		_, err := tx.Exec(t.Context(), journal.Keys.Row("k"), `INSERT INTO gateway_keys (id) VALUES ('k')`)
		return err
	})
	if err == nil {
		t.Error("a key was written without a revision")
	}
	failed := errors.New("failed")
	err = db.Change(t.Context(), func(tx *journal.Tx) error {
		if _, err := tx.Exec(t.Context(), journal.Keys.Row("k"), `INSERT INTO gateway_keys (id) VALUES ('k')`); err != nil {
			return err
		}
		return failed
	})
	var keys, revision int
	if err := db.QueryRowContext(t.Context(), `SELECT (SELECT COUNT(*) FROM gateway_keys), value FROM revision`).Scan(&keys, &revision); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, failed) || keys != 0 || revision != 0 {
		t.Errorf("a change that fails: %v, %d keys at revision %d, want nothing kept", err, keys, revision)
	}
}
