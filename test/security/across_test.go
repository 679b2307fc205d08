package security

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/waittest"
)

// cliKey makes a key with `modelgate keys create`.
func (g *gateway) cliKey(t *testing.T, flags ...string) string {
	t.Helper()
	where := []string{"--data", g.data}
	if g.options.database != "" {
		where = []string{"--data", g.data, "--database-url", g.options.database}
	}
	out, errText, code := command(t, append(append([]string{"keys", "create", "--name", "cli"}, where...), flags...)...)
	if code != 0 {
		t.Fatalf("keys create: exit %d: %s%s", code, out, errText)
	}
	key := strings.TrimSpace(out)
	g.awaitKey(t, key)
	return key
}

// audits returns the audit log that a caller sees.
func (g *gateway) audits(t *testing.T, token string) string {
	t.Helper()
	from, to := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339), time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	return string(g.as(t, token, "GET", "/v1/audit-logs?start_time="+from+"&end_time="+to, "").ok(t).body)
}

func TestKeysReadTheirOrganisationAlone(t *testing.T) {
	t.Parallel()
	const secretText = "the plans of the other organisation"
	p := newProvider(t, nil)
	onBothDatabases(t, func(t *testing.T, o options) {
		o.settings = "version: 1\nlogs:\n  level: full\n"
		g := launch(t, o)
		owner := g.organisation(t, "other")
		theirs := g.create(t, owner, "/v1/api-keys/workspace/service", `{"name":"k","workspace_id":"default","scopes":["completions.write","logs.view","logs.list"]}`, "key")
		g.awaitKey(t, theirs)
		body := strings.Replace(chatBody, "hello", secretText, 1)
		id := g.do(t, "POST", "/v1/chat/completions", body, toCustomHost(theirs, p, "x-gateway-trace-id", "shared-trace")...).ok(t).header.Get("x-gateway-request-id")
		g.do(t, "POST", "/v1/chat/completions", chatBody, toCustomHost(rootKey, p, "x-gateway-trace-id", "shared-trace")...).ok(t)
		waittest.Until(t, "the exchange is in the log", func() bool { return g.as(t, theirs, "GET", "/v1/logs/"+id, "").status == http.StatusOK })
		if got := string(g.as(t, theirs, "GET", "/v1/logs/"+id, "").ok(t).body); !strings.Contains(got, secretText) {
			t.Fatalf("the log keeps no bodies: %s", got)
		}
		first, all := g.cliKey(t), g.cliKey(t, "--all-organisations")
		listed := g.cliKey(t, "--scopes", "logs.list,logs.view,installation.read")
		reading := `"scopes":["completions.write","logs.view","logs.list"]`
		ours := g.create(t, rootKey, "/v1/api-keys/workspace/service", `{"name":"ours","workspace_id":"default",`+reading+`}`, "key")
		second := g.create(t, rootKey, "/v1/workspaces", `{"name":"Second"}`, "id")
		neighbour := g.create(t, rootKey, "/v1/api-keys/workspace/service", `{"name":"neighbour","workspace_id":"`+second+`",`+reading+`}`, "key")
		g.awaitKey(t, ours)
		g.awaitKey(t, neighbour)
		neighbouring := g.do(t, "POST", "/v1/chat/completions", chatBody, toCustomHost(neighbour, p, "x-gateway-trace-id", "neighbour-trace")...).ok(t).header.Get("x-gateway-request-id")
		waittest.Until(t, "the neighbour's exchange is in the log", func() bool { return g.as(t, neighbour, "GET", "/v1/logs/"+neighbouring, "").status == http.StatusOK })
		attack(t, "isolation", "a workspace's key reads its workspace and not its organisation", func(t *testing.T) {
			g.as(t, ours, "GET", "/v1/logs/"+neighbouring, "").refused(t, http.StatusNotFound)
			for _, path := range []string{"/v1/logs", "/v1/logs?trace_id=neighbour-trace", "/v1/logs/traces"} {
				if r := g.as(t, ours, "GET", path, "").ok(t); strings.Contains(string(r.body), neighbouring) || strings.Contains(string(r.body), "neighbour-trace") {
					t.Errorf("%s: %.600s", path, r.body)
				}
			}
			if r := g.as(t, rootKey, "GET", "/v1/logs/"+neighbouring, "").ok(t); !strings.Contains(string(r.body), neighbouring) {
				t.Errorf("a key of the organisation: %.600s", r.body)
			}
		})
		for _, caller := range []struct{ name, key string }{{"the bootstrap key", rootKey}, {"a key of keys create", first}, {"a workspace's key", ours}} {
			for _, c := range []struct{ name, path string }{
				{"one entry", "/v1/logs/" + id}, {"an explanation", "/v1/explain/" + id}, {"the list", "/v1/logs"}, {"the list by trace", "/v1/logs?trace_id=shared-trace"},
				{"a search for a text", "/v1/logs?text=plans+of+the+other"}, {"traces", "/v1/logs/traces"}, {"one trace", "/v1/logs/traces/shared-trace"},
				{"analytics by key", "/v1/analytics/groups/ai-models"}, {"keys", "/v1/api-keys"}, {"workspaces", "/v1/workspaces"}, {"people", "/v1/admin/users"},
				{"feedback", "/v1/feedback"}, {"configs", "/v1/configs"},
			} {
				attack(t, "isolation", caller.name+" reads nothing of another organisation: "+c.name, func(t *testing.T) {
					r := g.as(t, caller.key, "GET", c.path, "")
					if strings.Contains(string(r.body), secretText) || r.status == http.StatusOK && strings.Contains(string(r.body), id) || strings.Contains(string(r.body), "owner@other.example") {
						t.Errorf("%d %.600s", r.status, r.body)
					}
					if strings.Contains(c.path, id) && r.status != http.StatusNotFound {
						t.Errorf("status %d, want 404", r.status)
					}
				})
			}
			attack(t, "isolation", caller.name+" does not receive another organisation as it happens", func(t *testing.T) {
				if got := g.tails(t, caller.key, func() {
					g.do(t, "POST", "/v1/chat/completions", body, toCustomHost(theirs, p, "x-gateway-trace-id", "cross")...).ok(t)
					g.do(t, "POST", "/v1/chat/completions", chatBody, toCustomHost(rootKey, p, "x-gateway-trace-id", "mine")...).ok(t)
				}); strings.Contains(got, "cross") || !strings.Contains(got, "mine") {
					t.Errorf("told: %s", got)
				}
			})
		}
		attack(t, "isolation", "a key that asked for all organisations sees the entry without bodies", func(t *testing.T) {
			for _, key := range []string{all, listed} {
				for _, path := range []string{"/v1/logs/" + id, "/v1/explain/" + id} {
					r := g.as(t, key, "GET", path, "").ok(t)
					if strings.Contains(string(r.body), secretText) || !strings.Contains(string(r.body), id) {
						t.Errorf("%s: %.600s", path, r.body)
					}
				}
			}
		})
		attack(t, "isolation", "a key that asked for all organisations lists entries of others", func(t *testing.T) {
			if r := g.as(t, all, "GET", "/v1/logs?limit=100", "").ok(t); !strings.Contains(string(r.body), id) {
				t.Errorf("%.600s", r.body)
			}
		})
		attack(t, "isolation", "a search for a text finds nothing in the bodies of others", func(t *testing.T) {
			if r := g.as(t, all, "GET", "/v1/logs?text=plans+of+the+other", "").ok(t); strings.Contains(string(r.body), id) {
				t.Errorf("%.600s", r.body)
			}
		})
		attack(t, "isolation", "reading across organisations is audited on both sides", func(t *testing.T) {
			for name, token := range map[string]string{"the reader's": rootKey, "the other's": owner} {
				if got := g.audits(t, token); !strings.Contains(got, "read_across_organisations") {
					t.Errorf("%s audit log: %.600s", name, got)
				}
			}
		})
		attack(t, "isolation", "lists and tails across organisations are audited too", func(t *testing.T) {
			g.as(t, all, "GET", "/v1/logs?limit=1", "").ok(t)
			g.tails(t, all, func() {
				g.do(t, "POST", "/v1/chat/completions", chatBody, toCustomHost(rootKey, p, "x-gateway-trace-id", "mine")...).ok(t)
			})
			rows := g.audits(t, rootKey)
			for _, path := range []string{"/v1/logs", "/v1/logs/tail"} {
				if !strings.Contains(rows, `"uri":"`+path+`"`) {
					t.Errorf("no row of the audit log for %s: %.600s", path, rows)
				}
			}
		})
		for name, scopes := range map[string]string{"service": `["installation.read"]`, "service key with a colon": `["installation:read"]`} {
			attack(t, "escalation", "the API gives nobody the scope to read across: "+name, func(t *testing.T) {
				for _, key := range []string{rootKey, all} {
					g.as(t, key, "POST", "/v1/api-keys/workspace/service", `{"name":"k","workspace_id":"default","scopes":`+scopes+`}`).refused(t, http.StatusBadRequest, "scopes")
					g.as(t, key, "POST", "/v1/api-keys/organisation/service", `{"name":"k","scopes":`+scopes+`}`).refused(t, http.StatusBadRequest, "scopes")
				}
			})
		}
		attack(t, "escalation", "a key with every scope can't get the secret of one that reads across", func(t *testing.T) {
			across := g.as(t, listed, "GET", "/v1/auth/me", "").ok(t).text(t, "key_id")
			for _, c := range [][3]string{{"POST", "/rotate", ""}, {"PUT", "", `{"name":"x"}`}, {"DELETE", "", ""}} {
				g.as(t, first, c[0], "/v1/api-keys/"+across+c[1], c[2]).refused(t, http.StatusForbidden, "installation.read")
			}
		})
	})
}

// tails returns what is told to who watches the log while f runs, until the last
// request of it is reported.
func (g *gateway) tails(t *testing.T, key string, f func()) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", g.url+"/logs/tail", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("x-gateway-api-key", key)
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	lines.Scan() // that it watches
	f()
	var told strings.Builder
	for lines.Scan() {
		told.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), `"mine"`) {
			break
		}
	}
	return told.String()
}
