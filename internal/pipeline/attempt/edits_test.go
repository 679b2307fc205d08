package attempt_test

import (
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/testing/pipelinetest"
)

// S-088
func TestParametersAreFilledReplacedAndRemoved(t *testing.T) {
	for _, tt := range []struct {
		name, params, body, want string
	}{
		{"nothing", ``, `{"model":"m", "x" : 1.50}`, `{"model":"m", "x" : 1.50}`},
		{"a default that is missing", `"default_params":{"top_p":0.5}`, `{"model":"m"}`, `{"model":"m","top_p":0.5}`},
		{"a default that is given", `"default_params":{"top_p":0.5}`, `{"model":"m","top_p":0.1}`, `{"model":"m","top_p":0.1}`},
		{"a default that is given as null", `"default_params":{"top_p":0.5}`, `{"model":"m","top_p":null}`, `{"model":"m","top_p":null}`},
		{"an override of what is given", `"override_params":{"top_p":0.5}`, `{"model":"m","top_p":0.1,"n":1}`, `{"model":"m","top_p":0.5,"n":1}`},
		{"an override of what is missing", `"override_params":{"top_p":0.5}`, `{"model":"m"}`, `{"model":"m","top_p":0.5}`},
		{"an override of the model", `"override_params":{"model":"other"}`, `{"model":"m"}`, `{"model":"other"}`},
		{"an override over a default", `"default_params":{"top_p":0.5},"override_params":{"top_p":0.7}`, `{"model":"m"}`, `{"model":"m","top_p":0.7}`},
		{"an object is replaced whole", `"override_params":{"metadata":{"b":2}}`, `{"model":"m","metadata":{"a":1}}`, `{"model":"m","metadata":{"b":2}}`},
		{"numbers keep their spelling", `"override_params":{"seed":12345678901234567890,"top_p":1.0e-1}`, `{"model":"m"}`, `{"model":"m","seed":12345678901234567890,"top_p":1.0e-1}`},
		{"a member is dropped", `"drop_params":["user"]`, `{"model":"m","user":"ann","n":1}`, `{"model":"m","n":1}`},
		{"a path is dropped", `"drop_params":["messages[*].name","response_format.schema"]`, `{"messages":[{"name":"a","role":"user"},{"role":"x"},{"name":"b"}],"response_format":{"schema":{},"type":"t"}}`,
			`{"messages":[{"role":"user"},{"role":"x"},{}],"response_format":{"type":"t"}}`},
		{"an item is dropped", `"drop_params":["messages[0]"]`, `{"messages":[{"role":"a"},{"role":"b"}]}`, `{"messages":[{"role":"b"}]}`},
		{"what is not there is not dropped", `"drop_params":["messages[7].x","nothing.at.all"]`, `{"messages":[]}`, `{"messages":[]}`},
		{"drops come last", `"default_params":{"a":1},"override_params":{"b":2},"drop_params":["a","b"]`, `{"model":"m"}`, `{"model":"m"}`},
		{"duplicates in a nested place stay", `"override_params":{"b":2}`, `{"m":{"a":1,"a":2}}`, `{"m":{"a":1,"a":2},"b":2}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, _, err := pipelinetest.Plan(t, `{"provider":"@a",`+strings.TrimPrefix(tt.params+`,"request_timeout":1}`, ","), tt.body)
			if err != nil || string(got.Body) != tt.want {
				t.Errorf("body %s, %v; want %s", got.Body, err, tt.want)
			}
		})
	}
}

// S-089 and inheritance: override_params add up over all levels, the child's
// winning; drop_params are replaced.
func TestParametersAreInherited(t *testing.T) {
	const tree = `{"strategy":{"mode":"conditional","conditions":[{"query":{"metadata.to":"b"},"then":"b"},{"query":{"metadata.to":"c"},"then":"c"}],"default":"a"},
		"override_params":{"model":"root","top_p":0.1,"n":1},"default_params":{"seed":1,"user":"root"},"drop_params":["stop"],
		"targets":[
			{"name":"a","provider":"@a"},
			{"name":"b","provider":"@a","override_params":{"model":"b"},"default_params":{"seed":2},"drop_params":["user"]},
			{"name":"c","override_params":{"top_p":0.3},"strategy":{"mode":"single"},"targets":[{"provider":"@a","override_params":{"n":3}}]}]}`
	for _, tt := range []struct{ to, want string }{
		{"a", `{"model":"root","seed":1,"user":"root","top_p":0.1,"n":1}`},
		{"b", `{"model":"b","stop":"x","seed":2,"top_p":0.1,"n":1}`},
		{"c", `{"model":"root","seed":1,"user":"root","top_p":0.3,"n":3}`},
	} {
		t.Run(tt.to, func(t *testing.T) {
			got, _, err := pipelinetest.Plan(t, tree, `{"model":"m","stop":"x"}`, pipelinetest.Meta("to", tt.to))
			if err != nil || string(got.Body) != tt.want {
				t.Errorf("body %s, %v; want %s", got.Body, err, tt.want)
			}
		})
	}
}

// Quirks of the provider come after the config, and are chosen by the model
// that is really sent.
func TestQuirksSeeWhatTheConfigMadeOfTheBody(t *testing.T) {
	for _, tt := range []struct {
		name, params, body, want, told string
	}{
		{"none needed", ``, `{"model":"m"}`, `{"model":"m"}`, ""},
		{"each kind", ``, `{"model":"m","logit_bias":{},"max_tokens":5,"temperature":1.7}`, `{"model":"m","max_completion_tokens":5,"temperature":1}`,
			`logit_bias;dropped, max_tokens;renamed="max_completion_tokens", temperature;clamped=1`},
		{"of an override", `"override_params":{"temperature":2}`, `{"model":"m"}`, `{"model":"m","temperature":1}`, "temperature;clamped=1"},
		{"of a default", `"default_params":{"max_tokens":9}`, `{"model":"m"}`, `{"model":"m","max_completion_tokens":9}`, `max_tokens;renamed="max_completion_tokens"`},
		{"of the model that is sent", `"override_params":{"model":"thinker-2"}`, `{"model":"m","temperature":0.5}`, `{"model":"thinker-2"}`, "temperature;dropped"},
		{"not of the model that was asked for", `"override_params":{"model":"m"}`, `{"model":"thinker-2","temperature":0.5}`, `{"model":"m","temperature":0.5}`, ""},
		{"what the config drops is not announced", `"drop_params":["logit_bias"]`, `{"model":"m","logit_bias":{}}`, `{"model":"m"}`, ""},
		{"both spellings", ``, `{"model":"m","max_tokens":5,"max_completion_tokens":7}`, `{"model":"m","max_completion_tokens":7}`, "max_tokens;dropped"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, x, err := pipelinetest.Plan(t, `{"provider":"@a",`+strings.TrimPrefix(tt.params+`,"request_timeout":1}`, ","), tt.body)
			if err != nil || string(got.Body) != tt.want || x.Params() != tt.told {
				t.Errorf("body %s, told %q, %v; want %s, %q", got.Body, x.Params(), err, tt.want, tt.told)
			}
		})
	}
}

func TestTheModelOfAConfigStandsInForAMissingOne(t *testing.T) {
	for _, tt := range []struct{ params, body, want string }{
		{`"override_params":{"model":"o"}`, `{"model":"m"}`, "o"},
		{`"default_params":{"model":"d"}`, `{"n":1}`, "d"},
		{`"default_params":{"model":"d"}`, `{"model":"m"}`, "m"},
		{`"default_params":{"model":"d"},"override_params":{"model":"o"}`, `{"n":1}`, "o"},
	} {
		t.Run(tt.params, func(t *testing.T) {
			got, x, err := pipelinetest.Plan(t, fmt.Sprintf(`{"provider":"@a",%s}`, tt.params), tt.body)
			if err != nil || got.Model != tt.want || x.Trail.Planned[0].Model != tt.want || !strings.Contains(string(got.Body), `"model":"`+tt.want+`"`) {
				t.Errorf("model %q, sent %q, %v; want %q in %s", got.Model, x.Trail.Planned[0].Model, err, tt.want, got.Body)
			}
		})
	}
}
