package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"modelgate/internal/store"
)

func audit(ctx context.Context, p *program, args []string) error {
	switch {
	case len(args) == 0:
		return usage("say what to do: verify")
	case args[0] == "verify":
		return verifyAudit(ctx, p, args[1:])
	case args[0] == "-h", args[0] == "--help":
		fmt.Fprintln(p.out, "Usage: modelgate audit verify [flags]\n\n`modelgate audit verify --help` lists the flags.")
		return nil
	}
	return usage("there is no %q; verify is offered", args[0])
}

const verifyHelp = `Checks the audit log of every organisation against its hashes and prints the last
row of each. The first row that was changed, removed, added or moved is named, and
the exit code is 1.

Whoever can write to the database can remove the latest rows, or write the chain
again from some row on. Keep what --json prints somewhere else and give it to
--since later: rows that were known then have to be there still.`

func verifyAudit(ctx context.Context, p *program, args []string) error {
	f := p.flags("audit verify", "", verifyHelp)
	d := newDatabaseFlags(f)
	since := f.String("since", "", "`file` with what --json printed before")
	asJSON := f.Bool("json", false, "print JSON")
	if err := f.parse(args, 0); err != nil {
		return err
	}
	known, err := readHeads(*since)
	if err != nil {
		return err
	}
	db, err := d.current(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	chains, err := db.VerifyAudits(ctx, known)
	if err != nil {
		return err
	}
	if *asJSON {
		return p.printHeads(chains)
	}
	for _, c := range chains {
		if c.Broken == "" {
			fmt.Fprintf(p.out, "%s: %d rows, %s\n", c.Organisation, c.Sequence, c.Hash)
		}
	}
	return brokenChain(chains)
}

// readHeads reads what --json printed before. No file has none.
func readHeads(file string) (heads []store.AuditHead, err error) {
	if file == "" {
		return nil, nil
	}
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &heads)
	}
	if err != nil {
		return nil, fmt.Errorf("reading --since: %w", err)
	}
	return heads, nil
}

// printHeads prints the last rows, unless a chain is broken: nobody should keep
// those.
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

// brokenChain returns what is wrong with the chains, in one line.
func brokenChain(chains []store.AuditChain) error {
	text := ""
	for _, c := range chains {
		if c.Broken != "" {
			text += fmt.Sprintf("; organisation %s: %s", c.Organisation, c.Broken)
		}
	}
	if text == "" {
		return nil
	}
	return fmt.Errorf("the audit log was tampered with%s", text)
}
