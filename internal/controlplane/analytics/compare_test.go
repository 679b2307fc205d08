package analytics_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"modelgate/internal/identity/access"
	"modelgate/internal/model/catalog"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
)

// detailed records requests, so many minutes before the bench's clock, whose details differ.
func (b *bench) detailed(t *testing.T) {
	t.Helper()
	for i, e := range []struct {
		minutes, ms, first int
		code, target       string
		config             string
		version            int64
		cost               int64
	}{
		{30, 100, 10, "", "cheap", "main", 1, 100},
		{30, 200, 20, "", "cheap", "main", 2, 200},
		{40, 300, 30, "", "dear", "main", 2, 300},
		{50, 400, 0, "rate_limited", "dear", "", 0, 0},
		{90, 500, 50, "", "cheap", "main", 2, 1000},
		{95, 600, 0, "timeout", "", "", 0, 0},
	} {
		at := b.Clock.Add(-time.Duration(e.minutes) * time.Minute)
		one := &reqlog.Entry{ID: reqlog.NewID(at), Time: at}
		one.Organisation, one.Workspace, one.KeyID = store.DefaultOrganisation, store.DefaultWorkspace, fmt.Sprint("k", i%2)
		one.Model, one.Operation, one.CacheStatus, one.Status = "m", "chat", "MISS", 200
		one.TargetName, one.Config, one.ConfigVersion = e.target, e.config, e.version
		one.OptionIndex = "config.targets[" + map[string]string{"cheap": "0", "dear": "1"}[e.target] + "]"
		one.Total, one.FirstToken = time.Duration(e.ms)*time.Millisecond, time.Duration(e.first)*time.Millisecond
		if one.ErrorCode = e.code; e.code != "" {
			one.Status = 429
		} else {
			one.Cost, one.Priced = catalog.NanoDollars(e.cost), true
		}
		b.logs.Record(t.Context(), one)
	}
	if err := b.logs.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestDetailsAreGroupedAndFiltered(t *testing.T) {
	b := newBench(t)
	b.detailed(t)
	c := b.Root()
	for path, want := range map[string]string{
		"error_code?":                                   "3: <nil>=4 rate_limited=1 timeout=1",
		"error_code?error_code=timeout":                 "1: timeout=1",
		"error_code?error_code=timeout,no_route":        "",
		"target_name?order_by=group&order=asc":          "3: <nil>=1 cheap=3 dear=2",
		"target_name?target=dear":                       "1: dear=2",
		"target_name?target=config.targets%5B0%5D,dear": "2: cheap=3 dear=2",
		"operation?":                                    "1: chat=6",
		"cache_status?cache_status=MISS":                "1: MISS=6",
		"cache_status?cache_status=HIT":                 "0:",
		"config_version?order_by=group":                 "3: main@2=3 main@1=1 <nil>=2",
		"config_version?config=main@2":                  "1: main@2=3",
		"status_code?status=4xx":                        "1: 429=2",
		"status_code?status=200,4xx":                    "2: 200=4 429=2",
		"user?":                                         "1: <nil>=6",
		"api_key?from=45m":                              "2: k0=2 k1=1",
		"api_key?from=now-45m&to=now":                   "2: k0=2 k1=1",
		"api_key?from=2h&to=1h":                         "2: k0=1 k1=1",
		"api_key?cost_nano_usd_min=200":                 "2: k1=1 k0=2",
		"model?order_by=cost&order=asc":                 "1: m=6",
	} {
		if path == "error_code?error_code=timeout,no_route" {
			a := c.Call("GET", "/analytics/groups/"+path, "")
			if a.Status != http.StatusBadRequest || !strings.Contains(a.Body, "rate_limited") || !strings.Contains(a.Body, `"param":"error_code"`) {
				t.Errorf("an error code that does not exist: %d %s", a.Status, a.Body)
			}
			continue
		}
		got := getCounts(t, c, "/analytics/groups/"+path)
		if sorted(got) != sorted(want) {
			t.Errorf("%s returns %s, want %s", path, got, want)
		}
	}
	for path, want := range map[string]string{
		"target_name?columns=avg_first_token&order_by=first_token&order=desc": "cheap=26.667 dear=30 <nil>=<nil>",
	} {
		var got struct{ Data []map[string]any }
		c.Must("GET", "/analytics/groups/"+path, "", &got)
		if len(got.Data) != 3 || got.Data[0]["target_name"] != "dear" || got.Data[0]["avg_first_token"] != 30.0 || got.Data[2]["avg_first_token"] != nil {
			t.Errorf("%s returns %v, want %s by the time of the first token", path, got.Data, want)
		}
	}
	var graph struct {
		Summary map[string]float64
	}
	c.Must("GET", "/analytics/graphs/first-token?from=3h", "", &graph)
	if s := graph.Summary; s["avg"] != 27.5 || s["requests"] != 4 || s["p99"] < 49 || s["p99"] > 51 {
		t.Errorf("the graph of first tokens is %v", s)
	}
	c.Must("GET", "/analytics/graphs/outcomes?from=3h", "", &graph)
	if s := graph.Summary; s["success"] != 4 || s["error"] != 2 || s["cancelled"] != 0 || s["total"] != 6 {
		t.Errorf("the graph of outcomes is %v", s)
	}
}

func TestGraphsAreCompared(t *testing.T) {
	b := newBench(t)
	b.detailed(t)
	c := b.Root()
	for path, want := range map[string]string{
		"cost?from=1h&compare=previous":                        "total_nano_usd 600 1000 -400 -40",
		"cost?from=1h&compare_from=2h&compare_to=1h":           "total_nano_usd 600 1000 -400 -40",
		"requests?from=1h&compare=previous":                    "total 4 2 2 100",
		"outcomes?from=1h&compare=previous":                    "cancelled 0 0 0 <nil>",
		"first-token?from=45m&to=35m&compare=previous":         "avg 30 <nil> <nil> <nil>",
		"errors/rate?from=1h&compare=previous&model=m":         "rate 25 50 -25 -50",
		"requests/rescued?from=1h&compare=previous&status=2xx": "fallback 0 0 0 <nil>",
	} {
		var got struct {
			Summary  map[string]any
			Previous map[string]any
			Change   map[string]any
			Percent  map[string]any `json:"change_percent"`
			Points   []any          `json:"data_points"`
		}
		c.Must("GET", "/analytics/graphs/"+path, "", &got)
		name, _, _ := strings.Cut(want, " ")
		if line := fmt.Sprint(name, " ", got.Summary[name], " ", got.Previous[name], " ", got.Change[name], " ", got.Percent[name]); line != want {
			t.Errorf("%s: %s, want %s", path, line, want)
		}
		if _, ok := got.Change["retry"]; ok || len(got.Points) == 0 {
			t.Errorf("%s: change %v, %d points", path, got.Change, len(got.Points))
		}
	}
	if a := c.Call("GET", "/analytics/graphs/cost?from=1h", ""); strings.Contains(a.Body, "previous") || strings.Contains(a.Body, "change") {
		t.Errorf("a graph without comparison has one: %s", a.Body)
	}
	for path, param := range map[string]string{
		"cost?compare=last": "compare", "cost?compare=previous&compare_from=1h": "compare", "cost?compare_from=1h": "compare_from",
		"cost?compare_from=1h&compare_to=2h": "compare_to", "errors/stacks?compare=previous": "compare", "feedbacks?compare=previous": "compare",
	} {
		if a := c.Call("GET", "/analytics/graphs/"+path, ""); a.Status != http.StatusBadRequest || !strings.Contains(a.Body, `"param":"`+param+`"`) {
			t.Errorf("%s: %d %s, want 400 for %s", path, a.Status, a.Body, param)
		}
	}
}

// sorted returns words in alphabetical order.
func sorted(text string) string {
	words := strings.Fields(text)
	for i := range words {
		for j := i + 1; j < len(words); j++ {
			if words[j] < words[i] {
				words[i], words[j] = words[j], words[i]
			}
		}
	}
	return strings.Join(words, " ")
}

func TestPeriodsAreCompared(t *testing.T) {
	b := newBench(t)
	b.detailed(t)
	c := b.Root()
	type row struct {
		Target           any `json:"target_name"`
		Requests         int64
		Cost             any `json:"cost_nano_usd"`
		Previous, Change map[string]any
		Percent          map[string]any `json:"change_percent"`
	}
	var got struct{ Data []row }
	for _, other := range []string{"compare=previous", "compare_from=2h&compare_to=1h"} {
		c.Must("GET", "/analytics/groups/target_name?columns=cost_nano_usd,error_count,last_seen&order_by=group&order=asc&from=1h&"+other, "", &got)
		if len(got.Data) != 3 {
			t.Fatalf("%s: %d groups, want those of both periods: %v", other, len(got.Data), got.Data)
		}
		none, cheap, dear := got.Data[0], got.Data[1], got.Data[2]
		if none.Requests != 0 || none.Previous["requests"] != 1.0 || none.Change["requests"] != -1.0 || none.Percent["requests"] != -100.0 || none.Cost != nil {
			t.Errorf("%s: a group of the other period alone is %+v", other, none)
		}
		if cheap.Requests != 2 || cheap.Cost != 300.0 || cheap.Previous["cost_nano_usd"] != 1000.0 || cheap.Change["cost_nano_usd"] != -700.0 || cheap.Percent["cost_nano_usd"] != -70.0 {
			t.Errorf("%s: a group of both periods is %+v", other, cheap)
		}
		if dear.Requests != 2 || dear.Previous["requests"] != 0.0 || dear.Percent["requests"] != nil || dear.Change["cost_nano_usd"] != nil || dear.Change["error_count"] != 1.0 {
			t.Errorf("%s: a group of this period alone is %+v", other, dear)
		}
	}
	for query, param := range map[string]string{
		"compare=next": "compare", "compare=previous&compare_from=7d": "compare", "compare_from=7d": "compare_from", "compare_to=7d": "compare_from",
		"compare_from=1d&compare_to=2d": "compare_to", "compare_from=500d&compare_to=1d": "compare_from", "compare_from=soon&compare_to=now": "compare_from",
	} {
		a := c.Call("GET", "/analytics/groups/model?"+query, "")
		if a.Status != http.StatusBadRequest || !strings.Contains(a.Body, `"param":"`+param) {
			t.Errorf("%s: %d %s, want 400 naming %s", query, a.Status, a.Body, param)
		}
	}
}

// TestParametersHaveOneName sends each further name of a parameter: it is the same as the name,
// errors name what was sent, and both at once are refused.
func TestParametersHaveOneName(t *testing.T) {
	b := newBench(t)
	b.detailed(t)
	c := b.Root()
	for old, tt := range map[string]struct{ name, value, wrong string }{
		"time_of_generation_min": {"from", "45m", "soon"}, "time_of_generation_max": {"to", "40m", "soon"},
		"workspace_id": {"workspace", "default", "none"}, "workspace_slug": {"workspace", "default", "none"},
		"status_code": {"status", "429", "9999"}, "api_key_ids": {"api_key", "k1", "none"}, "order_by_type": {"order", "asc", "up"},
		"configs": {"config", "main", "none"}, "prompt_slug": {"prompt", "", "none"},
	} {
		path := "/analytics/groups/api_key?order_by=group&"
		if tt.value != "" {
			if got, want := getCounts(t, c, path+old+"="+tt.value), getCounts(t, c, path+tt.name+"="+tt.value); got != want {
				t.Errorf("%s returns %s, want %s as of %s", old, got, want, tt.name)
			}
		}
		if a := c.Call("GET", path+old+"="+tt.wrong, ""); a.Status < 400 || a.Status > 404 || !strings.Contains(a.Body, `"param":"`+old) {
			t.Errorf("%s=%s: %d %s, want an error that names it", old, tt.wrong, a.Status, a.Body)
		}
		if a := c.Call("GET", path+old+"=x&"+tt.name+"=x", ""); a.Status != http.StatusBadRequest || !strings.Contains(a.Body, old+" is another name of "+tt.name) {
			t.Errorf("%s and %s: %d %s, want 400", old, tt.name, a.Status, a.Body)
		}
	}
}

// TestUnknownNamesAreRefusedWithThoseThatExist sends names that nothing has.
func TestUnknownNamesAreRefusedWithThoseThatExist(t *testing.T) {
	b := newBench(t)
	b.detailed(t)
	c := b.Root()
	for query, tt := range map[string]struct {
		status int
		near   string
	}{
		"provider=opnai": {404, "did you mean openai?"}, "virtual_keys=opnai": {404, "did you mean openai?"}, "workspace=defualt": {404, "there are default"},
		"error_code=rate_limitd": {400, "did you mean rate_limited?"}, "config=main2": {404, "GET /v1/configs"}, "config=main@0": {400, "main@3"},
		"user=nobody": {404, "GET /v1/admin/users"}, "status=6": {400, "5xx"}, "status=0xx": {400, "5xx"}, "cache_status=MAYBE": {400, "SEMANTIC HIT"},
		"ai_org_model=opnai__m": {404, "did you mean openai?"}, "colour=red": {400, "colour"}, "cost_min=1&cost_nano_usd_min=1": {400, "cost_min"},
	} {
		a := c.Call("GET", "/analytics/groups/model?"+strings.ReplaceAll(query, " ", url.QueryEscape(" ")), "")
		if a.Status != tt.status || !strings.Contains(a.Body, tt.near) {
			t.Errorf("%s: %d %s, want %d with %q", query, a.Status, a.Body, tt.status, tt.near)
		}
	}
}

// TestErrorsNameOnlyWhatTheCallerMayList sends names that nothing has as callers with and without the
// right to list configs.
func TestErrorsNameOnlyWhatTheCallerMayList(t *testing.T) {
	b := newBench(t)
	b.Exec(`INSERT INTO configs (id, organisation_id, workspace_id, slug, name, is_default, version_id, status, owner_id, updated_by, created_at, updated_at)
		VALUES ('c1', $1, $2, 'pc-hidden-plan', 'Plan', FALSE, 'v', 'active', '', '', 0, 0)`, store.DefaultOrganisation, store.DefaultWorkspace)
	b.Exec(`INSERT INTO users (id, email, first_name, last_name, password_hash, status, created_at, updated_at) VALUES ('u', 'u', '', '', '', 'active', 0, 0)`)
	b.Exec(`INSERT INTO organisation_members (organisation_id, user_id, role, created_at, updated_at) VALUES ($1, 'u', 'member', 0, 0)`, store.DefaultOrganisation)
	b.Exec(`INSERT INTO workspace_members (workspace_id, user_id, role, created_at, updated_at) VALUES ($1, 'u', 'manager', 0, 0)`, store.DefaultWorkspace)
	key := func(scopes ...access.Scope) access.Identity {
		return access.Identity{Type: access.WorkspaceService, KeyID: "k", Workspace: store.DefaultWorkspace, Scopes: scopes}
	}
	person := access.Identity{Type: access.Session, UserID: "u", Workspace: "-", Scopes: access.Scopes(access.Session)}
	for name, tt := range map[string]struct {
		caller   access.Identity
		settings string
		shown    bool
	}{
		"a key that lists configs":       {key("analytics.view", "configs.list"), `{}`, true},
		"a key that does not":            {key("analytics.view"), `{}`, false},
		"a person whose role views them": {person, `{}`, true},
		"a person whose role does not":   {person, `{"security_settings":{"managersViewConfigs":false}}`, false},
	} {
		b.Exec(`UPDATE organisations SET settings = $1 WHERE id = $2`, tt.settings, store.DefaultOrganisation)
		a := b.As(tt.caller).Call("GET", "/analytics/groups/model?workspace=default&config=pc-hiden-plan", "")
		if a.Status != http.StatusNotFound || strings.Contains(a.Body, "pc-hidden-plan") != tt.shown {
			t.Errorf("%s: %d %s, want the name shown: %t", name, a.Status, a.Body, tt.shown)
		}
	}
}
