package guardrail

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// FieldValues returns the values of a header field in all spellings of its name that
// servers take for the same; see [WithoutFields].
func FieldValues(h http.Header, name string) (values []string) {
	for key, list := range h {
		if sameField(key, name) {
			values = append(values, list...)
		}
	}
	return values
}

// WithoutFields returns h without the named fields, in all spellings of their names that
// servers take for the same: names are compared without case, and programs that get
// fields as environment variables cannot tell an underscore or a dot from a dash. It
// returns h itself if it has none of them.
func WithoutFields(h http.Header, names []string) http.Header {
	var out http.Header
	for key := range h {
		if !IsField(key, names) {
			continue
		}
		if out == nil {
			out = maps.Clone(h)
		}
		delete(out, key)
	}
	if out == nil {
		return h
	}
	return out
}

// IsField reports whether the field key is one of the named ones, in any spelling.
func IsField(key string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return sameField(key, name) })
}

func sameField(a, b string) bool {
	return len(a) == len(b) && strings.EqualFold(strings.Map(dashed, a), strings.Map(dashed, b))
}

// dashed returns a dash for a character other than letters and digits.
func dashed(r rune) rune {
	if '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
		return r
	}
	return '-'
}
