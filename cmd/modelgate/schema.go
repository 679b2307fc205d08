package main

import (
	"context"

	"modelgate/config"
	"modelgate/internal/settings"
)

// schema prints the JSON Schema of settings files or config objects, for editors.
func schema(_ context.Context, p *program, args []string) error {
	f := p.flags("schema", "settings|config", "Prints the JSON Schema of a settings file (modelgate.yaml) or of a config object.")
	if err := f.parse(args, 1); err != nil {
		return err
	}
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
}
