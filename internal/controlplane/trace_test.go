package controlplane_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/routetest"
)

func TestATraceIsTheTreeOfItsRequests(t *testing.T) {
	g := gatewaytest.New(t, gatewaytest.Options{})
	first := g.Post("/chat/completions", chat, "x-gateway-trace-id", "order-7", "x-gateway-span-id", "s-1", "x-gateway-span-name", "plan")
	second := g.Post("/chat/completions", strings.Replace(chat, "sim-1", "sim-1+status=503", 1), "x-gateway-trace-id", "order-7", "x-gateway-parent-span-id", "s-1")
	third := g.Post("/logs", `{"request":{"url":"http://a.example/p","body":null},"response":{"body":null},"metadata":{"trace_id":"order-7","parent_span_id":"s-9"}}`)
	older := g.Post("/logs", `{"request":{"url":"http://a.example/p","body":null},"response":{"body":null,"response_time":60000}}`)
	alone, _ := older.JSON(t)["ids"].([]any)
	id := func(r gatewaytest.Response) string { return r.Header.Get("x-gateway-request-id") }
	posted, _ := third.JSON(t)["ids"].([]any)
	tree := g.Get("/logs/traces/order-7")
	got := tree.JSON(t)
	if tree.Status != 200 || got["spans"] != 3.0 || got["status"] != 503.0 || got["truncated"] != false || got["trace_id"] != "order-7" {
		t.Fatalf("the trace = %d %s", tree.Status, tree.Body)
	}
	roots, _ := got["tree"].([]any)
	if len(roots) != 2 {
		t.Fatalf("roots = %s", tree.Body)
	}
	plan, orphan := roots[0].(map[string]any), roots[1].(map[string]any)
	if plan["id"] != id(first) || plan["span_name"] != "plan" || plan["orphan"] != false || orphan["id"] != posted[0] || orphan["orphan"] != true || orphan["operation"] != "logs.insert" {
		t.Errorf("roots = %s", tree.Body)
	}
	var below []string
	for _, c := range plan["children"].([]any) {
		c := c.(map[string]any)
		below = append(below, fmt.Sprint(c["kind"], " ", c["status"], " ", c["id"] == id(second)))
		for _, a := range c["children"].([]any) {
			below = append(below, fmt.Sprint("- ", a.(map[string]any)["kind"], " ", a.(map[string]any)["status"]))
		}
	}
	if want := "[attempt 200 false exchange 503 true - attempt 503]"; fmt.Sprint(below) != want {
		t.Errorf("below the first are %v, want %s", below, want)
	}
	list := g.Get("/logs/traces")
	data, _ := list.JSON(t)["data"].([]any)
	if len(data) != 2 || data[0].(map[string]any)["spans"] != 3.0 || data[1].(map[string]any)["trace_id"] != alone[0] {
		t.Errorf("traces = %s", list.Body)
	}
	page := g.Get("/logs/traces?limit=1").JSON(t)
	next, _ := page["next_cursor"].(string)
	if page["has_more"] != true || !strings.Contains(string(g.Get("/logs/traces?limit=1&cursor="+next).Body), alone[0].(string)) {
		t.Errorf("the first page = %v", page)
	}
	if by := g.Get("/logs/traces?trace_id=order-7").JSON(t)["data"].([]any); len(by) != 1 {
		t.Errorf("traces of the id = %v", by)
	}
	if by := string(g.Get("/logs/traces?status=5xx").Body); !strings.Contains(by, `"spans":1,"status":503`) {
		t.Errorf("traces with a failure = %s", by)
	}
}

func TestTracesAreAskedForByFieldsThatThereAre(t *testing.T) {
	g := gatewaytest.New(t, gatewaytest.Options{})
	for _, tt := range []struct {
		path, param string
		status      int
	}{
		{"/logs/traces?status=many", "status", 400},
		{"/logs/traces?from=yesterday", "from", 400},
		{"/logs/traces?from=3000&to=2000", "from", 400},
		{"/logs/traces?limit=0", "limit", 400},
		{"/logs/traces?limit=1001", "limit", 400},
		{"/logs/traces?cursor=zz", "cursor", 400},
		{"/logs/traces?metadata=x", "metadata", 400},
		{"/logs/traces?metadata={}", "", 200},
		{"/logs/traces?cost_min=-1", "cost_min", 400},
		{"/logs/traces?stream=maybe", "stream", 400},
		{"/logs/traces?modle=x", "modle", 400},
		{"/logs/traces/none", "", 404},
		{"/logs/traces/" + strings.Repeat("a", 300), "trace", 400},
		{"/logs/traces/x?from=tomorrow", "from", 400},
		{"/logs/traces/x?limit=1", "limit", 400},
		{"/logs/traces/" + url.PathEscape("' OR 1=1 --"), "", 404},
	} {
		res := g.Get(tt.path)
		if res.Status != tt.status || tt.status == 400 && !strings.Contains(string(res.Body), tt.param) {
			t.Errorf("GET %.60s: %d %.300s, want %d for %s", tt.path, res.Status, res.Body, tt.status, tt.param)
		}
	}
}

// traced are entries of one trace: of keys of two workspaces and organisations.
func (w *world) traced(t *testing.T, keys ...[3]string) {
	t.Helper()
	for _, k := range keys {
		at := time.Now().Add(-time.Minute)
		w.log.Record(t.Context(), &reqlog.Entry{ID: reqlog.NewID(at), Time: at, Trace: reqlog.Trace{TraceID: "shared", SpanID: k[2]}, Sender: reqlog.Sender{Organisation: k[0], Workspace: k[1], KeyID: k[2]}, Result: reqlog.Result{Status: 200}})
	}
}

func TestSpansAreShownAsEntriesOfTheLogAre(t *testing.T) {
	w := newWorld(t)
	strangers := w.outsiders()
	var made struct{ ID string }
	w.root.Must("POST", "/api-keys/workspace/user", `{"name":"own","scopes":["models.list"],"user_id":"member","workspace_id":"default"}`, &made)
	w.traced(t, [3]string{store.DefaultOrganisation, store.DefaultWorkspace, "service"}, [3]string{store.DefaultOrganisation, store.DefaultWorkspace, made.ID},
		[3]string{store.DefaultOrganisation, "adjacent", "neighbour"}, [3]string{"elsewhere", "abroad", "foreigner"})
	check := func(name string, c *routetest.Caller, query string, want ...string) {
		t.Helper()
		a, list := c.Call("GET", "/logs/traces/shared"+query, ""), c.Call("GET", "/logs/traces"+query, "")
		for _, key := range []string{"service", made.ID, "neighbour", "foreigner"} {
			shown, wanted := strings.Contains(a.Body, `"span_id":"`+key+`"`), strings.Contains(fmt.Sprint(want), key)
			if shown != wanted {
				t.Errorf("%s: the span of %s is shown: %t, want %t: %d %s", name, key, shown, wanted, a.Status, a.Body)
			}
		}
		if spans := fmt.Sprintf(`"spans":%d,`, len(want)); len(want) > 0 && !strings.Contains(list.Body, spans) {
			t.Errorf("%s: the list = %s, want %s", name, list.Body, spans)
		} else if len(want) == 0 && (a.Status == 200 || strings.Contains(list.Body, "shared")) {
			t.Errorf("%s is shown %d %s and %s", name, a.Status, a.Body, list.Body)
		}
	}
	mine := []string{"service", made.ID}
	check("a key of the workspace", w.CallerOf("workspace key"), "", mine...)
	check("a key of the organisation", w.CallerOf("organisation key"), "", "service", made.ID, "neighbour")
	check("the owner", w.CallerOf("owner"), "", "service", made.ID, "neighbour")
	check("a member", w.CallerOf("member"), "", mine...)
	check("a key of the member", w.CallerOf("user key"), "", mine...)
	check("another workspace", strangers["another workspace"], "", "neighbour")
	check("another organisation", strangers["another organisation"], "", "foreigner")
	check("a key without scopes", w.CallerOf("no scopes"), "")
	check("a member who names a workspace of others", w.CallerOf("member"), "?workspace=adjacent")
	check("a key of the workspace that names another", w.CallerOf("workspace key"), "?workspace=adjacent")
	w.Exec(`UPDATE organisations SET settings = '{"security_settings":{"membersViewAllData":false}}'`)
	check("a member who sees their own", w.CallerOf("member"), "", made.ID)
	check("a key of the member who sees their own", w.CallerOf("user key"), "", made.ID)
	check("a key of a service", w.CallerOf("workspace key"), "", mine...)
	w.Exec(`UPDATE organisations SET settings = '{"security_settings":{"membersViewLogs":false,"membersViewLogMetadata":false}}'`)
	check("a member who sees no log", w.CallerOf("member"), "")
}
