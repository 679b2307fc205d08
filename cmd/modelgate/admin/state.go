package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"modelgate/cmd/modelgate/gateway"
	"modelgate/internal/settings"
)

// statePath is the path of the routes that export and apply a state.
const statePath = "/v1/admin/state"

// exportCommand returns the command that exports the state of an organisation.
func exportCommand(env *Env) *cobra.Command {
	c := &cobra.Command{
		Use: "export", Short: "export the state of an organisation over the API, except who may use it", DisableFlagsInUseLine: true,
		Long: "Exports the state of an organisation over the API to a file for `modelgate apply`.\n\n" +
			"Credentials are references to environment variables, whose names are printed on standard error, or left out. Members,\n" +
			"keys and others that say who may use the gateway are not exported.",
		Example: "modelgate export --url https://gate.example --output state.yaml\nmodelgate export --url https://gate.example --secrets none",
	}
	secrets := c.Flags().String("secrets", "references", "`form` of credentials: references or none")
	file := c.Flags().StringP("output", "o", "", "`file` to write instead of standard output")
	c.RegisterFlagCompletionFunc("secrets", cobra.FixedCompletions([]string{"references", "none"}, cobra.ShellCompDirectiveNoFileComp))
	c.Args = func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) > 0:
			return env.Usage("unexpected argument %.100q", args[0])
		case *secrets == "sealed":
			return env.Usage("--secrets sealed is for `modelgate export` next to the database; over the API it is references or none")
		case *secrets != "references" && *secrets != "none":
			return env.Usage("--secrets must be references or none, not %.60q", *secrets)
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		return env.call(c, func(ctx context.Context, to *gateway.Client, _ *outputOptions) error {
			response, err := to.Do(ctx, gateway.Request{Method: http.MethodGet, Path: statePath, Query: url.Values{"secrets": {*secrets}}})
			if err != nil {
				return err
			}
			var got struct {
				State     json.RawMessage `json:"state"`
				Variables []string        `json:"variables"`
			}
			var text bytes.Buffer
			if json.Unmarshal(response, &got) != nil || settings.WriteSent(&text, got.State) != nil {
				return errShape
			}
			if err := env.WriteFile(*file, text.Bytes()); err != nil {
				return err
			}
			if len(got.Variables) > 0 {
				fmt.Fprintln(env.Err, "`modelgate apply` requires these environment variables for the file:")
				for _, name := range got.Variables {
					fmt.Fprintln(env.Err, stripControl(name))
				}
			}
			return nil
		})
	}
	env.defineConnection(c, requestTimeout)
	return c
}

// applyOptions are the flags of apply.
type applyOptions struct {
	prune, dry, yes bool
	variables       []string // NAME=VALUE
}

// applyCommand returns the command that applies a file to an organisation.
func applyCommand(env *Env) *cobra.Command {
	c := &cobra.Command{
		Use: "apply FILE", Short: "apply a file to an organisation over the API", DisableFlagsInUseLine: true,
		Long: "Applies a file to an organisation over the API, in one transaction.\n\n" +
			"Prints a line for each object: + for added, ~ with its fields for changed, - for removed.\n" +
			"Without --prune nothing is removed; with it, the command asks before it removes something. Applying the same file\n" +
			"again changes nothing. Credentials are ${NAME} in the file; only the variables that it names are sent.",
		Example: "modelgate apply --url https://gate.example --dry-run state.yaml\n" +
			"modelgate apply --url https://gate.example --var OPENAI_API_KEY=sk-1 state.yaml\nmodelgate apply --url https://gate.example --prune --yes state.yaml",
	}
	var o applyOptions
	c.Flags().BoolVar(&o.dry, "dry-run", false, "print the changes without applying them")
	c.Flags().BoolVar(&o.prune, "prune", false, "delete objects missing from the file, in the sections the file contains")
	c.Flags().BoolVar(&o.yes, "yes", false, "remove without asking")
	c.Flags().StringArrayVar(&o.variables, "var", nil, "`NAME=VALUE` of a variable in the file, instead of that of the environment; may be repeated")
	file := ""
	c.Args = func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return env.Usage("FILE is required, and nothing else")
		}
		file = args[0]
		return o.check(env)
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		return env.call(c, func(ctx context.Context, to *gateway.Client, out *outputOptions) error {
			if !slices.Contains([]string{formatTable, formatJSON, formatYAML}, out.format) {
				return env.Usage("--output must be table, json or yaml, not %.60q", out.format)
			}
			return (&stateCall{env, ctx, to, &o}).run(file, out.format)
		})
	}
	env.defineConnection(c, requestTimeout)
	c.Flags().StringP("output", "o", formatTable, "`format` of the changes: table, json or yaml")
	return c
}

var variableForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (o *applyOptions) check(env *Env) error {
	for _, v := range o.variables {
		if name, _, ok := strings.Cut(v, "="); !ok || !variableForm.MatchString(name) {
			return env.Usage("--var must be NAME=VALUE with the name of a variable")
		}
	}
	return nil
}

// stateCall is one run of apply.
type stateCall struct {
	env  *Env
	ctx  context.Context
	to   *gateway.Client
	with *applyOptions
}

// stateChanges are the changes in a response.
type stateChanges struct {
	Changes []struct {
		Operation string   `json:"operation"`
		Kind      string   `json:"kind"`
		Name      string   `json:"name"`
		Fields    []string `json:"fields"`
	} `json:"changes"`
	text []byte
}

func (c *stateCall) run(file, format string) error {
	sending, err := settings.LoadSending(file, c.lookup)
	if err != nil {
		return err
	}
	for _, name := range sending.Skipped {
		fmt.Fprintf(c.env.Err, "%s not applied; only the settings file of a running gateway can contain it\n", name)
	}
	if err := c.confirm(sending); err != nil {
		return err
	}
	done, err := c.send(sending, c.with.dry)
	if err != nil {
		return err
	}
	switch format {
	case formatJSON:
		return printJSON(c.env.Out, done.text)
	case formatYAML:
		return printYAML(c.env.Out, done.text)
	}
	done.print(c.env.Out, c.with.dry)
	return nil
}

// lookup returns the value of a variable that the file names.
func (c *stateCall) lookup(name string) (value string, ok bool) {
	for _, v := range c.with.variables {
		if given, text, _ := strings.Cut(v, "="); given == name {
			value, ok = text, true // the last one counts
		}
	}
	if !ok {
		value = c.env.Getenv(name)
	}
	return value, ok || value != ""
}

// confirm asks before objects are removed.
func (c *stateCall) confirm(sending *settings.Sending) error {
	if !c.with.prune || c.with.dry || c.with.yes {
		return nil
	}
	plan, err := c.send(sending, true)
	if err != nil {
		return err
	}
	removed := 0
	for i, change := range plan.Changes {
		if change.Operation == "remove" {
			removed++
			fmt.Fprintln(c.env.Err, plan.line(i))
		}
	}
	if removed == 0 {
		return nil
	}
	return c.env.confirm(fmt.Sprintf("Remove %d objects?", removed))
}

// send sends the file and returns the changes. An error in it has its line.
func (c *stateCall) send(sending *settings.Sending, dry bool) (*stateChanges, error) {
	body, err := json.Marshal(map[string]any{"state": sending.State, "variables": sending.Variables, "prune": c.with.prune, "dry_run": dry})
	if err != nil {
		return nil, err
	}
	text, err := c.to.Do(c.ctx, gateway.Request{Method: http.MethodPost, Path: statePath, Body: body})
	if refused, ok := errors.AsType[*gateway.StatusError](err); ok {
		return nil, placeError(sending, refused)
	}
	if err != nil {
		return nil, err
	}
	out := &stateChanges{text: text}
	if json.Unmarshal(text, out) != nil {
		return nil, errShape
	}
	return out, nil
}

// placeError returns an error that a gateway found in a state with its line in the file.
func placeError(sending *settings.Sending, refused *gateway.StatusError) error {
	var e struct {
		Error struct {
			Message string `json:"message"`
			Param   string `json:"param"`
		} `json:"error"`
	}
	if json.Unmarshal(refused.Body, &e) != nil {
		return refused
	}
	path, ok := strings.CutPrefix(e.Error.Param, "state.")
	if !ok {
		return refused
	}
	_, problem, ok := strings.Cut(refused.Message, e.Error.Param)
	if !ok {
		problem = refused.Message
	}
	return sending.ErrorAt(path, strings.TrimLeft(problem, ": "))
}

// print prints the changes as apply does next to the database.
func (s *stateChanges) print(w io.Writer, dry bool) {
	count := make(map[string]int)
	for i := range s.Changes {
		fmt.Fprintln(w, s.line(i))
		count[s.Changes[i].Operation]++
	}
	form := "added %d, changed %d and removed %d\n"
	if dry {
		form = "would add %d, change %d and remove %d\n"
	}
	if len(s.Changes) == 0 {
		fmt.Fprintln(w, "nothing to change")
		return
	}
	fmt.Fprintf(w, form, count["add"], count["change"], count["remove"])
}

// line returns a change in one line, without values.
func (s *stateChanges) line(i int) string {
	change := s.Changes[i]
	text := map[string]string{"add": "+", "change": "~", "remove": "-"}[change.Operation] + " " + change.Kind + " " + change.Name
	if len(change.Fields) > 0 {
		text += fmt.Sprintf(" %v", change.Fields)
	}
	return stripControl(text)
}
