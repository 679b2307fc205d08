package provider

import (
	"maps"
	"slices"
	"strings"
)

// WithOptions returns a copy of the target with the options of o that its provider has, in
// addition to its own. They must not change its address or credential.
func (t *Target) WithOptions(o map[string]string) *Target {
	other := *t
	other.Options = maps.Clone(t.Options)
	for name, value := range o {
		if !t.Takes(name) {
			continue
		}
		if other.Options == nil {
			other.Options = make(map[string]string, len(o))
		}
		short := strings.TrimPrefix(name, t.OptionPrefix)
		other.Options[name], other.Options[short] = value, value
	}
	return &other
}

// Takes reports whether the provider has an option of this name, with or
// without OptionPrefix.
func (s *Spec) Takes(name string) bool {
	short := strings.TrimPrefix(name, s.OptionPrefix)
	return slices.ContainsFunc(s.Options, func(o Option) bool { return o.Name == name || o.Name == short })
}

func (s *Spec) option(given map[string]string, name string) string {
	if v, ok := given[name]; ok {
		return v
	}
	if s.OptionPrefix != "" {
		if v, ok := given[s.OptionPrefix+name]; ok {
			return v
		}
	}
	for _, o := range s.Options {
		if o.Name == name {
			return o.Default
		}
	}
	return ""
}

// Option returns an option of a target of spec, like [Target.Option].
func (s *Settings) Option(spec *Spec, name string) string { return spec.option(s.Options, name) }
