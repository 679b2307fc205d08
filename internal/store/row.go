package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"modelgate/internal/apierr"
)

// rows reads every row of a query, in its order.
func rows[T any](ctx context.Context, q querier, what, text string, scan func(row) (T, error), args ...any) ([]T, error) {
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

// one reads the one row of a query. What is not there is an *apierr.Error of
// kind NotFound.
func one[T any](ctx context.Context, q querier, what, text string, scan func(row) (T, error), args ...any) (T, error) {
	v, err := scan(q.QueryRowContext(ctx, text, args...))
	if errors.Is(err, sql.ErrNoRows) {
		return v, apierr.New(apierr.NotFound, "there is no such %s", what)
	}
	if err != nil {
		return v, fmt.Errorf("reading a %s: %w", what, err)
	}
	return v, nil
}

// count reads a number.
func count(ctx context.Context, q querier, text string, args ...any) (n int, err error) {
	if err := q.QueryRowContext(ctx, text, args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting: %w", err)
	}
	return n, nil
}

// write runs a statement that changes a row. Changing none is an *apierr.Error
// of kind NotFound.
func write(ctx context.Context, q querier, what, text string, args ...any) error {
	result, err := q.ExecContext(ctx, text, args...)
	if err != nil {
		return fmt.Errorf("writing a %s: %w", what, err)
	}
	n, err := result.RowsAffected()
	if err != nil {
		return fmt.Errorf("writing a %s: %w", what, err)
	}
	if n == 0 {
		return apierr.New(apierr.NotFound, "there is no such %s", what)
	}
	return nil
}

// row is a row that is being read.
type row interface{ Scan(dest ...any) error }

// millis is a time as it is stored. Zero is NULL.
func millis(t time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: t.UnixMilli(), Valid: !t.IsZero()}
}

// nullTime reads a time that may be NULL.
type nullTime struct{ *time.Time }

// Scan implements sql.Scanner.
func (s nullTime) Scan(v any) error {
	var n sql.NullInt64
	if err := n.Scan(v); err != nil {
		return err
	}
	*s.Time = time.Time{}
	if n.Valid {
		*s.Time = time.UnixMilli(n.Int64).UTC()
	}
	return nil
}

// text writes v as JSON for a column. What can't be written is a mistake of the
// program.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// jsonText reads a column of JSON into what into points to.
type jsonText struct{ into any }

// Scan implements sql.Scanner.
func (j jsonText) Scan(v any) error {
	switch v := v.(type) {
	case string:
		return json.Unmarshal([]byte(v), j.into)
	case []byte:
		return json.Unmarshal(v, j.into)
	}
	return fmt.Errorf("a column of JSON holds %T", v)
}

// Page is a part of a list: Size entries from entry Number*Size. A Size of zero
// takes all.
type Page struct{ Number, Size int }

// limit returns the page as the arguments of LIMIT and OFFSET.
func (p Page) limit() (limit, offset int64) {
	if p.Size <= 0 {
		return 1 << 31, 0
	}
	return int64(p.Size), int64(p.Number) * int64(p.Size)
}
