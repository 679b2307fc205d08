package scim

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// Object is a JSON object. Attributes that [Type.Decode] returns have the spelling of their
// schema; those of an extension are in an object below its URN.
type Object = map[string]any

// Decode returns the attributes of an object that a request sends. Unknown attributes, and
// those that clients cannot write, are left out, as are empty ones.
func (t *Type) Decode(body []byte) (Object, error) {
	given, err := decodeObject(body)
	if err != nil {
		return nil, err
	}
	if err := t.checkSchemas(given); err != nil {
		return nil, err
	}
	return t.normalise(given)
}

// decodeObject decodes a JSON object without two members of one name in any letter case.
func decodeObject(body []byte) (Object, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var given Object
	if err := d.Decode(&given); err != nil || given == nil || d.More() {
		return nil, Errorf(InvalidSyntax, "the body must be a JSON object")
	}
	return given, checkNames(given, 0)
}

// checkNames returns an error for an object with two members that differ only in letter case.
func checkNames(v any, depth int) error {
	if depth > maxNestedDepth {
		return Errorf(InvalidSyntax, "the body is nested too deep")
	}
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if err := checkNames(e, depth+1); err != nil {
				return err
			}
		}
	case Object:
		names := make(map[string]bool, len(v))
		for name, e := range v {
			if folded := strings.ToLower(name); names[folded] {
				return Errorf(InvalidSyntax, "the attribute %.60q is duplicated", name)
			} else {
				names[folded] = true
			}
			if err := checkNames(e, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkSchemas returns an error unless the object names the schema of the type, or none.
func (t *Type) checkSchemas(given Object) error {
	v := member(given, "schemas")
	if v == nil {
		return nil
	}
	list, ok := v.([]any)
	for _, e := range list {
		if urn, isText := e.(string); isText && strings.EqualFold(urn, t.Schema.URN) {
			return nil
		}
	}
	if ok && len(list) == 0 {
		return nil
	}
	return Errorf(InvalidSyntax, "schemas must contain %s", t.Schema.URN)
}

// member returns the member of this name in any letter case, nil for none.
func member(o Object, name string) any {
	if v, ok := o[name]; ok {
		return v
	}
	for key, v := range o {
		if strings.EqualFold(key, name) {
			return v
		}
	}
	return nil
}

// normalise returns the attributes of a complete object in the form of [Type.Decode].
func (t *Type) normalise(given Object) (Object, error) {
	out, err := normaliseAll(t.Schema.Attributes, given, "")
	if err != nil {
		return nil, err
	}
	for _, s := range t.Extensions {
		inner, ok := member(given, s.URN).(Object)
		if !ok {
			continue
		}
		values, err := normaliseAll(s.Attributes, inner, s.URN+":")
		if err != nil {
			return nil, err
		}
		if len(values) > 0 {
			out[s.URN] = values
		}
	}
	return out, nil
}

// normaliseAll returns the known and writable members of an object. Prefix precedes their
// names in errors.
func normaliseAll(list []*Attribute, given Object, prefix string) (Object, error) {
	out := make(Object)
	for _, a := range list {
		if a.ReadOnly || a.Hidden {
			continue
		}
		v, err := a.normalise(member(given, a.Name), prefix+a.Name)
		if err != nil {
			return nil, err
		}
		if v != nil {
			out[a.Name] = v
		}
	}
	return out, nil
}

// normalise returns a value of the attribute in its type, nil for an empty one.
func (a *Attribute) normalise(v any, path string) (any, error) {
	switch {
	case v == nil:
		return nil, nil
	case a.Many:
		return a.normaliseList(v, path)
	}
	return a.normaliseOne(v, path)
}

// normaliseOne is [Attribute.normalise] for one value.
func (a *Attribute) normaliseOne(v any, path string) (any, error) {
	switch a.Kind {
	case Boolean:
		return readBool(v, path)
	case Complex:
		given, ok := v.(Object)
		if s, isText := v.(string); isText { // directories send the value itself
			given, ok = Object{"value": s}, find(a.Sub, "value") != nil
		}
		if !ok {
			return nil, Errorf(InvalidValue, "%s must be an object", path)
		}
		out, err := normaliseAll(a.Sub, given, path+".")
		if err != nil || len(out) == 0 {
			return nil, err
		}
		return out, nil
	}
	s, ok := v.(string)
	switch {
	case !ok:
		return nil, Errorf(InvalidValue, "%s must be a string", path)
	case utf8.RuneCountInString(s) > maxText:
		return nil, Errorf(InvalidValue, "%s must be at most %d characters long", path, maxText)
	case s == "":
		return nil, nil
	}
	return s, nil
}

// readBool reads a boolean, or the string by which Entra spells one.
func readBool(v any, path string) (any, error) {
	switch v := v.(type) {
	case bool:
		return v, nil
	case string:
		if strings.EqualFold(v, "true") || strings.EqualFold(v, "false") {
			return strings.EqualFold(v, "true"), nil
		}
	}
	return nil, Errorf(InvalidValue, "%s must be true or false", path)
}

// normaliseList is [Attribute.normalise] for a list, or for one value of it.
func (a *Attribute) normaliseList(v any, path string) (any, error) {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	if len(list) > maxElements {
		return nil, Errorf(InvalidValue, "%s must have at most %d values", path, maxElements)
	}
	var out []any
	for _, e := range list {
		if e == nil {
			continue
		}
		one, err := a.normaliseOne(e, path)
		if err != nil {
			return nil, err
		}
		if one != nil && !contains(out, one) {
			out = append(out, one)
		}
	}
	if len(out) == 0 {
		return nil, nil
	}
	keepOnePrimary(out, slices.IndexFunc(out, isPrimary))
	return out, nil
}

func isPrimary(v any) bool {
	o, ok := v.(Object)
	return ok && o["primary"] == true
}

// keepOnePrimary makes no value of a list primary except the one at an index; -1 is none.
func keepOnePrimary(list []any, index int) {
	for i, e := range list {
		if o, ok := e.(Object); ok && i != index && o["primary"] == true {
			o["primary"] = false
		}
	}
}

// contains reports whether a list has a value.
func contains(list []any, v any) bool {
	return slices.ContainsFunc(list, func(e any) bool { return reflect.DeepEqual(e, v) })
}

// clone returns a deep copy.
func clone(v any) any {
	switch v := v.(type) {
	case Object:
		out := maps.Clone(v)
		for name := range out {
			out[name] = clone(out[name])
		}
		return out
	case []any:
		out := slices.Clone(v)
		for i := range out {
			out[i] = clone(out[i])
		}
		return out
	}
	return v
}

// Text returns the string at a path of names, empty for none.
func Text(o Object, path ...string) string {
	var v any = o
	for _, name := range path {
		inner, _ := v.(Object)
		v = inner[name]
	}
	s, _ := v.(string)
	return s
}

// Elements returns the objects of a list.
func Elements(o Object, name string) []Object {
	list, _ := o[name].([]any)
	out := make([]Object, 0, len(list))
	for _, e := range list {
		if one, ok := e.(Object); ok {
			out = append(out, one)
		}
	}
	return out
}
