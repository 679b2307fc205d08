package toolauth

import (
	"slices"
	"strings"
)

// Limits of what a server asks for. A longer challenge is ignored.
const (
	maxChallenge  = 8 << 10 // bytes
	maxScopes     = 64
	maxScope      = 255     // bytes
	maxScopeBytes = 4 << 10 // of all scopes
)

// Challenge returns the parameters of the first challenge for bearer tokens in a
// WWW-Authenticate (RFC 9110, section 11.6.1), by their names in small letters. It is empty if
// there is none. Of a parameter that occurs twice the first counts.
func Challenge(text string) map[string]string {
	const scheme = "bearer"
	if len(text) > maxChallenge {
		return nil
	}
	at := 0
	for ; ; at++ { // the scheme is a word of its own, at the beginning or behind a comma
		end := at + len(scheme)
		if end > len(text) {
			return nil
		}
		if !strings.EqualFold(text[at:end], scheme) || end < len(text) && text[end] != ' ' && text[end] != ',' {
			continue
		}
		if before := strings.TrimRight(text[:at], " \t"); before == "" || strings.HasSuffix(before, ",") {
			at = end
			break
		}
	}
	out := make(map[string]string)
	for rest := strings.TrimLeft(text[at:], " \t,"); rest != ""; rest = strings.TrimLeft(rest, " \t,") {
		name, after, ok := strings.Cut(rest, "=")
		name = strings.ToLower(strings.TrimRight(name, " \t"))
		if !ok || strings.ContainsAny(name, " \t,\"") { // the next challenge
			return out
		}
		var value string
		if value, rest, ok = parameter(strings.TrimLeft(after, " \t")); !ok {
			return out
		}
		if _, twice := out[name]; !twice {
			out[name] = value
		}
	}
	return out
}

// parameter returns a token or a quoted string, and what is behind it.
func parameter(text string) (value, rest string, ok bool) {
	if !strings.HasPrefix(text, `"`) {
		if i := strings.IndexAny(text, " \t,"); i >= 0 {
			return text[:i], text[i:], true
		}
		return text, "", true
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			return b.String(), text[i+1:], true
		case '\\':
			if i++; i == len(text) {
				return "", "", false
			}
		}
		b.WriteByte(text[i])
	}
	return "", "", false
}

// boundScopes returns scopes without those that are malformed, doubled or too many.
func boundScopes(list []string) (out []string) {
	size := 0
	for _, s := range list {
		malformed := !isVisible(s) || len(s) > maxScope || strings.ContainsAny(s, `"\`)
		if !malformed && !slices.Contains(out, s) && len(out) < maxScopes && size+len(s) < maxScopeBytes {
			out = append(out, s)
			size += len(s) + 1
		}
	}
	return out
}

// Union returns all scopes of several lists, bounded and without doubles.
func Union(lists ...[]string) []string { return boundScopes(slices.Concat(lists...)) }
