// Package transfer copies everything that a gateway stores: into a backup, from a backup,
// and from one kind of database to the other.
//
// [Write] writes a backup while gateways run, [Restore] reads one, and [Migrate] copies
// one [Place] to another. All three copy rows as they are, so that sealed values stay sealed
// and need the same master key; the key is not part of a place. The tables come from
// the schema. Nothing is changed before the source is known to be complete and the target
// may be written to, and the tables of the control plane, without which no gateway starts on
// the rest, are written last, in one step. It does not parse addresses (see server) or
// read rows (see store and logstore).
package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"modelgate/internal/records/logstore"
	"modelgate/internal/storage/tabledata"
	"modelgate/internal/store"
)

// Place is where a gateway stores what it knows.
type Place struct {
	// Control is the address of the control plane's database, as for [store.Open], and
	// Options configure the connection.
	Control string
	Options store.Options

	// Log is the database of the log. Its other options are ignored.
	Log logstore.Options

	// Data is the data folder, for the ledger and stored files. Empty means that there is
	// none.
	Data string
}

// Total describes the rows of a table.
type Total struct {
	Table string // such as control/users
	*tabledata.Sums
}

// Progress is called from time to time with the table that is copied and the number of its
// rows so far.
type Progress func(table string, rows int64)

// summed are the columns whose sums are compared and shown, where a table has them.
var summed = []string{"cost", "tokens", "attempts", "entries"}

// Names of the two schemas, which precede the names of tables.
const (
	controlPart = "control/"
	logPart     = "log/"
)

// source has rows of tables.
type source interface {
	Write(ctx context.Context, t tabledata.Table, o tabledata.Order, w io.Writer) error
}

// contents are the tables of a source.
type contents struct {
	version      int // migrations that the control plane's tables have
	control, log []tabledata.Table

	controlRows, logRows source
}

// pristine is the schema of the control plane as migrations make it, with their rows.
type pristine struct {
	tabledata.DB
	tables []tabledata.Table // without those of the history
}

// newPristine makes the schema as of a migration in a file in dir.
func newPristine(ctx context.Context, dir string, version int) (p *pristine, err error) {
	all, err := store.Migrations()
	if err != nil {
		return nil, err
	}
	p = new(pristine)
	if p.DB, err = tabledata.OpenFile(ctx, filepath.Join(dir, fmt.Sprintf("schema-%d.db", version)), tabledata.Writing); err != nil {
		return nil, err
	}
	for _, m := range all[:version] {
		if err := p.Exec(ctx, m.Text); err != nil {
			return nil, errors.Join(fmt.Errorf("migration %s: %w", m.Name, err), p.Close())
		}
	}
	if p.tables, err = p.Tables(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	p.tables = slices.DeleteFunc(p.tables, isHistory)
	return p, nil
}

func isHistory(t tabledata.Table) bool { return slices.Contains(store.HistoryTables(), t.Name) }

// isUnchanged reports whether db has only rows that migrations made. Tables of a
// version must be those of p.
func (p *pristine) isUnchanged(ctx context.Context, db tabledata.DB) (bool, error) {
	for _, t := range p.tables {
		want, err := sum(ctx, p, t, nil)
		if err != nil {
			return false, err
		}
		got, err := sum(ctx, db, t, nil)
		if err != nil || !got.Equal(want) {
			return false, err
		}
	}
	return true, nil
}

// sum reads the rows of a table and returns their sums.
func sum(ctx context.Context, from source, t tabledata.Table, progress func(rows int64)) (*tabledata.Sums, error) {
	sums := tabledata.NewSums(t, summed...)
	err := eachRow(ctx, from, t, tabledata.Unordered, func(fields []byte) error {
		sums.Add(fields)
		if progress != nil && sums.Rows%progressRows == 0 {
			progress(sums.Rows)
		}
		return nil
	})
	return sums, err
}

// progressRows is the number of rows between two calls of a [Progress].
const progressRows = 10_000

// eachRow calls f for each row of a table.
func eachRow(ctx context.Context, from source, t tabledata.Table, o tabledata.Order, f func(fields []byte) error) error {
	rows := tabledata.Splitter{Columns: len(t.Columns), Row: f}
	if err := from.Write(ctx, t, o, &rows); err != nil {
		return err
	}
	if err := rows.End(); err != nil {
		return fmt.Errorf("table %s: %w", t.Name, err)
	}
	return nil
}
