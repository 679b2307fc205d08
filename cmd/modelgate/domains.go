package main

import (
	"context"
	"fmt"

	"modelgate/internal/base/apierr"
	"modelgate/internal/identity/access"
	"modelgate/internal/server"
	"modelgate/internal/store"
)

func runDomains(ctx context.Context, p *program, args []string) error {
	if len(args) == 0 {
		return usage("missing subcommand: verify")
	}
	switch args[0] {
	case "verify":
		return verifyDomain(ctx, p, args[1:])
	case "-h", "--help":
		fmt.Fprintln(p.out, "Usage: modelgate domains verify [flags]\n\n`modelgate domains verify --help` lists the flags.")
		return nil
	}
	return usage("unknown subcommand %q; use verify", args[0])
}

func verifyDomain(ctx context.Context, p *program, args []string) error {
	f := p.flags("domains verify", "",
		"Records that a domain of e-mail addresses belongs to an organisation, without looking for a record in the DNS. People with such an address can then become members at their first sign-in at an identity provider that lists the domain.")
	d := newDatabaseFlags(f)
	name := f.String("name", "", "the `domain`, for example example.com")
	organisation := f.String("organisation", store.DefaultOrganisation, "id or slug of the `organisation`")
	if err := f.parse(args, 0); err != nil {
		return err
	}
	if *name == "" {
		return usage("--name is required")
	}
	parsed, err := access.ParseDomain(*name)
	if err != nil {
		return usage("--name: %v", err)
	}
	db, err := d.current(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	err = server.VerifyDomain(ctx, db, *organisation, parsed)
	switch {
	case apierr.IsNotFound(err):
		return fmt.Errorf("organisation %q not found; `modelgate organisations list` shows them", *organisation)
	case err != nil && apierr.From(err).Kind == apierr.Conflict:
		return fmt.Errorf("%s is verified for another organisation", parsed)
	case err != nil:
		return err
	}
	fmt.Fprintln(p.out, parsed+" is verified")
	return nil
}
