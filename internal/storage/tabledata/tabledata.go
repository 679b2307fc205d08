// Package tabledata reads and writes all rows of tables, in SQLite files and in PostgreSQL.
//
// It provides a [DB], which is one connection to either; the tables of a schema as the
// database describes them; and one form of rows for both, the binary format of PostgreSQL's
// COPY, so that rows of one database can be loaded into the other and compared by
// [Sums]. It guarantees that no row is held in memory longer than it takes to pass it on. It
// does not know what the tables mean or who may read them; see store/transfer.
package tabledata

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
)

// DB is a connection to a database. It is for one goroutine.
type DB interface {
	// Tables returns the tables of the schema, each after those that it refers to.
	Tables(ctx context.Context) ([]Table, error)

	// Write writes the rows of a table to w, in the form of this package, in the order of
	// its key if sorted.
	Write(ctx context.Context, t Table, o Order, w io.Writer) error

	// Load adds rows in the form of this package to a table, all or none unless they are
	// in a transaction.
	Load(ctx context.Context, t Table, r io.Reader) error

	// Exec runs statements that are separated by semicolons.
	Exec(ctx context.Context, text string) error

	// Close closes the connection, which rolls back an open transaction.
	Close() error
}

// Order is the order of rows.
type Order int

// Orders. ByKey compares text by its bytes, so that both databases have the same order.
const (
	Unordered Order = iota
	ByKey
)

// Table is a table and its columns.
type Table struct {
	Name    string   `json:"name"`
	Columns []Column `json:"columns"` // by name

	parents []string // tables that it refers to
}

// Column is a column of a table.
type Column struct {
	Name string `json:"name"`
	Type Type   `json:"type"`
	Key  int    `json:"key,omitempty"` // position in the primary key, from one; zero if not part of it
}

// Type is the type of a column, as both databases call it.
type Type string

// The types of columns.
const (
	Text    Type = "text"
	Bigint  Type = "bigint"
	Integer Type = "integer"
	Boolean Type = "boolean"
	Bytea   Type = "bytea"
	Double  Type = "double precision"
)

// checkTypes returns an error if a table has a column of another type, or a name that
// would have to be quoted.
func (t Table) checkTypes() error {
	names := []string{t.Name}
	for _, c := range t.Columns {
		switch c.Type {
		case Text, Bigint, Integer, Boolean, Bytea, Double:
		default:
			return fmt.Errorf("column %s of table %s has the unsupported type %.40q", c.Name, t.Name, c.Type)
		}
		names = append(names, c.Name)
	}
	for _, name := range names {
		if name == "" || len(name) > 63 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
			return fmt.Errorf("table %.80q has the unsupported name %.80q", t.Name, name)
		}
	}
	return nil
}

// Check returns an error unless t, which comes from a file, is well formed and has columns
// that its namesake in all has too, of the same types.
func (t Table) Check(all []Table) error {
	if err := t.checkTypes(); err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(o Table) bool { return o.Name == t.Name })
	if i < 0 {
		return fmt.Errorf("table %s is unknown", t.Name)
	}
	seen := make(map[string]bool)
	for _, c := range t.Columns {
		if seen[c.Name] || !slices.ContainsFunc(all[i].Columns, func(o Column) bool { return o.Name == c.Name && o.Type == c.Type }) {
			return fmt.Errorf("column %s of table %s is unknown", c.Name, t.Name)
		}
		seen[c.Name] = true
	}
	if len(t.Columns) == 0 {
		return fmt.Errorf("table %s has no columns", t.Name)
	}
	return nil
}

// names returns the columns, separated by commas.
func (t Table) names() string {
	list := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		list[i] = `"` + c.Name + `"`
	}
	return strings.Join(list, ", ")
}

// selection returns the statement that reads the rows. Collate is what makes a column of
// text be ordered by its bytes.
func (t Table) selection(o Order, collate string) string {
	text := `SELECT ` + t.names() + ` FROM "` + t.Name + `"`
	var key []string
	for n := 1; o == ByKey; n++ {
		i := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Key == n })
		if i < 0 {
			break
		}
		name := `"` + t.Columns[i].Name + `"`
		if t.Columns[i].Type == Text {
			name += collate
		}
		key = append(key, name)
	}
	if len(key) > 0 {
		text += ` ORDER BY ` + strings.Join(key, ", ")
	}
	return text
}

// sorted returns tables with their columns by name, each after those that it refers to.
func sorted(all []Table) ([]Table, error) {
	slices.SortFunc(all, func(a, b Table) int { return strings.Compare(a.Name, b.Name) })
	var list []Table
	done := make(map[string]bool)
	for len(list) < len(all) {
		before := len(list)
		for _, t := range all {
			waits := func(p string) bool { return p != t.Name && !done[p] }
			if done[t.Name] || slices.ContainsFunc(t.parents, waits) {
				continue
			}
			slices.SortFunc(t.Columns, func(a, b Column) int { return strings.Compare(a.Name, b.Name) })
			list, done[t.Name] = append(list, t), true
		}
		if len(list) == before {
			return nil, fmt.Errorf("tables refer to one another in a circle, after %d of %d", before, len(all))
		}
	}
	return list, nil
}
