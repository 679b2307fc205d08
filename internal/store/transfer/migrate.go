package transfer

import (
	"context"
	"errors"

	"modelgate/internal/storage/tabledata"
)

// MigrateOptions say how a place is copied to another.
type MigrateOptions struct {
	DryRun   bool // read everything, and change nothing
	Progress Progress
}

// Migrate copies the databases of a place to another, and compares the copies with the
// originals. No gateway may use either. It can be interrupted at any time: the next call with
// the same places goes on, as long as neither was changed. A target that has other data is
// refused before anything is written.
func Migrate(ctx context.Context, from, to Place, o MigrateOptions) (totals []Total, err error) {
	s, err := openSnapshot(ctx, from, tabledata.Lock)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	done, err := checkTarget(ctx, s.contents, to)
	if err != nil {
		return nil, err
	}
	if o.DryRun {
		return s.totals(ctx, o.Progress)
	}
	logs, err := fillLog(ctx, s.contents, to, o.Progress)
	if err != nil {
		return nil, err
	}
	if done {
		totals, err = s.controlTotals(ctx, o.Progress)
	} else {
		totals, err = fillControl(ctx, s.contents, to, o.Progress)
	}
	return append(totals, logs...), err
}

// checkTarget returns an error if the target has other data, and reports whether it has the
// control plane of the source already.
func checkTarget(ctx context.Context, from contents, to Place) (done bool, err error) {
	t := new(snapshot)
	defer func() { err = errors.Join(err, t.close()) }()
	db, err := t.openTarget(ctx, to)
	if db == nil || err != nil {
		return false, err
	}
	used, err := usesControl(ctx, db)
	if used == "" || err != nil {
		return false, err
	}
	if same, err := hasRows(ctx, from, db); err != nil || !same {
		return false, errors.Join(err, errors.New(used+" with other data; choose an empty database or folder"))
	}
	return true, nil
}

// hasRows reports whether a control plane has the rows of a source.
func hasRows(ctx context.Context, from contents, db tabledata.DB) (bool, error) {
	found, err := db.Tables(ctx)
	if err != nil {
		return false, err
	}
	for _, t := range from.control {
		if t.Check(found) != nil {
			return false, nil
		}
		want, err := sum(ctx, from.controlRows, t, nil)
		if err != nil {
			return false, err
		}
		if got, err := sum(ctx, db, t, nil); err != nil || !got.Equal(want) {
			return false, err
		}
	}
	return true, nil
}

// controlTotals returns the totals of the control plane's tables.
func (c contents) controlTotals(ctx context.Context, progress Progress) (totals []Total, err error) {
	for _, t := range c.control {
		s, err := sum(ctx, c.controlRows, t, func(rows int64) { progress(controlPart+t.Name, rows) })
		if err != nil {
			return nil, err
		}
		totals = append(totals, Total{controlPart + t.Name, s})
	}
	return totals, nil
}

// totals returns the totals of all tables.
func (c contents) totals(ctx context.Context, progress Progress) ([]Total, error) {
	list, err := c.controlTotals(ctx, progress)
	for _, t := range c.log {
		if err != nil {
			return nil, err
		}
		var s *tabledata.Sums
		s, err = sum(ctx, c.logRows, t, func(rows int64) { progress(logPart+t.Name, rows) })
		list = append(list, Total{logPart + t.Name, s})
	}
	return list, err
}
