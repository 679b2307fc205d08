package bundle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"modelgate/config"
	"modelgate/internal/base/oserr"
	"modelgate/internal/settings"
)

// redactedSettings returns the structure of the settings file. Comments are left out.
func (o Options) redactedSettings(context.Context) ([]byte, error) {
	doc, err := parseSettings(o.Diagnosis.Server.Config)
	if err != nil || doc == nil {
		return []byte("# no settings file\n"), err
	}
	return yaml.Marshal(newRedactor().value("", doc))
}

// parseSettings returns the content of a settings file, with maps in their order.
func parseSettings(path string) (doc any, err error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, oserr.File(err)
	}
	if err := yaml.UnmarshalWithOptions(text, &doc, yaml.UseOrderedMap()); err != nil {
		return nil, errors.New("the settings file is not YAML; modelgate doctor says where") // the error would quote it
	}
	return doc, nil
}

// settingsAddresses returns the addresses in a settings file.
func settingsAddresses(path string) (list []string) {
	doc, _ := parseSettings(path)
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case yaml.MapSlice:
			for _, item := range v {
				walk(item.Value)
			}
		case []any:
			for _, item := range v {
				walk(item)
			}
		case string:
			if u, err := url.Parse(v); err == nil && u.Host != "" {
				list = append(list, v)
			}
		}
	}
	walk(doc)
	return list
}

// redactor keeps names of fields and values that the schemas know, and replaces the rest.
type redactor struct {
	fields map[string]bool // names of fields
	opaque map[string]bool // those whose content a schema does not know, such as headers
	values map[string]bool // values that a schema lists
}

func newRedactor() redactor {
	r := redactor{make(map[string]bool), make(map[string]bool), make(map[string]bool)}
	for _, schema := range [][]byte{settings.Schema(), config.Schema()} {
		var doc any
		if json.Unmarshal(schema, &doc) == nil {
			r.learn(doc)
		}
	}
	return r
}

// learn adds the fields and the listed values of a schema.
func (r redactor) learn(schema any) {
	switch v := schema.(type) {
	case []any:
		for _, item := range v {
			r.learn(item)
		}
	case map[string]any:
		if fields, ok := v["properties"].(map[string]any); ok {
			for name, field := range fields {
				r.fields[name] = true
				if name != "config" && isOpaque(field) { // a schema of its own
					r.opaque[name] = true
				}
			}
		}
		if values, ok := v["enum"].([]any); ok {
			for _, value := range values {
				if s, ok := value.(string); ok {
					r.values[s] = true
				}
			}
		}
		for _, item := range v {
			r.learn(item)
		}
	}
}

// isOpaque reports whether a schema accepts objects with any names.
func isOpaque(schema any) bool {
	m, ok := schema.(map[string]any)
	if !ok {
		return false
	}
	if list, ok := m["anyOf"].([]any); ok {
		return slices.ContainsFunc(list, isOpaque)
	}
	names, open := m["additionalProperties"]
	return open && names != false || len(m) == 0 || m["type"] == "object" && m["properties"] == nil
}

// Values that are kept.
var (
	reference = regexp.MustCompile(`^\$\{[A-Za-z_][A-Za-z0-9_]*\}$`)
	amount    = regexp.MustCompile(`^-?[0-9]{1,12}(\.[0-9]{1,6})? ?(ns|us|ms|s|m|h|d|B|KB|MB|GB|TB)?$`)
	plainName = regexp.MustCompile(`^@?[A-Za-z0-9][A-Za-z0-9._:*/-]{0,99}$`)
	address   = regexp.MustCompile(`^[a-z][a-z0-9+]*://\S+$`)
)

// namedFields are the fields whose values are names or hosts and not secrets.
var namedFields = func() map[string]bool {
	m := make(map[string]bool)
	for name := range strings.FieldsSeq(`slug provider integration workspace store model models region bucket server endpoint address
		trusted_hosts trusted_proxies certificate client_ca ca header_prefixes patterns providers scopes`) {
		m[name] = true
	}
	return m
}()

// value returns v without what may be secret. Field is the name of the nearest field.
func (r redactor) value(field string, v any) any {
	switch v := v.(type) {
	case yaml.MapSlice:
		out := make(yaml.MapSlice, len(v))
		for i, item := range v {
			key := fmt.Sprint(item.Key)
			switch {
			case !r.fields[key]:
				out[i] = yaml.MapItem{Key: fmt.Sprintf("[name %d]", i+1), Value: hidden(item.Value)}
			case r.opaque[key]:
				out[i] = yaml.MapItem{Key: key, Value: hidden(item.Value)}
			default:
				out[i] = yaml.MapItem{Key: key, Value: r.value(key, item.Value)}
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = r.value(field, item)
		}
		return out
	case string:
		return r.text(field, v)
	}
	return v
}

// hidden returns the structure of v alone. References to variables stay.
func hidden(v any) any {
	switch v := v.(type) {
	case yaml.MapSlice:
		out := make(yaml.MapSlice, len(v))
		for i, item := range v {
			out[i] = yaml.MapItem{Key: fmt.Sprintf("[name %d]", i+1), Value: hidden(item.Value)}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = hidden(item)
		}
		return out
	case string:
		if reference.MatchString(v) {
			return v
		}
		return fmt.Sprintf("[%d characters]", len(v))
	case bool, nil:
		return v
	}
	return "[number]"
}

func (r redactor) text(field, v string) string {
	switch {
	case reference.MatchString(v), amount.MatchString(v), r.values[v], namedFields[field] && plainName.MatchString(v):
		return v
	case address.MatchString(v):
		return bareAddress(v)
	}
	return fmt.Sprintf("[%d characters]", len(v))
}
