package upstream

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/identity/access"
)

// A host that a client or a tenant chose may lead back to the gateway under a name that
// the gateway does not know. Requests to such a host that hold a gateway key carry the ids
// of the gateways that they have passed, in the header that RFC 8586 defines for this
// purpose.
const (
	chainHeader  = "Cdn-Loop"
	chainElement = "modelgate; id="
	maxChain     = 16 // gateways that a request may pass
)

type chainKey struct{}

// Enter returns r with the gateways that it has passed, for the requests that it leads
// to. It returns an error if this client has sent it already, or if it has passed too
// many gateways.
func (c *Client) Enter(r *http.Request) (*http.Request, error) {
	lines := r.Header[chainHeader]
	if len(lines) == 0 {
		return r, nil
	}
	passed := passedGateways(lines)
	if len(passed) >= maxChain || slices.Contains(passed, c.element) {
		return r, apierr.New(apierr.Invalid,
			"the request has passed this gateway before, or %d others: a custom host, a webhook or a provider points back to the gateway; use the address of the provider itself", maxChain).
			WithCode("request_loop")
	}
	if len(passed) == 0 {
		return r, nil
	}
	return r.WithContext(context.WithValue(r.Context(), chainKey{}, passed)), nil
}

// passedGateways returns the elements of a Cdn-Loop header that gateways have added.
func passedGateways(lines []string) (passed []string) {
	for _, line := range lines {
		for element := range strings.SplitSeq(line, ",") {
			if element = strings.TrimSpace(element); strings.HasPrefix(element, chainElement) {
				passed = append(passed, element)
			}
		}
	}
	return passed
}

// mark adds this gateway to those that req has passed. A request that has passed none
// leaves as it is unless its host was chosen and a gateway could accept it: all other
// requests pass through exactly.
func (c *Client) mark(req *http.Request, guarded bool) {
	passed, _ := req.Context().Value(chainKey{}).([]string)
	if len(passed) == 0 && !(guarded && hasGatewayKey(req.Header)) {
		return
	}
	req.Header[chainHeader] = []string{strings.Join(append(passed[:len(passed):len(passed)], c.element), ", ")}
}

// hasGatewayKey reports whether a header holds what may be a key or a token of a gateway.
func hasGatewayKey(h http.Header) bool {
	for _, values := range h {
		for _, v := range values {
			v = v[strings.LastIndexByte(v, ' ')+1:]
			if strings.HasPrefix(v, access.KeyPrefix) || strings.HasPrefix(v, beginOfToken) {
				return true
			}
		}
	}
	return false
}

// beginOfToken begins every JSON Web Token.
const beginOfToken = "eyJ"
