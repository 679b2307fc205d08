package datakey

import (
	"context"
	"errors"

	"modelgate/internal/base/secret"
	"modelgate/internal/store"
)

// Rotation says what happened to the data key of an organisation.
type Rotation struct {
	Organisation store.Organisation
	Rewrapped    bool // it was wrapped by a previous master key
}

// Rotate wraps all data keys by the master key of a box that opens the previous
// one too: all of them or, when one does not open, none. A dry run finds out
// what would be done. What is sealed with the data keys stays as it is.
// Each organisation whose data key is wrapped again has a row in its audit log.
func Rotate(ctx context.Context, db *store.DB, master *secret.Box, how Mode) (list []Rotation, err error) {
	err = db.Update(ctx, nil, func(tx *store.Tx) error {
		organisations, err := tx.Organisations(ctx)
		if err != nil {
			return err
		}
		for _, o := range organisations {
			if o.DataKey == "" {
				continue
			}
			was := o.DataKey
			if o.DataKey, err = master.Rewrap(o.ID, was); err != nil {
				return err
			}
			list = append(list, Rotation{o, o.DataKey != was})
			if o.DataKey == was {
				continue
			}
			if err := tx.UpdateOrganisation(ctx, o); err != nil {
				return err
			}
			a := store.OperatorAudit(o.ID, "keys rotate-master", nil)
			a.ResourceType, a.ResourceID, a.Action = "data_key", o.ID, "rotate"
			if err := tx.Note(ctx, a); err != nil {
				return err
			}
		}
		if how == DryRun {
			return errDry
		}
		return nil
	})
	if err != nil && !errors.Is(err, errDry) {
		return nil, err
	}
	return list, nil
}

// Mode is whether a rotation is kept.
type Mode int

// What a rotation may be.
const (
	Keep Mode = iota
	DryRun
)

// errDry undoes what a dry run did.
var errDry = errors.New("dry run")
