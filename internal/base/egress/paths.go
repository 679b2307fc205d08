package egress

import (
	"errors"
	"slices"
	"strings"
)

// Paths are patterns of requests that pass through, in the form returned by
// [ParsePaths]: a method or a star, a space and a path. A segment * matches one
// segment, and a final ** everything below.
type Paths []string

var errPath = errors.New("must be a path behind /v1 with a method before it if need be, such as GET /files, /batches/* or POST /fine_tuning/**")

// methods are the methods that pass through.
var methods = []string{"GET", "POST", "PUT", "DELETE"}

// ParsePaths parses patterns: [method ]path. Without a method all methods
// match. For an error, index is the invalid entry.
func ParsePaths(list []string) (out Paths, index int, err error) {
	out = make(Paths, 0, len(list))
	for i, text := range list {
		pattern, err := parsePath(text)
		if err != nil {
			return nil, i, err
		}
		if !slices.Contains(out, pattern) {
			out = append(out, pattern)
		}
	}
	return out, 0, nil
}

func parsePath(text string) (string, error) {
	if text == Any {
		return Any, nil
	}
	method, path, ok := strings.Cut(text, " ")
	if !ok {
		method, path = Any, text
	}
	method = strings.ToUpper(method)
	if method != Any && !slices.Contains(methods, method) || !strings.HasPrefix(path, "/") || len(path) > 512 {
		return "", errPath
	}
	if path == "/v1" || strings.HasPrefix(path, "/v1/") {
		return "", errors.New("must leave out /v1, as in GET /files")
	}
	segments := strings.Split(path[1:], "/")
	for i, s := range segments {
		if s == "**" && i == len(segments)-1 || s == Any {
			continue
		}
		if odd(s) || strings.ContainsAny(s, "*?# ") {
			return "", errPath
		}
	}
	return method + " " + path, nil
}

// odd reports whether servers may disagree on a segment. No pattern but [Any]
// allows such segments, whether or not they have been rejected before.
func odd(segment string) bool {
	lower := strings.ToLower(segment)
	return segment == "" || segment == "." || segment == ".." || strings.Contains(lower, "%2e") || strings.Contains(lower, "%2f") ||
		strings.Contains(lower, "%5c") || strings.Contains(segment, `\`)
}

// Allow reports whether a request may pass through. path is the path after /v1.
func (p Paths) Allow(method, path string) bool {
	if slices.Contains(p, Any) {
		return true
	}
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	if slices.ContainsFunc(segments, odd) {
		return false
	}
	for _, pattern := range p {
		of, want, _ := strings.Cut(pattern, " ")
		if (of == Any || of == method) && matches(strings.Split(want[1:], "/"), segments) {
			return true
		}
	}
	return false
}

func matches(pattern, segments []string) bool {
	for i, want := range pattern {
		switch {
		case i >= len(segments):
			return false
		case want == "**":
			return true
		case want != Any && want != segments[i]:
			return false
		}
	}
	return len(pattern) == len(segments)
}
