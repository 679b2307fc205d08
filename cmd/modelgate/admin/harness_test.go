package admin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"modelgate/cmd/modelgate/admin"
	"modelgate/internal/testing/gatewaytest"
)

// errWrongCall marks wrong usage.
var errWrongCall = errors.New("usage")

// shell runs commands as a program with a terminal or without one does.
type shell struct {
	t        *testing.T
	variable map[string]string
	answers  string // of the user at a terminal; empty without a terminal
	in       string // standard input
}

// newShell returns a shell whose environment names a gateway and its key.
func newShell(t *testing.T, g *gatewaytest.Gateway) *shell {
	return &shell{t: t, variable: map[string]string{"MODELGATE_URL": g.Root, "MODELGATE_BOOTSTRAP_KEY": gatewaytest.Key}}
}

// try runs a command and returns what it prints.
func (s *shell) try(args ...string) (out, warnings string, err error) {
	s.t.Helper()
	var stdout, stderr bytes.Buffer
	env := admin.Env{
		In: strings.NewReader(s.answers + s.in), Out: &stdout, Err: &stderr, Terminal: s.answers != "", Agent: "modelgate/test", Args: append([]string{}, args...),
		Getenv: func(name string) string { return s.variable[name] },
		Usage: func(format string, args ...any) error {
			return fmt.Errorf("%w: "+format, append([]any{errWrongCall}, args...)...)
		},
	}
	root := &cobra.Command{Use: "modelgate", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(admin.Commands(env)...)
	root.SetArgs(args)
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	err = root.ExecuteContext(context.Background())
	return stdout.String(), stderr.String(), err
}

// run is try for a command that succeeds.
func (s *shell) run(args ...string) string {
	s.t.Helper()
	out, warnings, err := s.try(args...)
	if err != nil {
		s.t.Fatalf("modelgate %s: %v\n%s%s", strings.Join(args, " "), err, out, warnings)
	}
	return strings.TrimSuffix(out, "\n")
}

// refuse is try for a command that fails with all of these texts in its error.
func (s *shell) refuse(args []string, texts ...string) {
	s.t.Helper()
	out, _, err := s.try(args...)
	if err == nil {
		s.t.Errorf("modelgate %s succeeds and prints %q", strings.Join(args, " "), out)
		return
	}
	if strings.Contains(err.Error(), "\n") {
		s.t.Errorf("modelgate %s: the error has several lines: %v", strings.Join(args, " "), err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			s.t.Errorf("modelgate %s: %v, want %q in it", strings.Join(args, " "), err, text)
		}
	}
}
