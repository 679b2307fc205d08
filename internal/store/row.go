package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"modelgate/internal/apierr"
	"modelgate/internal/journal"
)

// write runs a statement that changes a row of rows. Changing none is an
// *apierr.Error of kind NotFound.
func (tx *Tx) write(ctx context.Context, rows journal.Rows, what, text string, args ...any) error {
	n, err := tx.change.Exec(ctx, rows, text, args...)
	if err != nil {
		return fmt.Errorf("writing a %s: %w", what, err)
	}
	if n == 0 {
		return apierr.New(apierr.NotFound, "there is no such %s", what)
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

// millis is a time as it is stored. Zero is NULL.
func millis(t time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: t.UnixMilli(), Valid: !t.IsZero()}
}

// exec runs a statement that writes to unpublished rows, outside of any change.
func (db *DB) exec(ctx context.Context, what, text string, args ...any) error {
	if _, err := db.write.Exec(ctx, text, args...); err != nil {
		return fmt.Errorf("writing %s: %w", what, err)
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
