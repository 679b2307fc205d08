package admin

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// inputs are the arguments and flags of a call that go into its request.
type inputs struct {
	env   *Env
	verb  *verb
	route *description

	args   []string // of the path
	arg    string   // of the body, if the verb has one
	query  []*input
	body   []*input
	shorts []*input
	file   string
	clear  []string
	yes    bool
	list   listOptions
}

// listOptions select how much of a list is fetched.
type listOptions struct {
	limit int
	all   bool
}

// input is a flag for a field. It implements pflag.Value.
type input struct {
	field *field
	texts []string // as given
}

// String implements pflag.Value.
func (i *input) String() string { return "" }

// Set implements pflag.Value. The text is checked when the request is made.
func (i *input) Set(text string) error {
	if !i.repeats() {
		i.texts = nil
	}
	i.texts = append(i.texts, text)
	return nil
}

// Type implements pflag.Value.
func (i *input) Type() string {
	switch i.field.Type {
	case typeFlag:
		return "bool"
	case typeMap, typeValues:
		return "key=value"
	case typeObjects:
		return objectForm(i.field.Items)
	case typeAny:
		return "value|@file"
	case typeBytes:
		return "@file"
	case typeTexts:
		return "text,..."
	case typeNumbers:
		return "number,..."
	}
	return i.field.Type
}

// repeats reports whether the flag may be given several times.
func (i *input) repeats() bool {
	return slices.Contains([]string{typeTexts, typeNumbers, typeMap, typeValues, typeObjects}, i.field.Type)
}

func newInputs(env *Env, v *verb, r *description) *inputs {
	return &inputs{env: env, verb: v, route: r}
}

// paging are the parameters of lists that --limit and --all set.
var paging = []string{"cursor", "limit", "page_size", "current_page", "currentPage", "pageSize", "after", "page"}

// hidden are parameters that are other names of another one.
var hidden = []string{"workspace_slug", "organisation_id"}

// define adds the flags to a command.
func (in *inputs) define(c *cobra.Command) {
	if in.isPaged() {
		c.Flags().IntVar(&in.list.limit, "limit", 100, "show at most this many")
		c.Flags().BoolVar(&in.list.all, "all", false, "show all, however many there are")
	}
	for i := range in.route.Query {
		f := &in.route.Query[i]
		if slices.Contains(paging, f.Name) || slices.Contains(hidden, f.Name) {
			continue
		}
		in.query = append(in.query, in.add(c, f))
	}
	for i := range in.route.Body {
		f := &in.route.Body[i]
		if slices.Contains(hidden, f.Name) || f.Name == "workspace_id" && in.route.param(f.Name) != nil {
			continue // the query says where an object is; it stays there
		}
		in.body = append(in.body, in.add(c, f))
	}
	// Names of other objects are looked up in the workspace.
	for _, list := range [][]*input{in.query, in.body} {
		slices.SortStableFunc(list, func(a, b *input) int { return workspaceRank(a) - workspaceRank(b) })
	}
	for _, s := range shortForms {
		if s.fits(in.route) {
			in.shorts = append(in.shorts, in.add(c, &s.field))
		}
	}
	if len(in.body) > 0 && in.verb.form == "" {
		c.Flags().StringVarP(&in.file, "file", "f", "",
			"JSON or YAML `file` with the body of the request; - is standard input. Flags replace its members")
	}
	if names := in.nullable(); len(names) > 0 && in.route.Method == "PUT" {
		c.Flags().StringSliceVar(&in.clear, "clear", nil, "remove the values of these `fields`: "+strings.Join(names, ", "))
		c.RegisterFlagCompletionFunc("clear", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	}
	if in.verb.asks != "" {
		c.Flags().BoolVarP(&in.yes, "yes", "y", false, "do not ask")
	}
	acceptOtherNames(c.Flags())
}

func workspaceRank(i *input) int {
	if i.field.Name == "workspace_id" || i.field.Name == "workspace" {
		return 0
	}
	return 1
}

// add adds the flag of a field. If a body and a query have the same field, the flag sets both.
func (in *inputs) add(c *cobra.Command, f *field) *input {
	i := &input{field: f}
	name := flagName(f.Name)
	if own := c.Flags().Lookup(name); own != nil {
		return own.Value.(*input)
	}
	flag := c.Flags().VarPF(i, name, "", describe(f))
	if f.Type == typeFlag {
		flag.NoOptDefVal = "true"
	}
	if len(f.Enum) > 0 {
		c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(f.Enum, cobra.ShellCompDirectiveNoFileComp))
	}
	return i
}

// describe returns the description of a flag.
func describe(f *field) string {
	text := lowerFirst(strings.ReplaceAll(f.Doc, "`", "'"))
	if text == "" {
		text = strings.NewReplacer("_", " ", ".", ": ").Replace(f.Name)
	}
	if len(f.Enum) > 0 && len(f.Enum) < 20 {
		text += " (" + strings.Join(f.Enum, ", ") + ")"
	}
	return text
}

// isPaged reports whether the route returns a list in pages.
func (in *inputs) isPaged() bool { return in.route.pageParam() != "" }

// pageParam returns the parameter for the size of a page, empty if the route has no pages.
func (r *description) pageParam() string {
	for _, name := range []string{"page_size", "limit"} {
		if r.param(name) != nil {
			return name
		}
	}
	return ""
}

// nullable returns the names of members of the body that may be null, as flags.
func (in *inputs) nullable() []string {
	var names []string
	for _, f := range in.route.Body {
		if f.Nullable && !f.Required {
			names = append(names, flagName(f.Name))
		}
		if top, _, nested := strings.Cut(f.Name, "."); nested && top == budgetMember && !slices.Contains(names, flagName(top)) {
			names = append(names, flagName(top))
		}
	}
	return names
}

// takeArgs takes the positional arguments.
func (in *inputs) takeArgs(args []string) error {
	names := in.verb.argNames(in.route)
	want := len(in.route.params())
	most := want
	if in.verb.arg != "" {
		most++
	}
	switch {
	case len(args) < want:
		return in.env.Usage("%s is required", strings.Join(names[len(args):want], " "))
	case len(args) > most:
		return in.env.Usage("unexpected argument %.100q", args[most])
	}
	if slices.Contains(args[:want], "") {
		return in.env.Usage("%s must not be empty", strings.Join(names[:want], " "))
	}
	in.args, in.arg = args[:want], ""
	if len(args) > want {
		in.arg = args[want]
	}
	return nil
}

// readFile reads a file that the user named; "-" is standard input.
func (env *Env) readFile(name string) ([]byte, error) {
	if name == "-" {
		return limited(env.In, "standard input")
	}
	return readLimited(name)
}

func limited(r io.Reader, name string) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = errLarge(name)
	}
	return text, err
}
