package controlplane

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"modelgate/internal/apierr"
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
	var all map[string]json.RawMessage
	if first(e.raw) != '{' || json.Unmarshal(e.raw, &all) != nil {
		return nil, e.bad("must be a JSON object")
	}
	out := make(map[string]jsonElement, len(all)+len(known))
	for name, raw := range all {
		out[name] = e.member(name, raw)
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

// text reads a string of at most most characters; an absent one is empty.
func (e jsonElement) text(most int) (s string, err error) {
	if !e.there() {
		return "", nil
	}
	if json.Unmarshal(e.raw, &s) != nil {
		return "", e.bad("must be a string")
	}
	if utf8.RuneCountInString(s) > most {
		return "", e.bad("must be at most %d characters long", most)
	}
	return s, nil
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
	if json.Unmarshal(e.raw, &n) != nil || n < low || n > high {
		return 0, e.bad("must be a number from %v to %v", low, high)
	}
	return n, nil
}

// integer reads an integer from low to high inclusive; an absent one is other.
func (e jsonElement) integer(low, high, other int) (int, error) {
	n, err := e.number(float64(low), float64(high), float64(other))
	if err == nil && n != float64(int(n)) {
		return 0, e.bad("must be an integer from %d to %d", low, high)
	}
	return int(n), err
}
