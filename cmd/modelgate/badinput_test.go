package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// leaves returns the commands of the program that do something: those of the API where both have one.
func leaves(t *testing.T) (list []*cobra.Command) {
	t.Helper()
	p := newProgram()
	for _, c := range listed(p.tree([]string{"--url", "http://127.0.0.1:1"}, p.administration)) {
		if c.HasAvailableSubCommands() {
			continue
		}
		// A verb of the API is complete only in a call of its noun.
		args := append(pathOf(c), "--url", "http://127.0.0.1:1")
		complete, _, err := p.tree(args, p.administration).Find(args)
		if err != nil {
			t.Errorf("%s: %v", c.CommandPath(), err)
			continue
		}
		list = append(list, complete)
	}
	if len(list) < 250 {
		t.Errorf("%d commands are checked", len(list))
	}
	return list
}

// pathOf returns the names of a command after the program's.
func pathOf(c *cobra.Command) []string { return strings.Fields(c.CommandPath())[1:] }

// complain runs a command that must fail with a code, and checks that it says why in one line. It
// returns the line.
func complain(t *testing.T, env []string, want int, args ...string) string {
	t.Helper()
	code, _, errs := invoke(t, env, "", args...)
	if code != want || strings.Count(errs, "\n") != 1 || !strings.HasPrefix(errs, "modelgate") {
		t.Errorf("modelgate %s = %d %q, want %d and one line", strings.Join(args, " "), code, errs, want)
	}
	for _, problem := range sentenceProblems(errs) {
		t.Errorf("modelgate %s: %q %s", strings.Join(args, " "), errs, problem)
	}
	return errs
}

func TestEveryCommandRefusesWrongUsage(t *testing.T) {
	t.Chdir(t.TempDir()) // for a command that runs after all
	env := []string{"MODELGATE_URL=http://127.0.0.1:1"}
	needing := 0
	for _, c := range leaves(t) {
		name := c.CommandPath()
		if line := complain(t, env, 2, append(pathOf(c), "--no-such-flag")...); !strings.Contains(line, "--no-such-flag") || !strings.Contains(line, name+" --help") {
			t.Errorf("%s: an unknown flag is answered with %q", name, line)
		}
		if names := positional(c); c.ValidateArgs(nil) != nil || slices.ContainsFunc(names[:min(len(names), 1)], isRequired) {
			needing++
			if line := complain(t, env, 2, pathOf(c)...); !strings.Contains(line, name+" --help") {
				t.Errorf("%s: a missing argument is answered with %q", name, line)
			}
		}
		many := slices.Repeat([]string{"more"}, 6)
		if c.ValidateArgs(many) == nil {
			continue // takes any number
		}
		if line := complain(t, env, 2, append(pathOf(c), many...)...); !strings.Contains(line, name+" --help") {
			t.Errorf("%s: arguments too many are answered with %q", name, line)
		}
	}
	if needing < 20 {
		t.Errorf("%d commands need an argument", needing)
	}
}

// isRequired reports whether a positional argument must be given.
func isRequired(name string) bool { return name[0] >= 'A' && name[0] <= 'Z' }

// asks returns the calls of the examples of commands that ask a gateway, without those with files and
// those that do not ask it.
func asks(t *testing.T) (list [][]string) {
	t.Helper()
	for _, c := range leaves(t) {
		if c.Flags().Lookup("url") == nil || c.Name() == "login" || c.Name() == "logout" || c.CommandPath() == "modelgate run" {
			continue
		}
		for _, line := range examples(c) {
			leftOut := slices.ContainsFunc([]string{"-f ", ".json", "state.yaml", "--offline"}, func(part string) bool { return strings.Contains(line, part) })
			if args := shellWords(line); !leftOut && !strings.ContainsAny(line, "@|'<") {
				list = append(list, args)
			}
		}
	}
	if len(list) < 150 {
		t.Errorf("%d calls are checked", len(list))
	}
	return list
}

func TestEveryCommandSaysThatAGatewayIsUnreachable(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, args := range asks(t) {
		line := complain(t, nil, 1, append(args, "--url", "http://127.0.0.1:1", "--key", "mg-x")...)
		if !strings.Contains(line, "127.0.0.1:1") || !strings.Contains(line, "--url") {
			t.Errorf("modelgate %s: %q names neither the address nor its flag", strings.Join(args, " "), line)
		}
	}
}

func TestEveryCommandSaysThatAKeyIsWrong(t *testing.T) {
	t.Chdir(t.TempDir())
	g := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { // as gateways do
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		w.Write([]byte(`{"status":"failure","message":"invalid gateway key","code":"invalid_api_key"}`))
	}))
	t.Cleanup(g.Close)
	for _, args := range asks(t) {
		line := complain(t, nil, 1, append(args, "--url", g.URL, "--key", "mg-of-another-gateway")...)
		if !strings.Contains(line, "--key") || strings.Contains(line, "mg-of-another") {
			t.Errorf("modelgate %s: %q does not say which flag to change", strings.Join(args, " "), line)
		}
	}
}

// TestNamesOfSeveralObjectsAreListed asks a gateway that has two of everything, with one name.
func TestNamesOfSeveralObjectsAreListed(t *testing.T) {
	t.Chdir(t.TempDir())
	ids := []string{"01a218ea-0e12-7569-a664-000000000001", "01a218ea-0e12-7569-a664-000000000002"}
	g := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(r.URL.Path, "Twins") || r.Method != http.MethodGet {
			w.WriteHeader(http.StatusNotFound)
			w.Write([]byte(`{"status":"failure","message":"Twins not found","code":"AB08"}`))
			return
		}
		fmt.Fprintf(w, `{"object":"list","total":2,"has_more":false,"next_cursor":null,"data":[
			{"id":%q,"name":"Twins","email":"Twins","slug":"twins-1","workspace_id":"w1"},{"id":%q,"name":"Twins","email":"Twins","slug":"twins-2","workspace_id":"w2"}]}`, ids[0], ids[1])
	}))
	t.Cleanup(g.Close)
	calls := [][]string{
		{"keys", "create", "app", "--workspace", "default", "--scopes", "completions.write", "--config", "Twins"},
		{"keys", "create", "app", "--workspace", "Twins", "--scopes", "completions.write"},
		{"logs", "list", "--api-key", "Twins"},
		{"analytics", "cost", "--configs", "Twins"},
		{"limits", "list", "--owner", "key", "--id", "Twins"},
		{"top", "keys", "--workspace", "Twins"},
	}
	for _, c := range leaves(t) {
		// Objects of these have no name, or none that lists have.
		if c.Name() == "show" && !slices.Contains([]string{"batches", "exports", "files", "jobs", "logs", "organisations"}, c.Parent().Name()) {
			calls = append(calls, append(pathOf(c), "Twins"))
		}
	}
	if len(calls) < 20 {
		t.Errorf("%d calls are checked", len(calls))
	}
	for _, args := range calls {
		line := complain(t, nil, 1, append(args, "--url", g.URL, "--key", "mg-x")...)
		if !strings.Contains(line, ids[0]) || !strings.Contains(line, ids[1]) || !strings.Contains(line, "use an id") {
			t.Errorf("modelgate %s: %q does not list the objects with the name", strings.Join(args, " "), line)
		}
	}
}

func TestFlagsOfGatewaysNeedAnAddress(t *testing.T) {
	t.Chdir(t.TempDir())
	const advice = "set MODELGATE_URL or --url"
	if line := complain(t, nil, 2, "keys", "create", "app", "--workspace", "default"); !strings.Contains(line, advice) {
		t.Errorf("a flag of the API without an address: %q", line)
	}
	for _, args := range [][]string{{"keys", "create", "--no-such-flag"}, {"keys", "create", "app", "--no-such-flag", "--url", "http://127.0.0.1:1"}} {
		if line := complain(t, nil, 2, args...); strings.Contains(line, advice) {
			t.Errorf("modelgate %s: %q", strings.Join(args, " "), line)
		}
	}
}

// TestFlagsOfDatabasesOutrankTheAddressInTheEnvironment runs commands that there are for the API and
// for the database of this machine in a shell that names a gateway.
func TestFlagsOfDatabasesOutrankTheAddressInTheEnvironment(t *testing.T) {
	data, env := t.TempDir(), []string{"MODELGATE_URL=http://127.0.0.1:1", "MODELGATE_BOOTSTRAP_KEY=mg-of-a-gateway"}
	if code, _, errs := invoke(t, nil, "", "migrate", "--data", data); code != 0 {
		t.Fatal(errs)
	}
	if code, out, errs := invoke(t, env, "", "export", "--data", data, "--secrets", "none"); code != 0 || !strings.Contains(out, "workspaces:") {
		t.Errorf("export --data = %d, %q, %q", code, out, errs)
	}
	if code, out, errs := invoke(t, env, "", "keys", "list", "--data="+data); code != 0 {
		t.Errorf("keys list --data = %d, %q, %q", code, out, errs)
	}
	for _, args := range [][]string{{"keys", "list"}, {"keys", "list", "--url", "http://127.0.0.1:1"}} {
		if code, _, errs := invoke(t, env, "", args...); code != 1 || !strings.Contains(errs, "cannot reach the gateway at 127.0.0.1:1") {
			t.Errorf("%q = %d, %q", args, code, errs)
		}
	}
}
