package provider

import (
	"regexp"
	"strings"

	"modelgate/api"
)

// versionSegment is a path segment with the version of an API.
var versionSegment = regexp.MustCompile(`^v[0-9]`)

// WithoutSurplus returns the path of a custom host without what the paths of the provider's
// operations begin with, and what was removed, empty for nothing: people paste the address of
// an operation, such as https://host/v1/chat/completions, and the path would be sent twice.
// Further paths in Surplus are removed after the path of the provider's own address only.
func (s *Spec) WithoutSurplus(path string) (rest, surplus string) {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	longest := 0
	for _, op := range [...]api.Operation{api.Chat, api.Completions, api.Embeddings, api.Messages, api.Responses, api.Generate, api.Converse,
		api.Images} {
		p := patternOf(s.Paths[op])
		for n := min(len(p), len(segments)); n > longest; n-- {
			if full := n == len(p); (full || versionSegment.MatchString(p[0])) && matches(segments[len(segments)-n:], p[:n]) {
				longest = n
			}
		}
	}
	for _, further := range s.Surplus {
		p := patternOf(further)
		if n := len(p); n > longest && n < len(segments) && matches(segments[len(segments)-n:], p) &&
			s.endsIn(segments[len(segments)-n-1:len(segments)-n]) {
			longest = n
		}
	}
	if longest == 0 || s.endsIn(segments[len(segments)-longest:]) {
		return path, ""
	}
	surplus = "/" + strings.Join(segments[len(segments)-longest:], "/")
	return strings.TrimSuffix(strings.TrimRight(path, "/"), surplus), surplus
}

// patternOf returns the segments of a path of an operation, nil for one on another host.
func patternOf(path string) []string {
	path, _, _ = strings.Cut(path, "?")
	if path = strings.Trim(path, "/"); path == "" || isAbsoluteURL(path) {
		return nil
	}
	return strings.Split(path, "/")
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
