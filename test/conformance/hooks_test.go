package conformance

import (
	"strings"
	"testing"
	"time"
)

// TestHooksAndGuardrailsHaveTheirShape proves what may be written; see
// TestHooksDecideAboutRequests for what a hook does.
func TestHooksAndGuardrailsHaveTheirShape(t *testing.T) {
	g, _ := start(t)
	p := newProvider(t, nil)
	const before, after, input, output = "before_request_hooks", "after_request_hooks", "input_guardrails", "output_guardrails"
	var rows []configRow
	const taken, itself = "", "."
	// row adds a list of one item; path is where in the item the fault is.
	row := func(of, list, item, path string) {
		switch {
		case path == itself:
			path = "$." + list + "[0]"
		case strings.HasPrefix(path, "["):
			path = "$." + list + "[0]" + path
		case path != taken:
			path = "$." + list + "[0]." + path
		}
		rows = append(rows, configRow{of, leaf(p, `"`+list+`":[`+item+`]`), path})
	}
	for of, list := range map[string]string{"S-116": before, "S-123": after} {
		row(of, list, `{"id":"h"}`, taken)
		row(of, list, `{}`, "id")
		row(of, list, `{"id":7}`, "id")
		row(of, list, `{"id":null}`, "id")
		row(of, list, `"h"`, itself)
		rows = append(rows, configRow{of, leaf(p, `"`+list+`":{"id":"h"}`), "$." + list})
	}
	for _, list := range []string{before, after} {
		row("S-117", list, `{"id":"h","type":"guardrail"}`, taken)
		row("S-117", list, `{"id":"h","type":1}`, "type")
		row("S-117", list, `{"id":"h","type":["x"]}`, "type")
		check := func(of, text, path string) { row(of, list, `{"id":"h","checks":[`+text+`]}`, path) }
		check("S-119", `{"id":"default.contains","parameters":{"words":["x"]}}`, taken)
		check("S-119", `{"parameters":{}}`, "checks[0].id")
		check("S-119", `{"id":"c"}`, "checks[0].parameters")
		check("S-119", `{"id":1,"parameters":{}}`, "checks[0].id")
		check("S-119", `{"id":"c","parameters":"x"}`, "checks[0].parameters")
		check("S-119", `{"id":"c","parameters":[]}`, "checks[0].parameters")
		check("S-119", `"c"`, "checks[0]")
		row("S-119", list, `{"id":"h","checks":{}}`, "checks")
	}
	for _, outcome := range []string{"on_fail", "on_success"} {
		for of, list := range map[string]string{"S-118 S-122": before, "S-124": after, "S-126": input, "S-129": output} {
			say := func(text, path string) {
				switch path {
				case taken:
				case itself:
					path = outcome
				default:
					path = outcome + "." + path
				}
				row(of, list, `{"id":"h","`+outcome+`":`+text+`}`, path)
			}
			say(`{}`, taken)
			say(`{"feedback":{"value":-5,"weight":0.5,"metadata":{"a":{"b":1}}}}`, taken)
			say(`{"feedback":{"value":"5"}}`, "feedback.value")
			say(`{"feedback":{"weight":true}}`, "feedback.weight")
			say(`{"feedback":{"metadata":"x"}}`, "feedback.metadata")
			say(`{"feedback":{"colour":1}}`, "feedback.colour")
			say(`{"feedback":5}`, "feedback")
			say(`{"colour":1}`, "colour")
			say(`"x"`, itself)
		}
		for _, list := range []string{before, output} {
			of := map[string]string{before: "S-118", output: "S-129"}[list]
			row(of, list, `{"id":"h","`+outcome+`":{"deny":false}}`, taken)
			row(of, list, `{"id":"h","`+outcome+`":{"deny":"yes"}}`, outcome+".deny")
			row(of, list, `{"id":"h","`+outcome+`":{"deny":1}}`, outcome+".deny")
		}
		for of, list := range map[string]string{"S-124": after, "S-129": input} {
			for _, deny := range []string{"true", "false"} {
				row(of, list, `{"id":"h","`+outcome+`":{"deny":`+deny+`}}`, outcome+".deny")
			}
		}
	}
	row("S-123", after, `{"id":"h","async":true}`, taken)
	row("S-123", after, `{"id":"h","async":"true"}`, "async")
	row("S-123", before, `{"id":"h","async":true}`, "async")
	for of, list := range map[string]string{"S-125 S-126 S-127 S-128": input, "S-125 S-129 S-127 S-128": output} {
		names := strings.Fields(of)
		saved, object, further, other := names[0], names[1], names[2], names[3]
		row(saved, list, `"pg-1"`, taken)
		row(object, list, `{"id":"g","deny":false,"async":true}`, taken)
		row(object, list, `{"id":7}`, "id")
		row(object, list, `{"deny":"true"}`, "deny")
		row(object, list, `{"async":1}`, "async")
		row(further, list, `{"default.contains":{"words":["x"],"operator":"none"}}`, taken)
		row(further, list, `{"default.contains":"x"}`, `["default.contains"]`)
		row(further, list, `{"colour":true}`, "colour")
		row(further, list, `{"colour":null}`, "colour")
		for _, value := range []string{`7`, `true`, `["g"]`, `null`} {
			row(other, list, value, itself)
		}
		rows = append(rows, configRow{other, leaf(p, `"`+list+`":"pg-1"`), "$." + list})
	}
	for _, r := range rows {
		prove(t, r.of, shown(p, r), func(t *testing.T) { g.checkRow(t, p, r) })
	}
}

// TestCachedResponsesExpire asks again until the cached response is too old.
func TestCachedResponsesExpire(t *testing.T) {
	g, _ := start(t)
	prove(t, "S-097", "a response is served until max_age seconds have passed", func(t *testing.T) {
		p := newProvider(t, saying("fine"))
		ask := func() string {
			got := g.ask(t, leaf(p, `"cache":{"mode":"simple","max_age":2}`)).wantOK(t)
			g.entry(t, got) // it has ended, and its response is stored
			return got.header.Get("x-gateway-cache-status")
		}
		stored := time.Now()
		if status := ask(); status != "MISS" {
			t.Fatalf("the first request: %s, want MISS", status)
		}
		hits := 0
		for status := ask(); status == "HIT"; status = ask() {
			hits++
			if age := time.Since(stored); age > 10*time.Second {
				t.Fatalf("a response with a max_age of 2 seconds is served after %v", age)
			}
		}
		if age := time.Since(stored); hits == 0 || age < 1900*time.Millisecond {
			t.Errorf("%d requests were served from the cache until %v after the first, want some for 2 seconds", hits, age)
		}
		called(t, []int{2}, p)
	})
}
