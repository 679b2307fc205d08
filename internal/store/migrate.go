package store

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/postgres"
	"modelgate/internal/storage/sqlrow"
)

// migrations are applied in the order of their number. A file is never changed
// once it was released: the next change is the next file. It only adds, because programs of
// the version before run on the tables during an upgrade, and start on them after one. A
// file that cannot keep that begins with [requiredLine].
//
//go:embed migrations/*.sql
var migrations embed.FS

type migration struct {
	version  int64
	name     string
	text     string
	checksum string
	required bool // programs that do not know it must not start
}

// requiredLine is the first line of a migration after which older programs must not start.
const requiredLine = "-- required\n"

// lastRequired is the last migration from the time when all of them were required.
const lastRequired = 25

// Tables of the applied migrations. Programs refuse a database with a row of the first that
// they do not know, and ignore such rows of the second.
const (
	requiredTable = "schema_migrations"
	addedTable    = "schema_additions"
)

// table returns the table that records m.
func (m migration) table() string {
	if m.required {
		return requiredTable
	}
	return addedTable
}

// errDone ends the loop of migrate when all are applied.
var errDone = errors.New("up to date")

// migrate applies the missing migrations, each in a transaction, and returns their
// names. The transaction takes a lock before it reads (SQLite when it begins,
// PostgreSQL by the statement lock), so a file is applied once even if two processes
// start together.
func migrate(ctx context.Context, db *journal.DB, lock string, files fs.FS) (applied []string, err error) {
	all, err := readMigrations(files)
	if err != nil {
		return nil, err
	}
	locked := func(f func(*journal.Tx) error) error {
		return db.Transact(ctx, func(tx *journal.Tx) error {
			if lock != "" {
				if _, err := tx.Exec(ctx, journal.Unpublished, lock); err != nil {
					return fmt.Errorf("waiting for another process that migrates: %w", err)
				}
			}
			return f(tx)
		})
	}
	if err := locked(func(tx *journal.Tx) error { return createHistory(ctx, tx) }); err != nil {
		return nil, err
	}
	for {
		var next migration
		err := locked(func(tx *journal.Tx) (err error) {
			next, err = step(ctx, tx, all)
			return err
		})
		if errors.Is(err, errDone) {
			return applied, nil
		}
		if err != nil {
			return applied, err
		}
		applied = append(applied, next.name)
	}
}

// missing returns the names of the migrations that migrate would apply. It creates the
// table of migrations and rolls back.
func missing(ctx context.Context, db *journal.DB, files fs.FS) (names []string, err error) {
	err = db.Transact(ctx, func(tx *journal.Tx) error {
		if err := createHistory(ctx, tx); err != nil {
			return err
		}
		if names, err = pending(ctx, tx, files); err != nil {
			return err
		}
		return errDone
	})
	if errors.Is(err, errDone) {
		err = nil
	}
	return names, err
}

// pending returns the names of the migrations that were not applied.
func pending(ctx context.Context, q sqlrow.Reader, files fs.FS) ([]string, error) {
	all, err := readMigrations(files)
	if err != nil {
		return nil, err
	}
	left, err := unapplied(ctx, q, all)
	names := make([]string, len(left))
	for i, m := range left {
		names[i] = m.name
	}
	return names, err
}

// readMigrations reads the files migrations/NNNN_words.sql, numbered from one without
// gaps.
func readMigrations(files fs.FS) ([]migration, error) {
	names, err := fs.Glob(files, "migrations/*.sql") // sorted
	if err != nil {
		return nil, fmt.Errorf("listing migrations: %w", err)
	}
	var all []migration
	for i, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("reading migration %s: %w", name, err)
		}
		base := strings.TrimSuffix(path.Base(name), ".sql")
		number, _, _ := strings.Cut(base, "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil || version != int64(i+1) {
			return nil, fmt.Errorf("migration %s: its name must begin with the number %04d", name, i+1)
		}
		sum := sha256.Sum256(text)
		required := version <= lastRequired || strings.HasPrefix(string(text), requiredLine)
		all = append(all, migration{version, base, string(text), hex.EncodeToString(sum[:]), required})
	}
	return all, nil
}

// historyText returns the statement that creates a table of applied migrations.
func historyText(table string) string {
	return `
		CREATE TABLE IF NOT EXISTS ` + table + ` (
			version BIGINT PRIMARY KEY,
			name TEXT NOT NULL,
			checksum TEXT NOT NULL,
			applied_at BIGINT NOT NULL
		)`
}

func createHistory(ctx context.Context, tx *journal.Tx) error {
	for _, table := range []string{requiredTable, addedTable} {
		if _, err := tx.Exec(ctx, journal.Unpublished, historyText(table)); err != nil {
			return fmt.Errorf("creating the tables of migrations: %w", err)
		}
	}
	return nil
}

// step applies the next migration and returns it, or returns errDone.
func step(ctx context.Context, tx *journal.Tx, all []migration) (next migration, err error) {
	left, err := unapplied(ctx, tx, all)
	if err != nil {
		return next, err
	}
	if len(left) == 0 {
		return next, errDone
	}
	return left[0], apply(ctx, tx, left[0])
}

// unapplied checks the applied migrations and returns the others. Applied migrations that
// this program does not know are an error if they are required.
func unapplied(ctx context.Context, q sqlrow.Reader, all []migration) (left []migration, err error) {
	applied, err := appliedMigrations(ctx, q, requiredTable)
	if err != nil {
		return nil, err
	}
	if n := len(applied); n > 0 && applied[n-1].version > int64(len(all)) {
		return nil, fmt.Errorf("created by a newer modelgate (its tables are at %s, this program knows %d migrations); run that version or a later one",
			applied[n-1].name, len(all))
	}
	if len(all) > lastRequired { // the other table has nothing else for this program
		added, err := appliedMigrations(ctx, q, addedTable)
		if err != nil && !isMissingTable(err, addedTable) { // a program without the table left no rows
			return nil, err
		}
		applied = append(applied, added...)
	}
	known := make(map[int64]bool, len(applied))
	for _, a := range applied {
		if a.version < 1 || a.version > int64(len(all)) {
			continue // of a newer program, which only added
		}
		known[a.version] = true
		if want := all[a.version-1]; a.checksum != want.checksum {
			return nil, fmt.Errorf("migration %s was applied with other content than this program's %s; run the version that created the database",
				a.name, want.name)
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(m migration) bool { return known[m.version] }), nil
}

// isMissingTable reports whether a statement failed because a table does not exist.
func isMissingTable(err error, table string) bool {
	text := err.Error()
	return strings.Contains(text, "no such table: "+table) || postgres.Code(err) == "42P01" && strings.Contains(text, `"`+table+`"`)
}

func appliedMigrations(ctx context.Context, q sqlrow.Reader, table string) ([]migration, error) {
	text := `
		SELECT version, name, checksum
		FROM ` + table + `
		ORDER BY version`
	return sqlrow.List(ctx, q, "the applied migrations", text, func(r sqlrow.Scanner) (m migration, err error) {
		return m, r.Scan(&m.version, &m.name, &m.checksum)
	})
}

func apply(ctx context.Context, tx *journal.Tx, m migration) error {
	q := `
		INSERT INTO ` + m.table() + ` (version, name, checksum, applied_at)
		VALUES ($1, $2, $3, $4)`
	if _, err := tx.Exec(ctx, journal.Unpublished, m.text); err != nil {
		return fmt.Errorf("applying migration %s: %w", m.name, err)
	}
	if _, err := tx.Exec(ctx, journal.Unpublished, q, m.version, m.name, m.checksum, time.Now().UnixMilli()); err != nil {
		return fmt.Errorf("recording migration %s: %w", m.name, err)
	}
	return nil
}

// Migration is a step of the schema.
type Migration struct {
	Name     string // NNNN_words
	Checksum string // hexadecimal
	Text     string // statements that apply it and record that
}

// Migrations returns all steps of the schema in their order. The first is preceded by the
// statements that create the tables of steps.
func Migrations() ([]Migration, error) {
	all, err := readMigrations(migrations)
	list := make([]Migration, len(all))
	for i, m := range all {
		text := fmt.Sprintf("%s;\nINSERT INTO %s (version, name, checksum, applied_at) VALUES (%d, '%s', '%s', %d);\n",
			strings.TrimRight(m.text, "; \n"), m.table(), m.version, m.name, m.checksum, time.Now().UnixMilli())
		if i == 0 {
			text = historyText(requiredTable) + ";" + historyText(addedTable) + ";\n" + text
		}
		list[i] = Migration{m.name, m.checksum, text}
	}
	return list, err
}

// HistoryTables returns the tables in which [Migrations] are recorded.
func HistoryTables() []string { return []string{requiredTable, addedTable} }
