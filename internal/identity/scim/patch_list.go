package scim

import (
	"maps"
	"reflect"
	"slices"
)

// changeList applies an operation to a list, or to the elements that a filter selects.
func (p Path) changeList(target Object, o Operation) error {
	name := p.Attribute.Name
	list, _ := target[name].([]any)
	var err error
	switch {
	case o.Op == Remove && p.Sub == nil:
		list, err = p.removeElements(list, o)
	case p.Filter != nil || p.Sub != nil:
		list, err = p.changeElements(list, o)
	default:
		list, err = p.addElements(list, o)
	}
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(e any) bool { o, ok := e.(Object); return ok && len(o) == 0 })
	if len(list) > maxElements {
		return Errorf(InvalidValue, "%s must have at most %d values", name, maxElements)
	}
	if target[name] = list; len(list) == 0 {
		delete(target, name)
	}
	return nil
}

// addElements adds elements to a list, or replaces it. Elements that it has are not added
// again.
func (p Path) addElements(list []any, o Operation) ([]any, error) {
	v, err := p.Attribute.normalise(o.Value, o.Path)
	if err != nil {
		return nil, err
	}
	given, _ := v.([]any)
	if o.Op == Replace {
		return given, nil
	}
	primary := -1
	for _, e := range given {
		i := slices.IndexFunc(list, func(have any) bool { return isSame(have, e) })
		if i < 0 {
			i, list = len(list), append(list, e)
		} else if one, ok := e.(Object); ok {
			maps.Copy(list[i].(Object), one)
		}
		if isPrimary(e) {
			primary = i
		}
	}
	if primary >= 0 {
		keepOnePrimary(list, primary)
	}
	return list, nil
}

// isSame reports whether two elements have the same value and type. Elements without a value
// are the same only if they are equal.
func isSame(a, b any) bool {
	x, ok := a.(Object)
	y, both := b.(Object)
	if !ok || !both || x["value"] == nil {
		return reflect.DeepEqual(a, b)
	}
	return x["value"] == y["value"] && (x["type"] == y["type"] || y["type"] == nil)
}

// removeElements removes the elements that a filter or the values of the operation select,
// or all.
func (p Path) removeElements(list []any, o Operation) ([]any, error) {
	if p.Filter != nil {
		return slices.DeleteFunc(list, p.selects), nil
	}
	if o.Value == nil {
		return nil, nil
	}
	v, err := p.Attribute.normalise(o.Value, o.Path)
	if err != nil {
		return nil, err
	}
	given, _ := v.([]any)
	return slices.DeleteFunc(list, func(have any) bool {
		return slices.ContainsFunc(given, func(e any) bool { return isSame(have, e) })
	}), nil
}

// selects reports whether the path names an element.
func (p Path) selects(v any) bool {
	element, ok := v.(Object)
	return ok && (p.Filter == nil || p.Attribute.matches(p.Filter, element))
}

// changeElements changes the elements that the path selects. If there are none, it adds the
// one that the filter describes, because Entra adds and replaces values in this way.
func (p Path) changeElements(list []any, o Operation) ([]any, error) {
	chosen := slices.IndexFunc(list, p.selects)
	if chosen < 0 {
		if o.Op == Remove {
			return list, nil
		}
		element := make(Object)
		if !p.describes(p.Filter, element) {
			return nil, Errorf(NoTarget, "the path %.80q selects nothing", o.Path)
		}
		chosen, list = len(list), append(list, element)
	}
	primary := -1
	for i := chosen; i < len(list); i++ {
		if i != chosen && !p.selects(list[i]) {
			continue
		}
		if err := p.changeElement(list[i].(Object), o); err != nil {
			return nil, err
		}
		if primary < 0 && isPrimary(list[i]) {
			primary = i
		}
	}
	if primary >= 0 {
		keepOnePrimary(list, primary)
	}
	return list, nil
}

// changeElement changes one element.
func (p Path) changeElement(element Object, o Operation) error {
	if p.Sub != nil {
		return p.setSub(element, o)
	}
	v, err := p.Attribute.normaliseOne(o.Value, o.Path)
	if err != nil {
		return err
	}
	given, ok := v.(Object)
	if !ok {
		return Errorf(InvalidValue, "%.80s must be an object", o.Path)
	}
	maps.Copy(element, given)
	return nil
}

// describes fills an element with the values that a filter compares, and reports whether
// every element that it selects has them.
func (p Path) describes(f *Filter, element Object) bool {
	switch {
	case f == nil:
		return true
	case f.Op == And:
		return !slices.ContainsFunc(f.Args, func(arg *Filter) bool { return !p.describes(arg, element) })
	case f.Op != Equal:
		return false
	}
	sub := find(p.Attribute.Sub, f.Path)
	v, err := sub.normalise(f.Value, f.Path)
	element[sub.Name] = v
	return err == nil && v != nil
}
