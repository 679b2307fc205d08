package route

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
)

// methods are the methods of routes, in the order of the header Allow.
var methods = [...]string{http.MethodDelete, http.MethodGet, http.MethodPatch, http.MethodPost, http.MethodPut}

// Owns reports whether a path begins with the name of a route, in any spelling that a
// lenient server would read as that name. What is sent there by mistake, such as with
// another method, is not for a provider.
func (a *API) Owns(path string) bool {
	rest, ok := strings.CutPrefix(path, api.BasePath+"/")
	if !ok {
		return false
	}
	name, _, _ := strings.Cut(first(rest), ";")
	return a.firsts[strings.ToLower(name)] && !ofAzure.MatchString(rest)
}

// ofAzure matches the paths of operations below a deployment of Azure OpenAI, which its
// client libraries append to the gateway's address. Routes of this package have no such ends.
// https://learn.microsoft.com/en-us/azure/ai-foundry/openai/reference
var ofAzure = regexp.MustCompile(`^deployments/[^/]+/(chat/completions|completions|embeddings|responses|images/[a-z]+|audio/[a-z]+)$`)

// ServeUnknown answers a request for a path that [API.Owns] and that no route serves: with
// 405 if the path has routes of other methods, otherwise with 404. Near is the route that the
// client may have meant, as method and path; empty for none.
func (a *API) ServeUnknown(w http.ResponseWriter, r *http.Request, near string) {
	const advice = "; to send the request to a provider, add the header x-gateway-pass-through: true"
	allowed := a.methodsOf(r)
	if len(allowed) == 0 {
		hint := "/reference lists the routes"
		if near != "" {
			hint = "did you mean " + near + "?"
		}
		failed(apierr.New(apierr.NotFound, "no route at %.200q; %s"+advice, r.URL.Path, hint)).write(w)
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	failed(apierr.New(apierr.MethodNotAllowed, "method %.20q is not allowed at this path; use %s"+advice,
		r.Method, strings.Join(allowed, ", "))).write(w)
}

// methodsOf returns the methods of the routes at the path of a request.
func (a *API) methodsOf(r *http.Request) []string {
	return slices.DeleteFunc(slices.Clone(methods[:]), func(method string) bool {
		other := *r
		other.Method = method
		return !a.Handles(&other)
	})
}
