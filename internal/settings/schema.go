package settings

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// described is the structure of the file, from which the schema is generated.
type described struct {
	known huma.Registry
	root  *huma.Schema
}

var form = sync.OnceValue(func() described {
	known := huma.NewMapRegistry("#/$defs/", func(t reflect.Type, _ string) string {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		return t.Name()
	})
	return described{known, known.Schema(reflect.TypeFor[Settings](), false, "")}
})

// Schema returns the JSON Schema (draft 2020-12) of the file. Loading a file also
// checks what a schema cannot express: duplicate names, references and the content of
// configs.
func Schema() []byte {
	d := form()
	root := mustMap(d.root)
	defs := make(map[string]any)
	for name, s := range d.known.Map() {
		if s != d.root {
			defs[name] = s
		}
	}
	root["$schema"], root["$defs"] = "https://json-schema.org/draft/2020-12/schema", defs
	root["title"], root["description"] = "modelgate.yaml", "Settings of a gateway, and objects of its control plane."
	root = mustMap(root)
	orNull(root)
	for _, def := range root["$defs"].(map[string]any) {
		orNull(def.(map[string]any))
	}
	b, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic("settings: schema: " + err.Error())
	}
	return append(b, '\n')
}

// mustMap returns v decoded from its JSON.
func mustMap(v any) (m map[string]any) {
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil {
		panic("settings: schema: " + err.Error())
	}
	return m
}

// orNull allows null for optional properties, because a key without a value means the
// same as an absent key.
func orNull(object map[string]any) {
	required, _ := object["required"].([]any)
	properties, _ := object["properties"].(map[string]any)
	for name, p := range properties {
		if slices.Contains(required, any(name)) {
			continue
		}
		description := p.(map[string]any)["description"]
		delete(p.(map[string]any), "description")
		forms := []any{p, map[string]any{"type": "null"}}
		if name == budgetField {
			forms = append(forms, otherBudgetForm(p.(map[string]any)))
		}
		either := map[string]any{"anyOf": forms}
		if description != nil {
			either["description"] = description
		}
		properties[name] = either
	}
}

// checkSchema checks ranges and formats of fields by the schema.
func checkSchema(root ast.Node) *fault {
	var doc any
	if err := yaml.NodeToValue(root, &doc); err != nil {
		return at(err, "")
	}
	doc = withoutNull(doc)
	if doc == nil {
		return nil
	}
	if sections, ok := doc.(map[string]any); ok {
		for name, section := range sections {
			normaliseBudgets(section, name == "workspaces" || name == "integrations")
		}
	}
	d, result := form(), new(huma.ValidateResult)
	huma.Validate(d.known, d.root, huma.NewPathBuffer(nil, 0), huma.ModeWriteToServer, doc, result)
	if len(result.Errors) == 0 {
		return nil
	}
	e, ok := errors.AsType[*huma.ErrorDetail](result.Errors[0])
	if !ok {
		return at(result.Errors[0], "")
	}
	return at(errors.New(e.Message), "%s", e.Location)
}

// budgetField is the field with the budgets of an object: one, or a list of them.
const budgetField = "usage_limits"

// otherBudgetForm returns the schema of a list of budgets for that of a budget, and of a
// budget for that of a list.
func otherBudgetForm(schema map[string]any) any {
	if items, ok := schema["items"]; ok {
		return items
	}
	return map[string]any{"type": "array", "items": schema, "minItems": 1, "maxItems": 1}
}

// normaliseBudgets replaces the budgets in v in the other form than the schema has, which
// for many is a list.
func normaliseBudgets(v any, many bool) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			normaliseBudgets(item, many)
		}
	case map[string]any:
		for name, inner := range v {
			list, isList := inner.([]any)
			_, isObject := inner.(map[string]any)
			switch {
			case name != budgetField:
				normaliseBudgets(inner, many)
			case many && isObject:
				v[name] = []any{inner}
			case !many && isList && len(list) == 1:
				v[name] = list[0]
			}
		}
	}
}

// withoutNull removes properties that are null.
func withoutNull(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			if v[name] = withoutNull(inner); v[name] == nil {
				delete(v, name)
			}
		}
	case []any:
		for i := range v {
			v[i] = withoutNull(v[i])
		}
	}
	return v
}

// Schema implements huma.SchemaProvider.
func (Object) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}
}

// Schema implements huma.SchemaProvider.
func (Value) Schema(huma.Registry) *huma.Schema { return new(huma.Schema) }

// Schema implements huma.SchemaProvider.
func (Size) Schema(huma.Registry) *huma.Schema {
	none := 0.0
	return &huma.Schema{AnyOf: []*huma.Schema{{Type: huma.TypeInteger, Minimum: &none},
		{Type: huma.TypeString, Pattern: `^[0-9]+ *([kKmMgG]?[bB])?$`}},
		Description: "Bytes, or a number with KB, MB or GB"}
}

// Schema implements huma.SchemaProvider.
func (Duration) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{AnyOf: []*huma.Schema{{Type: huma.TypeString, Pattern: `^[-+]?(0|([0-9]*\.?[0-9]+|[0-9]+\.)(ns|us|µs|ms|s|m|h))+$`},
		{Type: huma.TypeInteger, Enum: []any{0}}},
		Description: "A number with ms, s, m or h, such as 30s"}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
