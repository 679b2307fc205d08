package provider

import (
	"regexp"
	"slices"
	"strings"

	"modelgate/api"
)

// versionSegment is a path segment with the version of an API.
var versionSegment = regexp.MustCompile(`^v[0-9]`)

// WithoutSurplus returns the path of a custom host without what the paths of the provider's
// operations begin with, and what was removed, empty for nothing: people paste the address of
// an operation, such as https://host/v1/chat/completions, and the path would be sent twice.
func (s *Spec) WithoutSurplus(path string) (rest, surplus string) {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	longest := 0
	for _, p := range s.pasted() {
		for n := min(len(p), len(segments)); n > longest; n-- {
			if whole := n == len(p); (whole || versionSegment.MatchString(p[0])) && matches(segments[len(segments)-n:], p[:n]) {
				longest = n
			}
		}
	}
	if longest == 0 || s.endsIn(segments[len(segments)-longest:]) {
		return path, ""
	}
	surplus = "/" + strings.Join(segments[len(segments)-longest:], "/")
	return strings.TrimSuffix(strings.TrimRight(path, "/"), surplus), surplus
}

// pasted returns the paths that an address may end in, as segments.
func (s *Spec) pasted() (list [][]string) {
	paths := slices.Clone(s.Surplus)
	for _, op := range [...]api.Operation{api.Chat, api.Completions, api.Embeddings, api.Messages, api.Responses, api.Generate, api.Converse, api.Images} {
		paths = append(paths, s.Paths[op])
	}
	for _, p := range paths {
		p, _, _ = strings.Cut(p, "?")
		if p = strings.Trim(p, "/"); p != "" && !isAbsoluteURL(p) {
			list = append(list, strings.Split(p, "/"))
		}
	}
	return list
}

// matches reports whether segments are those of a pattern, in which {name} stands for any.
func matches(segments, pattern []string) bool {
	for i, p := range pattern {
		if s := segments[i]; p != s && (i == 0 || s == "" || !strings.HasPrefix(p, "{") || !strings.HasSuffix(p, "}")) {
			return false
		}
	}
	return true
}

// endsIn reports whether the provider's own address ends in these segments.
func (s *Spec) endsIn(segments []string) bool {
	return strings.HasSuffix("/"+strings.Trim(s.BaseURL, "/"), "/"+strings.Join(segments, "/"))
}
