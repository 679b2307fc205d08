package toolserver

import (
	"net/url"
	"slices"
	"strings"
)

// isOffURI reports whether rules switch off a resource: by its URI in any spelling, or by a
// template that it may come from.
func (r *Rules) isOffURI(uri string) bool {
	plain := plainURI(uri)
	for i := range r.Off {
		if !r.Off[i] {
			continue
		}
		literal, _, _ := strings.Cut(i.Name, "{")
		if i.Kind == Resource && plainURI(i.Name) == plain || i.Kind == Template && strings.HasPrefix(plain, plainURI(literal)) {
			return true
		}
	}
	return false
}

// plainURI returns a URI as a tolerant server reads it: decoded, and in small letters.
func plainURI(uri string) string {
	for range 3 { // twice is what careless servers do
		decoded, err := url.PathUnescape(uri)
		if err != nil || decoded == uri {
			break
		}
		uri = decoded
	}
	return strings.ToLower(uri)
}

// ClimbsOut reports whether a URI has segments that lead upwards, so that what it begins with
// does not say where it leads.
func ClimbsOut(uri string) bool {
	plain := strings.ReplaceAll(plainURI(uri), `\`, "/")
	return slices.Contains(strings.Split(plain, "/"), "..")
}
