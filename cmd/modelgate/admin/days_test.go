package admin_test

import (
	"errors"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

// TestFirstDayOfAPlatform does what a platform engineer does on the first day with a team:
// a workspace, its people, a provider, a key with a budget, its usage, and its end.
func TestFirstDayOfAPlatform(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{MasterKey: masterKey})
	s := newShell(t, g)
	s.run("workspaces", "create", "Search", "--budget", "500/month")
	link := s.run("invites", "create", "sam@example.com", "--role", "member", "--workspaces", "Search:manager")
	session := mustAccept(t, g, link)
	s.in = gatewaytest.SimulatorKey + "\n"
	s.run("integrations", "create", "Sim", "--slug", "sim-main", "--ai-provider", "openai-compatible", "--credential", "@-",
		"--configurations", "custom_host="+g.Upstream)
	if out := s.run("integrations", "grant", "sim-main", "--workspaces", "Search", "--create-default-provider"); !strings.Contains(out, "Search") {
		t.Errorf("the grants do not name the workspace:\n%s", out)
	}
	config := s.run("configs", "create", "Main", "--workspace", "Search", "--config", `{"provider": "@sim-main"}`, "-o", "name")
	key, warnings, err := s.try("keys", "create", "ci", "--workspace", "Search", "--scopes", "completions.write", "--budget", "1000000tokens/month",
		"--rate", "600rpm", "--config", "Main")
	if err != nil || !regexp.MustCompile(`^mg-\S+\n$`).MatchString(key) || !strings.Contains(warnings, "shown once") {
		t.Fatalf("keys create prints %q, %q, %v", key, warnings, err)
	}
	key = strings.TrimSpace(key)
	ask := func() gatewaytest.Response {
		return g.Post("/chat/completions", `{"model": "sim-1", "messages": [{"role": "user", "content": "Hello"}]}`,
			"x-gateway-api-key", key, "x-gateway-provider", "")
	}
	if res := ask(); res.Status != http.StatusOK {
		t.Fatalf("a request with the key and the config %s: %d %s", config, res.Status, res.Body)
	}
	waittest.Until(t, "top has the tokens of the key", func() bool {
		return regexp.MustCompile(`(?m)^ci +\S+ +1 +[1-9]`).MatchString(s.run("top", "keys", "--by", "tokens", "--since", "1h", "--workspace", "Search"))
	})
	if out := s.run("logs", "list", "--api-key", "ci", "--workspace", "Search"); !strings.Contains(out, "sim-1") {
		t.Errorf("the log of the key is:\n%s", out)
	}
	waittest.Until(t, "limits shows the usage", func() bool {
		return regexp.MustCompile(`(?m)^key +tokens +- +1000000 +[1-9]`).MatchString(s.run("limits", "list", "--owner", "key", "--id", "ci"))
	})

	// A manager administers the workspace with a session.
	sam := newShell(t, g)
	sam.variable["MODELGATE_BOOTSTRAP_KEY"] = session
	if out := sam.run("keys", "list", "--workspace", "Search", "-o", "json"); !strings.Contains(out, `"name": "ci"`) || strings.Contains(out, key) {
		t.Errorf("a manager sees:\n%s", out)
	}
	sam.refuse([]string{"workspaces", "create", "Mine"}, "403", "right")

	s.refuse([]string{"keys", "revoke", "ci"}, "--yes")
	s.run("keys", "revoke", "ci", "--yes")
	waittest.Until(t, "the key is refused", func() bool { return ask().Status == http.StatusUnauthorized })
	if out := s.run("top", "keys", "--since", "1h"); !regexp.MustCompile(`(?m)^deleted \([0-9a-f-]{36}\) `).MatchString(out) {
		t.Errorf("top has the key that was revoked as:\n%s", out)
	}
	if out := s.run("audit", "list", "--since", "1h", "--resource-type", "api_key"); !strings.Contains(out, "delete") {
		t.Errorf("the audit log is:\n%s", out)
	}
}

// TestAnswersDecide asks at a terminal before it removes something.
func TestAnswersDecide(t *testing.T) {
	t.Parallel()
	s := newShell(t, gatewaytest.New(t, gatewaytest.Options{}))
	s.run("keys", "create", "ci", "--workspace", "default", "--scopes", "completions.write")
	for _, answer := range []string{"n\n", "\n", "yess\n", "no"} {
		s.answers = answer
		s.refuse([]string{"keys", "revoke", "ci"}, "nothing was changed")
	}
	s.answers = "y\n"
	_, question, err := s.try("keys", "revoke", "ci")
	if err != nil || question != "Revoke the API key ci? [y/N] " {
		t.Errorf("keys revoke asks %q, %v", question, err)
	}
	s.refuse([]string{"keys", "show", "ci"}, "404")
}

func TestNamesOfSeveralObjectsAreListed(t *testing.T) {
	t.Parallel()
	s := newShell(t, gatewaytest.New(t, gatewaytest.Options{}))
	var ids []string
	for range 2 {
		ids = append(ids, s.run("keys", "create", "twin", "--workspace", "default", "--scopes", "completions.write", "-o", "name"))
	}
	s.refuse([]string{"keys", "revoke", "twin", "--yes"}, `2 keys have the name "twin"`, ids[0], ids[1])
	s.run("keys", "revoke", ids[0], "--yes")
	s.run("keys", "revoke", "twin", "--yes")
	if _, warnings, err := s.try("keys", "list"); err != nil || warnings != "no keys\n" {
		t.Errorf("an empty list says %q, %v", warnings, err)
	}
}

// TestLimitsOfPoliciesAreFoundByName names policies of both kinds.
func TestLimitsOfPoliciesAreFoundByName(t *testing.T) {
	t.Parallel()
	s := newShell(t, gatewaytest.New(t, gatewaytest.Options{}))
	rate := []string{"rate-policies", "create", "Team", "--rate", "60rpm", "--conditions", "workspace_id=*", "--group-by", "api_key", "-o", "name", "--workspace"}
	one := s.run(append(rate, "default")...)
	s.run("limits", "list", "--owner", "policy", "--id", "Team")
	s.run("workspaces", "create", "Search")
	other := s.run("usage-policies", "create", "Team", "--budget", "5/month", "--conditions", "workspace_id=*", "--group-by", "api_key", "-o", "name",
		"--workspace", "Search")
	s.refuse([]string{"limits", "list", "--owner", "policy", "--id", "Team"}, `2 policies have the name "Team"`, one+" (in Default)", other+" (in Search)")
	s.refuse([]string{"limits", "list", "--owner", "policy", "--id", "Nobody"}, "404", `"Nobody"`)
}

// TestNamesStayInTheirSegment takes names as the object that they are, whatever path they
// look like.
func TestNamesStayInTheirSegment(t *testing.T) {
	t.Parallel()
	s := newShell(t, gatewaytest.New(t, gatewaytest.Options{}))
	for _, name := range []string{"a/b", "..", "../admin/workspaces/default", "50%", "q?x=1", "a b", "#1", "a;b,c"} {
		s.run("keys", "create", name, "--workspace", "default", "--scopes", "completions.write", "-o", "name")
		if out := s.run("keys", "show", name); !strings.Contains(out, name) {
			t.Errorf("keys show %q prints:\n%s", name, out)
		}
		s.run("keys", "revoke", name, "--yes")
		s.refuse([]string{"keys", "show", name}, "not found")
	}
	s.refuse([]string{"keys", "show", "self/details"}, "not found")
	s.refuse([]string{"files", "download", "../admin/workspaces"}, "not found")
	s.refuse([]string{"analytics", "groups", "../../admin/workspaces"}, "not found")
	s.refuse([]string{"keys", "show", ""}, "must not be empty")
}

func TestWrongCallsSayWhatToDo(t *testing.T) {
	t.Parallel()
	s := newShell(t, gatewaytest.New(t, gatewaytest.Options{}))
	create := []string{"keys", "create", "ci", "--workspace", "default", "--scopes", "completions.write"}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"keys", "lisst"}, "did you mean list?"},
		{[]string{"keys"}, "missing subcommand: create"},
		{[]string{"keys", "show"}, "KEY is required"},
		{[]string{"keys", "show", "a", "b"}, `unexpected argument "b"`},
		{[]string{"keys", "create"}, "NAME (or --name) is required"},
		{[]string{"keys", "create", "a"}, "--scopes is required"},
		{[]string{"keys", "create", "a", "--name", "b", "--scopes", "x"}, "give one of them"},
		{append(create, "--budget", "100/fortnight"), "/month"},
		{append(create, "--budget", "much"), "100/month"},
		{append(create, "--rate", "100"), "60rpm"},
		{append(create, "--expires-at", "soon"), "+90d"},
		{append(create, "--metadata", "team"), "key=value"},
		{append(create, "--defaults.allow-config-override=perhaps"), "true or false"},
		{append(create, "--usage-limits.credit-limit", "x"), "must be a number"},
		{append(create, "--defaults.request-logging", "some"), "full, metadata or none"},
		{append(create, "-o", "xml"), "--output must be"},
		{[]string{"keys", "list", "-o", "key"}, "--output must be"},
		{[]string{"keys", "list", "--limit", "0"}, "at least 1"},
		{[]string{"keys", "update", "ci", "--clear", "nothing"}, "--clear \"nothing\" must be"},
		{[]string{"invites", "create", "a@example.com", "--role", "member", "--workspaces", "default"}, "id:role"},
		{[]string{"top", "people"}, "KIND must be"},
		{[]string{"top", "--by", "beauty"}, "--by must be"},
		{[]string{"keys", "list", "--timeout", "-1s"}, "negative"},
	} {
		_, _, err := s.try(tt.args...)
		if err == nil || !strings.Contains(err.Error(), tt.want) || !errors.Is(err, errWrongCall) {
			t.Errorf("modelgate %s: %v, want wrong usage with %q", strings.Join(tt.args, " "), err, tt.want)
		}
	}
	if out := s.run("keys", "list", "-o", "json"); out != "[]" {
		t.Errorf("wrong calls created %s", out)
	}
}

func TestCompletionKnowsVerbsAndValues(t *testing.T) {
	t.Parallel()
	s := &shell{t: t}
	for _, tt := range []struct {
		args string
		want []string
	}{
		{"keys upd", []string{"update"}},
		{"keys update ci --status ", []string{"active", "disabled"}},
		{"keys list -o ", []string{"json", "wide"}},
		{"key update ci --clear ", []string{"expires-at"}},
		{"top keys --by ", []string{"cost", "tokens"}},
	} {
		out := s.run(append([]string{"__complete"}, strings.Split(tt.args, " ")...)...)
		for _, want := range tt.want {
			if !regexp.MustCompile(`(?m)^` + want + `\b`).MatchString(out) {
				t.Errorf("completion of %q has no %s:\n%s", tt.args, want, out)
			}
		}
	}
}

// TestFilesAreBodies takes a body from a file, with flags on top.
func TestFilesAreBodies(t *testing.T) {
	t.Parallel()
	s := newShell(t, gatewaytest.New(t, gatewaytest.Options{}))
	file := mustWrite(t, "key.yaml", "name: ci\nscopes: [completions.write]\nworkspace_id: default\nusage_limits:\n  credit_limit: 5\n  on_budget_end: stop\n")
	s.run("keys", "create", "-f", file, "--usage-limits.credit-limit", "7", "--description", "from a file", "-o", "name")
	out := s.run("keys", "show", "ci")
	for _, want := range []string{"from a file", "$7.00", "stop"} {
		if !strings.Contains(out, want) {
			t.Errorf("the key has no %q:\n%s", want, out)
		}
	}
	s.in = `{"name": "piped", "scopes": ["completions.write"], "workspace_id": "default"}`
	s.run("keys", "create", "-f", "-")
	s.run("keys", "show", "piped")
	s.refuse([]string{"keys", "create", "-f", mustWrite(t, "bad.yaml", "- a\n- b\n")}, "must have an object")
	s.refuse([]string{"keys", "create", "-f", mustWrite(t, "bad.json", "{\"name\": \"x")}, "neither JSON nor YAML")
	s.refuse([]string{"keys", "create", "-f", os.TempDir() + "/no-such-file.yaml"}, "no-such-file.yaml")
}
