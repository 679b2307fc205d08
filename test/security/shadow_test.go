package security

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/internal/testing/waittest"
)

// TestShadowGuardrailIsTriedLabelledAndEnforced tests a guardrail on a logged response as
// a stream, runs it in shadow mode, labels its hits and enforces it.
func TestShadowGuardrailIsTriedLabelledAndEnforced(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, o options) {
		g, p := launch(t, o), newProvider(t, nil)
		key := g.key(t, rootKey, "default", []string{"completions.write"}, "")
		const checks = `"checks":[{"id":"default.contains","parameters":{"words":["heron"],"operator":"none"}}]`
		slug := g.create(t, rootKey, "/v1/guardrails", `{"name":"heron","organisation_id":"default",`+checks+`,"actions":{"deny":true,"mode":"shadow"}}`, "slug")

		tried := g.as(t, rootKey, "POST", "/v1/guardrails/test", fmt.Sprintf(`{"workspace_id":"default","guardrail":%q,"stream":["a grey ","her","on flies"]}`, slug)).ok(t).object(t)
		if passed := fmt.Sprint(tried["texts"]); tried["denied"] != true || tried["mode"] != "window" || strings.Contains(passed, "her") {
			t.Errorf("as a stream: %v, want a denial by windows before the word passes", tried)
		}
		if n := len(p.seen()); n > 0 {
			t.Errorf("the provider received %d requests of a test", n)
		}

		g.as(t, rootKey, "PUT", "/v1/admin/organisation/defaults", fmt.Sprintf(`{"input_guardrails":[%q]}`, slug)).ok(t)
		chat := func(text string) int {
			return g.do(t, "POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"`+text+`"}]}`, toCustomHost(key, p)...).status
		}
		path := "/v1/guardrails/" + slug
		waittest.Until(t, "the guardrail observes", func() bool {
			if status := chat("first"); status != http.StatusOK {
				t.Fatalf("status %d of a request that is only observed", status)
			}
			return g.as(t, rootKey, "GET", path+"/summary", "").ok(t).object(t)["seen"] != json.Number("0")
		})
		for range 10 {
			if status := chat("the heron"); status != http.StatusOK {
				t.Fatalf("status %d of a hit in shadow mode", status)
			}
		}
		waittest.Until(t, "ten hits are counted", func() bool {
			return g.as(t, rootKey, "GET", path+"/summary", "").ok(t).object(t)["hits"] == json.Number("10")
		})
		list := g.as(t, rootKey, "GET", path+"/results?verdict=failed", "").ok(t).object(t)["data"].([]any)
		if len(list) != 10 {
			t.Fatalf("%d results, want 10", len(list))
		}
		id := func(i int) string { return list[i].(map[string]any)["id"].(string) }
		for i := range list {
			label := "right"
			if i == 9 {
				label = "wrong"
			}
			g.as(t, rootKey, "PUT", path+"/results/"+id(i), `{"label":"`+label+`"}`).ok(t)
		}
		passed := g.as(t, rootKey, "GET", path+"/results?verdict=passed&sample=true&limit=1", "").ok(t).object(t)["data"].([]any)
		g.as(t, rootKey, "PUT", path+"/results/"+passed[0].(map[string]any)["id"].(string), `{"label":"right"}`).ok(t)

		got := g.as(t, rootKey, "GET", path+"/summary", "").ok(t).object(t)
		precision, missed := got["precision"].(map[string]any), got["missed_in_sample"].(map[string]any)
		// Wilson's interval of 9 of 10 is 0.5958 to 0.9821, of 0 of 1 0 to 0.7935.
		for name, want := range map[string]any{"share": "0.900", "low": "0.596", "high": "0.982", "labelled": "10.000"} {
			if v, _ := precision[name].(json.Number).Float64(); fmt.Sprintf("%.3f", v) != want {
				t.Errorf("precision %s = %v, want %v", name, precision[name], want)
			}
		}
		if high, _ := missed["high"].(json.Number).Float64(); missed["share"] != json.Number("0") || fmt.Sprintf("%.3f", high) != "0.793" {
			t.Errorf("missed = %v", missed)
		}
		if got["right"] != json.Number("9") || got["wrong"] != json.Number("1") || got["mode"] != "shadow" || got["ms"].(map[string]any)["p99"] == nil {
			t.Errorf("summary %v", got)
		}
		g.as(t, rootKey, "PUT", path+"/results/"+id(9), `{"label":null}`).ok(t)
		if n := len(g.as(t, rootKey, "GET", path+"/results?verdict=failed&label=none", "").ok(t).object(t)["data"].([]any)); n != 1 {
			t.Errorf("%d results without a label, want the one whose label was removed", n)
		}

		testForeignResults(t, g, slug, id(0))
		g.as(t, rootKey, "PUT", path, `{"actions":{"deny":true,"mode":"enforce"}}`).ok(t)
		waittest.Until(t, "the guardrail denies", func() bool { return chat("the heron") == 446 })
		if after := g.as(t, rootKey, "GET", path+"/summary", "").ok(t).object(t); after["seen"] != json.Number("0") || after["mode"] != "enforce" {
			t.Errorf("the summary of the new version %v, want none of the old results", after)
		}
	})
}

// testForeignResults reads and labels results that a caller may not see.
func testForeignResults(t *testing.T, g *gateway, slug, result string) {
	owner := g.organisation(t, "elsewhere")
	unlogged := g.key(t, rootKey, "default", []string{"guardrails.read", "guardrails.update"}, "")
	readOnly := g.key(t, rootKey, "default", []string{"guardrails.read", "guardrails.list", "logs.view"}, "")
	second := g.create(t, rootKey, "/v1/workspaces", `{"name":"Second"}`, "id")
	neighbour := g.key(t, rootKey, second, []string{"guardrails.read", "guardrails.list", "guardrails.update", "logs.view"}, "")
	path := "/v1/guardrails/" + slug
	attack(t, "isolation", "results of another workspace", func(t *testing.T) {
		// The guardrail is that of the organisation, so its readers see it everywhere.
		if list := g.as(t, neighbour, "GET", path+"/results", "").ok(t).object(t)["data"].([]any); len(list) != 0 {
			t.Errorf("%d results of another workspace", len(list))
		}
		g.as(t, neighbour, "GET", path+"/results?workspace_id=default", "").refused(t, 404)
		if sum := g.as(t, neighbour, "GET", path+"/summary", "").ok(t).object(t); sum["seen"] != json.Number("0") || sum["right"] != json.Number("0") {
			t.Errorf("the summary counts another workspace: %v", sum)
		}
		g.as(t, neighbour, "PUT", path+"/results/"+result, `{"label":"wrong"}`).refused(t, 404)
	})
	for _, tt := range []struct {
		name, token, method, path, body string
		status                          int
	}{
		{"results of another organisation", owner, "GET", path + "/results", "", 404},
		{"a summary of another organisation", owner, "GET", path + "/summary", "", 404},
		{"a label in another organisation", owner, "PUT", path + "/results/" + result, `{"label":"wrong"}`, 404},
		{"a test of another organisation's guardrail", owner, "POST", "/v1/guardrails/test", fmt.Sprintf(`{"workspace_id":"default","guardrail":%q,"text":"x"}`, slug), 404},
		{"results without the scope of logs", unlogged, "GET", path + "/results", "", 403},
		{"a label without the scope of logs", unlogged, "PUT", path + "/results/" + result, `{"label":"wrong"}`, 403},
		{"a label with scopes for reading", readOnly, "PUT", path + "/results/" + result, `{"label":"wrong"}`, 403},
		{"a test with scopes for reading", readOnly, "POST", "/v1/guardrails/test", fmt.Sprintf(`{"guardrail":%q,"text":"x"}`, slug), 403},
	} {
		attack(t, "isolation", tt.name, func(t *testing.T) {
			g.as(t, tt.token, tt.method, tt.path, tt.body).refused(t, tt.status)
		})
	}
	if n := len(g.as(t, rootKey, "GET", path+"/results?label=wrong", "").ok(t).object(t)["data"].([]any)); n != 0 {
		t.Errorf("%d results are labelled as wrong, want none by those who may not", n)
	}
}

// TestTestsOfGuardrailsAreBounded sends tests that must be refused, and reads what they
// answer otherwise.
func TestTestsOfGuardrailsAreBounded(t *testing.T) {
	t.Parallel()
	g, p := launch(t, options{}), newProvider(t, nil)
	test := func(body string) response {
		return g.as(t, rootKey, "POST", "/v1/guardrails/test", `{"workspace_id":"default",`+body+`}`)
	}
	const words = `"checks":[{"id":"default.contains","parameters":{"words":["heron"],"operator":"none"}}]`
	for _, tt := range []struct {
		name, body string
		status     int
		words      []string
	}{
		{"no text", words, 400, []string{"text"}},
		{"two texts", words + `,"text":"a","stream":["b"]`, 400, []string{"text"}},
		{"no check", `"text":"a"`, 400, []string{"checks"}},
		{"an unknown check", `"text":"a","checks":[{"id":"default.nothing"}]`, 400, []string{"AB01", "checks[0].id"}},
		{"a wrong parameter", `"text":"a","checks":[{"id":"default.contains","parameters":{"words":7}}]`, 400, []string{"AB01", "words"}},
		{"a check of responses", `"text":"a","checks":[{"id":"azure.protectedMaterial"}]`, 400, []string{"AB01"}},
		{"a saved one with checks", words + `,"guardrail":"g","text":"a"`, 400, []string{"guardrail"}},
		{"a saved one that does not exist", `"guardrail":"g","text":"a"`, 404, []string{"guardrail"}},
		{"a body that is not an object", words + `,"body":[1]`, 400, []string{"body"}},
		{"too much text", words + `,"text":"` + strings.Repeat("a", 3<<20) + `"`, 413, nil},
		{"too many checks", `"text":"a","checks":[` + strings.Repeat(`{"id":"gateway.pii"},`, 100) + `{"id":"gateway.pii"}]`, 400, []string{"checks"}},
		{"too many events", words + `,"stream":[` + strings.Repeat(`"a",`, 10_000) + `"a"]`, 400, []string{"stream"}},
	} {
		attack(t, "exhaustion", "a test of a guardrail with "+tt.name, func(t *testing.T) { test(tt.body).refused(t, tt.status, tt.words...) })
	}
	test(words + `,"text":"` + strings.Repeat("a", 2<<20-1<<10) + `"`).ok(t)
	test(words + `,"stream":[` + strings.Repeat(`"a",`, 9_999) + `"a"]`).ok(t)
	redacted := test(`"checks":[{"id":"gateway.pii","parameters":{"redact":true}}],"on":"response","text":"write to ada@example.com"`).ok(t).object(t)
	if fmt.Sprint(redacted["texts"]) != "[write to {{EMAIL_ADDRESS_1}}]" || redacted["transformed"] != true || redacted["denied"] != false {
		t.Errorf("redaction: %v", redacted)
	}
	body := test(words + `,"actions":{"deny":true},"dialect":"messages","body":{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a heron"}]}]}`).ok(t).object(t)
	if body["denied"] != true || body["verdict"] != false {
		t.Errorf("a body of the messages format: %v, want a denial", body)
	}
	parts := test(`"checks":[{"id":"gateway.pii","parameters":{"redact":true}}],"stream":["to ada@exa","mple.com, bye"]`).ok(t).object(t)
	if fmt.Sprint(parts["texts"]) != "[to {{EMAIL_ADDRESS_1}}, bye]" {
		t.Errorf("redaction across events: %v", parts)
	}
	if n := len(p.seen()); n > 0 {
		t.Errorf("the provider received %d requests", n)
	}
	list := g.as(t, rootKey, "GET", "/v1/guardrails/checks", "").ok(t).object(t)["data"].([]any)
	for _, c := range list {
		if c := c.(map[string]any); c["id"] == "default.contains" {
			required := c["parameters"].(map[string]any)["required"]
			if fmt.Sprint(required) != "[words]" {
				t.Errorf("required parameters of contains: %v", required)
			}
		}
	}
	if len(list) < 60 {
		t.Errorf("%d checks are listed", len(list))
	}
}

// TestFewTestsOfGuardrailsRunAtOnce begins tests whose check waits for a webhook. An
// organisation that has all of its tests in progress leaves room to others.
func TestFewTestsOfGuardrailsRunAtOnce(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}, 100), make(chan struct{})
	p := newProvider(t, func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-release
		io.WriteString(w, `{"verdict":true}`)
	})
	g := launch(t, options{})
	other := g.organisation(t, "second")
	body := fmt.Sprintf(`{"workspace_id":"default","text":"a","checks":[{"id":"default.webhook","parameters":{"webhookURL":%q,"timeout":60000}}]}`, p.root)
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			if r := g.as(t, rootKey, "POST", "/v1/guardrails/test", body); r.status != http.StatusOK || r.object(t)["verdict"] != true {
				t.Errorf("one of four tests at a time: %d %.300s", r.status, r.body)
			}
		})
	}
	for range 4 {
		waittest.Receive(t, arrived, "four requests at the provider")
	}
	fifth := make(chan response, 1)
	running.Go(func() { fifth <- g.as(t, rootKey, "POST", "/v1/guardrails/test", body) })
	attack(t, "exhaustion", "a fifth test of a guardrail at a time", func(t *testing.T) {
		select {
		case <-arrived:
			t.Error("five tests of one organisation run at a time")
		case r := <-fifth:
			r.refused(t, http.StatusServiceUnavailable, "of this organisation are in progress", "too_many_tests")
			if wait := r.header.Get("Retry-After"); wait != "1" {
				t.Errorf("Retry-After = %q, want 1", wait)
			}
		}
	})
	attack(t, "exhaustion", "tests of a guardrail in all places of one organisation", func(t *testing.T) {
		g.as(t, other, "POST", "/v1/guardrails/test", `{"workspace_id":"default","text":"a","checks":[{"id":"default.notNull"}],"on":"response"}`).ok(t)
	})
	close(release)
	running.Wait()
	for range 5 { // each ends its place
		g.as(t, rootKey, "POST", "/v1/guardrails/test", body).ok(t)
	}
}

// TestTestsWhoseClientsLeaveFreeTheirPlaces leaves four tests whose check waits for a
// webhook that never answers.
func TestTestsWhoseClientsLeaveFreeTheirPlaces(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}, 100), make(chan struct{})
	p := newProvider(t, func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-release
	})
	t.Cleanup(func() { close(release) })
	g := launch(t, options{})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	body := fmt.Sprintf(`{"workspace_id":"default","text":"a","checks":[{"id":"default.webhook","parameters":{"webhookURL":%q,"timeout":60000}}]}`, p.root)
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			req, err := http.NewRequestWithContext(ctx, "POST", g.root+"/v1/guardrails/test", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("x-gateway-api-key", rootKey)
			if res, err := client.Do(req); err == nil {
				res.Body.Close()
				t.Errorf("a test whose webhook never answers has the status %d", res.StatusCode)
			}
		})
	}
	for range 4 {
		waittest.Receive(t, arrived, "four requests at the provider")
	}
	const quick = `{"workspace_id":"default","text":"a","checks":[{"id":"default.notNull"}],"on":"response"}`
	g.as(t, rootKey, "POST", "/v1/guardrails/test", quick).refused(t, http.StatusServiceUnavailable, "too_many_tests")
	leave()
	left := time.Now()
	clients.Wait()
	attack(t, "exhaustion", "tests of guardrails whose clients have left", func(t *testing.T) {
		waittest.Until(t, "a place is free", func() bool { return g.as(t, rootKey, "POST", "/v1/guardrails/test", quick).status == http.StatusOK })
		if waited := time.Since(left); waited > 40*time.Second {
			t.Errorf("a place was free after %v, when the check's limit of 60 s ended the tests", waited)
		}
	})
}
