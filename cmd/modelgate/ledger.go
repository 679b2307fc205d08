package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"modelgate/internal/base/oserr"
	"modelgate/internal/records/ledger"
	"modelgate/internal/records/logstore"
	"modelgate/internal/server"
)

func runLedger(ctx context.Context, p *program, args []string) error {
	f := p.flags("ledger", "verify|replay", "Verifies or replays the usage ledger, which records the outcome and cost of every attempt.\n\n"+
		"verify  counts the records of the segments and adds up requests, tokens and cost. The\n"+
		"        exit code is 1 if an attempt has no end or a segment is damaged. It changes\n"+
		"        nothing; a gateway may be running.\n"+
		"replay  adds missing entries to the log from the segments that no running gateway\n"+
		"        holds, and settles attempts without an end by an estimate, as each start does.")
	d := newDatabaseFlags(f)
	url := logsFlag(f)
	if err := f.parse(args, 1); err != nil {
		return err
	}
	if _, err := os.Stat(server.LedgerDir(*d.data)); err != nil {
		return fmt.Errorf("ledger not found in the data folder (--data or MODELGATE_DATA): %w", oserr.File(err))
	}
	switch f.Arg(0) {
	case "verify":
		return verifyLedger(p, *d.data)
	case "replay":
		log, err := d.log(*url)
		if err != nil {
			return err
		}
		return replayLedger(ctx, p, *d.data, log)
	}
	return usage("unknown subcommand %q; use verify or replay", f.Arg(0))
}

func verifyLedger(p *program, data string) error {
	r, err := ledger.Verify(server.LedgerDir(data))
	if err != nil {
		return err
	}
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
		return fmt.Sprintf("damaged in %d places", s.Damaged)
	case s.InUse:
		return "in use"
	case s.Torn > 0:
		return fmt.Sprintf("%d bytes at its end are incomplete", s.Torn)
	}
	return "ok"
}

func replayLedger(ctx context.Context, p *program, data string, log logstore.Options) error {
	done, err := server.ReplayLedger(ctx, data, log)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.out, "rows added to the log   %d\nrows already in the log %d\nattempts estimated      %d\nsegments quarantined    %d\n",
		done.Added, done.Known, done.Estimated, done.Aside)
	return nil
}
