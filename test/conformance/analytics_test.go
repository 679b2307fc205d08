package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

var (
	groupings = []string{"ai_service", "model", "status_code", "api_key", "config", "workspace", "provider", "prompt"}
	columns   = []string{
		"cost", "total_tokens", "avg_tokens", "avg_input_tokens", "avg_output_tokens", "avg_latency", "p95_latency", "p99_latency",
		"success_rate", "error_count", "cache_hit_rate", "last_seen", "first_seen",
	}
)

// groups reads the groups of a path below /v1.
func (h *people) groups(t *testing.T, token, path string) []map[string]any {
	t.Helper()
	var out struct{ Data []map[string]any }
	got := h.do(t, "GET", "/v1"+path, "", "x-gateway-api-key", token).wantOK(t)
	if err := json.Unmarshal(got.body, &out); err != nil {
		t.Fatal(err)
	}
	return out.Data
}

func TestRequestsAreSummedByGroups(t *testing.T) {
	h := populate(t)
	admin := h.sessions["admin"]
	for _, base := range []string{"/analytics/groups/", "/logs/groups/"} {
		prove(t, "S-391 S-392 S-395", "GET "+base+"{groupBy} counts requests by each of the eight, and nothing else unless asked", func(t *testing.T) {
			covers(t, "S-520")
			for _, g := range groupings {
				rows := h.groups(t, admin, base+g)
				if len(rows) == 0 || len(rows[0]) != 3 || rows[0]["requests"] == nil || rows[0]["object"] != "analytics-group" {
					t.Errorf("by %s: %v, want groups of a value and requests", g, rows)
				}
			}
			if got := h.do(t, "GET", "/v1"+base+"colour", "", "x-gateway-api-key", admin); got.status != http.StatusBadRequest {
				t.Errorf("by colour: status %d, want 400", got.status)
			}
		})
		prove(t, "S-393 S-394", "GET "+base+"api_key tells each column, alone and with others", func(t *testing.T) {
			for _, list := range append([]string{strings.Join(columns, ",")}, columns...) {
				for _, row := range h.groups(t, admin, base+"api_key?columns="+list) {
					h.compare(t, row, strings.Split(list, ","))
				}
			}
			if got := h.do(t, "GET", "/v1"+base+"model?columns=cost,colour", "", "x-gateway-api-key", admin); got.status != http.StatusBadRequest {
				t.Errorf("columns=cost,colour: status %d, want 400", got.status)
			}
		})
	}
}

// compare compares the columns of the group of one key, which has sent one
// request, with that request's entry.
func (h *people) compare(t *testing.T, row map[string]any, list []string) {
	t.Helper()
	id := ""
	for _, request := range h.requests {
		e := h.do(t, "GET", "/v1/logs/"+request, "", "x-gateway-api-key", bootstrapKey).wantOK(t).object(t)
		if at(e, "api_key", "id") != row["api_key"] {
			continue
		}
		id = request
		number := func(path ...any) any {
			if n, ok := at(e, path...).(json.Number); ok {
				f, _ := n.Float64()
				return f
			}
			return nil
		}
		want := map[string]any{
			"cost": number("cost"), "total_tokens": number("usage", "total_tokens"), "avg_tokens": number("usage", "total_tokens"),
			"avg_input_tokens": number("usage", "prompt_tokens"), "avg_output_tokens": number("usage", "completion_tokens"),
			"avg_latency": number("timing", "total_ms"), "p95_latency": number("timing", "total_ms"), "p99_latency": number("timing", "total_ms"),
			"success_rate": 100.0, "error_count": 0.0, "cache_hit_rate": 0.0,
		}
		for _, c := range list {
			if exact, ok := want[c].(float64); ok {
				if got, _ := row[c].(float64); math.Abs(got-exact) > 0.011*exact+0.01 { // percentiles are within 1 %
					t.Errorf("%s = %v, and the entry says %v", c, row[c], exact)
				}
			} else if seen, _ := row[c].(string); strings.HasSuffix(c, "_seen") && seen[:16] != fmt.Sprint(e["created_at"])[:16] || want[c] == nil && !strings.HasSuffix(c, "_seen") && row[c] != nil {
				t.Errorf("%s = %v, and the entry is of %v", c, row[c], e["created_at"])
			}
		}
	}
	if id == "" || len(row) != len(list)+3 {
		t.Errorf("%v: want the group of a key that has sent a request, with %v", row, list)
	}
}

func TestRequestsAreDistinguishedByTheirConfig(t *testing.T) {
	p := fleet(t, withStatuses(500), nil)
	g := launchFor(t, saved(p), "MODELGATE_TRUSTED_HOSTS=127.0.0.1", "MODELGATE_MASTER_KEY=the master key of a conformance test")
	h := &people{gateway: g}
	id, _ := at(h.root(t, "POST", "/v1/configs", `{"name":"Stored","config":{"provider":"@second"},"workspace_id":"default"}`), "data", "id").(string)
	ask := func(config string) string {
		got := g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, "x-gateway-api-key", bootstrapKey, "x-gateway-config", config)
		g.entry(t, got.wantOK(t))
		return got.header.Get("x-gateway-request-id")
	}
	waittest.Until(t, "the gateway knows the config", func() bool {
		return g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, "x-gateway-api-key", bootstrapKey, "x-gateway-config", id).status == http.StatusOK
	})
	prove(t, "S-392", "requests are grouped and filtered by the saved config that routed them", func(t *testing.T) {
		main := []string{ask("pc-main"), ask("pc-main")}
		ask(leaf(p[1]))
		for _, base := range []string{"/analytics", "/logs"} {
			got := make(map[any]any)
			for _, row := range h.groups(t, bootstrapKey, base+"/groups/config?status_code=200") {
				got[row["config"]] = row["requests"]
			}
			if want := map[any]any{"pc-main": 2.0, id: 1.0, nil: 1.0}; !maps.Equal(got, want) {
				t.Errorf("GET %s/groups/config = %v, want %v", base, got, want)
			}
			if rows := h.groups(t, bootstrapKey, base+"/groups/model?configs=pc-main"); len(rows) != 1 || rows[0]["requests"] != 2.0 {
				t.Errorf("GET %s/groups/model?configs=pc-main = %v, want 2 requests", base, rows)
			}
		}
		rescued := h.do(t, "GET", "/v1/analytics/graphs/requests/rescued?configs=pc-main", "", "x-gateway-api-key", bootstrapKey).wantOK(t).object(t)
		if n := fmt.Sprint(at(rescued, "summary", "fallback")); n != "2" {
			t.Errorf("%s of two requests are told to have fallen back", n)
		}
		rows := h.groups(t, bootstrapKey, "/logs?config=pc-main")
		if len(rows) != 2 || rows[0]["id"] != main[1] || rows[1]["id"] != main[0] {
			t.Errorf("the log by config = %v, want %q", rows, main)
		}
	})
}

func TestAnalyticsAreFilteredByMetadata(t *testing.T) {
	h := populate(t)
	prove(t, "S-038 S-440", "a filter by metadata returns what matches alone, in the log and the analytics", func(t *testing.T) {
		chat := modelRoutes[0]
		for i, team := range []string{"red", "red", "blue"} {
			got := h.do(t, "POST", chat.path, chat.body, "x-gateway-api-key", h.keys["service"], "x-gateway-provider", "openai-compatible",
				"x-gateway-custom-host", h.provider.url, "Authorization", "Bearer "+credential, "x-gateway-metadata", fmt.Sprintf(`{"team":%q,"run":"%d"}`, team, i))
			h.entry(t, got.wantOK(t))
		}
		for team, want := range map[string]float64{"red": 2, "blue": 1} {
			for _, base := range []string{"/analytics", "/logs"} {
				rows := h.groups(t, bootstrapKey, base+"/groups/model?metadata="+url.QueryEscape(`{"team":"`+team+`"}`))
				if len(rows) != 1 || rows[0]["requests"] != want {
					t.Errorf("%s of team %s: %v, want %v requests", base, team, rows, want)
				}
			}
			graph := h.as(t, bootstrapKey, "GET", "/v1/analytics/graphs/requests?metadata="+url.QueryEscape(`{"team":"`+team+`"}`), "").wantOK(t).object(t)
			if n := fmt.Sprint(at(graph, "summary", "total")); n != fmt.Sprint(want) {
				t.Errorf("the graph of team %s has %s requests, want %v", team, n, want)
			}
			if rows := h.groups(t, bootstrapKey, "/logs?metadata.team="+team); len(rows) != int(want) {
				t.Errorf("the log of team %s has %d entries, want %v", team, len(rows), want)
			}
		}
		for run, want := range map[string]int{"1": 1, "2": 0} {
			if rows := h.groups(t, bootstrapKey, "/logs?metadata.team=red&metadata.run="+run); len(rows) != want {
				t.Errorf("the log of team red in run %s has %d entries, want %d", run, len(rows), want)
			}
			rows := h.groups(t, bootstrapKey, "/analytics/groups/model?metadata="+url.QueryEscape(`{"team":"red","run":"`+run+`"}`))
			if len(rows) != want || want == 1 && rows[0]["requests"] != 1.0 {
				t.Errorf("analytics of team red in run %s: %v, want %d requests", run, rows, want)
			}
		}
	})
}

func TestAnalyticsAreShownAsTheOrganisationSays(t *testing.T) {
	h := populate(t)
	paths := []string{"/v1/analytics/groups/model", "/v1/logs/groups/model", "/v1/analytics/graphs/requests", "/v1/analytics/graphs/feedbacks", "/v1/analytics/summary/cache"}
	for _, tt := range []struct{ of, switches, refused string }{
		{"S-466 S-467", "", ""},
		{"S-466", `"membersViewAnalytics":false`, "member"},
		{"S-467", `"managersViewAnalytics":false`, "manager"},
		{"S-466 S-467 S-468", `"membersViewAnalytics":false,"managersViewAnalytics":false`, "member manager"},
	} {
		prove(t, tt.of, "analytics with {"+tt.switches+"}", func(t *testing.T) {
			covers(t, "S-537")
			h.set(t, tt.switches, "")
			for _, name := range []string{"member", "manager", "admin"} {
				want := http.StatusOK
				if slices.Contains(strings.Fields(tt.refused), name) {
					want = http.StatusForbidden
				}
				for _, path := range paths {
					if got := h.do(t, "GET", path, "", "x-gateway-api-key", h.sessions[name]); got.status != want {
						t.Errorf("GET %s of the %s: status %d, want %d", path, name, got.status, want)
					}
				}
			}
		})
	}
	prove(t, "S-396", "sums of an archived workspace are shown to admins of the organisation alone", func(t *testing.T) {
		covers(t, "S-521")
		h.set(t, "", "")
		second, _ := h.root(t, "POST", "/v1/admin/workspaces", `{"name":"second","users":["member@example.com","manager@example.com"]}`)["id"].(string)
		key := h.made(t, "/v1/api-keys/workspace/service", `{"name":"s","workspace_id":"`+second+`","scopes":["completions.write"]}`)
		h.as(t, key, "POST", "/v1/feedback", `{"trace_id":"`+h.ask(t, key)+`","value":5}`).wantOK(t)
		h.root(t, "DELETE", "/v1/admin/workspaces/"+second, `{"name":"second","force_delete":true}`)
		named := func(rows []map[string]any) bool {
			return slices.ContainsFunc(rows, func(row map[string]any) bool { return row["workspace"] == second })
		}
		if !named(h.groups(t, h.sessions["admin"], "/analytics/groups/workspace")) {
			t.Error("the admin is not shown the archived workspace")
		}
		service := h.made(t, "/v1/api-keys/organisation/service", `{"name":"o","scopes":["analytics.view"]}`)
		h.eventually(t, service)
		rows := h.groups(t, service, "/analytics/groups/workspace")
		if len(rows) == 0 || named(rows) {
			t.Errorf("a service key of the organisation is shown %v, want only the other workspaces", rows)
		}
		for path, want := range map[string][2]int{"requests": {6, 5}, "feedbacks": {1, 0}} { // of the admin, and of the key
			for i, token := range []string{h.sessions["admin"], service} {
				graph := h.as(t, token, "GET", "/v1/analytics/graphs/"+path, "").wantOK(t).object(t)
				if n := fmt.Sprint(at(graph, "summary", "total")); n != fmt.Sprint(want[i]) {
					t.Errorf("the graph of %s has %s for %s, want %d", path, n, []string{"the admin", "a service key of the organisation"}[i], want[i])
				}
			}
		}
		for _, name := range []string{"member", "manager"} {
			if named(h.groups(t, h.sessions[name], "/analytics/groups/workspace?workspace_id=default")) {
				t.Errorf("the %s is shown the archived workspace", name)
			}
			if got := h.do(t, "GET", "/v1/analytics/graphs/requests?workspace_id="+second, "", "x-gateway-api-key", h.sessions[name]); got.status != http.StatusNotFound {
				t.Errorf("the %s asks for the archived workspace: status %d, want 404", name, got.status)
			}
		}
	})
}
