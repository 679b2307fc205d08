package dialect

import (
	"iter"
	"slices"
	"strconv"

	"modelgate/internal/base/apierr"
	"modelgate/internal/format/grammar"
	"modelgate/internal/format/jsonedit"
)

// Reader reads the values of a request while it is decoded. It keeps the first error,
// and returns zero values for values of another kind. Null and absent values are zero
// without an error, since official clients send null for what is not set. The zero
// Reader is ready for use.
type Reader struct {
	Err *apierr.Error

	// Unknown are the members that were recorded by Lose.
	Unknown []string
}

// Lose records that a member of the object at path has no place in the neutral
// model. Values that say nothing are left out.
func (r *Reader) Lose(path, name string, v jsonedit.Value) {
	if saysNothing(v.Raw()) {
		return
	}
	path = withoutPlaces(path)
	if name = path + "." + name; slices.Contains(r.Unknown, name) {
		return
	}
	if len(r.Unknown) >= maxUnknown {
		if name = path + furtherMembers; slices.Contains(r.Unknown, name) {
			return
		}
	}
	r.Unknown = append(r.Unknown, name)
}

// LoseUnknown records the members of an object other than known.
func (r *Reader) LoseUnknown(path string, v jsonedit.Value, known ...string) {
	for key, m := range v.Fields() {
		if name := key.String(); !slices.Contains(known, name) {
			r.Lose(path, name, m)
		}
	}
}

// Refuse records an error about the element at path. Codes are those of [Invalid].
func (r *Reader) Refuse(path, code, format string, args ...any) {
	if r.Err == nil {
		r.Err = Invalid(path, code, format, args...)
	}
}

// RefuseMissing records that the element at path is required; what describes it, for example
// "an array of messages".
func (r *Reader) RefuseMissing(path, what string) {
	r.Refuse(path, CodeMissing, "is required: send %s", what)
}

// RefuseKind records that v is of another kind than want, for example "a string".
func (r *Reader) RefuseKind(path, want string, v jsonedit.Value) {
	r.Refuse(path, CodeType, "must be %s, not %s", want, grammar.Describe(v.Raw()))
}

// Is reports whether v is of a kind, which want describes. If not, it records an
// error.
func (r *Reader) Is(path string, v jsonedit.Value, kind jsonedit.Kind, want string) bool {
	if v.Kind() != kind {
		r.RefuseKind(path, want, v)
	}
	return v.Kind() == kind
}

// Text reads a string.
func (r *Reader) Text(path string, v jsonedit.Value) string {
	text, ok := v.Text()
	if !ok && !v.IsNull() {
		r.RefuseKind(path, "a string", v)
	}
	return text
}

// RequiredText reads a string that must not be null or absent.
func (r *Reader) RequiredText(path string, v jsonedit.Value) string {
	if v.IsNull() {
		r.RefuseMissing(path, "a string")
	}
	return r.Text(path, v)
}

// NonEmptyText reads a string that is required and must not be empty.
func (r *Reader) NonEmptyText(path string, v jsonedit.Value) string {
	text := r.Text(path, v)
	if text == "" {
		r.Refuse(path, CodeMissing, "is required and must not be empty")
	}
	return text
}

// Texts reads an array of strings.
func (r *Reader) Texts(path string, v jsonedit.Value) (list []string) {
	for path, e := range r.Elements(path, v) {
		list = append(list, r.Text(path, e))
	}
	return list
}

// Base64 reads data at path with [ParseBase64].
func (r *Reader) Base64(path, data string) string {
	data, err := ParseBase64(path, data)
	if err != nil && r.Err == nil {
		r.Err = err
	}
	return data
}

// Bool reads true or false; nil for any other value.
func (r *Reader) Bool(path string, v jsonedit.Value) *bool {
	is, ok := v.Bool()
	if !ok {
		r.unlessNull(path, "true or false", v)
		return nil
	}
	return &is
}

// Flag reads true or false.
func (r *Reader) Flag(path string, v jsonedit.Value) bool {
	is := r.Bool(path, v)
	return is != nil && *is
}

// Int reads an integer; nil for any other value.
func (r *Reader) Int(path string, v jsonedit.Value) *int64 {
	n, ok := v.Int()
	if !ok {
		r.unlessNull(path, "an integer", v)
		return nil
	}
	return &n
}

// Float reads a number; nil for any other value.
func (r *Reader) Float(path string, v jsonedit.Value) *float64 {
	f, ok := v.Float()
	if !ok {
		r.unlessNull(path, "a number", v)
		return nil
	}
	return &f
}

func (r *Reader) unlessNull(path, want string, v jsonedit.Value) {
	if !v.IsNull() {
		r.RefuseKind(path, want, v)
	}
}

// Elements yields the elements of an array with their paths.
func (r *Reader) Elements(path string, v jsonedit.Value) iter.Seq2[string, jsonedit.Value] {
	if v.Kind() != jsonedit.Array {
		r.unlessNull(path, "an array", v)
	}
	return func(yield func(string, jsonedit.Value) bool) {
		i := 0
		for e := range v.Elements() {
			if !yield(At(path, i), e) {
				return
			}
			i++
		}
	}
}

// At returns the path of an element of the array at path.
func At(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
