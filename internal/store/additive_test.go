package store_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// firstAdditive is the first migration that nodes of the version before must be able to
// ignore. The earlier ones are older than the first release.
const firstAdditive = 9

// column is a column of a table, as SQLite describes it.
type column struct {
	kind     string
	required bool
	value    sql.NullString // default
	key      int            // position in the primary key, from one
}

// TestMigrationsOnlyAdd compares the tables before and after each migration: during an
// upgrade, nodes of the version before read and write the tables after it. What they know
// must stay, and what they do not know must have a value without them.
func TestMigrationsOnlyAdd(t *testing.T) {
	files, err := filepath.Glob("migrations/*.sql")
	if err != nil || len(files) <= firstAdditive {
		t.Fatal(files, err)
	}
	db := mustRaw(t, "file:"+filepath.Join(t.TempDir(), "a.db"))
	mustRun(t, db, `CREATE TABLE schema_migrations (version BIGINT PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied_at BIGINT NOT NULL)`)
	for i, file := range files {
		columns, uniques := mustColumns(t, db), mustUniques(t, db)
		mustApply(t, db, i+1, file)
		if text, err := os.ReadFile(file); err != nil || i+1 < firstAdditive || strings.HasPrefix(string(text), "-- required\n") {
			continue
		}
		tables := make(map[string]bool)
		after := mustColumns(t, db)
		for name, before := range columns {
			if after[name] != before {
				t.Errorf("%s changes the column %s from %+v to %+v", file, name, before, after[name])
			}
			tables[tableOf(name)] = true
		}
		for name, c := range after {
			if _, known := columns[name]; !known && tables[tableOf(name)] && c.required && !c.value.Valid {
				t.Errorf("%s adds the column %s, which the version before cannot write; give it a default", file, name)
			}
		}
		for name, table := range mustUniques(t, db) {
			if _, known := uniques[name]; !known && tables[table] {
				t.Errorf("%s adds the unique index %s, which the version before may violate", file, name)
			}
		}
	}
}

func tableOf(column string) string {
	dir, _ := filepath.Split(column)
	return filepath.Clean(dir)
}

// mustColumns returns all columns by table/name.
func mustColumns(t *testing.T, db *sql.DB) map[string]column {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `
		SELECT m.name, c.name, c.type, c."notnull", c.dflt_value, c.pk
		FROM sqlite_master m, pragma_table_info(m.name) c
		WHERE m.type = 'table'`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	all := make(map[string]column)
	for rows.Next() {
		var table, name string
		var c column
		if err := rows.Scan(&table, &name, &c.kind, &c.required, &c.value, &c.key); err != nil {
			t.Fatal(err)
		}
		all[fmt.Sprintf("%s/%s", table, name)] = c
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// mustUniques returns the tables of unique indexes by the names of the indexes.
func mustUniques(t *testing.T, db *sql.DB) map[string]string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `
		SELECT m.name, i.name
		FROM sqlite_master m, pragma_index_list(m.name) i
		WHERE m.type = 'table' AND i."unique" = 1`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	all := make(map[string]string)
	for rows.Next() {
		var table, name string
		if err := rows.Scan(&table, &name); err != nil {
			t.Fatal(err)
		}
		all[name] = table
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
