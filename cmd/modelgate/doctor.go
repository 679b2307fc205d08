package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"modelgate/internal/base/secret"
	"modelgate/internal/server/diagnosis"
)

const doctorHelp = `Checks what serve with the same flags and environment would use, and prints a line for
each check: ok, note, warning or failure, the last two with what to change. The exit code
is 1 if something fails.

It reads the settings, the databases and the data folder, and connects to what they name:
providers (a request without a credential), proxy, Redis, mail server, webhooks (without a
request), public_url and a gateway that is running. It starts and changes nothing, and
sends credentials only to the databases, to Redis and to the mail server.`

// doctorFlags are the flags of commands that check an installation.
type doctorFlags struct {
	serve    serveFlags
	database databaseFlags
	logs     *string
	offline  *bool
	timeout  *time.Duration
}

func newDoctorFlags(f *flags) doctorFlags {
	d := doctorFlags{serve: newServeFlags(f, "data")}
	d.database = databaseFlags{data: d.serve.data}.withAddress(f)
	d.logs = logsFlag(f)
	d.offline = f.Bool("offline", false, "make no connections")
	d.timeout = f.Duration("timeout", 5*time.Second, "`time` limit of each check")
	return d
}

// options returns what is checked. A flag or variable that cannot be used is a finding, except
// for wrong usage.
func (d doctorFlags) options(ctx context.Context, p *program) (diagnosis.Options, error) {
	o, err := d.serve.options(ctx, p)
	if errors.Is(err, errUsage) {
		return diagnosis.Options{}, err
	}
	if *d.timeout <= 0 {
		return diagnosis.Options{}, usage("--timeout must be positive")
	}
	o.Database, o.LogsDatabase = secret.New(*d.database.url), secret.New(*d.logs)
	_, o.DatabaseOptions = d.database.address()
	return diagnosis.Options{Server: o, StartError: err, KeyFiles: d.serve.keyFiles(), Offline: *d.offline, Timeout: *d.timeout,
		Environment: p.env}, nil
}

// keyFiles returns the files that the flags name and that have secrets.
func (sf serveFlags) keyFiles() (list []string) {
	for _, k := range []keyFlags{sf.master.now, sf.master.previous, sf.adminToken} {
		if *k.file != "" {
			list = append(list, *k.file)
		}
	}
	return list
}

func doctor(p *program) *cobra.Command {
	f := p.flags("doctor", doctorHelp,
		`modelgate doctor --data data --config modelgate.yaml
modelgate doctor --offline --json`)
	d := newDoctorFlags(f)
	asJSON := f.Bool("json", false, "print JSON")
	return f.run(func(ctx context.Context) error { return diagnose(ctx, p, d, *asJSON) })
}

// diagnose prints the findings.
func diagnose(ctx context.Context, p *program, d doctorFlags, asJSON bool) error {
	o, err := d.options(ctx, p)
	if err != nil {
		return err
	}
	findings := diagnosis.Run(ctx, o)
	if asJSON {
		e := json.NewEncoder(p.out)
		e.SetIndent("", "  ")
		if err := e.Encode(findings); err != nil {
			return err
		}
	} else {
		for _, f := range findings {
			p.printLine("%s", f)
		}
	}
	if n := diagnosis.CountFailures(findings); n > 0 {
		return fmt.Errorf("%d of %s failed; each line above says what to change", n, counted(len(findings), "check"))
	}
	return nil
}
