package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"modelgate/internal/base/apierr"
	"modelgate/internal/server"
)

func users(p *program) *cobra.Command {
	return p.noun("users", "Resets passwords and second factors of users.",
		resetPassword, resetFactors)
}

func resetPassword(p *program) *cobra.Command {
	f := p.flags("reset-password",
		"Prints the path of a link, relative to the gateway's address, with which a user can replace their password within a day. It works once and ends all of their sessions. Admins can create such links for members through the API; this command also works for owners.",
		"modelgate users reset-password --email person@example.com")
	d := newDatabaseFlags(f)
	email := f.String("email", "", "e-mail `address` of the user")
	return f.run(func(ctx context.Context) error {
		if *email == "" {
			return usage("--email is required")
		}
		db, err := d.current(ctx)
		if err != nil {
			return err
		}
		defer db.Close()
		token, err := server.ResetPassword(ctx, db, *email)
		if apierr.IsNotFound(err) {
			return fmt.Errorf("user %q not found", *email)
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(p.out, "/set-password?token="+token.Reveal())
		return nil
	})
}

func resetFactors(p *program) *cobra.Command {
	f := p.flags("reset-factors",
		"Removes all second factors of a user who lost them, and ends their sessions. Admins can do this for members through the API; this command also works for owners.",
		"modelgate users reset-factors --email person@example.com")
	d := newDatabaseFlags(f)
	email := f.String("email", "", "e-mail `address` of the user")
	organisation := f.String("organisation", "default", "`slug` of the organisation")
	return f.run(func(ctx context.Context) error {
		if *email == "" {
			return usage("--email is required")
		}
		db, err := d.current(ctx)
		if err != nil {
			return err
		}
		defer db.Close()
		return server.ResetFactors(ctx, db, *organisation, *email)
	})
}
