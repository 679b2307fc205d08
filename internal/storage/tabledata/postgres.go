package tabledata

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"modelgate/internal/storage/postgres"
)

// Server is a schema of a PostgreSQL database.
type Server struct {
	conn   *pgx.Conn
	schema string
}

var _ DB = (*Server)(nil)

// Connect connects to a schema of a PostgreSQL database; an empty one is the current one.
func Connect(ctx context.Context, at *postgres.Server, schema string) (*Server, error) {
	conn, err := at.Connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("database %s cannot be reached: %w", at.Name, at.Explain(err))
	}
	s := &Server{conn, schema}
	if err := s.Exec(ctx, `SET statement_timeout = 0`); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// SelectSchema returns another schema on the same connection, and in the same transaction.
func (s *Server) SelectSchema(schema string) *Server { return &Server{s.conn, schema} }

// Tables implements [DB]. Partitions are part of their table.
func (s *Server) Tables(ctx context.Context) ([]Table, error) {
	const q = `
		SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
			COALESCE(array_position(i.indkey::INT2[], a.attnum) + 1, 0),
			ARRAY(SELECT p.relname FROM pg_constraint f JOIN pg_class p ON p.oid = f.confrelid WHERE f.conrelid = c.oid AND f.contype = 'f')::TEXT[]
		FROM pg_class c
		JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
		WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
			AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = COALESCE(NULLIF($1, ''), current_schema()))
		ORDER BY c.relname, a.attnum`
	rows, err := s.conn.Query(ctx, q, s.schema)
	if err != nil {
		return nil, fmt.Errorf("reading the tables: %w", err)
	}
	defer rows.Close()
	var all []Table
	for rows.Next() {
		var name string
		var c Column
		var parents []string
		if err := rows.Scan(&name, &c.Name, &c.Type, &c.Key, &parents); err != nil {
			return nil, fmt.Errorf("reading the tables: %w", err)
		}
		if len(all) == 0 || all[len(all)-1].Name != name {
			all = append(all, Table{Name: name, parents: parents})
		}
		t := &all[len(all)-1]
		t.Columns = append(t.Columns, c)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("reading the tables: %w", err)
	}
	return sorted(all)
}

// Write implements [DB].
func (s *Server) Write(ctx context.Context, t Table, o Order, w io.Writer) error {
	text := strings.Replace(t.selection(o, ` COLLATE "C"`), ` FROM "`, ` FROM `+s.prefix()+`"`, 1)
	if _, err := s.conn.PgConn().CopyTo(ctx, w, `COPY (`+text+`) TO STDOUT (FORMAT binary)`); err != nil {
		return fmt.Errorf("reading table %s: %w", t.Name, err)
	}
	return nil
}

// prefix returns the schema with a point.
func (s *Server) prefix() string {
	if s.schema == "" {
		return ""
	}
	return s.schema + "."
}

// Load implements [DB].
func (s *Server) Load(ctx context.Context, t Table, r io.Reader) error {
	text := `COPY ` + s.prefix() + `"` + t.Name + `" (` + t.names() + `) FROM STDIN (FORMAT binary)`
	if _, err := s.conn.PgConn().CopyFrom(ctx, r, text); err != nil {
		return fmt.Errorf("writing table %s: %w", t.Name, err)
	}
	return nil
}

// Exec implements [DB].
func (s *Server) Exec(ctx context.Context, text string) error {
	_, err := s.conn.PgConn().Exec(ctx, text).ReadAll()
	return err
}

// Close implements [DB]. It takes a few seconds at most.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return s.conn.Close(ctx)
}
