package checks_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"modelgate/config"
	"modelgate/internal/guardrail"
	"modelgate/internal/guardrail/checks"
)

func checkOf(id string, o config.Object) config.Check { return config.Check{ID: id, Parameters: o} }

// body is a document without texts.
type body string

func (b body) JSON([]guardrail.Part, []guardrail.Message) (json.RawMessage, error) {
	return json.RawMessage(b), nil
}

func (b body) Replace(raw json.RawMessage) (guardrail.Document, []guardrail.Part, error) {
	return body(raw), []guardrail.Part{{Kind: guardrail.Text, Text: "replaced"}}, nil
}

func TestRequestsAreCheckedByTheirFacts(t *testing.T) {
	request := func(model string, metadata ...string) guardrail.Request {
		r := guardrail.Request{Operation: "chatComplete", Model: model, Metadata: map[string]string{}}
		for i := 0; i < len(metadata); i += 2 {
			r.Metadata[metadata[i]] = metadata[i+1]
		}
		return r
	}
	const rules = `{"rules":{"defaults":["small"],"metadata":{"team":{"a":["big"],"b":["huge-*"]}}}}`
	for _, tt := range []struct {
		id, params string
		request    guardrail.Request
		want       string
	}{
		{"default.modelWhitelist", `{"models":["m1","m2"]}`, request("m1"), "passed"},
		{"default.modelwhitelist", `{"models":["m1"]}`, request("m10"), "failed"},
		{"default.modelWhitelist", `{"models":["m*"]}`, request("m10"), "passed"},
		{"default.modelWhitelist", `{"models":["m.1"]}`, request("mx1"), "failed"},
		{"default.modelWhitelist", `{"models":["m1"],"not":true}`, request("m1"), "failed"},
		{"default.modelWhitelist", `{"models":["m1"]}`, request(""), "error"},
		{"default.modelRules", rules, request("big", "team", "a"), "passed"},
		{"default.modelRules", rules, request("small", "team", "a"), "failed"},
		{"default.modelRules", rules, request("small"), "passed"},
		{"default.modelRules", rules, request("small", "team", "c"), "passed"},
		{"default.modelRules", rules, request("huge-1", "team", `["a","b"]`), "passed"},
		{"default.modelRules", `{"rules":{"metadata":{"team":{"a":["big"]}}}}`, request("big"), "error"},
		{"default.allowedRequestTypes", `{"allowedTypes":["chatComplete"]}`, request("m"), "passed"},
		{"default.allowedRequestTypes", `{"allowedTypes":"embed, complete"}`, request("m"), "failed"},
		{"default.allowedRequestTypes", `{"blockedTypes":["chatComplete"]}`, request("m"), "failed"},
		{"default.allowedRequestTypes", `{}`, request("m"), "passed"},
		{"default.allowedRequestTypes", `{}`, request("m", "supported_endpoints", "embed"), "failed"},
		{"default.allowedRequestTypes", `{}`, request("m", "blocked_endpoints", `["chatComplete"]`), "failed"},
		{"default.allowedRequestTypes", `{}`, request("m", "blocked_endpoints", "embed", "supported_endpoints", "embed"), "error"},
		{"default.allowedRequestTypes", `{"blockedTypes":["embed"]}`, request("m", "blocked_endpoints", "chatComplete"), "passed"},
		{"default.requiredMetadataKeys", `{"metadataKeys":["a","b"]}`, request("m", "a", "1"), "failed"},
		{"default.requiredMetadataKeys", `{"metadataKeys":["a","b"],"operator":"any"}`, request("m", "a", "1"), "passed"},
		{"default.requiredMetadataKeys", `{"metadataKeys":["a","b"],"operator":"none"}`, request("m", "a", "1"), "failed"},
		{"default.requiredMetadataKeys", `{"metadataKeys":["a","b"],"operator":"none"}`, request("m"), "passed"},
		{"default.requiredMetadataKeyValuePairs", `{"metadataPairs":{"a":"1","b":"2"}}`, request("m", "a", "1", "b", "2"), "passed"},
		{"default.requiredMetadataKeyValuePairs", `{"metadataPairs":{"a":"1","b":"2"}}`, request("m", "a", "1", "b", "3"), "failed"},
		{"default.requiredMetadataKeyValuePairs", `{"metadataPairs":{"a":"1"},"operator":"none"}`, request("m"), "passed"},
		{"default.requiredMetadataKeyValuePairs", `{"metadataPairs":{"a":"^[0-9]$"},"matchType":"regex"}`, request("m", "a", "7"), "passed"},
		{"default.requiredMetadataKeyValuePairs", `{"metadataPairs":{"a":"x"},"matchType":"contains"}`, request("m", "a", "yxy"), "passed"},
	} {
		t.Run(fmt.Sprint(tt.id, tt.params, tt.request.Model, tt.request.Metadata), func(t *testing.T) {
			in := text(guardrail.Before, "hi")
			in.Request = &tt.request
			if r, _ := run(t, checks.Services{}, in, tt.id, tt.params); resultOf(r) != tt.want {
				t.Errorf("result = %s, want %s (%v, %v)", resultOf(r), tt.want, r.Data, r.Error)
			}
		})
	}
}

// The statements S-579 to S-586 of requests' parameters.
func TestRequestParametersAreChecked(t *testing.T) {
	const chat = `{"model":"m","temperature":1,"tools":[{"type":"function","function":{"name":"search"}},{"type":"web_search"}]}`
	for _, tt := range []struct{ dialect, params, body, want, reason string }{
		{"chat", `{}`, chat, "passed", ""},
		{"chat", `{"tools":{"blockedTypes":["web_search"]}}`, chat, "failed", "type_blocked"},
		{"chat", `{"tools":{"allowedTypes":["function"]}}`, chat, "failed", "type_not_allowed"},
		{"chat", `{"tools":{"allowedTypes":[]}}`, chat, "passed", ""},
		{"chat", `{"tools":{"blockedFunctionNames":["search"]}}`, chat, "failed", "name_blocked"},
		{"chat", `{"tools":{"allowedFunctionNames":["search"]}}`, chat, "failed", "name_not_allowed"}, // web_search is its own name
		{"chat", `{"tools":{"allowedFunctionNames":["search","web_search"]}}`, chat, "passed", ""},
		{"chat", `{"tools":{"blockedFunctionNames":["old"]}}`, `{"functions":[{"name":"old"}]}`, "failed", "name_blocked"},
		{"chat", `{"tools":{"blockedTypes":["function"]}}`, `{"functions":[{"name":"old"}]}`, "failed", "type_blocked"},
		{"chat", `{"tools":{"blockedTypes":["x"],"allowedTypes":["function"]}}`, `{"tools":[{"type":"function","type":"x"}]}`, "failed", "type_not_allowed"},
		{"messages", `{"tools":{"blockedTypes":["function"]}}`, `{"tools":[{"name":"f","input_schema":{}}]}`, "failed", "type_blocked"},
		{"messages", `{"tools":{"blockedTypes":["function"]}}`, `{"tools":[{"type":"custom","name":"f"}]}`, "failed", "type_blocked"},
		{"responses", `{"tools":{"blockedFunctionNames":["f"]}}`, `{"tools":[{"type":"function","name":"f"}]}`, "failed", "name_blocked"},
		{"gemini", `{"tools":{"blockedFunctionNames":["f"]}}`, `{"tools":[{"functionDeclarations":[{"name":"g"},{"name":"f"}]}]}`, "failed", "name_blocked"},
		{"gemini", `{"tools":{"blockedTypes":["googleSearch"]}}`, `{"tools":[{"googleSearch":{}}]}`, "failed", "type_blocked"},
		{"converse", `{"tools":{"blockedFunctionNames":["f"]}}`, `{"toolConfig":{"tools":[{"toolSpec":{"name":"f"}}]}}`, "failed", "name_blocked"},
		{"chat", `{"params":{"blockedKeys":["temperature"]}}`, chat, "failed", "key_blocked"},
		{"chat", `{"params":{"allowedKeys":["model","tools"]}}`, chat, "failed", "key_not_allowed"},
		{"chat", `{"params":{"allowedKeys":["model","tools","temperature"]}}`, chat, "passed", ""},
		{"chat", `{"params":{"values":{"temperature":{"blockedValues":[1]}}}}`, chat, "failed", "value_blocked"},
		{"chat", `{"params":{"values":{"temperature":{"blockedValues":["1",true]}}}}`, chat, "passed", ""}, // strict type
		{"chat", `{"params":{"values":{"temperature":{"allowedValues":[0,0.5]}}}}`, chat, "failed", "value_not_allowed"},
		{"chat", `{"params":{"values":{"seed":{"allowedValues":[0]}}}}`, chat, "passed", ""}, // absent
	} {
		t.Run(tt.params+tt.body, func(t *testing.T) {
			in := text(guardrail.Before, "hi")
			in.Request, in.Document = &guardrail.Request{Dialect: tt.dialect}, body(tt.body)
			r, _ := run(t, checks.Services{}, in, "default.requestParametersCheck", tt.params)
			found, _ := json.Marshal([]any{r.Data.More["blockedToolsFound"], r.Data.More["blockedParamsFound"]})
			if resultOf(r) != tt.want || tt.reason != "" && !strings.Contains(string(found), `"reason":"`+tt.reason+`"`) {
				t.Errorf("result = %s with %s (%v), want %s %s", resultOf(r), found, r.Error, tt.want, tt.reason)
			}
		})
	}
}

func TestListsOfParametersMustNotConflict(t *testing.T) {
	for _, tt := range []struct{ id, params, path string }{
		{"default.requestParametersCheck", `{"tools":{"allowedTypes":["a"],"blockedTypes":["a"]}}`, "p.tools.blockedTypes"},
		{"default.requestParametersCheck", `{"params":{"allowedKeys":["a"],"blockedKeys":["a"]}}`, "p.params.blockedKeys"},
		{"default.requestParametersCheck", `{"params":{"values":{"a":{"allowedValues":[1],"blockedValues":[1]}}}}`, "p.params.values.a"},
		{"default.requestParametersCheck", `{"tools":{"blockedTypes":["a",1]}}`, "p.tools.blockedTypes[1]"},
		{"default.requestParametersCheck", `{"tools":{"blocked":["a"]}}`, "p.tools.blocked"},
		{"default.allowedRequestTypes", `{"allowedTypes":["embed"],"blockedTypes":["embed"]}`, "p.blockedTypes"},
		{"default.modelRules", `{"rules":{"metadata":{"team":["a"]}}}`, "p.rules.metadata.team"},
		{"default.modelRules", `{"rules":{}}`, "p.rules"},
		{"default.wordCount", `{"minWords":5,"maxWords":4}`, "p.minWords"},
		{"default.webhook", `{"webhookURL":"ftp://x"}`, "p.webhookURL"},
		{"default.webhook", `{"webhookURL":"https://x.example","forwardHeaders":["X-A","Authorization"]}`, "p.forwardHeaders[1]"},
		{"default.webhook", `{"webhookURL":"https://x.example","headers":{"Host":"y"}}`, "p.headers"},
		{"default.webhook", `{"webhookURL":"https://x.example","headers":{"X":"a\nb"}}`, "p.headers"},
		{"lakera.guard", `{"credentials":{"key":"x"}}`, "p.credentials.key"},
	} {
		_, faults := checks.New(checks.Services{}).Check("p", checkOf(tt.id, object(t, tt.params)), guardrail.Before)
		if len(faults) != 1 || faults[0].Path != tt.path {
			t.Errorf("%s %s = %v, want a fault at %s", tt.id, tt.params, faults, tt.path)
		}
	}
}
