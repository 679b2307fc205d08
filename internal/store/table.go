package store

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// table declares how values of a type are stored. Reading, inserting and updating
// derive from the declaration; conditions are SQL.
type table[T any] struct {
	name    string              // SQL name
	row     string              // name of a row in errors
	order   string              // order of pages
	fixed   string              // columns that an update leaves unchanged, separated by spaces; the first is the key
	columns func(v *T) []column // pointing to the fields of v

	// derived are expressions that are read with each row but never written. Nil is
	// none.
	derived func(v *T) []column

	live string // condition for updating a row; empty is none

	// byRow records the changed row, by its first column, instead of the table.
	byRow bool
}

// column is a column and a pointer to its field. A [time.Time] is stored in
// milliseconds, zero as NULL.
type column struct {
	name  string
	field any
}

// object, array and nullable are fields stored as JSON, with the text for nil.
func object(into any) document   { return document{into, "{}"} }
func array(into any) document    { return document{into, "[]"} }
func nullable(into any) document { return document{into, "null"} }

type document struct {
	into  any
	empty string
}

// Scan implements sql.Scanner.
func (d document) Scan(v any) error { return sqlrow.JSON(d.into).Scan(v) }

// Value implements driver.Valuer. A [json.RawMessage] is stored unchanged.
func (d document) Value() (driver.Value, error) {
	if raw, ok := d.into.(*json.RawMessage); ok {
		return orEmpty(*raw, d.empty), nil
	}
	if s := text(d.into); s != "null" {
		return s, nil
	}
	return d.empty, nil
}

// of returns t with another name of its rows in errors.
func (t table[T]) of(row string) *table[T] {
	t.row = row
	return &t
}

// limitTo returns t with only some of its columns. The other fields of what it reads are
// empty.
func (t table[T]) limitTo(names ...string) *table[T] {
	all := t.columns
	t.columns = func(v *T) []column {
		return slices.DeleteFunc(all(v), func(c column) bool { return !slices.Contains(names, c.name) })
	}
	return &t
}

// read returns the columns to read, with pointers to the fields of v.
func (t *table[T]) read(v *T) []column {
	if t.derived == nil {
		return t.columns(v)
	}
	return append(t.columns(v), t.derived(v)...)
}

// names returns the columns to write, separated by commas.
func (t *table[T]) names() string { return names(t.columns(new(T))) }

func names(list []column) string {
	words := make([]string, len(list))
	for i, c := range list {
		words[i] = c.name
	}
	return strings.Join(words, `, `)
}

// selection returns the beginning of a SELECT statement.
func (t *table[T]) selection() string { return `SELECT ` + names(t.read(new(T))) + ` FROM ` + t.name }

// scanner returns a function that reads rows.
func (t *table[T]) scanner() func(r sqlrow.Scanner) (T, error) {
	var v, empty T
	list := t.read(&v)
	fields := make([]any, len(list))
	for i, c := range list {
		fields[i] = c.field
		if at, ok := c.field.(*time.Time); ok {
			fields[i] = sqlrow.Time(at)
		}
	}
	return func(r sqlrow.Scanner) (T, error) {
		v = empty
		err := r.Scan(fields...)
		return v, err
	}
}

// one reads one row; end is the rest of the SELECT statement. If there is none, it
// returns an *apierr.Error of kind NotFound.
func (t *table[T]) one(ctx context.Context, q sqlrow.Reader, end string, args ...any) (T, error) {
	return sqlrow.One(ctx, q, t.row, t.selection()+end, t.scanner(), args...)
}

// list reads all rows; end is the rest of the SELECT statement.
func (t *table[T]) list(ctx context.Context, q sqlrow.Reader, end string, args ...any) ([]T, error) {
	return sqlrow.List(ctx, q, t.row+"s", t.selection()+end, t.scanner(), args...)
}

// byID reads the rows with these ids, in no order.
func (t *table[T]) byID(ctx context.Context, q sqlrow.Reader, ids []string) (all []T, err error) {
	for part := range slices.Chunk(ids, spentAtOnce) {
		list, err := t.list(ctx, q, ` WHERE id IN `+placeholders(0, len(part)), toArgs(part)...)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

// page reads a page of the rows that a condition selects, and counts all of them.
func (t *table[T]) page(ctx context.Context, q sqlrow.Reader, p Page, where string, args ...any) (list []T, total int, err error) {
	where, args = p.named(where, args)
	if total, err = sqlrow.Count(ctx, q, `SELECT COUNT(*) FROM `+t.name+where, args...); err != nil {
		return nil, 0, err
	}
	limit, offset := p.limit()
	list, err = t.list(ctx, q, fmt.Sprintf(`%s ORDER BY %s LIMIT $%d OFFSET $%d`, where, t.order, len(args)+1, len(args)+2),
		append(args, limit, offset)...)
	return list, total, err
}

// insert stores v as a new row.
func (t *table[T]) insert(ctx context.Context, tx *Tx, v T) error {
	return tx.write(ctx, t.rows(&v), t.row, t.insertion(), values(t.columns(&v))...)
}

// put stores v as a new row, or updates the row with the same fixed columns.
func (t *table[T]) put(ctx context.Context, tx *Tx, v T) error {
	list := t.changing(&v)
	set := make([]string, len(list))
	for i, c := range list {
		set[i] = c.name + ` = excluded.` + c.name
	}
	text := t.insertion() + ` ON CONFLICT (` + strings.ReplaceAll(t.fixed, ` `, `, `) + `) DO UPDATE SET ` + strings.Join(set, `, `)
	return tx.write(ctx, t.rows(&v), t.row, text, values(t.columns(&v))...)
}

func (t *table[T]) insertion() string {
	return `INSERT INTO ` + t.name + ` (` + t.names() + `) VALUES ` + placeholders(0, len(t.columns(new(T))))
}

// update updates the row with v's key, if it is live. If there is none, it returns an
// *apierr.Error of kind NotFound.
func (t *table[T]) update(ctx context.Context, tx *Tx, v T) error {
	text, args := t.updating(&v, 0)
	if t.live != "" {
		text += ` AND ` + t.live
	}
	return tx.write(ctx, t.rows(&v), t.row, text, args...)
}

// updateIf updates the row with v's key if a condition holds, and reports whether it did.
// The arguments of the condition begin with $2.
func (t *table[T]) updateIf(ctx context.Context, tx *Tx, v T, condition string, args ...any) (updated bool, err error) {
	text, fields := t.updating(&v, len(args))
	n, err := tx.change.Exec(ctx, t.rows(&v), text+` AND `+condition, slices.Insert(fields, 1, args...)...)
	if err != nil {
		return false, fmt.Errorf("writing a %s: %w", t.row, err)
	}
	return n > 0, nil
}

// updating returns a statement that updates the row with v's key, and its arguments: the
// key is $1, then skipped numbers are left for the caller.
func (t *table[T]) updating(v *T, skipped int) (text string, args []any) {
	key, list := t.columns(v)[:1], t.changing(v)
	set := make([]string, len(list))
	for i, c := range list {
		set[i] = fmt.Sprintf(`%s = $%d`, c.name, i+2+skipped)
	}
	text = `UPDATE ` + t.name + ` SET ` + strings.Join(set, `, `) + ` WHERE ` + key[0].name + ` = $1`
	return text, append(values(key), values(list)...)
}

// rows returns the rows recorded when v is written.
func (t *table[T]) rows(v *T) journal.Rows {
	all := journal.Rows(t.name)
	if !t.byRow {
		return all
	}
	return all.Row(fmt.Sprint(values(t.columns(v)[:1])...))
}

// changing returns the columns that an update writes.
func (t *table[T]) changing(v *T) []column {
	fixed := strings.Fields(t.fixed)
	return slices.DeleteFunc(t.columns(v), func(c column) bool { return slices.Contains(fixed, c.name) })
}

func values(list []column) []any {
	out := make([]any, len(list))
	for i, c := range list {
		switch f := c.field.(type) {
		case *time.Time:
			out[i] = millis(*f)
		case driver.Valuer:
			out[i] = f
		default:
			out[i] = reflect.ValueOf(f).Elem().Interface()
		}
	}
	return out
}
