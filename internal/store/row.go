package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/storage/journal"
)

// write runs a statement that must change a row of rows. If it changes none, it returns
// an *apierr.Error of kind NotFound.
func (tx *Tx) write(ctx context.Context, rows journal.Rows, what, text string, args ...any) error {
	n, err := tx.change.Exec(ctx, rows, text, args...)
	if err != nil {
		return fmt.Errorf("writing a %s: %w", what, err)
	}
	if n == 0 {
		return apierr.New(apierr.NotFound, "%s not found", what)
	}
	return nil
}

// exec runs a statement that may change no row.
func (tx *Tx) exec(ctx context.Context, rows journal.Rows, what, text string, args ...any) error {
	if _, err := tx.change.Exec(ctx, rows, text, args...); err != nil {
		return fmt.Errorf("writing %s: %w", what, err)
	}
	return nil
}

// millis returns the stored form of a time. Zero is NULL.
func millis(t time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: t.UnixMilli(), Valid: !t.IsZero()}
}

// exec runs a statement that changes unpublished rows, outside of a transaction.
func (db *DB) exec(ctx context.Context, what, text string, args ...any) error {
	if _, err := db.write.Exec(ctx, text, args...); err != nil {
		return fmt.Errorf("writing %s: %w", what, err)
	}
	return nil
}

// text encodes v as JSON for a column. It panics if v cannot be encoded.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
