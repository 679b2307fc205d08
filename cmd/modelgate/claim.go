package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"modelgate/internal/server"
)

// claim gives an owner a way in that needs no password: whoever has the gateway's host has its
// database anyway.
func claim(p *program) *cobra.Command {
	f := p.flags("claim",
		`Prints the path of a link, relative to the gateway's address, with which an owner signs in
without a password. It works once, within an hour, and asks for a second factor as always;
users reset-factors removes those that are lost. For an organisation without an owner, it
prints the link with which the first one claims it, valid for a day.`,
		`modelgate claim
modelgate claim --email owner@example.com`)
	d := newDatabaseFlags(f)
	email := f.String("email", "", "e-mail `address` of the owner; leave it out if there is none yet")
	organisation := f.String("organisation", "default", "`slug` of the organisation")
	return f.run(func(ctx context.Context) error {
		db, err := d.current(ctx)
		if err != nil {
			return err
		}
		defer db.Close()
		path, err := server.ClaimOwner(ctx, db, *organisation, *email)
		if err != nil {
			return err
		}
		fmt.Fprintln(p.out, path.Reveal())
		return nil
	})
}
