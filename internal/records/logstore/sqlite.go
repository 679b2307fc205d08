package logstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"modelgate/internal/storage/sqlite"
)

// Format is the version of the tables and of the blocks in them.
const Format = 1

// pragmas of the writing connection. Rarer checkpoints reduce the overhead per entry.
// Files created before pruning existed keep freed space for later entries.
var pragmas = []string{"auto_vacuum(2)", "wal_autocheckpoint(4000)", "journal_size_limit(67108864)"}

// sqliteBackend stores blocks in an SQLite file.
type sqliteBackend struct {
	tables
	file   *sqlite.DB
	broken bool // the connection must be replaced; used by prepare only
}

func openFile(ctx context.Context, path string) (*sqliteBackend, error) {
	file, err := sqlite.Open(ctx, sqlite.Options{Path: path, Pragmas: pragmas})
	if err != nil {
		return nil, err
	}
	k := &sqliteBackend{tables: tables{read: file.Read, write: file.Write, lost: sqlite.IsCorrupt}, file: file}
	k.tables.prepare = k.prepare
	if err := k.create(ctx); err != nil {
		file.Close()
		return nil, fmt.Errorf("log database %s: %w", file.Path, err)
	}
	return k, nil
}

// prepare creates the tables, or returns an error for a file of a later format. After a
// failure of the connection, for example because the file was moved or its disk was
// unavailable, it replaces the connection.
func (k *sqliteBackend) prepare(ctx context.Context) error {
	const schema = `
		CREATE TABLE IF NOT EXISTS blocks (
			last_id BYTEA NOT NULL,
			serial BIGINT NOT NULL,
			first_id BYTEA NOT NULL,
			entries BIGINT NOT NULL,
			data BYTEA NOT NULL,
			PRIMARY KEY (last_id, serial)
		) WITHOUT ROWID;
		CREATE TABLE IF NOT EXISTS bodies (
			id BYTEA NOT NULL PRIMARY KEY,
			data BYTEA NOT NULL
		)`
	if k.broken {
		if err := k.file.Redial(); err != nil {
			return err
		}
	}
	k.broken = true // until prepare succeeds
	var version int
	if err := k.write.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil {
		return fmt.Errorf("reading its format: %w", err)
	}
	if err := newer(version); err != nil {
		return err
	}
	if _, err := k.write.ExecContext(ctx, schema+";"+rollupTables+";"+feedbackTable+";"+guardResultTable); err != nil {
		return fmt.Errorf("creating its tables: %w", err)
	}
	if err := k.addColumns(ctx, "feedback", feedbackColumns); err != nil {
		return fmt.Errorf("adding columns to its tables: %w", err)
	}
	if _, err := k.write.ExecContext(ctx, fmt.Sprintf(`PRAGMA user_version = %d`, Format)); err != nil {
		return fmt.Errorf("writing its format: %w", err)
	}
	return nil
}

// addColumns adds columns that a table lacks.
func (k *sqliteBackend) addColumns(ctx context.Context, table string, columns []string) error {
	const known = `SELECT COUNT(*) FROM pragma_table_info($1) WHERE name = $2`
	for _, column := range columns {
		name, _, _ := strings.Cut(column, " ")
		n := 0
		if err := k.write.QueryRowContext(ctx, known, table, name).Scan(&n); err != nil {
			return err
		}
		if n > 0 {
			continue
		}
		if _, err := k.write.ExecContext(ctx, `ALTER TABLE `+table+` ADD COLUMN `+column); err != nil {
			return err
		}
	}
	return nil
}

// newer returns an error for a later format than ours.
func newer(version int) error {
	if version <= Format {
		return nil
	}
	return fmt.Errorf("its format %d is of a newer modelgate (this one knows %d); run that version or a later one", version, Format)
}

func (k *sqliteBackend) isUnavailable(err error) bool {
	return sqlite.IsBusy(err) || sqlite.IsCorrupt(err) || sqlite.IsFull(err)
}

// sync syncs the write-ahead log, which SQLite itself does only at checkpoints.
func (k *sqliteBackend) sync(context.Context) error {
	f, err := os.OpenFile(k.file.Path+"-wal", os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil // a checkpoint has copied everything
	}
	if err != nil {
		return fmt.Errorf("syncing the log: %w", err)
	}
	if err := f.Sync(); err != nil {
		f.Close()
		return fmt.Errorf("syncing the log: %w", err)
	}
	return f.Close()
}

func (k *sqliteBackend) close() error { return k.file.Close() }

var _ backend = (*sqliteBackend)(nil)
