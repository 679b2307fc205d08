package checks_test

import (
	"strings"
	"testing"

	"modelgate/internal/guardrail"
	"modelgate/internal/guardrail/checks"
)

func TestCountsAreWithinTheirLimits(t *testing.T) {
	testTexts(t, guardrail.Before, "default.sentenceCount", []textRow{
		{`{"minSentences":2,"maxSentences":2}`, "One. Two!", "passed"},
		{`{"minSentences":3}`, "One. Two!", "failed"},
		{`{"maxSentences":1}`, "Why? Because.", "failed"},
		{`{"minSentences":1}`, "no end", "failed"},
		{`{"minSentences":1,"not":true}`, "no end", "passed"},
	})
	testTexts(t, guardrail.Before, "wordCount", []textRow{
		{`{"minWords":3,"maxWords":3}`, "  one\ttwo\n three ", "passed"},
		{`{"maxWords":2}`, "one two three", "failed"},
		{`{}`, "   ", "error"},
		{`{}`, "", "error"},
	})
	testTexts(t, guardrail.After, "characterCount", []textRow{
		{`{"minCharacters":4,"maxCharacters":4}`, "ab😀", "passed"}, // UTF-16: the emoji counts 2
		{`{"minCharacters":3,"maxCharacters":3}`, "äöü", "passed"},
		{`{"maxCharacters":2}`, "abc", "failed"},
	})
}

func TestLettersAreOfOneCase(t *testing.T) {
	testTexts(t, guardrail.Before, "default.allUppercase", []textRow{
		{`{}`, "ABC 1!", "passed"}, {`{}`, "123", "passed"}, {`{}`, "ABc", "failed"}, {`{}`, "ÄÖü", "passed"}, {`{"not":true}`, "ABc", "passed"}, {`{"not":true}`, "ABC", "failed"},
	})
	testTexts(t, guardrail.Before, "default.alllowercase", []textRow{{`{}`, "abc", "passed"}, {`{}`, "abC", "failed"}})
}

func TestEndsWithAllowsAFullStop(t *testing.T) {
	testTexts(t, guardrail.After, "default.endsWith", []textRow{
		{`{"suffix":"bye"}`, "good bye", "passed"}, {`{"suffix":"bye"}`, "good bye.", "passed"}, {`{"suffix":"bye"}`, "good bye!", "failed"}, {`{"suffix":"bye","not":true}`, "good bye", "failed"},
	})
}

func TestNotNullNeedsTextOrAToolCall(t *testing.T) {
	testTexts(t, guardrail.After, "default.notNull", []textRow{{`{}`, "x", "passed"}, {`{}`, " \n", "failed"}, {`{}`, "", "failed"}, {`{"not":true}`, "", "passed"}})
	in := text(guardrail.After, "")
	in.Parts = append(in.Parts, guardrail.Part{Kind: guardrail.ToolArguments, Text: "{}"})
	if r, _ := run(t, checks.Services{}, in, "default.notNull", `{}`); resultOf(r) != "passed" {
		t.Errorf("a tool call without text = %s, want passed", resultOf(r))
	}
	in.Parts[1].Kind, in.Parts[1].Text = guardrail.Thinking, "hm"
	if r, _ := run(t, checks.Services{}, in, "default.notNull", `{}`); resultOf(r) != "failed" {
		t.Errorf("thinking without text = %s, want failed", resultOf(r))
	}
}

func TestContainsCodeReadsLabelsOfBlocks(t *testing.T) {
	testTexts(t, guardrail.After, "default.containsCode", []textRow{
		{`{"format":"SQL"}`, "see\n```sql\nSELECT 1\n```\n", "passed"},
		{`{"format":"JavaScript"}`, "```js\nx\n```", "passed"},
		{`{"format":"Python"}`, "```js\nx\n```", "failed"},
		{`{"format":"Shell"}`, "~~~bash\nls", "passed"}, // cut off
		{`{"format":"Go"}`, "the word go and `go`", "failed"},
		{`{"format":"Go","not":true}`, "no code", "passed"},
		{`{"format":"Go"}`, "```text\n```go\n```\n", "failed"}, // inside of another block
	})
}

func TestJSONInTextSatisfiesTheSchema(t *testing.T) {
	const schema = `{"schema":{"type":"object","required":["a"],"properties":{"a":{"type":"object","properties":{"b":{"type":"integer"}}}}}}`
	testTexts(t, guardrail.After, "default.jsonSchema", []textRow{
		{schema, `{"a":{"b":1}}`, "passed"},
		{schema, `The result is {"a":{"b":1}} as asked`, "passed"}, // nested, outside of a block
		{schema, `{"a":{"b":"x"}}`, "failed"},
		{schema, `{ broken {"a":{}}`, "passed"},
		{schema, "```json\n{\"a\":{}}\n```", "passed"},
		{schema, "```\n{\"b\":{}}\n```\nand {\"a\":{}}", "failed"}, // code blocks win
		{schema, "```python\n{\"b\":1}\n```\n{\"a\":{}}", "passed"},
		{schema, "no JSON", "failed"},
		{`{"schema":{"type":"array","items":{"type":"number"}}}`, "list: [1, 2]", "passed"},
		{`{"schema":{"type":"array","items":{"type":"number"}}}`, `["a"]`, "failed"},
		{`{"schema":{"prefixItems":[{"const":1}]},"not":true}`, `[2]`, "passed"}, // draft 2020-12
		{`{"schema":"{\"type\":\"object\"}"}`, `{}`, "passed"},
		{schema, "", "error"},
	})
}

func TestJSONKeysAreThoseOfTheBestObject(t *testing.T) {
	testTexts(t, guardrail.After, "default.jsonKeys", []textRow{
		{`{"keys":["a","b"],"operator":"any"}`, `{"b":1}`, "passed"},
		{`{"keys":["a","b"],"operator":"all"}`, `{"b":1}`, "failed"},
		{`{"keys":["a","b"],"operator":"all"}`, `{"b":1} {"a":1,"b":{"c":2}}`, "passed"},
		{`{"keys":["c"],"operator":"any"}`, `{"b":{"c":2}}`, "failed"}, // only the top level
		{`{"keys":["a"],"operator":"none"}`, `{"b":1}`, "passed"},
		{`{"keys":["a"],"operator":"none"}`, `{"b":1}{"a":1}`, "failed"},
		{`{"keys":["a"],"operator":"none"}`, `no JSON`, "failed"},
		{`{"keys":["a"],"operator":"any","not":true}`, `{"b":1}`, "passed"},
	})
}

// doubling is a schema that takes exponential time: each level refers to itself
// twice.
const doubling = `{"$ref":"#/$defs/n","$defs":{"n":{"anyOf":[{"properties":{"c":{"$ref":"#/$defs/n"}},"required":["x"]},{"properties":{"c":{"$ref":"#/$defs/n"}},"required":["y"]}]}}}`

func TestHostileJSONCostsLittle(t *testing.T) {
	deep := strings.Repeat(`{"c":`, 150) + "1" + strings.Repeat("}", 150)
	testTexts(t, guardrail.After, "default.jsonSchema", []textRow{
		{`{"schema":` + doubling + `}`, deep, "error"},
		{`{"schema":{"$ref":"#"}}`, `{}`, "error"}, // refers to itself only
		{`{"schema":{}}`, strings.Repeat("[", 10_000_000), "failed"},
		{`{"schema":{}}`, strings.Repeat(`{"`, 5_000_000), "failed"},
		{`{"schema":{}}`, strings.Repeat(`{"a":[`, 1_000_000) + strings.Repeat("]}", 1_000_000), "failed"},
		{`{"schema":{"type":"array","items":{"type":"string"}}}`, "[" + strings.Repeat(`1,`, 4_000_000) + "1]", "error"},
	})
	testTexts(t, guardrail.After, "default.jsonKeys", []textRow{{`{"keys":["a"],"operator":"any"}`, strings.Repeat("[{", 5_000_000), "failed"}})
}

func TestSchemasCannotFetchOrBreakLimits(t *testing.T) {
	for _, tt := range []struct{ schema, message string }{
		{`{"$ref":"https://example.com/s.json"}`, "must be a JSON Schema"},
		{`{"$ref":"file:///etc/passwd"}`, "must be a JSON Schema"},
		{`{"type":"nonsense"}`, "must be a JSON Schema"},
		{`{"pattern":"x{1000}y{1000}x{1000}y{1000}x{1000}y{1000}"}`, "must be a JSON Schema"},
		{`"no schema"`, "must be a JSON Schema"},
		{strings.Repeat(`{"not":`, 300) + "{}" + strings.Repeat("}", 300), "too deep"},
	} {
		_, faults := checks.New(checks.Services{}).Check("p", checkOf("default.jsonSchema", object(t, `{"schema":`+tt.schema+`}`)), guardrail.After)
		if len(faults) != 1 || faults[0].Path != "p.schema" || !strings.Contains(faults[0].Message, tt.message) {
			t.Errorf("%.60s = %v, want %s", tt.schema, faults, tt.message)
		}
	}
}
