package admin

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// testEnv returns an environment without variables and without a terminal.
func testEnv(out io.Writer) Env {
	return Env{In: strings.NewReader(""), Out: out, Err: out, Getenv: func(string) string { return "" }, Agent: "modelgate/test",
		Usage: func(format string, args ...any) error { return fmt.Errorf("usage: "+format, args...) }}
}

// words splits a command line at spaces outside of single quotes.
func words(line string) []string {
	var list []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			list[len(list)-1] += part
			continue
		}
		joined := i > 0 && !strings.HasPrefix(part, " ")
		for j, w := range strings.Fields(part) {
			if joined && j == 0 {
				list[len(list)-1] += w
				continue
			}
			list = append(list, w)
		}
		if strings.HasSuffix(part, " ") || i == 0 && part == "" {
			list = append(list, "")
		}
	}
	return slices.DeleteFunc(list, func(w string) bool { return w == "" })
}

// commandsOf returns the commands below a root, by the names that lead to them.
func commandsOf(env Env) map[string]*cobra.Command {
	list := make(map[string]*cobra.Command)
	for _, noun := range Commands(env) {
		list[noun.Name()] = noun
		for _, verb := range noun.Commands() {
			list[noun.Name()+" "+verb.Name()] = verb
		}
	}
	return list
}

// TestTableIsComplete walks all verbs: their routes exist, the flags can give what a body
// requires, the columns are members of the response, and the examples are valid calls.
func TestTableIsComplete(t *testing.T) {
	d, operations := readDocument(t)
	list := commandsOf(testEnv(io.Discard))
	verbs := 0
	names := map[string]bool{"top": true}
	for i := range nouns {
		n := &nouns[i]
		if n.about == "" || n.one == "" || nounOf(n.name) != n {
			t.Errorf("%s: about or one is missing, or the name is taken", n.name)
		}
		for _, name := range append(n.aliases, n.name) {
			if names[name] {
				t.Errorf("two nouns are called %s", name)
			}
			names[name] = true
		}
		for j := range n.verbs {
			v := &n.verbs[j]
			c := list[n.name+" "+v.name]
			verbs++
			if c == nil || v.route() == nil {
				t.Fatalf("%s %s has no command or route", n.name, v.name)
			}
			for _, f := range v.route().Body {
				if f.Required && c.Flags().Lookup(flagName(f.Name)) == nil {
					t.Errorf("%s %s: no flag gives %s", n.name, v.name, f.Name)
				}
				if f.Type == typeObjects {
					for _, item := range f.Items {
						if form := objectForm(f.Items); item.Required && !strings.Contains(form, item.Name) && !strings.Contains(form, "[:true|false]") {
							t.Errorf("%s %s: no form of --%s gives %s", n.name, v.name, flagName(f.Name), item.Name)
						}
					}
				}
			}
			if o := operations[v.op]; o != nil {
				d.checkColumns(t, n, v, o)
			}
			checkExamples(t, list, n, v)
		}
	}
	if verbs < 130 {
		t.Errorf("only %d verbs were looked at", verbs)
	}
}

// checkColumns checks that the columns of a verb are in the response of its route, as far as
// the document describes it.
func (d *document) checkColumns(t *testing.T, n *noun, v *verb, o *operation) {
	t.Helper()
	response := d.follow(o.Responses["200"].Content["application/json"].Schema)
	if v.secret != "" && (response == nil || response.Properties[v.secret] == nil) {
		t.Errorf("%s %s: the response has no %s", n.name, v.name, v.secret)
	}
	rows := v.rows
	if rows == "" {
		rows = "data"
	}
	if v.columns == "" {
		if o.method == "GET" && v.route().pageParam() != "" {
			t.Errorf("%s %s: a list has no columns", n.name, v.name)
		}
		return
	}
	if response == nil || d.follow(response.Properties[rows]) == nil {
		t.Errorf("%s %s: the response has no %s", n.name, v.name, rows)
		return
	}
	row := d.follow(d.follow(response.Properties[rows]).Items)
	for _, c := range parseColumns(v.columns) {
		at := row
		for _, step := range c.path {
			if kind, _ := at.types(); kind == "array" {
				at = d.follow(at.Items)
			}
			if len(at.Properties) == 0 { // not described
				break
			}
			if at = d.follow(at.Properties[step]); at == nil {
				t.Errorf("%s %s: a row has no %s", n.name, v.name, strings.Join(c.path, "."))
				break
			}
		}
		if !slices.Contains([]string{"", "time", "unix", "usd", "cents", "limit", "percent", "ms", "name"}, c.kind) && nounOf(c.kind) == nil {
			t.Errorf("%s %s: a column cannot be written as %s", n.name, v.name, c.kind)
		}
	}
}

// checkExamples checks that the examples are valid up to the request.
func checkExamples(t *testing.T, list map[string]*cobra.Command, n *noun, v *verb) {
	t.Helper()
	if len(v.example) == 0 {
		t.Errorf("%s %s has no example", n.name, v.name)
	}
	for _, line := range v.example {
		line, _, _ = strings.Cut(line, " > ")
		in := newInputs(new(Env), v, v.route())
		*in.env = testEnv(io.Discard)
		c := &cobra.Command{Use: v.name}
		in.define(c)
		defineOutput(c)
		err := c.ParseFlags(words(line))
		if err == nil {
			err = in.takeArgs(c.Flags().Args())
		}
		if err != nil {
			t.Errorf("%s %s %s: %v", n.name, v.name, line, err)
			continue
		}
		for _, i := range slices.Concat(in.query, in.body) {
			if len(i.texts) == 0 || strings.HasPrefix(i.texts[0], "@") {
				continue
			}
			if _, err := i.value(in.env); err != nil {
				t.Errorf("%s %s %s: --%s %v", n.name, v.name, line, flagName(i.field.Name), err)
			}
		}
	}
	if help := helpOf(list[n.name+" "+v.name]); !strings.Contains(help, "modelgate "+n.name+" "+v.name) {
		t.Errorf("the help of %s %s has no example:\n%s", n.name, v.name, help)
	}
}

func helpOf(c *cobra.Command) string {
	var out bytes.Buffer
	c.SetOut(&out)
	c.Help()
	return out.String()
}
