package provider

import (
	"slices"
	"strings"
	"unicode"
)

// FindOption returns the option that a name means: its own or its alias, which may have the
// prefix of config objects and be in camel case.
func (s *Spec) FindOption(given string) (o Option, ok bool) {
	name := SnakeCase(given)
	if s.OptionPrefix != "" {
		name = strings.TrimPrefix(name, s.OptionPrefix)
	}
	i := slices.IndexFunc(s.Options, func(o Option) bool { return name == o.Name || o.Alias != "" && name == o.Alias })
	if i < 0 {
		return Option{Name: name}, false
	}
	return s.Options[i], true
}

// SnakeCase converts camel case to snake case.
func SnakeCase(name string) string {
	var b strings.Builder
	for i, c := range name {
		if unicode.IsUpper(c) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}
