package main

import (
	"context"
	"fmt"

	"modelgate/internal/base/apierr"
	"modelgate/internal/server"
)

func users(ctx context.Context, p *program, args []string) error {
	if len(args) == 0 {
		return usage("missing subcommand: reset-password or reset-factors")
	}
	switch args[0] {
	case "reset-password":
		return resetPassword(ctx, p, args[1:])
	case "reset-factors":
		return resetFactors(ctx, p, args[1:])
	case "-h", "--help":
		fmt.Fprintln(p.out, "Usage: modelgate users reset-password|reset-factors [flags]\n\n`modelgate users reset-password --help` lists the flags.")
		return nil
	}
	return usage("unknown subcommand %q; use reset-password or reset-factors", args[0])
}

func resetPassword(ctx context.Context, p *program, args []string) error {
	f := p.flags("users reset-password", "",
		"Prints the path of a link, relative to the gateway's address, with which a user can replace their password within a day. It works once and ends all of their sessions. Admins can create such links for members through the API; this command also works for owners.")
	d := newDatabaseFlags(f)
	email := f.String("email", "", "e-mail `address` of the user")
	if err := f.parse(args, 0); err != nil {
		return err
	}
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
}

func resetFactors(ctx context.Context, p *program, args []string) error {
	f := p.flags("users reset-factors", "",
		"Removes all second factors of a user who lost them, and ends their sessions. Admins can do this for members through the API; this command also works for owners.")
	d := newDatabaseFlags(f)
	email := f.String("email", "", "e-mail `address` of the user")
	organisation := f.String("organisation", "default", "`slug` of the organisation")
	if err := f.parse(args, 0); err != nil {
		return err
	}
	if *email == "" {
		return usage("--email is required")
	}
	db, err := d.current(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	return server.ResetFactors(ctx, db, *organisation, *email)
}
