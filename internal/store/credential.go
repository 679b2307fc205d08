package store

import (
	"encoding/json"
	"fmt"
	"maps"

	"modelgate/internal/secret"
)

// IntegrationSettings is what of an integration's settings is no secret.
type IntegrationSettings struct {
	// CustomHost is the base address instead of the provider's own.
	CustomHost string `json:"custom_host,omitempty"`

	// Options are settings of the row, by the names that the row has for them.
	Options map[string]string `json:"options,omitempty"`

	// Deployments are models that the provider serves under names of its own.
	Deployments []Deployment `json:"deployments,omitempty"`

	// Reserved says that capacity is paid for already, so that requests cost nothing.
	Reserved bool `json:"reserved,omitempty"`

	// Masks are of the secrets, for people to recognise them by.
	Masks Masks `json:"masks,omitzero"`
}

// Deployment is a model under its provider's own name.
type Deployment struct {
	Alias      string `json:"alias,omitempty"` // what requests may call it
	Name       string `json:"name"`            // the row's deployment_id
	APIVersion string `json:"api_version,omitempty"`
	Model      string `json:"model,omitempty"` // the row's model_name; requests may call it so too
	Default    bool   `json:"default,omitempty"`
}

// Masks are what of secrets may be shown, in the shape of [Secrets].
type Masks struct {
	Key     string            `json:"key,omitempty"`
	Options map[string]string `json:"options,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// Secrets are what is sealed of an integration or of a model of one.
type Secrets struct {
	Key     secret.String
	Options map[string]secret.String // settings of the row, by the row's names
	Headers map[string]secret.String // sent with each request: custom_headers
}

// plainSecrets is how secrets are written before they are sealed.
type plainSecrets struct {
	Key     string            `json:"key,omitempty"`
	Options map[string]string `json:"options,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// Empty reports whether there is nothing to seal.
func (s Secrets) Empty() bool { return s.Key.Empty() && len(s.Options) == 0 && len(s.Headers) == 0 }

// Text returns the secrets as the one text that is sealed: JSON.
func (s Secrets) Text() secret.String {
	return secret.New(text(plainSecrets{s.Key.Reveal(), each(s.Options, secret.String.Reveal), each(s.Headers, secret.String.Reveal)}))
}

// ParseSecrets reads what [Secrets.Text] returned, once it is opened. The empty
// text has no secrets.
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

// TargetOptions returns the options of a target: those of c, the secret ones of
// s, and those of the deployment that serves model, which is the default one for
// the empty model. The map is the caller's.
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

// Deployment returns the deployment that a request means by its model: by the
// alias, by the model behind it, else the default one, which is the first where
// none is marked. It is false where there are none.
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

// withTags returns a page of the entries that have all of want, and how many do.
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
