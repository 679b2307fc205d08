package chat

import (
	"encoding/json"
	"iter"
	"strconv"

	"modelgate/internal/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/grammar"
	"modelgate/internal/jsonedit"
	"modelgate/internal/llm"
)

// reader reads values of the expected kinds. It keeps the first error and
// returns zero values for values of another kind.
type reader struct{ err *apierr.Error }

func (d *reader) refuse(err *apierr.Error) {
	if d.err == nil {
		d.err = err
	}
}

func (d *reader) wrong(path, want string, v jsonedit.Value) {
	d.refuse(dialect.Invalid(path, dialect.CodeType, "must be %s, not %s", want, grammar.Describe(v.Raw())))
}

func (d *reader) text(path string, v jsonedit.Value) string {
	text, ok := v.Text()
	if !ok && !v.IsNull() {
		d.wrong(path, "a string", v)
	}
	return text
}

// nonEmptyText reads a string that must not be empty.
func (d *reader) nonEmptyText(path string, v jsonedit.Value) string {
	text := d.text(path, v)
	if text == "" {
		d.refuse(dialect.Invalid(path, dialect.CodeMissing, "is required and must not be empty"))
	}
	return text
}

// texts reads a string or an array of strings.
func (d *reader) texts(path string, v jsonedit.Value) []string {
	switch v.Kind() {
	case jsonedit.String:
		return []string{d.text(path, v)}
	case jsonedit.Array:
		list := []string{}
		for e := range v.Elements() {
			list = append(list, d.text(at(path, len(list)), e))
		}
		return list
	}
	d.wrong(path, "a string or an array of strings", v)
	return nil
}

func (d *reader) flag(path string, v jsonedit.Value) bool {
	b, ok := v.Bool()
	if !ok {
		d.wrong(path, "true or false", v)
	}
	return b
}

func (d *reader) integer(path string, v jsonedit.Value) int64 {
	n, ok := v.Int()
	if !ok {
		d.wrong(path, "an integer", v)
	}
	return n
}

func (d *reader) number(path string, v jsonedit.Value) float64 {
	f, ok := v.Float()
	if !ok {
		d.wrong(path, "a number", v)
	}
	return f
}

func (d *reader) object(path string, v jsonedit.Value) json.RawMessage {
	if v.Kind() != jsonedit.Object {
		d.wrong(path, "an object", v)
		return nil
	}
	return v.Raw()
}

// fields yields the members of an object.
func (d *reader) fields(path string, v jsonedit.Value) iter.Seq2[jsonedit.Key, jsonedit.Value] {
	d.object(path, v)
	return v.Fields()
}

// elements yields the elements of an array with their paths.
func (d *reader) elements(path string, v jsonedit.Value) iter.Seq2[string, jsonedit.Value] {
	if v.Kind() != jsonedit.Array {
		d.wrong(path, "an array", v)
	}
	return func(yield func(string, jsonedit.Value) bool) {
		i := 0
		for e := range v.Elements() {
			if !yield(at(path, i), e) {
				return
			}
			i++
		}
	}
}

func (d *reader) cache(path string, v jsonedit.Value) *llm.Cache {
	if v.IsNull() || d.object(path, v) == nil {
		return nil
	}
	ttl, _ := v.Get("ttl")
	return &llm.Cache{TTL: d.text(path+".ttl", ttl)}
}

func (d *reader) base64(path, data string) {
	if err := dialect.CheckBase64(path, data); err != nil {
		d.refuse(err)
	}
}

// at returns the path of an element.
func at(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
