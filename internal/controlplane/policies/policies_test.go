package policies_test

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"modelgate/internal/controlplane/policies"
	"modelgate/internal/identity/access"
	"modelgate/internal/limits/policy"
	"modelgate/internal/limits/quota"
	"modelgate/internal/store"
	"modelgate/internal/testing/routetest"
)

const (
	everyone = `"conditions":[{"key":"workspace_id","value":"*"}],"group_by":[{"key":"api_key"}]`
	rateBody = `{"name":"slow",` + everyone + `,"type":"requests","unit":"rpm","value":10}`
	costBody = `{"name":"money",` + everyone + `,"type":"cost","credit_limit":2.5,"alert_threshold":2,"periodic_reset":"monthly"}`

	rates  = "/policies/rate-limits"
	usages = "/policies/usage-limits"
)

type created struct {
	ID, Object string
	Warnings   []string
}

type item struct {
	ID, Object, Name, Type, Unit, Status string
	Description                          string
	Value                                float64
	Conditions                           []struct {
		Key      string
		Value    any
		Excludes any
	}
	GroupBy []struct{ Key string } `json:"group_by"`

	Workspace    *string `json:"workspace_id"`
	Organisation string  `json:"organisation_id"`
	CreatedAt    string  `json:"created_at"`
	UpdatedAt    string  `json:"last_updated_at"`

	CreditLimit       float64                            `json:"credit_limit"`
	AlertThreshold    *float64                           `json:"alert_threshold"`
	PeriodicReset     *string                            `json:"periodic_reset"`
	PeriodicResetDays *int                               `json:"periodic_reset_days"`
	NextUsageResetAt  string                             `json:"next_usage_reset_at"`
	TimeZone          string                             `json:"time_zone"`
	OnBudgetEnd       string                             `json:"on_budget_end"`
	OnStoreDown       string                             `json:"on_store_down"`
	Loop              *policy.Loop                       `json:"loop_detection"`
	Usage             map[string]struct{ Status string } `json:"value_key_usage_map"`
}

type list struct {
	Object string
	Total  int
	Data   []item
}

type entities struct {
	Total int
	Data  []struct {
		ID, Status string
		ValueKey   string  `json:"value_key"`
		Usage      float64 `json:"current_usage"`
	}
}

var uuid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

func TestARateLimitPolicyIsReadAsItWasCreated(t *testing.T) {
	c := routetest.New(t, policies.Routes{}.Add).Root()
	var p created
	c.Must("POST", rates, rateBody, &p)
	if !uuid.MatchString(p.ID) || p.Object != "policy_usage_limits" || p.Warnings != nil {
		t.Errorf("created %+v; want a UUID and the object of the specification", p)
	}
	var got item
	c.Must("GET", rates+"/"+p.ID, "", &got)
	if got.Object != "policy_rate_limits" || got.Name != "slow" || got.Type != "requests" || got.Unit != "rpm" || got.Value != 10 || got.Status != "active" ||
		got.Workspace == nil || *got.Workspace != store.DefaultWorkspace || got.Organisation != store.DefaultOrganisation || got.OnStoreDown != "cached" ||
		len(got.Conditions) != 1 || got.Conditions[0].Value != "*" || len(got.GroupBy) != 1 || got.GroupBy[0].Key != "api_key" {
		t.Errorf("read %+v", got)
	}
	for _, text := range []string{got.CreatedAt, got.UpdatedAt} {
		if _, err := time.Parse("2006-01-02T15:04:05.000Z", text); err != nil {
			t.Error(err)
		}
	}
}

func TestAUsageLimitPolicyIsReadAsItWasCreated(t *testing.T) {
	c := routetest.New(t, policies.Routes{}.Add).Root()
	var p created
	c.Must("POST", usages, `{"name":"runs","description":"of agents","conditions":[{"key":"model","value":["gpt-4o","o3"],"excludes":"gpt-4o-mini"},{"key":"metadata.team","value":"a"}],
		"group_by":[{"key":"session"},{"key":"metadata._user"}],"type":"tokens","credit_limit":5000,"periodic_reset_days":7,"on_budget_end":"stop","on_store_down":"closed",
		"loop_detection":{"same_tool_call":4,"context_growth_without_progress":6}}`, &p)
	if p.Object != "policy_usage_limits" {
		t.Errorf("created %+v", p)
	}
	var got item
	c.Must("GET", usages+"/"+p.ID, "", &got)
	if got.Object != "policy_usage_limits" || got.Description != "of agents" || got.Type != "tokens" || got.CreditLimit != 5000 || got.AlertThreshold != nil || got.PeriodicReset != nil ||
		*got.PeriodicResetDays != 7 || got.NextUsageResetAt != "2026-05-08T00:00:00.000Z" || got.OnBudgetEnd != "stop" || got.OnStoreDown != "closed" ||
		*got.Loop != (policy.Loop{SameCalls: 4, Stalled: 6}) || fmt.Sprint(got.Conditions) != "[{model [gpt-4o o3] gpt-4o-mini} {metadata.team a <nil>}]" {
		t.Errorf("read %+v", got)
	}
}

func TestUsageLimitPoliciesHaveATimeZone(t *testing.T) {
	c := routetest.New(t, policies.Routes{}.Add).Root() // at noon UTC of May 1st
	body := strings.Replace(costBody, `"monthly"`, `"monthly","time_zone":"Europe/Berlin"`, 1)
	var p created
	c.Must("POST", usages, body, &p)
	read := func(zone, reset string) {
		t.Helper()
		var got item
		if c.Must("GET", usages+"/"+p.ID, "", &got); got.TimeZone != zone || got.NextUsageResetAt != reset {
			t.Errorf("read %q and a reset at %s, want %q and %s", got.TimeZone, got.NextUsageResetAt, zone, reset)
		}
	}
	read("Europe/Berlin", "2026-05-31T22:00:00.000Z")
	c.Must("PUT", usages+"/"+p.ID, `{"time_zone":"Asia/Kolkata"}`, nil)
	read("Asia/Kolkata", "2026-05-31T18:30:00.000Z")
	c.Must("PUT", usages+"/"+p.ID, `{"next_usage_reset_at":"2026-05-03"}`, nil) // a day of its time zone
	read("Asia/Kolkata", "2026-05-02T18:30:00.000Z")
	c.Must("PUT", usages+"/"+p.ID, `{"time_zone":null,"next_usage_reset_at":null}`, nil)
	read("", "2026-06-01T00:00:00.000Z")
	for body, path := range map[string]string{
		strings.Replace(costBody, `"monthly"`, `"monthly","time_zone":"Nowhere/Atall"`, 1):        usages,
		strings.Replace(costBody, `"monthly"`, `"monthly","time_zone":"Local"`, 1):                usages,
		strings.Replace(costBody, `"periodic_reset":"monthly"`, `"time_zone":"Europe/Berlin"`, 1): usages,
		strings.Replace(rateBody, `"rpm"`, `"rpd","time_zone":"Asia/Tokyo"`, 1):                   rates,
	} {
		if a := c.Call("POST", path, body); a.Status != http.StatusBadRequest || !strings.Contains(a.Body, `"param":"time_zone"`) {
			t.Errorf("POST %s %s: %d %s, want the field time_zone", path, body, a.Status, a.Body)
		}
	}
	if a := c.Call("PUT", usages+"/"+p.ID, `{"time_zone":"Mars/Olympus"}`); a.Status != http.StatusBadRequest || !strings.Contains(a.Body, `"param":"time_zone"`) {
		t.Errorf("changed: %d %s, want the field time_zone", a.Status, a.Body)
	}
}

func TestLimitsOfPoliciesMayBeFractions(t *testing.T) {
	b := routetest.New(t, policies.Routes{}.Add)
	root := b.Root()
	for path, body := range map[string]string{
		rates:  strings.Replace(rateBody, `"value":10`, `"value":2.5`, 1),
		usages: strings.NewReplacer(`"cost"`, `"requests"`, `2.5`, `2.75`, `"alert_threshold":2`, `"alert_threshold":1.5`).Replace(costBody),
	} {
		var made struct{ ID string }
		root.Must("POST", path, body, &made)
		kind := store.RatePolicy
		if path == usages {
			kind = store.UsagePolicy
		}
		row, err := b.DB.Policy(t.Context(), store.DefaultOrganisation, kind, made.ID)
		if err != nil {
			t.Fatal(err)
		}
		if got := row.Rule(nil).Max; got != 2 || !row.Reaches(2, row.Settings.Value.String()) || row.Reaches(1, row.Settings.Value.String()) {
			t.Errorf("%s: the limit of %s admits %d, want 2", path, row.Settings.Value, got)
		}
		if shown := root.Call("GET", path+"/"+made.ID, ""); !strings.Contains(shown.Body, row.Settings.Value.String()) || !strings.Contains(shown.Body, ".") {
			t.Errorf("%s: %s; want the limit as sent", path, shown.Body)
		}
	}
}

func TestPolicyErrorsNameTheField(t *testing.T) {
	b := routetest.New(t, policies.Routes{}.Add)
	c := b.Root()
	without := func(body, field string) string {
		out := regexp.MustCompile(`,?"`+field+`":(\[[^\]]*\]|"[^"]*"|[0-9.]+)`).ReplaceAllString(body, "")
		return strings.Replace(out, "{,", "{", 1)
	}
	with := func(body, old, new string) string {
		if !strings.Contains(body, old) {
			t.Fatalf("no %s in %s", old, body)
		}
		return strings.Replace(body, old, new, 1)
	}
	if a := c.Call("POST", rates, with(rateBody, `"rpm"`, `"concurrent"`)); a.Status != 400 || !strings.Contains(a.Body, `rate_limits of a key, workspace, provider or integration`) || !strings.Contains(a.Body, `"param":"unit"`) {
		t.Errorf("a policy of requests in progress: %d %s", a.Status, a.Body)
	}
	long := strings.Repeat("é", 255)
	for _, tt := range []struct{ path, body, param string }{
		{rates, with(rateBody, `"slow"`, `"`+long+`é"`), "name"},
		{rates, without(rateBody, "conditions"), "conditions"},
		{rates, without(rateBody, "group_by"), "group_by"},
		{rates, without(rateBody, "type"), "type"},
		{rates, without(rateBody, "unit"), "unit"},
		{rates, with(rateBody, `,"value":10`, ``), "value"},
		{rates, with(rateBody, `[{"key":"workspace_id","value":"*"}]`, `[]`), "conditions"},
		{rates, with(rateBody, `[{"key":"workspace_id","value":"*"}]`, `"x"`), "conditions"},
		{rates, with(rateBody, `[{"key":"api_key"}]`, `[]`), "group_by"},
		{rates, with(rateBody, `"value":"*"`, `"value":7`), "conditions[0].value"},
		{rates, with(rateBody, `"value":"*"`, `"value":[]`), "conditions[0].value"},
		{rates, with(rateBody, `"value":"*"`, `"value":""`), "conditions[0].value"},
		{rates, with(rateBody, `"key":"workspace_id",`, ``), "conditions[0].key"},
		{rates, with(rateBody, `"workspace_id"`, `"colour"`), "conditions[0].key"},
		{rates, with(rateBody, `"workspace_id"`, `"metadata."`), "conditions[0].key"},
		{rates, with(rateBody, `"api_key"`, `"colour"`), "group_by[0].key"},
		{rates, with(rateBody, `{"key":"api_key"}`, `{"key":"api_key"},{"key":"api_key"}`), "group_by[1].key"},
		{rates, with(rateBody, `"requests"`, `"cost"`), "type"},
		{rates, with(rateBody, `"rpm"`, `"rps"`), "unit"},
		{rates, with(rateBody, `"value":10`, `"value":"10"`), "value"},
		{rates, with(rateBody, `"value":10`, `"value":0`), "value"},
		{rates, with(rateBody, `"value":10`, `"value":-1`), "value"},
		{rates, with(rateBody, `"value":10`, `"value":0.5`), "value"},
		{rates, with(rateBody, `"value":10`, `"value":9007199254740993`), "value"},
		{rates, with(rateBody, `"value":10`, `"value":1e400`), ""},
		{rates, with(rateBody, `"type"`, `"on_budget_end":"stop","type"`), "on_budget_end"},
		{rates, with(rateBody, `"type"`, `"on_store_down":"maybe","type"`), "on_store_down"},
		{rates, with(rateBody, `"type"`, `"loop_detection":{"same_tool_call":1},"type"`), "loop_detection.same_tool_call"},
		{rates, with(rateBody, `"type"`, `"organisation_id":"none","type"`), "organisation_id"},
		{rates, with(rateBody, `"type"`, `"workspace_id":"none","type"`), "workspace_id"},
		{usages, with(costBody, `"api_key"`, `"endpoint_type"`), "group_by[0].key"},
		{usages, with(costBody, `"cost"`, `"money"`), "type"},
		{usages, without(costBody, "credit_limit"), "credit_limit"},
		{usages, with(costBody, `2.5`, `0`), "credit_limit"},
		{usages, with(costBody, `2.5`, `-1`), "credit_limit"},
		{usages, with(costBody, `2.5`, `9007199254740993`), "credit_limit"},
		{usages, with(costBody, `"cost"`, `"tokens"`), "credit_limit"},
		{usages, with(with(costBody, `"cost"`, `"tokens"`), `2.5`, `99`), "credit_limit"},
		{usages, with(with(costBody, `"cost"`, `"requests"`), `2.5`, `0`), "credit_limit"},
		{usages, with(costBody, `"alert_threshold":2`, `"alert_threshold":2.5`), "alert_threshold"},
		{usages, with(costBody, `"alert_threshold":2`, `"alert_threshold":0`), "alert_threshold"},
		{usages, with(costBody, `"alert_threshold":2`, `"alert_threshold":2,"alert_threshold_percent":81`), "alert_threshold_percent"},
		{usages, with(costBody, `"alert_threshold":2`, `"alert_threshold_percent":100`), "alert_threshold_percent"},
		{usages, with(costBody, `"alert_threshold":2`, `"alert_threshold_percent":0`), "alert_threshold_percent"},
		{usages, with(costBody, `"monthly"`, `"yearly"`), "periodic_reset"},
		{usages, with(costBody, `"monthly"`, `"monthly","periodic_reset_days":3`), "periodic_reset_days"},
		{usages, with(costBody, `"periodic_reset":"monthly"`, `"periodic_reset_days":0`), "periodic_reset_days"},
		{usages, with(costBody, `"periodic_reset":"monthly"`, `"periodic_reset_days":366`), "periodic_reset_days"},
		{usages, with(costBody, `"monthly"`, `"monthly","next_usage_reset_at":"2026-05-01"`), "next_usage_reset_at"},
		{usages, with(costBody, `"monthly"`, `"monthly","next_usage_reset_at":"2026-05-01T11:59:00Z"`), "next_usage_reset_at"},
		{usages, with(costBody, `"monthly"`, `"monthly","next_usage_reset_at":"soon"`), "next_usage_reset_at"},
		{usages, with(with(costBody, `"api_key"`, `"session"`), `"periodic_reset":"monthly"`, `"on_budget_end":"stop"`), "periodic_reset_days"},
		{usages, with(with(costBody, `"cost"`, `"seconds"`), `2.5`, `0.5`), "credit_limit"},
		{usages, with(with(costBody, `"cost"`, `"seconds"`), `2.5`, `60`), "group_by"},
		{usages, with(with(with(costBody, `"cost"`, `"seconds"`), `2.5`, `60`), `"api_key"`, `"trace_id"`), "periodic_reset"},
		{usages, with(costBody, `"monthly"`, `"monthly","colour":1`), "colour"},
		{rates, with(with(rateBody, `"type"`, `"loop_detection":{"same_tool_call":2},"type"`), `"workspace_id"`, `"provider"`), "conditions"},
		{rates, with(with(rateBody, `"type"`, `"loop_detection":{"same_tool_call":2},"type"`), `"api_key"`, `"virtual_key"`), "conditions"},
	} {
		a := c.Call("POST", tt.path, tt.body)
		refused := a.Status == http.StatusBadRequest && strings.Contains(a.Body, `"AB01"`)
		if strings.Contains(tt.body, `"none"`) {
			refused = a.Status == http.StatusNotFound && strings.Contains(a.Body, `"AB02"`)
		}
		if !refused || tt.param != "" && !strings.Contains(a.Body, `"param":"`+tt.param+`"`) {
			t.Errorf("%s %s:\n\t%d %s, want the field %s", tt.path, tt.body, a.Status, a.Body, tt.param)
		}
	}
	if b.Changes() != 0 {
		t.Errorf("%d changes were made", b.Changes())
	}
	c.Must("POST", rates, with(rateBody, `"slow"`, `"`+long+`"`), nil)
	c.Must("POST", rates, with(rateBody, `"value":10`, `"value":9007199254740992`), nil)
}

func TestAPolicyThatCanNeverApplyIsAcceptedWithAWarning(t *testing.T) {
	c := routetest.New(t, policies.Routes{}.Add).Root()
	for conditions, want := range map[string]string{
		`{"key":"api_key","value":"00000000-0000-7000-8000-00000000ffff"}`:                                                         "is the id of an API key",
		`{"key":"workspace_id","value":"default"}`:                                                                                 "is the id of a workspace",
		`{"key":"organisation_id","value":"other"}`:                                                                                "is the id of this organisation",
		`{"key":"provider","value":"no-such-provider"}`:                                                                            "is the id of a provider",
		`{"key":"model","value":"gpt-4*"}`:                                                                                         "is the name of a model",
		`{"key":"metadata.team","value":["a","b"],"excludes":["b","a"]}`:                                                           "excludes every value",
		`{"key":"metadata.team","value":"*","excludes":"*"}`:                                                                       "excludes every value",
		`{"key":"metadata.team","value":"a"},{"key":"metadata.team","value":["b","c"]}`:                                            "different values of metadata.team",
		`{"key":"metadata.team","value":["a","b"]},{"key":"metadata.team","value":["b"]}`:                                          "",
		`{"key":"user","value":["a","b"]},{"key":"user","value":["b","c"]},{"key":"user","value":["a","c"]}`:                       "different values of user",
		`{"key":"user","value":["a","b"]},{"key":"user","value":"*","excludes":["a"]},{"key":"user","value":"*","excludes":["b"]}`: "different values of user",
		`{"key":"user","value":["a","b"]},{"key":"user","value":"*","excludes":["a"]}`:                                             "",
		`{"key":"virtual_key","value":"@main"},{"key":"virtual_key","value":["main","other"]}`:                                     "",
		`{"key":"virtual_key","value":"@main","excludes":"main"}`:                                                                  "excludes every value",
		`{"key":"model","value":"gpt-4o"},{"key":"model","value":"@main/gpt-4o"}`:                                                  "",
		`{"key":"model","value":["gpt-4*","@prod/*"]}`:                                                                             "",
		`{"key":"provider","value":["openai","no-such-provider"]}`:                                                                 "",
		`{"key":"workspace_id","value":"` + store.DefaultWorkspace + `"}`:                                                          "",
		`{"key":"organisation_id","value":"` + store.DefaultOrganisation + `"}`:                                                    "",
	} {
		var p created
		c.Must("POST", rates, strings.Replace(rateBody, `{"key":"workspace_id","value":"*"}`, conditions, 1), &p)
		if got := strings.Join(p.Warnings, "; "); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: warnings %q, want %q", conditions, got, want)
		}
	}
}

func TestAPolicyIsChanged(t *testing.T) {
	b := routetest.New(t, policies.Routes{}.Add)
	c := b.Root()
	var rate, cost created
	c.Must("POST", rates, rateBody, &rate)
	c.Must("POST", usages, costBody, &cost)
	b.Clock = b.Clock.Add(time.Hour)
	c.Must("PUT", rates+"/"+rate.ID, `{"name":"fast","unit":"rph","value":99,"conditions":[{"key":"metadata.team","value":["a"]}]}`, nil)
	c.Must("PUT", usages+"/"+cost.ID, `{"credit_limit":7.25,"alert_threshold":null,"periodic_reset":null,"periodic_reset_days":3,"on_budget_end":"stop"}`, nil)
	var r, u item
	c.Must("GET", rates+"/"+rate.ID, "", &r)
	if r.Name != "fast" || r.Unit != "rph" || r.Value != 99 || r.Type != "requests" || r.Conditions[0].Key != "metadata.team" || r.UpdatedAt <= r.CreatedAt {
		t.Errorf("changed rate limit %+v", r)
	}
	c.Must("GET", usages+"/"+cost.ID, "", &u)
	if u.Name != "money" || u.CreditLimit != 7.25 || u.AlertThreshold != nil || u.PeriodicReset != nil || *u.PeriodicResetDays != 3 || u.OnBudgetEnd != "stop" {
		t.Errorf("changed usage limit %+v", u)
	}
	c.Must("PUT", rates+"/"+rate.ID, `{"name":""}`, nil)
	if c.Must("GET", rates+"/"+rate.ID, "", &r); r.Name != "" {
		t.Errorf("the name of a policy is %q after a change to none", r.Name)
	}
	for body, param := range map[string]string{
		`{"value":0}`:                      "value",
		`{"value":null}`:                   "value",
		`{"conditions":null}`:              "conditions",
		`{"unit":null}`:                    "unit",
		`{"name":null}`:                    "name",
		`{"type":"tokens"}`:                "type",
		`{"group_by":[{"key":"api_key"}]}`: "group_by",
		`{"conditions":[]}`:                "conditions",
		`{"conditions":[{"key":"colour","value":"x"}]}`: "conditions[0].key",
		`{"loop_detection":{"same_tool_call":0.5}}`:     "loop_detection.same_tool_call",
	} {
		if a := c.Call("PUT", rates+"/"+rate.ID, body); a.Status != http.StatusBadRequest || !strings.Contains(a.Body, `"param":"`+param+`"`) {
			t.Errorf("%s: %d %s, want the field %s", body, a.Status, a.Body, param)
		}
	}
	if a := c.Call("PUT", usages+"/"+cost.ID, `{"alert_threshold":8}`); a.Status != http.StatusBadRequest || !strings.Contains(a.Body, `"param":"alert_threshold"`) {
		t.Errorf("a threshold above the limit: %d %s", a.Status, a.Body)
	}
	h := http.Header{"If-Match": {`"2026-05-01T00:00:00.000Z"`}}
	if a := c.CallWith("PUT", rates+"/"+rate.ID, `{"value":5}`, h); a.Status != http.StatusPreconditionFailed {
		t.Errorf("a change of another state: %d %s", a.Status, a.Body)
	}
}

func TestAPolicyIsArchivedOnce(t *testing.T) {
	c := routetest.New(t, policies.Routes{}.Add).Root()
	for path, body := range map[string]string{rates: rateBody, usages: costBody} {
		var p created
		c.Must("POST", path, body, &p)
		at := path + "/" + p.ID
		if a := c.Call("GET", at+"?status=archived", ""); a.Status != http.StatusNotFound {
			t.Errorf("an active policy read as archived: %d %s", a.Status, a.Body)
		}
		c.Must("DELETE", at, "", nil)
		for _, call := range [][2]string{{"DELETE", at}, {"GET", at}, {"GET", at + "?status=active"}, {"PUT", at}, {"GET", at + "/entities"}, {"PUT", at + "/entities/x/reset"}} {
			body := ""
			if call[0] == "PUT" && call[1] == at {
				body = `{"name":"x"}`
			}
			if a := c.Call(call[0], call[1], body); a.Status != http.StatusNotFound {
				t.Errorf("%s %s after archiving: %d %s", call[0], call[1], a.Status, a.Body)
			}
		}
		var got item
		if c.Must("GET", at+"?status=archived", "", &got); got.Status != "archived" {
			t.Errorf("status %q", got.Status)
		}
		var active, archived list
		c.Must("GET", path, "", &active)
		c.Must("GET", path+"?status=archived", "", &archived)
		if active.Total != 0 || archived.Total != 1 || archived.Object != "list" || archived.Data[0].ID != p.ID {
			t.Errorf("%d active and %d archived policies, want 0 and 1", active.Total, archived.Total)
		}
		if a := c.Call("GET", at+"?status=gone", ""); a.Status != http.StatusBadRequest {
			t.Errorf("an unknown status: %d %s", a.Status, a.Body)
		}
		if a := c.Call("GET", path+"/not-a-uuid", ""); a.Status != http.StatusBadRequest {
			t.Errorf("an id that is not a UUID: %d %s", a.Status, a.Body)
		}
		if a := c.Call("GET", path+"/00000000-0000-7000-8000-00000000ffff", ""); a.Status != http.StatusNotFound {
			t.Errorf("an unknown id: %d %s", a.Status, a.Body)
		}
	}
}

func TestPoliciesAreListedByTypeAndUnit(t *testing.T) {
	c := routetest.New(t, policies.Routes{}.Add).Root()
	c.Must("POST", rates, rateBody, nil)
	c.Must("POST", rates, strings.Replace(rateBody, "rpm", "rpd", 1), nil)
	c.Must("POST", rates, strings.Replace(rateBody, `"requests"`, `"tokens"`, 1), nil)
	c.Must("POST", usages, costBody, nil)
	for query, want := range map[string]int{"": 3, "?unit=rpd": 1, "?type=tokens": 1, "?type=tokens&unit=rpd": 0, "?page_size=2": 3, "?workspace_id=default": 3} {
		var got list
		c.Must("GET", rates+query, "", &got)
		if got.Total != want || len(got.Data) > want {
			t.Errorf("%s: %d policies, want %d", query, got.Total, want)
		}
	}
}

func TestWithoutAnAPIKeyWorkspaceAndOrganisationAreRequired(t *testing.T) {
	b := routetest.New(t, policies.Routes{}.Add)
	b.Exec(`INSERT INTO users (id, email, first_name, last_name, password_hash, status, created_at, updated_at) VALUES ('u1', 'u@x.example', '', '', '', 'active', 0, 0)`)
	b.Exec(`INSERT INTO organisation_members (organisation_id, user_id, role, created_at, updated_at) VALUES ($1, 'u1', 'admin', 0, 0)`, store.DefaultOrganisation)
	scopes := access.Scopes(access.WorkspaceService)
	for name, c := range map[string]*routetest.Caller{
		"token":   b.As(access.Identity{Type: access.Token, Scopes: scopes}),
		"session": b.As(access.Identity{Type: access.Session, UserID: "u1", Workspace: "-", Scopes: scopes}),
	} {
		for _, tt := range []struct{ fields, param string }{
			{``, "workspace_id"},
			{`"organisation_id":"default",`, "workspace_id"},
			{`"workspace_id":"default",`, "organisation_id"},
			{`"workspace_id":"default","organisation_id":"default",`, ""},
			{`"workspace_id":"` + store.DefaultWorkspace + `","organisation_id":"` + store.DefaultOrganisation + `",`, ""},
		} {
			a := c.Call("POST", rates, strings.Replace(rateBody, "{", "{"+tt.fields, 1))
			if tt.param == "" && a.Status != 200 || tt.param != "" && (a.Status != 400 || !strings.Contains(a.Body, `"param":"`+tt.param+`"`)) {
				t.Errorf("%s with %s: %d %s", name, tt.fields, a.Status, a.Body)
			}
		}
	}
	b.As(access.Identity{Type: access.WorkspaceService, Scopes: scopes}).Must("POST", rates, rateBody, nil)
}

func TestPoliciesAreSeenAndChangedWhereTheyBelong(t *testing.T) {
	b := routetest.New(t, policies.Routes{}.Add)
	b.Exec(`INSERT INTO workspaces (id, organisation_id, slug, name, icon, description, defaults, settings, security_settings, usage_limits, rate_limits, is_default, status, created_by, created_at, updated_at)
		VALUES ('w2', $1, 'second', 'Second', '', '', '{}', '{}', '{}', '[]', '[]', FALSE, 'active', '', 0, 0)`, store.DefaultOrganisation)
	organisation := b.As(access.Identity{Type: access.OrganisationService, Workspace: "-", Scopes: access.Scopes(access.OrganisationService), Rank: access.RankOrganisation})
	own := b.As(access.Identity{Type: access.WorkspaceService, Scopes: access.Scopes(access.WorkspaceService), Rank: access.RankManager})
	second := b.As(access.Identity{Type: access.WorkspaceService, Workspace: "w2", Scopes: access.Scopes(access.WorkspaceService), Rank: access.RankManager})
	foreign := b.As(access.Identity{Type: access.OrganisationService, Organisation: "another", Workspace: "-", Scopes: access.Scopes(access.OrganisationService)})
	var mine, wide, given created
	own.Must("POST", rates, rateBody, &mine)
	organisation.Must("POST", rates, rateBody, &wide)
	organisation.Must("POST", rates, strings.Replace(rateBody, "{", `{"workspace_id":"second",`, 1), &given)
	for _, tt := range []struct {
		who    string
		caller *routetest.Caller
		sees   []string
	}{{"organisation", organisation, []string{mine.ID, wide.ID, given.ID}}, {"own", own, []string{mine.ID}}, {"second", second, []string{given.ID}}, {"foreign", foreign, nil}} {
		var got list
		tt.caller.Must("GET", rates, "", &got)
		if got.Total != len(tt.sees) {
			t.Errorf("%s lists %d policies, want %d", tt.who, got.Total, len(tt.sees))
		}
		for _, id := range []string{mine.ID, wide.ID, given.ID} {
			want := http.StatusNotFound
			if slices.Contains(tt.sees, id) {
				want = http.StatusOK
			}
			for _, path := range []string{"", "/entities"} {
				if a := tt.caller.Call("GET", rates+"/"+id+path, ""); a.Status != want {
					t.Errorf("%s reads %s: %d %s, want %d", tt.who, path, a.Status, a.Body, want)
				}
			}
			if want == http.StatusNotFound {
				for method, body := range map[string]string{"PUT": `{"value":1}`, "DELETE": ""} {
					if a := tt.caller.Call(method, rates+"/"+id, body); a.Status != want {
						t.Errorf("%s %s: %d %s, want %d", tt.who, method, a.Status, a.Body, want)
					}
				}
			}
		}
	}
	var got item
	organisation.Must("GET", rates+"/"+given.ID, "", &got)
	if got.Workspace == nil || *got.Workspace != "w2" {
		t.Errorf("created by slug, it belongs to %v; want the id w2", got.Workspace)
	}
	organisation.Must("GET", rates+"/"+wide.ID, "", &got)
	// A policy that an organisation set is not lifted by a workspace.
	for method, body := range map[string]string{"PUT": `{"value":1000}`, "DELETE": ""} {
		if a := second.Call(method, rates+"/"+given.ID, body); a.Status != http.StatusForbidden {
			t.Errorf("%s of a policy of a higher rank: %d %s", method, a.Status, a.Body)
		}
	}
	organisation.Must("POST", usages, strings.Replace(costBody, "{", `{"workspace_id":"second",`, 1), &given)
	spend(b, given.ID, "2026-05-01/0/api_key:a", 3, 2_500_000_000, 70)
	reset := usages + "/" + given.ID + "/entities/" + policy.EntityID("api_key:a") + "/reset"
	for path, body := range map[string]string{reset: "", usages + "/" + given.ID: `{"reset_usage_for_value":"api_key:a"}`} {
		if a := second.Call("PUT", path, body); a.Status != http.StatusForbidden {
			t.Errorf("a reset of a policy of a higher rank: %d %s", a.Status, a.Body)
		}
	}
	second.Must("PUT", usages+"/"+given.ID, `{"name":"ours"}`, nil)
	organisation.Must("PUT", reset, "", nil)
}

func TestPolicyRoutesNeedTheirScopes(t *testing.T) {
	b := routetest.New(t, policies.Routes{}.Add)
	var p created
	b.As(access.Identity{Type: access.WorkspaceService, Scopes: access.Scopes(access.WorkspaceService)}).Must("POST", rates, rateBody, &p)
	at := rates + "/" + p.ID
	calls := map[string][3]string{
		"policies.create": {"POST", rates, rateBody},
		"policies.list":   {"GET", rates, ""},
		"policies.read":   {"GET", at, ""},
		"policies.update": {"PUT", at, `{"value":9}`},
		"policies.delete": {"DELETE", at, ""},
	}
	for _, scope := range slices.Sorted(maps.Keys(calls)) {
		c := b.As(access.Identity{Type: access.WorkspaceService, Scopes: []access.Scope{access.Scope(scope)}})
		for name, call := range calls {
			want := http.StatusForbidden
			if name == scope {
				want = http.StatusOK
			}
			if name == "policies.read" && scope == "policies.delete" {
				continue
			}
			if a := c.Call(call[0], call[1], call[2]); a.Status != want && !(name == scope && scope > "policies.delete" && a.Status == http.StatusNotFound) {
				t.Errorf("%s with %s: %d %s, want %d", name, scope, a.Status, a.Body, want)
			}
		}
	}
}

func TestMembersCannotChangeThePoliciesThatLimitThem(t *testing.T) {
	b := routetest.New(t, policies.Routes{}.Add)
	for user, role := range map[string]string{"u1": "member", "u2": "manager"} {
		b.Exec(`INSERT INTO users (id, email, first_name, last_name, password_hash, status, created_at, updated_at) VALUES ($1, $1 || '@x.example', '', '', '', 'active', 0, 0)`, user)
		b.Exec(`INSERT INTO organisation_members (organisation_id, user_id, role, created_at, updated_at) VALUES ($1, $2, 'member', 0, 0)`, store.DefaultOrganisation, user)
		b.Exec(`INSERT INTO workspace_members (workspace_id, user_id, role, created_at, updated_at) VALUES ($1, $2, $3, 0, 0)`, store.DefaultWorkspace, user, role)
	}
	session := func(user string) *routetest.Caller {
		return b.As(access.Identity{Type: access.Session, UserID: user, Workspace: "-", Scopes: access.Scopes(access.Session)})
	}
	var p created
	body := strings.Replace(rateBody, "{", `{"workspace_id":"default","organisation_id":"default",`, 1)
	session("u2").Must("POST", rates, body, &p)
	member := session("u1")
	member.Must("GET", rates+"/"+p.ID, "", nil)
	for _, call := range [][3]string{{"POST", rates, body}, {"PUT", rates + "/" + p.ID, `{"value":1000}`}, {"DELETE", rates + "/" + p.ID, ""}} {
		if a := member.Call(call[0], call[1], call[2]); a.Status != http.StatusForbidden {
			t.Errorf("%s by a member: %d %s", call[0], a.Status, a.Body)
		}
	}
}

// spend adds what was spent under a policy.
func spend(b *routetest.Bench, policy, counter string, attempts, cost, tokens int64) {
	b.Exec(`INSERT INTO spending (kind, id, attempts, cost, tokens, unknown, unpriced) VALUES ('policy', $1, $2, $3, $4, 0, 0)`, policy+"/"+counter, attempts, cost, tokens)
}

func TestEntitiesOfAUsageLimitShowTheUsageOfThePeriod(t *testing.T) {
	b := routetest.New(t, policies.Routes{}.Add)
	c := b.Root()
	var p created
	c.Must("POST", usages, costBody, &p)
	spend(b, p.ID, "2026-05-01/0/api_key:a", 3, 1_250_000_000, 70)
	spend(b, p.ID, "2026-05-01/0/api_key:b", 4, 2_500_000_000, 80)
	spend(b, p.ID, "2026-04-01/0/api_key:a", 5, 9_000_000_000, 90)
	at := usages + "/" + p.ID
	for query, want := range map[string]string{
		"":                              "[api_key:a 1.25 active, api_key:b 2.5 exhausted] of 2",
		"?status=active":                "[api_key:a 1.25 active] of 1",
		"?status=exhausted":             "[api_key:b 2.5 exhausted] of 1",
		"?search=y:b":                   "[api_key:b 2.5 exhausted] of 1",
		"?page_size=1&current_page=1":   "[api_key:b 2.5 exhausted] of 2",
		"?page_size=1&current_page=200": "[] of 2",
	} {
		if got := getBody(c, at+"/entities"+query); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	for _, query := range []string{"?page_size=101", "?page_size=0", "?status=gone"} {
		if a := c.Call("GET", at+"/entities"+query, ""); a.Status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", query, a.Status, a.Body)
		}
	}
	var got item
	c.Must("GET", at+"?include_usage=true", "", &got)
	if len(got.Usage) != 2 || got.Usage["api_key:b"].Status != "exhausted" {
		t.Errorf("usage %+v", got.Usage)
	}
	c.Must("PUT", at, `{"credit_limit":3}`, nil)
	if got, want := getBody(c, at+"/entities?search=y:b"), "[api_key:b 2.5 active] of 1"; got != want {
		t.Errorf("after raising the limit %s, want %s", got, want)
	}
	b.Clock = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	if got, want := getBody(c, at+"/entities"), "[] of 0"; got != want {
		t.Errorf("in the next month %s, want %s", got, want)
	}
}

// getBody returns entities as text.
func getBody(c *routetest.Caller, path string) string {
	var e entities
	c.Must("GET", path, "", &e)
	var words []string
	for _, d := range e.Data {
		words = append(words, fmt.Sprint(d.ValueKey, " ", d.Usage, " ", d.Status))
	}
	return fmt.Sprintf("[%s] of %d", strings.Join(words, ", "), e.Total)
}

func TestTypesOfUsageLimitsReadTheirOwnUsage(t *testing.T) {
	b := routetest.New(t, policies.Routes{}.Add)
	c := b.Root()
	for typ, want := range map[string]string{"cost": "[api_key:a 1.5 active] of 1", "tokens": "[api_key:a 99 active] of 1", "requests": "[api_key:a 7 active] of 1"} {
		var p created
		c.Must("POST", usages, `{`+everyone+`,"type":"`+typ+`","credit_limit":100}`, &p)
		spend(b, p.ID, "-/0/api_key:a", 7, 1_500_000_000, 99)
		if got := getBody(c, usages+"/"+p.ID+"/entities"); got != want {
			t.Errorf("%s: %s, want %s", typ, got, want)
		}
	}
}

func TestOneEntityIsReset(t *testing.T) {
	b := routetest.New(t, policies.Routes{}.Add)
	c := b.Root()
	var p created
	c.Must("POST", usages, costBody, &p)
	spend(b, p.ID, "2026-05-01/0/api_key:a", 3, 2_500_000_000, 70)
	spend(b, p.ID, "2026-05-01/0/api_key:b", 3, 2_500_000_000, 70)
	at := usages + "/" + p.ID
	c.Must("PUT", at+"/entities/"+policy.EntityID("api_key:a")+"/reset", "", nil)
	if got, want := getBody(c, at+"/entities"), "[api_key:a 0 active, api_key:b 2.5 exhausted] of 2"; got != want {
		t.Errorf("after the reset %s, want %s", got, want)
	}
	spend(b, p.ID, "2026-05-01/1/api_key:a", 1, 1_000_000_000, 7)
	if got, want := getBody(c, at+"/entities?search=:a"), "[api_key:a 1 active] of 1"; got != want {
		t.Errorf("after more spend %s, want %s", got, want)
	}
	c.Must("PUT", at, `{"reset_usage_for_value":"api_key:b"}`, nil)
	if got, want := getBody(c, at+"/entities?search=:b"), "[api_key:b 0 active] of 1"; got != want {
		t.Errorf("after the reset by value %s, want %s", got, want)
	}
	if a := c.Call("PUT", at+"/entities/"+policy.EntityID("api_key:z")+"/reset", ""); a.Status != http.StatusNotFound {
		t.Errorf("an unknown entity: %d %s", a.Status, a.Body)
	}
}

func TestEntitiesOfARateLimitShowTheLiveCounters(t *testing.T) {
	counters := new(quota.Memory)
	var set *policy.Set
	b := routetest.New(t, policies.Routes{Policies: func() *policy.Set { return set }, Counters: counters}.Add)
	c := b.Root()
	var p created
	c.Must("POST", rates, strings.Replace(rateBody, `"value":10`, `"value":2`, 1), &p)
	publish := func() {
		rows, err := b.DB.ActivePolicies(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		resets, err := b.DB.PolicyResets(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		set = policy.Compile([]policy.Policy{rows[0].Rule(resets[p.ID])}, set)
	}
	use := func(key string) {
		f := policy.Facts{Time: b.Clock, Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, KeyID: key}
		v, err := counters.Reserve(t.Context(), b.Clock, []quota.Claim{{Limit: set.Match(nil, &f)[0], Amount: 1, Least: 1}})
		if err != nil || v.Refused >= 0 {
			t.Fatalf("%s is refused: %v", key, err)
		}
		counters.Settle(b.Clock, v.Grants, quota.Use{Requests: 1})
	}
	publish()
	use("a")
	use("b")
	use("b")
	at := rates + "/" + p.ID + "/entities"
	if got, want := getBody(c, at), "[api_key:a 1 active, api_key:b 2 exhausted] of 2"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	c.Must("PUT", at+"/"+policy.EntityID("api_key:b")+"/reset", "", nil)
	publish()
	use("b")
	if got, want := getBody(c, at), "[api_key:b 1 active] of 1"; got != want {
		t.Errorf("after the reset %s, want %s", got, want)
	}
}

func TestCountersOfEndedPeriodsAreRemoved(t *testing.T) {
	b := routetest.New(t, policies.Routes{}.Add)
	c := b.Root()
	var p created
	c.Must("POST", usages, costBody, &p)
	spend(b, p.ID, "2026-04-01/0/api_key:a", 3, 1, 1)
	spend(b, p.ID, "2026-05-01/0/api_key:a", 3, 1, 1)
	counters := func(now time.Time) []string {
		t.Helper()
		if err := b.Minute(t.Context(), now, false); err != nil {
			t.Fatal(err)
		}
		return b.Query(`SELECT SUBSTR(id, 38) FROM spending WHERE kind = 'policy'`)
	}
	if got := counters(b.Clock); !slices.Equal(got, []string{"2026-05-01/0/api_key:a"}) {
		t.Errorf("in May %q are left", got)
	}
	if got := counters(b.Clock.AddDate(0, 1, 0)); len(got) != 0 {
		t.Errorf("in June %q are left", got)
	}
}

func TestCountersBeforeAResetAreRemovedOnceTheEntityIsUsedAgain(t *testing.T) {
	b := routetest.New(t, policies.Routes{}.Add)
	c := b.Root()
	var p created
	c.Must("POST", usages, strings.Replace(costBody, `,"periodic_reset":"monthly"`, "", 1), &p)
	spend(b, p.ID, "-/0/api_key:a", 3, 1, 1)
	spend(b, p.ID, "-/0/api_key:b", 3, 1, 1)
	spend(b, p.ID, "-/0/api_key:c/1", 3, 1, 1)
	for _, key := range []string{"api_key:a", "api_key:b"} {
		c.Must("PUT", usages+"/"+p.ID+"/entities/"+policy.EntityID(key)+"/reset", "", nil)
	}
	spend(b, p.ID, "-/1/api_key:a", 1, 1, 1)
	if err := b.Minute(t.Context(), b.Clock, false); err != nil {
		t.Fatal(err)
	}
	got := b.Query(`SELECT SUBSTR(id, 38) FROM spending WHERE kind = 'policy' ORDER BY id`)
	if want := []string{"-/0/api_key:b", "-/0/api_key:c/1", "-/1/api_key:a"}; !slices.Equal(got, want) {
		t.Errorf("%q are left, want %q", got, want)
	}
}

func TestChangesOfPoliciesAreAudited(t *testing.T) {
	b := routetest.New(t, policies.Routes{}.Add)
	c := b.Root()
	var p created
	c.Must("POST", usages, costBody, &p)
	spend(b, p.ID, "2026-05-01/0/api_key:a", 3, 1, 1)
	c.Must("PUT", usages+"/"+p.ID, `{"credit_limit":9}`, nil)
	c.Must("PUT", usages+"/"+p.ID+"/entities/"+policy.EntityID("api_key:a")+"/reset", "", nil)
	c.Must("DELETE", usages+"/"+p.ID, "", nil)
	got := b.Query(`SELECT action || ' ' || resource_type || ' ' || CASE WHEN resource_id = '` + p.ID + `' THEN 'it' ELSE resource_id END FROM audit_logs ORDER BY sequence`)
	if want := []string{"create policy it", "update policy it", "update policy it", "delete policy it"}; !slices.Equal(got, want) {
		t.Errorf("audited %q, want %q", got, want)
	}
}
