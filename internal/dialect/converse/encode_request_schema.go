package converse

import (
	"encoding/json"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// encodeFormat writes the response format if the model supports it.
func (e *requestEncoder) encodeFormat() {
	f := &e.r.Format
	if e.plan.instruct {
		e.changes.Adapt(llm.FieldFormat, "instruction")
	}
	if !e.plan.native {
		return
	}
	schema := []byte(f.Schema)
	if !e.own {
		var changed bool
		if schema, changed = strictSchema(schema); changed {
			e.changes.Adapt(llm.FieldFormat, dialect.ConstraintsUnchecked)
		}
	}
	e.b.Name("outputConfig")
	e.b.Open('{')
	e.b.Name("textFormat")
	e.b.Open('{')
	e.b.Name("type")
	e.b.String("json_schema")
	e.b.Name("structure")
	e.b.Open('{')
	e.b.Name("jsonSchema")
	e.b.Open('{')
	e.b.Name("schema")
	e.b.String(string(schema))
	if f.Name != "" {
		e.b.Name("name")
		e.b.String(wireName(f.Name))
	}
	if f.Description != "" {
		e.b.Name("description")
		e.b.String(f.Description)
	}
	for range 4 {
		e.b.Close('}')
	}
}

// instruction returns a prompt that asks for the response format.
func instruction(f *llm.Format) string {
	text := "Answer with one JSON object and nothing else: no words around it, no code fence."
	if f.Schema != nil {
		text += " It must be valid against this JSON Schema: " + string(f.Schema)
	}
	return text
}

// unchecked are the keywords that structured output rejects.
// https://docs.aws.amazon.com/bedrock/latest/userguide/structured-output.html
var unchecked = map[string]bool{
	"minimum": true, "maximum": true, "exclusiveMinimum": true, "exclusiveMaximum": true, "multipleOf": true,
	"minLength": true, "maxLength": true, "pattern": true, "minItems": true, "maxItems": true, "uniqueItems": true,
	"minProperties": true, "maxProperties": true, "not": true,
}

// strictSchema returns a schema that structured output accepts: objects without
// additional properties, and without rejected keywords. changed reports whether
// there were any.
func strictSchema(schema json.RawMessage) (out []byte, changed bool) {
	v, err := jsonedit.ParseValue(schema)
	if err != nil || v.Kind() != jsonedit.Object {
		return objectSchema(schema), false
	}
	s := strictener{}
	s.schema(v)
	return s.b.Bytes(), s.changed
}

type strictener struct {
	b       jsonedit.Builder
	depth   int
	changed bool
}

// maxSchema is the maximum depth of nested schemas that are examined.
const maxSchema = 32

// schema writes v, which is a schema.
func (s *strictener) schema(v jsonedit.Value) {
	s.depth++
	defer func() { s.depth-- }()
	if v.Kind() != jsonedit.Object || s.depth > maxSchema {
		s.b.Raw(v.Raw())
		return
	}
	s.b.Open('{')
	_, properties := v.Get("properties")
	if properties || v.TextOf("type") == "object" {
		s.b.Name("additionalProperties")
		s.b.Bool(false)
	}
	for k, m := range v.Fields() {
		s.keyword(k.String(), m)
	}
	s.b.Close('}')
}

func (s *strictener) keyword(key string, v jsonedit.Value) {
	switch {
	case key == "additionalProperties":
		return
	case unchecked[key]:
		s.changed = true
		return
	case key == "oneOf":
		key = "anyOf"
	}
	s.b.Key(key)
	switch key {
	case "properties", "$defs", "definitions":
		if v.Kind() != jsonedit.Object {
			break
		}
		s.b.Open('{')
		for k, m := range v.Fields() {
			s.b.Key(k.String())
			s.schema(m)
		}
		s.b.Close('}')
		return
	case "anyOf", "allOf":
		if v.Kind() != jsonedit.Array {
			break
		}
		s.b.Open('[')
		for e := range v.Elements() {
			s.schema(e)
		}
		s.b.Close(']')
		return
	case "items":
		s.schema(v)
		return
	}
	s.b.Raw(v.Raw())
}
