package upstream

import (
	"net/http"
	"slices"
	"strings"

	"modelgate/api"
)

// keepPrivate changes the caching fields of a response so that no shared cache in
// front of the gateway serves it to holders of other keys: caches know that responses
// to Authorization are private, but not that those to the gateway's own header are.
// Permission to share is taken back, and other permission to store is bound to the key.
func keepPrivate(h http.Header) {
	control := strings.Join(h["Cache-Control"], ", ")
	if control == "" && len(h["Expires"]) == 0 {
		return
	}
	shared, kept := false, []string{"private"}
	for directive := range strings.SplitSeq(control, ",") {
		directive = strings.TrimSpace(directive)
		name, _, _ := strings.Cut(strings.ToLower(directive), "=")
		switch strings.TrimSpace(name) {
		case "public", "s-maxage":
			shared = true
		case "", "private", "proxy-revalidate":
		default:
			kept = append(kept, directive)
		}
	}
	if shared {
		h["Cache-Control"] = []string{strings.Join(kept, ", ")}
	}
	h["Vary"] = append(slices.Clip(h["Vary"]), api.HeaderPrefix+"Api-Key")
}
