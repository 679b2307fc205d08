package admin_test

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// variable are the parts of an output that differ between runs, and what replaces them.
var variable = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f-]{21}`), "ID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+Z)?`), "TIME"},
	{regexp.MustCompile(`\d+[smhd] ago|in \d+[smhd]|\b\d{4}-\d\d-\d\d\b`), "TIME"},
	{regexp.MustCompile(`mg\*\*\*\S\S`), "MASK"},
	{regexp.MustCompile(`((ws|pc)-\w+)-[0-9a-f]{6}`), "$1-HEX"},
	{regexp.MustCompile(`(\S) {2,}`), "$1  "},
}

// TestStructureOfOutput compares tables, details, JSON and YAML with testdata/structure.txt,
// without what differs between runs.
func TestStructureOfOutput(t *testing.T) {
	t.Parallel()
	s := newShell(t, gatewaytest.New(t, gatewaytest.Options{}))
	s.run("workspaces", "create", "Search", "--budget", "500/month", "--rate", "600rpm,5concurrent")
	s.run("keys", "create", "ci", "--workspace", "Search", "--scopes", "completions.write,models.list", "--budget", "1000000tokens/30d", "--metadata", "team=search")
	s.run("configs", "create", "Main", "--workspace", "Search", "--config", `{"provider": "@x"}`)
	var out strings.Builder
	for _, line := range []string{
		"workspaces list", "workspaces list -o wide", "workspaces list --no-headers", "workspaces list -o name",
		"keys list", "keys list -o wide", "keys list -o json", "keys list -o yaml", "keys show ci",
		"configs list --workspace Search -o json", "configs versions Main --workspace Search", "users list", "top", "limits list --owner key --id ci",
		"workspaces list --limit 1", "keys update ci --description x", "keys update ci --description y -o name",
	} {
		text, warnings, err := s.try(strings.Fields(line)...)
		if err != nil {
			t.Fatalf("modelgate %s: %v", line, err)
		}
		out.WriteString("$ modelgate " + line + "\n" + text + warnings)
	}
	got := out.String()
	for _, v := range variable {
		got = v.pattern.ReplaceAllString(got, v.by)
	}
	const file = "testdata/structure.txt"
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the output has another structure than %s; if that is right, run with -update. It is:\n%s", file, got)
	}
}
