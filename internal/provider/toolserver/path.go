package toolserver

import (
	"strings"

	"modelgate/api"
)

// SlugOf returns the slug of the server or bundle in a path of tool servers, empty for that of
// all servers, and false for another path: /mcp is for all servers of the caller, /mcp/{slug}
// and /{slug}/mcp are for one, also below the base path.
func SlugOf(path string) (slug string, ok bool) {
	rest, _ := strings.CutPrefix(path, api.BasePath+"/")
	rest = strings.TrimPrefix(rest, "/")
	if rest == "mcp" {
		return "", true
	}
	slug, ok = strings.CutPrefix(rest, "mcp/")
	if !ok {
		slug, ok = strings.CutSuffix(rest, "/mcp")
	}
	return slug, ok && slug != "" && !strings.Contains(slug, "/")
}
