package conformance

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

func TestEveryRequestIsRecorded(t *testing.T) {
	g, _ := start(t)
	p := newProvider(t, nil)
	broken := newProvider(t, says(503, "text/plain", "down"))
	dead, srv := startProvider(nil)
	srv.Close()
	for _, tt := range []struct {
		name, method, target, body string
		header                     []string
		status                     float64
		source                     string
	}{
		{"a pass-through call", "DELETE", "/v1/things/1?a=1", "", to(p), 200, ""},
		{"a chat completion", "POST", modelRoutes[0].path, modelRoutes[0].body, to(p), 200, ""},
		{"a provider's error", "GET", "/v1/things/2", "", to(broken), 503, "provider"},
		{"a refused body", "POST", modelRoutes[0].path, `{}`, to(p), 400, "gateway"},
		{"a refused method", "PATCH", "/v1/things/3", "", to(p), 405, "gateway"},
		{"a request without a key", "POST", "/v1/things/4", "", to(p)[2:], 401, "gateway"},
		{"a provider that is not there", "POST", modelRoutes[0].path, modelRoutes[0].body, to(dead), 502, "gateway"},
		{"a refused host", "GET", "/v1/things/5", "", to(&provider{url: "http://10.0.0.1"}), 400, "gateway"},
	} {
		prove(t, "S-022", tt.name, func(t *testing.T) {
			g := g
			if tt.status == 401 { // of requests without a key the log has a sample, and the shared gateway had many
				g = launchFor(t, "version: 1\n")
			}
			got := g.do(t, tt.method, tt.target, tt.body, tt.header...)
			if float64(got.status) != tt.status {
				t.Fatalf("status %d, want %v: %.200s", got.status, tt.status, got.body)
			}
			path, _, _ := strings.Cut(tt.target, "?")
			e := g.entry(t, got)
			if e["method"] != tt.method || e["path"] != path || fmt.Sprint(e["status"]) != fmt.Sprint(tt.status) {
				t.Errorf("recorded %v %v %v, want %s %s %v", e["method"], e["path"], e["status"], tt.method, path, tt.status)
			}
			source, _ := at(e, "error", "source").(string)
			if source != tt.source {
				t.Errorf("recorded error %v, want one of source %q", e["error"], tt.source)
			}
		})
	}
	prove(t, "S-022", "tokens, times and bytes are in the entry", func(t *testing.T) {
		got := g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, to(p)...).wantOK(t)
		e := g.entry(t, got)
		if fmt.Sprint(at(e, "usage", "total_tokens")) != "9" || e["provider"] != "openai-compatible" || e["model"] != "m-1" ||
			fmt.Sprint(e["request_bytes"]) != strconv.Itoa(len(modelRoutes[0].body)) || fmt.Sprint(e["response_bytes"]) != strconv.Itoa(len(got.body)) {
			t.Errorf("entry = %v", e)
		}
	})
	for _, path := range []string{
		"/analytics/groups/provider", "/admin/workspaces", "/prompts", "/integrations",
		"/policies/rate-limits", "/policies/usage-limits", "/deployments", "/guardrails", "/mcp-integrations", "/mcp-servers", "/mcp-bundles",
	} {
		prove(t, "S-043", path+" is listed", func(t *testing.T) {
			list := g.do(t, "GET", "/v1"+path, "", "x-gateway-api-key", bootstrapKey).wantOK(t).object(t)
			if _, ok := list["data"].([]any); !ok || list["object"] != "list" {
				t.Errorf("%s = %.300v, want a list", path, list)
			}
		})
	}
	prove(t, "S-043", "the log is listed", func(t *testing.T) {
		list := g.do(t, "GET", "/v1/logs?limit=2", "", "x-gateway-api-key", bootstrapKey).wantOK(t).object(t)
		if data, _ := list["data"].([]any); len(data) != 2 || list["object"] != "list" || list["has_more"] != true {
			t.Errorf("log = %.300v, want a list of two with more behind", list)
		}
	})
}

var counters = regexp.MustCompile(`(?m)^(\w+)\{[^}]*\} (\S+)$`)

// counted returns how many requests the metrics have seen.
func (g *gateway) counted(t *testing.T, label string) float64 {
	t.Helper()
	return g.metric(t, "modelgate_requests_total", label)
}

// metric returns the sum of a counter over the series with the label.
func (g *gateway) metric(t *testing.T, name, label string) float64 {
	t.Helper()
	res, err := client.Get(g.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("GET /metrics: status %d, %v", res.StatusCode, err)
	}
	sum := 0.0
	for _, m := range counters.FindAllStringSubmatch(string(text), -1) {
		if n, err := strconv.ParseFloat(m[2], 64); err == nil && m[1] == name && strings.Contains(m[0], label) {
			sum += n
		}
	}
	return sum
}

func TestEveryRequestIsCounted(t *testing.T) {
	g, _ := start(t)
	p := newProvider(t, nil)
	broken := newProvider(t, says(503, "text/plain", "down"))
	for _, tt := range []struct {
		name   string
		call   func(t *testing.T) response
		status string
	}{
		{"a pass-through call", func(t *testing.T) response { return g.do(t, "GET", "/v1/things", "", to(p)...) }, "200"},
		{"a chat completion", func(t *testing.T) response {
			return g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, to(p)...)
		}, "200"},
		{"a provider's error", func(t *testing.T) response { return g.do(t, "GET", "/v1/things", "", to(broken)...) }, "503"},
		{"a refusal", func(t *testing.T) response { return g.do(t, "POST", modelRoutes[0].path, `{}`, to(p)...) }, "400"},
		{"a request without a key", func(t *testing.T) response { return g.do(t, "GET", "/v1/things", "") }, "401"},
	} {
		prove(t, "S-023", tt.name, func(t *testing.T) {
			label := `status="` + tt.status + `"`
			settled, rests := -1.0, 0
			waittest.Until(t, "the metrics rest", func() bool {
				if now := g.counted(t, ""); now != settled {
					settled, rests = now, 0
				}
				rests++
				return rests == 5
			})
			before := g.counted(t, label)
			tt.call(t)
			waittest.Until(t, "the count of "+label+" has risen by one", func() bool { return g.counted(t, label) == before+1 })
			if n := g.counted(t, ""); n != settled+1 {
				t.Errorf("all counts = %v, want %v", n, settled+1)
			}
		})
	}
}
