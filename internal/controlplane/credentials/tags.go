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

// Schema implements huma.SchemaProvider: an object of anything.
func (Fields) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}
}

// Tags are words about an object, for finding it.
type Tags map[string]string

// Schema implements huma.SchemaProvider.
func (Tags) Schema(r huma.Registry) *huma.Schema {
	most := 64
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: r.Schema(reflect.TypeFor[string](), true, ""), MaxProperties: &most}
}

// Check reports what is wrong with tags. Field is what the request calls them.
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

// ParseTags reads the tags that a query asks for: a JSON object of strings.
func ParseTags(query string) (t Tags, err error) {
	if query != "" && json.Unmarshal([]byte(query), &t) != nil {
		return nil, route.Invalid("tags", "must be a JSON object with string values")
	}
	return t, nil
}
