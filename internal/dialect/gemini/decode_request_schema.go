package gemini

import (
	"encoding/json"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
)

// fromOpenAPI writes the subset of OpenAPI schema that the protocol accepts as
// JSON Schema: types become lower case, nullable becomes a type, and numbers
// written as strings become numbers.
// A schema in which schemas are nested too deep is refused: each level is read again
// for the one inside.
// https://ai.google.dev/api/caching#Schema
func (d *requestDecoder) schema(path string, v jsonedit.Value) json.RawMessage {
	w := schemaWriter{Builder: jsonedit.Append(nil)}
	w.schema(v)
	if w.tooDeep {
		d.Refuse(path, dialect.CodeValue, "has schemas nested deeper than %d levels", maxDepth)
	}
	return w.Bytes()
}

// schemaWriter writes one JSON Schema.
type schemaWriter struct {
	jsonedit.Builder
	depth   int
	tooDeep bool
}

func (w *schemaWriter) schema(v jsonedit.Value) {
	if w.depth++; w.depth > maxDepth {
		w.tooDeep = true
	}
	defer func() { w.depth-- }()
	if v.Kind() != jsonedit.Object || w.tooDeep {
		w.Raw(v.Raw())
		return
	}
	nullable, _ := field(v, "nullable").Bool()
	w.Open('{')
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
		w.Key(name)
		switch name {
		case "type":
			w.kind(v, nullable)
		case "items", "additionalProperties":
			w.schema(v)
		case "properties", "$defs":
			w.each(v)
		case "anyOf", "prefixItems":
			w.alternatives(v, nullable && name == "anyOf" && field(v, "type").IsNull())
		case "maxItems", "minItems", "maxLength", "minLength", "maxProperties", "minProperties":
			w.count(v)
		default:
			w.Raw(v.Raw())
		}
	}
	w.Close('}')
}

// each writes an object of schemas, whose member names belong to the
// client.
func (w *schemaWriter) each(v jsonedit.Value) {
	w.Open('{')
	for key, v := range v.Fields() {
		w.Key(key.String())
		w.schema(v)
	}
	w.Close('}')
}

func (w *schemaWriter) alternatives(v jsonedit.Value, nullable bool) {
	w.Open('[')
	for e := range v.Elements() {
		w.schema(e)
	}
	if nullable {
		w.Raw([]byte(`{"type":"null"}`))
	}
	w.Close(']')
}

func (w *schemaWriter) kind(v jsonedit.Value, nullable bool) {
	name, ok := v.Text()
	if !ok {
		w.Raw(v.Raw())
		return
	}
	if name = strings.ToLower(name); !nullable || name == "null" {
		w.String(name)
		return
	}
	w.Open('[')
	w.String(name)
	w.String("null")
	w.Close(']')
}

// count writes an int64, which protobuf's JSON writes as a string.
func (w *schemaWriter) count(v jsonedit.Value) {
	if digits, ok := v.Text(); ok && json.Valid([]byte(digits)) {
		w.Raw([]byte(digits))
		return
	}
	w.Raw(v.Raw())
}
