package gemini

import (
	"slices"
	"strings"

	"modelgate/internal/format/jsonedit"
)

// sanitiser reduces a JSON Schema to the subset of OpenAPI schema that older
// models accept. It removes keywords by position, so that a property with a
// keyword's name survives.
// https://ai.google.dev/api/caching#Schema
type sanitiser struct {
	b    *jsonedit.Builder
	root jsonedit.Value
	open []string // references that are being expanded
	left int      // number of values that may still be written: references can multiply them
}

const (
	maxSchema = 20_000 // maximum number of values in a schema after expansion
	maxDepth  = 64
)

// appendOpenAPI writes a JSON Schema.
func appendOpenAPI(b *jsonedit.Builder, v jsonedit.Value) {
	s := &sanitiser{b: b, root: v, left: maxSchema}
	s.schema(v, 0)
}

// schema writes one schema. A schema that refers to itself or is too large
// becomes any object.
func (s *sanitiser) schema(v jsonedit.Value, depth int) {
	if s.left--; v.Kind() != jsonedit.Object || depth > maxDepth || s.left < 0 {
		s.anyObject()
		return
	}
	if ref, ok := v.Get("$ref"); ok {
		s.reference(ref, depth)
		return
	}
	s.b.Open('{')
	s.members(withAllOf(v), depth)
	s.b.Close('}')
}

func (s *sanitiser) anyObject() {
	s.b.Open('{')
	text(s.b, "type", "object")
	s.b.Close('}')
}

// reference writes the target of a local reference.
func (s *sanitiser) reference(ref jsonedit.Value, depth int) {
	name, _ := ref.Text()
	target, ok := s.find(name)
	if !ok || slices.Contains(s.open, name) {
		s.anyObject()
		return
	}
	s.open = append(s.open, name)
	s.schema(target, depth+1)
	s.open = s.open[:len(s.open)-1]
}

func (s *sanitiser) find(ref string) (jsonedit.Value, bool) {
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return jsonedit.Value{}, false
	}
	v := s.root
	for name := range strings.SplitSeq(path, "/") {
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		if v, ok = v.Get(name); !ok {
			return v, false
		}
	}
	return v, true
}

// keywords holds the keywords of one schema including those of its allOf.
type keywords struct {
	plain      map[string]jsonedit.Value
	properties []property
	required   []string
	known      map[string]bool // of properties and, behind a zero byte, required
}

type property struct {
	name   string
	schema jsonedit.Value
}

// withAllOf returns the keywords of a schema merged with its allOf. The first
// value of a keyword wins.
func withAllOf(v jsonedit.Value) keywords {
	k := keywords{plain: map[string]jsonedit.Value{}, known: map[string]bool{}}
	k.take(v)
	if all, ok := v.Get("allOf"); ok {
		for e := range all.Elements() {
			k.take(e)
		}
	}
	return k
}

func (k *keywords) take(v jsonedit.Value) {
	for key, v := range v.Fields() {
		switch name := key.String(); name {
		case "properties":
			for key, v := range v.Fields() {
				if name := key.String(); !k.known[name] {
					k.known[name] = true
					k.properties = append(k.properties, property{name, v})
				}
			}
		case "required":
			for e := range v.Elements() {
				if name, ok := e.Text(); ok && !k.known["\x00"+name] {
					k.known["\x00"+name] = true
					k.required = append(k.required, name)
				}
			}
		default:
			if _, ok := k.plain[name]; !ok {
				k.plain[name] = v
			}
		}
	}
}

// keptKeywords are the keywords whose values are written unchanged.
var keptKeywords = []string{"title", "description", "pattern", "minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength",
	"minProperties", "maxProperties"}

var formats = []string{"date-time", "enum", "int32", "int64", "float", "double"}

func (s *sanitiser) members(k keywords, depth int) {
	if any, ok := either(k.plain); ok {
		s.alternatives(k, any, depth)
		return
	}
	kind, nullable := s.kind(k)
	if len(kind) > 1 {
		s.union(k, kind, nullable, depth)
		return
	}
	s.plainMembers(k)
	if nullable {
		s.b.Name("nullable")
		s.b.Bool(true)
	}
	if len(kind) == 1 {
		text(s.b, "type", kind[0])
		s.values(k, kind[0])
	}
	s.inner(k, depth)
}

func (s *sanitiser) plainMembers(k keywords) {
	for _, name := range keptKeywords {
		if v, ok := k.plain[name]; ok {
			s.b.Name(name)
			s.b.Raw(v.Raw())
		}
	}
	if v, ok := k.plain["format"]; ok {
		if name, _ := v.Text(); slices.Contains(formats, name) {
			text(s.b, "format", name)
		}
	}
}

// either returns the alternatives of a schema.
func either(plain map[string]jsonedit.Value) (jsonedit.Value, bool) {
	for _, name := range [...]string{"anyOf", "oneOf"} {
		if v, ok := plain[name]; ok && v.Kind() == jsonedit.Array {
			return v, true
		}
	}
	return jsonedit.Value{}, false
}

// alternatives writes anyOf, which allows only descriptive keywords next to it.
// A single alternative to null is written without anyOf.
func (s *sanitiser) alternatives(k keywords, any jsonedit.Value, depth int) {
	var list []jsonedit.Value
	nullable := false
	for e := range any.Elements() {
		if typ, _ := e.Get("type"); string(typ.Raw()) == `"null"` {
			nullable = true
			continue
		}
		list = append(list, e)
	}
	if len(list) == 1 && !hasRef(list[0]) {
		delete(k.plain, "anyOf")
		delete(k.plain, "oneOf")
		k.take(list[0])
		if nullable {
			k.plain["nullable"], _ = jsonedit.ParseValue([]byte("true"))
		}
		s.members(k, depth+1)
		return
	}
	for _, name := range [...]string{"title", "description"} {
		if v, ok := k.plain[name]; ok {
			s.b.Name(name)
			s.b.Raw(v.Raw())
		}
	}
	if nullable {
		s.b.Name("nullable")
		s.b.Bool(true)
	}
	s.b.Name("anyOf")
	s.b.Open('[')
	for _, e := range list {
		s.schema(e, depth+1)
	}
	s.b.Close(']')
}

func hasRef(v jsonedit.Value) bool {
	_, ok := v.Get("$ref")
	return ok
}

// kind returns the types of a schema without null, and whether null was among
// them. If the schema has no type, it follows from other keywords.
func (s *sanitiser) kind(k keywords) (list []string, nullable bool) {
	nullable, _ = k.plain["nullable"].Bool()
	v := k.plain["type"]
	add := func(name string) {
		switch name = strings.ToLower(name); {
		case name == "null":
			nullable = true
		case name != "" && !slices.Contains(list, name):
			list = append(list, name)
		}
	}
	if name, ok := v.Text(); ok {
		add(name)
	}
	for e := range v.Elements() {
		name, _ := e.Text()
		add(name)
	}
	if len(list) == 0 {
		add(implied(k))
	}
	return list, nullable
}

func implied(k keywords) string {
	switch {
	case len(k.properties) > 0:
		return "object"
	case k.plain["items"].Kind() == jsonedit.Object:
		return "array"
	}
	if v, ok := k.plain["const"]; ok {
		return typeName(v)
	}
	for e := range k.plain["enum"].Elements() {
		return typeName(e)
	}
	return ""
}

func typeName(v jsonedit.Value) string {
	switch v.Kind() {
	case jsonedit.String:
		return "string"
	case jsonedit.Bool:
		return "boolean"
	case jsonedit.Number:
		return "number"
	case jsonedit.Array:
		return "array"
	case jsonedit.Object:
		return "object"
	}
	return ""
}

// union writes a schema with several types as alternatives.
func (s *sanitiser) union(k keywords, kinds []string, nullable bool, depth int) {
	if v, ok := k.plain["description"]; ok {
		s.b.Name("description")
		s.b.Raw(v.Raw())
	}
	if nullable {
		s.b.Name("nullable")
		s.b.Bool(true)
	}
	s.b.Name("anyOf")
	s.b.Open('[')
	for _, kind := range kinds {
		s.b.Open('{')
		text(s.b, "type", kind)
		if kind == "object" || kind == "array" {
			s.innerOf(k, kind, depth)
		}
		s.b.Close('}')
	}
	s.b.Close(']')
}

// values writes the allowed values of a string; other types have none.
func (s *sanitiser) values(k keywords, kind string) {
	if kind != "string" {
		return
	}
	var list []string
	if v, ok := k.plain["const"]; ok {
		if word, ok := v.Text(); ok {
			list = append(list, word)
		}
	}
	for e := range k.plain["enum"].Elements() {
		if word, ok := e.Text(); ok && word != "" && len(k.plain["const"].Raw()) == 0 {
			list = append(list, word)
		}
	}
	if len(list) == 0 {
		return
	}
	s.b.Name("enum")
	s.b.Open('[')
	for _, word := range list {
		s.b.String(word)
	}
	s.b.Close(']')
}

func (s *sanitiser) inner(k keywords, depth int) {
	s.innerOf(k, "object", depth)
	s.innerOf(k, "array", depth)
}

// innerOf writes the schemas of properties or elements.
func (s *sanitiser) innerOf(k keywords, kind string, depth int) {
	if items := k.plain["items"]; kind == "array" {
		if items.Kind() == jsonedit.Object {
			s.b.Name("items")
			s.schema(items, depth+1)
		}
		return
	}
	if len(k.properties) == 0 {
		return
	}
	names := map[string]bool{}
	s.b.Name("properties")
	s.b.Open('{')
	for _, p := range k.properties {
		names[p.name] = true
		s.b.Key(p.name)
		s.schema(p.schema, depth+1)
	}
	s.b.Close('}')
	required := slices.DeleteFunc(slices.Clone(k.required), func(name string) bool { return !names[name] })
	if len(required) > 0 {
		s.b.Name("required")
		s.b.Open('[')
		for _, name := range required {
			s.b.String(name)
		}
		s.b.Close(']')
	}
}
