package credentials

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/provider"
	"modelgate/internal/store"
)

// Mapping fills a field with the value of a secret reference.
type Mapping struct {
	Target    string `json:"target_field" pattern:"^(key|(configurations|model_config)\\.[A-Za-z0-9_.-]{1,128})$" maxLength:"160" doc:"key, or configurations. and the name of a setting"`
	Reference string `json:"secret_reference_id" minLength:"1" maxLength:"255" doc:"Id or slug"`
	Key       string `json:"secret_key,omitempty" maxLength:"255" doc:"Key of a secret with several values; defaults to the key of the reference"`
	Format    string `json:"value_format,omitempty" enum:"string,json" doc:"json uses the value as JSON, unquoted"`
}

// SetMappings sets the mappings of i with the ids of their references, which must exist
// and be available to i's workspace if it has one. For an integration of the
// organisation this is checked where it is used.
func SetMappings(ctx context.Context, q store.Queries, i *store.Integration, list []Mapping) error {
	spec, err := Row("ai_provider_id", i.Provider, nil)
	if err != nil {
		return err
	}
	var seen []field
	out := make([]store.SecretMapping, 0, len(list))
	for n, m := range list {
		f, err := fieldOf(spec, fmt.Sprintf("secret_mappings[%d].target_field", n), m.Target)
		if err != nil {
			return err
		}
		if slices.Contains(seen, f) {
			return route.Invalid("secret_mappings", "contains the target %q more than once", m.Target)
		}
		seen = append(seen, f)
		s, err := q.SecretReference(ctx, i.Organisation, m.Reference)
		if apierr.IsNotFound(err) || err == nil && i.Workspace != "" && !s.Allows(i.Workspace) {
			return route.Missing("secret_mappings", "secret reference", m.Reference)
		}
		if err != nil {
			return err
		}
		out = append(out, store.SecretMapping{Target: m.Target, Reference: s.ID, Key: m.Key, Format: m.Format})
	}
	i.SecretMappings, err = json.Marshal(out)
	return err
}

// field is the destination of a mapping: the key, an option by the definition's name,
// or a header.
type field struct{ option, header string }

// fieldOf returns the field that a mapping's target names on the wire. Only credentials
// and headers can be targets; other settings are shown, or decide where requests are
// sent.
func fieldOf(spec *provider.Spec, path, target string) (field, error) {
	_, name, ok := strings.Cut(target, ".")
	if !ok {
		return field{}, nil
	}
	if header, ok := strings.CutPrefix(name, customHeaders+"."); ok {
		return field{header: strings.ToLower(header)}, CheckHeader(path, header, "")
	}
	r := reader{spec: spec}
	option, known := r.option(name)
	switch {
	case !known:
		return field{}, route.Invalid(path, "names no setting of the provider %q", spec.ID)
	case !Hidden(option): // it would be shown, as in /v1/explain, or decide where requests go
		return field{}, route.Invalid(path, "names a setting that is not a credential; write it into the configurations")
	}
	return field{option: option}, nil
}

// Fill sets the secret that target names to v. Its error does not contain the value.
func Fill(s *store.Secrets, id, target string, v secret.String) error {
	spec, err := Row("ai_provider_id", id, nil)
	if err != nil {
		return err
	}
	f, err := fieldOf(spec, "target_field", target)
	if err != nil {
		return err
	}
	text := strings.TrimSpace(v.Reveal())
	document := strings.HasPrefix(text, "{") || strings.HasPrefix(text, "-----BEGIN")
	most := maxLongValue
	switch {
	case f.header != "":
		most, document = maxHeader, false
		maps.DeleteFunc(s.Headers, func(other string, _ secret.String) bool { return strings.EqualFold(other, f.header) })
		set(&s.Headers, f.header, secret.New(text))
	case f.option != "":
		document = document && longOption.MatchString(f.option)
		set(&s.Options, f.option, secret.New(text))
	default:
		most, s.Key = maxKey, secret.New(text)
	}
	if len(text) > most || !document && strings.ContainsFunc(text, unicode.IsControl) {
		return apierr.New(apierr.Invalid, "the value for %s is longer than %d bytes or has a control character, such as the end of a line", target, most).
			WithCode("secret_malformed")
	}
	return nil
}
