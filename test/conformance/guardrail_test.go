package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/testing/waittest"
)

// TestChecksOfParametersAndTools proves which tools and parameters of a request a
// guardrail refuses.
func TestChecksOfParametersAndTools(t *testing.T) {
	g, _ := start(t)
	const (
		read    = `{"type":"function","function":{"name":"read","parameters":{"type":"object"}}}`
		write   = `{"type":"function","function":{"name":"write","parameters":{"type":"object"}}}`
		custom  = `{"type":"custom","custom":{"name":"sql"}}`
		nothing = ""
	)
	tools := func(list ...string) string { return `,"tools":[` + strings.Join(list, ",") + `]` }
	for _, tt := range []struct {
		of, parameters string
		members        string // of the request
		reason         string // of the refusal; nothing if the request is served
	}{
		{"S-579", `"tools":{"blockedTypes":["custom","web_search"]}`, tools(read, custom), "type_blocked"},
		{"S-579", `"tools":{"blockedTypes":["web_search","custom"]}`, tools(custom), "type_blocked"},
		{"S-579", `"tools":{"blockedTypes":["custom"]}`, tools(read, write), nothing},
		{"S-579", `"tools":{"blockedTypes":["custom"]}`, "", nothing},
		{"S-579", `"tools":{"blockedTypes":["function"]}`, `,"functions":[{"name":"read"}]`, "type_blocked"},
		{"S-580", `"tools":{"allowedTypes":["function","web_search"]}`, tools(read, custom), "type_not_allowed"},
		{"S-580", `"tools":{"allowedTypes":["web_search","function"]}`, tools(read, write), nothing},
		{"S-580", `"tools":{"allowedTypes":["function"]}`, "", nothing},
		{"S-580", `"tools":{"allowedTypes":[]}`, tools(read, custom), nothing},
		{"S-581", `"tools":{"blockedFunctionNames":["delete","write"]}`, tools(read, write), "name_blocked"},
		{"S-581", `"tools":{"blockedFunctionNames":["write"]}`, `,"functions":[{"name":"read"},{"name":"write"}]`, "name_blocked"},
		{"S-581", `"tools":{"blockedFunctionNames":["write"]}`, tools(read), nothing},
		{"S-581", `"tools":{"blockedFunctionNames":["write"]}`, tools(strings.Replace(write, "write", "writer", 1)), nothing},
		{"S-582", `"tools":{"allowedFunctionNames":["read","list"]}`, tools(read, write), "name_not_allowed"},
		{"S-582", `"tools":{"allowedFunctionNames":["list","read"]}`, tools(read), nothing},
		{"S-582", `"tools":{"allowedFunctionNames":["read","write"]}`, tools(write), nothing},
		{"S-582", `"tools":{"allowedFunctionNames":[]}`, tools(read, write), nothing},
		{"S-583", `"params":{"blockedKeys":["seed","user"]}`, `,"user":"u"`, "key_blocked"},
		{"S-583", `"params":{"blockedKeys":["seed"]}`, `,"seed":null`, "key_blocked"},
		{"S-583", `"params":{"blockedKeys":["seed"]}`, `,"user":"u"`, nothing},
		{"S-583", `"params":{"blockedKeys":["seed"]}`, `,"metadata":{"seed":"1"}`, nothing},
		{"S-584", `"params":{"allowedKeys":["model","messages","user"]}`, `,"user":"u","seed":1`, "key_not_allowed"},
		{"S-584", `"params":{"allowedKeys":["model","messages","user"]}`, `,"user":"u"`, nothing},
		{"S-584", `"params":{"allowedKeys":["messages","model","metadata"]}`, `,"metadata":{"inner":"1"}`, nothing},
		{"S-584", `"params":{"allowedKeys":[]}`, `,"seed":1`, nothing},
		{"S-585", `"params":{"values":{"seed":{"blockedValues":[1,2]}}}`, `,"seed":2`, "value_blocked"},
		{"S-585", `"params":{"values":{"seed":{"blockedValues":[1]}}}`, `,"seed":2`, nothing},
		{"S-585", `"params":{"values":{"user":{"blockedValues":[1,true]}}}`, `,"user":"1"`, nothing},
		{"S-585", `"params":{"values":{"user":{"blockedValues":["true"]}}}`, `,"user":"true"`, "value_blocked"},
		{"S-585", `"params":{"values":{"seed":{"blockedValues":["1"]}}}`, `,"seed":1`, nothing},
		{"S-585", `"params":{"values":{"store":{"blockedValues":[true]}}}`, `,"store":true`, "value_blocked"},
		{"S-585", `"params":{"values":{"seed":{"blockedValues":[1]}}}`, `,"n":1`, nothing},
		{"S-586", `"params":{"values":{"seed":{"allowedValues":[1,2]}}}`, `,"seed":3`, "value_not_allowed"},
		{"S-586", `"params":{"values":{"seed":{"allowedValues":[1,2]}}}`, `,"seed":2`, nothing},
		{"S-586", `"params":{"values":{"seed":{"allowedValues":["2"]}}}`, `,"seed":2`, "value_not_allowed"},
		{"S-586", `"params":{"values":{"seed":{"allowedValues":[1,2]}}}`, "", nothing},
		{"S-586", `"params":{"values":{"model":{"allowedValues":["another"]}}}`, "", "value_not_allowed"},
	} {
		prove(t, tt.of, strings.ReplaceAll(tt.parameters+" and "+tt.members, "/", ""), func(t *testing.T) {
			p := newProvider(t, nil)
			config := leaf(p, `"input_guardrails":[{"default.requestParametersCheck":{`+tt.parameters+`},"deny":true}]`)
			got := g.do(t, "POST", modelRoutes[0].path, strings.TrimSuffix(modelRoutes[0].body, "}")+tt.members+"}", "x-gateway-api-key", bootstrapKey, "x-gateway-config", config)
			if tt.reason == nothing {
				got.wantOK(t)
				called(t, []int{1}, p)
				return
			}
			if got.status != 446 || !strings.Contains(string(got.body), `"reason":"`+tt.reason+`"`) {
				t.Errorf("status %d: %s; want 446 for %s", got.status, got.body, tt.reason)
			}
			p.wantNoRequests(t)
		})
	}
}

// TestHooksRunBeforeAndAfterRequests proves when hooks run and what guardrails read.
func TestHooksRunBeforeAndAfterRequests(t *testing.T) {
	g, _ := start(t)
	var mu sync.Mutex
	var events []string
	happens := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, what)
	}
	// hook is a check of another program, which passes unless the body has the word.
	hook := newProvider(t, func(w http.ResponseWriter, _ *http.Request, in received) {
		var body struct{ EventType string }
		if err := json.Unmarshal(in.body, &body); err != nil {
			t.Errorf("the hook got %s: %v", in.body, err)
		}
		happens(body.EventType)
		fmt.Fprintf(w, `{"verdict":%t}`, !strings.Contains(string(in.body), "forbidden"))
	})
	p := newProvider(t, func(w http.ResponseWriter, r *http.Request, in received) {
		happens("provider")
		saying("an unusual word")(w, r, in)
	})
	webhook := `{"id":"default.webhook","parameters":{"webhookURL":"` + hook.url + `"}}`
	prove(t, "S-033", "a hook before and one after", func(t *testing.T) {
		events = nil
		got := g.ask(t, leaf(p, `"before_request_hooks":[{"id":"b","checks":[`+webhook+`]}],"after_request_hooks":[{"id":"a","checks":[`+webhook+`]}]`)).wantOK(t)
		if want := []string{"beforeRequestHook", "provider", "afterRequestHook"}; !slices.Equal(events, want) {
			t.Errorf("events %v, want %v", events, want)
		}
		for event, id := range map[string]string{"before": "b", "after": "a"} {
			if results := hooksOf(t, got, event); len(results) != 1 || at(results[0], "id") != id || at(results[0], "verdict") != true {
				t.Errorf("results %s the request: %v, want one of %s that passed", event, results, id)
			}
		}
	})
	prove(t, "S-034", "input guardrails read the request, output guardrails the response", func(t *testing.T) {
		contains := func(word string) string {
			return `{"default.contains":{"words":["` + word + `"],"operator":"none"},"deny":true}`
		}
		for config, status := range map[string]int{
			`"input_guardrails":[` + contains("hi") + `]`:       446,
			`"input_guardrails":[` + contains("unusual") + `]`:  200,
			`"output_guardrails":[` + contains("hi") + `]`:      200,
			`"output_guardrails":[` + contains("unusual") + `]`: 446,
		} {
			if got := g.ask(t, leaf(p, config)); got.status != status || status == 446 && at(got.object(t), "choices") != nil {
				t.Errorf("%s: status %d: %s; want %d", config, got.status, got.body, status)
			}
		}
	})
	const fails, passes = `"default.contains":{"words":["no such word"],"operator":"any"}`, `"default.contains":{"words":["hi"],"operator":"any"}`
	hookOf := func(members string, checks ...string) string {
		for i, c := range checks {
			id, parameters, _ := strings.Cut(c, ":")
			checks[i] = `{"id":` + id + `,"parameters":` + parameters + `}`
		}
		return `{"id":"h",` + members + `"checks":[` + strings.Join(checks, ",") + `]}`
	}
	for _, tt := range []struct {
		of, name, members string
		status            int
		verdict           any // of the first result; nil if there is none
	}{
		{"S-120", "a hook that denies at its root", `"before_request_hooks":[` + hookOf(`"deny":true,`, fails) + `]`, 446, false},
		{"S-120", "a hook that would deny and passes", `"before_request_hooks":[` + hookOf(`"on_fail":{"deny":true},`, passes) + `]`, 200, true},
		{"S-120 S-119", "the last of three checks fails", `"before_request_hooks":[` + hookOf(`"on_fail":{"deny":true},`, passes, `"default.wordCount":{"minWords":1}`, fails) + `]`, 446, false},
		{"S-121", "the first of two checks fails without deny", `"before_request_hooks":[` + hookOf(`"on_success":{"feedback":{"value":1}},`, fails, passes) + `]`, 200, false},
		{"S-126", "a guardrail that does not deny", `"input_guardrails":[{"id":"h","deny":false,` + fails + `}]`, 200, false},
		{"S-126", "a guardrail with async denies nothing", `"input_guardrails":[{"id":"h","deny":true,"async":true,` + fails + `}]`, 200, nil},
		{"S-127", "one of two further keys fails", `"input_guardrails":[{"id":"h","deny":true,"default.wordCount":{"minWords":1},` + fails + `}]`, 446, false},
		{"S-127", "the other of two further keys fails", `"input_guardrails":[{"id":"h","deny":true,"default.wordCount":{"minWords":9},` + passes + `}]`, 446, false},
		{"S-129", "an output guardrail that denies in on_fail", `"output_guardrails":[{"id":"h","on_fail":{"deny":true},` + fails + `}]`, 446, false},
		{"S-129", "an output guardrail that does not deny in on_fail", `"output_guardrails":[{"id":"h","on_fail":{"deny":false},` + fails + `}]`, 200, false},
	} {
		prove(t, tt.of, tt.name, func(t *testing.T) {
			got := g.ask(t, leaf(p, tt.members))
			event := "before"
			if strings.HasPrefix(tt.members, `"output`) {
				event = "after"
			}
			if got.status != tt.status || at(hooksOf(t, got, event), 0, "verdict") != tt.verdict {
				t.Errorf("status %d: %s; want %d and the verdict %v", got.status, got.body, tt.status, tt.verdict)
			}
			if tt.verdict != nil && at(hooksOf(t, got, event), 0, "id") != "h" {
				t.Errorf("results %s, want those of h", got.body)
			}
		})
	}
	prove(t, "S-122 S-123 S-126", "feedback of hooks after the request and of guardrails, with the weight 1 unless another is given", func(t *testing.T) {
		got := g.ask(t, leaf(p, `"after_request_hooks":[`+hookOf(`"on_fail":{"feedback":{"value":-3}},`, fails)+`],"input_guardrails":[{"on_success":{"feedback":{"value":2,"weight":0.5}},`+passes+`}]`)).wantOK(t)
		var stored []string
		waittest.Until(t, "both feedbacks are stored with the trace", func() bool {
			stored = nil
			list, _ := g.do(t, "GET", "/v1/feedback?trace_id="+got.header.Get("x-gateway-trace-id"), "", "x-gateway-api-key", bootstrapKey).wantOK(t).object(t)["data"].([]any)
			for _, f := range list {
				stored = append(stored, fmt.Sprint(at(f, "value"), " × ", at(f, "weight")))
			}
			return len(stored) >= 2
		})
		slices.Sort(stored)
		if want := []string{"-3 × 1", "2 × 0.5"}; !slices.Equal(stored, want) {
			t.Errorf("feedback %q, want %q", stored, want)
		}
	})
	prove(t, "S-554 S-578", "another program decides", func(t *testing.T) {
		guard := `"input_guardrails":[{"default.webhook":{"webhookURL":"` + hook.url + `"},"deny":true}]`
		g.ask(t, leaf(p, guard)).wantOK(t)
		hook.forget()
		p.forget()
		got := g.do(t, "POST", modelRoutes[0].path, strings.Replace(modelRoutes[0].body, "hi", "forbidden", 1), "x-gateway-api-key", bootstrapKey, "x-gateway-config", leaf(p, guard))
		if got.status != 446 {
			t.Errorf("status %d: %s; want 446", got.status, got.body)
		}
		p.wantNoRequests(t)
		if body := hook.only(t).body; !strings.Contains(string(body), `"text":"forbidden"`) {
			t.Errorf("the program got %s, want the text of the request", body)
		}
	})
	prove(t, "S-578", "another program decides about responses", func(t *testing.T) {
		for word, status := range map[string]int{"hello": 200, "forbidden": 446} {
			q := newProvider(t, saying(word))
			got := g.ask(t, leaf(q, `"output_guardrails":[{"default.webhook":{"webhookURL":"`+hook.url+`"},"deny":true}]`))
			if got.status != status || len(q.requests()) != 1 {
				t.Errorf("a response of %q gets status %d after %d requests: %.300s; want %d", word, got.status, len(q.requests()), got.body, status)
			}
		}
	})
	prove(t, "S-554 S-578", "a program that answers something else does not pass a check that must not fail", func(t *testing.T) {
		odd := newProvider(t, func(w http.ResponseWriter, _ *http.Request, _ received) { io.WriteString(w, `{"verdict":"true"}`) })
		p.forget()
		got := g.ask(t, leaf(p, `"input_guardrails":[{"default.webhook":{"webhookURL":"`+odd.url+`","failOnError":true},"deny":true}]`))
		if got.status != 446 {
			t.Errorf("status %d: %s; want 446", got.status, got.body)
		}
		p.wantNoRequests(t)
	})
}
