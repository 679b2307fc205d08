package conformance

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

func TestSumsShowOwnKeysOnly(t *testing.T) {
	h := populate(t)
	paths := []string{
		"/analytics/groups/api_key", "/logs/groups/api_key", "/analytics/groups/model", "/analytics/groups/ai-models", "/analytics/groups/outcome",
		"/analytics/groups/model?total_units_min=1", // of entries
	}
	for _, tt := range []struct {
		of, switches string
		want         map[string]float64
	}{
		{"S-460 S-461 S-528", ``, map[string]float64{"member": 5, "manager": 5, "admin": 5}},
		{"S-460 S-528", `"membersViewAllData":false`, map[string]float64{"member": 1, "manager": 5, "admin": 5}},
		{"S-461 S-528", `"managersViewAllData":false`, map[string]float64{"member": 5, "manager": 1, "admin": 5}},
	} {
		prove(t, tt.of, "analytics with {"+tt.switches+"}", func(t *testing.T) {
			h.set(t, tt.switches, "")
			for name, want := range tt.want {
				for _, path := range paths {
					total := 0.0
					for _, row := range h.groups(t, h.sessions[name], path) {
						n, _ := row["requests"].(float64)
						total += n
					}
					if total != want {
						t.Errorf("GET %s of the %s sums %v requests, want %v", path, name, total, want)
					}
				}
				for path, field := range map[string]string{"graphs/requests": "total", "summary/cache": "total_requests"} {
					got := h.as(t, h.sessions[name], "GET", "/v1/analytics/"+path, "").wantOK(t).object(t)
					if n := fmt.Sprint(at(got, "summary", field)); n != fmt.Sprint(want) {
						t.Errorf("GET /analytics/%s of the %s sums %s requests, want %v", path, name, n, want)
					}
				}
				if tokens := at(h.as(t, h.sessions[name], "GET", "/v1/analytics/graphs/tokens", "").wantOK(t).object(t), "summary", "total"); fmt.Sprint(tokens) != fmt.Sprint(9*want) {
					t.Errorf("the %s is shown %v tokens, want 9 of each of %v requests", name, tokens, want)
				}
			}
		})
	}
}

func TestEveryColumnHasItsOwnFigure(t *testing.T) {
	g := launchFor(t, "version: 1\n")
	const n = 200 // requests, the i-th with i prompt tokens, 2i completion tokens and a latency of 10i ms
	var list []string
	for i := 1; i <= n; i++ {
		status := http.StatusOK
		if i%10 == 0 {
			status = http.StatusTooManyRequests
		}
		list = append(list, fmt.Sprintf(`{"request":{"url":"https://api.openai.com/v1/chat/completions","body":{"model":"m"}},
			"response":{"status":%d,"response_time":%d,"body":{"model":"m-2026","usage":{"prompt_tokens":%d,"completion_tokens":%d}}}}`, status, 10*i, i, 2*i))
	}
	g.as(t, bootstrapKey, "POST", "/v1/logs", "["+strings.Join(list, ",")+"]").wantOK(t)
	h := &people{gateway: g}
	near := func(t *testing.T, name string, got any, want, within float64) {
		t.Helper()
		number, ok := got.(float64)
		if text, isNumber := got.(json.Number); isNumber {
			f, err := text.Float64()
			number, ok = f, err == nil
		}
		if !ok || math.Abs(number-want) > within*want {
			t.Errorf("%s = %v, want %v within %v", name, got, want, within*want)
		}
	}
	prove(t, "S-393 S-394", "totals, averages and percentiles are different figures", func(t *testing.T) {
		want := map[string]float64{
			"requests": n, "total_tokens": 60_300, "avg_tokens": 301.5, "avg_input_tokens": 100.5, "avg_output_tokens": 201,
			"avg_latency": 1005, "success_rate": 90, "error_count": 20, "cancelled_count": 0, "cache_hit_rate": 0,
		}
		list := slices.Concat(columns, []string{"cancelled_count"})
		for _, filter := range []string{"", "&total_units_min=1"} { // of rollups, and of entries
			for _, base := range []string{"/analytics/groups/", "/logs/groups/"} {
				rows := h.groups(t, bootstrapKey, base+"model?columns="+strings.Join(list, ",")+filter)
				if len(rows) != 1 {
					t.Fatalf("groups = %v, want one", rows)
				}
				for name, figure := range want {
					near(t, base+name, rows[0][name], figure, 1e-9)
				}
				near(t, "p95_latency", rows[0]["p95_latency"], 1900, 0.01)
				near(t, "p99_latency", rows[0]["p99_latency"], 1980, 0.01)
				first, last := fmt.Sprint(rows[0]["first_seen"]), fmt.Sprint(rows[0]["last_seen"])
				if first >= last { // they began 1990 ms apart
					t.Errorf("first_seen = %s, last_seen = %s, want the first earlier", first, last)
				}
			}
		}
	})
	prove(t, "S-393", "graphs have totals, averages and percentiles of their own", func(t *testing.T) {
		for path, want := range map[string]map[string]float64{
			"latency": {"avg": 1005, "p50": 1000, "p90": 1800, "p99": 1980}, "tokens": {"total": 60_300, "avg": 301.5}, "requests": {"total": n},
			"errors": {"total": 20}, "errors/rate": {"rate": 10}, "cache/hit-rate": {"total": 0, "rate": 0},
		} {
			got := g.as(t, bootstrapKey, "GET", "/v1/analytics/graphs/"+path, "").wantOK(t).object(t)
			for name, figure := range want {
				near(t, path+" "+name, at(got, "summary", name), figure, 0.01)
			}
		}
	})
}

func TestExportsAreOfOneWorkspaceAndPage(t *testing.T) {
	r := launchRoutes(t)
	file := func(t *testing.T, key, workspace, filter string) string {
		t.Helper()
		path := fmt.Sprintf("/v1/logs/exports/%s", r.export(t, key, workspace, filter).wantOK(t).object(t)["id"])
		r.as(t, key, "POST", path+"/start", "").wantOK(t)
		waittest.Until(t, "the export is made", func() bool { return r.as(t, key, "GET", path, "").wantOK(t).object(t)["status"] == "success" })
		link := fmt.Sprint(r.as(t, key, "GET", path+"/download", "").wantOK(t).object(t)["signed_url"])
		var names []string
		for line := range strings.Lines(string(r.do(t, "GET", strings.TrimPrefix(link, r.gateway.root), "").wantOK(t).body)) {
			name := "unknown"
			for of, id := range r.ids {
				if strings.Contains(line, id) {
					name = of
				}
			}
			names = append(names, name)
		}
		return strings.Join(names, " ")
	}
	prove(t, "S-541", "an export holds its workspace only", func(t *testing.T) {
		for _, tt := range []struct{ key, workspace, want string }{
			{bootstrapKey, r.slug, "team"}, {bootstrapKey, r.team, "team"}, {bootstrapKey, "default", "config direct"},
			{r.teamKey, "", "team"}, {r.ownKey, "", "config direct"}, {r.ownKey, "default", "config direct"},
		} {
			if got := file(t, tt.key, tt.workspace, `"status_code":[200]`); got != tt.want {
				t.Errorf("an export of the workspace %q holds %q, want %q", tt.workspace, got, tt.want)
			}
		}
	})
	prove(t, "S-541", "an export holds its page only", func(t *testing.T) {
		for filter, want := range map[string]string{
			`"page_size":1`: "config", `"page_size":1,"current_page":0`: "config", `"page_size":1,"current_page":1`: "direct",
			`"page_size":1,"current_page":2`: "", `"page_size":2`: "config direct", `"page_size":2,"current_page":1`: "", `"page_size":1,"target":"config"`: "direct",
			`"page_size":1,"provider":["@first","@groq"],"upstream_model":"m-1"`: "direct", `"response_model":"real-two-2026"`: "config",
		} {
			if got := file(t, bootstrapKey, "default", filter); got != want {
				t.Errorf("an export with {%s} holds %q, want %q", filter, got, want)
			}
		}
	})
}

func TestScopeOfListingReadsNoTrace(t *testing.T) {
	h := populate(t)
	lists := h.made(t, "/v1/api-keys/workspace/service", `{"name":"l","workspace_id":"default","scopes":["completions.write","logs.list"]}`)
	id := h.ask(t, lists)
	prove(t, "S-437", "logs.list lists entries and traces and reads neither", func(t *testing.T) {
		for _, path := range []string{"/v1/logs", "/v1/logs/traces", "/v1/logs/groups/model", "/v1/logs/traces?trace_id=" + id} {
			if rows := h.as(t, lists, "GET", path, "").items(t, "object"); len(rows) == 0 && path != "/v1/logs" {
				t.Errorf("GET %s shows nothing", path)
			}
		}
		for _, path := range []string{"/v1/logs/traces/" + id, "/v1/logs/" + id, "/v1/explain/" + id, "/v1/logs?text=hello", "/v1/feedback", "/v1/analytics/groups/model"} {
			got := h.as(t, lists, "GET", path, "")
			if got.status != http.StatusForbidden || strings.Contains(string(got.body), `"tree"`) {
				t.Errorf("GET %s with logs.list only: status %d: %.200s; want 403", path, got.status, got.body)
			}
			if got := h.as(t, h.keys["service"], "GET", path, ""); got.status != http.StatusOK && !strings.Contains(path, "analytics") {
				t.Errorf("GET %s with logs.view: status %d: %.200s; want 200", path, got.status, got.body)
			}
		}
	})
}
