package dataplane

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"modelgate/api"
	"modelgate/config"
	"modelgate/internal/base/apierr"
	"modelgate/internal/identity/access"
)

// providerHeaders are the headers by which a request selects its provider.
var providerHeaders = []string{api.HeaderProvider, api.HeaderConfig, api.HeaderVirtualKey}

// missingProvider returns the error for a request that selects no provider. It names a
// header that may be misspelt and a route that is near, if there is one.
func (rs *resolver) missingProvider() *apierr.Error {
	var message strings.Builder
	message.WriteString("no provider selected; put it before the model, as in @slug/model, set x-gateway-provider to a provider id or @slug, or send a config that names one")
	for _, name := range slices.Sorted(maps.Keys(rs.admission.request.Received.Header)) {
		if meant := config.Nearest(name, providerHeaders); meant != "" && name != meant {
			message.WriteString(fmt.Sprintf("; the header %.60s has no effect: did you mean %s?", strings.ToLower(name), strings.ToLower(meant)))
		}
	}
	if rs.admission.route.op == api.Proxy {
		if near := rs.admission.plane.NearRoute(rs.admission.request.Received.Method, rs.admission.entry.Path); near != "" {
			message.WriteString(fmt.Sprintf("; %s is not a route of the gateway: did you mean %s?",
				shorten(rs.admission.request.Received.Method+" "+rs.admission.entry.Path), near))
		}
	}
	return apierr.New(apierr.Invalid, "%s", message.String()).WithParam("x-gateway-provider").WithCode("missing_provider")
}

func shorten(text string) string { return text[:min(len(text), 100)] }

// maxNear is the longest path, in bytes, that is compared with the routes: callers without a
// key reach it, and it would be copied for each route.
const maxNear = 128

// NearRoute returns the route, as method and path, that a request for an unknown path
// probably meant, empty if none is near.
func (p *Plane) NearRoute(method, path string) string {
	if len(path) > maxNear {
		return ""
	}
	path = strings.TrimSuffix(path, "/")
	if rest, ok := strings.CutPrefix(path, api.BasePath+api.BasePath+"/"); ok { // a base URL with /v1 too much
		path = api.BasePath + "/" + rest
	}
	var others []string
	routes := make(map[string]string) // by the path that the request would have
	add := func(known string) {
		verb, pattern, _ := strings.Cut(known, " ")
		concrete, ok := fillPattern(pattern, path)
		if !ok {
			return
		}
		if _, ok := routes[concrete]; !ok {
			others = append(others, concrete)
		}
		if _, ok := routes[concrete]; !ok || verb == method {
			routes[concrete] = known
		}
	}
	for _, known := range slices.Sorted(maps.Keys(unifiedRoutes)) {
		add(known)
	}
	if p.OtherRoutes != nil {
		for _, known := range p.OtherRoutes() {
			add(known)
		}
	}
	if known, ok := routes[path]; ok {
		return known
	}
	return routes[config.Nearest(path, others)]
}

// fillPattern returns a pattern with the parameters of a path of as many segments.
func fillPattern(pattern, path string) (string, bool) {
	have, want := strings.Split(path, "/"), strings.Split(pattern, "/")
	if len(have) != len(want) {
		return "", false
	}
	for i, segment := range want {
		if strings.HasPrefix(segment, "{") {
			want[i] = have[i]
		}
	}
	return strings.Join(want, "/"), true
}

// sessionError returns the error for a request whose credential is a session: sessions
// are for administration, and the gateway does not look them up for a model route.
func (a *admission) sessionError() error {
	if key, _ := a.snap.Credential(a.request.Received.Header); !access.IsSessionToken(key) {
		return nil
	}
	if a.route.op == api.Proxy {
		message := "no route of the administration at this method and path"
		if near := a.plane.NearRoute(a.request.Received.Method, a.entry.Path); near != "" {
			message += "; did you mean " + near + "?"
		}
		return apierr.New(apierr.NotFound, "%s", message).WithParam("path")
	}
	return apierr.New(apierr.Unauthenticated, "sessions are for administration; model routes need a gateway key in the header x-gateway-api-key").
		WithParam("x-gateway-api-key").WithCode("session_not_allowed")
}
