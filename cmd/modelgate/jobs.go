package main

import (
	"context"
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"modelgate/internal/store"
	"modelgate/internal/store/jobs"
)

// runJobs runs the subcommand of `modelgate jobs`.
func runJobs(p *program) *cobra.Command {
	return p.noun("jobs", "Lists, shows, cancels and retries background jobs.",
		listJobs, showJob, cancelJob, retryJob)
}

// listedJobs is the number of jobs that are listed at most.
const listedJobs = 1000

func listJobs(p *program) *cobra.Command {
	f := p.flags("list",
		"Lists the background jobs of an organisation, newest first.",
		"modelgate jobs list --state failed")
	d := newDatabaseFlags(f)
	organisation := f.String("organisation", store.DefaultOrganisation, "`id` of the organisation")
	kind := f.String("kind", "", "only jobs of this `kind`, such as export")
	state := f.String("state", "", "only jobs in this `state`: queued, running, done, failed, dead or cancelled")
	return f.run(func(ctx context.Context) error {
		db, err := d.open(ctx)
		if err != nil {
			return err
		}
		defer db.Close()
		q := store.JobQuery{Organisation: *organisation, Kind: *kind, State: *state}
		list, total, err := db.Jobs(ctx, q, store.Page{Size: listedJobs})
		if err != nil {
			return err
		}
		t := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "ID\tKIND\tSUBJECT\tSTATE\tTRIES\tPROGRESS\tCREATED\tLAST ERROR")
		for i := range list {
			j := &list[i]
			printCells(t, j.ID, j.Kind, j.Subject, j.State, strconv.FormatInt(j.Tries, 10), progressOf(j), timeOf(j.CreatedAt), j.Failure)
		}
		if err := t.Flush(); err != nil {
			return err
		}
		if total > len(list) {
			fmt.Fprintf(p.out, "and %d older ones; narrow the list with --kind or --state\n", total-len(list))
		}
		return nil
	})
}

func showJob(p *program) *cobra.Command {
	f := p.flags("show ID",
		"Prints a background job.",
		"modelgate jobs show 01a218ea-0e12-7569-a664-4234e517dd38")
	d := newDatabaseFlags(f)
	return f.run(func(ctx context.Context) error {
		db, err := d.open(ctx)
		if err != nil {
			return err
		}
		defer db.Close()
		j, err := db.Job(ctx, f.Arg(0))
		if err != nil {
			return err
		}
		t := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
		for _, row := range [][2]string{
			{"id", j.ID}, {"kind", j.Kind}, {"subject", j.Subject}, {"organisation", j.Organisation}, {"workspace", j.Workspace}, {"state", j.State},
			{"node", j.Node}, {"tries", strconv.FormatInt(j.Tries, 10)}, {"progress", progressOf(&j)}, {"last error", j.Failure},
			{"created", timeOf(j.CreatedAt)}, {"started", timeOf(j.StartedAt)}, {"renewed", timeOf(j.RenewedAt)},
			{"next try", timeOf(j.NextAt)}, {"ended", timeOf(j.EndedAt)},
		} {
			if row[1] != "" {
				printCells(t, row[0], row[1])
			}
		}
		return t.Flush()
	})
}

func cancelJob(p *program) *cobra.Command {
	f := p.flags("cancel ID", "Cancels a queued or running job. The node that runs it stops within seconds.",
		"modelgate jobs cancel 01a218ea-0e12-7569-a664-4234e517dd38")
	return p.changeJob(f, jobs.Cancel)
}

func retryJob(p *program) *cobra.Command {
	f := p.flags("retry ID", "Queues a failed or dead job again, with all its tries.",
		"modelgate jobs retry 01a218ea-0e12-7569-a664-4234e517dd38")
	return p.changeJob(f, jobs.Requeue)
}

// changeJob completes a command that stores a transition of a job.
func (p *program) changeJob(f *flags, to func(store.Job, time.Time) (store.Job, error)) *cobra.Command {
	d, name := newDatabaseFlags(f), f.command.Name()
	return f.run(func(ctx context.Context) error {
		db, err := d.open(ctx)
		if err != nil {
			return err
		}
		defer db.Close()
		id, now := f.Arg(0), time.Now()
		a := store.OperatorAudit("", "jobs "+name, nil)
		a.ResourceType, a.ResourceID, a.Action = "job", id, name
		var j store.Job
		err = db.Update(ctx, a, func(tx *store.Tx) error {
			err := jobs.Change(ctx, tx,
				func() (store.Job, error) { return tx.Job(ctx, id) },
				func(was store.Job) (next store.Job, err error) {
					next, err = to(was, now)
					j = next
					return next, err
				})
			a.Organisation = j.Organisation
			return err
		})
		if err != nil {
			return err
		}
		fmt.Fprintln(p.out, j.State, id)
		return nil
	})
}

func progressOf(j *store.Job) string {
	if j.Total == nil {
		return strconv.FormatInt(j.Progress, 10)
	}
	return fmt.Sprintf("%d of %d", j.Progress, *j.Total)
}

// timeOf prints a time, empty for none.
func timeOf(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
