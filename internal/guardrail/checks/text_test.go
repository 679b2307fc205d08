package checks_test

import (
	"strings"
	"testing"

	"modelgate/config"
	"modelgate/internal/guardrail"
	"modelgate/internal/guardrail/checks"
)

func TestRegexMatchFindsThePatternAnywhere(t *testing.T) {
	testTexts(t, guardrail.Before, "default.regexMatch", []textRow{
		{`{"rule":"b+"}`, "abbc", "passed"},
		{`{"rule":"^b"}`, "abbc", "failed"},
		{`{"rule":"B"}`, "abbc", "failed"},
		{`{"rule":"(?i)B"}`, "abbc", "passed"},
		{`{"rule":"b","not":true}`, "abbc", "failed"},
		{`{"rule":"x","not":true}`, "abbc", "passed"},
		{`{"rule":"x"}`, "", "error"},
	})
}

func TestContainsCountsWords(t *testing.T) {
	testTexts(t, guardrail.After, "contains", []textRow{
		{`{"words":["one","two"]}`, "one only", "passed"},
		{`{"words":["one","two"]}`, "neither", "failed"},
		{`{"words":["One"]}`, "one", "failed"},
		{`{"words":["one","two"],"operator":"all"}`, "one only", "failed"},
		{`{"words":["one","two"],"operator":"all"}`, "twone", "passed"},
		{`{"words":["one","two"],"operator":"none"}`, "one only", "failed"},
		{`{"words":["one","two"],"operator":"none"}`, "neither", "passed"},
		{`{"words":["one"]}`, "", "error"},
	})
}

func TestWrongParametersAreReportedWithTheirPath(t *testing.T) {
	for _, tt := range []struct{ id, params, path, message string }{
		{"default.regexMatch", `{}`, "p.rule", "is required"},
		{"default.regexMatch", `{"rule":7}`, "p.rule", "must be a string"},
		{"default.regexMatch", `{"rule":null}`, "p.rule", "must be a string"},
		{"default.regexMatch", `{"rule":"("}`, "p.rule", "RE2 syntax"},
		{"default.regexMatch", `{"rule":"(?=x)"}`, "p.rule", "RE2 syntax"},
		{"default.regexMatch", `{"rule":"((a{30}){30}){30}"}`, "p.rule", "RE2 syntax"},
		{"default.regexMatch", `{"rule":"x{1000}y{1000}x{1000}y{1000}x{1000}y{1000}"}`, "p.rule", "instructions"},
		{"default.regexMatch", `{"rule":"` + strings.Repeat("a", 5000) + `"}`, "p.rule", "4096 bytes"},
		{"default.regexMatch", `{"rule":"a","not":"yes"}`, "p.not", "must be a boolean"},
		{"default.regexMatch", `{"rule":"a","timeot":true}`, "p.timeot", "did you mean timeout?"},
		{"default.regexMatch", `{"rule":"a","timeout":0.5}`, "p.timeout", "must be an integer from 1 to 60000"},
		{"default.regexMatch", `{"rule":"a","kinds":["text","audio"]}`, "p.kinds[1]", "must be a string: text"},
		{"default.contains", `{"words":["a",1]}`, "p.words[1]", "must be a string"},
		{"default.contains", `{"words":"a"}`, "p.words", "must be an array of strings"},
		{"default.contains", `{"words":["a"],"operator":"some"}`, "p.operator", "any, all, none"},
		{"default.contain", `{}`, "p", "did you mean default.contains?"},
		{"nothing.at.all", `{}`, "p", "not found"},
	} {
		_, faults := checks.New(checks.Services{}).Check("p", config.Check{ID: tt.id, Parameters: object(t, tt.params)}, guardrail.Before)
		if len(faults) != 1 || faults[0].Path != tt.path || !strings.Contains(faults[0].Message, tt.message) {
			t.Errorf("%s %.60s = %v, want %s …%s…", tt.id, tt.params, faults, tt.path, tt.message)
		}
	}
}
