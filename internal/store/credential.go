package store

import (
	"encoding/json"
	"fmt"
	"maps"

	"modelgate/internal/base/secret"
)

// IntegrationSettings are the settings of an integration that are not secret.
type IntegrationSettings struct {
	// CustomHost is the base address that replaces the provider's own.
	CustomHost string `json:"custom_host,omitempty"`

	// Options are settings by the provider definition's names.
	Options map[string]string `json:"options,omitempty"`

	// Deployments are models that the provider serves under the customer's names.
	Deployments []Deployment `json:"deployments,omitempty"`

	// Reserved means that capacity is already paid for, so requests cost nothing.
	Reserved bool `json:"reserved,omitempty"`

	// Masks are the masks of the secrets, by which users recognise them.
	Masks Masks `json:"masks,omitzero"`
}

// Deployment is a model served under a customer's name.
type Deployment struct {
	Alias      string `json:"alias,omitempty"` // name in requests
	Name       string `json:"name"`            // value of the option deployment_id
	APIVersion string `json:"api_version,omitempty"`
	Model      string `json:"model,omitempty"` // value of the option model_name; also accepted in requests
	Default    bool   `json:"default,omitempty"`
}

// Masks are the masks of [Secrets], in the same structure.
type Masks struct {
	Key     string            `json:"key,omitempty"`
	Options map[string]string `json:"options,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// Secrets are the secrets of an integration or of a model of it.
type Secrets struct {
	Key     secret.String
	Options map[string]secret.String // settings by the provider definition's names
	Headers map[string]secret.String // custom_headers, sent with each request
}

// plainSecrets is the JSON form of secrets before sealing.
type plainSecrets struct {
	Key     string            `json:"key,omitempty"`
	Options map[string]string `json:"options,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// Empty reports whether there are no secrets.
func (s Secrets) Empty() bool { return s.Key.Empty() && len(s.Options) == 0 && len(s.Headers) == 0 }

// Text returns the secrets as JSON, the form that is sealed.
func (s Secrets) Text() secret.String {
	return secret.New(text(plainSecrets{s.Key.Reveal(), each(s.Options, secret.String.Reveal), each(s.Headers, secret.String.Reveal)}))
}

// ParseSecrets decodes the opened output of [Secrets.Text]. An empty string means
// none.
func ParseSecrets(opened secret.String) (Secrets, error) {
	var p plainSecrets
	if opened.Empty() {
		return Secrets{}, nil
	}
	if json.Unmarshal([]byte(opened.Reveal()), &p) != nil { // the error would quote it
		return Secrets{}, fmt.Errorf("reading opened secrets: not JSON")
	}
	return Secrets{secret.New(p.Key), each(p.Options, secret.New), each(p.Headers, secret.New)}, nil
}

func each[A, B any](m map[string]A, f func(A) B) map[string]B {
	if m == nil {
		return nil
	}
	out := make(map[string]B, len(m))
	for name, v := range m {
		out[name] = f(v)
	}
	return out
}

// TargetOptions returns the options of a target: the settings c, the secret options of
// s, and the options of the deployment that serves model, or of the default deployment
// if model is empty. The caller may modify the map.
func (c IntegrationSettings) TargetOptions(s Secrets, model string) map[string]string {
	out := maps.Clone(c.Options)
	if out == nil {
		out = make(map[string]string)
	}
	maps.Copy(out, each(s.Options, secret.String.Reveal))
	d, ok := c.Deployment(model)
	for name, v := range map[string]string{"deployment_id": d.Name, "api_version": d.APIVersion, "model_name": d.Model} {
		if ok && v != "" {
			out[name] = v
		}
	}
	return out
}

// Deployment returns the deployment for a requested model: by alias, by the model
// behind it, otherwise the default one, which is the first if none is marked. It
// reports false if there are no deployments.
func (c IntegrationSettings) Deployment(model string) (Deployment, bool) {
	for _, means := range []func(Deployment) bool{
		func(d Deployment) bool { return model != "" && d.Alias == model },
		func(d Deployment) bool { return model != "" && d.Model == model },
		func(d Deployment) bool { return d.Default },
		func(Deployment) bool { return true },
	} {
		for _, d := range c.Deployments {
			if means(d) {
				return d, true
			}
		}
	}
	return Deployment{}, false
}

// withTags returns a page of the elements that have all tags of want, and the number of
// all such elements.
func withTags[T any](list []T, tags func(T) map[string]string, want map[string]string, p Page) (page []T, total int) {
	page = []T{}
	from := p.Number * p.Size
	for _, v := range list {
		if !hasTags(tags(v), want) {
			continue
		}
		if p.Size <= 0 || total >= from && total < from+p.Size {
			page = append(page, v)
		}
		total++
	}
	return page, total
}

func hasTags(have, want map[string]string) bool {
	for name, v := range want {
		if got, ok := have[name]; !ok || got != v {
			return false
		}
	}
	return true
}
