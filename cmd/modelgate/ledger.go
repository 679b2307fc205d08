package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"modelgate/internal/base/oserr"
	"modelgate/internal/records/ledger"
	"modelgate/internal/server"
)

func runLedger(p *program) *cobra.Command {
	return p.noun("ledger", "Verifies or replays the usage ledger, which records the outcome and cost of every attempt.", verifyLedger, replayLedger)
}

func verifyLedger(p *program) *cobra.Command {
	f := p.flags("verify",
		"Counts the records of the ledger's segments and adds up requests, tokens and cost. The exit code is 1 if an\n"+
			"attempt has no end or a segment is damaged. It changes nothing; a gateway may be running.",
		"modelgate ledger verify --data data")
	d := newDatabaseFlags(f)
	return f.run(func(context.Context) error {
		if err := checkLedger(d); err != nil {
			return err
		}
		r, err := ledger.Verify(server.LedgerDir(*d.data))
		if err != nil {
			return err
		}
		return p.printLedger(r)
	})
}

// checkLedger returns an error if the data folder has no ledger.
func checkLedger(d databaseFlags) error {
	if _, err := os.Stat(server.LedgerDir(*d.data)); err != nil {
		return fmt.Errorf("ledger not found in the data folder (--data or MODELGATE_DATA): %w", oserr.File(err))
	}
	return nil
}

func (p *program) printLedger(r *ledger.Report) error {
	t := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "segment\tbytes\tintents\tsettled\trows\tto apply\tstate")
	for _, s := range r.Segments {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%s\n", filepath.Base(s.Path), s.Bytes, s.Intents, s.Settled, s.Rows, s.Waiting, state(s))
	}
	t.Flush()
	fmt.Fprintf(p.out,
		"\nrequests            %d\nattempts            %d\n  of them estimates %d\n  without a price   %d\ninput tokens        %d\noutput tokens       %d\nnano-dollars        %d\n",
		r.Exchanges, r.Attempts, r.Estimated, r.Unpriced, r.Input, r.Output, r.Cost)
	if r.Running > 0 {
		fmt.Fprintf(p.out, "attempts under way  %d\n", r.Running)
	}
	for _, i := range r.Unsettled {
		p.printLine("no end: exchange %s, attempt %d at %s, %s %s", i.ID, i.Attempt, i.Time.UTC().Format(time.RFC3339), i.Provider, i.Model)
	}
	if !r.OK() {
		return errors.New("the ledger has unsettled attempts or damaged segments; run `modelgate ledger replay` or restart the gateway to recover")
	}
	return nil
}

// state describes the state of a segment.
func state(s ledger.SegmentReport) string {
	switch {
	case s.Problem != "":
		return s.Problem
	case s.Damaged > 0:
		return fmt.Sprintf("damaged in %s", counted(s.Damaged, "place"))
	case s.InUse:
		return "in use"
	case s.Torn > 0:
		return fmt.Sprintf("incomplete at its end, by %s", counted(s.Torn, "byte"))
	}
	return "ok"
}

func replayLedger(p *program) *cobra.Command {
	f := p.flags("replay",
		"Adds missing entries to the log from the segments of the ledger that no running gateway holds, and settles\n"+
			"attempts without an end by an estimate, as each start does.",
		"modelgate ledger replay --data data")
	d := newDatabaseFlags(f)
	url := logsFlag(f)
	return f.run(func(ctx context.Context) error {
		if err := checkLedger(d); err != nil {
			return err
		}
		log, err := d.log(*url)
		if err != nil {
			return err
		}
		done, err := server.ReplayLedger(ctx, *d.data, log)
		if err != nil {
			return err
		}
		fmt.Fprintf(p.out, "rows added to the log   %d\nrows already in the log %d\nattempts estimated      %d\nsegments quarantined    %d\n",
			done.Added, done.Known, done.Estimated, done.Aside)
		return nil
	})
}
