package store

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/postgres"
	"modelgate/internal/storage/sqlite"
	"modelgate/internal/storage/sqlrow"
)

// Inspect opens a database as [Connect] does, for reading only: it creates and migrates
// nothing, and a change returns an error. The error of a missing file is an fs.ErrNotExist.
func Inspect(ctx context.Context, dsn string, o Options) (*DB, error) {
	if postgres.IsAddress(dsn) {
		o.Connections = 1
		return Connect(ctx, dsn, o)
	}
	if scheme, _, ok := strings.Cut(dsn, "://"); ok && scheme != "file" || keywords.MatchString(dsn) {
		return Connect(ctx, dsn, o) // its error
	}
	read, path, err := sqlite.Inspect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	return &DB{
		Queries: Queries{read}, read: read, write: journal.New(read, ""),
		engine: engine{name: path, conflict: sqlite.Conflict, away: isSQLiteUnavailable, full: sqlite.IsFull, explain: sqlite.Explain},
		close:  read.Close,
	}, nil
}

// Pending returns the names of the migrations that [DB.Migrate] would apply, and writes
// nothing. For an empty database it returns all of them.
func (db *DB) Pending(ctx context.Context) ([]string, error) {
	names, err := pending(ctx, db.Reader, migrations)
	if err != nil && isMissingTable(err, requiredTable) {
		all, err := readMigrations(migrations)
		for _, m := range all {
			names = append(names, m.name)
		}
		return names, err
	}
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", db.engine.name, db.engine.explain(err))
	}
	return names, nil
}

// tableName matches the names of tables that are counted.
var tableName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// CountRows returns the number of rows of each table that a reader sees, by its name: in the
// file of SQLite, or in the first schema of PostgreSQL's search path.
func CountRows(ctx context.Context, r sqlrow.Reader, isPostgres bool) (map[string]int64, error) {
	list := `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`
	if isPostgres {
		list = `SELECT tablename FROM pg_tables WHERE schemaname = current_schema()`
	}
	names, err := textColumn(ctx, r, list)
	if err != nil {
		return nil, err
	}
	counts := make(map[string]int64, len(names))
	for _, name := range names {
		if !tableName.MatchString(name) {
			continue
		}
		var n int64
		if err := r.QueryRowContext(ctx, `SELECT count(*) FROM "`+name+`"`).Scan(&n); err != nil {
			return counts, fmt.Errorf("counting the rows of %s: %w", name, err)
		}
		counts[name] = n
	}
	return counts, nil
}

func textColumn(ctx context.Context, r sqlrow.Reader, query string) (list []string, err error) {
	rows, err := r.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, rows.Err()
}

// ActiveWebhookEndpoints returns the endpoints of all organisations that receive events.
func (q Queries) ActiveWebhookEndpoints(ctx context.Context) ([]WebhookEndpoint, error) {
	return webhookEndpointTable.list(ctx, q.Reader, `
		WHERE status = $1
		ORDER BY id`, Active)
}

// FailedJobs returns the latest jobs that have failed, of all organisations, at most limit.
func (q Queries) FailedJobs(ctx context.Context, limit int) ([]Job, error) {
	return jobTable.list(ctx, q.Reader, `
		WHERE state IN ($1, $2)
		ORDER BY id DESC
		LIMIT $3`, JobFailed, JobDead, limit)
}
