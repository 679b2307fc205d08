package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestUnknownVariablesAreRefusedByName(t *testing.T) {
	for _, tt := range []struct {
		name, variable string
		code           int
		want           string
	}{
		{"a known one", "MODELGATE_DATA=data", 0, ""},
		{"a letter too few", "MODELGATE_LISTN=127.0.0.1:0", 2, "MODELGATE_LISTN is unknown; did you mean MODELGATE_LISTEN?"},
		{"a prefix too much", "MODELGATE_DATABASE_URL=postgres://u:canary@h/d", 2, "MODELGATE_DATABASE_URL is unknown; did you mean DATABASE_URL?"},
		{"like no other", "MODELGATE_SOMETHING_ELSE=canary", 2, "MODELGATE_SOMETHING_ELSE is unknown, and names that begin with MODELGATE_ are reserved"},
		{"a port, as others name it", "MODELGATE_PORT=8080", 2, "MODELGATE_PORT is unknown"},
		{"the port of a service of Kubernetes", "MODELGATE_PORT=tcp://10.0.0.7:8787", 0, ""},
		{"a service of Kubernetes", "MODELGATE_ADMIN_SERVICE_PORT_HTTP=8788", 0, ""},
		{"an address of such a service", "MODELGATE_PORT_8787_TCP_ADDR=10.0.0.7", 0, ""},
		{"of a test", "MODELGATE_TEST_ANYTHING=1", 0, ""},
		{"the program under test", "MODELGATE_BINARY=bin/modelgate", 0, ""},
		{"the key of a client", "MODELGATE_KEY=mg-1", 0, ""},
		{"another program's", "SOMETHING_ELSE=1", 0, ""},
	} {
		code, _, errs := invoke(t, []string{tt.variable}, "", "providers")
		if code != tt.code || !strings.Contains(errs, tt.want) || strings.Contains(errs, "canary") || code != 0 && !strings.HasPrefix(errs, "modelgate providers: ") {
			t.Errorf("%s: exit %d, %q; want %d and %q", tt.name, code, errs, tt.code, tt.want)
		}
	}
}

// TestVariablesAreThoseOfHelpAndDocuments keeps the list complete in all three.
func TestVariablesAreThoseOfHelpAndDocuments(t *testing.T) {
	name := regexp.MustCompile(`\b(MODELGATE_[A-Z_]*[A-Z]|DATABASE_URL|DB_CONNECTIONS|DB_SSL(_[A-Z]+)?)\b`)
	var help strings.Builder
	for _, c := range [][]string{
		{"serve"}, {"demo"}, {"tail"}, {"explain"}, {"keys", "create"}, {"keys", "list"}, {"keys", "revoke"}, {"keys", "rotate-master"}, {"apply"}, {"export"},
		{"check"}, {"seal"}, {"migrate"}, {"logs", "prune"}, {"logs", "export"}, {"cache", "evaluate"}, {"ledger", "verify"}, {"audit", "verify"}, {"organisations", "list"}, {"users", "link"}, {"domains", "verify"}, {"healthcheck"}, {"simulate"}, {"bench"},
	} {
		_, out, errs := invoke(t, nil, "", append(c, "--help")...)
		help.WriteString(out + errs)
	}
	if got := found(name, help.String()); !slices.Equal(got, slices.Sorted(slices.Values(variables))) {
		t.Errorf("--help of all commands has %q, want %q", got, variables)
	}
	page := mustRead(t, "../../docs/operations.md")
	for _, v := range variables {
		if !strings.Contains(page, "`"+v+"`") {
			t.Errorf("docs/operations.md does not have %s", v)
		}
	}
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, "../../README.md") {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range found(name, string(b)) {
			if !slices.Contains(variables, v) && !foreign.MatchString(v+"=") {
				t.Errorf("%s names the variable %s, which no command reads", file, v)
			}
		}
	}
}

// found returns the sorted names in a text.
func found(name *regexp.Regexp, text string) []string {
	list := name.FindAllString(text, -1)
	slices.Sort(list)
	return slices.Compact(list)
}

func TestLimitOfConnectionsIsChecked(t *testing.T) {
	t.Parallel()
	for env, args := range map[string][]string{
		"DB_CONNECTIONS=1": {"migrate", "--dry-run"}, "DB_CONNECTIONS=many": {"doctor"}, "HOME=/": {"migrate", "--db-connections", "1001"},
	} {
		if code, _, errs := invoke(t, []string{env}, "", args...); code != 2 || !strings.Contains(errs, "--db-connections must be a number from 2 to 1000") {
			t.Errorf("%s %v: %d %s", env, args, code, errs)
		}
	}
}
