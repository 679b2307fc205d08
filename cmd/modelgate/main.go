// Command modelgate is a gateway for model providers.
//
// Each subcommand has a file with its flags. It guarantees exit code 0 for success, 1
// for a failure, reported in one line on standard error, and 2 for wrong usage. The
// gateway itself is in package server.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// version is a semantic version, set by the build scripts.
var version = "0.1.0-dev"

// commit is the id of the commit that the program was built from, set by the build scripts.
// Empty if there is none.
var commit string

// group is a group of commands in the help.
type group struct {
	title    string
	commands []row
}

// row is a command with its description in the help.
type row struct {
	about string
	make  func(*program) *cobra.Command
}

// administer is the title of the group to which commands of the API are added.
const administer = "Administer"

var groups = []group{
	{"Run a gateway", []row{
		{"run the gateway", serve},
		{"run the gateway with a simulated provider; needs no setup", demo},
		{"check a settings file (modelgate.yaml), or a config object (.json) and its test cases", check},
		{"check what serve would use: settings, databases, disk, network, providers", doctor},
		{"write a bundle for asking for help, without secrets", support},
		{"apply pending database migrations, or copy a database to the other kind", migrate},
		{"write a backup of everything that is stored, while gateways run", backup},
		{"restore a backup", restore},
		{"check whether a running gateway is ready", healthcheck},
	}},
	{"Use a running gateway", []row{
		{"sign in to a gateway with a browser", login},
		{"end the session of login", logout},
		{"print requests as they finish", tail},
		{"print where a request would go, or went, and why", explain},
		{"run a coding agent through a gateway, and print what it used", runAgent},
	}},
	{administer, []row{
		{"create, list and revoke gateway keys; change the master key", keys},
		{"create and list isolated organisations", organisations},
		{"record that a domain of e-mail addresses belongs to an organisation", runDomains},
		{"create a link to reset a user's password, or remove their second factors", users},
		{"create a link with which an owner signs in", claim},
		{"apply a file to the control plane", apply},
		{"export the control plane to a file", export},
		{"prune the request log, or export a part of it", logs},
		{"verify the usage ledger or replay it into the log", runLedger},
		{"verify the chain of the audit log, or remove old rows", audit},
		{"test the destinations of alerts", alerts},
		{"list, show, cancel and retry background jobs", runJobs},
	}},
	{"Prepare and measure", []row{
		{"print the JSON Schema of a settings file or of a config object", schema},
		{"seal a credential for modelgate.yaml with the master key", seal},
		{"convert the configuration of LiteLLM, Portkey, Bifrost, one-api or the environment", importForeign},
		{"convert a server.json of the public MCP registry to a file for apply", convertServer},
		{"list the providers that the gateway knows", providers},
		{"check prices, or compare and import public price tables", runPrices},
		{"evaluate the semantic cache", runCache},
		{"run the simulator: a provider that needs no account", simulate},
		{"benchmark the gateway against a plain reverse proxy", runBench},
	}},
	{"This program", []row{
		{"print a script for completion in a shell", completion},
		{"write manual pages", man},
		{"print the version", printVersion},
	}},
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

// main runs the command that args name and returns the exit code.
func (p *program) main(ctx context.Context, args []string) int {
	c, err := p.tree(args, p.administration).ExecuteContextC(ctx)
	if status, ok := errors.AsType[exitStatus](err); ok {
		return int(status)
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errHelp):
		return 2
	case errors.Is(err, errUsage):
		text := stripControl(strings.TrimPrefix(err.Error(), "usage: ")) + p.adviseAddress(c, args, err)
		fmt.Fprintf(p.err, "%s: %s (see `%[1]s --help`)\n", c.CommandPath(), text)
		return 2
	}
	fmt.Fprintf(p.err, "%s: %s\n", c.CommandPath(), stripLines(err.Error()))
	return 1
}

// unknownFlag matches the error for a flag that a command lacks.
var unknownFlag = regexp.MustCompile(`unknown flag --([a-z.-]+)`)

// adviseAddress returns advice for a call without an address whose flag only the command of the
// API has, empty for other errors.
func (p *program) adviseAddress(c *cobra.Command, args []string, err error) string {
	m := unknownFlag.FindStringSubmatch(err.Error())
	if m == nil || p.hasAddress(args) {
		return ""
	}
	path := append(strings.Fields(c.CommandPath())[1:], "--url=")
	other, _, err := p.tree(path, p.administration).Find(path)
	if err != nil || other.Flags().Lookup(m[1]) == nil {
		return ""
	}
	return "; to use a running gateway, set MODELGATE_URL or --url"
}

// errHelp ends a call without a command, for which help was printed.
var errHelp = errors.New("no command")

// tree returns the commands for a call with these arguments. Api, unless nil, returns
// commands that administer a gateway at an address. Its nouns and verbs are added; of verbs
// that the database of this machine has too, the API's are used if the call has an
// address.
func (p *program) tree(args []string, api func(args []string) []*cobra.Command) *cobra.Command {
	root := p.root()
	if api != nil {
		addVerbs(root, api(args), p.hasAddress(args))
	}
	root.SetArgs(append([]string{}, args...)) // nil would be those of the process
	root.SetIn(p.in)
	root.SetOut(p.out)
	root.SetErr(p.err)
	return root
}

// root returns the commands of this machine.
func (p *program) root() *cobra.Command {
	root := p.noun("modelgate", "modelgate is a gateway for model providers.")
	root.Example = "modelgate demo\nmodelgate help keys create"
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.DisableDefaultCmd = true // ours has examples
	root.SetHelpCommand(help(p))
	root.SetHelpFunc(printHelp)
	root.SetFlagErrorFunc(flagError)
	asked := root.Flags().BoolP("version", "v", false, "print the version")
	root.RunE = func(c *cobra.Command, args []string) error {
		switch {
		case len(args) > 0:
			return refuseCommand(c, args)
		case *asked:
			p.printVersion()
			return nil
		}
		printHelp(c, nil)
		return errHelp
	}
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, row := range g.commands {
			c := row.make(p)
			c.Short, c.GroupID = row.about, g.title
			root.AddCommand(c)
		}
	}
	root.AddCommand(compileModule(p))
	return root
}

// hasAddress reports whether a call names the address of a gateway: with --url, or else in the
// environment, unless a flag names a database.
func (p *program) hasAddress(args []string) bool {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	given := func(flag string) bool {
		return slices.ContainsFunc(args, func(a string) bool { return a == flag || strings.HasPrefix(a, flag+"=") })
	}
	return given("--url") || p.env("MODELGATE_URL") != "" && !given("--data") && !given("--database-url")
}

// addVerbs adds commands with their subcommands to a command. If it has one of the same
// name, replace decides whether that is replaced.
func addVerbs(to *cobra.Command, list []*cobra.Command, replace bool) {
	for _, c := range list {
		i := slices.IndexFunc(to.Commands(), func(own *cobra.Command) bool { return own.Name() == c.Name() })
		switch {
		case i < 0:
			if !to.HasParent() {
				c.GroupID = administer
			}
			to.AddCommand(c)
		case c.HasSubCommands():
			noun := to.Commands()[i]
			noun.Aliases = append(noun.Aliases, c.Aliases...)
			addVerbs(noun, c.Commands(), replace)
			noun.Long += "\n\n" + addressNote
		case replace:
			c.GroupID = to.Commands()[i].GroupID
			to.RemoveCommand(to.Commands()[i])
			to.AddCommand(c)
		case !to.HasParent(): // a verb has the note of its noun
			to.Commands()[i].Long += "\n\n" + addressNote
		}
	}
}

// addressNote is in the help of commands that there are for the API and for the database.
const addressNote = "With --url or MODELGATE_URL, the API of the gateway at that address is used, and --help shows the flags for that; otherwise, and\n" +
	"with --data or --database-url in place of --url, the database of this machine."

func printVersion(p *program) *cobra.Command {
	f := p.flags("version", "Prints the version.", "modelgate version")
	return f.run(func(context.Context) error {
		p.printVersion()
		return nil
	})
}

func (p *program) printVersion() { fmt.Fprintln(p.out, "modelgate", version) }
