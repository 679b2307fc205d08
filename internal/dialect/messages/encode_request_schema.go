package messages

import (
	"strings"

	"modelgate/internal/format/jsonedit"
)

// The parts of JSON Schema that the vendor's models support in structured
// output.
// https://docs.claude.com/en/docs/build-with-claude/structured-outputs#json-schema-limitations
var (
	limits = map[string]bool{
		"minimum": true, "maximum": true, "exclusiveMinimum": true, "exclusiveMaximum": true, "multipleOf": true,
		"minLength": true, "maxLength": true, "pattern": true, "minItems": true, "maxItems": true, "uniqueItems": true,
		"minProperties": true, "maxProperties": true, "not": true,
	}
	textFormats = map[string]bool{
		"date-time": true, "time": true, "date": true, "duration": true, "email": true, "hostname": true, "uri": true,
		"ipv4": true, "ipv6": true, "uuid": true,
	}
	// schemaLists are keywords with an array of schemas; schemaMaps are
	// keywords with an object of schemas.
	schemaLists = map[string]bool{"anyOf": true, "allOf": true, "oneOf": true, "prefixItems": true}
	schemaMaps  = map[string]bool{"properties": true, "$defs": true, "definitions": true}
)

// fitSchema reduces a schema to the keywords that models support and moves the
// others to the description. lost reports whether there were any. Schemas are
// no deeper than [jsonedit.MaxDepth].
func fitSchema(v jsonedit.Value) (fitted []byte, lost bool) {
	s := schemaWriter{}
	s.schema(v)
	return s.Bytes(), s.lost
}

type schemaWriter struct {
	jsonedit.Builder
	lost    bool // a limit was moved to a description
	changed bool // an object was closed, or alternatives were rewritten
}

func (s *schemaWriter) schema(v jsonedit.Value) {
	if v.Kind() != jsonedit.Object {
		s.Raw(v.Raw())
		return
	}
	f := fieldsOf(v)
	s.Open('{')
	defer s.Close('}')
	if ref := f.get("$ref"); !ref.IsNull() {
		s.Name("$ref")
		s.Raw(ref.Raw())
		s.definitions(f)
		return
	}
	var said []string
	for _, m := range f {
		text, _ := m.value.Text()
		switch {
		case m.name == "description" || m.name == "additionalProperties":
		case limits[m.name] || m.name == "format" && !textFormats[text]:
			said = append(said, m.name+": "+string(m.value.Raw()))
		default:
			s.member(m.name, m.value)
		}
	}
	s.describe(f.word("description"), said)
	if isObject(f) {
		closed := f.get("additionalProperties")
		if open, is := closed.Bool(); open || !is {
			s.changed = true
		}
		s.Name("additionalProperties")
		s.Bool(false)
	}
}

// definitions writes the definitions that a reference at the root needs.
func (s *schemaWriter) definitions(f fields) {
	for _, name := range [...]string{"$defs", "definitions"} {
		if v := f.get(name); !v.IsNull() {
			s.member(name, v)
		}
	}
}

func isObject(f fields) bool {
	return f.word("type") == "object" || f.get("type").IsNull() && !f.get("properties").IsNull()
}

func (s *schemaWriter) member(name string, v jsonedit.Value) {
	if name == "oneOf" {
		name, s.changed = "anyOf", true
	}
	s.Key(name)
	switch {
	case schemaLists[name] && v.Kind() == jsonedit.Array:
		s.Open('[')
		for e := range v.Elements() {
			s.schema(e)
		}
		s.Close(']')
	case schemaMaps[name] && v.Kind() == jsonedit.Object:
		s.Open('{')
		for k, e := range v.Fields() {
			s.Key(k.String())
			s.schema(e)
		}
		s.Close('}')
	case name == "items":
		s.schema(v)
	default:
		s.Raw(v.Raw())
	}
}

func (s *schemaWriter) describe(description string, said []string) {
	if len(said) > 0 {
		s.lost = true
		description = strings.TrimSpace(description + "\n" + strings.Join(said, ", "))
	}
	if description != "" {
		s.Name("description")
		s.String(description)
	}
}

// strictSchema reports whether models support a schema without changes: objects
// without additional properties, and no limits of values.
func strictSchema(raw []byte) bool {
	v := valueOf(raw)
	s := schemaWriter{}
	s.schema(v)
	return v.Kind() == jsonedit.Object && !s.lost && !s.changed
}
