package route

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// checkDuplicates returns an error for an object of the body with two members of one
// name: its readers would not agree on the value.
func checkDuplicates(body []byte) error {
	var w duplicates
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			return nil // the end, or decoding reports the error later
		}
		if w.add(token) {
			return Invalid(w.path(), "is duplicated; send it once")
		}
	}
}

// duplicates finds members of one name in a sequence of tokens. The zero value is ready
// to use.
type duplicates struct{ open []container }

// container is an object or an array that has begun.
type container struct {
	names map[string]bool // nil for an array
	name  string          // of the current member
	value bool            // the next token is the value of name
	index int             // of the current element
}

// add reports whether token is the name of a member for the second time in its object.
func (w *duplicates) add(token json.Token) bool {
	if token == json.Delim('}') || token == json.Delim(']') {
		w.open = w.open[:len(w.open)-1]
		w.endValue()
		return false
	}
	if top := w.top(); top != nil && top.names != nil && !top.value {
		name := token.(string)
		twice := top.names[name]
		top.names[name], top.name, top.value = true, name, true
		return twice
	}
	switch token {
	case json.Delim('{'):
		w.open = append(w.open, container{names: make(map[string]bool)})
	case json.Delim('['):
		w.open = append(w.open, container{})
	default:
		w.endValue()
	}
	return false
}

func (w *duplicates) top() *container {
	if len(w.open) == 0 {
		return nil
	}
	return &w.open[len(w.open)-1]
}

func (w *duplicates) endValue() {
	if top := w.top(); top != nil {
		top.value = false
		top.index++
	}
}

// path returns the path of the current member.
func (w *duplicates) path() string {
	var b strings.Builder
	for _, c := range w.open {
		if c.names == nil {
			fmt.Fprintf(&b, "[%d]", c.index)
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(c.name)
	}
	return b.String()
}

// checkNulls returns an error for a member of an update that is null and in fields, the
// fields that null would leave unchanged.
func checkNulls(body []byte, fields []string) error {
	if len(fields) == 0 || !bytes.Contains(body, []byte("null")) {
		return nil
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return nil // decoding reports the error later
	}
	for _, field := range fields {
		if string(members[field]) == "null" {
			return Invalid(field, "must not be null; leave it out to keep its value")
		}
	}
	return nil
}

// keptByNull returns the names of the fields in the body of an input that null leaves
// unchanged: those that decode null like an absent field. A field that says nullable
// accepts it.
func keptByNull(input reflect.Type) []string {
	body, ok := input.FieldByName("Body")
	if !ok || body.Type.Kind() != reflect.Struct {
		return nil
	}
	var names []string
	for _, f := range reflect.VisibleFields(body.Type) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || !f.IsExported() || name == "" || name == "-" || f.Tag.Get("nullable") == "true" || readsNull(f.Type) {
			continue
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// readsNull reports whether a field of the type t tells null from an absent field.
func readsNull(t reflect.Type) bool {
	return t == reflect.TypeFor[json.RawMessage]() || t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(unmarshaler)
}
