package settings_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"modelgate/internal/settings"
)

// validator checks a document against the keywords that the schema uses, apart
// from the code that reads files, and panics on any other keyword, so that none
// is skipped.
type validator map[string]any

func mustSchema(t *testing.T) validator {
	t.Helper()
	var v validator
	if err := json.Unmarshal(settings.Schema(), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func (v validator) isValid(schema map[string]any, doc any) bool {
	for keyword, rule := range schema {
		if !v.holds(schema, keyword, rule, doc) {
			return false
		}
	}
	return true
}

func (v validator) holds(schema map[string]any, keyword string, rule, doc any) bool {
	text, isText := doc.(string)
	number, isNumber := doc.(float64)
	items, isList := doc.([]any)
	object, isObject := doc.(map[string]any)
	switch keyword {
	case "$schema", "$defs", "title", "description", "format":
		return true
	case "$ref":
		return v.isValid(v["$defs"].(map[string]any)[strings.TrimPrefix(rule.(string), "#/$defs/")].(map[string]any), doc)
	case "type":
		return ofType(rule, doc)
	case "enum":
		return slices.Contains(rule.([]any), doc)
	case "anyOf":
		return slices.ContainsFunc(rule.([]any), func(s any) bool { return v.isValid(s.(map[string]any), doc) })
	case "pattern":
		return !isText || regexp.MustCompile(rule.(string)).MatchString(text)
	case "minLength":
		return !isText || len([]rune(text)) >= int(rule.(float64))
	case "maxLength":
		return !isText || len([]rune(text)) <= int(rule.(float64))
	case "minimum":
		return !isNumber || number >= rule.(float64)
	case "maximum":
		return !isNumber || number <= rule.(float64)
	case "minItems":
		return !isList || len(items) >= int(rule.(float64))
	case "maxItems":
		return !isList || len(items) <= int(rule.(float64))
	case "maxProperties":
		return !isObject || len(object) <= int(rule.(float64))
	case "items":
		return !slices.ContainsFunc(items, func(i any) bool { return !v.isValid(rule.(map[string]any), i) })
	case "required":
		return !isObject || !slices.ContainsFunc(rule.([]any), func(name any) bool { return object[name.(string)] == nil })
	case "properties", "additionalProperties":
		return v.members(schema, object)
	}
	panic("the schema uses the unknown keyword " + keyword)
}

// members checks the properties of an object by both keywords at once.
func (v validator) members(schema, object map[string]any) bool {
	known, _ := schema["properties"].(map[string]any)
	for name, value := range object {
		rule, ok := known[name].(map[string]any)
		if !ok {
			rule, ok = schema["additionalProperties"].(map[string]any)
			if !ok && schema["additionalProperties"] != true {
				return false
			}
		}
		if !v.isValid(rule, value) {
			return false
		}
	}
	return true
}

func ofType(rule, doc any) bool {
	if list, ok := rule.([]any); ok {
		return slices.ContainsFunc(list, func(r any) bool { return ofType(r, doc) })
	}
	switch doc := doc.(type) {
	case nil:
		return rule == "null"
	case bool:
		return rule == "boolean"
	case string:
		return rule == "string"
	case float64:
		return rule == "number" || rule == "integer" && doc == float64(int64(doc))
	case []any:
		return rule == "array"
	}
	return rule == "object"
}

// accepts reports whether a text of YAML fits the schema.
func (v validator) accepts(t *testing.T, text string) bool {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	return v.isValid(v, doc)
}

const wholeState = "../controlplane/manifest/testdata/whole.yaml"

func parses(text string) bool {
	_, err := settings.ParseState("f", []byte(text), settings.SecretResolver{Env: func(name string) (string, bool) {
		if strings.HasSuffix(name, "JSON") {
			return `{"a":"x"}`, true
		}
		return "x", true
	}})
	return err == nil
}

func TestTheSchemaAcceptsAndRefusesWhatIsReadAndNot(t *testing.T) {
	v := mustSchema(t)
	state, err := os.ReadFile(wholeState)
	if err != nil {
		t.Fatal(err)
	}
	const hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	for _, tt := range []struct {
		text string
		want bool
	}{
		{string(state), true}, {whole, true}, {"version: 1\n", true}, {"log:\nkeys:\n", true}, {"version: 2\n", false}, {"robots: []\n", false},
		{"keys: [{sha256: " + hash + "}]\n", true}, {"keys: [{name: a}]\n", false}, {"keys: [{sha256: abc}]\n", false}, {"keys: {}\n", false},
		{"keys: [{sha256: " + hash + ", type: king}]\n", false}, {"keys: [{sha256: " + hash + ", rate_limits: [{type: requests, unit: rpy, value: 1}]}]\n", false},
		{"limits: {json_body: 5 MB, event: 7}\n", true}, {"limits: {json_body: 5 parsecs}\n", false}, {"limits: {json_body: -1}\n", false},
		{"drain: {max: 1m30s}\n", true}, {"drain: {max: 5}\n", false}, {"timeouts: {total: -1s}\n", true}, {"log: {level: loud}\n", false}, {"log: {level: warn, queue: 5}\n", true},
		{"log: {queue: many}\n", false}, {"prices: [{provider: openai, model: b, input: 0.5}]\n", true}, {"prices: [{provider: openai, model: b, input: -1}]\n", false},
		{"prices: [{provider: a}]\n", false}, {"providers: [{slug: a, provider: openai, models: [7]}]\n", false}, {"providers: [{slug: .a, provider: openai}]\n", false},
		{"workspaces: [{slug: a, usage_limits: [{credit_limit: 0.5}]}]\n", false}, {"workspaces: [{slug: a, settings: []}]\n", false},
		{"guardrails: [{slug: a, checks: []}]\n", false}, {"secret_references: [{slug: a, manager_type: drawer, secret_path: x}]\n", false},
		{"deployments: [{slug: a, client_sha256: " + hash + ", type: toy}]\n", false}, {"integrations: [{slug: a}]\n", false},
	} {
		if got := v.accepts(t, tt.text); got != tt.want {
			t.Errorf("the schema: %t for %.80q, want %t", got, tt.text, tt.want)
		}
		if got := parses(tt.text); got != tt.want {
			t.Errorf("reading: %t for %.80q, want %t", got, tt.text, tt.want)
		}
	}
}

// TestEveryFieldIsDescribedAsItIsRead puts a value of each kind into each field.
func TestEveryFieldIsDescribedAsItIsRead(t *testing.T) {
	schema := mustSchema(t)
	raw, err := os.ReadFile(wholeState)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	n := 0
	for section, v := range doc {
		items, ok := v.([]any)
		if !ok {
			items = []any{v}
		}
		for _, item := range items {
			alone := map[string]any{section: item}
			if ok {
				alone[section] = []any{item}
			}
			n += tryValues(t, schema, alone)
		}
	}
	if n < 500 {
		t.Errorf("%d values were tried", n)
	}
}

// tryValues puts values into each field of a document.
func tryValues(t *testing.T, schema validator, doc map[string]any) (n int) {
	t.Helper()
	walkValues(doc, func(where string, put func(any)) {
		for _, value := range []any{"x", strings.Repeat("y", 3000), -1.5, true, []any{"x"}, map[string]any{"unknown": 1}} {
			put(value)
			text, err := json.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			n++
			// What else reading refuses is not the schema's to say.
			if isValid, read := schema.accepts(t, string(text)), parses(string(text)); read && !isValid {
				t.Errorf("%s = %.40v is read, and the schema refuses it", where, value)
			}
		}
	})
	return n
}

// walkValues calls f for every member of v, and puts back what was there.
func walkValues(v any, f func(where string, put func(any))) {
	switch v := v.(type) {
	case map[string]any:
		for name, was := range v {
			f(name, func(x any) { v[name] = x })
			v[name] = was
			walkValues(was, f)
		}
	case []any:
		for _, inner := range v[:min(len(v), 2)] {
			walkValues(inner, f)
		}
	}
}
