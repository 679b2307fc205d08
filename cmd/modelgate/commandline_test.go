package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "write docs/command-line.md")

const commandLinePage = "../../docs/command-line.md"

const commandLineIntroduction = `# Command line

Find a command and its flags. ` + "`modelgate COMMAND --help`" + ` prints the same, and ` + "`modelgate man FOLDER`" + ` writes
manual pages. This page is generated from the commands.

` + "```sh" + `
modelgate keys create --name ci --scopes completions.write
modelgate help keys create                  # the same as modelgate keys create --help
source <(modelgate completion bash)         # complete commands, flags and values
` + "```" + `

Flags can be before, between and after the arguments of a command, as ` + "`--name VALUE`" + ` or
` + "`--name=VALUE`" + `. A flag wins over its environment variable. [Operations](operations.md#flags-and-environment)
has the exit codes and describes the variables.

These are the commands of this machine and of requests. Those that
[administer a gateway](administer-from-the-command-line.md) over its API have their flags in
` + "`modelgate NOUN VERB --help`" + `.
`

func TestCommandLinePageListsEveryCommand(t *testing.T) {
	page := commandLine(newProgram().tree(nil, nil))
	if *update {
		if err := os.WriteFile(commandLinePage, page, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(commandLinePage)
	if err != nil || !bytes.Equal(have, page) {
		t.Errorf("docs/command-line.md is not up to date (%v); run go test ./cmd/modelgate -run CommandLinePage -update", err)
	}
}

// commandLine returns the page with a section for each command.
func commandLine(root *cobra.Command) []byte {
	var b bytes.Buffer
	b.WriteString(commandLineIntroduction)
	for _, g := range root.Groups() {
		fmt.Fprintf(&b, "\n## %s\n\n| command | purpose |\n|---|---|\n", g.Title)
		var members []*cobra.Command
		for _, c := range root.Commands() {
			if c.GroupID == g.ID {
				members = append(members, c)
				fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", c.CommandPath(), pageName(c), cell(c.Short))
			}
		}
		for _, c := range members {
			for _, c := range listed(c) {
				writeSection(&b, c)
			}
		}
	}
	for _, s := range sharedFlags {
		fmt.Fprintf(&b, "\n## %s%s\n", strings.ToUpper(s.title[:1]), s.title[1:])
		writeFlags(&b, newSharedFlags(s.add))
	}
	return b.Bytes()
}

// writeSection writes the section of a command.
func writeSection(b *bytes.Buffer, c *cobra.Command) {
	level := "###"
	if c.Parent().HasParent() {
		level = "####"
	}
	fmt.Fprintf(b, "\n%s %s\n\n```sh\n%s\n```\n\n", level, c.CommandPath(), strings.Join(examples(c), "\n"))
	writeDescription(b, c.Long)
	if c.HasAvailableSubCommands() {
		fmt.Fprint(b, "\n| command | purpose |\n|---|---|\n")
		for _, sub := range listed(c)[1:] {
			fmt.Fprintf(b, "| [`%s`](#%s) | %s |\n", sub.CommandPath(), pageName(sub), cell(sub.Short))
		}
		return
	}
	fmt.Fprintf(b, "\nUsage: `%s`\n", useLine(c))
	own, shared := splitFlags(c)
	if own.HasFlags() {
		writeFlags(b, own)
	}
	for _, s := range sharedFlags {
		if slices.Contains(shared, s.title) {
			fmt.Fprintf(b, "\nIt also has the [%s](#%s).\n", s.title, strings.ReplaceAll(s.title, " ", "-"))
		}
	}
}

// sharedFlags are flags that many commands have, with the title of their section.
var sharedFlags = []struct {
	title string
	add   func(*flags)
}{
	{"flags of the database", func(f *flags) { databaseFlags{}.withAddress(f) }},
	{"flags of the master key", func(f *flags) { newMasterFlags(f) }},
}

// newSharedFlags returns shared flags of the title's section.
func newSharedFlags(add func(*flags)) *pflag.FlagSet {
	f := newProgram().flags("shared", "Shared.", "")
	add(f)
	return f.FlagSet
}

// splitFlags returns the flags of a command without shared ones, and the titles of those.
func splitFlags(c *cobra.Command) (own *pflag.FlagSet, shared []string) {
	own = pflag.NewFlagSet(c.Name(), pflag.ContinueOnError)
	shownFlags(c).VisitAll(func(f *pflag.Flag) {
		for _, s := range sharedFlags {
			if newSharedFlags(s.add).Lookup(f.Name) != nil {
				shared = append(shared, s.title)
				return
			}
		}
		own.AddFlag(f)
	})
	return own, shared
}

func writeFlags(b *bytes.Buffer, set *pflag.FlagSet) {
	fmt.Fprint(b, "\n| flag | variable | default | meaning |\n|---|---|---|---|\n")
	set.VisitAll(func(f *pflag.Flag) { writeFlag(b, f) })
}

// writeDescription writes a text. Its indented lines are a block of text.
func writeDescription(b *bytes.Buffer, text string) {
	fixed := false
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		indented := strings.HasPrefix(line, " ")
		switch {
		case indented && !fixed:
			b.WriteString("```text\n")
		case !indented && fixed:
			b.WriteString("```\n")
		}
		if fixed = indented; !indented {
			line = strings.NewReplacer("<", "\\<", "*", "\\*").Replace(line)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	if fixed {
		b.WriteString("```\n")
	}
}

func writeFlag(b *bytes.Buffer, f *pflag.Flag) {
	kind, about := pflag.UnquoteUsage(f)
	name, env := strings.TrimSpace("--"+f.Name+" "+strings.ToUpper(strings.ReplaceAll(kind, " ", "-"))), ""
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	if list := f.Annotations[environmentOf]; len(list) > 0 {
		env = "`" + list[0] + "`"
		about = strings.TrimSuffix(about, environmentNote(list[0]))
	}
	value := ""
	if defaultNote(f) != "" {
		value = "`" + f.DefValue + "`"
	}
	fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", name, env, value, cell(about))
}

// cell returns a text for a cell of a table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", `\<`, "*", `\*`, "\n", " ").Replace(text)
}
