package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

// scrape returns the metrics of a gateway.
func scrape(t *testing.T, g *gatewaytest.Gateway) string {
	t.Helper()
	res, err := http.Get(g.AdminURL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("status %d, %v: %.300s", res.StatusCode, err, text)
	}
	return string(text)
}

// everyMetric returns the metrics of gateways with everything turned on that has metrics, one of
// them with TLS.
func everyMetric(t *testing.T) []string {
	t.Helper()
	files := t.TempDir()
	ca := storetest.NewAuthority(t, "authority")
	certificate, key := ca.Issue(t, "127.0.0.1")
	for name, text := range map[string]string{"tls.pem": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(files, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	secure := gatewaytest.New(t, gatewaytest.Options{Settings: "listener: {tls: {certificate: " + filepath.Join(files, "tls.pem") + ", key: " + filepath.Join(files, "tls.key") + "}}\n"})

	g := gatewaytest.New(t, gatewaytest.Options{MasterKey: strings.Repeat("m", 32), Database: storetest.Postgres(t), Settings: priced + `
cache: {store: sqlite}
telemetry: {endpoint: "http://127.0.0.1:1"}
`})
	mustDo(t, g, "PUT", "/admin/workspaces/default", `{"usage_limits":[{"credit_limit":50,"periodic_reset":"monthly"},{"type":"tokens","credit_limit":5000}]}`)
	mustDo(t, g, "POST", "/mcp-integrations", `{"name":"notes","slug":"notes","transport":"http","auth_type":"none","url":"`+g.Upstream+`"}`)
	mustDo(t, g, "PUT", "/mcp-integrations/notes/workspaces", `{"global_workspace_access":{"enabled":true}}`)
	mustDo(t, g, "POST", "/mcp-servers", `{"name":"Notes","slug":"notes","mcp_integration_id":"notes","workspace_id":"default"}`)
	mustDo(t, g, "POST", "/webhook_endpoints", `{"name":"hook","url":"`+g.Upstream+`","event_types":["batch.completed"]}`)
	g.Post("/chat/completions", chat)
	g.Post("/chat/completions", strings.Replace(chat, "sim-1", "sim-1+status=503", 1))
	g.Post("/chat/completions", "{")
	var text string
	waittest.Until(t, "a budget, a tool server, a job that has ended and requests of models", func() bool {
		text = scrape(t, g)
		for _, part := range []string{`modelgate_workspace_budget_tokens{`, `modelgate_tool_server_broken{`, `modelgate_model_first_token_seconds_count{`,
			`modelgate_jobs{`, `modelgate_jobs_oldest_due_seconds{`, `modelgate_job_duration_seconds_count{`, `modelgate_price_unknown_total{`} {
			if !strings.Contains(text, part) {
				return false
			}
		}
		return true
	})
	return []string{text, scrape(t, secure)}
}

// metric is the name of a metric in a query, with the labels that it chooses by.
var (
	metric = regexp.MustCompile(`\b((?:modelgate|process|go)_[a-z_]+)(\{[^}]*\})?`)
	chosen = regexp.MustCompile(`([a-z]+)[!=]~?"`)
)

// TestTheDashboardAndTheAlertsReadWhatTheGatewayHas looks for the metrics of every query, and the
// labels it chooses by, at running gateways.
func TestTheDashboardAndTheAlertsReadWhatTheGatewayHas(t *testing.T) {
	t.Parallel()
	labels := map[string]string{} // of one series each
	for line := range strings.Lines(strings.Join(everyMetric(t), "")) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), "{")
		name, _, _ = strings.Cut(name, " ")
		labels[name] += rest
	}
	found := 0
	for place, list := range map[string][]string{"the dashboard": dashboardQueries(t), "the alerts": alertQueries(t)} {
		for _, query := range list {
			for _, m := range metric.FindAllStringSubmatch(query, -1) {
				found++
				series, known := labels[m[1]]
				if !known {
					t.Errorf("%s: the gateway has no metric %s", place, m[1])
				}
				for _, l := range chosen.FindAllStringSubmatch(m[2], -1) {
					if known && l[1] != "instance" && !strings.Contains(series, l[1]+"=") {
						t.Errorf("%s: %s has no label %s", place, m[1], l[1])
					}
				}
			}
		}
	}
	if found < 80 {
		t.Errorf("%d metrics; were the queries read?", found)
	}
}

func dashboardQueries(t *testing.T) (list []string) {
	t.Helper()
	b, err := os.ReadFile("../../deploy/grafana/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal(b, &board); err != nil {
		t.Fatal(err)
	}
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			list = append(list, target.Expr)
		}
	}
	return list
}

func alertQueries(t *testing.T) (list []string) {
	t.Helper()
	b, err := os.ReadFile("../../deploy/prometheus/modelgate.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct{ Rules []struct{ Expr string } }
	}
	if err := yaml.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			list = append(list, r.Expr)
		}
	}
	return list
}

// TestNamesOfMetricsFollowTheConventions asks the library what promtool would say.
func TestNamesOfMetricsFollowTheConventions(t *testing.T) {
	t.Parallel()
	for _, text := range everyMetric(t) {
		problems, err := promlint.New(strings.NewReader(text)).Lint()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
		for _, part := range []string{`modelgate_build_info{commit=`, "modelgate_ready ", `modelgate_problem{problem="disk_full"} 0`} {
			if !strings.Contains(text, part) {
				t.Errorf("%s is missing", part)
			}
		}
	}
}
