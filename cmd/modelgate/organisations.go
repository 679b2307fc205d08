package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"modelgate/internal/base/apierr"
	"modelgate/internal/server"
	"modelgate/internal/settings"
)

func organisations(p *program) *cobra.Command {
	return p.noun("organisations", "Creates and lists isolated organisations.",
		createOrganisation, listOrganisations)
}

// organisationSlug matches the slugs that the API accepts.
var organisationSlug = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,255}$`)

func createOrganisation(p *program) *cobra.Command {
	f := p.flags("create",
		"Creates an organisation with a workspace, and prints the path, relative to the gateway's address, at which its owner can claim it within a day. Organisations cannot see each other's objects.",
		`modelgate organisations create --name "Team A" --slug team-a`)
	d := newDatabaseFlags(f)
	name := f.String("name", "", "display `name` of the organisation")
	slug := f.String("slug", "", "`slug` of it in requests: letters, digits, _ and -")
	public := f.text("public-url", "MODELGATE_PUBLIC_URL", "", "`address` of the gateway, for the link; without it only the path is printed")
	asJSON := f.Bool("json", false, "print JSON")
	return f.run(func(ctx context.Context) error {
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
	})
}

func listOrganisations(p *program) *cobra.Command {
	f := p.flags("list",
		"Lists the organisations.",
		"modelgate organisations list")
	d := newDatabaseFlags(f)
	return f.run(func(ctx context.Context) error {
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
	})
}
