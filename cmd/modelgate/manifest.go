package main

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/manifest"
	"modelgate/internal/guardrail/checks"
	"modelgate/internal/guardrail/wasmcode"
	"modelgate/internal/server"
	"modelgate/internal/settings"
	"modelgate/internal/store"
	"modelgate/internal/upstream"
)

// manifestFlags are the flags of export and apply.
type manifestFlags struct {
	database              databaseFlags
	master                masterFlags
	organisation, trusted *string
}

func newManifestFlags(f *flags) manifestFlags {
	return manifestFlags{newDatabaseFlags(f), newMasterFlags(f),
		f.String("organisation", "default", "`slug` or id of the organisation"),
		f.text("trusted-hosts", "MODELGATE_TRUSTED_HOSTS", "",
			"comma-separated `list` of hosts, host:port, *.suffix or CIDR that custom hosts may use even if private")}
}

func export(p *program) *cobra.Command {
	f := p.flags("export",
		"Exports the state of the control plane to a file for `modelgate apply`.\n\n"+
			"Secrets are sealed with the master key, replaced by references to environment variables, whose names are printed on\nstandard error, or left out. Usage, passwords, invites and the audit log are not exported.",
		`modelgate export --output state.yaml
modelgate export --secrets references`)
	m := newManifestFlags(f)
	secrets := f.String("secrets", "sealed", "`form` of secrets: sealed, references or none")
	out := f.StringP("output", "o", "", "`file` to write instead of standard output")
	return f.run(func(ctx context.Context) error {
		switch manifest.Secrets(*secrets) {
		case manifest.Sealed, manifest.References, manifest.None:
		default:
			return usage("--secrets must be sealed, references or none, not %q", *secrets)
		}
		box, err := m.box(ctx, p)
		if err != nil {
			return err
		}
		db, err := m.database.current(ctx)
		if err != nil {
			return err
		}
		defer db.Close()
		state, names, err := (&manifest.Manifest{DB: db, Organisation: *m.organisation, Box: box}).Export(ctx, manifest.Secrets(*secrets))
		if err != nil {
			return err
		}
		var text bytes.Buffer
		if err := state.WriteState(&text); err != nil {
			return err
		}
		if err := p.writeFile(*out, text.Bytes()); err != nil {
			return err
		}
		if len(names) > 0 {
			fmt.Fprintf(p.err, "`modelgate apply` requires these environment variables for the file:\n%s\n", strings.Join(names, "\n"))
		}
		return nil
	})
}

func (m manifestFlags) box(ctx context.Context, p *program) (*secret.Box, error) {
	master, previous, err := m.master.read(ctx, p)
	if err != nil {
		return nil, err
	}
	return server.MasterBox(master, previous)
}

// writeFile writes to standard output, or replaces a file atomically.
func (p *program) writeFile(file string, text []byte) error {
	if file == "" {
		_, err := p.out.Write(text)
		return err
	}
	fresh, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*") // readable only by its owner
	if err != nil {
		return err
	}
	defer os.Remove(fresh.Name()) // no effect after renaming
	_, err = fresh.Write(text)
	if closing := fresh.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return err
	}
	return os.Rename(fresh.Name(), file)
}

func apply(p *program) *cobra.Command {
	f := p.flags("apply FILE",
		"Applies a file to the control plane in one transaction. Running gateways pick it up within a second.\n\n"+
			"Prints a line for each object: + for added, ~ with its fields for changed, - for removed.\nWithout --prune nothing is removed. Applying the same file again changes nothing.",
		`modelgate apply --dry-run state.yaml
modelgate apply --prune state.yaml`)
	m := newManifestFlags(f)
	config := f.text("config", "MODELGATE_CONFIG", "", "settings `file` of the gateway, whose upstream.trusted_hosts apply too")
	dry := f.Bool("dry-run", false, "print the changes without applying them")
	prune := f.Bool("prune", false, "delete objects missing from the file, in the sections the file contains")
	return f.run(func(ctx context.Context) error {
		box, err := m.box(ctx, p)
		if err != nil {
			return err
		}
		opener := settings.SecretResolver{Env: p.lookup, Box: box}
		file, err := settings.LoadState(f.Arg(0), opener)
		if err != nil {
			return err
		}
		for _, name := range file.FileOnlySections() {
			fmt.Fprintf(p.err, "%s not applied; only the settings file of a running gateway can contain it\n", name)
		}
		if *config != "" {
			own, err := settings.Load(*config, opener)
			if err != nil {
				return err
			}
			file.Upstream.TrustedHosts = append(file.Upstream.TrustedHosts, own.Upstream.TrustedHosts...)
		}
		check, err := m.hosts(file)
		if err != nil {
			return err
		}
		db, err := m.target(ctx, *dry)
		if err != nil {
			return err
		}
		defer db.Close()
		compiler, err := wasmcode.Open(wasmcode.Options{Command: compilerCommand()})
		if err != nil {
			return err
		}
		changes, err := (&manifest.Manifest{DB: db, Organisation: *m.organisation, Box: box, CheckHost: check,
			Guardrails: checks.New(checks.Services{Modules: checks.NewModules(compiler)})}).
			Apply(ctx, file, manifest.Apply{Prune: *prune, DryRun: *dry, Opener: opener})
		if err != nil {
			return err
		}
		p.tellChanges(changes, *dry)
		return nil
	})
}

// lookup implements os.LookupEnv for the program's environment.
func (p *program) lookup(name string) (string, bool) {
	v := p.env(name)
	return v, v != ""
}

// target opens the database to change, creating it if necessary unless dry is set.
func (m manifestFlags) target(ctx context.Context, dry bool) (*store.DB, error) {
	if dry {
		return m.database.current(ctx)
	}
	if err := os.MkdirAll(*m.database.data, 0o700); err != nil {
		return nil, fmt.Errorf("creating the data folder: %w", err)
	}
	return m.database.open(ctx)
}

// hosts returns the check of addresses in the file.
func (m manifestFlags) hosts(file *settings.Settings) (check func(string) (*url.URL, error), err error) {
	trusted := append(words(*m.trusted), file.Upstream.TrustedHosts...)
	for _, h := range trusted {
		if err := upstream.CheckTrusted(h); err != nil {
			return nil, usage("trusted hosts: %v", err)
		}
	}
	client := upstream.New(upstream.Options{TrustedHosts: trusted})
	return client.CheckHost, nil
}

func (p *program) tellChanges(changes []manifest.Change, dry bool) {
	count, people := make(map[string]int), 0
	for _, c := range changes {
		p.printLine("%s", c)
		if count[c.Op]++; c.Op == "+" && c.Kind == "member" {
			people++
		}
	}
	switch {
	case len(changes) == 0:
		fmt.Fprintln(p.out, "nothing to change")
	case dry:
		fmt.Fprintf(p.out, "would add %d, change %d and remove %d\n", count["+"], count["~"], count["-"])
	default:
		fmt.Fprintf(p.out, "added %d, changed %d and removed %d\n", count["+"], count["~"], count["-"])
		if people > 0 {
			fmt.Fprintf(p.err, "%d new users have no password; create a link for each with POST /v1/admin/users/{user}/link\n", people)
		}
	}
}
