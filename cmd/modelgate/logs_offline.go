package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"modelgate/internal/controlplane/exports"
	"modelgate/internal/records/logstore"
	"modelgate/internal/store"
)

// offlineLog has the flags of commands that can read the log without a gateway.
type offlineLog struct {
	chosen *bool
	databaseFlags
	logs *string
}

func newOfflineLog(f *flags) offlineLog {
	return offlineLog{f.Bool("offline", false, "read the log itself, in the data folder or a database, instead of asking a gateway"),
		newDatabaseFlags(f), logsFlag(f)}
}

// export writes an export to a file. Body is the request that a gateway would get. An empty
// workspace means all of the default organisation.
func (l offlineLog) export(ctx context.Context, p *program, body map[string]any, workspace, file string) (err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := l.log(*l.logs)
	if err != nil {
		return err
	}
	if _, err := os.Stat(o.Path); o.URL == "" && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("log %s not found", o.Path)
	}
	db, err := l.open(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	log, err := logstore.Open(ctx, o)
	if err != nil {
		return explainFull(err)
	}
	defer func() { err = errors.Join(err, log.Close(context.WithoutCancel(ctx))) }()
	e := store.Export{Organisation: store.DefaultOrganisation}
	if workspace != "" {
		w, err := db.Workspace(ctx, e.Organisation, workspace)
		if err != nil {
			return fmt.Errorf("workspace %q: %w", workspace, db.ClientError(err))
		}
		e.Workspace = w.ID
	}
	e.Format, _ = body["format"].(string)
	e.Requested, _ = body["requested_data"].([]string)
	if e.Filters, err = json.Marshal(body["filters"]); err != nil {
		return err
	}
	part, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(part.Name())
	r := exports.New(exports.Options{DB: db, List: log.List, Bodies: log.ReadBodies, Flush: log.Flush})
	rows, err := r.Write(ctx, part, e, log.Groups)
	if err = errors.Join(err, part.Close()); err != nil {
		return err
	}
	info, err := os.Stat(part.Name())
	if err != nil {
		return err
	}
	if err := os.Rename(part.Name(), file); err != nil {
		return err
	}
	fmt.Fprintf(p.out, "%s, %d bytes in %s\n", counted(rows, "row"), info.Size(), file)
	if rows >= mostExportedRows {
		fmt.Fprintf(p.err, "the file has the newest %d entries of the range; export older ones with an earlier --to\n", rows)
	}
	return nil
}
