package transfer_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
	"modelgate/internal/store/transfer"
	"modelgate/internal/testing/storetest"
)

// kinds are the two kinds of databases.
var kinds = []string{"sqlite", "postgres"}

// mustPlace returns a new place of a kind, without databases or with empty ones.
func mustPlace(t *testing.T, kind string) transfer.Place {
	t.Helper()
	data := t.TempDir()
	if kind == "postgres" {
		dsn := storetest.Postgres(t)
		return transfer.Place{Control: dsn, Log: logstore.Options{URL: dsn}, Data: data}
	}
	return transfer.Place{Control: "file:" + filepath.Join(data, "modelgate.db"), Log: logstore.Options{Path: filepath.Join(data, "logs.db")}, Data: data}
}

// mustFill creates the tables of a place and puts rows into all of them.
func mustFill(t *testing.T, p transfer.Place) {
	t.Helper()
	db, err := store.Open(t.Context(), p.Control, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	rows := mustRows(t)
	raw := mustOpen(t, p.Control)
	for _, row := range rows {
		if _, err := raw.ExecContext(t.Context(), row.text, row.args...); err != nil {
			t.Fatalf("%s %v: %v", row.text, row.args, err)
		}
	}
	mustLog(t, p, 0, 40)
}

// mustLog adds entries to the log, of several days.
func mustLog(t *testing.T, p transfer.Place, from, n int) {
	t.Helper()
	logs, err := logstore.Open(t.Context(), p.Log)
	if err != nil {
		t.Fatal(err)
	}
	for i := from; i < from+n; i++ {
		at := time.Date(2026, 11, 1+i%5, 12, 0, i, 0, time.UTC)
		e := &reqlog.Entry{ID: reqlog.NewID(at), Time: at, Sender: reqlog.Sender{Organisation: "o", Workspace: "w", KeyID: "k"}, Level: reqlog.LevelFull}
		e.Bodies = &reqlog.Bodies{Request: reqlog.Body{Data: bytes.Repeat([]byte{byte(i)}, 100)}}
		logs.Record(t.Context(), e)
	}
	if err := errors.Join(logs.Flush(t.Context()), logs.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
}

func mustOpen(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	driver, address := "pgx", dsn
	if path, ok := strings.CutPrefix(dsn, "file:"); ok {
		driver, address = "sqlite", path+"?_pragma=busy_timeout(10000)"
	}
	db, err := sql.Open(driver, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// insertion adds a row.
type insertion struct {
	text string
	args []any
}

// checks matches conditions such as CHECK (status IN ('active', 'archived')).
var checks = regexp.MustCompile(`CHECK \((\w+) IN \('(\w+)'`)

// mustRows returns three rows for each table of the schema, as an empty SQLite file describes
// it. Equal rows of all tables have the same texts, so that they can refer to one another.
func mustRows(t *testing.T) (list []insertion) {
	t.Helper()
	dsn := "file:" + filepath.Join(t.TempDir(), "schema.db")
	db, err := store.Open(t.Context(), dsn, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, table := range mustTables(t) {
		if table.name == "revision" {
			continue
		}
		allowed := make(map[string]string)
		for _, m := range checks.FindAllStringSubmatch(table.text, -1) {
			allowed[m[1]] = m[2]
		}
		for i := 1; i <= 3; i++ {
			list = append(list, table.row(i, allowed))
		}
	}
	return list
}

// table is a table of the control plane.
type table struct {
	name, text string
	columns    []tableColumn
}

type tableColumn struct {
	name, kind string
	required   bool
}

// row returns a row of a table. Columns that may be NULL are NULL in the second.
func (table table) row(i int, allowed map[string]string) insertion {
	var names, marks []string
	var args []any
	for n, c := range table.columns {
		var v any
		switch c.kind {
		case "TEXT":
			v = fmt.Sprintf("v%d \"é\\\n", i)
			if allowed[c.name] != "" {
				v = allowed[c.name]
			}
		case "BOOLEAN":
			v = i%2 == 0 && c.name != "is_default"
		case "BYTEA":
			v = []byte{0, byte(i), 255}
		default:
			v = int64(i)
		}
		if !c.required && i == 2 {
			v = nil
		}
		names, marks, args = append(names, c.name), append(marks, fmt.Sprintf("$%d", n+1)), append(args, v)
	}
	return insertion{"INSERT INTO " + table.name + " (" + strings.Join(names, ", ") + ") VALUES (" + strings.Join(marks, ", ") + ")", args}
}

// mustTables returns the tables of the control plane in the order of their creation.
func mustTables(t *testing.T) (list []table) {
	t.Helper()
	dsn := "file:" + filepath.Join(t.TempDir(), "schema.db")
	db, err := store.Open(t.Context(), dsn, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	raw := mustOpen(t, dsn)
	rows, err := raw.QueryContext(t.Context(), `
		SELECT m.name, m.sql, c.name, c.type, c."notnull" OR c.pk > 0
		FROM sqlite_master m, pragma_table_info(m.name) c
		WHERE m.type = 'table' AND m.name NOT LIKE 'schema\_%' ESCAPE '\'
		ORDER BY m.rowid, c.cid`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name, text string
		var c tableColumn
		if err := rows.Scan(&name, &text, &c.name, &c.kind, &c.required); err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 || list[len(list)-1].name != name {
			list = append(list, table{name: name, text: text})
		}
		list[len(list)-1].columns = append(list[len(list)-1].columns, c)
	}
	if err := rows.Err(); err != nil || len(list) < 50 {
		t.Fatalf("%d tables, %v", len(list), err)
	}
	return list
}

func noProgress(string, int64) {}
