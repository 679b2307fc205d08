package tabledata

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"modelgate/internal/base/oserr"
	"modelgate/internal/storage/sqlite"
	"modelgate/internal/storage/sqlrow"
)

// file is a connection to an SQLite file.
type file struct {
	db   *sqlite.DB
	conn *sql.Conn
}

var _ DB = (*file)(nil)

// Use says what a file is opened for.
type Use int

// Uses. A Snapshot is a consistent view, next to which others write; Lock is a view that keeps
// others from writing. Writing creates a missing file, and begins no transaction.
const (
	Snapshot Use = iota
	Lock
	Writing
)

// OpenFile opens an SQLite file.
func OpenFile(ctx context.Context, path string, u Use) (DB, error) {
	if _, err := os.Stat(path); err != nil && u != Writing {
		return nil, fmt.Errorf("database %s: %w", path, oserr.File(err))
	}
	db, err := sqlite.Open(ctx, sqlite.Options{Path: path})
	if err != nil {
		return nil, err
	}
	pool, begin := db.Write, ``
	switch u {
	case Snapshot: // it begins when it is first read
		pool, begin = db.Read, `BEGIN; SELECT COUNT(*) FROM sqlite_master`
	case Lock:
		begin = `BEGIN IMMEDIATE`
	}
	conn, err := pool.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	f := &file{db, conn}
	if err := f.Exec(ctx, begin); err != nil {
		return nil, errors.Join(fmt.Errorf("database %s: %w", path, sqlite.Explain(err)), f.Close())
	}
	return f, nil
}

// Tables implements [DB].
func (f *file) Tables(ctx context.Context) ([]Table, error) {
	const (
		names = `
		SELECT name
		FROM sqlite_master
		WHERE type = 'table' AND name NOT LIKE 'sqlite\_%' ESCAPE '\'`
		columns = `
		SELECT name, LOWER(type), pk
		FROM pragma_table_info($1)`
		parents = `
		SELECT DISTINCT "table"
		FROM pragma_foreign_key_list($1)`
	)
	text := func(r sqlrow.Scanner) (s string, err error) { return s, r.Scan(&s) }
	list, err := sqlrow.List(ctx, f.conn, "the tables", names, text)
	if err != nil {
		return nil, err
	}
	all := make([]Table, len(list))
	for i, name := range list {
		all[i].Name = name
		all[i].Columns, err = sqlrow.List(ctx, f.conn, "the columns", columns, func(r sqlrow.Scanner) (c Column, err error) {
			return c, r.Scan(&c.Name, &c.Type, &c.Key)
		}, name)
		if err != nil {
			return nil, err
		}
		if all[i].parents, err = sqlrow.List(ctx, f.conn, "the references", parents, text, name); err != nil {
			return nil, err
		}
	}
	return sorted(all)
}

// Write implements [DB].
func (f *file) Write(ctx context.Context, t Table, o Order, w io.Writer) error {
	if err := t.checkTypes(); err != nil {
		return err
	}
	rows, err := f.conn.QueryContext(ctx, t.selection(o, ``))
	if err != nil {
		return fmt.Errorf("reading table %s: %w", t.Name, err)
	}
	defer rows.Close()
	out := bufio.NewWriterSize(w, 64<<10)
	out.WriteString(signature)
	values, fields := make([]any, len(t.Columns)), make([]any, len(t.Columns))
	for i := range values {
		fields[i] = &values[i]
	}
	var row []byte
	for rows.Next() {
		if err := rows.Scan(fields...); err != nil {
			return fmt.Errorf("reading table %s: %w", t.Name, err)
		}
		row = binary.BigEndian.AppendUint16(row[:0], uint16(len(values)))
		for i, c := range t.Columns {
			if row, err = appendField(row, c.Type, values[i]); err != nil {
				return fmt.Errorf("table %s, column %s: %w", t.Name, c.Name, err)
			}
		}
		if _, err := out.Write(row); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("reading table %s: %w", t.Name, err)
	}
	out.WriteString(trailer)
	return out.Flush()
}

// errValue is a value that does not have the type of its column, which SQLite allows.
var errValue = errors.New("a value does not have the type of the column")

// appendField appends a value with its length.
func appendField(dst []byte, as Type, v any) ([]byte, error) {
	if v == nil {
		return binary.BigEndian.AppendUint32(dst, math.MaxUint32), nil
	}
	number := func(size uint32) []byte { return binary.BigEndian.AppendUint32(dst, size) }
	switch v := v.(type) {
	case string:
		if as == Text || as == Bytea {
			return append(number(uint32(len(v))), v...), nil
		}
	case []byte:
		if as == Text || as == Bytea {
			return append(number(uint32(len(v))), v...), nil
		}
	case bool:
		if as == Boolean {
			return append(number(1), oneIf(v)), nil
		}
	case float64:
		if as == Double {
			return binary.BigEndian.AppendUint64(number(8), math.Float64bits(v)), nil
		}
	case int64:
		switch {
		case as == Bigint:
			return binary.BigEndian.AppendUint64(number(8), uint64(v)), nil
		case as == Integer && v == int64(int32(v)):
			return binary.BigEndian.AppendUint32(number(4), uint32(v)), nil
		case as == Boolean && v>>1 == 0:
			return append(number(1), byte(v)), nil
		case as == Double:
			return binary.BigEndian.AppendUint64(number(8), math.Float64bits(float64(v))), nil
		}
	}
	return nil, errValue
}

func oneIf(v bool) byte {
	if v {
		return 1
	}
	return 0
}

// parseField returns the value of a field.
func parseField(as Type, b []byte) (any, error) {
	switch {
	case b == nil:
		return nil, nil
	case as == Text:
		return string(b), nil
	case as == Bytea:
		return b, nil
	case as == Bigint && len(b) == 8:
		return int64(binary.BigEndian.Uint64(b)), nil
	case as == Integer && len(b) == 4:
		return int64(int32(binary.BigEndian.Uint32(b))), nil
	case as == Boolean && len(b) == 1:
		return b[0] != 0, nil
	case as == Double && len(b) == 8:
		return math.Float64frombits(binary.BigEndian.Uint64(b)), nil
	}
	return nil, errValue
}

// Load implements [DB].
func (f *file) Load(ctx context.Context, t Table, r io.Reader) error {
	insert, err := f.conn.PrepareContext(ctx, `INSERT INTO "`+t.Name+`" (`+t.names()+`) VALUES (`+
		strings.TrimSuffix(strings.Repeat(`?, `, len(t.Columns)), `, `)+`)`)
	if err != nil {
		return fmt.Errorf("writing table %s: %w", t.Name, err)
	}
	defer insert.Close()
	values := make([]any, len(t.Columns))
	rows := Splitter{Columns: len(t.Columns), Row: func(fields []byte) (err error) {
		for i, c := range t.Columns {
			var b []byte
			b, fields = next(fields)
			if values[i], err = parseField(c.Type, b); err != nil {
				return fmt.Errorf("table %s, column %s: %w", t.Name, c.Name, err)
			}
		}
		if _, err := insert.ExecContext(ctx, values...); err != nil {
			return fmt.Errorf("writing table %s: %w", t.Name, err)
		}
		return nil
	}}
	if _, err := io.Copy(&rows, r); err != nil {
		return err
	}
	return rows.End()
}

// Exec implements [DB].
func (f *file) Exec(ctx context.Context, text string) error {
	_, err := f.conn.ExecContext(ctx, text)
	return err
}

// Close implements [DB].
func (f *file) Close() error {
	// Without a transaction, this fails and has no effect.
	f.conn.ExecContext(context.Background(), `ROLLBACK`)
	return errors.Join(f.conn.Close(), f.db.Close())
}
