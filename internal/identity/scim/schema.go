// Package scim implements the parts of SCIM 2.0 that need no database: schemas, values,
// filters, the operations of PATCH, and which attributes a response has.
//
// It guarantees that parsing is bounded in length, depth and number, that values have the
// type that their schema announces, and that what is not announced is either ignored or
// rejected by name. It accepts the deviations of the directories of Okta and Microsoft Entra.
// It does not serve requests (see controlplane/directory) or run filters on stored objects
// (see store).
//
// https://www.rfc-editor.org/rfc/rfc7643 and https://www.rfc-editor.org/rfc/rfc7644
package scim

import "strings"

// URNs of schemas and messages.
const (
	UserURN        = "urn:ietf:params:scim:schemas:core:2.0:User"
	GroupURN       = "urn:ietf:params:scim:schemas:core:2.0:Group"
	EnterpriseURN  = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
	ListURN        = "urn:ietf:params:scim:api:messages:2.0:ListResponse"
	PatchURN       = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
	ErrorURN       = "urn:ietf:params:scim:api:messages:2.0:Error"
	SchemaURN      = "urn:ietf:params:scim:schemas:core:2.0:Schema"
	TypeURN        = "urn:ietf:params:scim:schemas:core:2.0:ResourceType"
	ConfigURN      = "urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"
	maxText        = 1024 // characters of a value
	maxElements    = 100  // of a list other than the members of a group
	maxNestedDepth = 8    // of values
)

// Kind is the type of an attribute's values.
type Kind string

// Kinds of values. Dates are compared but never written by clients.
const (
	String    Kind = "string"
	Boolean   Kind = "boolean"
	Reference Kind = "reference"
	Complex   Kind = "complex"
)

// Attribute describes an attribute of a schema. The zero values of its fields are the
// defaults of RFC 7643, except that Kind is required.
type Attribute struct {
	Name        string
	Kind        Kind
	Description string
	Many        bool         // a list of values
	Sub         []*Attribute // of complex values
	CaseExact   bool
	Required    bool
	ReadOnly    bool
	Unique      bool     // among the objects of a type
	Immutable   bool     // of elements of a list
	Values      []string // canonical; others are accepted
	Refers      []string // types of objects that a reference names

	// Hidden attributes are accepted and not stored: they are not announced and never
	// returned.
	Hidden bool
}

// find returns the attribute of this name in any letter case, nil for none.
func find(list []*Attribute, name string) *Attribute {
	for _, a := range list {
		if strings.EqualFold(a.Name, name) {
			return a
		}
	}
	return nil
}

// Schema is a set of attributes with a URN.
type Schema struct {
	URN         string
	Name        string
	Description string
	Attributes  []*Attribute
}

// Type is a type of objects: its schema, and the extensions that its objects may have.
type Type struct {
	Name        string // User or Group
	Endpoint    string // path of its objects below the base
	Description string
	Schema      *Schema
	Extensions  []*Schema
}

// Schemas returns all schemas of the types, in order.
func Schemas(types ...*Type) []*Schema {
	var list []*Schema
	for _, t := range types {
		list = append(append(list, t.Schema), t.Extensions...)
	}
	return list
}

// Describe returns the schema as it is announced. Base is the address below which schemas
// are served.
func (s *Schema) Describe(base string) Object {
	return Object{
		"schemas": []any{SchemaURN}, "id": s.URN, "name": s.Name, "description": s.Description, "attributes": describe(s.Attributes),
		"meta": Object{"resourceType": "Schema", "location": base + "/Schemas/" + s.URN},
	}
}

// Describe returns the type as it is announced.
func (t *Type) Describe(base string) Object {
	out := Object{
		"schemas": []any{TypeURN}, "id": t.Name, "name": t.Name, "description": t.Description, "endpoint": t.Endpoint, "schema": t.Schema.URN,
		"meta": Object{"resourceType": "ResourceType", "location": base + "/ResourceTypes/" + t.Name},
	}
	extensions := make([]any, len(t.Extensions))
	for i, s := range t.Extensions {
		extensions[i] = Object{"schema": s.URN, "required": false}
	}
	if len(extensions) > 0 {
		out["schemaExtensions"] = extensions
	}
	return out
}

func describe(list []*Attribute) []any {
	out := make([]any, 0, len(list))
	for _, a := range list {
		if !a.Hidden {
			out = append(out, a.describe())
		}
	}
	return out
}

func (a *Attribute) describe() Object {
	out := Object{
		"name": a.Name, "type": string(a.Kind), "multiValued": a.Many, "description": a.Description, "required": a.Required,
		"mutability": "readWrite", "returned": "default",
	}
	switch {
	case a.ReadOnly:
		out["mutability"] = "readOnly"
	case a.Immutable:
		out["mutability"] = "immutable"
	}
	if a.Kind == Complex {
		out["subAttributes"] = describe(a.Sub)
		return out
	}
	if a.Kind != Boolean {
		out["caseExact"], out["uniqueness"] = a.CaseExact, "none"
	}
	if a.Unique {
		out["uniqueness"] = "server"
	}
	if len(a.Values) > 0 {
		out["canonicalValues"] = anys(a.Values)
	}
	if a.Kind == Reference {
		out["referenceTypes"] = anys(a.Refers)
	}
	return out
}

func anys(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}
