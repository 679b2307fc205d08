package toolserver

import (
	"fmt"
	"slices"
	"strings"
)

// maxPatterns is the limit of patterns of a selection.
const maxPatterns = 500

// Selection is a list of patterns of what may be used. Nil selects everything, and an empty
// one nothing.
//
// A pattern is the slug of a server, for all that it offers, or a slug, a kind and a name:
// "github", "github/tool/create_*", "files/resource/file:///srv/*", "*/prompt/*". A star
// stands for any text, also for slashes within a name.
type Selection []string

// ParseSelection checks patterns. The error names the first that is invalid.
func ParseSelection(patterns []string) (Selection, error) {
	if len(patterns) > maxPatterns {
		return nil, fmt.Errorf("a selection has at most %d patterns", maxPatterns)
	}
	for _, p := range patterns {
		parts := strings.SplitN(p, "/", 3)
		switch {
		case p == "" || len(p) > 512 || parts[0] == "":
			return nil, fmt.Errorf("the pattern %.80q must begin with the slug of a server, or *", p)
		case len(parts) == 2 || len(parts) == 3 && parts[2] == "":
			return nil, fmt.Errorf("the pattern %.80q must be a slug, or a slug, a kind and a name, such as github/tool/create_*", p)
		case len(parts) == 3 && !isKind(parts[1]):
			return nil, fmt.Errorf("the kind of the pattern %.80q must be tool, prompt, resource, resource_template or *", p)
		}
	}
	return patterns, nil
}

func isKind(name string) bool {
	switch Kind(name) {
	case Tool, Prompt, Resource, Template, "*":
		return true
	}
	return false
}

// HasServer reports whether anything of a server is selected.
func (s Selection) HasServer(slug string) bool {
	if s == nil {
		return true
	}
	for _, p := range s {
		server, _, _ := strings.Cut(p, "/")
		if matches(server, slug) {
			return true
		}
	}
	return false
}

// Has reports whether an item of a server is selected.
func (s Selection) Has(slug string, i Item) bool {
	if s == nil {
		return true
	}
	for _, p := range s {
		parts := strings.SplitN(p, "/", 3)
		if !matches(parts[0], slug) {
			continue
		}
		if len(parts) == 1 || len(parts) == 3 && (parts[1] == "*" || parts[1] == string(i.Kind)) && matches(parts[2], i.Name) {
			return true
		}
	}
	return false
}

// Covers reports whether s selects everything that other selects. It may report false where
// only several patterns together do.
func (s Selection) Covers(other Selection) bool {
	if s == nil || other == nil {
		return s == nil
	}
	return !slices.ContainsFunc(other, func(p string) bool {
		return !slices.ContainsFunc(s, func(wide string) bool { return covers(wide, p) })
	})
}

// covers reports whether a pattern selects everything that another selects. A star of the
// narrow one is matched like text, which only a star of the wide one does.
func covers(wide, narrow string) bool {
	w, n := strings.SplitN(wide, "/", 3), strings.SplitN(narrow, "/", 3)
	if !matches(w[0], n[0]) {
		return false
	}
	return len(w) == 1 || len(w) == 3 && len(n) == 3 && (w[1] == "*" || w[1] == n[1]) && matches(w[2], n[2])
}

// matches reports whether a pattern matches a name, in time proportional to their product
// at most.
func matches(pattern, name string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, first)
	if !ok {
		return false
	}
	parts := strings.Split(rest, "*")
	last := parts[len(parts)-1]
	for _, part := range parts[:len(parts)-1] {
		_, after, found := strings.Cut(name, part)
		if !found {
			return false
		}
		name = after
	}
	return strings.HasSuffix(name, last)
}
