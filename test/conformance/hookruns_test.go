package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/waittest"
)

// hooksOf returns the results of the hooks before or after a request.
func hooksOf(t *testing.T, r response, event string) []any {
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
func saying(text string) behaviour {
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
			p.wantNoRequests(t)
		})
	}
	for _, r := range []modelRoute{chatStream, modelRoutes[2], {path: "/v1/things", body: `{"input":"hi"}`}} {
		prove(t, "S-120", "a hook that denies "+r.path+" "+r.body, func(t *testing.T) {
			p := newProvider(t, nil)
			got := g.do(t, "POST", r.path, r.body, "x-gateway-api-key", bootstrapKey, "x-gateway-config",
				leaf(p, `"before_request_hooks":[{"id":"h","checks":[`+check(hits)+`],"on_fail":{"deny":true}}]`))
			if got.status != 446 {
				t.Errorf("status %d, want 446: %s", got.status, got.body)
			}
			p.wantNoRequests(t)
		})
	}
	const passes = `"default.contains":{"words":["no such word"],"operator":"none"}`
	one := func(checks string) string { return `{"id":"h","checks":[` + checks + `],"on_fail":{"deny":true}}` }
	for name, hooks := range map[string]string{
		"the first check of two fails":  one(check(hits) + "," + check(passes)),
		"the second check of two fails": one(check(passes) + "," + check(hits)),
		"the first hook of two fails":   one(check(hits)) + "," + one(check(passes)),
		"the second hook of two fails":  one(check(passes)) + "," + one(check(hits)),
	} {
		prove(t, "S-120", name, func(t *testing.T) {
			p := newProvider(t, nil)
			if got := g.ask(t, leaf(p, `"before_request_hooks":[`+hooks+`]`)); got.status != 446 {
				t.Errorf("status %d, want 446: %s", got.status, got.body)
			}
			p.wantNoRequests(t)
		})
	}
	prove(t, "S-123", "hooks after a stream see its text", func(t *testing.T) {
		p := newProvider(t, streams(chatEvents+done))
		hook := check(`"default.contains":{"words":["Hello"],"operator":"any"}`)
		got := g.do(t, "POST", chatStream.path, chatStream.body, "x-gateway-api-key", bootstrapKey, "x-gateway-config",
			leaf(p, `"after_request_hooks":[{"id":"h","checks":[`+hook+`,`+check(hits)+`]}]`)).wantOK(t)
		checks, _ := g.entry(t, got)["checks"].([]any)
		if len(checks) != 2 || at(checks[0], "verdict") != "passed" || at(checks[1], "verdict") != "failed" {
			t.Errorf("checks = %v, want one that passed and one that failed", checks)
		}
	})
	prove(t, "S-123", "hooks after a request that failed do not run", func(t *testing.T) {
		p := newProvider(t, withStatuses(500))
		got := g.ask(t, leaf(p, `"after_request_hooks":[{"id":"h","checks":[`+check(hits)+`]}]`))
		if checks, _ := g.entry(t, got)["checks"].([]any); got.status != 500 || len(checks) != 0 {
			t.Errorf("status %d, checks %v; want the provider's 500 and none", got.status, checks)
		}
	})
	prove(t, "S-129", "an output guardrail that denies keeps the response back", func(t *testing.T) {
		p := newProvider(t, saying("an unusual word"))
		for deny, want := range map[string]int{"true": 446, "false": 200} {
			got := g.ask(t, leaf(p, `"output_guardrails":[{"id":"g",`+hits+`,"deny":`+deny+`}]`))
			if got.status != want && !(deny == "false" && got.status == 246) || strings.Contains(string(got.body), "unusual") != (deny == "false") {
				t.Errorf("deny %s: status %d: %s; want %d", deny, got.status, got.body, want)
			}
		}
	})
	prove(t, "S-121", "a check that fails without deny", func(t *testing.T) {
		p := newProvider(t, nil)
		got := g.ask(t, leaf(p, `"before_request_hooks":[{"id":"h","checks":[`+check(hits)+`],"on_fail":{"deny":false}}]`)).wantOK(t)
		if results := hooksOf(t, got, "before"); len(results) != 1 || at(results[0].(map[string]any), "verdict") != false {
			t.Errorf("results = %v, want one that failed", results)
		}
		called(t, []int{1}, p)
	})
	prove(t, "S-127", "checks see the text of the request and of the response", func(t *testing.T) {
		p := newProvider(t, saying("an unusual word"))
		contains := func(word string) string { return `"default.contains":{"words":["` + word + `"],"operator":"any"}` }
		got := g.ask(t, leaf(p, `"input_guardrails":[{`+contains("hi")+`},{`+contains("unusual")+`}],"output_guardrails":[{`+contains("hi")+`},{`+contains("unusual")+`}]`)).wantOK(t)
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
	prove(t, "S-122", "feedback of a check that passed and of one that failed", func(t *testing.T) {
		p := newProvider(t, nil)
		hook := func(id, words, feedback string) string {
			return `{"id":"` + id + `","checks":[` + check(`"default.contains":{"words":["`+words+`"],"operator":"any"}`) + `],` + feedback + `}`
		}
		got := g.ask(t, leaf(p, `"before_request_hooks":[`+
			hook("passes", "hi", `"on_success":{"feedback":{"value":3,"weight":0.5,"metadata":{"a":"b"}}},"on_fail":{"feedback":{"value":-9}}`)+`,`+
			hook("fails", "no such word", `"on_success":{"feedback":{"value":9}},"on_fail":{"feedback":{"value":-4,"weight":0.25}}`)+`]`)).wantOK(t)
		var stored []string
		waittest.Until(t, "both feedbacks are stored with the trace", func() bool {
			stored = nil
			list, _ := g.do(t, "GET", "/v1/feedback?trace_id="+got.header.Get("x-gateway-trace-id"), "", "x-gateway-api-key", bootstrapKey).wantOK(t).object(t)["data"].([]any)
			for _, f := range list {
				stored = append(stored, fmt.Sprint(at(f, "value"), " × ", at(f, "weight"), " ", at(f, "metadata", "a")))
			}
			return len(stored) >= 2
		})
		slices.Sort(stored)
		if want := []string{"-4 × 0.25 <nil>", "3 × 0.5 b"}; !slices.Equal(stored, want) {
			t.Errorf("feedback %q, want %q", stored, want)
		}
	})
	prove(t, "S-125", "a saved guardrail runs by its id and by its slug", func(t *testing.T) {
		saved := g.do(t, "POST", "/v1/guardrails", `{"name":"Saved","workspace_id":"default","checks":[`+check(hits)+`],"actions":{"deny":true}}`,
			"x-gateway-api-key", bootstrapKey, "Content-Type", "application/json").wantOK(t).object(t)
		for _, name := range []string{"id", "slug"} {
			for _, event := range []string{"input", "output"} {
				p := newProvider(t, nil)
				config := leaf(p, fmt.Sprintf(`"%s_guardrails":[%q]`, event, saved[name]))
				var got response
				waittest.Until(t, "the gateway knows the guardrail", func() bool { got = g.ask(t, config); return got.status != 404 })
				if got.status != 446 {
					t.Errorf("%s as %s guardrail: status %d: %s; want 446", name, event, got.status, got.body)
				}
			}
		}
	})
	prove(t, "S-125", "a saved guardrail is not there for another workspace", func(t *testing.T) {
		saved := g.do(t, "POST", "/v1/guardrails", `{"name":"Apart","workspace_id":"default","checks":[`+check(hits)+`],"actions":{"deny":true}}`,
			"x-gateway-api-key", bootstrapKey, "Content-Type", "application/json").wantOK(t).object(t)
		p := newProvider(t, nil)
		config := leaf(p, fmt.Sprintf(`"input_guardrails":[%q]`, saved["slug"]))
		waittest.Until(t, "the gateway knows the guardrail", func() bool { return g.ask(t, config).status == 446 })
		chat := modelRoutes[0]
		g.do(t, "POST", chat.path, chat.body, "x-gateway-api-key", g.keyElsewhere(t), "x-gateway-config", config).refused(t, http.StatusNotFound)
		p.wantNoRequests(t)
	})
	prove(t, "S-123", "a check with async does not hold the response back", func(t *testing.T) {
		p := newProvider(t, nil)
		answered := make(chan struct{})
		hook := newProvider(t, func(w http.ResponseWriter, _ *http.Request, _ received) {
			select {
			case <-answered:
			case <-time.After(patience):
			}
			io.WriteString(w, `{"verdict":true}`)
		})
		webhook := check(`"default.webhook":{"webhookURL":"` + hook.url + `"}`)
		asked := g.ask(t, leaf(p, `"after_request_hooks":[{"id":"h","async":true,"sequential":true,"checks":[`+webhook+`,`+webhook+`]}]`)).wantOK(t)
		close(answered)
		checks, _ := g.entry(t, asked)["checks"].([]any)
		if at(checks, 0, "verdict") != "passed" || at(checks, 1, "verdict") != "passed" || at(checks, 1, "async") != true {
			t.Errorf("checks = %v, want two that passed, the second one begun after the response", checks)
		}
	})
	prove(t, "S-123", "results of a check with async are not in the response", func(t *testing.T) {
		p := newProvider(t, nil)
		got := g.ask(t, leaf(p, `"after_request_hooks":[{"id":"h","async":true,"checks":[`+check(hits)+`]}]`)).wantOK(t)
		if results := hooksOf(t, got, "after"); len(results) != 0 {
			t.Errorf("results = %v, want none of a check that nobody waited for", results)
		}
	})
}
