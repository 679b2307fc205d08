package scim

import (
	"maps"
	"slices"
	"strings"
)

// maxOperations is the limit of operations in a request.
const maxOperations = 1000

// Kinds of operations.
const (
	Add     = "add"
	Replace = "replace"
	Remove  = "remove"
)

// Operation is an operation of PATCH.
type Operation struct {
	Op       string // Add, Replace or Remove
	Path     string // empty for none
	Value    any    // decoded; nil for none
	Capital  bool   // the request spells Op with a capital letter
	hasValue bool
}

// DecodePatch returns the operations of a request, in order.
func DecodePatch(body []byte) ([]Operation, error) {
	given, err := decodeObject(body)
	if err != nil {
		return nil, err
	}
	if urns, ok := member(given, "schemas").([]any); ok && len(urns) > 0 {
		if !slices.ContainsFunc(urns, func(v any) bool { s, _ := v.(string); return strings.EqualFold(s, PatchURN) }) {
			return nil, Errorf(InvalidSyntax, "schemas must contain %s", PatchURN)
		}
	}
	list, ok := member(given, "Operations").([]any)
	switch {
	case !ok || len(list) == 0:
		return nil, Errorf(InvalidSyntax, "Operations must be a list of at least one operation")
	case len(list) > maxOperations:
		return nil, Errorf(TooMany, "Operations must have at most %d operations", maxOperations)
	}
	out := make([]Operation, len(list))
	for i, e := range list {
		if out[i], err = decodeOperation(e); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func decodeOperation(v any) (o Operation, err error) {
	given, ok := v.(Object)
	if !ok {
		return o, Errorf(InvalidSyntax, "an operation must be an object")
	}
	op, _ := member(given, "op").(string)
	o.Op = strings.ToLower(op)
	o.Capital = o.Op != op
	path, isText := member(given, "path").(string)
	if p := member(given, "path"); p != nil && !isText {
		return o, Errorf(InvalidPath, "a path must be a string")
	}
	o.Path, o.Value = path, member(given, "value")
	for name := range given {
		o.hasValue = o.hasValue || strings.EqualFold(name, "value")
	}
	switch {
	case o.Op != Add && o.Op != Replace && o.Op != Remove:
		return o, Errorf(InvalidSyntax, "op must be add, replace or remove, not %.40q", op)
	case o.Op == Remove && o.Path == "":
		return o, Errorf(NoTarget, "remove needs a path")
	case o.Op != Remove && !o.hasValue:
		return o, Errorf(InvalidValue, "%s needs a value", o.Op)
	}
	return o, nil
}

// Patch returns the object after the operations. It does not change current.
func (t *Type) Patch(current Object, list []Operation) (Object, error) {
	out := clone(current).(Object)
	for _, o := range list {
		if err := t.apply(out, o); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// apply applies an operation to an object.
func (t *Type) apply(target Object, o Operation) error {
	if o.Path != "" {
		return t.applyAt(target, o)
	}
	values, ok := o.Value.(Object)
	if !ok {
		return Errorf(InvalidValue, "the value of an operation without a path must be an object")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		inner := Operation{Op: o.Op, Path: name, Value: values[name], hasValue: true}
		p, err := t.ParsePath(name)
		if err != nil || p.isIgnored() { // as in a complete object
			continue
		}
		if err := t.applyAt(target, inner); err != nil {
			return err
		}
	}
	return nil
}

// isIgnored reports whether the target is one that complete objects may have without effect.
func (p Path) isIgnored() bool {
	return p.Attribute != nil && (p.Attribute.ReadOnly || p.Attribute.Hidden)
}

// fixed are attributes of every object that clients cannot write.
var fixed = []string{"id", "schemas", "meta"}

// applyAt applies an operation with a path.
func (t *Type) applyAt(target Object, o Operation) error {
	name, _, _ := strings.Cut(strings.ToLower(o.Path), ".")
	if slices.Contains(fixed, name) {
		return Errorf(Mutability, "%s cannot be changed", name)
	}
	p, err := t.ParsePath(o.Path)
	if err != nil {
		return err
	}
	if p.Extension == nil {
		return p.change(target, o)
	}
	inner, _ := target[p.Extension.URN].(Object)
	if inner == nil {
		inner = make(Object)
	}
	if err := p.changeExtension(inner, o); err != nil {
		return err
	}
	if target[p.Extension.URN] = inner; len(inner) == 0 {
		delete(target, p.Extension.URN)
	}
	return nil
}

// changeExtension applies an operation to the object of an extension.
func (p Path) changeExtension(target Object, o Operation) error {
	switch {
	case p.Attribute != nil:
		return p.change(target, o)
	case o.Op == Remove:
		clear(target)
		return nil
	}
	given, ok := o.Value.(Object)
	if !ok {
		return Errorf(InvalidValue, "%s must be an object", p.Extension.URN)
	}
	for name, v := range given {
		if a := find(p.Extension.Attributes, name); a != nil {
			inner := Path{Extension: p.Extension, Attribute: a}
			if err := inner.change(target, Operation{Op: o.Op, Path: name, Value: v, hasValue: true}); err != nil {
				return err
			}
		}
	}
	return nil
}

// change applies an operation to the attribute of an object.
func (p Path) change(target Object, o Operation) error {
	a := p.Attribute
	switch {
	case a.ReadOnly || p.Sub != nil && p.Sub.ReadOnly:
		return Errorf(Mutability, "%s cannot be changed", o.Path)
	case a.Hidden:
		return nil
	case o.Op != Remove && o.Value == nil: // null removes
		o.Op = Remove
	}
	if o.Op == Remove && p.Sub == nil && a.Required {
		return Errorf(Mutability, "%s cannot be removed", o.Path)
	}
	if a.Many {
		return p.changeList(target, o)
	}
	if p.Sub != nil {
		return p.changeSub(target, o)
	}
	if o.Op == Remove {
		delete(target, a.Name)
		return nil
	}
	v, err := a.normalise(o.Value, o.Path)
	if err != nil {
		return err
	}
	return a.set(target, v)
}

// set stores a value. That of a complex attribute is merged with the current one; an empty
// one is removed.
func (a *Attribute) set(target Object, v any) error {
	if v == nil {
		if a.Required {
			return Errorf(InvalidValue, "%s must not be empty", a.Name)
		}
		delete(target, a.Name)
		return nil
	}
	current, both := target[a.Name].(Object)
	given, ok := v.(Object)
	if both && ok {
		maps.Copy(current, given)
		return nil
	}
	target[a.Name] = v
	return nil
}

// changeSub applies an operation to a sub-attribute of a single value.
func (p Path) changeSub(target Object, o Operation) error {
	inner, _ := target[p.Attribute.Name].(Object)
	if inner == nil {
		inner = make(Object)
	}
	if err := p.setSub(inner, o); err != nil {
		return err
	}
	if target[p.Attribute.Name] = inner; len(inner) == 0 {
		delete(target, p.Attribute.Name)
	}
	return nil
}

// setSub sets or removes the sub-attribute of one value.
func (p Path) setSub(inner Object, o Operation) error {
	if o.Op == Remove {
		delete(inner, p.Sub.Name)
		return nil
	}
	v, err := p.Sub.normalise(o.Value, o.Path)
	if err != nil {
		return err
	}
	if inner[p.Sub.Name] = v; v == nil {
		delete(inner, p.Sub.Name)
	}
	return nil
}
