package converse

import (
	"strconv"

	"modelgate/internal/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
)

// reader reads the values of a request. It keeps the first error; values read
// after it are meaningless.
type reader struct{ err *apierr.Error }

func (r *reader) fail(path, code, format string, args ...any) {
	if r.err == nil {
		r.err = dialect.Invalid(path, code, format, args...)
	}
}

// text returns the value of a string; null and absent are the empty string.
func (r *reader) text(path string, v jsonedit.Value) string {
	if v.IsNull() {
		return ""
	}
	s, ok := v.Text()
	if !ok {
		r.fail(path, dialect.CodeType, "must be a string")
	}
	return s
}

// needed returns the value of a required, non-empty string.
func (r *reader) needed(path string, v jsonedit.Value) string {
	s := r.text(path, v)
	if s == "" {
		r.fail(path, dialect.CodeMissing, "is required")
	}
	return s
}

func (r *reader) number(path string, v jsonedit.Value) *float64 {
	if v.IsNull() {
		return nil
	}
	f, ok := v.Float()
	if !ok {
		r.fail(path, dialect.CodeType, "must be a number")
	}
	return &f
}

func (r *reader) count(path string, v jsonedit.Value) *int64 {
	if v.IsNull() {
		return nil
	}
	n, ok := v.Int()
	if !ok {
		r.fail(path, dialect.CodeType, "must be an integer")
	}
	return &n
}

func (r *reader) texts(path string, v jsonedit.Value) (list []string) {
	r.elements(path, v, func(path string, e jsonedit.Value) { list = append(list, r.text(path, e)) })
	return list
}

// object calls visit for each member of an object that is not null. Null and
// absent pass; other values are errors.
func (r *reader) object(path string, v jsonedit.Value, visit func(name, path string, v jsonedit.Value)) {
	if v.IsNull() {
		return
	}
	if v.Kind() != jsonedit.Object {
		r.fail(path, dialect.CodeType, "must be an object")
		return
	}
	for k, m := range v.Fields() {
		if key := k.String(); !m.IsNull() {
			visit(key, path+"."+key, m)
		}
	}
}

// elements calls visit for each element of an array; null and absent pass.
func (r *reader) elements(path string, v jsonedit.Value, visit func(path string, v jsonedit.Value)) {
	if v.IsNull() {
		return
	}
	if v.Kind() != jsonedit.Array {
		r.fail(path, dialect.CodeType, "must be an array")
		return
	}
	i := 0
	for e := range v.Elements() {
		visit(path+"["+strconv.Itoa(i)+"]", e)
		i++
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

// word returns the string value of a member, or an empty string.
func word(v jsonedit.Value, name string) string {
	m, _ := v.Get(name)
	s, _ := m.Text()
	return s
}
