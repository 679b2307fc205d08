package analytics_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/controlplane/analytics"
	"modelgate/internal/controlplane/configs"
	"modelgate/internal/controlplane/workspaces"
	"modelgate/internal/identity/access"
	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
	"modelgate/internal/testing/routetest"
)

// bench is an API over a log.
type bench struct {
	*routetest.Bench
	logs *logstore.Store
}

func newBench(t *testing.T) *bench {
	t.Helper()
	logs, err := logstore.Open(t.Context(), logstore.Options{Path: filepath.Join(t.TempDir(), "logs.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { logs.Close(context.Background()) })
	b := &bench{logs: logs}
	b.Bench = routetest.New(t, analytics.Routes{GroupEntries: logs.Groups}.Add, workspaces.Add, configs.Add)
	return b
}

// entry is a request, so many minutes before the bench's clock.
type entry struct {
	minutes           int
	workspace, key    string
	service, model    string
	status, ms        int
	prompt, written   int64 // tokens; negative for unknown
	nano              int64 // cost; negative for unknown
	cache, user, slug string
	tried             string // targets
}

// seeded are requests whose sums were done by hand.
var seeded = []entry{
	{60, store.DefaultWorkspace, "k1", "openai", "gpt", 200, 100, 10, 1, 10_000_000, "MISS", "ann", "main", "a a"},
	{60, store.DefaultWorkspace, "k1", "openai", "gpt", 200, 300, 30, 3, 30_000_000, "HIT", "ann", "main", "a b"},
	{50, store.DefaultWorkspace, "k2", "openai", "gpt", 429, 20, -1, -1, -1, "MISS", "bob", "main", "a a"},
	{40, store.DefaultWorkspace, "k2", "anthropic", "sonnet", 200, 500, 40, 6, -1, "SEMANTIC HIT", "bob", "claude", "a a a a"},
	{30, store.DefaultWorkspace, "k1", "anthropic", "sonnet", 500, 60, -1, -1, -1, "MISS", "", "", ""},
}

func (b *bench) seed(t *testing.T, entries ...entry) {
	t.Helper()
	for _, e := range entries {
		b.logs.Record(t.Context(), e.logEntry(b.Clock))
	}
	if err := b.logs.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (e entry) logEntry(now time.Time) *reqlog.Entry {
	at := now.Add(-time.Duration(e.minutes) * time.Minute)
	out := &reqlog.Entry{
		ID: reqlog.NewID(at), Time: at, Sender: reqlog.Sender{Organisation: store.DefaultOrganisation, Workspace: e.workspace, KeyID: e.key},
		Origin: reqlog.Origin{Provider: e.service, Slug: e.slug, CacheStatus: e.cache}, Input: reqlog.Input{Model: e.model, Prompt: reqlog.Prompt{Slug: "greeting"}}, Result: reqlog.Result{Status: e.status}, Durations: reqlog.Durations{Total: time.Duration(e.ms) * time.Millisecond},
	}
	for i, target := range strings.Fields(e.tried) {
		out.Attempts = append(out.Attempts, reqlog.Attempt{Target: target, Start: time.Duration(i)})
		out.OptionIndex = target
	}
	if e.prompt >= 0 {
		out.Usage = llm.Usage{Input: e.prompt, Output: e.written, Known: true}
	}
	if e.nano >= 0 {
		out.Cost, out.Priced = catalog.NanoDollars(e.nano), true
	}
	if strings.HasSuffix(e.cache, "HIT") {
		out.Saved = reqlog.Saved{Response: 15_000_000, Prompt: -2_500_000}
	}
	if e.user != "" {
		out.Metadata = map[string]string{"_user": e.user}
	}
	return out
}

// mustGet returns the response's body without spaces.
func mustGet(t *testing.T, c *routetest.Caller, path string) string {
	t.Helper()
	var raw json.RawMessage
	c.Must("GET", path, "", &raw)
	return strings.TrimSpace(string(raw))
}

const all = "cost,total_tokens,avg_tokens,avg_input_tokens,avg_output_tokens,avg_latency,p95_latency,p99_latency,success_rate,error_count,cache_hit_rate,saved_cost,prompt_cache_saved_cost,last_seen,first_seen"

func TestListParametersMayBeRepeated(t *testing.T) {
	b := newBench(t)
	b.seed(t, seeded...)
	root := b.Root()
	for _, path := range []string{"/analytics/groups/model?columns=%s", "/analytics/groups/model?columns=cost&model=gpt%s"} {
		joined, repeated := fmt.Sprintf(path, "cost,avg_tokens"), fmt.Sprintf(path, "cost&columns=avg_tokens")
		if strings.Contains(path, "model=") {
			joined, repeated = fmt.Sprintf(path, ",sonnet"), fmt.Sprintf(path, "&model=sonnet")
		}
		if want, got := mustGet(t, root, joined), mustGet(t, root, repeated); got != want || !strings.Contains(got, `"cost"`) {
			t.Errorf("%s returns %s, want %s", repeated, got, want)
		}
	}
	if a := root.Call("GET", "/analytics/groups/model?page_size=1&page_size=2", ""); a.Status != 400 || !strings.Contains(a.Body, "page_size") {
		t.Errorf("a repeated parameter that is not a list: %d %s", a.Status, a.Body)
	}
}

func TestColumnsTellWhatTheEntriesComeTo(t *testing.T) {
	b := newBench(t)
	b.seed(t, seeded...)
	var got struct{ Data []map[string]any }
	b.Root().Must("GET", "/analytics/groups/model?columns="+all, "", &got)
	for _, row := range got.Data { // percentiles are within 1 %
		for name, want := range map[string]map[string]float64{"p95_latency": {"gpt": 300, "sonnet": 500}, "p99_latency": {"gpt": 300, "sonnet": 500}} {
			exact := want[row["model"].(string)]
			if v := row[name].(float64); v < 0.99*exact || v > 1.01*exact {
				t.Errorf("%s of %v = %v, want %v within 1 %%", name, row["model"], v, exact)
			}
			delete(row, name)
		}
	}
	want := []map[string]any{
		{
			"model": "gpt", "object": "analytics-group", "requests": 3.0, "cost": 4.0, "total_tokens": 44.0, "avg_tokens": 22.0,
			"avg_input_tokens": 20.0, "avg_output_tokens": 2.0, "avg_latency": 140.0, "success_rate": 200.0 / 3, "error_count": 1.0,
			"cache_hit_rate": 100.0 / 3, "saved_cost": 1.5, "prompt_cache_saved_cost": -0.25, "first_seen": "2026-05-01T11:00:00.000Z", "last_seen": "2026-05-01T11:10:00.000Z",
		},
		{
			"model": "sonnet", "object": "analytics-group", "requests": 2.0, "cost": nil, "total_tokens": 46.0, "avg_tokens": 46.0,
			"avg_input_tokens": 40.0, "avg_output_tokens": 6.0, "avg_latency": 280.0, "success_rate": 50.0, "error_count": 1.0,
			"cache_hit_rate": 50.0, "saved_cost": 1.5, "prompt_cache_saved_cost": -0.25, "first_seen": "2026-05-01T11:20:00.000Z", "last_seen": "2026-05-01T11:30:00.000Z",
		},
	}
	if diff := cmp.Diff(want, got.Data); diff != "" {
		t.Errorf("groups by model (-want +got):\n%s", diff)
	}
}

// getCounts writes each group's value and requests, and how many there are.
func getCounts(t *testing.T, c *routetest.Caller, path string) string {
	t.Helper()
	var got struct {
		Total int
		Data  []map[string]any
	}
	c.Must("GET", path, "", &got)
	var out strings.Builder
	out.WriteString(fmt.Sprint(got.Total, ":"))
	for _, row := range got.Data {
		n := row["requests"]
		delete(row, "requests")
		delete(row, "object")
		for _, v := range row {
			out.WriteString(fmt.Sprintf(" %v=%v", v, n))
		}
	}
	return out.String()
}

func TestRequestsAreCountedByEachGroup(t *testing.T) {
	b := newBench(t)
	b.seed(t, seeded...)
	c := b.Root()
	for group, want := range map[string]string{
		"ai_service": "2: openai=3 anthropic=2", "model": "2: gpt=3 sonnet=2", "status_code": "3: 200=3 429=1 500=1", "api_key": "2: k1=3 k2=2",
		"config": "1: <nil>=5", "workspace": "1: " + store.DefaultWorkspace + "=5", "provider": "3: main=3 <nil>=1 claude=1", "prompt": "1: greeting=5",
	} {
		for _, base := range []string{"/analytics/groups/", "/logs/groups/"} {
			if got := getCounts(t, c, base+group); got != want {
				t.Errorf("GET %s%s = %s, want %s", base, group, got, want)
			}
		}
	}
}

func TestGroupsAreFilteredOrderedAndPaged(t *testing.T) {
	b := newBench(t)
	b.seed(t, seeded...)
	c := b.Root()
	for _, tt := range []struct{ path, want string }{
		{"model?status_code=200", "2: gpt=2 sonnet=1"},
		{"model?status_code=200,500&api_key_ids=k1", "2: gpt=2 sonnet=1"},
		{"api_key?ai_org_model=openai__gpt", "2: k1=2 k2=1"},
		{"api_key?virtual_keys=@claude", "1: k2=1"},
		{"model?workspace_slug=default", "2: gpt=3 sonnet=2"},
		{"model?time_of_generation_min=2026-05-01T11:15:00Z", "1: sonnet=2"},
		{"model?time_of_generation_min=2026-05-01T11:00:00Z&time_of_generation_max=2026-05-01T11:01:00Z", "1: gpt=2"},
		{"model?time_of_generation_max=2026-05-01T13:30:00%2B02:00", "2: gpt=3 sonnet=1"},
		{"api_key?metadata=" + url.QueryEscape(`{"_user":"bob"}`), "1: k2=2"},
		{"model?total_units_min=12", "2: gpt=1 sonnet=1"},
		{"model?prompt_token_max=30", "1: gpt=2"},
		{"model?completion_token_min=3&completion_token_max=5", "1: gpt=1"},
		{"model?cost_min=1.5&cost_max=3", "1: gpt=1"},
		{"model?trace_id=none", "0:"},
		{"model?order_by=group&order_by_type=asc", "2: gpt=3 sonnet=2"},
		{"model?order_by=avg_latency", "2: sonnet=2 gpt=3"},
		{"model?order_by=cost&order_by_type=asc", "2: gpt=3 sonnet=2"},
		{"model?order_by=last_seen", "2: sonnet=2 gpt=3"},
		{"model?order_by=p99_latency&order_by_type=asc", "2: gpt=3 sonnet=2"},
		{"status_code?order_by=group&order_by_type=desc", "3: 500=1 429=1 200=3"},
		{"model?page_size=1", "2: gpt=3"},
		{"model?page_size=1&current_page=1", "2: sonnet=2"},
		{"model?page_size=1&current_page=2", "2:"},
		{"users", "2: ann=2 bob=2"},
		{"metadata/_user?status_code=200", "2: ann=2 bob=1"},
		{"ai-models", "2: gpt=3 sonnet=2"},
	} {
		path := "/analytics/groups/" + tt.path
		if got := getCounts(t, c, path); !inOrder(got, tt.want) {
			t.Errorf("GET %s = %s, want %s", path, got, tt.want)
		}
	}
}

func TestRequestsAreDistinguishedByTheirConfig(t *testing.T) {
	b := newBench(t)
	c := b.Root()
	var stored struct{ Data struct{ ID, Slug string } }
	c.Must("POST", "/configs", `{"name":"Mine","config":{"retry":{"attempts":1}},"workspace_id":"default"}`, &stored)
	id, slug := stored.Data.ID, stored.Data.Slug
	for i, config := range []string{id, id, "pc-of-the-file", ""} {
		e := seeded[i].logEntry(b.Clock)
		e.Config = config
		b.logs.Record(t.Context(), e)
	}
	b.seed(t)
	for path, want := range map[string]string{
		"/analytics/groups/config":                                    "3: " + id + "=2 <nil>=1 pc-of-the-file=1",
		"/logs/groups/config?configs=" + id:                           "1: " + id + "=2",
		"/analytics/groups/config?configs=" + slug:                    "1: " + id + "=2",
		"/analytics/groups/model?configs=pc-of-the-file":              "1: gpt=1",
		"/analytics/groups/model?configs=" + slug + ",pc-of-the-file": "1: gpt=3",
	} {
		if got := getCounts(t, c, path); got != want {
			t.Errorf("GET %s = %s, want %s", path, got, want)
		}
	}
}

// inOrder reports whether got has the words of want one after the other: some
// routes have further columns.
func inOrder(got, want string) bool {
	for w := range strings.FieldsSeq(want) {
		_, rest, ok := strings.Cut(got, w)
		if !ok {
			return false
		}
		got = rest
	}
	return true
}

func TestQueriesThatCantBeMeantAreRefused(t *testing.T) {
	b := newBench(t)
	c := b.Root()
	for path, field := range map[string]string{
		"groups/colour":                                           "groupBy",
		"groups/model?columns=cost,colour":                        "columns",
		"groups/model?order_by=colour":                            "order_by",
		"groups/model?order_by_type=up":                           "order_by_type",
		"groups/model?page_size=0":                                "page_size",
		"groups/model?status_code=bad":                            "status_code",
		"groups/model?cost_min=-1":                                "cost_min",
		"groups/model?total_units_min=1.5":                        "total_units_min",
		"groups/model?total_units_max=123456789012345678":         "total_units_max",
		"groups/model?cost_max=1.":                                "cost_max",
		"groups/model?cost_max=.5":                                "cost_max",
		"groups/model?cost_max=1.12345678":                        "cost_max",
		"groups/model?cost_max=1e3":                               "cost_max",
		"groups/model?prompt_token_min=%2B5":                      "prompt_token_min",
		"groups/model?metadata=x":                                 "metadata",
		"groups/model?metadata=null":                              "metadata",
		"groups/model?metadata=%7B%22a%22:1%7D":                   "metadata",
		"groups/model?ai_org_model=gpt":                           "ai_org_model",
		"groups/model?weighted_feedback_min=high":                 "weighted_feedback_min",
		"graphs/feedbacks/scores?weighted_feedback_max=11":        "weighted_feedback_max",
		"graphs/feedbacks?ai_org_model=gpt":                       "ai_org_model",
		"graphs/cost?time_of_generation_min=soon":                 "time_of_generation_min",
		"graphs/cost?time_of_generation_min=2024-05-01T00:00:00Z": "time_of_generation_min",
		"graphs/cost?time_of_generation_min=2026-05-01T00:00:00Z&time_of_generation_max=2026-05-01T00:00:00Z": "time_of_generation_max",
	} {
		a := c.Call("GET", "/analytics/"+path, "")
		if a.Status != http.StatusBadRequest || !strings.Contains(string(a.Body), field) {
			t.Errorf("GET %s: %d %s, want 400 naming %s", path, a.Status, a.Body, field)
		}
	}
	if a := c.Call("GET", "/analytics/groups/model?workspace_id=none", ""); a.Status != http.StatusNotFound {
		t.Errorf("of a workspace that is not there: %d %s, want 404", a.Status, a.Body)
	}
}

func TestGraphsTellTheirSummary(t *testing.T) {
	b := newBench(t)
	b.seed(t, seeded...)
	c := b.Root()
	for path, want := range map[string]string{
		"requests":            `{"total":5}`,
		"requests/rescued":    `{"fallback":1,"retry":[{"count":1,"retry_success_count":1},{"count":1,"retry_success_count":3}]}`,
		"cost":                `{"avg":2,"estimated_requests":0,"total":4,"total_nano_usd":40000000,"unpriced_requests":3}`,
		"tokens":              `{"avg":30,"estimated_requests":0,"total":90}`,
		"errors":              `{"total":2}`,
		"errors/rate":         `{"rate":40}`,
		"errors/stacks":       `{"total":2}`,
		"errors/status-codes": `{"total_errors":2,"unique_error_codes":2}`,
		"cache/hit-rate":      `{"rate":40,"semantic_hits":1,"simple_hits":1,"total":2}`,
		"cache/latency":       `{"avg":400}`,
		"users":               `{"avg_requests":2,"total":2}`,
	} {
		var got struct{ Summary json.RawMessage }
		c.Must("GET", "/analytics/graphs/"+path, "", &got)
		if string(got.Summary) != want {
			t.Errorf("summary of %s = %s, want %s", path, got.Summary, want)
		}
	}
	var latency struct{ Summary map[string]float64 }
	c.Must("GET", "/analytics/graphs/latency", "", &latency)
	for name, want := range map[string]float64{"avg": 196, "p50": 100, "p90": 500, "p99": 500} {
		if got := latency.Summary[name]; got < 0.99*want || got > 1.01*want {
			t.Errorf("latency %s = %v, want %v within 1 %%", name, got, want)
		}
	}
	if got, want := mustGet(t, c, "/analytics/summary/cache"), `{"object":"analytics-summary","summary":{"hits":2,"avg_latency":400,"total_requests":5,"cache_speedup":0.15,"saved_cost":3,"saved_cost_nano_usd":30000000,"prompt_cache_saved_cost_nano_usd":-5000000,"prompt_cache_saved_cost":-0.5}}`; got != want {
		t.Errorf("cache = %s, want %s", got, want)
	}
}

func TestGraphsHaveAPointForEachStep(t *testing.T) {
	b := newBench(t)
	b.seed(t, seeded...)
	c := b.Root()
	const span = "?time_of_generation_min=2026-05-01T10:58:00Z&time_of_generation_max=2026-05-01T11:02:00Z"
	for path, want := range map[string]string{
		"requests":      `[{"timestamp":"2026-05-01T10:58:00.000Z","total":0},{"timestamp":"2026-05-01T10:59:00.000Z","total":0},{"timestamp":"2026-05-01T11:00:00.000Z","total":2},{"timestamp":"2026-05-01T11:01:00.000Z","total":0}]`,
		"errors/stacks": `[{"stats":[],"timestamp":"2026-05-01T10:58:00.000Z"},{"stats":[],"timestamp":"2026-05-01T10:59:00.000Z"},{"stats":[],"timestamp":"2026-05-01T11:00:00.000Z"},{"stats":[],"timestamp":"2026-05-01T11:01:00.000Z"}]`,
	} {
		var got struct {
			Points json.RawMessage `json:"data_points"`
		}
		c.Must("GET", "/analytics/graphs/"+path+span, "", &got)
		if string(got.Points) != want {
			t.Errorf("points of %s = %s, want %s", path, got.Points, want)
		}
	}
	for days, want := range map[int]int{1: 145, 7: 169, 365: 366} {
		var got struct {
			Points []map[string]any `json:"data_points"`
		}
		c.Must("GET", "/analytics/graphs/errors/stacks?time_of_generation_max=2026-05-01T12:05:00Z&time_of_generation_min="+
			b.Clock.Add(5*time.Minute).AddDate(0, 0, -days).Format(time.RFC3339), "", &got)
		if len(got.Points) != want {
			t.Errorf("%d days have %d points, want %d", days, len(got.Points), want)
		}
	}
}

// addPeople are one of each role in two workspaces, of which the second becomes
// archived.
func (b *bench) addPeople(t *testing.T) (ids map[string]*routetest.Caller, second string) {
	t.Helper()
	var w struct{ ID, Slug string }
	b.Root().Must("POST", "/workspaces", `{"name":"second"}`, &w)
	ids = make(map[string]*routetest.Caller)
	for id, role := range map[string]string{"owner": "owner", "admin": "admin", "manager": "member", "member": "member"} {
		b.Exec(`INSERT INTO users (id, email, first_name, last_name, password_hash, status, created_at, updated_at)
			VALUES ($1, $1 || '@example.com', '', '', '', 'active', 0, 0)`, id)
		b.Exec(`INSERT INTO organisation_members (organisation_id, user_id, role, created_at, updated_at) VALUES ($1, $2, $3, 0, 0)`, store.DefaultOrganisation, id, role)
		ids[id] = b.As(access.Identity{Type: access.Session, KeyID: "session of " + id, UserID: id, Workspace: "-", Scopes: access.RoleScopes(role)})
		if role == "member" {
			for _, at := range []string{store.DefaultWorkspace, w.ID} {
				b.Exec(`INSERT INTO workspace_members (workspace_id, user_id, role, created_at, updated_at) VALUES ($1, $2, $3, 0, 0)`, at, id, id)
			}
		}
	}
	for name, typ := range map[string]access.KeyType{"workspace key": access.WorkspaceService, "organisation key": access.OrganisationService} {
		id := access.Identity{Type: typ, KeyID: name, Scopes: access.Scopes(typ)}
		if typ == access.OrganisationService {
			id.Workspace = "-"
		}
		ids[name] = b.As(id)
	}
	return ids, w.ID
}

func TestArchivedWorkspacesAreShownToAdministrators(t *testing.T) {
	b := newBench(t)
	callers, second := b.addPeople(t)
	b.seed(t, seeded[0])
	old := seeded[1]
	old.workspace = second
	b.seed(t, old)
	at := "/analytics/groups/workspace"
	both := "2: " + store.DefaultWorkspace + "=1 " + second + "=1"
	if got := getCounts(t, callers["organisation key"], at); got != both {
		t.Errorf("before: %s, want %s", got, both)
	}
	b.Root().Must("DELETE", "/admin/workspaces/"+second, `{"name":"second"}`, nil)
	for name, want := range map[string]string{"owner": both, "admin": both, "organisation key": "1: " + store.DefaultWorkspace + "=1", "workspace key": "1: " + store.DefaultWorkspace + "=1"} {
		if got := getCounts(t, callers[name], at); got != want {
			t.Errorf("%s is shown %s, want %s", name, got, want)
		}
	}
	for name, want := range map[string]int{"owner": 200, "admin": 200, "organisation key": 404, "manager": 404, "member": 404} {
		if a := callers[name].Call("GET", at+"?workspace_id="+second, ""); a.Status != want {
			t.Errorf("%s asks for the archived workspace: %d %s, want %d", name, a.Status, a.Body, want)
		}
	}
	if got := getCounts(t, callers["admin"], at+"?workspace_slug="+second); got != "1: "+second+"=1" {
		t.Errorf("the admin is shown %s of the archived workspace", got)
	}
}

func TestRolesSeeWhatTheOrganisationSays(t *testing.T) {
	b := newBench(t)
	callers, _ := b.addPeople(t)
	b.seed(t, seeded...)
	if err := b.DB.CreateKey(t.Context(), store.Key{ID: "k2", Type: access.WorkspaceUser, Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, UserID: "member", Name: "n", Hash: access.HashKey("k2"), Mask: "k2", Status: store.Active, CreatedAt: b.Clock, UpdatedAt: b.Clock}); err != nil {
		t.Fatal(err)
	}
	const path = "/analytics/groups/api_key?workspace_id=default"
	for _, tt := range []struct{ switches, member, manager string }{
		{`{}`, "2: k1=3 k2=2", "2: k1=3 k2=2"},
		{`{"membersViewAllData":false}`, "1: k2=2", "2: k1=3 k2=2"},
		{`{"managersViewAllData":false}`, "2: k1=3 k2=2", "0:"},
		{`{"membersViewAnalytics":false}`, "403", "2: k1=3 k2=2"},
		{`{"managersViewAnalytics":false}`, "2: k1=3 k2=2", "403"},
	} {
		b.Exec(`UPDATE organisations SET settings = $1`, `{"security_settings":`+tt.switches+`}`)
		for name, want := range map[string]string{"member": tt.member, "manager": tt.manager, "admin": "2: k1=3 k2=2", "owner": "2: k1=3 k2=2"} {
			for _, at := range []string{path, strings.Replace(path, "analytics", "logs", 1)} {
				a := callers[name].Call("GET", at, "")
				got := fmt.Sprint(a.Status)
				if a.Status == http.StatusOK {
					got = getCounts(t, callers[name], at)
				}
				if got != want {
					t.Errorf("with %s the %s gets %s from %s, want %s", tt.switches, name, got, at, want)
				}
			}
		}
	}
}

func TestOtherOrganisationsAreNotSummed(t *testing.T) {
	b := newBench(t)
	other := seeded[0].logEntry(b.Clock)
	other.Organisation = "rival"
	b.logs.Record(t.Context(), other)
	b.seed(t, seeded[1])
	if got := getCounts(t, b.Root(), "/analytics/groups/model"); got != "1: gpt=1" {
		t.Errorf("groups = %s, want those of one organisation", got)
	}
}
