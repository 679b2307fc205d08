package main

import (
	"context"

	"github.com/spf13/cobra"

	"modelgate/config"
	"modelgate/internal/settings"
)

// schema prints the JSON Schema of settings files or config objects, for editors.
func schema(p *program) *cobra.Command {
	f := p.flags("schema settings|config",
		"Prints the JSON Schema of a settings file (modelgate.yaml) or of a config object.",
		`modelgate schema settings
modelgate schema config`)
	return f.run(func(context.Context) error {
		text := settings.Schema
		switch f.Arg(0) {
		case "settings":
		case "config":
			text = config.Schema
		default:
			return usage("unknown schema %q; use settings or config", f.Arg(0))
		}
		_, err := p.out.Write(text())
		return err
	})
}
