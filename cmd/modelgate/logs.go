package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"modelgate/internal/base/secret"
	"modelgate/internal/records/logstore"
	"modelgate/internal/server"
	"modelgate/internal/settings"
	"modelgate/internal/storage/sqlite"
)

// log returns the options of the log with the address url.
func (d databaseFlags) log(url string) (logstore.Options, error) {
	address, err := server.LogsAddress(secret.New(url), secret.New(*d.url))
	_, o := d.address()
	return server.LogsOptions(*d.data, address, o), err
}

func logs(p *program) *cobra.Command {
	return p.noun("logs", "Exports or prunes the request log.", logsExport, pruneLogs)
}

func pruneLogs(p *program) *cobra.Command {
	f := p.flags("prune",
		"Removes entries of the log that are older than --days, and the oldest ones until the log\n"+
			"takes no more than --bytes. You can run it next to a gateway. PostgreSQL removes whole\n"+
			"days by --days, and parts of days by --bytes. With --bodies-days it also removes the\n"+
			"bodies of older entries, and with --sums-days older rollups of analytics.",
		`modelgate logs prune --days 30 --dry-run
modelgate logs prune --bytes 20GB --bodies-days 7`)
	d := newDatabaseFlags(f)
	url := logsFlag(f)
	days := f.Int("days", 0, "keep entries of the last `N` days")
	size := f.text("bytes", "", "", "remove the oldest entries until the log is at most this `size`, for example 20GB")
	bodies := f.Int("bodies-days", 0, "keep bodies of the last `N` days")
	sums := f.Int("sums-days", 0, "keep rollups of the last `N` days")
	dry := f.Bool("dry-run", false, "change nothing and print what would be removed")
	return f.run(func(ctx context.Context) error {
		keep, err := retention(settings.Retention{Days: *days, BodiesDays: *bodies, SumsDays: *sums}, *size)
		if err != nil {
			return err
		}
		o, err := d.log(*url)
		if err != nil {
			return err
		}
		if _, err := os.Stat(o.Path); o.URL == "" && errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("log %s not found", o.Path)
		}
		s, err := logstore.Open(ctx, o)
		if err != nil {
			return explainFull(err)
		}
		work, done := s.Prune, "removed"
		if *dry {
			work, done = s.Prunable, "would remove"
		}
		sum, err := work(ctx, keep, time.Now())
		fmt.Fprintf(p.out, "%s %s, %s\n", done, counted(sum.Entries, "entry"), counted(sum.Bytes, "byte"))
		if *bodies > 0 {
			fmt.Fprintf(p.out, "%s the bodies of %s\n", done, counted(sum.Bodies, "entry"))
		}
		if *sums > 0 {
			fmt.Fprintf(p.out, "%s %s\n", done, counted(sum.Sums, "rollup"))
		}
		return explainFull(errors.Join(err, s.Close(ctx)))
	})
}

// explainFull returns err, or what to do if the disk is too full to remove anything from it.
func explainFull(err error) error {
	if sqlite.IsFull(err) {
		return errors.New("the disk is full, and SQLite needs room to remove entries; delete something else until a few tens of megabytes are free, and run the command again")
	}
	return err
}

// retention returns the retention in the flags.
func retention(r settings.Retention, size string) (logstore.Retention, error) {
	if size != "" {
		var err error
		if r.Bytes, err = settings.ParseSize(size); err != nil {
			return logstore.Retention{}, usage("%v", err)
		}
	}
	if min(r.Days, r.BodiesDays, r.SumsDays) < 0 { // a setting may keep all, but a command that removes nothing is a mistake
		return logstore.Retention{}, usage("days must not be negative")
	}
	if err := r.Check(); err != nil {
		return logstore.Retention{}, usage("%v", err)
	}
	if r == (settings.Retention{}) {
		return logstore.Retention{}, usage("set at least one of --days, --bytes, --bodies-days or --sums-days")
	}
	return server.Retention(r), nil
}
