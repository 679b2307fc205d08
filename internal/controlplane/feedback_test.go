package controlplane_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/routetest"
)

func TestFeedbackIsGivenOfATraceAndChanged(t *testing.T) {
	g := gatewaytest.New(t, gatewaytest.Options{})
	made := g.Post("/chat/completions", chat, "x-gateway-metadata", `{"team":"x"}`)
	trace := made.Header.Get("x-gateway-trace-id")
	one := g.Post("/feedback", fmt.Sprintf(`{"trace_id":%q,"value":5,"weight":0.5,"metadata":{"by":"ann"}}`, trace))
	for given := time.Now().UnixMilli(); time.Now().UnixMilli() <= given; { // feedback is in order of its millisecond
		runtime.Gosched()
	}
	many := g.Post("/feedback", fmt.Sprintf(`[{"trace_id":%q,"value":-10},{"trace_id":"elsewhere","value":0}]`, trace))
	first, _ := one.JSON(t)["feedback_ids"].([]any)
	rest, _ := many.JSON(t)["feedback_ids"].([]any)
	if one.Status != 200 || one.JSON(t)["status"] != "success" || len(first) != 1 || len(rest) != 2 {
		t.Fatalf("feedback: %d %s, %d %s", one.Status, one.Body, many.Status, many.Body)
	}
	list := g.Get("/feedback?trace_id=" + trace)
	for _, part := range []string{`"total":2`, `"value":5,"weight":0.5,"metadata":{"by":"ann"},"ai_model":"sim-1"`, `"value":-10,"weight":1,"metadata":{}`} {
		if !strings.Contains(string(list.Body), part) {
			t.Errorf("the feedback of the trace = %s, want %s", list.Body, part)
		}
	}
	if tree := string(g.Get("/logs/traces/" + trace).Body); !strings.Contains(tree, `"feedback":[{"object":"feedback","id":"`+rest[0].(string)) {
		t.Errorf("the trace = %s", tree)
	}
	changed := g.Do(g.Request("PUT", "/feedback/"+first[0].(string), `{"value":6,"metadata":null}`))
	if changed.Status != 200 || changed.JSON(t)["status"] != "success" {
		t.Errorf("changing: %d %s", changed.Status, changed.Body)
	}
	if list := string(g.Get("/feedback?trace_id=" + trace).Body); !strings.Contains(list, `"value":6,"weight":0.5,"metadata":{}`) {
		t.Errorf("after the change = %s", list)
	}
	// 6 * 0.5 and -10 are -3.5 on average.
	for path, want := range map[string]string{
		"/logs?weighted_feedback_min=-4&weighted_feedback_max=-3.5":        trace,
		"/logs?weighted_feedback_min=-3":                                   `"data":[]`,
		"/logs/traces?weighted_feedback_max=-3":                            trace,
		"/analytics/groups/model?weighted_feedback_max=0":                  `"model":"sim-1"`,
		"/analytics/groups/model?weighted_feedback_min=0":                  `"total":0`,
		"/analytics/groups/metadata/team":                                  `"avg_weighted_feedback":-3.5`,
		"/analytics/groups/metadata/team?page_size=5":                      `"requests_with_feedback":1`,
		"/analytics/graphs/feedbacks":                                      `"summary":{"total":3}`,
		"/analytics/graphs/feedbacks/scores":                               `[{"score":-10,"total":1},{"score":0,"total":1},{"score":6,"total":1}]`,
		"/analytics/graphs/feedbacks/weighted?trace_id=" + trace:           `"summary":{"avg":-3.5}`,
		"/analytics/graphs/feedbacks/ai-models?weighted_feedback_max=-0.1": `[{"ai_model":"sim-1","avg_weighted_feedback":-10,"total":1}]`,
	} {
		if got := string(g.Get(path).Body); !strings.Contains(got, want) {
			t.Errorf("GET %s = %.600s, want %s", path, got, want)
		}
	}
}

func TestFeedbackThatCannotBeMeantIsRefusedWhole(t *testing.T) {
	g := gatewaytest.New(t, gatewaytest.Options{})
	made, _ := g.Post("/feedback", `{"trace_id":"t","value":1}`).JSON(t)["feedback_ids"].([]any)
	for _, tt := range []struct{ method, path, body, param string }{
		{"POST", "/feedback", `{}`, "trace_id"},
		{"POST", "/feedback", `[]`, "body"},
		{"POST", "/feedback", `{"trace_id":"","value":1}`, "trace_id"},
		{"POST", "/feedback", `{"trace_id":7,"value":1}`, "trace_id"},
		{"POST", "/feedback", `{"trace_id":"` + strings.Repeat("t", 257) + `","value":1}`, "trace_id"},
		{"POST", "/feedback", `{"trace_id":"t"}`, "value"},
		{"POST", "/feedback", `{"trace_id":"t","value":null}`, "value"},
		{"POST", "/feedback", `{"trace_id":"t","value":11}`, "value"},
		{"POST", "/feedback", `{"trace_id":"t","value":1.5}`, "value"},
		{"POST", "/feedback", `{"trace_id":"t","value":"1"}`, "value"},
		{"POST", "/feedback", `{"trace_id":"t","value":1,"weight":1.1}`, "weight"},
		{"POST", "/feedback", `{"trace_id":"t","value":1,"weight":-1}`, "weight"},
		{"POST", "/feedback", `{"trace_id":"t","value":1,"metadata":[]}`, "metadata"},
		{"POST", "/feedback", `{"trace_id":"t","value":1,"metadata":{"n":1}}`, "metadata.n"},
		{"POST", "/feedback", `{"trace_id":"t","value":1,"organisation":"o"}`, "organisation"},
		{"POST", "/feedback", `[{"trace_id":"t","value":1},{"trace_id":"t","value":99}]`, "[1].value"},
		{"PUT", "/feedback/" + made[0].(string), `{}`, "value"},
		{"PUT", "/feedback/" + made[0].(string), `{"value":-11}`, "value"},
		{"PUT", "/feedback/" + made[0].(string), `{"value":1,"weight":2}`, "weight"},
		{"PUT", "/feedback/" + made[0].(string), `{"value":1,"metadata":{"n":1}}`, "metadata"},
		{"PUT", "/feedback/" + made[0].(string), `{"value":1,"metadata":{"n":"` + strings.Repeat("x", 513) + `"}}`, "metadata"},
		{"PUT", "/feedback/" + made[0].(string), `{"value":1,"trace_id":"t"}`, "trace_id"},
		{"GET", "/feedback?page_size=0", "", "page_size"},
		{"GET", "/feedback?trace=t", "", "trace"},
		{"GET", "/logs?weighted_feedback_min=11", "", "weighted_feedback_min"},
		{"GET", "/logs?weighted_feedback_min=NaN", "", "weighted_feedback_min"},
		{"GET", "/logs?weighted_feedback_min=1&weighted_feedback_max=0", "", "weighted_feedback_min"},
		{"GET", "/logs/tail?weighted_feedback_min=1", "", "weighted_feedback_min"},
		{"GET", "/analytics/graphs/feedbacks?status_code=200", "", "status_code"},
		{"GET", "/analytics/graphs/feedbacks?weighted_feedback_max=10.5", "", "weighted_feedback_max"},
		{"GET", "/analytics/groups/model?weighted_feedback_min=2&weighted_feedback_max=1", "", "weighted_feedback_min"},
	} {
		res := g.Do(g.Request(tt.method, tt.path, tt.body))
		if res.Status != 400 || !strings.Contains(string(res.Body), tt.param) {
			t.Errorf("%s %s %.80s: %d %.400s, want 400 for %s", tt.method, tt.path, tt.body, res.Status, res.Body, tt.param)
		}
	}
	for _, path := range []string{"/feedback/none", "/feedback/01a1fe06-d81f-78a8-8999-000000000000"} {
		if res := g.Do(g.Request("PUT", path, `{"value":1}`)); res.Status != 404 {
			t.Errorf("PUT %s: %d %s, want 404", path, res.Status, res.Body)
		}
	}
	if list := g.Get("/feedback").JSON(t); list["total"] != 1.0 {
		t.Errorf("there is feedback that was refused: %v", list)
	}
}

func TestFeedbackIsShownToReadersOfItsTrace(t *testing.T) {
	w := newWorld(t)
	others := w.outsiders()
	var own, given struct {
		ID  string
		IDs []string `json:"feedback_ids"`
	}
	w.root.Must("POST", "/api-keys/workspace/user", `{"name":"own","scopes":["models.list"],"user_id":"member","workspace_id":"default"}`, &own)
	for _, key := range []string{"service", own.ID} {
		at := time.Now().Add(-time.Minute)
		w.log.Record(t.Context(), &reqlog.Entry{ID: reqlog.NewID(at), Time: at, Trace: reqlog.Trace{TraceID: "of " + key}, Sender: reqlog.Sender{Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, KeyID: key}})
	}
	giver := w.CallerOf("workspace key")
	giver.Must("POST", "/feedback", `[{"trace_id":"of service","value":1},{"trace_id":"of `+own.ID+`","value":2}]`, &given)
	other := others["another workspace"]
	other.Must("POST", "/feedback", `{"trace_id":"of service","value":3}`, nil)
	check := func(name string, c *routetest.Caller, query string, want ...int) {
		t.Helper()
		a, graph := c.Call("GET", "/feedback"+query, ""), c.Call("GET", "/analytics/graphs/feedbacks/scores?time_of_generation_max=2026-05-02T00:00:00Z", "")
		for value, trace := range map[int]string{1: "of service", 2: "of " + own.ID, 3: "of service"} {
			shown := strings.Contains(a.Body, fmt.Sprintf(`"trace_id":%q,"value":%d,`, trace, value))
			wanted := strings.Contains(fmt.Sprint(want), fmt.Sprint(value))
			if shown != wanted {
				t.Errorf("%s: feedback %d is shown: %t, want %t: %d %s", name, value, shown, wanted, a.Status, a.Body)
			}
			if query == "" && graph.Status == 200 && strings.Contains(graph.Body, fmt.Sprintf(`"score":%d,`, value)) != wanted {
				t.Errorf("%s: the graph has %s, want %v", name, graph.Body, want)
			}
		}
	}
	check("a key of the workspace", giver, "", 1, 2)
	check("a key of the organisation", w.CallerOf("organisation key"), "", 1, 2, 3)
	check("the owner", w.CallerOf("owner"), "", 1, 2, 3)
	check("a member", w.CallerOf("member"), "", 1, 2)
	check("another workspace", other, "", 3)
	check("another organisation", others["another organisation"], "")
	check("a key without scopes", w.CallerOf("no scopes"), "")
	check("a member who names a workspace of others", w.CallerOf("member"), "?workspace=adjacent")
	for name, c := range others {
		if a := c.Call("PUT", "/feedback/"+given.IDs[0], `{"value":9}`); a.Status == 200 {
			t.Errorf("%s changes feedback of others: %s", name, a.Body)
		}
	}
	w.Exec(`UPDATE organisations SET settings = '{"security_settings":{"membersViewAllData":false}}'`)
	check("a member who sees their own", w.CallerOf("member"), "", 2)
	check("a key of the member who sees their own", w.CallerOf("user key"), "", 2)
	if a := w.CallerOf("user key").Call("PUT", "/feedback/"+given.IDs[0], `{"value":9}`); a.Status != 404 {
		t.Errorf("a key of a member changes feedback of what they do not see: %d %s", a.Status, a.Body)
	}
	if a := w.CallerOf("user key").Call("PUT", "/feedback/"+given.IDs[1], `{"value":2}`); a.Status != 200 {
		t.Errorf("a key of a member does not change feedback of what they see: %d %s", a.Status, a.Body)
	}
	check("a key of a service", giver, "", 1, 2)
	w.Exec(`UPDATE organisations SET settings = '{"security_settings":{"membersViewLogs":false}}'`)
	if a := w.CallerOf("member").Call("GET", "/feedback", ""); a.Status != 403 {
		t.Errorf("a member who sees no entry of the log is shown feedback: %d %s", a.Status, a.Body)
	}
}

func TestFeedbackOfOtherOrganisationsAndArchivedWorkspacesIsNotShown(t *testing.T) {
	w := newWorld(t)
	others := w.outsiders()
	abroad := w.As(access.Identity{KeyID: "of abroad", Organisation: "elsewhere", Workspace: "abroad", Type: access.WorkspaceService, Scopes: access.Scopes(access.WorkspaceService)})
	abroad.Must("POST", "/feedback", `{"trace_id":"foreign","value":7}`, nil)
	others["another workspace"].Must("POST", "/feedback", `{"trace_id":"of another","value":3}`, nil)
	if a := w.root.Call("GET", "/feedback", ""); strings.Contains(a.Body, "foreign") || !strings.Contains(a.Body, "of another") {
		t.Errorf("the installation's key is shown %s", a.Body)
	}
	const graph = "/analytics/graphs/feedbacks/scores?time_of_generation_max=2026-05-02T00:00:00Z"
	for _, step := range []struct {
		key, owner bool
	}{{true, true}, {false, true}} {
		for name, want := range map[string]bool{"organisation key": step.key, "owner": step.owner} {
			if a := w.CallerOf(name).Call("GET", graph, ""); strings.Contains(a.Body, `"score":3,`) != want || strings.Contains(a.Body, `"score":7,`) {
				t.Errorf("the graph of the %s = %s, want that of another in it: %t", name, a.Body, want)
			}
		}
		w.Exec(`UPDATE workspaces SET status = 'archived' WHERE id = 'adjacent'`)
	}
}

func TestKeysThatAskModelsGiveFeedbackWhileTheControlPlaneIsClosedToThem(t *testing.T) {
	w := newWorld(t)
	w.Off = route.DisabledFeatures{route.APIAccess: true}
	asker := w.As(access.Identity{KeyID: "asker", Type: access.WorkspaceService, Scopes: []access.Scope{access.ScopeCompletions}})
	if a := asker.Call("POST", "/feedback", `{"trace_id":"t","value":1}`); a.Status != 200 {
		t.Errorf("feedback with completions.write: %d %s", a.Status, a.Body)
	}
	if a := asker.Call("POST", "/logs", bare); a.Status != 403 {
		t.Errorf("posting to the log without its scope: %d %s", a.Status, a.Body)
	}
	if a := w.CallerOf("workspace key").Call("POST", "/logs", bare); a.Status != 200 {
		t.Errorf("posting to the log: %d %s", a.Status, a.Body)
	}
	if a := w.CallerOf("workspace key").Call("GET", "/configs", ""); a.Status != 403 {
		t.Errorf("administration: %d %s", a.Status, a.Body)
	}
}
