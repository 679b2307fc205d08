package controlplane_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/store"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

// logPage is a page of the log.
type logPage struct {
	Data []struct {
		ID      string
		Target  string `json:"target_name"`
		Version int64  `json:"config_version"`
		Nano    *int64 `json:"cost_nano_usd"`
		Timing  struct {
			Total float64 `json:"total_ms"`
		}
	}
	More bool    `json:"has_more"`
	Next *string `json:"next_cursor"`
}

// mustPages reads all pages of a list of the log.
func mustPages(t *testing.T, g *gatewaytest.Gateway, path string) (all logPage) {
	t.Helper()
	for cursor := ""; ; {
		res := g.Get(path + cursor)
		var page logPage
		if err := json.Unmarshal(res.Body, &page); err != nil || res.Status != 200 {
			t.Fatalf("GET %s%s: %d %s", path, cursor, res.Status, res.Body)
		}
		all.Data = append(all.Data, page.Data...)
		if page.Next == nil {
			return all
		}
		cursor = "&cursor=" + url.QueryEscape(*page.Next)
	}
}

// TestRequestsAreFoundByVersionAndTarget sends requests by two versions of a config whose targets
// have names, and finds them in the log and in analytics.
func TestRequestsAreFoundByVersionAndTarget(t *testing.T) {
	g := gatewaytest.New(t, gatewaytest.Options{MasterKey: "the master key of a whole test"})
	tree := func(first, second string) string {
		leaf := func(name string) string {
			return `{"name":"` + name + `","provider":"openai","api_key":"` + gatewaytest.SimulatorKey + `","custom_host":"` + g.Upstream + `"}`
		}
		return `{"strategy":{"mode":"fallback"},"targets":[` + leaf(first) + `,` + leaf(second) + `]}`
	}
	made := g.Post("/configs", `{"name":"main","workspace_id":"default","config":`+tree("cheap", "dear")+`}`, "x-gateway-provider", "").JSON(t)
	data, _ := made["data"].(map[string]any)
	slug := fmt.Sprint(data["slug"])
	waitConfig := func(want string) (res gatewaytest.Response) {
		t.Helper()
		waittest.Until(t, "the version with the target "+want+" is used", func() bool {
			if res = g.Post("/chat/completions", chat, "x-gateway-config", slug, "x-gateway-provider", ""); res.Status != 200 {
				t.Fatalf("%d %s", res.Status, res.Body)
			}
			return fmt.Sprint(g.Entry(res)["target_name"]) == want
		})
		return res
	}
	first := waitConfig("cheap")
	if res := g.Do(g.Request("PUT", "/configs/"+slug, `{"config":`+tree("small", "large")+`}`, "x-gateway-provider", "")); res.Status != 200 {
		t.Fatalf("%d %s", res.Status, res.Body)
	}
	second := waitConfig("small")
	id := func(r gatewaytest.Response) string { return r.Header.Get("x-gateway-request-id") }
	for path, want := range map[string][2]bool{
		"config=" + slug: {true, true}, "config=" + slug + "@1": {true, false}, "config=" + slug + "@2": {false, true},
		"target=cheap": {true, false}, "target=small,cheap": {true, true}, "target=config.targets%5B0%5D": {true, true}, "target=dear": {false, false},
		"provider=openai,anthropic": {true, true}, "status=4xx,200": {true, true}, "outcome=error,cancelled": {false, false}, "max_latency_ms=0": {true, true},
	} {
		var found []string
		for _, e := range mustPages(t, g, "/logs?"+path).Data {
			found = append(found, e.ID)
		}
		if got := [2]bool{slices.Contains(found, id(first)), slices.Contains(found, id(second))}; got != want {
			t.Errorf("%s finds the requests of the versions %v, want %v", path, got, want)
		}
	}
	groups := string(g.Get("/analytics/groups/config_version?from=1d").Body)
	if !strings.Contains(groups, `@1"`) || !strings.Contains(groups, `@2"`) {
		t.Errorf("versions in analytics: %s", groups)
	}
	if by := string(g.Get("/analytics/groups/target_name?from=1d&columns=cost_nano_usd,p50_first_token").Body); !strings.Contains(by, `"cheap"`) || !strings.Contains(by, `"small"`) {
		t.Errorf("targets in analytics: %s", by)
	}
}

// TestPagesOfRelativeTimesAreOfOneTime pages through lists whose beginning moves with the clock.
func TestPagesOfRelativeTimesAreOfOneTime(t *testing.T) {
	g := gatewaytest.New(t, gatewaytest.Options{})
	var want []string
	for range 7 {
		res := g.Post("/chat/completions", chat)
		g.Entry(res)
		want = append(want, res.Header.Get("x-gateway-request-id"))
	}
	slices.Sort(want)
	for _, path := range []string{"/logs?from=1d&limit=2", "/logs?from=1d&to=%2B1h&limit=3", "/logs?from=1d&order_by=latency&limit=2", "/logs?from=now-1h&to=%2B1h&order_by=cost&order=asc&limit=2", "/logs?order_by=tokens&limit=1"} {
		all := mustPages(t, g, path)
		var got []string
		for i, e := range all.Data {
			got = append(got, e.ID)
			if i > 0 && strings.Contains(path, "latency") && e.Timing.Total > all.Data[i-1].Timing.Total {
				t.Errorf("%s: %v ms after %v ms", path, e.Timing.Total, all.Data[i-1].Timing.Total)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s lists %v, want each of %v once", path, got, want)
		}
	}
	var page logPage
	if err := json.Unmarshal(g.Get("/logs?from=1d&limit=2").Body, &page); err != nil || page.Next == nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"/logs?from=1d&limit=2&model=x&cursor=" + *page.Next, "/logs?limit=2&cursor=" + *page.Next,
		"/logs?from=1d&limit=2&cursor=1" + *page.Next, "/logs?from=1d&limit=2&cursor=x.y.z", "/logs?from=1d&limit=2&order_by=cost&cursor=" + *page.Next,
	} {
		if res := g.Get(path); res.Status != 400 || !strings.Contains(string(res.Body), `"param":"cursor"`) {
			t.Errorf("%s: %d %s, want 400 for the cursor", path, res.Status, res.Body)
		}
	}
}

// TestRequestsAreFoundByUser filters by users: a caller finds those whose requests they see, and
// any other user is answered like one that nobody has.
func TestRequestsAreFoundByUser(t *testing.T) {
	w := newWorld(t)
	var made struct{ ID string }
	w.root.Must("POST", "/api-keys/workspace/user", `{"name":"own","scopes":["models.list"],"user_id":"member","workspace_id":"default"}`, &made)
	w.traced(t, [3]string{store.DefaultOrganisation, store.DefaultWorkspace, "service"}, [3]string{store.DefaultOrganisation, store.DefaultWorkspace, made.ID})
	for _, of := range []string{"organisation key", "workspace key"} {
		a := w.CallerOf(of).Call("GET", "/logs/traces?user=member", "")
		if a.Status != 200 || !strings.Contains(a.Body, `"spans":1,`) {
			t.Errorf("%s: %d %s, want the one request of the user", of, a.Status, a.Body)
		}
		unknown := w.CallerOf(of).Call("GET", "/logs/traces?user=nobody", "")
		if unknown.Status != 404 || !strings.Contains(unknown.Body, `"param":"user"`) || !strings.Contains(unknown.Body, "/v1/admin/users") {
			t.Errorf("%s: a user who is not there: %d %s", of, unknown.Status, unknown.Body)
		}
	}
	both := w.CallerOf("organisation key").Call("GET", "/logs/traces?user=member&api_key=service", "")
	if both.Status != 404 && strings.Contains(both.Body, `"spans"`) {
		t.Errorf("a key of nobody and a user: %d %s, want no request", both.Status, both.Body)
	}
}
