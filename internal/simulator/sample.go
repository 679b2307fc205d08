package simulator

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// maxSampleDepth is the maximum depth to which a recursive schema is followed.
const maxSampleDepth = 8

// appendSample appends a JSON value that is valid for the schema, always the
// same. Strings without an enumeration contain echo.
func appendSample(dst []byte, schema []byte, echo string) []byte {
	var root any
	if json.Unmarshal(schema, &root) != nil {
		return append(dst, "{}"...)
	}
	return append(dst, sampleOf(root, echo)...)
}

// sampleOf returns the sample of a decoded schema.
func sampleOf(root any, echo string) []byte {
	s := sampler{root: root, echo: echo}
	value := s.value(root, 0)
	if value == nil {
		return []byte("{}")
	}
	b, err := json.Marshal(value)
	if err != nil {
		return []byte("{}")
	}
	return b
}

type sampler struct {
	root any
	echo string
}

func (s *sampler) value(schema any, depth int) any {
	m, ok := schema.(map[string]any)
	if !ok || depth > maxSampleDepth {
		return nil
	}
	if ref, ok := m["$ref"].(string); ok {
		return s.value(s.resolve(ref), depth+1)
	}
	if fixed, ok := m["const"]; ok {
		return fixed
	}
	for _, word := range []string{"enum", "examples"} {
		if list, ok := m[word].([]any); ok && len(list) > 0 {
			return list[0]
		}
	}
	for _, word := range []string{"anyOf", "oneOf", "allOf"} {
		if list, ok := m[word].([]any); ok && len(list) > 0 {
			return s.value(list[0], depth+1)
		}
	}
	return s.typed(m, depth)
}

func (s *sampler) typed(m map[string]any, depth int) any {
	switch kindOf(m) {
	case "object":
		return s.object(m, depth)
	case "array":
		if least, ok := m["minItems"].(float64); ok && least > 1 {
			return slices.Repeat([]any{s.value(m["items"], depth+1)}, min(int(least), 100))
		}
		return []any{s.value(m["items"], depth+1)}
	case "integer", "number":
		if least, ok := m["minimum"].(float64); ok {
			return least
		}
		return 1
	case "boolean":
		return true
	case "string":
		if most, ok := m["maxLength"].(float64); ok && len(s.echo) > int(most) {
			return strings.ToValidUTF8(s.echo[:max(int(most), 0)], "")
		}
		return s.echo
	}
	return nil
}

// kindOf returns the type of a schema, the first of several.
func kindOf(m map[string]any) string {
	switch t := m["type"].(type) {
	case string:
		return t
	case []any:
		if len(t) > 0 {
			first, _ := t[0].(string)
			return first
		}
	}
	if m["properties"] != nil {
		return "object"
	}
	return ""
}

func (s *sampler) object(m map[string]any, depth int) any {
	properties, _ := m["properties"].(map[string]any)
	out := make(map[string]any, len(properties))
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		out[name] = s.value(properties[name], depth+1)
	}
	return out
}

// resolve follows a reference inside the document, such as #/$defs/name.
func (s *sampler) resolve(ref string) any {
	at := s.root
	for _, step := range strings.Split(strings.TrimPrefix(ref, "#"), "/")[1:] {
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[step]
	}
	return at
}

// formatted returns the response for a response_format with JSON, as raw JSON
// string bytes, or nil for text.
func formatted(format, lastUser []byte) []byte {
	var f struct {
		Type       string `json:"type"`
		JSONSchema struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	}
	if len(format) == 0 || json.Unmarshal(format, &f) != nil {
		return nil
	}
	schema := f.JSONSchema.Schema
	switch f.Type {
	case "json_object":
		schema = []byte(`{"type":"object","properties":{"echo":{"type":"string"}}}`)
	case "json_schema":
	default:
		return nil
	}
	return appendRaw(nil, string(appendSample(nil, schema, plainText(lastUser))))
}
