package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"modelgate/internal/base/moment"
	"modelgate/internal/identity/access"
	"modelgate/internal/server"
	"modelgate/internal/store"
)

func keys(p *program) *cobra.Command {
	return p.noun("keys", "Creates, lists and revokes gateway keys, and changes the master key.",
		createKey, listKeys, revokeKey, rotateMaster)
}

// createdKey is the output of keys create --json.
type createdKey struct {
	ID        string         `json:"id"`
	Name      string         `json:"name"`
	Key       string         `json:"key"`
	Scopes    []access.Scope `json:"scopes"`
	Providers []string       `json:"providers"`
	ExpiresAt *time.Time     `json:"expires_at"`
}

func createKey(p *program) *cobra.Command {
	f := p.flags("create",
		"Creates a gateway key and prints it once. A running gateway accepts it within a second.",
		"modelgate keys create --name ci --scopes completions.write --providers fast --expires 720h")
	d := newDatabaseFlags(f)
	name := f.String("name", "", "display `name` of the key")
	scopes := f.String("scopes", "",
		"comma-separated `list` of scopes: completions.write, models.list, logs.list, logs.view; empty gives every scope")
	providers := f.String("providers", "", "comma-separated `list` of provider ids and slugs the key may use; empty allows all")
	across := f.Bool("all-organisations", false, "let the key read the log of every organisation, without bodies; each read is audited")
	from := f.String("from", "", "comma-separated `list` of addresses and CIDRs of clients that may use the key; empty allows all")
	expires := f.String("expires", "", "`time` at which the key expires: from now such as 720h or 90d, or one such as 2026-12-31; without it never")
	asJSON := f.Bool("json", false, "print JSON")
	return f.run(func(ctx context.Context) error {
		if *name == "" {
			return usage("--name is required")
		}
		end, err := parseExpiry(*expires, time.Now())
		if err != nil {
			return err
		}
		if err := os.MkdirAll(*d.data, 0o700); err != nil { // keys may be created before the first start
			return fmt.Errorf("creating the data folder: %w", err)
		}
		db, err := d.open(ctx)
		if err != nil {
			return err
		}
		defer db.Close()
		k := store.Key{Name: *name, Providers: words(*providers)}
		if k.Defaults, err = addressDefaults(words(*from)); err != nil {
			return err
		}
		if k.Scopes, err = keyScopes(words(*scopes), *across); err != nil {
			return err
		}
		k.ExpiresAt = end
		key, made, err := server.CreateKeyAsOperator(ctx, db, k)
		if err != nil {
			return err
		}
		if !*asJSON {
			fmt.Fprintln(p.out, key.Reveal())
			return nil
		}
		out := createdKey{ID: made.ID, Name: made.Name, Key: key.Reveal(), Scopes: made.Scopes, Providers: made.Providers}
		if !made.ExpiresAt.IsZero() {
			out.ExpiresAt = &made.ExpiresAt
		}
		return json.NewEncoder(p.out).Encode(out)
	})
}

// parseExpiry returns the time of --expires, zero for none.
func parseExpiry(text string, now time.Time) (time.Time, error) {
	if text == "" || text == "0" {
		return time.Time{}, nil
	}
	t, err := moment.Parse("+"+text, now, time.Local)
	if err != nil {
		t, err = moment.Parse(text, now, time.Local)
	}
	if span, bad := time.ParseDuration(text); bad == nil { // such as 1h30m
		t, err = now.Add(span), nil
	}
	if err != nil || !t.After(now) {
		return t, usage("--expires must be a time from now such as 720h or 90d, or a future one such as 2026-12-31, not %q", text)
	}
	return t.UTC().Truncate(time.Second), nil
}

// addressDefaults returns the defaults of a key that only clients at these addresses may
// use. No addresses are nil: all clients may use it.
func addressDefaults(list []string) (json.RawMessage, error) {
	if list == nil {
		return nil, nil
	}
	if _, err := access.ParseAddresses(list); err != nil || len(list) > access.MaxAddresses {
		return nil, usage("--from must be up to %d addresses and CIDRs, such as 10.0.0.0/8: %v", access.MaxAddresses, err)
	}
	return json.Marshal(store.KeyDefaults{AllowedAddresses: list})
}

// keyScopes returns the scopes of a key; nil gives every scope. Across adds the scope that
// reads the log of every organisation.
func keyScopes(names []string, across bool) (scopes []access.Scope, err error) {
	for _, s := range names {
		if err := access.Scope(s).Check(); err != nil {
			return nil, usage("%v", err)
		}
		scopes = append(scopes, access.Scope(s))
	}
	if across && scopes == nil {
		scopes = []access.Scope{access.ScopeAll}
	}
	if across {
		scopes = append(scopes, access.ScopeInstallation)
	}
	return scopes, nil
}

func words(list string) []string {
	var out []string
	for w := range strings.SplitSeq(list, ",") {
		if w = strings.TrimSpace(w); w != "" {
			out = append(out, w)
		}
	}
	return out
}

func listKeys(p *program) *cobra.Command {
	f := p.flags("list",
		"Lists the gateway keys without their secrets.",
		"modelgate keys list")
	d := newDatabaseFlags(f)
	return f.run(func(ctx context.Context) error {
		db, err := d.open(ctx)
		if err != nil {
			return err
		}
		defer db.Close()
		list, err := db.Keys(ctx)
		if err != nil {
			return err
		}
		t := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "ID\tNAME\tKEY\tSTATUS\tCREATED\tEXPIRES")
		for _, k := range list {
			expires := "never"
			if !k.ExpiresAt.IsZero() {
				expires = k.ExpiresAt.UTC().Format(time.RFC3339)
			}
			printCells(t, k.ID, k.Name, k.Mask, k.StatusAt(time.Now()), k.CreatedAt.UTC().Format(time.RFC3339), expires)
		}
		return t.Flush()
	})
}

func revokeKey(p *program) *cobra.Command {
	f := p.flags("revoke ID",
		"Revokes a gateway key. A running gateway rejects it within a second.",
		"modelgate keys revoke 01a218ea-0e12-7569-a664-4234e517dd38")
	d := newDatabaseFlags(f)
	return f.run(func(ctx context.Context) error {
		db, err := d.open(ctx)
		if err != nil {
			return err
		}
		defer db.Close()
		id := f.Arg(0)
		a := store.OperatorAudit("", "keys revoke", nil)
		a.ResourceType, a.ResourceID, a.Action = "api_key", id, "delete"
		err = db.Update(ctx, a, func(tx *store.Tx) error {
			if err := tx.RevokeKey(ctx, id); err != nil {
				return err
			}
			var err error
			a.Organisation, err = tx.KeyOrganisation(ctx, id)
			return err
		})
		if err != nil {
			return err
		}
		fmt.Fprintln(p.out, "revoked", f.Arg(0))
		return nil
	})
}
