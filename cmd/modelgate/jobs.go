package main

import (
	"context"
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"

	"modelgate/internal/store"
	"modelgate/internal/store/jobs"
)

// runJobs runs the subcommand of `modelgate jobs`.
func runJobs(ctx context.Context, p *program, args []string) error {
	if len(args) == 0 {
		return usage("missing subcommand: list, show, cancel or retry")
	}
	switch args[0] {
	case "list":
		return listJobs(ctx, p, args[1:])
	case "show":
		return showJob(ctx, p, args[1:])
	case "cancel":
		return changeJob(ctx, p, args, "Cancels a queued or running job. The node that runs it stops within seconds.", jobs.Cancel)
	case "retry":
		return changeJob(ctx, p, args, "Queues a failed or dead job again, with all its tries.", jobs.Requeue)
	case "-h", "--help":
		fmt.Fprintln(p.out, "Usage: modelgate jobs list|show|cancel|retry [flags]\n\n`modelgate jobs list --help` and so on list the flags.")
		return nil
	}
	return usage("unknown subcommand %q; use list, show, cancel or retry", args[0])
}

// listedJobs is the number of jobs that are listed at most.
const listedJobs = 1000

func listJobs(ctx context.Context, p *program, args []string) error {
	f := p.flags("jobs list", "", "Lists the background jobs of an organisation, newest first.")
	d := newDatabaseFlags(f)
	organisation := f.String("organisation", store.DefaultOrganisation, "`id` of the organisation")
	kind := f.String("kind", "", "only jobs of this `kind`, such as export")
	state := f.String("state", "", "only jobs in this `state`: queued, running, done, failed, dead or cancelled")
	if err := f.parse(args, 0); err != nil {
		return err
	}
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
}

func showJob(ctx context.Context, p *program, args []string) error {
	f := p.flags("jobs show", "ID", "Prints a background job.")
	d := newDatabaseFlags(f)
	if err := f.parse(args, 1); err != nil {
		return err
	}
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
}

// changeJob stores a transition of the job that args name after the subcommand.
func changeJob(ctx context.Context, p *program, args []string, help string, to func(store.Job, time.Time) (store.Job, error)) error {
	f := p.flags("jobs "+args[0], "ID", help)
	d := newDatabaseFlags(f)
	if err := f.parse(args[1:], 1); err != nil {
		return err
	}
	db, err := d.open(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	id, now := f.Arg(0), time.Now()
	a := store.OperatorAudit("", "jobs "+args[0], nil)
	a.ResourceType, a.ResourceID, a.Action = "job", id, args[0]
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
