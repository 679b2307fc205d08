package config

import "encoding/json"

// schema is the part of JSON Schema that describes a config.
type schema struct {
	Dialect       string             `json:"$schema,omitempty"`
	ID            string             `json:"$id,omitempty"`
	Ref           string             `json:"$ref,omitempty"`
	Title         string             `json:"title,omitempty"`
	Description   string             `json:"description,omitempty"`
	Type          string             `json:"type,omitempty"`
	Enum          []string           `json:"enum,omitempty"`
	Pattern       string             `json:"pattern,omitempty"`
	Minimum       *float64           `json:"minimum,omitempty"`
	Maximum       *float64           `json:"maximum,omitempty"`
	Above         *float64           `json:"exclusiveMinimum,omitempty"`
	MinLength     int                `json:"minLength,omitempty"`
	MinItems      int                `json:"minItems,omitempty"`
	MinProperties int                `json:"minProperties,omitempty"`
	Items         *schema            `json:"items,omitempty"`
	Properties    map[string]*schema `json:"properties,omitempty"`
	Required      []string           `json:"required,omitempty"`

	PatternProperties map[string]*schema  `json:"patternProperties,omitempty"`
	DependentRequired map[string][]string `json:"dependentRequired,omitempty"`
	// Additional is false, or the schema of further properties.
	Additional json.RawMessage    `json:"additionalProperties,omitempty"`
	OneOf      []*schema          `json:"oneOf,omitempty"`
	AnyOf      []*schema          `json:"anyOf,omitempty"`
	If         *schema            `json:"if,omitempty"`
	Then       *schema            `json:"then,omitempty"`
	Defs       map[string]*schema `json:"$defs,omitempty"`
}

// schema returns the schema of objects of the shape.
func (s *shape[T]) schema() *schema {
	d := &schema{Type: "object", Properties: map[string]*schema{}, Additional: json.RawMessage("false")}
	for _, f := range s.fields {
		row := *f.schema
		row.Description = f.doc
		if f.extension {
			row.Description += " (extension)"
		}
		d.Properties[f.name] = &row
		if f.required {
			d.Required = append(d.Required, f.name)
		}
	}
	if s.refine != nil {
		s.refine(d)
	}
	return d
}

// Schema returns the JSON Schema (draft 2020-12) of a config. It has the wire
// names; Parse also accepts their camelCase spellings, and checks what a schema
// cannot express: inheritance, names of targets and patterns.
func Schema() []byte {
	root := &schema{
		Dialect:     "https://json-schema.org/draft/2020-12/schema",
		Title:       "Gateway config",
		Description: "How requests are routed and what else applies to them. Property names are also accepted in camelCase.",
		Ref:         "#/$defs/config",
		Defs: map[string]*schema{
			"config": nodes.schema(),
			"query":  querySchema(),
			"tests":  testsSchema(),
			"plain":  plainSchema(),
		},
	}
	for _, g := range groups {
		root.AnyOf = append(root.AnyOf, &schema{Required: g})
	}
	root.AnyOf = append(root.AnyOf, selfContainedSchemas()...)
	return append(root.json(), '\n')
}

// json returns the schema as JSON. It cannot fail, since the values are
// strings, numbers and lists.
func (s *schema) json() []byte {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic("config: schema: " + err.Error())
	}
	return b
}

// selfContainedSchemas returns schemas of the ways to name a provider that need
// no other property.
func selfContainedSchemas() []*schema {
	named := func(name string, like *schema) *schema {
		return &schema{Required: []string{name}, Properties: map[string]*schema{name: like}}
	}
	return []*schema{
		named("provider", &schema{Pattern: "^@"}),
		named("provider", &schema{Enum: keyless}),
		named("override_params", named("model", &schema{Pattern: "^@"})),
		named("cloud_a_auth_type", &schema{Enum: []string{"serviceRole"}}),
		named("cloud_c_auth_mode", &schema{Enum: []string{"entra", "managed", "workload"}}),
	}
}

// querySchema returns the schema of queries: fields and joins, all of which
// must be true.
func querySchema() *schema {
	query := &schema{Ref: "#/$defs/query"}
	several := &schema{Type: "array", MinItems: 1, Items: query}
	return &schema{
		Type:        "object",
		Description: "Fields of a request (metadata., params., headers. or url. and a path) with a value or operators; all must match.",
		Properties:  map[string]*schema{string(And): several, string(Or): several, string(Not): query},
		PatternProperties: map[string]*schema{
			`^(metadata|params|headers|url)\..`: {AnyOf: []*schema{{Ref: "#/$defs/plain"}, {Ref: "#/$defs/tests"}}},
		},
		Additional: json.RawMessage("false"),
	}
}

// testsSchema returns the schema of the operators on one field, all of which
// must be true.
func testsSchema() *schema {
	plain := &schema{Ref: "#/$defs/plain"}
	several := &schema{Type: "array", Items: plain}
	number := &schema{AnyOf: []*schema{{Type: "number"}, {Type: "string", Pattern: `^\s*[+-]?\.?[0-9]`}}}
	text := &schema{Type: "string"}
	return &schema{
		Type:          "object",
		MinProperties: 1,
		Properties: map[string]*schema{
			string(Eq): plain, string(Ne): plain, string(In): several, string(Nin): several,
			string(Gt): number, string(Gte): number, string(Lt): number, string(Lte): number,
			string(Regex): text, string(Contains): plain, string(Exists): {Type: "boolean"},
			string(Not): {Ref: "#/$defs/tests"},
		},
		Additional: json.RawMessage("false"),
	}
}

// plainSchema returns the schema of values that can be compared.
func plainSchema() *schema {
	return &schema{AnyOf: []*schema{{Type: "string"}, {Type: "number"}, {Type: "boolean"}, {Type: "null"}}}
}

// conditionalNeeds adds what conditional mode requires.
func conditionalNeeds(d *schema) {
	d.If = &schema{Required: []string{"mode"}, Properties: map[string]*schema{"mode": {Enum: []string{string(Conditional)}}}}
	d.Then = &schema{
		Required:   []string{"conditions", "default"},
		Properties: map[string]*schema{"conditions": {MinItems: 1}},
	}
}

// oneThreshold adds that a breaker needs a threshold.
func oneThreshold(d *schema) {
	d.AnyOf = []*schema{{Required: []string{"failure_threshold"}}, {Required: []string{"failure_threshold_percentage"}}}
}

// strategyWithTargets adds that strategy and targets require each other.
func strategyWithTargets(d *schema) {
	d.DependentRequired = map[string][]string{"strategy": {"targets"}, "targets": {"strategy"}}
}

// furtherObjects adds that other properties are objects.
func furtherObjects(d *schema) { d.Additional = (&schema{Type: "object"}).json() }
