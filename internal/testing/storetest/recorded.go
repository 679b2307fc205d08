package storetest

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"modelgate/internal/storage/journal"
)

// CheckRecorded fails the test at its end if rows of the SQLite database at dsn were
// written that no change recorded. Triggers collect the written rows and delete those
// in the journal. It does nothing for other databases, which run the same statements,
// and for benchmarks, which the triggers would slow down.
func CheckRecorded(t testing.TB, dsn string) {
	t.Helper()
	path, file := strings.CutPrefix(dsn, "file:")
	if _, measured := t.(*testing.B); measured || !file {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	db, err := openNextTo(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := noteWrites(ctx, db); err != nil {
		t.Fatalf("recording writes to %s: %v", path, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		var list sql.NullString
		err := db.QueryRowContext(ctx, `SELECT group_concat(DISTINCT part || ' ' || id) FROM unrecorded`).Scan(&list)
		if err == nil && list.Valid {
			t.Errorf("written to and not recorded as changed: %s", list.String)
		}
	})
}

// openNextTo opens the database at path for one connection next to the store's.
func openNextTo(path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(10000)&_pragma=synchronous(off)")
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return db, err
}

// noteWrites creates the triggers unless they are there, as in files of [Blank].
func noteWrites(ctx context.Context, db *sql.DB) error {
	if _, err := db.ExecContext(ctx, `SELECT 1 FROM unrecorded LIMIT 0`); err == nil {
		return nil
	}
	_, err := db.ExecContext(ctx, triggers())
	return err
}

// triggers returns the statements that create the triggers. Rows of keys are recorded
// by id because the journal records them one by one.
func triggers() string {
	var b strings.Builder
	b.WriteString(`
		BEGIN IMMEDIATE;
		CREATE TABLE IF NOT EXISTS unrecorded (revision BIGINT, part TEXT, id TEXT);
		CREATE TRIGGER IF NOT EXISTS recorded AFTER INSERT ON changes BEGIN
			DELETE FROM unrecorded WHERE revision = NEW.revision AND part = NEW.part AND NEW.id IN ('', id);
		END;`)
	for _, table := range journal.Published() {
		for event, row := range map[string]string{"INSERT": "NEW", "UPDATE": "NEW", "DELETE": "OLD"} {
			id := "''"
			if table == journal.Keys {
				id = row + ".id"
			}
			fmt.Fprintf(&b, `
		CREATE TRIGGER IF NOT EXISTS noted_%[1]s_%[2]s AFTER %[2]s ON %[1]s BEGIN
			INSERT INTO unrecorded (revision, part, id) SELECT value, '%[1]s', %[3]s FROM revision;
		END;`, table, event, id)
		}
	}
	b.WriteString("\nCOMMIT;")
	return b.String()
}

// ExecOn runs a statement on db without the store. [CheckRecorded] ignores its writes.
func ExecOn(t testing.TB, db *sql.DB, text string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var before int64
	checked := db.QueryRowContext(ctx, `SELECT COALESCE(MAX(rowid), 0) FROM unrecorded`).Scan(&before) == nil
	if _, err := db.ExecContext(ctx, text, args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if !checked {
		return
	}
	if _, err := db.ExecContext(ctx, `DELETE FROM unrecorded WHERE rowid > $1`, before); err != nil {
		t.Fatal(err)
	}
}
