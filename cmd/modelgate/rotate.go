package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"modelgate/internal/secrets/datakey"
	"modelgate/internal/server"
	"modelgate/internal/store"
)

func rotateMaster(p *program) *cobra.Command {
	f := p.flags("rotate-master",
		"Rewraps the data keys of all organisations with a new master key, all or none. Sealed values stay unchanged.\n\n"+
			"Both keys are required, here and by every gateway during the rotation: the new master key and the previous one.\n"+
			"Sealed values in a settings file are not changed: seal them again with `modelgate seal`.",
		"modelgate keys rotate-master --master-key-file new.key --previous-master-key-file old.key --dry-run")
	d, m := newDatabaseFlags(f), newMasterFlags(f)
	dry := f.Bool("dry-run", false, "change nothing and list what would be rewrapped")
	return f.run(func(ctx context.Context) error {
		master, previous, err := m.read(ctx, p)
		if err != nil {
			return err
		}
		if master.Empty() || previous.Empty() || master == previous {
			return usage("two different keys are required: the new one in MODELGATE_MASTER_KEY, --master-key-file or --master-key-command, " +
				"the old one in MODELGATE_MASTER_KEY_PREVIOUS, --previous-master-key-file or --previous-master-key-command")
		}
		box, err := server.MasterBox(master, previous)
		if err != nil {
			return err
		}
		db, err := d.current(ctx)
		if err != nil {
			return err
		}
		defer db.Close()
		how := datakey.Keep
		if *dry {
			how = datakey.DryRun
		}
		list, err := datakey.Rotate(ctx, db, box, how)
		if err != nil {
			return fmt.Errorf("nothing was changed: %w", err)
		}
		p.tellRotation(list, how)
		return nil
	})
}

func (p *program) tellRotation(list []datakey.Rotation, how datakey.Mode) {
	done := "rewrapped"
	if how == datakey.DryRun {
		done = "to be rewrapped"
	}
	for _, r := range list {
		what := done
		if !r.Rewrapped {
			what = "has the new master key already"
		}
		fmt.Fprintf(p.out, "%s: %s\n", r.Organisation.Slug, what)
	}
	if len(list) == 0 {
		fmt.Fprintln(p.out, "no organisation has a data key")
	}
}

// current opens an up-to-date database, and returns an error for any other.
func (d databaseFlags) current(ctx context.Context) (*store.DB, error) {
	dsn, o := d.address()
	db, err := store.Connect(ctx, dsn, o)
	if err != nil {
		return nil, err
	}
	missing, err := db.Missing(ctx)
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("database %s is not up to date; run modelgate migrate first", db.Name())
	}
	if err == nil {
		_, err = db.Migrate(ctx) // there is nothing to do
	}
	if err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}
