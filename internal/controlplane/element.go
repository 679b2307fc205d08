package controlplane

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"modelgate/internal/base/apierr"
	"modelgate/internal/format/grammar"
	"modelgate/internal/format/jsonedit"
)

// oneOrMany is the body of a route that accepts a T or an array of them. It is decoded
// element by element so that errors name the element.
type oneOrMany[T any] struct{ raw json.RawMessage }

// UnmarshalJSON implements json.Unmarshaler.
func (o *oneOrMany[T]) UnmarshalJSON(b []byte) error { o.raw = bytes.Clone(b); return nil }

// Schema implements huma.SchemaProvider.
func (oneOrMany[T]) Schema(r huma.Registry) *huma.Schema {
	one := r.Schema(reflect.TypeFor[T](), true, "")
	return &huma.Schema{OneOf: []*huma.Schema{one, {Type: huma.TypeArray, Items: one}}}
}

// elements returns the elements of the body. In errors an element is named by its
// index, a single one has no name.
func (o *oneOrMany[T]) elements(most int) ([]jsonElement, error) {
	if first(o.raw) != '[' {
		return []jsonElement{{raw: o.raw}}, nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(o.raw, &list); err != nil {
		return nil, jsonElement{}.bad("is not a JSON array: %v", err)
	}
	if len(list) == 0 || len(list) > most {
		return nil, jsonElement{}.bad("has %d elements; 1 to %d are allowed", len(list), most)
	}
	out := make([]jsonElement, len(list))
	for i := range list {
		out[i] = jsonElement{fmt.Sprintf("[%d]", i), list[i]}
	}
	return out, nil
}

// jsonElement is a JSON value with its path in the request.
type jsonElement struct {
	at  string
	raw json.RawMessage
}

func first(raw json.RawMessage) byte {
	if raw = bytes.TrimLeft(raw, " \t\r\n"); len(raw) > 0 {
		return raw[0]
	}
	return 0
}

// bad returns an error that names the element.
func (e jsonElement) bad(format string, args ...any) error {
	at := cmp.Or(e.at, "body")
	return apierr.New(apierr.Invalid, "%s "+format, append([]any{at}, args...)...).WithParam(at)
}

// there reports whether the element is present and not null.
func (e jsonElement) there() bool { return len(e.raw) > 0 && first(e.raw) != 'n' }

// members returns the fields of an object by name. If known is empty, every name is
// allowed.
func (e jsonElement) members(known ...string) (map[string]jsonElement, error) {
	if first(e.raw) != '{' {
		return nil, e.bad("must be a JSON object")
	}
	var doc jsonedit.Doc
	if err := doc.Scan(e.raw); err != nil {
		if d, ok := errors.AsType[*jsonedit.DuplicateKeyError](err); ok {
			return nil, e.member(d.Key, nil).bad("is duplicated")
		}
		return nil, e.bad("is invalid: %v", err)
	}
	out := make(map[string]jsonElement, doc.Len()+len(known))
	for key, value := range doc.Members() {
		name := key.String()
		out[name] = e.member(name, value.Raw())
		if known != nil && !slices.Contains(known, name) {
			return nil, out[name].bad("is unknown; known fields are %s", strings.Join(known, ", "))
		}
	}
	for _, name := range known {
		if _, ok := out[name]; !ok {
			out[name] = e.member(name, nil)
		}
	}
	return out, nil
}

// member returns the field of e called name. A long or unprintable name is shortened
// for errors.
func (e jsonElement) member(name string, raw json.RawMessage) jsonElement {
	name = strings.ToValidUTF8(fmt.Sprintf("%.60s", name), "")
	if name == "" {
		name = `""`
	}
	if e.at != "" {
		name = e.at + "." + name
	}
	return jsonElement{name, raw}
}

// check returns an error for a value that breaks the rule.
func (e jsonElement) check(rule grammar.Rule) error {
	if f := rule.Check(jsonedit.NewCursor(e.raw)); f != nil {
		return e.bad("must be %s", f.Want)
	}
	return nil
}

// text reads a string of at most most characters; an absent one is empty.
func (e jsonElement) text(most int) (s string, err error) {
	if !e.there() {
		return "", nil
	}
	if err := e.check(grammar.Text{Chars: most}); err != nil {
		return "", err
	}
	return s, json.Unmarshal(e.raw, &s)
}

// word reads a string of visible ASCII characters, the only ones allowed in header
// values with ids.
func (e jsonElement) word() (string, error) {
	s, err := e.text(maxWord)
	if err == nil && strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "", e.bad("must contain only visible ASCII characters")
	}
	return s, err
}

// maxWord is the greatest length of a trace or span id, the same as in headers.
const maxWord = 256

// number reads a number from low to high inclusive; an absent one is other.
func (e jsonElement) number(low, high, other float64) (n float64, err error) {
	if !e.there() {
		return other, nil
	}
	if err := e.check(grammar.Number{Min: low, Max: high}); err != nil {
		return 0, err
	}
	return n, json.Unmarshal(e.raw, &n)
}

// integer reads an integer from low to high inclusive; an absent one is other.
func (e jsonElement) integer(low, high, other int) (int, error) {
	n, err := e.number(float64(low), float64(high), float64(other))
	if err == nil && n != float64(int(n)) {
		return 0, e.bad("must be an integer from %d to %d", low, high)
	}
	return int(n), err
}
