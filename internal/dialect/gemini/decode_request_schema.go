package gemini

import (
	"encoding/json"
	"strings"

	"modelgate/internal/jsonedit"
)

// fromOpenAPI writes the subset of OpenAPI schema that the protocol accepts as
// JSON Schema: types become lower case, nullable becomes a type, and numbers
// written as strings become numbers.
// https://ai.google.dev/api/caching#Schema
func fromOpenAPI(v jsonedit.Value) json.RawMessage {
	b := jsonedit.Append(nil)
	appendJSONSchema(&b, v)
	return b.Bytes()
}

func appendJSONSchema(b *jsonedit.Builder, v jsonedit.Value) {
	if v.Kind() != jsonedit.Object {
		b.Raw(v.Raw())
		return
	}
	nullable, _ := field(v, "nullable").Bool()
	b.Open('{')
	for key, v := range v.Fields() {
		name := camel(key)
		if name == "nullable" || v.IsNull() && name != "example" && name != "default" {
			continue
		}
		switch name {
		case "defs":
			name = "$defs"
		case "ref":
			name = "$ref"
		}
		b.Key(name)
		switch name {
		case "type":
			appendType(b, v, nullable)
		case "items", "additionalProperties":
			appendJSONSchema(b, v)
		case "properties", "$defs":
			appendEach(b, v)
		case "anyOf", "prefixItems":
			appendAlternatives(b, v, nullable && name == "anyOf" && field(v, "type").IsNull())
		case "maxItems", "minItems", "maxLength", "minLength", "maxProperties", "minProperties":
			appendCount(b, v)
		default:
			b.Raw(v.Raw())
		}
	}
	b.Close('}')
}

// appendEach writes an object of schemas, whose member names belong to the
// client.
func appendEach(b *jsonedit.Builder, v jsonedit.Value) {
	b.Open('{')
	for key, v := range v.Fields() {
		b.Key(key.String())
		appendJSONSchema(b, v)
	}
	b.Close('}')
}

func appendAlternatives(b *jsonedit.Builder, v jsonedit.Value, nullable bool) {
	b.Open('[')
	for e := range v.Elements() {
		appendJSONSchema(b, e)
	}
	if nullable {
		b.Raw([]byte(`{"type":"null"}`))
	}
	b.Close(']')
}

func appendType(b *jsonedit.Builder, v jsonedit.Value, nullable bool) {
	name, ok := v.Text()
	if !ok {
		b.Raw(v.Raw())
		return
	}
	if name = strings.ToLower(name); !nullable || name == "null" {
		b.String(name)
		return
	}
	b.Open('[')
	b.String(name)
	b.String("null")
	b.Close(']')
}

// appendCount writes an int64, which protobuf's JSON writes as a string.
func appendCount(b *jsonedit.Builder, v jsonedit.Value) {
	if digits, ok := v.Text(); ok && json.Valid([]byte(digits)) {
		b.Raw([]byte(digits))
		return
	}
	b.Raw(v.Raw())
}
