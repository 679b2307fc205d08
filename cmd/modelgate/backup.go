package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"modelgate/internal/base/oserr"
	"modelgate/internal/server"
	"modelgate/internal/store/transfer"
)

func backup(p *program) *cobra.Command {
	f := p.flags("backup FILE",
		"Writes a backup of the control plane, the log, the ledger and the stored files of the data folder, also\n"+
			"while gateways run. If FILE is a folder, the backup gets a name with the time. The master key is not in the\n"+
			"backup; without it, sealed credentials and files of the backup cannot be opened.",
		`modelgate backup --data data /var/backups/modelgate
modelgate backup --database-url postgres://modelgate@db.example.com/modelgate one.backup`)
	d := newDatabaseFlags(f)
	url := logsFlag(f)
	return f.run(func(ctx context.Context) error {
		from, err := d.place(*url)
		if err != nil {
			return err
		}
		return p.backup(ctx, from, f.Arg(0))
	})
}

// place returns where the flags say that a gateway stores its data.
func (d databaseFlags) place(logs string) (transfer.Place, error) {
	dsn, o := d.address()
	log, err := d.log(logs)
	return transfer.Place{Control: dsn, Options: o, Log: log, Data: *d.data}, err
}

// backup writes a backup to a file, or to a new one in a folder.
func (p *program) backup(ctx context.Context, from transfer.Place, path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "modelgate-"+time.Now().UTC().Format("20060102T150405Z")+".backup")
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s exists; name another file", path)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(smallHeap))
	began := time.Now()
	var s transfer.Summary
	size, err := writeFile(path, func(w io.Writer) (err error) {
		s, err = transfer.Write(ctx, from, version, w, p.progress())
		return err
	})
	if err != nil {
		return fmt.Errorf("no backup was made: %w", err)
	}
	fmt.Fprintf(p.out, "%s: %s, %s, %.1f MB (%.1f MB compressed) in %.1f s\n",
		path, counted(len(s.Tables), "table"), counted(s.Files, "file"), float64(s.Bytes)/1e6, float64(size)/1e6, time.Since(began).Seconds())
	fmt.Fprintln(p.out, "The master key is not in it: keep that elsewhere.")
	return nil
}

// smallHeap keeps the memory of a backup or a copy of any size at about 100 MB, at little cost: most of
// what is copied is never on the heap.
const smallHeap = 25

// writeFile writes a new file for its owner only, completely or not at all, and returns its
// size.
func writeFile(path string, write func(io.Writer) error) (size int64, err error) {
	part := path + ".part"
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, oserr.File(err)
	}
	err = write(f)
	if err == nil {
		size, err = f.Seek(0, io.SeekCurrent)
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		os.Remove(part)
	}
	return size, err
}

// progress returns a function that prints progress on standard error once a second.
func (p *program) progress() transfer.Progress {
	next := time.Now().Add(time.Second)
	return func(table string, rows int64) {
		if now := time.Now(); now.After(next) {
			fmt.Fprintf(p.err, "%s: %s\n", table, counted(rows, "row"))
			next = now.Add(time.Second)
		}
	}
}

func restore(p *program) *cobra.Command {
	f := p.flags("restore FILE",
		"Restores a backup into the databases and the data folder, while no gateway uses them.\n"+
			"It verifies the backup before it changes anything, and refuses to replace data without --force.",
		`modelgate restore --data data --dry-run one.backup
modelgate restore --data data --force one.backup`)
	d := newDatabaseFlags(f)
	url := logsFlag(f)
	force := f.Bool("force", false, "replace the data that is there")
	dry := f.Bool("dry-run", false, "change nothing; verify the backup and what it would be restored to")
	return f.run(func(ctx context.Context) error {
		to, err := d.place(*url)
		if err != nil {
			return err
		}
		return p.restore(ctx, f.Arg(0), to, transfer.RestoreOptions{Overwrite: *force, DryRun: *dry, Progress: p.progress()})
	})
}

// restore restores a backup from a file.
func (p *program) restore(ctx context.Context, path string, to transfer.Place, o transfer.RestoreOptions) error {
	unlock, err := server.LockFolder(to.Data)
	if err != nil {
		return err
	}
	defer unlock()
	f, err := os.Open(path)
	if err != nil {
		return oserr.File(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return oserr.File(err)
	}
	if !o.DryRun {
		if err := os.MkdirAll(to.Data, 0o700); err != nil {
			return fmt.Errorf("data folder (--data or MODELGATE_DATA): %w", oserr.File(err))
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(smallHeap))
	s, err := transfer.Restore(ctx, f, info.Size(), to, o)
	if err != nil {
		return fmt.Errorf("restoring %s: %w", path, err)
	}
	p.printTotals(s.Tables)
	done := "restored"
	if o.DryRun {
		done = "verified; nothing was changed:"
		if s.Used != "" && !o.Overwrite {
			fmt.Fprintf(p.out, "%s; to replace it, add --force.\n", s.Used)
		}
	}
	fmt.Fprintf(p.out, "%s the backup of %s, made by modelgate %s. Start the gateway with the master key of that time.\n",
		done, s.Time.Format(time.RFC3339), s.Program)
	return nil
}

// printTotals prints a table of tables that are not empty.
func (p *program) printTotals(list []transfer.Total) {
	t := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "table\trows\tattempts\ttokens\tcost (nano-dollars)\thash")
	for _, s := range list {
		if s.Rows == 0 {
			continue
		}
		fmt.Fprintf(t, "%s\t%d", s.Table, s.Rows)
		for _, column := range []string{"attempts", "tokens", "cost"} {
			if n := s.Columns[column]; n != nil {
				fmt.Fprintf(t, "\t%s", n)
			} else {
				fmt.Fprint(t, "\t")
			}
		}
		fmt.Fprintf(t, "\t%016x\n", s.Hash[0])
	}
	t.Flush()
}
