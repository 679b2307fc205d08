package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"modelgate/internal/base/oserr"
	"modelgate/internal/settings"
)

// convertServer prints the server.json of an MCP server as a file for apply.
func convertServer(p *program) *cobra.Command {
	f := p.flags("mcp-server FILE",
		"Prints a server.json of the public MCP registry as a file for `modelgate apply`, with an MCP integration.\nComments in it name the environment variables for its headers. Nothing is fetched.",
		"modelgate mcp-server server.json")
	return f.run(func(context.Context) error {
		text, err := os.ReadFile(f.Arg(0))
		if err != nil {
			return fmt.Errorf("%s: %w", f.Arg(0), oserr.File(err))
		}
		file, err := settings.ServerJSON(text)
		if err != nil {
			return errors.New(f.Arg(0) + ": " + err.Error())
		}
		_, err = p.out.Write(file)
		return err
	})
}
