// Package sqlrow reads the rows of SQL queries into values.
//
// Errors name what was read. A single row that does not exist is an
// *apierr.Error of kind NotFound. It does not write; see journal.
package sqlrow

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"modelgate/internal/base/apierr"
)

// Reader is the reading part of *sql.DB and *sql.Tx.
type Reader interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Scanner is a row that is being read.
type Scanner interface{ Scan(dest ...any) error }

// List returns every row of a query, in its order. What names the rows in
// errors.
func List[T any](ctx context.Context, q Reader, what, text string, scan func(Scanner) (T, error), args ...any) ([]T, error) {
	found, err := q.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", what, err)
	}
	defer found.Close()
	list := []T{}
	for found.Next() {
		v, err := scan(found)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", what, err)
		}
		list = append(list, v)
	}
	if err := found.Err(); err != nil {
		return nil, fmt.Errorf("reading %s: %w", what, err)
	}
	return list, nil
}

// One returns the one row of a query. Without one it returns an *apierr.Error of
// kind NotFound.
func One[T any](ctx context.Context, q Reader, what, text string, scan func(Scanner) (T, error), args ...any) (T, error) {
	v, err := scan(q.QueryRowContext(ctx, text, args...))
	if errors.Is(err, sql.ErrNoRows) {
		return v, apierr.New(apierr.NotFound, "%s not found", what)
	}
	if err != nil {
		return v, fmt.Errorf("reading a %s: %w", what, err)
	}
	return v, nil
}

// Count returns the number that a query counts.
func Count(ctx context.Context, q Reader, text string, args ...any) (n int, err error) {
	if err := q.QueryRowContext(ctx, text, args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting: %w", err)
	}
	return n, nil
}

// Time scans a column of unix milliseconds into t. NULL is the zero time.
func Time(t *time.Time) sql.Scanner { return column(func(v any) error { return scanTime(v, t) }) }

// JSON scans a column of JSON text into the value that v points to. A [json.RawMessage]
// gets the text unchecked, so that a damaged value affects only those who read it.
func JSON(v any) sql.Scanner { return column(func(text any) error { return scanJSON(text, v) }) }

// column scans one column.
type column func(v any) error

// Scan implements sql.Scanner.
func (c column) Scan(v any) error { return c(v) }

func scanTime(v any, t *time.Time) error {
	var n sql.NullInt64
	if err := n.Scan(v); err != nil {
		return err
	}
	*t = time.Time{}
	if n.Valid {
		*t = time.UnixMilli(n.Int64).UTC()
	}
	return nil
}

func scanJSON(text, v any) error {
	var raw json.RawMessage
	switch text := text.(type) {
	case string:
		raw = json.RawMessage(text)
	case []byte: // only valid until the next row
		raw = slices.Clone(text)
	default:
		return fmt.Errorf("a column of JSON holds %T", text)
	}
	if into, ok := v.(*json.RawMessage); ok {
		*into = raw
		return nil
	}
	return json.Unmarshal(raw, v)
}
