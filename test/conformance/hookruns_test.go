package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// hooksOf returns the results of the hooks before or after a request.
func hooksOf(t *testing.T, r reply, event string) []any {
	t.Helper()
	var body struct {
		Results map[string][]any `json:"hook_results"`
	}
	if err := json.Unmarshal(r.body, &body); err != nil {
		t.Fatalf("%s: %v", r.body, err)
	}
	return body.Results[event+"_request_hooks"]
}

// saying answers every request with one text.
func saying(text string) answer {
	return func(w http.ResponseWriter, _ *http.Request, _ received) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`, text)
	}
}

// TestHooksDecideAboutRequests proves what hooks and guardrails do.
func TestHooksDecideAboutRequests(t *testing.T) {
	g, _ := start(t)
	const hits = `"default.contains":{"words":["no such word"],"operator":"any"}`
	check := func(parameters string) string {
		id, rest, _ := strings.Cut(parameters, ":")
		return `{"id":` + id + `,"parameters":` + rest + `}`
	}
	for _, tt := range []struct{ name, members string }{
		{"hook", `"before_request_hooks":[{"id":"h","checks":[` + check(hits) + `],"on_fail":{"deny":true}}]`},
		{"guardrail", `"input_guardrails":[{"id":"h",` + hits + `,"deny":true}]`},
	} {
		prove(t, "S-120 S-127", "a "+tt.name+" that denies", func(t *testing.T) {
			p := newProvider(t, nil)
			for i, config := range []string{leaf(p, tt.members), tree(single, leaf(p, tt.members)), with(tree(fallback, leaf(p), leaf(p)), tt.members)} {
				got := g.ask(t, config)
				if results := hooksOf(t, got, "before"); got.status != 446 || len(results) != 1 || at(results[0].(map[string]any), "verdict") != false {
					t.Errorf("config %d: status %d, results %v; want 446 and one that failed", i, got.status, results)
				}
			}
			p.none(t)
		})
	}
	prove(t, "S-121", "a check that fails without deny", func(t *testing.T) {
		p := newProvider(t, nil)
		got := g.ask(t, leaf(p, `"before_request_hooks":[{"id":"h","checks":[`+check(hits)+`],"on_fail":{"deny":false}}]`)).fine(t)
		if results := hooksOf(t, got, "before"); len(results) != 1 || at(results[0].(map[string]any), "verdict") != false {
			t.Errorf("results = %v, want one that failed", results)
		}
		called(t, []int{1}, p)
	})
	prove(t, "S-127", "checks see the text of the request and of the response", func(t *testing.T) {
		p := newProvider(t, saying("an unusual word"))
		contains := func(word string) string { return `"default.contains":{"words":["` + word + `"],"operator":"any"}` }
		got := g.ask(t, leaf(p, `"input_guardrails":[{`+contains("hi")+`},{`+contains("unusual")+`}],"output_guardrails":[{`+contains("hi")+`},{`+contains("unusual")+`}]`)).fine(t)
		var verdicts []any
		for _, event := range []string{"before", "after"} {
			for _, r := range hooksOf(t, got, event) {
				verdicts = append(verdicts, at(r.(map[string]any), "verdict"))
			}
		}
		if want := "[true false false true]"; fmt.Sprint(verdicts) != want {
			t.Errorf("verdicts = %v, want %s", verdicts, want)
		}
	})
	prove(t, "S-123", "a check with async does not hold the response back", func(t *testing.T) {
		p := newProvider(t, nil)
		got := g.ask(t, leaf(p, `"after_request_hooks":[{"id":"h","async":true,"checks":[`+check(hits)+`]}]`)).fine(t)
		if results := hooksOf(t, got, "after"); len(results) != 0 {
			t.Errorf("results = %v, want none of a check that nobody waited for", results)
		}
	})
}
