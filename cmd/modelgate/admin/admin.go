// Package admin has the commands that administer a gateway over its API.
//
// A noun, such as keys, has verbs, and a verb is a row of a table: the route that it calls
// and the columns that it prints. Flags come from the description of the route, which
// routes.json has from the gateway's OpenAPI document. The package guarantees that a verb
// that removes something asks first, that a secret which the gateway shows once is printed
// to standard output and nowhere else, and that text of the gateway cannot control the
// terminal. It does not send requests (see gateway) or parse command lines.
package admin

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"modelgate/cmd/modelgate/gateway"
	"modelgate/config"
)

// Env is the environment of the commands.
type Env struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
	// Terminal reports whether a user can answer questions on In.
	Terminal bool
	// Agent is the User-Agent of requests.
	Agent string
	// Usage returns the error for a wrong call.
	Usage func(format string, args ...any) error
	// Args are the arguments of the call. Only verbs of nouns that are among them get flags and
	// descriptions, which takes milliseconds for all. Nil makes all complete.
	Args []string
	// WriteFile replaces a file by text, or writes text to Out if name is empty.
	WriteFile func(name string, text []byte) error
	// Check is called before a command runs. Its error ends the command. Nil is not called.
	Check func() error
}

// Commands returns a command for each noun, with its verbs, and those without a noun: top, apply
// and export.
func Commands(env Env) []*cobra.Command {
	list := make([]*cobra.Command, 0, len(nouns)+3)
	for i := range nouns {
		list = append(list, nouns[i].command(&env))
	}
	return append(list, topCommand(&env), applyCommand(&env), exportCommand(&env))
}

// command returns the command of a noun.
func (n *noun) command(env *Env) *cobra.Command {
	c := &cobra.Command{
		Use: n.name, Short: lowerFirst(n.about), Long: n.about + ".", Aliases: n.aliases,
		Args: cobra.ArbitraryArgs, ValidArgsFunction: cobra.NoFileCompletions, DisableFlagsInUseLine: true,
	}
	c.RunE = func(c *cobra.Command, args []string) error { return env.refuseVerb(c, args) }
	for i := range n.verbs {
		if v := &n.verbs[i]; n.isMeant(env.Args) {
			c.AddCommand(v.command(env, n))
		} else {
			c.AddCommand(&cobra.Command{Use: v.name, Example: v.examples(n), RunE: c.RunE})
		}
	}
	return c
}

// isMeant reports whether a call with these arguments may be one of the noun.
func (n *noun) isMeant(args []string) bool {
	return args == nil || slices.ContainsFunc(args, func(a string) bool { return a == n.name || slices.Contains(n.aliases, a) })
}

// refuseVerb returns the error for a noun without one of its verbs.
func (env *Env) refuseVerb(c *cobra.Command, args []string) error {
	var names []string
	for _, sub := range c.Commands() {
		names = append(names, sub.Name())
	}
	list := strings.Join(names, ", ")
	if len(args) == 0 {
		return env.Usage("missing subcommand: %s", list)
	}
	if like := config.Nearest(args[0], names); like != "" {
		return env.Usage("unknown subcommand %.50q; did you mean %s?", args[0], like)
	}
	return env.Usage("unknown subcommand %.50q; use %s", args[0], list)
}

// command returns the command of a verb.
func (v *verb) command(env *Env, n *noun) *cobra.Command {
	r := v.route()
	c := &cobra.Command{
		Use: strings.Join(append([]string{v.name}, v.argNames(r)...), " "), Short: v.summary(r), Long: v.about(r),
		Example: v.examples(n), DisableFlagsInUseLine: true, ValidArgsFunction: cobra.NoFileCompletions,
	}
	in := newInputs(env, v, r)
	in.define(c)
	c.Args = func(_ *cobra.Command, args []string) error { return in.takeArgs(args) }
	c.RunE = func(c *cobra.Command, _ []string) error {
		return env.call(c, func(ctx context.Context, to *gateway.Client, o *outputOptions) error {
			return (&call{env: env, ctx: ctx, to: to, output: o, noun: n, verb: v, route: r, in: in}).run()
		})
	}
	timeout := requestTimeout
	if v.raw || v.form != "" {
		timeout = 0 // files of any size
	}
	env.defineConnection(c, timeout)
	defineOutput(c)
	return c
}

// argNames returns the names of the positional arguments. Those in brackets are optional.
func (v *verb) argNames(r *description) []string {
	var names []string
	for _, p := range r.params() {
		names = append(names, strings.ToUpper(strings.ReplaceAll(p, "_", "-")))
	}
	if v.arg != "" {
		names = append(names, "["+strings.ToUpper(flagName(v.arg))+"]")
	}
	return names
}

func (v *verb) summary(r *description) string {
	if v.does != "" {
		return v.does
	}
	return lowerFirst(r.Summary)
}

// lowerFirst returns text that begins with a small letter, unless it begins with an acronym.
func lowerFirst(text string) string {
	if len(text) < 2 || unicode.IsUpper(rune(text[1])) {
		return text
	}
	return strings.ToLower(text[:1]) + text[1:]
}

// about returns the description in the help of the verb.
func (v *verb) about(r *description) string {
	summary := v.summary(r)
	text := strings.ToUpper(summary[:1]) + summary[1:] + "."
	if len(r.params()) > 0 {
		text += " Objects are named by id, slug or name."
	}
	if v.secret != "" {
		text += "\nThe secret is printed alone on standard output, and is not shown again."
	}
	if v.asks != "" {
		text += "\nIt asks before it does that; --yes answers the question."
	}
	return text
}

// examples returns the examples of a verb: command lines without the name of the program.
func (v *verb) examples(n *noun) string {
	lines := slices.Clone(v.example)
	for i, args := range lines {
		lines[i] = strings.TrimSpace(fmt.Sprintf("modelgate %s %s %s", n.name, v.name, args))
	}
	return strings.Join(lines, "\n")
}
