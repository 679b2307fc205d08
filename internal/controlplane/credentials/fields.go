package credentials

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/provider"
	"modelgate/internal/store"
)

// Names of settings that provider definitions do not list.
const (
	customHost    = "custom_host"
	customHeaders = "custom_headers"
	deployments   = "deployment_config"
	reserved      = "skip_ptu_cost_attribution"
)

// secretOption matches the names of options that are credentials.
var secretOption = regexp.MustCompile(`^(access_key_id|ad_token|service_account_json)$|secret|private_key|passphrase|password|session_token`)

// Hidden reports whether an option is a credential.
func Hidden(option string) bool { return secretOption.MatchString(option) }

// IsDocument reports whether an option holds a document, such as a private key.
func IsDocument(option string) bool { return longOption.MatchString(option) }

// longOption matches the names of options that hold documents.
var longOption = regexp.MustCompile(`^(service_account_json|private_key)$`)

// reader reads the settings of one request.
type reader struct {
	spec   *provider.Spec
	path   string
	merge  bool // keep what is not given
	was    store.IntegrationSettings
	before store.Secrets

	out  Settings
	kept string // path of a stored secret that is still in out; empty for none
	seen []string
}

func (r *reader) read(fields Fields) error {
	if len(fields) > 64 {
		return route.Invalid(strings.TrimSuffix(r.path, "."), "has more than 64 fields")
	}
	for _, given := range slices.Sorted(maps.Keys(fields)) {
		name, ok := r.option(given)
		if !ok {
			return route.Invalid(r.path+clip(given), "is not a setting of provider %q", r.spec.ID)
		}
		if slices.Contains(r.seen, name) {
			return route.Invalid(r.path+clip(given), "is set twice")
		}
		r.seen = append(r.seen, name)
		if isNull(fields[given]) {
			continue
		}
		if err := r.field(r.path+given, name, fields[given]); err != nil {
			return err
		}
	}
	if r.merge {
		r.fill()
	}
	return nil
}

// fill copies the values that are not given from before.
func (r *reader) fill() {
	given := func(name string) bool { return slices.Contains(r.seen, name) }
	out, was := &r.out.Configuration, &r.was
	for name, v := range was.Options {
		if !given(name) {
			set(&out.Options, name, v)
		}
	}
	for name, v := range r.before.Options {
		if !given(name) {
			set(&r.out.Secrets.Options, name, v)
			r.kept = r.path + name
		}
	}
	if !given(customHost) {
		out.CustomHost = was.CustomHost
	}
	if !given(customHeaders) && len(r.before.Headers) > 0 {
		r.out.Secrets.Headers, r.kept = maps.Clone(r.before.Headers), r.path+customHeaders
	}
	if !given(deployments) {
		out.Deployments = was.Deployments
	}
	if !given(reserved) {
		out.Reserved = was.Reserved
	}
}

// clip bounds the length of a name repeated in an error.
func clip(name string) string { return fmt.Sprintf("%.64s", name) }

// option returns the definition's name of a setting, which may be given with the prefix
// used in config objects and in camel case.
func (r *reader) option(given string) (string, bool) {
	o, ok := r.spec.FindOption(given)
	switch name := o.Name; name {
	case customHost, customHeaders:
		return name, true
	case deployments:
		return name, r.spec.Deployments
	case reserved:
		return name, r.spec.ReservedCapacity
	}
	return o.Name, ok
}

func (r *reader) field(path, name string, raw json.RawMessage) error {
	switch name {
	case customHeaders:
		return r.readHeaders(path, raw)
	case deployments:
		return r.readDeployments(path, raw)
	case reserved:
		if json.Unmarshal(raw, &r.out.Configuration.Reserved) != nil {
			return route.Invalid(path, "must be true or false")
		}
		return nil
	}
	v, err := r.value(path, name, raw)
	if err != nil || v == "" {
		return err
	}
	switch {
	case name == customHost:
		r.out.Configuration.CustomHost = v
	case secretOption.MatchString(name):
		return r.secret(path, v, name, r.before.Options, &r.out.Secrets.Options)
	default:
		return r.plain(path, name, v)
	}
	return nil
}

// value reads a string. A service account may also be an object.
func (r *reader) value(path, name string, raw json.RawMessage) (string, error) {
	var v string
	long := longOption.MatchString(name)
	if json.Unmarshal(raw, &v) != nil {
		var object map[string]any
		if name != "service_account_json" || json.Unmarshal(raw, &object) != nil {
			return "", route.Invalid(path, "must be a string")
		}
		v = string(raw)
	}
	most := maxValue
	if long {
		most = maxLongValue
	}
	if v = strings.TrimSpace(v); len(v) > most {
		return "", route.Invalid(path, "is longer than %d bytes", most)
	}
	if !long && strings.ContainsFunc(v, unicode.IsControl) {
		return "", route.Invalid(path, "has a control character")
	}
	return v, nil
}

func (r *reader) plain(path, name, v string) error {
	if name == "api_version" && len(v) > 30 {
		return route.Invalid(path, "is longer than 30 bytes")
	}
	if o := optionOf(r.spec, name); o.Values != nil {
		if !slices.Contains(o.Values, v) {
			return route.Invalid(path, "must be one of %s", strings.Join(o.Values, ", "))
		}
		v = o.Meaning(v)
	}
	set(&r.out.Configuration.Options, name, v)
	return nil
}

// optionOf returns the option with the given name, the zero value if the definition has
// none.
func optionOf(spec *provider.Spec, name string) provider.Option {
	for _, o := range spec.Options {
		if o.Name == name {
			return o
		}
	}
	return provider.Option{}
}

// secret adds a secret to out by its name: the stored one if v is its mask, otherwise
// v. Header names are compared case-insensitively.
func (r *reader) secret(path, v, name string, before map[string]secret.String, out *map[string]secret.String) error {
	stored, mask := secret.String{}, ""
	for n, s := range before {
		if strings.EqualFold(n, name) {
			stored, mask = s, store.Mask(s)
		}
	}
	kept, err := store.KeepsSecret(v, mask)
	if err != nil {
		return route.Invalid(path, "%v", err)
	}
	if !kept {
		stored = secret.New(v)
	} else {
		r.kept = path
	}
	set(out, name, stored)
	return nil
}

const maxHeaders = 32

func (r *reader) readHeaders(path string, raw json.RawMessage) error {
	var given map[string]string
	if json.Unmarshal(raw, &given) != nil {
		return route.Invalid(path, "must be an object with string values")
	}
	if len(given) > maxHeaders {
		return route.Invalid(path, "has more than %d headers", maxHeaders)
	}
	seen := make(map[string]bool)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if err := CheckHeader(path, name, given[name]); err != nil {
			return err
		}
		if seen[strings.ToLower(name)] {
			return route.Invalid(path, "contains the header %q more than once", name)
		}
		seen[strings.ToLower(name)] = true
		if err := r.secret(path+"."+name, given[name], name, r.before.Headers, &r.out.Secrets.Headers); err != nil {
			return err
		}
	}
	return nil
}

func set[V any](m *map[string]V, name string, v V) {
	if *m == nil {
		*m = make(map[string]V)
	}
	(*m)[name] = v
}
