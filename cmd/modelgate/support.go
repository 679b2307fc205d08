package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"modelgate/internal/base/oserr"
	"modelgate/internal/server/bundle"
)

const supportHelp = `Writes a bundle for asking for help, a tar.gz of text files, and prints what is in it:
what doctor finds, version, limits, the structure of the settings, names of variables,
numbers of rows, failed jobs, ledger, health and metrics of a running gateway.

Secrets, header values, texts of prompts and guardrails and e-mail addresses are replaced;
hosts stay unless --hide-hosts is set. Nothing is sent. Look through the files before you
pass them on.`

func support(p *program) *cobra.Command {
	f := p.flags("support FILE.tar.gz", supportHelp,
		`modelgate support --data data support.tar.gz
modelgate support --hide-hosts --config modelgate.yaml support.tar.gz`)
	d := newDoctorFlags(f)
	hide := f.Bool("hide-hosts", false, "replace the names and addresses of hosts")
	return f.run(func(ctx context.Context) error { return writeBundle(ctx, p, d, f.Arg(0), *hide) })
}

// writeBundle writes a bundle to a new file.
func writeBundle(ctx context.Context, p *program, d doctorFlags, name string, hide bool) (err error) {
	if !strings.HasSuffix(name, ".tar.gz") {
		return usage("the file must end in .tar.gz, not %q", name)
	}
	o, err := d.options(ctx, p)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists; name another file", name)
	}
	if err != nil {
		return oserr.File(err)
	}
	defer func() {
		if err = errors.Join(err, file.Close()); err != nil {
			os.Remove(name)
		}
	}()
	list, err := bundle.Write(ctx, file, bundle.Options{Diagnosis: o, Environ: p.environ, HideHosts: hide})
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	fmt.Fprint(p.out, bundle.Describe(list))
	fmt.Fprintf(p.out, "\n%s was written, and nothing was sent; look through it before you pass it on\n", name)
	return nil
}
