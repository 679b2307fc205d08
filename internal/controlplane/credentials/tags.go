package credentials

import (
	"encoding/json"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"modelgate/internal/controlplane/route"
)

// Schema implements huma.SchemaProvider: an object with any fields.
func (Fields) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}
}

// Tags are labels of an object, used to find it.
type Tags map[string]string

// Schema implements huma.SchemaProvider.
func (Tags) Schema(r huma.Registry) *huma.Schema {
	most := 64
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: r.Schema(reflect.TypeFor[string](), true, ""), MaxProperties: &most}
}

// Check returns an error if a tag is invalid. Field is the name of the tags in the
// request.
func (t Tags) Check(field string) error {
	for name, v := range t {
		if name == "" || utf8.RuneCountInString(name) > 128 || strings.ContainsFunc(name, unicode.IsControl) {
			return route.Invalid(field, "has a name that is empty, longer than 128 characters or not plain text")
		}
		if utf8.RuneCountInString(v) > 255 || strings.ContainsFunc(v, unicode.IsControl) {
			return route.Invalid(field+"."+clip(name), "is longer than 255 characters or not plain text")
		}
	}
	return nil
}

// ParseTags parses the tags of a query, a JSON object with string values.
func ParseTags(query string) (t Tags, err error) {
	if query != "" && json.Unmarshal([]byte(query), &t) != nil {
		return nil, route.Invalid("tags", "must be a JSON object with string values")
	}
	return t, nil
}
