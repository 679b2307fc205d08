package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is the width in columns to which descriptions of flags are wrapped.
const helpWidth = 110

// help returns the command that prints help. It runs whatever the environment has, as
// --help does.
func help(p *program) *cobra.Command {
	c := p.flags("help [COMMAND ...]", "Prints the help of a command.", "modelgate help keys create").command
	c.ValidArgsFunction = completeCommands
	c.RunE = func(c *cobra.Command, args []string) error {
		about, rest, err := c.Root().Find(args)
		if err != nil {
			return err
		}
		if len(rest) > 0 {
			return refuseCommand(about, rest)
		}
		return about.Help()
	}
	return c
}

// printHelp prints the help of a command.
func printHelp(c *cobra.Command, _ []string) {
	w := c.OutOrStdout()
	fmt.Fprintf(w, "%s\n\nUsage: %s\n", strings.TrimSpace(c.Long), useLine(c))
	for _, g := range append(c.Groups(), &cobra.Group{Title: "Commands"}) {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		heading := "\n" + g.Title + ":\n"
		for _, sub := range c.Commands() {
			if sub.GroupID == g.ID && sub.IsAvailableCommand() {
				fmt.Fprintf(t, "%s  %s\t%s\n", heading, sub.Name(), sub.Short)
				heading = ""
			}
		}
		t.Flush()
	}
	if set := shownFlags(c); set.HasFlags() {
		fmt.Fprintf(w, "\nFlags:\n%s", set.FlagUsagesWrapped(helpWidth))
	}
	fmt.Fprintf(w, "\nExamples:\n")
	for _, line := range examples(c) {
		fmt.Fprintf(w, "  %s\n", line)
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\nRun `%s COMMAND --help` for the flags and environment variables of a command.\n", c.CommandPath())
	}
}

// useLine returns the form of a call of a command.
func useLine(c *cobra.Command) string {
	parts := append([]string{c.CommandPath()}, positional(c)...)
	if c.HasAvailableSubCommands() {
		parts = append(parts, "COMMAND")
	}
	return strings.Join(append(parts, "[flags]"), " ")
}

// shownFlags returns the flags of a command that its help lists.
func shownFlags(c *cobra.Command) *pflag.FlagSet {
	set := pflag.NewFlagSet(c.Name(), pflag.ContinueOnError)
	for _, name := range flagNames(c) {
		set.AddFlag(c.Flags().Lookup(name))
	}
	return set
}

// examples returns the examples of a command, and for one that only has subcommands those
// of its subcommands.
func examples(c *cobra.Command) []string {
	if c.Example != "" {
		return strings.Split(c.Example, "\n")
	}
	var list []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			list = append(list, examples(sub)[0])
		}
	}
	return list
}
