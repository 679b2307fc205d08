package converse

import (
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
)

// reader reads the values of a request.
type reader struct{ dialect.Reader }

// object calls visit for each member of an object that is not null. Null and
// absent pass; other values are errors.
func (r *reader) object(path string, v jsonedit.Value, visit func(name, path string, v jsonedit.Value)) {
	if v.IsNull() {
		return
	}
	if v.Kind() != jsonedit.Object {
		r.Refuse(path, dialect.CodeType, "must be an object")
		return
	}
	for k, m := range v.Fields() {
		if key := k.String(); !m.IsNull() {
			visit(key, path+"."+key, m)
		}
	}
}

// only returns the single member of an object that is not null.
func only(v jsonedit.Value) (name string, value jsonedit.Value) {
	for k, m := range v.Fields() {
		if m.IsNull() {
			continue
		}
		if name != "" {
			return "", jsonedit.Value{}
		}
		name, value = k.String(), m
	}
	return name, value
}

// oneOf returns the first of the named members that an object has and that is not null,
// otherwise its single member. Objects with variants have one member; a further one that
// the provider adds must not hide it.
func oneOf(v jsonedit.Value, names ...string) (name string, value jsonedit.Value) {
	for _, name := range names {
		if m, ok := v.Get(name); ok && !m.IsNull() {
			return name, m
		}
	}
	return only(v)
}
