// Command modelgate is a gateway for model providers.
//
// Each subcommand has a file with its flags. It guarantees exit code 0 for success, 1
// for a failure, reported in one line on standard error, and 2 for wrong usage. The
// gateway itself is in package server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"
)

// version is a semantic version, set by the build scripts.
var version = "0.1.0-dev"

// command is a subcommand.
type command struct {
	name  string
	about string
	run   func(ctx context.Context, p *program, args []string) error
}

var commands = []command{
	{"serve", "run the gateway", serve},
	{"demo", "run the gateway with a simulated provider; needs no setup", demo},
	{"check", "check a settings file (modelgate.yaml), or a config object (.json) and its test cases", check},
	{"login", "sign in to a gateway with a browser", login},
	{"logout", "end the session of login", logout},
	{"tail", "print requests as they finish", tail},
	{"explain", "print where a request would go, or went, and why", explain},
	{"keys", "create, list and revoke gateway keys; change the master key", keys},
	{"organisations", "create and list isolated organisations", organisations},
	{"domains", "record that a domain of e-mail addresses belongs to an organisation", runDomains},
	{"users", "create a link to reset a user's password, or remove their second factors", users},
	{"claim", "create a link with which an owner signs in", claim},
	{"apply", "apply a file to the control plane", apply},
	{"export", "export the control plane to a file", export},
	{"mcp-server", "convert a server.json of the public MCP registry to a file for apply", convertServer},
	{"audit", "verify the chain of the audit log, or remove old rows", audit},
	{"alerts", "test the destinations of alerts", testAlerts},
	{"schema", "print the JSON Schema of a settings file or of a config object", schema},
	{"ledger", "verify the usage ledger or replay it into the log", runLedger},
	{"logs", "prune the request log, or export a part of it", logs},
	{"jobs", "list, show, cancel and retry background jobs", runJobs},
	{"cache", "evaluate the semantic cache", runCache},
	{"migrate", "apply pending database migrations", migrate},
	{"seal", "seal a credential for modelgate.yaml with the master key", seal},
	{"providers", "list the providers that the gateway knows", providers},
	{"prices", "check prices, or compare and import public price tables", runPrices},
	{"simulate", "run the simulator: a provider that needs no account", simulate},
	{"bench", "benchmark the gateway against a plain reverse proxy", runBench},
	{"healthcheck", "check whether a running gateway is ready", healthcheck},
	{"version", "print the version", printVersion},
	{compileModuleName, "", compileModule}, // run by the gateway itself, so not in the list
}

// program is the environment of a command.
type program struct {
	in       io.Reader
	out, err io.Writer
	env      func(string) string
	environ  []string // list of NAME=value
}

func main() {
	// net/http logs unexpected data from providers to the standard logger; it may
	// contain anyone's text.
	log.SetOutput(io.Discard)
	runtime.MemProfileRate = 0 // only bench can write this profile, and it sets the rate
	p := &program{os.Stdin, os.Stdout, os.Stderr, os.Getenv, os.Environ()}
	os.Exit(p.main(context.Background(), os.Args[1:]))
}

// errUsage is a usage error, which was already reported.
var errUsage = errors.New("usage")

func usage(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errUsage}, args...)...)
}

// main runs the command that args name and returns the exit code.
func (p *program) main(ctx context.Context, args []string) int {
	if len(args) == 0 || args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		p.help(p.out)
		if len(args) == 0 {
			return 2
		}
		return 0
	}
	for _, c := range commands {
		if c.name != args[0] {
			continue
		}
		if err := checkEnvironment(p.environ); err != nil {
			return p.exitCode(c.name, err)
		}
		return p.exitCode(c.name, c.run(ctx, p, args[1:]))
	}
	fmt.Fprintf(p.err, "modelgate: unknown command %q\n\n", args[0])
	p.help(p.err)
	return 2
}

func (p *program) exitCode(name string, err error) int {
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		fmt.Fprintf(p.err, "modelgate %s: %s\nrun `modelgate %s --help` for its flags\n", name,
			strings.TrimPrefix(err.Error(), "usage: "), name)
		return 2
	}
	fmt.Fprintf(p.err, "modelgate %s: %s\n", name, stripLines(err.Error()))
	return 1
}

func (p *program) help(w io.Writer) {
	fmt.Fprint(w, "modelgate is a gateway for model providers.\n\nUsage: modelgate <command> [flags]\n\nCommands:\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range commands {
		if c.about == "" {
			continue
		}
		fmt.Fprintf(t, "  %s\t%s\n", c.name, c.about)
	}
	t.Flush()
	fmt.Fprint(w, "\nRun `modelgate <command> --help` for its flags and environment variables.\n")
}

// flags is a flag set whose flags can also be set by environment variables.
type flags struct {
	*flag.FlagSet
	p     *program
	names string            // names of the positional arguments
	args  []string          // positional arguments, in order
	envs  map[string]string // environment variable by flag
}

// flags returns the flag set of a command. Args names its positional arguments.
func (p *program) flags(name, args, about string) *flags {
	f := &flags{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError), p: p, names: args, envs: map[string]string{}}
	f.SetOutput(io.Discard) // errors are reported by exitCode
	f.Usage = func() {
		fmt.Fprintf(p.out, "%s\n\nUsage: %s\n\n", about, strings.TrimSpace("modelgate "+name+" [flags] "+args))
		f.SetOutput(p.out)
		f.PrintDefaults()
	}
	return f
}

// text adds a flag that defaults to an environment variable.
func (f *flags) text(name, env, def, about string) *string {
	if env != "" {
		f.envs[name] = env
		about += " (environment " + env + ")"
	}
	return f.String(name, def, about)
}

// parse parses args and sets missing flags from the environment. Want is the number of
// positional arguments.
func (f *flags) parse(args []string, want int) error {
	if err := f.parseInterspersed(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return usage("%v", err)
	}
	switch {
	case len(f.args) < want:
		return usage("%s is required", f.names)
	case len(f.args) > want:
		return usage("unexpected argument %q", f.args[want])
	}
	given := map[string]bool{}
	f.Visit(func(fl *flag.Flag) { given[fl.Name] = true })
	for name, env := range f.envs {
		v := f.p.env(env)
		if v == "" || given[name] {
			continue
		}
		if err := f.Set(name, v); err != nil {
			return usage("%s: %v", env, err)
		}
	}
	return nil
}

// parseInterspersed parses flags before, between and after positional arguments.
func (f *flags) parseInterspersed(args []string) error {
	for {
		if err := f.Parse(args); err != nil {
			return err
		}
		if f.NArg() == 0 {
			return nil
		}
		f.args = append(f.args, f.FlagSet.Arg(0))
		args = f.Args()[1:]
	}
}

// Arg returns the positional argument i.
func (f *flags) Arg(i int) string { return f.args[i] }

func printVersion(_ context.Context, p *program, args []string) error {
	f := p.flags("version", "", "Prints the version.")
	if err := f.parse(args, 0); err != nil {
		return err
	}
	fmt.Fprintln(p.out, "modelgate", version)
	return nil
}
