package admin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/controlplane"
	"modelgate/internal/controlplane/route"
)

var update = flag.Bool("update", false, "write routes.json")

// schema is a part of the OpenAPI document.
type schema struct {
	Ref        string             `json:"$ref"`
	Type       any                `json:"type"`
	Format     string             `json:"format"`
	Encoding   string             `json:"contentEncoding"`
	OneOf      []*schema          `json:"oneOf"`
	Doc        string             `json:"description"`
	Enum       []any              `json:"enum"`
	Properties map[string]*schema `json:"properties"`
	Required   []string           `json:"required"`
	Items      *schema            `json:"items"`
	Extra      any                `json:"additionalProperties"`
	Maximum    float64            `json:"maximum"`
}

type operation struct {
	ID         string `json:"operationId"`
	Summary    string `json:"summary"`
	Parameters []struct {
		Name     string
		In       string
		Required bool
		Doc      string `json:"description"`
		Schema   *schema
	}
	RequestBody struct {
		Content map[string]struct{ Schema *schema }
	} `json:"requestBody"`
	Responses map[string]struct {
		Content map[string]struct{ Schema *schema }
	}
	method, path string
}

type document struct {
	Paths      map[string]map[string]*operation
	Components struct{ Schemas map[string]*schema }
}

// readDocument returns the OpenAPI document and its operations by name.
func readDocument(t *testing.T) (*document, map[string]*operation) {
	t.Helper()
	text, err := controlplane.New(route.Deps{Version: "test"}, controlplane.Families{}).OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	d := new(document)
	if err := json.Unmarshal(text, d); err != nil {
		t.Fatal(err)
	}
	list := make(map[string]*operation)
	for path, methods := range d.Paths {
		for method, o := range methods {
			o.method, o.path = strings.ToUpper(method), path
			list[o.ID] = o
		}
	}
	return d, list
}

func (d *document) follow(s *schema) *schema {
	for s != nil && s.Ref != "" {
		s = d.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
	}
	return s
}

// types returns the types of a schema, and whether it may be null.
func (s *schema) types() (kind string, null bool) {
	switch t := s.Type.(type) {
	case string:
		return t, false
	case []any:
		for _, one := range t {
			if one == "null" {
				null = true
			} else {
				kind = fmt.Sprint(one)
			}
		}
	}
	return kind, null
}

// field returns the description of a value that is not an object with known members.
func (d *document) field(name string, s *schema) field {
	doc := s.Doc
	s = d.follow(s)
	kind, null := s.types()
	f := field{Name: name, Doc: strings.TrimSuffix(doc, "."), Nullable: null}
	if f.Doc == "" {
		f.Doc = strings.TrimSuffix(s.Doc, ".")
	}
	for _, v := range s.Enum {
		f.Enum = append(f.Enum, fmt.Sprint(v))
	}
	switch kind {
	case "string":
		f.Type = typeText
		if s.Encoding == "base64" {
			f.Type = typeBytes
		}
		last := name[strings.LastIndexByte(name, '.')+1:]
		if s.Format == "date-time" || strings.HasSuffix(last, "_at") || last == "from" || last == "to" {
			f.Type = typeTime
		}
	case "integer":
		f.Type = typeInteger
	case "number":
		f.Type = typeNumber
	case "boolean":
		f.Type = typeFlag
	case "array":
		items := d.follow(s.Items)
		switch inner, _ := items.types(); inner {
		case "integer", "number":
			f.Type = typeNumbers
		case "object":
			f.Type, f.Items = typeObjects, d.members("", items, items.Required)
		default:
			f.Type = typeTexts
			for _, v := range items.Enum {
				f.Enum = append(f.Enum, fmt.Sprint(v))
			}
		}
	case "object":
		f.Type = typeValues
		if values, ok := s.Extra.(map[string]any); ok && values["type"] == "string" {
			f.Type = typeMap
		}
	default:
		f.Type = typeAny
	}
	return f
}

// members returns the members of an object, those of objects in it with dots.
func (d *document) members(prefix string, s *schema, required []string) []field {
	var list []field
	for name, v := range s.Properties {
		inner := d.follow(v)
		// Budgets of a workspace are a list of one, in whose place an object is accepted.
		if kind, _ := inner.types(); kind == "array" && name == budgetMember {
			inner = d.follow(inner.Items)
		}
		kind, _ := inner.types()
		if kind == "object" && len(inner.Properties) > 0 {
			nested := d.members(prefix+name+".", inner, nil)
			if slices.Contains(required, name) {
				for i := range nested {
					nested[i].Required = slices.Contains(inner.Required, strings.TrimPrefix(nested[i].Name, prefix+name+"."))
				}
			}
			list = append(list, nested...)
			continue
		}
		f := d.field(prefix+name, v)
		f.Required = slices.Contains(required, name)
		list = append(list, f)
	}
	place := func(f field) int {
		if at := slices.Index(required, f.Name); at >= 0 {
			return at
		}
		return len(required)
	}
	slices.SortFunc(list, func(a, b field) int { return cmp.Or(place(a)-place(b), strings.Compare(a.Name, b.Name)) })
	return list
}

// described returns the description of an operation.
func (d *document) described(o *operation) *description {
	r := &description{Method: o.method, Path: o.path, Summary: o.Summary}
	for _, p := range o.Parameters {
		if p.In != "query" {
			continue
		}
		f := d.field(p.Name, p.Schema)
		f.Required, f.Nullable, f.Most = p.Required, false, int(d.follow(p.Schema).Maximum)
		if p.Doc != "" {
			f.Doc = strings.TrimSuffix(p.Doc, ".")
		}
		if f.Name != "page_size" {
			f.Most = 0
		}
		if f.Name == "metadata" {
			f.Type = typeText
		}
		r.Query = append(r.Query, f)
	}
	if body, ok := o.RequestBody.Content["application/json"]; ok {
		s := d.follow(body.Schema)
		if len(s.OneOf) > 0 { // one object, or a list of several
			s = d.follow(s.OneOf[0])
		}
		r.Body = d.members("", s, s.Required)
	}
	return r
}

// TestRoutesAreThoseOfTheGateway compares routes.json with the routes, from which -update
// writes it.
func TestRoutesAreThoseOfTheGateway(t *testing.T) {
	d, operations := readDocument(t)
	want := make(map[string]*description)
	for _, v := range append(allVerbs(), &verb{name: "top", op: "group-analytics"}) {
		o := operations[v.op]
		switch {
		case o != nil:
			want[v.op] = d.described(o)
		case undocumented[v.op] == nil:
			t.Errorf("%s: no route is called %s", v.name, v.op)
		}
	}
	text := writeRoutes(t, want)
	if *update {
		if err := os.WriteFile("routes.json", text, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(text, routesJSON) {
		t.Error("routes.json is out of date: run go test ./cmd/modelgate/admin -run RoutesAreThose -update")
	}
}

// writeRoutes returns the routes as JSON, one in each line.
func writeRoutes(t *testing.T, list map[string]*description) []byte {
	t.Helper()
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		var one bytes.Buffer
		e := json.NewEncoder(&one)
		e.SetEscapeHTML(false)
		if err := e.Encode(list[name]); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%q: %s", name, bytes.TrimSpace(one.Bytes())))
	}
	return []byte("{\n" + strings.Join(lines, ",\n") + "\n}\n")
}

func allVerbs() []*verb {
	var list []*verb
	for i := range nouns {
		for j := range nouns[i].verbs {
			list = append(list, &nouns[i].verbs[j])
		}
	}
	return list
}
