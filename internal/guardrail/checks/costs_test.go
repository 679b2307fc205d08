package checks_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"modelgate/config"
	"modelgate/internal/guardrail"
	"modelgate/internal/guardrail/checks"
	"modelgate/internal/waittest"
)

// What a client sends may cost no more than a moment of a processor, whatever the check is.
func TestEveryCheckCostsABoundedTime(t *testing.T) {
	huge := "1e400000000"
	words := strings.Repeat(`"a word that is not there",`, 5000)
	for _, tt := range []struct{ name, id, params, text, want string }{
		{"a number with an exponent and multipleOf", "default.jsonSchema", `{"schema":{"multipleOf":3}}`, huge, "error"},
		{"a number with a negative exponent", "default.jsonSchema", `{"schema":{"multipleOf":3}}`, "[1e-400000000]", "error"},
		{"a number with an exponent and enum", "default.jsonSchema", `{"schema":{"properties":{"a":{"enum":[1,2]}}}}`, `{"a":` + huge + `}`, "error"},
		{"a number of many digits", "default.jsonSchema", `{"schema":{"maximum":3}}`, strings.Repeat("9", 1<<20), "error"},
		{"an ordinary number", "default.jsonSchema", `{"schema":{"multipleOf":3}}`, "[12e2]", "passed"},
		{"a large value and a large enum", "default.jsonSchema", `{"schema":{"enum":[` + strings.Repeat(`[1],`, 5000) + `0]}}`, "[" + strings.Repeat("1,", 20000) + "1]", "error"},
		{"a long text and very many words", "default.contains", `{"words":[` + words + `"x"],"operator":"none"}`, strings.Repeat("a word ", 200<<10), "error"},
		{"a short text and very many words", "default.contains", `{"words":[` + words + `"x"],"operator":"none"}`, "a word ", "passed"},
		{"very many matches", "default.regexReplace", `{"rule":"a"}`, strings.Repeat("a", 5<<20), "error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			start := waittest.CPUTime(t)
			r, _ := run(t, checks.Services{}, text(before, tt.text), tt.id, tt.params)
			if got := resultOf(r); got != tt.want || got == "error" && !r.Incomplete {
				t.Errorf("result %s (%v), want %s", got, r.Error, tt.want)
			}
			if took := waittest.CPUTime(t) - start; took > 20*time.Second {
				t.Errorf("took %s of processor time", took)
			}
		})
	}
}

func TestNamesOfModelsAreComparedInLinearTime(t *testing.T) {
	stars := strings.Repeat("a*", 200) + "b"
	for _, tt := range []struct{ pattern, model, want string }{
		{stars, strings.Repeat("a", 1000), "failed"},
		{stars, strings.Repeat("a", 999) + "b", "passed"},
		{"*", strings.Repeat("a", 1001), "error"},
		{"gpt-*", "gpt-4o", "passed"}, {"gpt-*", "xgpt-4o", "failed"}, {"*-4o", "gpt-4o", "passed"}, {"g*t*o", "gpt-4o", "passed"}, {"g*t*o", "go", "failed"},
		{"ab*ba", "aba", "failed"}, {"ab*ba", "abba", "passed"}, {"**", "x", "passed"}, {"a.c", "abc", "failed"}, {"a\\", "a\\", "passed"},
	} {
		in := &guardrail.Input{Event: before, Request: &guardrail.Request{Model: tt.model}}
		if r, _ := run(t, checks.Services{}, in, "default.modelWhitelist", fmt.Sprintf(`{"models":[%q]}`, tt.pattern)); resultOf(r) != tt.want {
			t.Errorf("%.20q and the model %.20q = %s, want %s", tt.pattern, tt.model, resultOf(r), tt.want)
		}
	}
}

// A guardrail whose compilation could take long is refused when it is saved.
func TestSchemasAndReplacementsAreBoundedWhenCompiled(t *testing.T) {
	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprintf(`"p%d.*":{}`, i)
	}
	for _, tt := range []struct{ id, params, path string }{
		{"default.jsonSchema", `{"schema":{"patternProperties":{` + strings.Join(many, ",") + `}}}`, "schema"},
		{"default.jsonSchema", `{"schema":{"multipleOf":1e400000000}}`, "schema"},
		{"default.jsonSchema", `{"schema":{"enum":[1e-400000000]}}`, "schema"},
		{"default.regexReplace", fmt.Sprintf(`{"rule":"a","redactText":%q}`, strings.Repeat("x", 60<<10)), "redactText"},
	} {
		start := waittest.CPUTime(t)
		_, faults := checks.New(checks.Services{}).CompileHook("$", config.Hook{ID: "h", Checks: []config.Check{{ID: tt.id, Parameters: object(t, tt.params)}}}, before)
		if len(faults) != 1 || !strings.HasSuffix(faults[0].Path, tt.path) {
			t.Errorf("%s %.40s: faults %v, want one of %s", tt.id, tt.params, faults, tt.path)
		}
		if took := waittest.CPUTime(t) - start; took > 10*time.Second {
			t.Errorf("%s took %s", tt.id, took)
		}
	}
}
