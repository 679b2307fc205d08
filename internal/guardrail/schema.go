package guardrail

import "encoding/json"

// Schema returns the JSON Schema of the parameters of the check. The caller may change
// it.
func (d *Definition) Schema() map[string]any {
	properties := map[string]any{}
	required := []string{}
	for _, p := range d.AllParams() {
		properties[p.Name] = p.schema()
		if p.Required {
			required = append(required, p.Name)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

// schema returns the JSON Schema of the parameter.
func (p *Param) schema() map[string]any {
	text := map[string]any{"type": "string"}
	if len(p.Enum) > 0 {
		text["enum"] = p.Enum
	}
	var s map[string]any
	switch p.Type {
	case StringList:
		s = map[string]any{"type": "array", "items": text}
	case StringOrList:
		s = map[string]any{"anyOf": []any{text, map[string]any{"type": "array", "items": text}}}
	case Object:
		s = map[string]any{"type": "object"}
	case StringMap:
		s = map[string]any{"anyOf": []any{map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}},
			map[string]any{"type": "string"}}}
	case JSON:
		s = map[string]any{}
	case String:
		s = text
	default:
		s = map[string]any{"type": string(p.Type)}
		if p.Min != 0 || p.Max != 0 {
			s["minimum"], s["maximum"] = p.Min, p.Max
		}
	}
	if p.Doc != "" {
		s["description"] = p.Doc
	}
	if p.Default != "" {
		s["default"] = json.RawMessage(p.Default)
	}
	return s
}
