package route

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"modelgate/internal/format/jsonedit"
)

// checkDuplicates returns an error for an object of the body with two members of one
// name, on whose value its readers would not agree, and for a body that is too deep to be
// searched. Decoding reports text that is not JSON.
func checkDuplicates(body []byte) error {
	at, problem := findDuplicate(jsonedit.NewCursor(body), 0)
	if problem == "" {
		return nil
	}
	return Invalid(strings.ToValidUTF8(fmt.Sprintf("%.200s", strings.TrimPrefix(at, ".")), "?"), problem)
}

// findDuplicate reads the next value and returns what is wrong with it, and where. The
// path is made on the way back: it may be as long as the body.
func findDuplicate(c *jsonedit.Cursor, depth int) (at, problem string) {
	if depth > jsonedit.MaxDepth {
		return "", fmt.Sprintf("is nested more than %d levels deep", jsonedit.MaxDepth)
	}
	switch {
	case c.Enter('['):
		for i := 0; c.Element(); i++ {
			if at, problem := findDuplicate(c, depth+1); problem != "" {
				return fmt.Sprintf("[%d]%s", i, at), problem
			}
		}
	case c.Enter('{'):
		seen := make(map[string]bool)
		for raw, ok := c.Field(); ok; raw, ok = c.Field() {
			name := string(jsonedit.Unescape(raw))
			if seen[name] {
				return "." + name, "is duplicated; send it once"
			}
			seen[name] = true
			if at, problem := findDuplicate(c, depth+1); problem != "" {
				return "." + name + at, problem
			}
		}
	default:
		c.Skip()
	}
	return "", ""
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
