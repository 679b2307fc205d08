// Package prometheus tests the alert rules and the dashboard with Prometheus itself: that they
// are read, and that every alert fires when it should and does not when it should not.
//
// It does not test that the gateway has the metrics, which internal/server does.
package prometheus

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
)

const (
	rulesFile = "../../../deploy/prometheus/modelgate.rules.yaml"
	boardFile = "../../../deploy/grafana/dashboard.json"
)

// readRules returns the alerts of the file by name.
func readRules(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.ParseFile(rulesFile, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	if len(errs) > 0 {
		t.FailNow()
	}
	list := map[string]rulefmt.Rule{}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if _, twice := list[r.Alert]; twice || r.Alert == "" {
				t.Errorf("%s: the rule %q has no name of its own", g.Name, r.Alert)
			}
			list[r.Alert] = r
		}
	}
	return list
}

// scenario is what Prometheus has read, a sample a minute from 0:00 on, and whether the alert
// fires at the end of an hour.
type scenario struct {
	fires bool
	load  string // series in the notation of Prometheus' tests
}

// scenarios has for each alert at least one in which it fires and one in which it does not.
var scenarios = map[string][]scenario{
	"ModelgateDown": {
		{true, `up{job="modelgate", instance="a"} 1x50 0x10`},
		{false, `up{job="modelgate", instance="a"} 1x58 0x1`},
		{false, `up{job="node", instance="a"} 0x60`},
	},
	"ModelgateMissing": {{true, `up{job="node"} 1x60`}, {false, `modelgate_build_info{version="1"} 1x60`}},
	"ModelgateNotReady": {
		{true, `modelgate_ready{instance="a"} 1x50 0x10`}, {false, `modelgate_ready{instance="a"} 1x59 0x0`}, {false, `modelgate_ready{instance="a"} 1x60`},
	},
	"ModelgateDegraded": {
		{true, `modelgate_problem{problem="log", instance="a"} 1x60`}, {false, `modelgate_problem{problem="log", instance="a"} 0x60`},
		{false, `modelgate_problem{problem="database_stuck", instance="a"} 1x60`},
	},
	"ModelgateOverloaded": {
		{true, `modelgate_requests_refused_total{instance="a"} 0+3x60`}, {false, `modelgate_requests_refused_total{instance="a"} 7x60`},
	},
	"ModelgateSlowGateway": {
		{true, histogram("modelgate_overhead_seconds_bucket", `instance="a"`, "0.05", "0.1", 10)},
		{false, histogram("modelgate_overhead_seconds_bucket", `instance="a"`, "0.005", "0.01", 100)},
	},
	"ModelgateDiskFillsUp": {
		{true, disk(5)}, {false, disk(50)},
		{false, "modelgate_disk_free_bytes 0x60\nmodelgate_disk_size_bytes 0x60"}, // unknown
	},
	"ModelgateDiskFull": {{true, disk(1)}, {false, disk(5)}},
	"ModelgateDatabaseStuck": {
		{true, `modelgate_problem{problem="database_stuck"} 0x50 1x10`}, {false, `modelgate_problem{problem="database_stuck"} 0x60`},
		{false, `modelgate_problem{problem="log"} 1x60`},
	},
	"ModelgateDatabaseDown": {{true, `modelgate_database_up 1x50 0x10`}, {false, `modelgate_database_up 1x60`}},
	"ModelgateRecordsLost": {
		{true, "modelgate_log_rows_lost_total 0x55 3x5\nmodelgate_ledger_records_lost_total 0x60"},
		{true, "modelgate_log_rows_lost_total 0x60\nmodelgate_ledger_records_lost_total 0x55 3x5"},
		{false, "modelgate_log_rows_lost_total 3x60\nmodelgate_ledger_records_lost_total 0x60"}, // long ago
	},
	"ModelgateBodiesDropped":   {{true, `modelgate_ledger_bodies_dropped_total 0x55 3x5`}, {false, `modelgate_ledger_bodies_dropped_total 3x60`}},
	"ModelgateLogBehind":       {{true, `modelgate_log_oldest_seconds 0+60x60`}, {false, `modelgate_log_oldest_seconds 200x60`}},
	"ModelgateLogDamaged":      {{true, `modelgate_log_damaged_blocks 1x60`}, {false, `modelgate_log_damaged_blocks 0x60`}},
	"ModelgateSpendNotCounted": {{true, `modelgate_ledger_uncounted_seconds 0+60x60`}, {false, `modelgate_ledger_uncounted_seconds 5x60`}},
	"ModelgateProviderFails": {
		{true, attempts("200", 50) + attempts("503", 50)}, {true, attempts("200", 50) + attempts("0", 50)},
		{false, attempts("200", 50) + attempts("503", 1)},
		{false, attempts("200", 50) + attempts("404", 50)},
		{false, `modelgate_attempts_total{provider="openai", status="503"} 0+1x60`}, // one a minute
	},
	"ModelgateCredentialRefused": {{true, attempts("401", 5)}, {false, attempts("200", 50)}, {false, `modelgate_attempts_total{provider="openai", status="401"} 9x60`}},
	"ModelgateBreakerOpen":       {{true, `modelgate_provider_open_breakers{slug="main"} 1x60`}, {false, `modelgate_provider_open_breakers{slug="main"} 0x60`}},
	"ModelgateSlowProvider": {
		{true, histogram("modelgate_first_token_seconds_bucket", `provider="openai"`, "10", "30", 10)},
		{false, histogram("modelgate_first_token_seconds_bucket", `provider="openai"`, "1", "2.5", 100)},
	},
	"ModelgateToolServerBroken": {{true, `modelgate_tool_server_broken{server="github"} 1x60`}, {false, `modelgate_tool_server_broken{server="github"} 0x60`}},
	"ModelgatePriceUnknown":     {{true, `modelgate_price_unknown_total{provider="openai"} 0x50 3x10`}, {false, `modelgate_price_unknown_total{provider="openai"} 3x60`}},
	"ModelgateBudgetNearlyUsed": {
		{true, budget("dollars", 80, 100)}, {true, budget("tokens", 850, 1000)}, {true, budget("dollars", 10, 100) + budget("tokens", 850, 1000)},
		{false, budget("dollars", 79, 100)}, {false, budget("dollars", 100, 100)},
		{false, `modelgate_workspace_budget_used_dollars{workspace="a", period="monthly"} 500x60`}, // without a limit
	},
	"ModelgateBudgetExhausted": {{true, budget("dollars", 100, 100)}, {true, budget("tokens", 1001, 1000)}, {false, budget("dollars", 99, 100)}},
	"ModelgateCertificateExpires": {
		{true, `modelgate_tls_certificate_expiry_timestamp_seconds 90000x120`}, {false, `modelgate_tls_certificate_expiry_timestamp_seconds 9000000x120`},
	},
	"ModelgateCertificateRejected": {{true, `modelgate_tls_ok 0x60`}, {false, `modelgate_tls_ok 1x60`}},
	"ModelgateSettingsRejected": {
		{true, "modelgate_settings_ok 0x60\nmodelgate_snapshot_ok 1x60"}, {true, "modelgate_settings_ok 1x60\nmodelgate_snapshot_ok 0x60"},
		{false, "modelgate_settings_ok 1x60\nmodelgate_snapshot_ok 1x60"},
	},
	"ModelgateSecretsUnread": {
		{true, "modelgate_secrets_stale 1x60\nmodelgate_secrets_unresolved 0x60"}, {false, "modelgate_secrets_stale 0x60\nmodelgate_secrets_unresolved 0x60"},
	},
	"ModelgateCacheEntriesChanged": {{true, `modelgate_cache_entries_rejected_total 0x50 1x10`}, {false, `modelgate_cache_entries_rejected_total 0x60`}},
	"ModelgateJobsDead": {
		{true, `modelgate_jobs{kind="webhook", state="dead"} 1x60`}, {false, `modelgate_jobs{kind="webhook", state="done"} 5x60`},
	},
	"ModelgateExportFailed": {
		{true, `modelgate_jobs{kind="export", state="failed"} 2x30 3x30`}, {true, `modelgate_jobs{kind="export", state="failed"} _x30 1x30`},
		{false, `modelgate_jobs{kind="export", state="failed"} 2x60`}, {false, `modelgate_jobs{kind="webhook", state="failed"} 0x30 5x30`},
	},
	"ModelgateExportScheduleStopped": {{true, `modelgate_export_schedules_stopped 0x50 1x10`}, {false, `modelgate_export_schedules_stopped 0x60`}},
	"ModelgateJobsLate":              {{true, `modelgate_jobs_oldest_due_seconds{kind="export"} 0+60x60`}, {false, `modelgate_jobs_oldest_due_seconds{kind="export"} 5x60`}},
	"ModelgateWebhooksUndelivered": {
		{true, webhooks("failed", 3) + webhooks("delivered", 1)}, {true, webhooks("gone", 3) + webhooks("delivered", 1)},
		{false, webhooks("failed", 1) + webhooks("delivered", 3)}, {false, webhooks("failed", 0) + webhooks("delivered", 0)},
	},
	"ModelgateAlertsDropped": {
		{true, `modelgate_alerts_sent_total{destination="email", outcome="dropped"} 0x50 1x10`},
		{false, `modelgate_alerts_sent_total{destination="email", outcome="failed"} 0+1x60`},
	},
	"ModelgateAuditNotSent": {
		{true, `modelgate_audit_rows_sent_total{destination="syslog", outcome="failed"} 0+1x60`},
		{false, `modelgate_audit_rows_sent_total{destination="syslog", outcome="sent"} 0+1x60`},
	},
	"ModelgateTelemetryDown": {{true, `modelgate_telemetry_ok 0x60`}, {false, `modelgate_telemetry_ok 1x60`}},
}

func attempts(status string, aMinute int) string {
	return fmt.Sprintf("modelgate_attempts_total{provider=\"openai\", status=%q} 0+%dx60\n", status, aMinute)
}

func webhooks(outcome string, aMinute int) string {
	return fmt.Sprintf("modelgate_webhook_attempts_total{outcome=%q} 0+%dx60\n", outcome, aMinute)
}

// budget is that of a workspace, of which two nodes have read the use at different times.
func budget(measure string, used, limit int) string {
	var b strings.Builder
	for i, node := range []string{"a", "b"} {
		l := fmt.Sprintf(`{organisation="acme", workspace="team", period="monthly", instance=%q}`, node)
		fmt.Fprintf(&b, "modelgate_workspace_budget_used_%s%s %dx60\nmodelgate_workspace_budget_%s%s %dx60\n", measure, l, used-i, measure, l, limit)
	}
	return b.String()
}

// disk has a part of its size left, in per cent.
func disk(percent int) string {
	return fmt.Sprintf("modelgate_disk_free_bytes{instance=\"a\"} %dx60\nmodelgate_disk_size_bytes{instance=\"a\"} 1000x60", 10*percent)
}

// histogram is one of ten values a minute, of which a part in per cent is below low and the
// rest below high.
func histogram(name, label, low, high string, percent int) string {
	return fmt.Sprintf("%s{%s, le=%q} 0+%dx60\n%s{%s, le=%q} 0+100x60\n%s{%s, le=\"+Inf\"} 0+100x60", name, label, low, percent, name, label, high, name, label)
}

func TestAlertsFireWhenTheyShouldAndOnlyThen(t *testing.T) {
	list := readRules(t)
	for name := range scenarios {
		if _, ok := list[name]; !ok {
			t.Errorf("the file has no alert %s", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		t.Run(name, func(t *testing.T) {
			seen := map[bool]bool{}
			for _, s := range scenarios[name] {
				seen[s.fires] = true
				fired, texts := evaluate(t, list[name], s.load)
				if fired != s.fires {
					t.Errorf("fires: %t, want %t, with\n%s", fired, s.fires, s.load)
				}
				for _, text := range texts {
					if strings.Contains(text, "error expanding template") || strings.Contains(text, "<no value>") {
						t.Errorf("an annotation is %q", text)
					}
				}
			}
			if !seen[true] || !seen[false] {
				t.Error("there is no scenario in which it fires, or none in which it does not")
			}
		})
	}
}

// evaluate evaluates an alert each minute of an hour and returns whether it fires at the end,
// with its annotations.
func evaluate(t *testing.T, r rulefmt.Rule, load string) (fires bool, texts []string) {
	t.Helper()
	storage := promqltest.LoadedStorage(t, "load 1m\n  "+strings.ReplaceAll(strings.TrimSpace(load), "\n", "\n  "))
	defer storage.Close()
	query := rules.EngineQueryFunc(promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery), storage)
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
	if err != nil {
		t.Fatal(err)
	}
	alert := rules.NewAlertingRule(r.Alert, expr, time.Duration(r.For), time.Duration(r.KeepFiringFor), labels.FromMap(r.Labels),
		labels.FromMap(r.Annotations), labels.EmptyLabels(), "", true, slog.New(slog.DiscardHandler))
	minutes := 60
	if r.For >= model.Duration(time.Hour) {
		minutes = 120
	}
	for i := range minutes + 1 {
		if _, err := alert.Eval(context.Background(), 0, time.Unix(int64(60*i), 0), query, new(url.URL), 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range alert.ActiveAlerts() {
		if a.State == rules.StateFiring {
			fires = true
			a.Annotations.Range(func(l labels.Label) { texts = append(texts, l.Value) })
		}
	}
	return fires, texts
}

func TestAlertsSayWhatTheyAreAndWhereToRead(t *testing.T) {
	for name, r := range readRules(t) {
		if s := r.Labels["severity"]; s != "critical" && s != "warning" && s != "info" {
			t.Errorf("%s has the severity %q", name, s)
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s has no summary or no description", name)
		}
		page, anchor, _ := strings.Cut(r.Annotations["runbook_url"], "#")
		text, err := os.ReadFile("../../../" + page)
		if err != nil || !strings.HasPrefix(page, "docs/") {
			t.Errorf("%s: the runbook is %q: %v", name, r.Annotations["runbook_url"], err)
			continue
		}
		found := anchor == ""
		for line := range strings.Lines(string(text)) {
			if h, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && line[0] == '#' {
				found = found || anchor == strings.ReplaceAll(strings.ToLower(strings.TrimSpace(h)), " ", "-")
			}
		}
		if !found {
			t.Errorf("%s: %s has no heading %q", name, page, anchor)
		}
	}
}

// variable is one of the dashboard's, or of Grafana's.
var variable = regexp.MustCompile(`\$\w+`)

func TestPrometheusReadsTheQueriesOfTheDashboard(t *testing.T) {
	text, err := os.ReadFile(boardFile)
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct{ List []struct{ Name string } }
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	known := map[string]string{"$__rate_interval": "5m"}
	for _, v := range board.Templating.List {
		known["$"+v.Name] = ".*"
	}
	queries, ids := 0, map[int]bool{}
	for _, p := range board.Panels {
		if ids[p.ID] {
			t.Errorf("%s has the id %d of another panel", p.Title, p.ID)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			queries++
			expr := variable.ReplaceAllStringFunc(target.Expr, func(v string) string {
				if known[v] == "" {
					t.Errorf("%s: the dashboard has no variable %s", p.Title, v)
				}
				return known[v]
			})
			if _, err := parser.NewParser(parser.Options{}).ParseExpr(expr); err != nil {
				t.Errorf("%s: %v", p.Title, err)
			}
		}
	}
	if queries < 30 {
		t.Errorf("%d queries; were they read?", queries)
	}
}
