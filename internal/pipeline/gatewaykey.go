package pipeline

import (
	"net/http"
	"slices"
	"strings"

	"modelgate/internal/access"
	"modelgate/internal/apierr"
	"modelgate/internal/urlpath"
)

// minKey is the length from which a credential is searched for inside of a header.
// A shorter one, which an operator chose, may be an ordinary word.
const minKey = 16

// HoldsKey reports whether one of the values of a header holds a credential of the
// gateway: the one that the request showed, alone or inside of other text, or any
// that has the form of the gateway's own.
func (x *Exchange) HoldsKey(values []string) bool { return slices.ContainsFunc(values, x.holdsKey) }

func (x *Exchange) holdsKey(text string) bool {
	key := x.Key.Reveal()
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

// dropKeys deletes from h what holds a credential of the gateway, which a client put
// into a header of its own choice, and announces it.
func (x *Exchange) dropKeys(h http.Header) {
	for name, values := range h {
		if x.HoldsKey(values) {
			delete(h, name)
			x.note(headerText(strings.ToLower(name)) + ";dropped")
		}
	}
}

// checkForwardedHeaders refuses to forward a header that is meant for the gateway: one of
// its further families, or one that holds a credential of the gateway.
func (x *Exchange) checkForwardedHeaders(h http.Header, forwarded []string) error {
	for _, name := range forwarded {
		name = strings.TrimSpace(name)
		for _, family := range x.Families {
			if len(name) >= len(family) && strings.EqualFold(name[:len(family)], family) {
				return notForwarded(name, "is meant for the gateway")
			}
		}
		if x.HoldsKey(h[name]) {
			return notForwarded(name, "holds the gateway key")
		}
	}
	return nil
}

// stripGatewayKey leaves out of a query each parameter whose name or value holds a
// credential of the gateway, as clients of Google's protocol may send theirs. Any
// other query is returned unchanged.
func (x *Exchange) stripGatewayKey(query string) string {
	if query == "" {
		return ""
	}
	return strings.Join(slices.DeleteFunc(strings.Split(query, "&"), x.parameterHoldsKey), "&")
}

func (x *Exchange) parameterHoldsKey(parameter string) bool {
	name, value, _ := strings.Cut(strings.ReplaceAll(parameter, "+", " "), "=")
	return x.holdsKey(urlpath.Decode(name)) || x.holdsKey(urlpath.Decode(value))
}

func notForwarded(name, why string) error {
	return apierr.New(apierr.Invalid, "the header %q %s and cannot be forwarded; remove it from the list", name, why).
		WithParam("x-gateway-forward-headers")
}
