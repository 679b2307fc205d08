package credentials

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"modelgate/internal/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
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

// ParseTags reads the tags that a query asks for: a JSON object of texts.
func ParseTags(query string) (t Tags, err error) {
	if query != "" && json.Unmarshal([]byte(query), &t) != nil {
		return nil, route.Invalid("tags", "is a JSON object of texts")
	}
	return t, nil
}

// Mapping fills a field with what a secret reference refers to.
type Mapping struct {
	Target    string `json:"target_field" pattern:"^(key|(configurations|model_config)\\.[A-Za-z0-9_.-]{1,128})$" maxLength:"160" doc:"key, or configurations. and the name of a setting"`
	Reference string `json:"secret_reference_id" minLength:"1" maxLength:"255" doc:"Id or slug"`
	Key       string `json:"secret_key,omitempty" maxLength:"255" doc:"Which value of a secret that has several"`
	Format    string `json:"value_format,omitempty" enum:"string,json"`
}

// Mappings returns mappings as they are stored, with the ids of the references.
func Mappings(ctx context.Context, q store.Queries, organisation string, list []Mapping) (json.RawMessage, error) {
	seen := make(map[string]bool)
	out := make([]Mapping, 0, len(list))
	for _, m := range list {
		if seen[m.Target] {
			return nil, route.Invalid("secret_mappings", "has the target %q twice", m.Target)
		}
		seen[m.Target] = true
		id, err := q.SecretReferenceID(ctx, organisation, m.Reference)
		if Absent(err) {
			return nil, route.Missing("secret_mappings", "secret reference", m.Reference)
		}
		if err != nil {
			return nil, err
		}
		m.Reference = id
		out = append(out, m)
	}
	return json.Marshal(out)
}

// Absent reports whether err says that something is not there.
func Absent(err error) bool {
	e, ok := errors.AsType[*apierr.Error](err)
	return ok && e.Kind == apierr.NotFound
}
