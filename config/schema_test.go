package config_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"modelgate/config"
)

// validator checks JSON against the keywords that the schema uses, and fails on
// any other keyword, so that none is skipped.
type validator struct{ root map[string]any }

func mustValidator(t *testing.T) validator {
	t.Helper()
	var v validator
	if err := json.Unmarshal(config.Schema(), &v.root); err != nil {
		t.Fatal(err)
	}
	return v
}

// accepts reports whether doc fits the schema, and if not the keyword that
// refuses it.
func (v validator) accepts(text string) (refusal string) {
	var doc any
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		return err.Error()
	}
	return v.check(v.root, doc)
}

func (v validator) check(schema map[string]any, doc any) string {
	for keyword, rule := range schema {
		if !v.holds(schema, keyword, rule, doc) {
			return keyword + " of " + fmt.Sprint(schema["description"])
		}
	}
	return ""
}

func (v validator) isValid(rule, doc any) bool { return v.check(rule.(map[string]any), doc) == "" }

func (v validator) count(rules, doc any) (n int) {
	for _, rule := range rules.([]any) {
		if v.isValid(rule, doc) {
			n++
		}
	}
	return n
}

func (v validator) holds(schema map[string]any, keyword string, rule, doc any) bool {
	members, isObject := doc.(map[string]any)
	items, isArray := doc.([]any)
	text, isText := doc.(string)
	number, isNumber := doc.(float64)
	switch keyword {
	case "$schema", "title", "description", "$defs", "properties", "patternProperties", "then":
		return v.checkMembers(schema, members, isObject)
	case "additionalProperties":
		return !isObject || v.additional(schema, rule, members)
	case "$ref":
		return v.isValid(v.root["$defs"].(map[string]any)[strings.TrimPrefix(rule.(string), "#/$defs/")], doc)
	case "type":
		return ofType(rule.(string), doc)
	case "enum":
		return slices.Contains(rule.([]any), doc)
	case "pattern":
		return !isText || regexp.MustCompile(rule.(string)).MatchString(text)
	case "minimum":
		return !isNumber || number >= rule.(float64)
	case "maximum":
		return !isNumber || number <= rule.(float64)
	case "exclusiveMinimum":
		return !isNumber || number > rule.(float64)
	case "minLength":
		return !isText || len(text) >= int(rule.(float64))
	case "minItems":
		return !isArray || len(items) >= int(rule.(float64))
	case "minProperties":
		return !isObject || len(members) >= int(rule.(float64))
	case "items":
		return !slices.ContainsFunc(items, func(item any) bool { return !v.isValid(rule, item) })
	case "dependentRequired":
		for name, needs := range rule.(map[string]any) {
			if _, given := members[name]; given && !v.holds(schema, "required", needs, doc) {
				return false
			}
		}
		return true
	case "if":
		return !v.isValid(rule, doc) || v.isValid(schema["then"], doc)
	case "required":
		return !isObject || !slices.ContainsFunc(rule.([]any), func(name any) bool { _, ok := members[name.(string)]; return !ok })
	case "oneOf":
		return v.count(rule, doc) == 1
	case "anyOf":
		return v.count(rule, doc) > 0
	}
	panic("the schema uses the unknown keyword " + keyword)
}

func (v validator) checkMembers(schema, members map[string]any, isObject bool) bool {
	properties, _ := schema["properties"].(map[string]any)
	patterns, _ := schema["patternProperties"].(map[string]any)
	for name, value := range members {
		if rule, ok := properties[name]; isObject && ok && !v.isValid(rule, value) {
			return false
		}
		for pattern, rule := range patterns {
			if regexp.MustCompile(pattern).MatchString(name) && !v.isValid(rule, value) {
				return false
			}
		}
	}
	return true
}

func (v validator) additional(schema map[string]any, rule any, members map[string]any) bool {
	properties, _ := schema["properties"].(map[string]any)
	patterns, _ := schema["patternProperties"].(map[string]any)
	for name, value := range members {
		_, listed := properties[name]
		for pattern := range patterns {
			listed = listed || regexp.MustCompile(pattern).MatchString(name)
		}
		if more, ok := rule.(map[string]any); !listed && (!ok || !v.isValid(more, value)) {
			return false
		}
	}
	return true
}

func ofType(want string, doc any) bool {
	switch doc := doc.(type) {
	case map[string]any:
		return want == "object"
	case []any:
		return want == "array"
	case string:
		return want == "string"
	case bool:
		return want == "boolean"
	case nil:
		return want == "null"
	case float64:
		return want == "number" || want == "integer" && doc == float64(int64(doc))
	}
	return false
}

func TestSchemaAcceptsWhatParseAccepts(t *testing.T) {
	v := mustValidator(t)
	rapid.Check(t, func(t *rapid.T) {
		text := spelling{}.write(node(t, 3))
		if refusal := v.accepts(text); refusal != "" {
			t.Fatalf("the schema refuses %s by %s", text, refusal)
		}
	})
}

// Each row breaks one rule of one property, as far as a schema can say it.
func TestSchemaRefusesWhatParseRefuses(t *testing.T) {
	v := mustValidator(t)
	for _, text := range []string{
		`{}`, `{"weight":1}`, `{"provider":"openai"}`, `[]`,
		`{"provider":"bedrock","cloud_a_access_key_id":"i"}`,
		`{"override_params":{"model":"gpt"}}`,
		leaf(`"colour":1`), leaf(`"name":1`), leaf(`"name":""`), leaf(`"weight":-1`), leaf(`"request_timeout":0.5`),
		leaf(`"on_status_codes":["x"]`), leaf(`"cache":{}`), leaf(`"cache":{"mode":"x"}`), leaf(`"retry":{"attempts":"1"}`),
		leaf(`"cb_config":{"failure_threshold":0.5,"cooldown_interval":30000}`),
		leaf(`"cb_config":{"failure_threshold":1,"cooldown_interval":29999}`),
		leaf(`"cb_config":{"cooldown_interval":30000}`),
		leaf(`"cb_config":{"failure_threshold_percentage":0,"cooldown_interval":30000}`),
		leaf(`"cb_config":{"failure_threshold_percentage":101,"cooldown_interval":30000}`),
		leaf(`"hedge":{"delay_ms":1,"max":11}`), leaf(`"on_status_codes":[1000]`),
		leaf(`"cloud_c_deployment_type":"x"`), leaf(`"deployments":[{"alias":"a"}]`),
		leaf(`"before_request_hooks":[{}]`), leaf(`"after_request_hooks":[{"id":"h","on_fail":{"deny":true}}]`),
		leaf(`"input_guardrails":[1]`), leaf(`"input_guardrails":[{"x":1}]`), leaf(`"input_guardrails":[{"on_fail":{"deny":true}}]`),
		tree(`{}`, named), tree(`{"mode":"x"}`, named), tree(`{"mode":"single"}`, ``), tree(`{"mode":"single"}`, `1`),
		`{"strategy":{"mode":"single"}}`, `{"targets":[` + named + `]}`,
		tree(`{"mode":"conditional","default":"a"}`, named),
		tree(`{"mode":"conditional","conditions":[{"query":{},"then":"a"}]}`, named),
		tree(`{"mode":"single","conditions":[{"query":{"plan":1},"then":"a"}]}`, named),
		tree(`{"mode":"single","conditions":[{"query":{"metadata.a":[]},"then":"a"}]}`, named),
		tree(`{"mode":"single","conditions":[{"query":{"metadata.a":{"$like":1}},"then":"a"}]}`, named),
		tree(`{"mode":"single","conditions":[{"query":{"$or":[]},"then":"a"}]}`, named),
	} {
		t.Run(text, func(t *testing.T) {
			faultsOf(t, text)
			if v.accepts(text) == "" {
				t.Error("the schema accepts it")
			}
		})
	}
}

// The schema is the reviewed list of properties; a change shows in the file.
func TestSchemaIsTheReviewedOne(t *testing.T) {
	compareFile(t, "testdata/schema.json", config.Schema())
}

func compareFile(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s differs; run go test ./config -update and review the change\ngot:\n%s", file, got)
	}
}
