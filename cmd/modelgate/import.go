package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"modelgate/internal/base/oserr"
	"modelgate/internal/base/secret"
	"modelgate/internal/server"
	convert "modelgate/internal/settings/foreign"
)

const importHelp = `Converts the configuration of another gateway to a file of this one, on standard output or
in the file of -o. The report on standard error says what was taken over, what differs, what
has no equivalent, and which environment variables the file needs.

FORMAT is litellm (config.yaml), portkey (a config, or exports of its API), bifrost
(config.json), one-api (its channels as JSON or an SQL dump) or env (a .env file; without
FILE, the environment).

Credentials become references to environment variables. With a master key, they are sealed.
Nothing is sent, and no gateway needs to run.

Example: modelgate import litellm config.yaml -o modelgate.yaml`

// importForeign converts the configuration of another gateway.
func importForeign(p *program) *cobra.Command {
	f := p.flags("import FORMAT [FILE]",
		importHelp,
		`modelgate import litellm config.yaml -o modelgate.yaml
modelgate import env .env`)
	out := f.StringP("output", "o", "", "`file` to write instead of standard output; it must not exist")
	reportFile := f.String("report", "", "`file` to write the report to as JSON; it must not exist")
	master := newMasterFlags(f)
	return f.run(func(ctx context.Context) error {
		format := f.Arg(0)
		var text []byte
		switch {
		case len(f.Args()) == 2:
			var err error
			if text, err = readSource(f.Arg(1)); err != nil {
				return err
			}
		case format != "env":
			return usage("FORMAT is %s, and FILE is required except for env", strings.Join(convert.Formats(), ", "))
		}
		box, err := importBox(ctx, p, master)
		if err != nil {
			return err
		}
		file, report, err := convert.Import(format, text, convert.Options{Environ: p.environ, Box: box})
		if err != nil && len(f.Args()) == 2 {
			return fmt.Errorf("%s: %w", f.Arg(1), err)
		}
		if err != nil {
			return err
		}
		if *reportFile != "" {
			j, err := json.MarshalIndent(report, "", "  ")
			if err != nil {
				return err
			}
			if err := writeNew(*reportFile, append(j, '\n')); err != nil {
				return err
			}
		}
		if *out == "" {
			if _, err := p.out.Write(file); err != nil {
				return err
			}
		} else if err := writeNew(*out, file); err != nil {
			return err
		}
		p.reportImport(report, *out)
		return nil
	})
}

// maxSource is the limit of a source in bytes; package foreign has smaller ones by format.
const maxSource = 64 << 20

func readSource(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, oserr.File(err))
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSource))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, oserr.File(err))
	}
	if text == nil {
		text = []byte{}
	}
	return text, nil
}

// importBox returns what seals credentials, nil without a master key.
func importBox(ctx context.Context, p *program, m masterFlags) (*secret.Box, error) {
	master, previous, err := m.read(ctx, p)
	if err != nil || master.Empty() {
		return nil, err
	}
	return server.MasterBox(master, previous)
}

// writeNew writes a file that does not exist yet, readable only by its owner.
func writeNew(name string, text []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists; remove it, or write another file", name)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, oserr.File(err))
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// reportImport prints the report on standard error.
func (p *program) reportImport(r *convert.Report, file string) {
	line := func(format string, values ...any) { fmt.Fprintln(p.err, stripControl(fmt.Sprintf(format, values...))) }
	for _, outcome := range []string{convert.Taken, convert.Changed, convert.Missing} {
		first := true
		for _, n := range r.Notes {
			if n.Outcome != outcome {
				continue
			}
			if first {
				line("%s:", outcome)
			}
			first = false
			line("  %s", strings.TrimPrefix(n.Setting+": "+n.Text, ": "))
		}
	}
	if len(r.Variables) > 0 {
		line("set these environment variables for the file:")
	}
	for _, v := range r.Variables {
		if v.From == "" {
			line("  %s", v.Name)
			continue
		}
		line("  %s: the value of %s", v.Name, v.From)
	}
	if file == "" {
		file = "FILE"
	}
	if r.Apply {
		line("apply it: modelgate apply %s", filepath.ToSlash(file))
		return
	}
	line("check it: modelgate check %s; run it: modelgate serve --config %s", filepath.ToSlash(file), filepath.ToSlash(file))
}
