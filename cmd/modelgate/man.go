package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const manHelp = `Writes a manual page for each command into a folder, such as modelgate-keys-create.1.

The pages have the date in SOURCE_DATE_EPOCH, in seconds since 1970, and none if that is
not set, so that a build can be reproduced.`

func man(p *program) *cobra.Command {
	f := p.flags("man FOLDER", manHelp, "modelgate man /usr/local/share/man/man1")
	return f.run(func(context.Context) error {
		date := ""
		if text := p.env("SOURCE_DATE_EPOCH"); text != "" {
			seconds, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return usage("SOURCE_DATE_EPOCH must be seconds since 1970, not %.40q", text)
			}
			date = time.Unix(seconds, 0).UTC().Format(time.DateOnly)
		}
		if err := os.MkdirAll(f.Arg(0), 0o755); err != nil {
			return err
		}
		return writePages(f.command.Root(), f.Arg(0), date)
	})
}

// writePages writes the manual pages of a command and its subcommands.
func writePages(c *cobra.Command, folder, date string) error {
	if err := os.WriteFile(filepath.Join(folder, pageName(c)+".1"), manualPage(c, date), 0o644); err != nil {
		return err
	}
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() {
			continue
		}
		if err := writePages(sub, folder, date); err != nil {
			return err
		}
	}
	return nil
}

// pageName returns the name of a command's manual page.
func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manualPage returns the manual page of a command, in the macros of man(7).
func manualPage(c *cobra.Command, date string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 %q %q modelgate\n", roff(strings.ToUpper(pageName(c))), date, "modelgate "+version)
	b.WriteString(".nh\n.ad l\n") // long names of flags and addresses cannot be adjusted
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(pageName(c)), roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n%s\n", roff(c.CommandPath()), roff(strings.TrimPrefix(useLine(c), c.CommandPath()+" ")))
	b.WriteString(".SH DESCRIPTION\n")
	writeText(&b, c.Long)
	if c.HasAvailableSubCommands() {
		b.WriteString(".SH COMMANDS\n")
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(&b, ".TP\n.BR %s (1)\n%s\n", roff(pageName(sub)), roff(sub.Short))
			}
		}
	}
	if set := shownFlags(c); set.HasFlags() {
		b.WriteString(".SH OPTIONS\n")
		set.VisitAll(func(f *pflag.Flag) {
			kind, about := pflag.UnquoteUsage(f)
			name := "--" + f.Name
			if f.Shorthand != "" {
				name = "-" + f.Shorthand + ", " + name
			}
			fmt.Fprintf(&b, ".TP\n\\fB%s\\fR \\fI%s\\fR\n%s\n", roff(name), roff(kind), roff(about+defaultNote(f)))
		})
	}
	b.WriteString(".SH EXAMPLES\n.EX\n")
	for _, line := range examples(c) {
		b.WriteString(roff(line) + "\n")
	}
	b.WriteString(".EE\n.SH EXIT STATUS\n0 for success, 1 for a failure, 2 for wrong usage.\n")
	if c.HasParent() {
		fmt.Fprintf(&b, ".SH SEE ALSO\n.BR %s (1)\n", roff(pageName(c.Parent())))
	}
	return []byte(b.String())
}

// defaultNote returns the end of a flag's description with its default, if that is not
// the zero value.
func defaultNote(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "0", "false", "[]", "0s":
		return ""
	}
	return " (default " + f.DefValue + ")"
}

// writeText writes a text. Lines that begin with a blank keep their form.
func writeText(b *strings.Builder, text string) {
	fixed := false
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		if indented := strings.HasPrefix(line, " "); indented != fixed {
			fixed = indented
			b.WriteString(map[bool]string{true: ".EX\n", false: ".EE\n"}[fixed])
		}
		if line == "" {
			line = ".PP"
		} else {
			line = roff(line)
		}
		b.WriteString(line + "\n")
	}
	if fixed {
		b.WriteString(".EE\n")
	}
}

// roff returns s so that it is printed as it is: no character of it is a request or an
// escape.
func roff(s string) string {
	var b strings.Builder
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		b.WriteString(`\&`)
	}
	for _, r := range s {
		switch {
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`)
		case r == ',':
			b.WriteString(`,\:`) // lists without blanks may break here
		case r == '\n':
			b.WriteByte(' ')
		case r > '~':
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
