package dataplane

import (
	"errors"
	"fmt"
	"net/textproto"
	"strings"

	"modelgate/internal/format/jsonedit"
)

// Headers are the headers of an [ExplainRequest] by their canonical names. In
// JSON each is a string, or an array of strings for a header that is sent more
// than once.
type Headers map[string][]string

// UnmarshalJSON reads an object. Members with the same name are added up, like
// lines of a request.
func (h *Headers) UnmarshalJSON(b []byte) error {
	v, err := jsonedit.ParseValue(b)
	if err != nil {
		return err
	}
	if v.Kind() != jsonedit.Object && !v.IsNull() {
		return errors.New("headers must be an object of strings")
	}
	*h = make(Headers)
	for key, value := range v.Fields() {
		name := textproto.CanonicalMIMEHeaderKey(key.String())
		if err := h.add(name, value); err != nil {
			return err
		}
		for element := range value.Elements() {
			if err := h.add(name, element); err != nil {
				return err
			}
		}
	}
	return nil
}

// add adds a string as another line. An array adds nothing.
func (h *Headers) add(name string, value jsonedit.Value) error {
	if value.Kind() == jsonedit.Array {
		return nil
	}
	text, ok := value.Text()
	if !ok || name == "" || strings.ContainsAny(name, " :\r\n\x00") || strings.ContainsAny(text, "\r\n\x00") {
		return fmt.Errorf("headers: %.60q must be a header name with a string or an array of strings", name)
	}
	(*h)[name] = append((*h)[name], strings.TrimSpace(text))
	return nil
}
