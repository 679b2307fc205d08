package scim

import "strings"

// maxProjection is the number of attributes that a request may select.
const maxProjection = 100

// Projection selects the attributes of a response. The zero value selects all.
type Projection struct {
	only, without map[string]bool // in lower case; nil for no selection
}

// ParseProjection reads the parameters attributes and excludedAttributes of a request for
// objects of the type. Only one of them may be set.
func (t *Type) ParseProjection(attributes, excluded string) (p Projection, err error) {
	if attributes != "" && excluded != "" {
		return p, Errorf(InvalidValue, "attributes and excludedAttributes cannot be combined")
	}
	if p.only, err = t.names(attributes); err != nil {
		return p, err
	}
	p.without, err = t.names(excluded)
	return p, err
}

// names returns the names of a list without the URN of the core schema, in lower case.
func (t *Type) names(list string) (map[string]bool, error) {
	if strings.TrimSpace(list) == "" {
		return nil, nil
	}
	out := make(map[string]bool)
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		if rest, ok := cutURN(name, t.Schema.URN); ok && rest != "" {
			name = rest
		}
		if out[strings.ToLower(name)] = true; len(out) > maxProjection {
			return nil, Errorf(InvalidValue, "at most %d attributes can be selected", maxProjection)
		}
	}
	return out, nil
}

// Selects reports whether responses have an attribute of the core schema.
func (p Projection) Selects(name string) bool {
	name = strings.ToLower(name)
	if p.only == nil {
		return !p.without[name]
	}
	for chosen := range p.only {
		if chosen == name || strings.HasPrefix(chosen, name+".") {
			return true
		}
	}
	return false
}

// Apply returns the selected attributes of an object. Its id and schemas are always among
// them.
func (p Projection) Apply(o Object) Object {
	if p.only == nil && p.without == nil {
		return o
	}
	out := make(Object)
	for name, v := range o {
		lower := strings.ToLower(name)
		if lower == "id" || lower == "schemas" {
			out[name] = v
			continue
		}
		sep := "."
		if strings.HasPrefix(lower, "urn:") {
			sep = ":"
		}
		if v = p.part(v, lower, sep); v != nil {
			out[name] = v
		}
	}
	return out
}

// part returns the selected part of a value, nil for none. Sep divides its name from those of
// its members.
func (p Projection) part(v any, name, sep string) any {
	switch {
	case p.only[name]:
		return v
	case p.only == nil && p.without[name]:
		return nil
	}
	switch v := v.(type) {
	case Object:
		out := make(Object)
		for sub, inner := range v {
			if inner = p.part(inner, name+sep+strings.ToLower(sub), "."); inner != nil {
				out[sub] = inner
			}
		}
		if len(out) > 0 {
			return out
		}
		return nil
	case []any:
		var out []any
		for _, e := range v {
			if e = p.part(e, name, sep); e != nil {
				out = append(out, e)
			}
		}
		if len(out) > 0 {
			return out
		}
		return nil
	}
	if p.only == nil {
		return v
	}
	return nil
}
