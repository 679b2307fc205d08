package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Limits of schemas. What is nested deeper than maxDepth, and what contains itself, is cut: it
// accepts any value of its type.
const (
	maxDepth  = 10
	maxNodes  = 4000      // of one schema
	maxCost   = 4_000_000 // of all attempts at all schemas, in nodes
	costBytes = 64        // of text that count as a node
	maxNote   = 1024      // of the description of a part, in bytes
	maxPlain  = 16        // depth of values that are not schemas
)

// errTooLarge means that a schema has too many parts at a depth.
var errTooLarge = errors.New("its schema is too large")

// resolver writes schemas of the document as schemas that stand for themselves.
type resolver struct {
	root map[string]any
	old  bool // version 3.0, whose schemas are of another dialect
	left int  // of maxCost
}

// lookUp returns the part of the document that a reference names.
// https://www.rfc-editor.org/rfc/rfc6901
func (r *resolver) lookUp(ref string) (any, error) {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil, fmt.Errorf("the reference %.100q leads out of the document", ref)
	}
	missing := fmt.Errorf("the reference %.100q leads nowhere", ref)
	pointer, err := url.PathUnescape(pointer)
	if err != nil || pointer != "" && pointer[0] != '/' {
		return nil, missing
	}
	var at any = r.root
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if r.left--; pointer == "" {
			break
		}
		if r.left <= 0 {
			return nil, errTooLarge
		}
		step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
		switch v := at.(type) {
		case map[string]any:
			if at, ok = v[step]; !ok {
				return nil, missing
			}
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(v) {
				return nil, missing
			}
			at = v[i]
		default:
			return nil, missing
		}
	}
	return at, nil
}

// schemaWriter writes one schema.
type schemaWriter struct {
	*resolver
	depth  int      // the limit
	nodes  int      // that are left
	hidden string   // properties with this mark are left out: readOnly in requests, writeOnly in responses
	open   []string // references that lead to the current part
}

// schema returns a schema as one of JSON Schema 2020-12 without references.
func (r *resolver) schema(v any, depth int, hidden string) (any, error) {
	w := &schemaWriter{resolver: r, depth: depth, nodes: maxNodes, hidden: hidden}
	return w.write(v, 0)
}

// spend counts a part with n bytes of text.
func (w *schemaWriter) spend(n int) error {
	cost := 1 + n/costBytes
	w.nodes -= cost
	if w.left -= cost; w.nodes < 0 || w.left <= 0 {
		return errTooLarge
	}
	return nil
}

// write returns a part of a schema.
func (w *schemaWriter) write(v any, depth int) (any, error) {
	if err := w.spend(0); err != nil {
		return nil, err
	}
	fields, ok := v.(map[string]any)
	if !ok {
		if accepts, ok := v.(bool); ok {
			return accepts, nil
		}
		return true, nil
	}
	ref, ok := fields["$ref"].(string)
	if !ok {
		return w.members(fields, depth)
	}
	target, err := w.lookUp(ref)
	if err != nil {
		return nil, err
	}
	if slices.Contains(w.open, ref) || depth >= w.depth {
		return w.cut(target), nil
	}
	w.open = append(w.open, ref)
	out, err := w.write(target, depth+1)
	w.open = w.open[:len(w.open)-1]
	if err != nil {
		return nil, err
	}
	// https://spec.openapis.org/oas/v3.0.4.html#reference-object: siblings are ignored there
	if note := textOf(fields, "description"); note != "" && !w.old {
		if to, ok := out.(map[string]any); ok {
			to = maps.Clone(to)
			to["description"] = cut(note, maxNote)
			return to, w.spend(len(note))
		}
	}
	return out, nil
}

// cut returns what remains of a part that is nested too deep or contains itself.
func (w *schemaWriter) cut(v any) map[string]any {
	out := map[string]any{}
	fields, _ := v.(map[string]any)
	if t, ok := fields["type"].(string); ok {
		out["type"] = t
		if null, _ := fields["nullable"].(bool); null && w.old {
			out["type"] = []any{t, "null"}
		}
	}
	if title := textOf(fields, "title"); title != "" {
		out["title"] = cut(title, maxTitle)
	}
	return out
}

// Keywords of schemas by what they have.
// https://json-schema.org/draft/2020-12/json-schema-core#name-keywords-for-applying-subsche
var (
	schemaKeys = []string{"items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else", "unevaluatedItems",
		"unevaluatedProperties"}
	listKeys  = []string{"allOf", "anyOf", "oneOf", "prefixItems"}
	mapKeys   = []string{"properties", "patternProperties", "dependentSchemas"}
	plainKeys = []string{"type", "enum", "const", "default", "examples", "format", "pattern", "multipleOf", "maximum", "minimum",
		"exclusiveMaximum", "exclusiveMinimum", "maxLength", "minLength", "maxItems", "minItems", "uniqueItems", "maxProperties",
		"minProperties", "required", "dependentRequired", "deprecated", "contentEncoding", "contentMediaType", "minContains", "maxContains"}
)

// members returns an object that is a schema.
func (w *schemaWriter) members(fields map[string]any, depth int) (any, error) {
	if depth >= w.depth {
		return w.cut(fields), nil
	}
	out := map[string]any{}
	for name, limit := range map[string]int{"title": maxTitle, "description": maxNote} {
		if text := textOf(fields, name); text != "" {
			out[name] = cut(text, limit)
			if err := w.spend(len(out[name].(string))); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range plainKeys {
		v, ok := fields[name]
		if !ok || !isKindOf(name, v) {
			continue
		}
		fits, err := w.plain(v, 0)
		if err != nil {
			return nil, err
		}
		if fits {
			out[name] = v
		}
	}
	for _, name := range schemaKeys {
		if v, ok := fields[name]; ok {
			part, err := w.write(v, depth+1)
			if err != nil {
				return nil, err
			}
			out[name] = part
		}
	}
	if err := w.writeLists(fields, out, depth); err != nil {
		return nil, err
	}
	if err := w.writeMaps(fields, out, depth); err != nil {
		return nil, err
	}
	if w.old {
		return modernise(fields, out), nil
	}
	return out, nil
}

// isKindOf reports whether a keyword has a value of the kind that clients insist on.
func isKindOf(keyword string, v any) bool {
	_, isList := v.([]any)
	switch keyword {
	case "required", "enum", "examples":
		return isList
	case "type":
		_, isText := v.(string)
		return isList || isText
	}
	return true
}

func (w *schemaWriter) writeLists(fields, out map[string]any, depth int) error {
	for _, name := range listKeys {
		list, ok := fields[name].([]any)
		if !ok || len(list) == 0 {
			continue
		}
		var parts []any
		for _, v := range list {
			part, err := w.write(v, depth+1)
			if err != nil {
				return err
			}
			parts = append(parts, part)
		}
		out[name] = parts
	}
	return nil
}

func (w *schemaWriter) writeMaps(fields, out map[string]any, depth int) error {
	hidden := map[string]bool{}
	for _, name := range mapKeys {
		from, ok := fields[name].(map[string]any)
		if !ok {
			continue
		}
		to := map[string]any{}
		for key, v := range from {
			if err := w.spend(len(key)); err != nil {
				return err
			}
			if name == "properties" && w.hides(v) {
				hidden[key] = true
				continue
			}
			part, err := w.write(v, depth+1)
			if err != nil {
				return err
			}
			to[key] = part
		}
		out[name] = to
	}
	list, _ := out["required"].([]any)
	if len(hidden) > 0 {
		list = slices.DeleteFunc(slices.Clone(list), func(v any) bool {
			text, ok := v.(string)
			return ok && hidden[text]
		})
		out["required"] = list
	}
	if len(list) == 0 {
		delete(out, "required")
	}
	return nil
}

// hides reports whether a property has the mark of those that are left out.
func (w *schemaWriter) hides(v any) bool {
	fields, err := w.object(v)
	marked, _ := fields[w.hidden].(bool)
	return err == nil && marked
}

// plain counts a value that is not a schema, and reports whether it is nested as little as it
// may be.
func (w *schemaWriter) plain(v any, depth int) (fits bool, err error) {
	if depth > maxPlain {
		return false, nil
	}
	fits = true
	count := func(v any, text string) {
		if err == nil && fits {
			if err = w.spend(len(text)); err == nil {
				fits, err = w.plain(v, depth+1)
			}
		}
	}
	switch v := v.(type) {
	case string:
		return true, w.spend(len(v))
	case json.Number:
		return true, w.spend(len(v))
	case []any:
		for _, e := range v {
			count(e, "")
		}
	case map[string]any:
		for name, e := range v {
			count(e, name)
		}
	}
	return fits, err
}

// modernise changes a schema of the version 3.0 into one of JSON Schema.
// https://spec.openapis.org/oas/v3.0.4.html#schema-object
func modernise(fields, out map[string]any) any {
	for limit, exclusive := range map[string]string{"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"} {
		is, ok := out[exclusive].(bool)
		if !ok {
			continue
		}
		delete(out, exclusive)
		if v, has := out[limit]; is && has {
			out[exclusive] = v
			delete(out, limit)
		}
	}
	if null, _ := fields["nullable"].(bool); !null {
		return out
	}
	if t, ok := out["type"].(string); ok {
		out["type"] = []any{t, "null"}
		if values, ok := out["enum"].([]any); ok && !slices.Contains(values, nil) {
			out["enum"] = append(slices.Clip(values), nil)
		}
		return out
	}
	return map[string]any{"anyOf": []any{out, map[string]any{"type": "null"}}}
}
