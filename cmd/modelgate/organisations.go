package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"text/tabwriter"

	"modelgate/internal/base/apierr"
	"modelgate/internal/server"
	"modelgate/internal/settings"
)

func organisations(ctx context.Context, p *program, args []string) error {
	if len(args) == 0 {
		return usage("missing subcommand: create or list")
	}
	switch args[0] {
	case "create":
		return createOrganisation(ctx, p, args[1:])
	case "list":
		return listOrganisations(ctx, p, args[1:])
	case "-h", "--help":
		fmt.Fprintln(p.out,
			"Usage: modelgate organisations create|list [flags]\n\n`modelgate organisations create --help` and so on list the flags.")
		return nil
	}
	return usage("unknown subcommand %q; use create or list", args[0])
}

// organisationSlug matches the slugs that the API accepts.
var organisationSlug = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,255}$`)

func createOrganisation(ctx context.Context, p *program, args []string) error {
	f := p.flags("organisations create", "",
		"Creates an organisation with a workspace, and prints the path, relative to the gateway's address, at which its owner can claim it within a day. Organisations cannot see each other's objects.")
	d := newDatabaseFlags(f)
	name := f.String("name", "", "display `name` of the organisation")
	slug := f.String("slug", "", "`slug` of it in requests: letters, digits, _ and -")
	public := f.text("public-url", "MODELGATE_PUBLIC_URL", "", "`address` of the gateway, for the link; without it only the path is printed")
	asJSON := f.Bool("json", false, "print JSON")
	if err := f.parse(args, 0); err != nil {
		return err
	}
	if *name == "" || len(*name) > 255 || !organisationSlug.MatchString(*slug) {
		return usage("--name and --slug are required and at most 255 characters long; a slug has letters, digits, _ and -")
	}
	base := ""
	if *public != "" {
		var err error
		if base, err = settings.ParsePublicURL(*public); err != nil {
			return usage("--public-url %v", err)
		}
	}
	if err := os.MkdirAll(*d.data, 0o700); err != nil { // may run before the first start
		return fmt.Errorf("creating the data folder: %w", err)
	}
	db, err := d.open(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	o, link, err := server.CreateOrganisation(ctx, db, *name, *slug)
	if e, ok := errors.AsType[*apierr.Error](err); ok && e.Kind == apierr.Conflict {
		return fmt.Errorf("organisation %q already exists; see `modelgate organisations list`", *slug)
	}
	if err != nil {
		return err
	}
	path := base + "/claim?token=" + link.Reveal()
	if !*asJSON {
		fmt.Fprintln(p.out, path)
		return nil
	}
	return json.NewEncoder(p.out).Encode(map[string]string{"id": o.ID, "slug": o.Slug, "name": o.Name, "claim_link": path})
}

func listOrganisations(ctx context.Context, p *program, args []string) error {
	f := p.flags("organisations list", "", "Lists the organisations.")
	d := newDatabaseFlags(f)
	if err := f.parse(args, 0); err != nil {
		return err
	}
	db, err := d.open(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	list, err := db.Organisations(ctx)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tSLUG\tNAME\tOWNED")
	for _, o := range list {
		owned := "no"
		if o.OwnerID != "" {
			owned = "yes"
		}
		printCells(t, o.ID, o.Slug, o.Name, owned)
	}
	return t.Flush()
}
