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
// Permission to share is taken back. Other permission to store, which fields give from
// which caches derive a lifetime, is bound to the key; it stays as the provider sent it.
func keepPrivate(h http.Header) {
	control := strings.Join(h["Cache-Control"], ", ")
	if control == "" && len(h["Expires"]) == 0 && len(h["Last-Modified"]) == 0 && len(h["Etag"]) == 0 {
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
	h["Vary"] = append(slices.Clip(h["Vary"]), keyHeaders...)
}

// keyHeaders are the headers in which clients send gateway keys.
var keyHeaders = []string{api.HeaderPrefix + "Api-Key", "Authorization", "X-Api-Key", "X-Goog-Api-Key"}
