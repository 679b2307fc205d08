package upstream

import (
	"net/http"
	"slices"
	"strings"

	"modelgate/api"
)

// keepPrivate changes the caching fields of a response so that no shared cache in
// front of the gateway serves it to holders of other keys: caches know that responses
// to Authorization are private, but not that those to other headers with keys are.
// Permission to store is given to the client only, and bound to its key. Fields from which
// caches derive a lifetime give that permission too.
func keepPrivate(h http.Header) {
	control := strings.Join(h["Cache-Control"], ", ")
	if control == "" && len(h["Expires"]) == 0 && len(h["Last-Modified"]) == 0 && len(h["Etag"]) == 0 {
		return
	}
	stored, kept := true, []string{"private"}
	for directive := range strings.SplitSeq(control, ",") {
		directive = strings.TrimSpace(directive)
		name, _, _ := strings.Cut(strings.ToLower(directive), "=")
		switch strings.TrimSpace(name) {
		case "", "public", "s-maxage", "private", "proxy-revalidate":
		case "no-store":
			stored = false
			kept = append(kept, directive)
		default:
			kept = append(kept, directive)
		}
	}
	if !stored {
		kept = kept[1:]
	}
	h["Cache-Control"] = []string{strings.Join(kept, ", ")}
	h["Vary"] = append(slices.Clip(h["Vary"]), keyHeaders...)
}

// keyHeaders are the headers in which clients send gateway keys.
var keyHeaders = []string{api.HeaderPrefix + "Api-Key", "Authorization", "X-Api-Key", "X-Goog-Api-Key"}
