package egress

import (
	"errors"
	"slices"
	"strings"
)

// Paths are patterns of requests that pass through, in the form that [ParsePaths]
// gives them: a method or a star, a blank and a path. In a path a segment * stands
// for one segment, and a last one ** for everything below.
type Paths []string

var errPath = errors.New("must be a path behind /v1 with a method before it if need be, such as GET /files, /batches/* or POST /fine_tuning/**")

// methods are those that pass through.
var methods = []string{"GET", "POST", "PUT", "DELETE"}

// ParsePaths reads patterns: [method ]path. Without a method every one is meant.
// The error says what is wrong with the entry at index.
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

// odd reports a segment that readers of paths may disagree on: no pattern but
// [Any] allows it, whether or not it was refused before.
func odd(segment string) bool {
	lower := strings.ToLower(segment)
	return segment == "" || segment == "." || segment == ".." || strings.Contains(lower, "%2e") || strings.Contains(lower, "%2f") ||
		strings.Contains(lower, "%5c") || strings.Contains(segment, `\`)
}

// Allow reports whether a request passes through. Path is the one behind /v1.
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
