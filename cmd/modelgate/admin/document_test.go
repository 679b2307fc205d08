package admin_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"modelgate/cmd/modelgate/admin"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/programtest"
)

// TestMain runs the commands instead of the tests if the binary is called modelgate, as in the
// scripts of documents.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != "modelgate" {
		os.Exit(m.Run())
	}
	env := admin.Env{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Agent: "modelgate/test", Args: os.Args[1:], Usage: fmt.Errorf,
		WriteFile: func(name string, text []byte) error { return os.WriteFile(name, text, 0o600) }}
	root := &cobra.Command{Use: "modelgate", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(admin.Commands(env)...)
	if err := root.ExecuteContext(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "modelgate:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

var block = regexp.MustCompile("(?s)```sh\n(.*?)```")

// TestDocumentWorks runs the blocks of the document in their order, as one script.
func TestDocumentWorks(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/administer-from-the-command-line.md")
	if err != nil {
		t.Fatal(err)
	}
	g := gatewaytest.New(t, gatewaytest.Options{MasterKey: masterKey})
	folder := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(folder, "modelgate")); err != nil {
		t.Fatal(err)
	}
	blocks := block.FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 6 {
		t.Fatalf("the document has %d blocks", len(blocks))
	}
	script := "set -eu\n"
	for _, b := range blocks {
		script += b[1]
	}
	script = strings.ReplaceAll(script, "https://gateway.example.com", g.Root) + "test -n \"$KEY\"\n"
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Dir = folder
	cmd.Env = append(programtest.Env("MODELGATE_BOOTSTRAP_KEY="+gatewaytest.Key), "PATH="+folder+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"ws-search-", "openai-main", `created config "Main"`, "updated API key", "revoked API key", "nothing to change"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the script does not print %q:\n%s", want, out)
		}
	}
}
