package checks_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"modelgate/config"
	"modelgate/internal/guardrail"
	"modelgate/internal/guardrail/checks"
	"modelgate/internal/testing/waittest"
)

// trees returns n different arrays of as many empty arrays as levels says, in JSON.
func trees(n, levels int) string {
	var list []string
	var grow func(text string, open, left int)
	grow = func(text string, open, left int) {
		switch {
		case len(list) == n:
		case left == 0:
			list = append(list, text+strings.Repeat("]", open))
		default:
			for closing := range open {
				grow(text+strings.Repeat("]", closing)+separator(closing)+"[", open-closing+1, left-1)
			}
		}
	}
	grow("[", 1, levels)
	return "[" + strings.Join(list, ",") + "]"
}

func separator(closed int) string {
	if closed > 0 {
		return ","
	}
	return ""
}

// chain returns the definitions of n schemas that each refer to the next one.
func chain(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"d%d":{"$ref":"#/$defs/d%d"},`, i, i+1)
	}
	fmt.Fprintf(&b, `"d%d":{}`, n)
	return b.String()
}

// list returns an array of n copies of item.
func list(n int, item string) string { return "[" + strings.Repeat(item+",", n-1) + item + "]" }

// numbered returns the names prefix0, prefix1 and so on, in JSON.
func numbered(prefix string, n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%q", fmt.Sprint(prefix, i))
	}
	return strings.Join(names, ",")
}

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
		{"different arrays of the same hash", "default.jsonSchema", `{"schema":{"uniqueItems":true}}`, trees(50_000, 12), "error"},
		{"different arrays of the same hash, deeper", "default.jsonSchema", `{"schema":{"properties":{"a":{"items":{"uniqueItems":true}}}}}`, `{"a":[` + trees(50_000, 14) + `]}`, "error"},
		{"many texts between equal objects", "default.jsonSchema", `{"schema":{"uniqueItems":true}}`, "[" + strings.ReplaceAll(numbered("name", 20_000), `"n`, `{"a":1},"n`) + "]", "failed"},
		{"many equal arrays", "default.jsonSchema", `{"schema":{"uniqueItems":true}}`, list(50_000, "[1,2,3]"), "failed"},
		{"many objects with an id", "default.jsonSchema", `{"schema":{"uniqueItems":true}}`, "[" + strings.ReplaceAll(strings.ReplaceAll(numbered("n", 5_000), `"n`, `{"type":"a","id":"`), `",`, `"},`) + "}]", "passed"},
		{"many different texts", "default.jsonSchema", `{"schema":{"uniqueItems":true}}`, "[" + numbered("name", 50_000) + "]", "passed"},
		{"many required members", "default.jsonSchema", `{"schema":{"items":{"required":[` + numbered("m", 5000) + `]}}}`, list(20_000, "{}"), "error"},
		{"many dependent members", "default.jsonSchema", `{"schema":{"items":{"dependentRequired":{"a":[` + numbered("m", 5000) + `]}}}}`, list(20_000, `{"a":1}`), "error"},
		{"a large constant", "default.jsonSchema", `{"schema":{"items":{"allOf":` + list(40, `{"not":{"const":`+list(100, "1")+`}}`) + `}}}`, list(2000, list(100, "1.0")), "error"},
		{"many references to references", "default.jsonSchema", `{"schema":{"$defs":{` + chain(5000) + `},"items":{"$ref":"#/$defs/d0"}}}`, list(90, "1"), "error"},
		{"numbers of many digits and multipleOf", "default.jsonSchema", `{"schema":{"items":{"allOf":` + list(100, `{"multipleOf":1e-399}`) + `}}}`, list(4_900, "1e400"), "error"},
		{"a dynamic reference to an expensive schema", "default.jsonSchema", `{"schema":{"$id":"http://x/a","$ref":"inner","$defs":{"e":{"$dynamicAnchor":"n","not":{"enum":` + list(5000, "[1]") + `}},
			"i":{"$id":"inner","items":{"$dynamicRef":"#n"},"$defs":{"e":{"$dynamicAnchor":"n"}}}}}}`, list(50_000, "[2]"), "error"},
		{"many texts that are regular expressions", "default.jsonSchema", `{"schema":{"$schema":"http://json-schema.org/draft-07/schema#","items":{"format":"regex"}}}`, list(20_000, `"(a{9}){99}b"`), "passed"},
		{"a text that is not a regular expression", "default.jsonSchema", `{"schema":{"$schema":"http://json-schema.org/draft-07/schema#","items":{"format":"regex"}}}`, `["("]`, "failed"},
		{"a long text and a pattern of a member that must not match", "default.jsonSchema", `{"schema":{"items":{"not":{"pattern":"(a|b){900}heron"}}}}`, `["` + strings.Repeat("ab", 2<<20) + `heron"]`, "error"},
		{"a long name of a member and a pattern", "default.jsonSchema", `{"schema":{"patternProperties":{"(a|b){900}heron":false}}}`, `{"` + strings.Repeat("ab", 2<<20) + `heron":1}`, "error"},
		{"matches that each read the rest of the text", "default.regexReplace", `{"rule":"x[^y]*y|x","timeout":1000}`, strings.Repeat("x", 1<<20), "error"},
		{"matches that each read the rest of a shorter text", "default.regexReplace", `{"rule":"x[^y]*y|x","timeout":500}`, strings.Repeat("x", 60<<10), "error"},
		{"a match in a text of matches that each read the rest", "default.regexMatch", `{"rule":"x[^y]*y|x","timeout":1000}`, strings.Repeat("x", 100<<10), "passed"},
		{"a short text and a large expression", "default.regexMatch", `{"rule":"(a|b|ab|ba|aa|bb){180}[cd]","timeout":100}`, strings.Repeat("ab", 60<<10), "error"},
		{"a long text and very many words", "default.contains", `{"words":[` + words + `"x"],"operator":"none"}`, strings.Repeat("a word ", 200<<10), "error"},
		{"a short text and very many words", "default.contains", `{"words":[` + words + `"x"],"operator":"none"}`, "a word ", "passed"},
		{"very many matches", "default.regexReplace", `{"rule":"a"}`, strings.Repeat("a", 5<<20), "error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			start := waittest.CPUTime(t)
			r, _ := run(t, checks.Services{}, text(before, tt.text), tt.id, tt.params)
			if got := resultOf(r); got != tt.want || got == "error" && !r.Incomplete {
				t.Errorf("result %s (%v, %v), want %s", got, r.Data, r.Error, tt.want)
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
