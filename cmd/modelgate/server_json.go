package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"modelgate/internal/base/oserr"
	"modelgate/internal/settings"
)

// convertServer prints the server.json of an MCP server as a file for apply.
func convertServer(_ context.Context, p *program, args []string) error {
	f := p.flags("mcp-server", "FILE",
		"Prints a server.json of the public MCP registry as a file for `modelgate apply`, with an MCP integration.\nComments in it name the environment variables for its headers. Nothing is fetched.")
	if err := f.parse(args, 1); err != nil {
		return err
	}
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
}
