package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"modelgate/internal/base/apierr"
	"modelgate/internal/identity/access"
	"modelgate/internal/server"
	"modelgate/internal/store"
)

func runDomains(p *program) *cobra.Command {
	return p.noun("domains", "Records that domains of e-mail addresses belong to organisations.",
		verifyDomain)
}

func verifyDomain(p *program) *cobra.Command {
	f := p.flags("verify",
		"Records that a domain of e-mail addresses belongs to an organisation, without looking for a record in the DNS. People with such an address can then become members at their first sign-in at an identity provider that lists the domain.",
		"modelgate domains verify --name example.com")
	d := newDatabaseFlags(f)
	name := f.String("name", "", "the `domain`, for example example.com")
	organisation := f.String("organisation", store.DefaultOrganisation, "id or slug of the `organisation`")
	return f.run(func(ctx context.Context) error {
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
	})
}
