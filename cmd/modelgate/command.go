package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"modelgate/config"
)

// errUsage is the cause of usage errors.
var errUsage = errors.New("usage")

func usage(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errUsage}, args...)...)
}

// flags is a command that is being declared: its flags, which can also be set by
// environment variables, and its positional arguments.
type flags struct {
	*pflag.FlagSet
	p       *program
	command *cobra.Command
}

// flags returns a command without flags. Use is its name and the names of its positional
// arguments; "[NAME ...]" stands for any number. The first sentence of about is its line in
// lists. Examples has one command line per line, and at least one.
func (p *program) flags(use, about, examples string) *flags {
	c := &cobra.Command{
		Use: use, Short: firstSentence(about), Long: about, Example: examples,
		DisableFlagsInUseLine: true,
	}
	return &flags{c.Flags(), p, c}
}

// environmentOf is the annotation of a flag with its environment variable.
const environmentOf = "environment"

// fromEnvironment is the annotation of a flag whose value comes from that variable.
const fromEnvironment = "from environment"

// text adds a flag that defaults to an environment variable.
func (f *flags) text(name, env, def, about string) *string {
	value := f.String(name, def, about+environmentNote(env))
	if env != "" {
		f.Lookup(name).Annotations = map[string][]string{environmentOf: {env}}
	}
	return value
}

// environmentNote returns the end of a flag's description that names its variable.
func environmentNote(env string) string {
	if env == "" {
		return ""
	}
	return " (environment " + env + ")"
}

// run completes the command. Work is called with parsed flags and the right number of
// arguments.
func (f *flags) run(work func(ctx context.Context) error) *cobra.Command {
	f.command.Args = checkArguments
	f.command.RunE = func(c *cobra.Command, _ []string) error {
		if err := checkEnvironment(f.p.environ); err != nil {
			return err
		}
		if err := f.readEnvironment(); err != nil {
			return err
		}
		return work(c.Context())
	}
	f.completeFlags()
	return f.command
}

// readEnvironment sets flags that were not given from the environment.
func (f *flags) readEnvironment() (err error) {
	f.VisitAll(func(fl *pflag.Flag) {
		for _, env := range fl.Annotations[environmentOf] {
			v := f.p.env(env)
			if v == "" || fl.Changed || err != nil {
				continue
			}
			if set := f.Set(fl.Name, v); set != nil {
				err = fmt.Errorf("%w (environment %s)", flagError(f.command, set), env)
			}
			fl.Annotations[fromEnvironment] = []string{env}
		}
	})
	return err
}

// hasFlag reports whether the call has a flag, rather than the environment.
func (f *flags) hasFlag(name string) bool {
	return f.Changed(name) && f.Lookup(name).Annotations[fromEnvironment] == nil
}

// positional returns the names of a command's positional arguments.
func positional(c *cobra.Command) []string { return strings.Fields(c.Use)[1:] }

// checkArguments returns an error for the wrong number of arguments. Those in brackets may be left
// out, and of [NAME ...] there may be any number.
func checkArguments(c *cobra.Command, args []string) error {
	names := positional(c)
	required := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, "[") })
	if required < 0 {
		required = len(names)
	}
	switch {
	case len(args) < required:
		return usage("%s is required", strings.Join(names, " "))
	case len(args) > len(names) && !slices.Contains(names, "...]"):
		return usage("unexpected argument %q", args[len(names)])
	}
	return nil
}

// noun returns a command that only has subcommands.
func (p *program) noun(name, about string, verbs ...func(*program) *cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: name, Short: firstSentence(about), Long: about,
		DisableFlagsInUseLine: true,
		Args:                  cobra.ArbitraryArgs,
		RunE:                  refuseCommand,
		ValidArgsFunction:     cobra.NoFileCompletions,
	}
	for _, verb := range verbs {
		c.AddCommand(verb(p))
	}
	return c
}

// refuseCommand returns the usage error of a command with subcommands if args name none of
// them.
func refuseCommand(c *cobra.Command, args []string) error {
	names := subcommands(c)
	if len(args) == 0 {
		return usage("missing subcommand: %s", alternatives(names))
	}
	kind := "subcommand"
	if !c.HasParent() {
		kind = "command"
	}
	if like := nearest(args[0], names); like != "" {
		return usage("unknown %s %q; did you mean %s?", kind, args[0], like)
	}
	if kind == "command" {
		return usage("unknown command %q", args[0])
	}
	return usage("unknown subcommand %q; use %s", args[0], alternatives(names))
}

// nearest returns the known name that name was probably meant to be, empty if there is
// none: two letters may have changed places, which [config.Nearest] takes for two mistakes.
func nearest(name string, known []string) string {
	for i := 1; i < len(name) && len(name) < 64; i++ {
		if swapped := name[:i-1] + name[i:i+1] + name[i-1:i] + name[i+1:]; slices.Contains(known, swapped) {
			return swapped
		}
	}
	return config.Nearest(name, known)
}

// subcommands returns the names of the subcommands that help lists.
func subcommands(c *cobra.Command) (names []string) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return names
}

// alternatives returns names as text, such as "create, list or revoke".
func alternatives(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// flagError converts an error of the parser to a usage error. It contains no values of
// unknown flags, which may be secrets.
func flagError(c *cobra.Command, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return usage("--%s must be %s, not %.100q", invalid.GetFlag().Name, valueOf(invalid.GetFlag()), invalid.GetValue())
	}
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return usage("%v", err)
	}
	names := flagNames(c)
	if c.HasAvailableSubCommands() {
		switch args := c.Flags().Args(); {
		case len(args) > 0:
			return refuseCommand(c, args)
		case len(names) == 0:
			return usage("flags follow the subcommand: %s", alternatives(subcommands(c)))
		}
	}
	given, dashes := unknown.GetSpecifiedName(), "--"
	if shorthands := unknown.GetSpecifiedShortnames(); shorthands != "" {
		given, _, _ = strings.Cut(shorthands, "=") // -data is read as -d -a -t -a
		dashes = "-"
	}
	if like := nearest(given, names); like != "" {
		return usage("unknown flag %s%s; did you mean --%s?", dashes, given, like)
	}
	return usage("unknown flag %s%s", dashes, unknown.GetSpecifiedName())
}

// valueOf describes the values of a flag.
func valueOf(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "bool":
		return "true or false"
	case "duration":
		return "a duration such as 90s or 12h"
	case "int":
		return "an integer"
	case poolLimitType:
		return "a number from 2 to 1000"
	}
	return "a number"
}

// flagNames returns the names of the flags of a command that help lists, without --help.
func flagNames(c *cobra.Command) (names []string) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" {
			names = append(names, f.Name)
		}
	})
	return names
}

// firstSentence returns the first sentence of a text without its full stop.
func firstSentence(text string) string {
	text, _, _ = strings.Cut(text, "\n\n")
	text = strings.Join(strings.Fields(text), " ")
	text, _, _ = strings.Cut(text, ". ")
	return strings.TrimSuffix(text, ".")
}
