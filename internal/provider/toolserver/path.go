package toolserver

import (
	"strings"

	"modelgate/api"
)

// SlugOf returns the slug of the server or bundle in a path of tool servers, empty for that of
// all servers, and false for another path: /mcp is for all servers of the caller, /mcp/{slug}
// and /{slug}/mcp are for one, also below the base path.
func SlugOf(path string) (slug string, ok bool) {
	rest := belowBase(path)
	if rest == "mcp" {
		return "", true
	}
	slug, ok = strings.CutPrefix(rest, "mcp/")
	if !ok {
		slug, ok = strings.CutSuffix(rest, "/mcp")
	}
	return slug, ok && slug != "" && !strings.Contains(slug, "/")
}

// AgentOf returns the slug of the agent in a path of agents, and the path below its address,
// empty for the address itself: /a2a/{slug} and what begins with it, also below the base path.
// It returns false for another path.
func AgentOf(path string) (slug, below string, ok bool) {
	rest, ok := strings.CutPrefix(belowBase(path), "a2a/")
	slug, below, _ = strings.Cut(rest, "/")
	return slug, below, ok && slug != ""
}

// belowBase returns a path without the base path, if it has it, and without a slash in front.
func belowBase(path string) string {
	rest, _ := strings.CutPrefix(path, api.BasePath+"/")
	return strings.TrimPrefix(rest, "/")
}
