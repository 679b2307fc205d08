package scim

import (
	"encoding/json"
	"slices"
	"strings"
)

// maxPath is the limit of a path, in bytes.
const maxPath = 1024

// Path is the target of an operation: an attribute of the core schema or an extension, its
// elements that a filter selects, and a sub-attribute.
type Path struct {
	Extension *Schema    // nil for the core schema
	Attribute *Attribute // nil for the whole extension
	Filter    *Filter    // nil for all elements
	Sub       *Attribute // nil for whole values
}

// ParsePath parses the path of an operation on an object of the type.
func (t *Type) ParsePath(s string) (Path, error) {
	var out Path
	if len(s) > maxPath {
		return out, Errorf(InvalidPath, "the path must be at most %d bytes long", maxPath)
	}
	name := strings.TrimSpace(s)
	list := t.Schema.Attributes
	if rest, ok := cutURN(name, t.Schema.URN); ok && rest != "" {
		name = rest
	}
	for _, e := range t.Extensions {
		if rest, ok := cutURN(name, e.URN); ok {
			out.Extension, name, list = e, rest, e.Attributes
			if rest == "" {
				return out, nil
			}
			break
		}
	}
	return out, out.parse(list, name, s)
}

// cutURN returns what follows the URN and a colon. It returns true for the URN itself too.
func cutURN(s, urn string) (rest string, ok bool) {
	if len(s) < len(urn) || !strings.EqualFold(s[:len(urn)], urn) {
		return s, false
	}
	if rest = s[len(urn):]; rest == "" {
		return "", true
	}
	return strings.CutPrefix(rest, ":")
}

// parse parses the attribute, the filter and the sub-attribute. Complete is the path for
// errors.
func (p *Path) parse(list []*Attribute, s, complete string) error {
	unknown := Errorf(InvalidPath, "the path %.80q names no attribute", complete)
	n := strings.IndexAny(s, ".[")
	if n < 0 {
		n = len(s)
	}
	if p.Attribute = find(list, s[:n]); p.Attribute == nil {
		return unknown
	}
	rest := s[n:]
	if inner, ok := strings.CutPrefix(rest, "["); ok {
		if !p.Attribute.Many {
			return Errorf(InvalidPath, "the path %.80q selects elements of an attribute that is not a list", complete)
		}
		f := filterParser{rest: inner}
		filter, err := f.nested("]")
		if err != nil {
			return err
		}
		if err := p.Attribute.checkFilter(filter); err != nil {
			return err
		}
		p.Filter, rest = filter, f.rest
	}
	if rest == "" {
		return nil
	}
	name, ok := strings.CutPrefix(rest, ".")
	if p.Sub = find(p.Attribute.Sub, name); !ok || p.Sub == nil {
		return unknown
	}
	return nil
}

// checkFilter returns an error for a filter of elements that names unknown attributes.
func (a *Attribute) checkFilter(f *Filter) error {
	if f.Op == Has {
		return Errorf(InvalidFilter, "the filter selects elements within elements")
	}
	if len(f.Args) == 0 && find(a.Sub, f.Path) == nil {
		return Errorf(InvalidFilter, "%s has no attribute %.60q", a.Name, f.Path)
	}
	for _, arg := range f.Args {
		if err := a.checkFilter(arg); err != nil {
			return err
		}
	}
	return nil
}

// matches reports whether an element of a list matches a filter that was checked.
func (a *Attribute) matches(f *Filter, element Object) bool {
	switch f.Op {
	case And:
		return !slices.ContainsFunc(f.Args, func(arg *Filter) bool { return !a.matches(arg, element) })
	case Or:
		return slices.ContainsFunc(f.Args, func(arg *Filter) bool { return a.matches(arg, element) })
	case Not:
		return !a.matches(f.Args[0], element)
	}
	sub := find(a.Sub, f.Path)
	v := element[sub.Name]
	if f.Op == Present {
		return v != nil
	}
	if sub.Kind == Boolean {
		return matchBool(f, v)
	}
	have, _ := v.(string)
	want, _ := f.Value.(string)
	if n, ok := f.Value.(json.Number); ok {
		want = n.String()
	}
	if !sub.CaseExact {
		have, want = strings.ToLower(have), strings.ToLower(want)
	}
	return compare(f.Op, have, want)
}

// matchBool compares a boolean, of which an absent one is false. Entra spells booleans in
// filters as strings.
func matchBool(f *Filter, v any) bool {
	want, err := readBool(f.Value, f.Path)
	if err != nil {
		return false
	}
	have, _ := v.(bool)
	return f.Op == Equal && have == want || f.Op == NotEqual && have != want
}

func compare(op Op, have, want string) bool {
	switch op {
	case Equal:
		return have == want
	case NotEqual:
		return have != want
	case Contains:
		return strings.Contains(have, want)
	case StartsWith:
		return strings.HasPrefix(have, want)
	case EndsWith:
		return strings.HasSuffix(have, want)
	case Greater:
		return have > want
	case GreaterOrEqual:
		return have >= want
	case Less:
		return have < want
	}
	return have <= want
}
