package main

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"modelgate/internal/provider/priceimport"
	"modelgate/internal/provider/table"
)

const completionHelp = `Prints a script that completes commands, flags and values of this program in a shell.

bash: source it in ~/.bashrc; it needs the package bash-completion.
zsh: write it to a file _modelgate in a folder of $fpath.
fish: write it to ~/.config/fish/completions/modelgate.fish.
PowerShell: add it to the file that $PROFILE names.`

func completion(p *program) *cobra.Command {
	f := p.flags("completion bash|zsh|fish|powershell", completionHelp,
		`source <(modelgate completion bash)
modelgate completion zsh > ~/.zfunc/_modelgate
modelgate completion fish > ~/.config/fish/completions/modelgate.fish
modelgate completion powershell >> $PROFILE`)
	return f.run(func(context.Context) error {
		root := f.command.Root()
		scripts := map[string]func(io.Writer) error{
			"bash":       func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
			"zsh":        root.GenZshCompletion,
			"fish":       func(w io.Writer) error { return root.GenFishCompletion(w, true) },
			"powershell": root.GenPowerShellCompletionWithDesc,
		}
		script, ok := scripts[f.Arg(0)]
		if !ok {
			return usage("unknown shell %q; use bash, zsh, fish or powershell", f.Arg(0))
		}
		return script(p.out)
	})
}

// values are the values of flags to complete, by the name of the flag. The commands check
// values themselves.
var values = map[string]func() []string{
	"db-ssl": func() []string {
		return []string{"DISABLED", "PREFERRED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY", "CLOUD_A_BUNDLE"}
	},
	"format":      func() []string { return []string{"jsonl", "csv", "parquet"} },
	"log-format":  func() []string { return []string{"text", "json"} },
	"log-level":   func() []string { return []string{"debug", "info", "warn", "error"} },
	"outcome":     func() []string { return []string{"success", "error", "cancelled", "other"} },
	"provider":    providerNames,
	"providers":   providerNames,
	"received-by": func() []string { return []string{"webhook", "syslog", "webhook,syslog"} },
	"secrets":     func() []string { return []string{"sealed", "references", "none"} },
	"state":       func() []string { return []string{"queued", "running", "done", "failed", "dead", "cancelled"} },
}

// providerNames returns the ids of providers.
func providerNames() (ids []string) {
	for _, s := range table.All() {
		ids = append(ids, s.ID)
	}
	return ids
}

// completeFlags lets shells complete the values of flags and arguments: those in values,
// folders, files, and nothing for other texts.
func (f *flags) completeFlags() {
	f.VisitAll(func(fl *pflag.Flag) {
		kind, _ := pflag.UnquoteUsage(fl)
		list := values[fl.Name]
		f.command.RegisterFlagCompletionFunc(fl.Name, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			switch {
			case list != nil:
				return list(), cobra.ShellCompDirectiveNoFileComp
			case kind == "folder":
				return nil, cobra.ShellCompDirectiveFilterDirs
			case kind == "file" || kind == "binary" || kind == "FORMAT:FILE":
				return nil, cobra.ShellCompDirectiveDefault
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		})
	})
	f.command.ValidArgsFunction = func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		names := positional(c)
		switch i := len(args); {
		case len(names) > 0 && strings.HasPrefix(names[0], "[FILE"):
			return nil, cobra.ShellCompDirectiveDefault
		case i >= len(names):
			return nil, cobra.ShellCompDirectiveNoFileComp
		case strings.Contains(names[i], "FILE"):
			return nil, cobra.ShellCompDirectiveDefault
		case names[i] == "FORMAT":
			return priceimport.Formats(), cobra.ShellCompDirectiveNoFileComp
		case names[i] == "FOLDER":
			return nil, cobra.ShellCompDirectiveFilterDirs
		case strings.Contains(names[i], "|"):
			return strings.Split(names[i], "|"), cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeCommands completes the arguments of help.
func completeCommands(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	found, rest, err := c.Root().Find(args)
	if err != nil || len(rest) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Clone(subcommands(found)), cobra.ShellCompDirectiveNoFileComp
}
