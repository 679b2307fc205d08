package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"modelgate/internal/base/oserr"
	"modelgate/internal/server"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

func audit(p *program) *cobra.Command {
	return p.noun("audit", "Verifies the chain of the audit log, or removes old rows.",
		verifyAudit, pruneAudit)
}

const verifyHelp = `Checks the audit log of every organisation against its hashes and prints the last
row of each. The first row that was changed, removed, added or moved is named, and
the exit code is 1.

Anyone who can write to the database can remove the latest rows, or rewrite the chain
from some row on. Keep the output of --json somewhere else and pass it to --since
later: the command then checks that the rows known at that time still exist.

If retention has removed the oldest rows, the chain continues from the last of them,
and the removal is printed. Pass the master key to verify that the gateway removed
them: without it, anyone who can write to the database could have done so.`

func verifyAudit(p *program) *cobra.Command {
	f := p.flags("verify",
		verifyHelp,
		`modelgate audit verify --master-key-file master.key
modelgate audit verify --json --since heads.json`)
	d, m := newDatabaseFlags(f), newMasterFlags(f)
	since := f.String("since", "", "`file` with an earlier output of --json")
	asJSON := f.Bool("json", false, "print JSON")
	return f.run(func(ctx context.Context) error {
		known, err := readHeads(*since)
		if err != nil {
			return err
		}
		db, signer, err := openAudit(ctx, p, d, m)
		if err != nil {
			return err
		}
		defer db.Close()
		chains, err := db.VerifyAudits(ctx, known, signer)
		if err != nil {
			return err
		}
		if *asJSON {
			return p.printHeads(chains)
		}
		for _, c := range chains {
			if c.Broken == "" {
				fmt.Fprintf(p.out, "%s: %s, %s\n", c.Organisation, counted(c.Sequence, "row"), c.Hash)
				if c.Removed != nil {
					fmt.Fprintf(p.out, "  %s\n", c.Removed)
				}
			}
		}
		return brokenChain(chains)
	})
}

// openAudit opens the database and returns the signer of removals, nil without a master
// key.
func openAudit(ctx context.Context, p *program, d databaseFlags, m masterFlags) (*store.DB, store.Signer, error) {
	master, previous, err := m.read(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	box, err := server.MasterBox(master, previous)
	if err != nil {
		return nil, nil, err
	}
	db, err := d.current(ctx)
	if err != nil {
		return nil, nil, err
	}
	return db, server.AuditSigner(db, box), nil
}

const pruneAuditHelp = `Removes rows of the audit log that are older than --days, in whole days (UTC), and
the oldest ones until all take no more than --bytes; the largest logs lose rows
first. You can run it while a gateway is running; the setting audit.retention does the
same. The removal is recorded in the chain, so that audit verify continues from
there, and is signed with the master key if it is given.

Rows that were changed are evidence: they and the rows after them are kept, and the
exit code is 1. With --force they are removed too, and the record says so.`

func pruneAudit(p *program) *cobra.Command {
	f := p.flags("prune",
		pruneAuditHelp,
		`modelgate audit prune --days 400 --dry-run
modelgate audit prune --bytes 1GB --master-key-file master.key`)
	d, m := newDatabaseFlags(f), newMasterFlags(f)
	days := f.Int("days", 0, "keep rows of the last `N` days")
	size := f.text("bytes", "", "", "keep about this `size`, such as 1GB")
	to := f.text("received-by", "", "", "keep rows that this `destination` has not received: webhook, syslog or both with a comma")
	force := f.Bool("force", false, "remove modified rows too, and rows after a removal without a valid signature")
	dry := f.Bool("dry-run", false, "change nothing and print what would be removed")
	return f.run(func(ctx context.Context) error {
		pruning, err := auditPruning(*days, *size, *to)
		if err != nil {
			return err
		}
		db, signer, err := openAudit(ctx, p, d, m)
		if err != nil {
			return err
		}
		defer db.Close()
		pruning.Now, pruning.Signer, pruning.Operator, pruning.Force, pruning.DryRun = time.Now(), signer, true, *force, *dry
		done := "removed"
		if *dry {
			done = "would remove"
		}
		sum, err := db.PruneAudits(ctx, pruning)
		fmt.Fprintf(p.out, "%s %s, about %s\n", done, counted(sum.Rows, "row"), counted(sum.Bytes, "byte"))
		return err
	})
}

// auditPruning returns the retention in the flags.
func auditPruning(days int, size, destinations string) (p store.AuditPruning, err error) {
	r := settings.AuditRetention{Days: days}
	if size != "" {
		if r.Bytes, err = settings.ParseSize(size); err != nil {
			return p, usage("%v", err)
		}
	}
	if days < 0 {
		return p, usage("days must not be negative")
	}
	if err := r.Check(); err != nil {
		return p, usage("%v", err)
	}
	if r == (settings.AuditRetention{}) {
		return p, usage("set --days or --bytes")
	}
	names := strings.FieldsFunc(destinations, func(r rune) bool { return r == ',' })
	for _, name := range names {
		if name != "webhook" && name != "syslog" {
			return p, usage("--received-by must be webhook, syslog or both, not %q", name)
		}
	}
	return server.AuditPruning(r, names), nil
}

// readHeads reads an earlier output of --json. Without a file it returns none.
func readHeads(file string) (heads []store.AuditHead, err error) {
	if file == "" {
		return nil, nil
	}
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &heads)
	}
	if err != nil {
		return nil, fmt.Errorf("--since: %w", oserr.File(err))
	}
	return heads, nil
}

// printHeads prints the last rows, unless a chain is broken, because broken heads must
// not be kept.
func (p *program) printHeads(chains []store.AuditChain) error {
	if err := brokenChain(chains); err != nil {
		return err
	}
	heads := []store.AuditHead{}
	for _, c := range chains {
		heads = append(heads, c.AuditHead)
	}
	return json.NewEncoder(p.out).Encode(heads)
}

// brokenChain returns the errors in the chains as one line.
func brokenChain(chains []store.AuditChain) error {
	var text strings.Builder
	for _, c := range chains {
		if c.Broken != "" {
			text.WriteString(fmt.Sprintf("; organisation %s: %s", c.Organisation, c.Broken))
		}
	}
	if text.String() == "" {
		return nil
	}
	return fmt.Errorf("the audit log was modified%s", text.String())
}
