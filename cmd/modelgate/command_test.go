package main

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// asCommand is the environment variable with which the test binary runs as modelgate.
const asCommand = "MODELGATE_TEST_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) == "on" {
		main()
	}
	os.Exit(m.Run())
}

// newProgram returns a program without an environment.
func newProgram() *program {
	return &program{strings.NewReader(""), io.Discard, io.Discard, environment(nil), nil}
}

// listed returns a command and its subcommands that help lists.
func listed(c *cobra.Command) []*cobra.Command {
	list := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			list = append(list, listed(sub)...)
		}
	}
	return list
}

// shellWords splits a line of an example as a shell does. It knows double quotes,
// pipes and redirections, and returns the words of modelgate.
func shellWords(line string) (words []string) {
	quoted, word, list := false, "", []string{}
	for _, r := range line + " " {
		switch {
		case r == '"':
			quoted = !quoted
		case r == ' ' && !quoted, r == ')':
			if word != "" {
				list = append(list, word)
			}
			word = ""
		default:
			word += string(r)
		}
	}
	if i := slices.Index(list, "|"); i >= 0 {
		list = list[i+1:]
	}
	if i := slices.IndexFunc(list, func(w string) bool { return strings.HasPrefix(w, ">") }); i >= 0 {
		list = list[:i]
	}
	return slices.DeleteFunc(list, func(w string) bool { return w == "source" || w == "<(modelgate" || w == "modelgate" })
}

// exampleProblem returns why a line does not call a command, empty if it does.
func exampleProblem(c *cobra.Command, line string) string {
	args := shellWords(line)
	found, rest, err := newProgram().tree(args, nil).Find(args)
	switch {
	case err != nil:
		return err.Error()
	case !strings.HasPrefix(found.CommandPath(), c.CommandPath()):
		return "it calls " + found.CommandPath()
	case len(args) == 0 || !strings.Contains(line, "modelgate"):
		return "it calls nothing"
	}
	if err := found.ParseFlags(rest); err != nil {
		return err.Error()
	}
	if err := found.ValidateArgs(found.Flags().Args()); err != nil {
		return err.Error()
	}
	return ""
}

func TestExamplesOfCommandsParse(t *testing.T) {
	all := listed(newProgram().tree(nil, nil))
	if len(all) < 40 {
		t.Errorf("%d commands are checked, want at least 40", len(all))
	}
	for _, c := range all {
		if len(examples(c)) == 0 {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for _, line := range examples(c) {
			if problem := exampleProblem(c, line); c.HasParent() && problem != "" {
				t.Errorf("the example %q of %s: %s", line, c.CommandPath(), problem)
			}
		}
		if strings.ContainsAny(c.Short, "\n") || c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s has the description %q in lists", c.CommandPath(), c.Short)
		}
	}
	keys := all[slices.IndexFunc(all, func(c *cobra.Command) bool { return c.CommandPath() == "modelgate keys create" })]
	for _, line := range []string{
		"modelgate keys create --nmae ci", "modelgate keys list", "modelgate keys create ci", "modelgate keys create --all-organisations=maybe", "ls", "",
	} {
		if exampleProblem(keys, line) == "" {
			t.Errorf("%q passes as an example of keys create", line)
		}
	}
}

func TestWrongUsageIsOneLineWithTheCommandAndItsHelp(t *testing.T) {
	for _, tt := range []struct{ name, args, says, help string }{
		{"a mistyped command", "serv", `"serv"; did you mean serve?`, "modelgate"},
		{"an unlike command", "dance", `unknown command "dance"`, "modelgate"},
		{"a mistyped subcommand", "keys lst", `"lst"; did you mean list?`, "modelgate keys"},
		{"a subcommand with two letters exchanged", "keys lsit", `"lsit"; did you mean list?`, "modelgate keys"},
		{"a flag with two letters exchanged", "keys create --nmae x", "unknown flag --nmae; did you mean --name?", "modelgate keys create"},
		{"a mistyped subcommand with a flag", "keys creat --name x", `did you mean create?`, "modelgate keys"},
		{"a mistyped command with a flag", "serv --data x", `did you mean serve?`, "modelgate"},
		{"an unlike subcommand", "keys dance", "use create, create-admin-key, create-user-key, list, revoke", "modelgate keys"},
		{"no subcommand", "keys", "missing subcommand: create, create-admin-key, create-user-key, list, revoke", "modelgate keys"},
		{"a mistyped flag", "keys create --nme x", "unknown flag --nme; did you mean --name?", "modelgate keys create"},
		{"an unlike flag", "keys create --zzz x", "unknown flag --zzz", "modelgate keys create"},
		{"one dash", "keys create -name x", "unknown flag -name; did you mean --name?", "modelgate keys create"},
		{"one dash and =", "keys create -name=canary", "unknown flag -name; did you mean --name?", "modelgate keys create"},
		{"a shorthand with a value", "tail -zcanary", "unknown flag -z", "modelgate tail"},
		{"a flag without its value", "keys create --name", "--name", "modelgate keys create"},
		{"a bad number", "audit prune --days ten", `--days must be an integer, not "ten"`, "modelgate audit prune"},
		{"a bad share", "cache evaluate --threshold x", `--threshold must be a number, not "x"`, "modelgate cache evaluate"},
		{"a bad duration", "doctor --timeout 3", `--timeout must be a duration such as 90s or 12h, not "3"`, "modelgate doctor"},
		{"a bad time", "keys create --name x --expires 3", `--expires must be a time from now such as 720h or 90d, or a future one such as 2026-12-31, not "3"`, "modelgate keys create"},
		{"a bad switch", "tail --follow=maybe", `--follow must be true or false, not "maybe"`, "modelgate tail"},
		{"a missing argument", "keys revoke", "ID is required", "modelgate keys revoke"},
		{"an argument too many", "keys revoke a b", `unexpected argument "b"`, "modelgate keys revoke"},
		{"a flag before the subcommand", "logs --dry-run prune", "flags follow the subcommand", "modelgate logs"},
		{"help of nothing", "help dance", `unknown command "dance"`, "modelgate help"},
		{"help of no subcommand", "help keys dance", `unknown subcommand "dance"`, "modelgate help"},
		{"an unknown shell", "completion csh", "use bash, zsh, fish or powershell", "modelgate completion"},
		{"a subcommand with control characters", "keys a\nb\x1b[2J", "unknown subcommand", "modelgate keys"},
		{"a flag with control characters", "keys list --a\nb\x1b[2J", "unknown flag --a\uFFFDb\uFFFD[2J", "modelgate keys list"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(t.TempDir()) // for a command that runs after all
			code, out, errs := invoke(t, nil, "", strings.Split(tt.args, " ")...)
			if code != 2 || out != "" || strings.Count(errs, "\n") != 1 || strings.Contains(errs, "canary") {
				t.Errorf("modelgate %s = %d %q %q, want 2 and one line", tt.args, code, out, errs)
			}
			if !strings.HasPrefix(errs, tt.help+": ") || !strings.HasSuffix(errs, " (see `"+tt.help+" --help`)\n") || !strings.Contains(errs, tt.says) {
				t.Errorf("modelgate %s: %q, want %q of %s", tt.args, errs, tt.says, tt.help)
			}
		})
	}
}

func TestFailuresNameTheSubcommand(t *testing.T) {
	code, _, errs := invoke(t, nil, "", "keys", "revoke", "--data", t.TempDir(), "nobody")
	if code != 1 || !strings.HasPrefix(errs, "modelgate keys revoke: ") {
		t.Errorf("keys revoke = %d %q", code, errs)
	}
}

func TestFlagsMayBeBeforeBetweenAndAfterArguments(t *testing.T) {
	table := t.TempDir() + "/table.csv"
	mustWrite(t, table, "provider,model\n")
	var want string
	for i, args := range [][]string{
		{"--skipped", "modelgate", table}, {"modelgate", "--skipped", table}, {"modelgate", table, "--skipped"}, {"--skipped", "--", "modelgate", table},
	} {
		code, out, errs := invoke(t, nil, "", append([]string{"prices", "diff"}, args...)...)
		got := out + errs
		if i == 0 {
			want = got
		}
		if code == 2 || got != want {
			t.Errorf("prices diff %v = %d %q, want %q", args, code, got, want)
		}
	}
}

func TestVersionHasTheSameOutputAsFlags(t *testing.T) {
	_, want, _ := invoke(t, nil, "", "version")
	if want != "modelgate "+version+"\n" {
		t.Errorf("version prints %q", want)
	}
	for _, flag := range []string{"--version", "-v"} {
		if code, out, errs := invoke(t, nil, "", flag); code != 0 || out != want || errs != "" {
			t.Errorf("modelgate %s = %d %q %q, want %q", flag, code, out, errs, want)
		}
	}
}

func TestHelpOfACommandIsTheSameInEveryForm(t *testing.T) {
	_, want, _ := invoke(t, nil, "", "keys", "create", "--help")
	for _, part := range []string{"Creates a gateway key", "Usage: modelgate keys create [flags]", "--expires time", "(environment MODELGATE_DATA)", "Examples:\n  modelgate keys create"} {
		if !strings.Contains(want, part) {
			t.Errorf("keys create --help does not contain %q: %s", part, want)
		}
	}
	for _, args := range [][]string{{"help", "keys", "create"}, {"keys", "create", "-h"}, {"keys", "create", "--name", "x", "--help"}} {
		if code, out, errs := invoke(t, nil, "", args...); code != 0 || out != want || errs != "" {
			t.Errorf("modelgate %v = %d %q %q, want %q", args, code, out, errs, want)
		}
	}
}

func TestHelpIsPrintedInAnUnknownEnvironment(t *testing.T) {
	env := []string{"MODELGATE_LISTN=x"}
	for _, args := range [][]string{{"help"}, {"help", "keys"}, {"keys", "list", "--help"}, {"--help"}} {
		if code, out, _ := invoke(t, env, "", args...); code != 0 || !strings.Contains(out, "Usage: modelgate") {
			t.Errorf("modelgate %v = %d %q, want help", args, code, out)
		}
	}
	for _, args := range [][]string{{"version"}, {"keys", "list"}} {
		if code, _, errs := invoke(t, env, "", args...); code != 2 || !strings.Contains(errs, "MODELGATE_LISTEN") {
			t.Errorf("modelgate %v = %d %q, want 2 and the variable", args, code, errs)
		}
	}
}

func TestFlagsWinOverTheEnvironment(t *testing.T) {
	for _, tt := range []struct {
		name, env string
		args      []string
		want      string
	}{
		{"default", "", nil, "127.0.0.1:8787"},
		{"environment", "192.0.2.1:1", nil, "192.0.2.1:1"},
		{"flag", "192.0.2.1:1", []string{"--listen", "192.0.2.2:2"}, "192.0.2.2:2"},
		{"the default as a flag", "192.0.2.1:1", []string{"--listen", "127.0.0.1:8787"}, "127.0.0.1:8787"},
	} {
		p := &program{strings.NewReader(""), io.Discard, io.Discard, environment([]string{"MODELGATE_LISTEN=" + tt.env}), nil}
		f := p.flags("x", "X.", "modelgate x")
		got := f.text("listen", "MODELGATE_LISTEN", "127.0.0.1:8787", "about")
		c := f.run(func(context.Context) error { return nil })
		c.SetArgs(append([]string{}, tt.args...))
		if err := c.ExecuteContext(t.Context()); err != nil || *got != tt.want {
			t.Errorf("%s: the flag is %q, %v; want %q", tt.name, *got, err, tt.want)
		}
	}
}

// apiVerbs returns verbs of an API, whose description is "api".
func apiVerbs([]string) []*cobra.Command {
	noun := func(name string, verbs ...string) *cobra.Command {
		c := &cobra.Command{Use: name, Short: "api", Long: "Api.", RunE: refuseCommand}
		for _, verb := range verbs {
			c.AddCommand(&cobra.Command{Use: verb, Short: "api", Run: func(*cobra.Command, []string) {}})
		}
		return c
	}
	return []*cobra.Command{noun("keys", "create", "list", "show"), noun("workspaces", "list"), noun("providers", "create")}
}

func TestVerbsOfTheAPIReplaceThoseOfTheDatabaseWithAnAddress(t *testing.T) {
	at := []string{"MODELGATE_URL=https://gate.example"}
	for _, tt := range []struct {
		name string
		env  []string
		args []string
		api  bool
	}{
		{"no address", nil, []string{"keys", "create"}, false},
		{"a flag", nil, []string{"keys", "create", "--url", "https://gate.example"}, true},
		{"a flag with =", nil, []string{"keys", "--url=https://gate.example", "create"}, true},
		{"the environment", at, []string{"keys", "create"}, true},
		{"after the end of flags", nil, []string{"keys", "create", "--", "--url"}, false},
		{"a verb of the database alone", at, []string{"keys", "rotate-master"}, false},
		{"a verb of the API alone", nil, []string{"keys", "show"}, true},
		{"a noun of the API alone", nil, []string{"workspaces", "list"}, true},
		{"a verb of a command of ours", nil, []string{"providers", "create"}, true},
		{"a command of ours with verbs", at, []string{"providers"}, false},
	} {
		p := newProgram()
		p.env = environment(tt.env)
		c, _, err := p.tree(tt.args, apiVerbs).Find(tt.args)
		if err != nil || (c.Short == "api") != tt.api {
			t.Errorf("%s: modelgate %v runs %q (%q), %v; want the API's: %t", tt.name, tt.args, c.CommandPath(), c.Short, err, tt.api)
		}
	}
	root := newProgram().tree(nil, apiVerbs)
	for name, want := range map[string]bool{"keys": true, "workspaces": false, "users": false} {
		c, _, err := root.Find([]string{name})
		if err != nil || strings.Contains(c.Long, addressNote) != want {
			t.Errorf("the help of %s explains addresses: %t, %v; want %t", name, !want, err, want)
		}
	}
}

func TestEveryFlagWithAVariableNamesItInItsHelp(t *testing.T) {
	found := 0
	for _, c := range listed(newProgram().tree(nil, nil)) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			for _, env := range f.Annotations[environmentOf] {
				found++
				if !slices.Contains(variables, env) || !strings.HasSuffix(f.Usage, "(environment "+env+")") {
					t.Errorf("%s --%s: %s is not in its help or unknown: %s", c.CommandPath(), f.Name, env, f.Usage)
				}
			}
		})
	}
	if found < 50 {
		t.Errorf("%d flags have a variable, want at least 50", found)
	}
}
