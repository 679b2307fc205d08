package credentials

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/provider"
	"modelgate/internal/store"
)

// ApplyModel sets the address and headers of a model of an integration. Path is their
// name in the request.
func (k *Manager) ApplyModel(ctx context.Context, organisation, path string, m *store.IntegrationModel, raw json.RawMessage) error {
	var in modelFields
	if !isNull(raw) && decodeStrictly(raw, &in) != nil {
		return route.Invalid(path, "may contain only custom_host (string) and custom_headers (object of strings)")
	}
	before, err := k.open(ctx, organisation, m.Sealed)
	if err != nil {
		return err
	}
	r := reader{path: path + ".", was: m.Configuration, before: before}
	headers, err := json.Marshal(in.CustomHeaders)
	if err != nil {
		return err
	}
	if err := r.readHeaders(path+"."+customHeaders, headers); err != nil {
		return err
	}
	next := r.out
	if in.CustomHost != "" {
		u, err := k.checkHost(in.CustomHost)
		if err != nil {
			return route.Invalid(path+"."+customHost, "names an address that is not allowed: %v", err)
		}
		next.Configuration.CustomHost = u.String()
	}
	if r.kept != "" && next.Configuration.CustomHost != m.Configuration.CustomHost {
		return route.Invalid(r.kept, "must be set again; stored headers are not sent to a new address")
	}
	next.Configuration.Masks = masksOf(next.Secrets)
	m.Configuration = next.Configuration
	m.Sealed, err = k.seal(ctx, organisation, next.Secrets)
	return err
}

// Naming returns the name of a setting in a response.
type Naming func(spec *provider.Spec, name string) string

// Wire returns the names used in config objects, with the prefix of the definition's
// options.
func Wire(spec *provider.Spec, name string) string { return wireName(spec, name) }

// Camel returns the names that virtual keys used: camel case without a prefix.
func Camel(_ *provider.Spec, name string) string {
	parts := strings.Split(name, "_")
	for i := 1; i < len(parts); i++ {
		if parts[i] != "" {
			parts[i] = strings.ToUpper(parts[i][:1]) + parts[i][1:]
		}
	}
	return strings.Join(parts, "")
}

func wireName(spec *provider.Spec, name string) string {
	if name == customHost || name == customHeaders || strings.HasPrefix(name, "amzn_") {
		return name
	}
	return spec.OptionPrefix + name
}

// ResponseFields returns the settings for a response. Secrets are masks; sending a mask
// back leaves the secret unchanged.
func ResponseFields(providerID string, c store.IntegrationSettings, named Naming) map[string]any {
	out := make(map[string]any)
	spec, err := Row("", providerID, nil)
	if err != nil {
		spec = new(provider.Spec)
	}
	for name, v := range c.Options {
		o := optionOf(spec, name)
		if i := slices.IndexFunc(o.Values, func(word string) bool { return o.Meaning(word) == v }); i >= 0 {
			v = o.Values[i]
		}
		out[named(spec, name)] = v
	}
	for name, mask := range c.Masks.Options {
		out[named(spec, name)] = mask
	}
	if c.CustomHost != "" {
		out[named(spec, customHost)] = c.CustomHost
	}
	if len(c.Masks.Headers) > 0 {
		out[named(spec, customHeaders)] = c.Masks.Headers
	}
	if c.Reserved {
		out["skipPtuCostAttribution"] = true
	}
	if len(c.Deployments) > 0 {
		out[named(spec, deployments)] = shownDeployments(spec, c.Deployments, named)
	}
	return out
}

func shownDeployments(spec *provider.Spec, list []store.Deployment, named Naming) []map[string]any {
	out := make([]map[string]any, len(list))
	for i, d := range list {
		out[i] = map[string]any{named(spec, "deployment_name"): d.Name, "is_default": d.Default}
		for name, v := range map[string]string{"alias": d.Alias, named(spec, "api_version"): d.APIVersion, named(spec, "model_slug"): d.Model} {
			if v != "" {
				out[i][name] = v
			}
		}
	}
	return out
}
