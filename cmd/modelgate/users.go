package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"time"

	"modelgate/internal/apierr"
	"modelgate/internal/reqlog"
	"modelgate/internal/server"
	"modelgate/internal/store"
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
	now := time.Now()
	id := reqlog.NewID(now).String()
	token, err := server.ResetPassword(ctx, db, &store.Audit{
		ID: id, RequestID: id, Time: now, Method: "CLI", URI: "modelgate users reset-password", QueryParams: "{}", RequestHeaders: "{}", RequestBody: "null",
		UserID: operator(), UserType: "operator", Status: 200, ResourceType: "user", Action: "password_reset_link",
	}, *email)
	if e, ok := errors.AsType[*apierr.Error](err); ok && e.Kind == apierr.NotFound {
		return fmt.Errorf("user %q not found", *email)
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(p.out, "/set-password?token="+token.Reveal())
	return nil
}

// operator names who runs a command: the user and the host.
func operator() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return name + "@" + host
}
