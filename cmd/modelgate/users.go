package main

import (
	"context"
	"fmt"

	"modelgate/internal/apierr"
	"modelgate/internal/server"
)

func users(ctx context.Context, p *program, args []string) error {
	if len(args) == 0 {
		return usage("say what to do: reset-password")
	}
	switch args[0] {
	case "reset-password":
		return resetPassword(ctx, p, args[1:])
	case "-h", "--help":
		fmt.Fprintln(p.out, "Usage: modelgate users reset-password [flags]\n\n`modelgate users reset-password --help` lists the flags.")
		return nil
	}
	return usage("there is no %q; reset-password is offered", args[0])
}

func resetPassword(ctx context.Context, p *program, args []string) error {
	f := p.flags("users reset-password", "", "Prints the path of a link, below the address of the gateway, by which a person replaces their password within a day. It works once and ends all of their sessions. Admins make such links for members by the API; this one works for owners too.")
	d := newDatabaseFlags(f)
	email := f.String("email", "", "e-mail `address` of the person")
	if err := f.parse(args, 0); err != nil {
		return err
	}
	if *email == "" {
		return usage("--email is needed")
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
