package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"modelgate/cmd/modelgate/admin"
)

// administration returns the commands that administer a gateway over its API, for a call with
// these arguments.
func (p *program) administration(args []string) []*cobra.Command {
	meant := append([]string{}, args...)
	if len(args) > 0 && args[0] == "man" {
		meant = nil // pages for all
	}
	return admin.Commands(admin.Env{
		In: p.in, Out: p.out, Err: p.err, Getenv: p.env, Terminal: isTerminal(p.in), Agent: "modelgate/" + version, Usage: usage, Args: meant,
		WriteFile: p.writeFile,
		Check:     func() error { return checkEnvironment(p.environ) },
	})
}

// isTerminal reports whether a user may answer questions on an input.
func isTerminal(in io.Reader) bool {
	f, ok := in.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && f.Name() != os.DevNull
}
