package security

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/waittest"
)

// canary is in everything that a tenant's requests of [tenants.work] name.
func (n *tenant) canary() string { return "canary-" + n.name }

// commonTrace is the trace that every tenant uses.
const commonTrace = "trace-of-everybody"

// work is what a tenant leaves in the log: the ids of its request, of its
// feedback and of its export.
type work struct{ request, feedback, export string }

// leavesWork sends a request in the common trace, rates it and exports it.
func (w *tenants) leavesWork(t *testing.T, n *tenant) (out work) {
	t.Helper()
	body := strings.Replace(chatBody, "gpt-4o", n.canary(), 1)
	out.request = w.as(t, n.key, "POST", "/v1/chat/completions", body, "x-gateway-config", "cfg-"+n.name,
		"x-gateway-trace-id", commonTrace, "x-gateway-span-id", n.canary(), "x-gateway-metadata", fmt.Sprintf(`{"user":%q}`, n.canary())).ok(t).header.Get("x-gateway-request-id")
	waittest.Until(t, "the request is in the log", func() bool { return w.as(t, n.key, "GET", "/v1/logs/"+out.request, "").status == http.StatusOK })
	value := map[bool]int{true: 10, false: -10}[n.name == "alder"]
	ids, _ := w.as(t, n.key, "POST", "/v1/feedback", fmt.Sprintf(`{"trace_id":%q,"value":%d,"metadata":{"note":%q}}`, commonTrace, value, n.canary())).ok(t).object(t)["feedback_ids"].([]any)
	out.feedback = fmt.Sprint(ids[0])
	out.export = w.export(t, n, "")
	return out
}

// export drafts an export of the tenant's log with a further filter.
func (w *tenants) export(t *testing.T, n *tenant, filter string) (id string) {
	t.Helper()
	return w.create(t, n.key, "/v1/logs/exports", n.exportBody(filter), "id")
}

func (n *tenant) exportBody(filter string) string {
	now := time.Now().UTC()
	return fmt.Sprintf(`{"workspace_id":%q,"requested_data":["id","trace_id","metadata"],"filters":{"time_of_generation_min":%q,"time_of_generation_max":%q%s}}`,
		n.workspace, now.Add(-time.Hour).Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339), filter)
}

// rows makes an export and returns its file.
func (w *tenants) rows(t *testing.T, n *tenant, export string) string {
	t.Helper()
	path := "/v1/logs/exports/" + export
	w.as(t, n.key, "POST", path+"/start", "").ok(t)
	waittest.Until(t, "the export is made", func() bool { return w.as(t, n.key, "GET", path, "").ok(t).text(t, "status") == "success" })
	link := w.as(t, n.key, "GET", path+"/download", "").ok(t).text(t, "signed_url")
	return string(w.do(t, "GET", strings.TrimPrefix(link, w.root), "").ok(t).body)
}

func TestLogsNamedByOthersIDsShowNothing(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, o options) {
		o.env = []string{"DATA_EXPORTS_ENABLED=ON"}
		w := newTenants(t, o, nil)
		done := map[*tenant]work{}
		for _, n := range w.all {
			done[n] = w.leavesWork(t, n)
		}
		for _, n := range w.all {
			other := w.all[0]
			if n == other {
				other = w.all[1]
			}
			theirs, keyID, workspaceID := done[other], w.as(t, other.key, "GET", "/v1/auth/me", "").ok(t).text(t, "key_id"), w.as(t, other.key, "GET", "/v1/auth/me", "").ok(t).text(t, "workspace_id")
			if keyID == "" || workspaceID == "" {
				t.Fatalf("auth/me of %s names key %q and workspace %q", other.name, keyID, workspaceID)
			}
			holds := func(text string) bool {
				return strings.Contains(text, theirs.request) || strings.Contains(text, other.canary()) || strings.Contains(text, theirs.feedback)
			}
			for _, query := range []string{
				"/v1/logs?trace_id=" + commonTrace, "/v1/logs?api_key=" + keyID, "/v1/logs?workspace=" + workspaceID, "/v1/logs?workspace=" + other.workspace + "&trace_id=" + commonTrace,
				"/v1/logs?config=cfg-" + other.name, "/v1/logs?model=" + other.canary(), "/v1/logs?metadata.user=" + other.canary(), "/v1/logs/traces", "/v1/logs/traces/" + commonTrace,
				"/v1/logs/traces?trace_id=" + commonTrace, "/v1/logs/traces/" + theirs.request, "/v1/feedback", "/v1/feedback?trace_id=" + commonTrace,
				"/v1/logs/exports", "/v1/logs/exports?workspace_id=" + workspaceID, "/v1/explain/" + theirs.request,
			} {
				attack(t, "isolation", n.name+" reads "+strings.NewReplacer(keyID, "KEY", workspaceID, "WORKSPACE", theirs.request, "ID").Replace(query)+" of "+other.name, func(t *testing.T) {
					if r := w.as(t, n.key, "GET", query, ""); r.status != http.StatusNotFound && (r.status != http.StatusOK || holds(string(r.body)) || strings.Contains(string(r.body), theirs.export)) {
						t.Errorf("%d %.600s", r.status, r.body)
					}
				})
			}
			attack(t, "isolation", n.name+" finds its own in the common trace, with its own rating: "+other.name, func(t *testing.T) {
				for query, want := range map[string]bool{"": true, "&weighted_feedback_min=5": n.name == "alder", "&weighted_feedback_max=-5": n.name != "alder"} {
					if r := w.as(t, n.key, "GET", "/v1/logs?trace_id="+commonTrace+query, "").ok(t); strings.Contains(string(r.body), done[n].request) != want || holds(string(r.body)) {
						t.Errorf("%q finds the request is %t: %.600s", query, !want, r.body)
					}
				}
			})
			attack(t, "isolation", n.name+" uses an export or feedback of "+other.name, func(t *testing.T) {
				path := "/v1/logs/exports/" + theirs.export
				for _, c := range [][3]string{{"GET", path, ""}, {"POST", path + "/start", ""}, {"POST", path + "/cancel", ""}, {"GET", path + "/download", ""}, {"GET", path + "?workspace_id=" + url.QueryEscape(workspaceID), ""},
					{"PUT", path, `{"filters":{"time_of_generation_min":"2026-01-01T00:00:00Z","time_of_generation_max":"2026-02-01T00:00:00Z"}}`}, {"PUT", "/v1/feedback/" + theirs.feedback, `{"value":1}`}} {
					if r := w.as(t, n.key, c[0], c[1], c[2]); r.status != http.StatusNotFound {
						t.Errorf("%s %s: %d %.300s", c[0], c[1], r.status, r.body)
					}
				}
			})
			attack(t, "isolation", n.name+" exports rows of "+other.name+" by its ids", func(t *testing.T) {
				filters := []string{`"trace_id":"` + commonTrace + `"`, `"metadata":{"user":"` + other.canary() + `"}`}
				if workspace := `"workspace_slug":"` + other.workspace + `"`; other.workspace == n.workspace { // their own, which has the same slug
					filters = append(filters, workspace)
				} else {
					w.as(t, n.key, "POST", "/v1/logs/exports", n.exportBody(","+workspace)).refused(t, http.StatusNotFound, "workspace")
				}
				for _, filter := range []string{`"api_key_ids":["` + keyID + `"]`, `"configs":["cfg-` + other.name + `"]`} {
					w.as(t, n.key, "POST", "/v1/logs/exports", n.exportBody(","+filter)).refused(t, http.StatusNotFound, "not found")
				}
				for _, filter := range filters {
					text := w.rows(t, n, w.export(t, n, ","+filter))
					if holds(text) || strings.Contains(filter, "trace_id") && !strings.Contains(text, done[n].request) {
						t.Errorf("%s: %.600s", filter, text)
					}
				}
			})
		}
	})
}

// Metrics by workspace name it by its slug. Only the admin address has them.
func TestMetricsAndHeadersNameNoTenant(t *testing.T) {
	t.Parallel()
	w := newTenants(t, options{}, nil)
	var ids []string
	for i, n := range w.all {
		me := w.as(t, n.key, "GET", "/v1/auth/me", "").ok(t)
		body := strings.Replace(chatBody, "gpt-4o", n.canary(), 1)
		for _, header := range [][]string{
			{"x-gateway-config", "cfg-" + n.name}, {"x-gateway-provider", "@only-" + n.name}, {"x-gateway-provider", n.canary()}, {"x-gateway-config", n.canary()},
			{"x-gateway-provider", "openai-compatible", "x-gateway-custom-host", w.provider.url, "Authorization", "Bearer " + n.canary()},
		} {
			r := w.as(t, n.key, "POST", "/v1/chat/completions", body, append(header, "x-gateway-trace-id", n.canary(), "x-gateway-metadata", `{"k":"`+n.canary()+`"}`)...)
			attack(t, "isolation", fmt.Sprintf("headers of a response to %s with %s", n.name, header[0]), func(t *testing.T) {
				text := fmt.Sprint(r.header)
				for k, other := range w.all {
					if k != i && strings.Contains(text, other.name) {
						t.Errorf("names %s: %s", other.name, text)
					}
				}
				for _, id := range ids {
					if strings.Contains(text, id) {
						t.Errorf("names %s of an earlier tenant: %s", id, text)
					}
				}
			})
		}
		ids = append(ids, me.text(t, "key_id"), me.text(t, "workspace_id"))
	}
	attack(t, "isolation", "metrics by tenant", func(t *testing.T) {
		waittest.Until(t, "the requests are counted", func() bool { return strings.Contains(w.metrics(t), "modelgate_attempts_total{") })
		text := w.metrics(t)
		for _, id := range append(ids, rootKey) {
			if strings.Contains(text, id) {
				t.Errorf("the metrics contain %s", id)
			}
		}
		for line := range strings.Lines(text) {
			before, after, _ := strings.Cut(line, `model="`) // the one word of clients, of which there is a limited number
			_, after, _ = strings.Cut(after, `"`)
			if strings.Contains(before+after, "canary") {
				t.Errorf("the metrics contain a client's word: %s", line)
			}
			if strings.Contains(line, `workspace="`) {
				continue // counted by workspace, for the operator
			}
			for _, n := range w.all {
				if strings.Contains(line, n.name) {
					t.Errorf("metrics that are not by workspace name %s: %s", n.name, line)
				}
			}
		}
	})
	attack(t, "isolation", "metrics at the address of the API", func(t *testing.T) {
		for _, n := range w.all {
			for _, path := range []string{"/metrics", "/v1/metrics", "/v1/../metrics"} {
				if r := w.as(t, n.key, "GET", path, ""); strings.Contains(string(r.body), "modelgate_") {
					t.Errorf("%s: %d %.300s", path, r.status, r.body)
				}
			}
		}
	})
}
