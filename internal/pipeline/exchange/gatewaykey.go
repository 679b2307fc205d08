package exchange

import (
	"net/http"
	"slices"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/urlpath"
	"modelgate/internal/identity/access"
)

// minKey is the minimum length of a credential that is searched for inside of
// headers. A shorter one, which an operator chose, may be an ordinary word.
const minKey = 16

// HoldsKey reports whether a header value contains a credential of the gateway:
// the request's own, alone or inside other text, or any with the form of the
// gateway's keys.
func (r *Received) HoldsKey(values []string) bool { return slices.ContainsFunc(values, r.holdsKey) }

func (r *Received) holdsKey(text string) bool {
	key := r.Key.Reveal()
	switch {
	case access.HasToken(text):
		return true
	case len(key) >= minKey:
		return strings.Contains(text, key)
	case key == "":
		return false
	}
	_, token, _ := strings.Cut(text, " ") // after a scheme such as Bearer
	return strings.TrimSpace(text) == key || strings.TrimSpace(token) == key
}

// CheckForwardedHeaders returns an error for a forwarded header that is meant
// for the gateway: one with a configured prefix, or one that contains a
// credential of the gateway.
func (r *Request) CheckForwardedHeaders(h http.Header, forwarded []string) error {
	for _, name := range forwarded {
		name = strings.TrimSpace(name)
		for _, family := range r.Received.HeaderPrefixes {
			if len(name) >= len(family) && strings.EqualFold(name[:len(family)], family) {
				return notForwarded(name, "is meant for the gateway")
			}
		}
		if r.Received.HoldsKey(h[name]) {
			return notForwarded(name, "contains the gateway key")
		}
	}
	return nil
}

// StripGatewayKey removes each query parameter whose name or value contains a
// credential of the gateway, as clients of Google's protocol may send theirs.
// Other queries are returned unchanged.
func (r *Request) StripGatewayKey(query string) string {
	if query == "" {
		return ""
	}
	return strings.Join(slices.DeleteFunc(strings.Split(query, "&"), r.parameterHoldsKey), "&")
}

func (r *Request) parameterHoldsKey(parameter string) bool {
	name, value, _ := strings.Cut(strings.ReplaceAll(parameter, "+", " "), "=")
	return r.Received.holdsKey(urlpath.Decode(name)) || r.Received.holdsKey(urlpath.Decode(value))
}

// CheckPath returns an error for a path that contains a credential of the gateway. A
// path without it would be another path, so it is not removed as from a query.
func (r *Request) CheckPath() error {
	if !r.Received.holdsKey(urlpath.Decode(r.Received.Path)) {
		return nil
	}
	return apierr.New(apierr.Invalid, "the path of the request contains a gateway key, which no provider may see; send the key in the header x-gateway-api-key")
}

// HideKeys returns the text of a path or header with *** in place of each part between
// slashes that contains a credential
// of the gateway, for records.
func (r *Received) HideKeys(path string) string {
	if !r.holdsKey(urlpath.Decode(path)) {
		return path
	}
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if r.holdsKey(urlpath.Decode(s)) {
			segments[i] = "***"
		}
	}
	if path = strings.Join(segments, "/"); r.holdsKey(urlpath.Decode(path)) {
		return "***" // a key with a slash, which an operator chose
	}
	return path
}

func notForwarded(name, why string) error {
	return apierr.New(apierr.Invalid, "the header %q %s and cannot be forwarded; remove it from the list", name, why).
		WithParam("x-gateway-forward-headers")
}
