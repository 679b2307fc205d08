package server

import (
	"io"
	"net/http"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane"
	"modelgate/internal/controlplane/exports"
	"modelgate/internal/controlplane/oauth"
	"modelgate/internal/controlplane/people"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/controlplane/sessions"
	"modelgate/internal/controlplane/toolservers"
	"modelgate/internal/dataplane"
	"modelgate/internal/limits/inbound"
	"modelgate/internal/provider/toolauth"
)

// controlTime limits a control-plane request after its body was read, so that an
// unresponsive database is reported.
const controlTime = 20 * time.Second

// serveAPI routes by the canonical path. All further code reads the path from r, so
// that no two parts of the gateway see different spellings.
func (s *Server) serveAPI(w http.ResponseWriter, r *http.Request) {
	s.serving.join()
	defer s.serving.leave()
	r.RemoteAddr = s.proxies.Load().RemoteAddr(r)
	if s.draining.Load() { // clients should send their next request to another node
		w.Header().Set("Connection", "close")
	}
	r, body := s.receive(w, r)
	defer inbound.LimitResponse(w, r, 0) // buffered data is written after the handler
	if err := inbound.TooManyHeaders(r, s.inbound.headerCount); err != nil {
		s.refuse(w, r, err)
		return
	}
	if r.Method == http.MethodConnect { // a proxy in front would take a success for a tunnel
		w.Header().Set("Connection", "close")
		s.refuse(w, r, errNoTunnel)
		return
	}
	if err := canonicalise(r, s.publicPath()); err != nil {
		s.refusePath(w, r, err)
		return
	}
	r, err := s.engine.Client.Enter(r)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if s.control.ServeOff(w, path) {
		return
	}
	e := s.endpointOf(r)
	body.SetTotal(e.body)
	if !e.model { // a provider's headers pass as they are
		route.ForbidSniffing(w)
	}
	if !e.streams {
		inbound.LimitResponse(w, r, e.body.Time)
	}
	e.handler.ServeHTTP(w, r)
}

// endpoint serves requests for a path.
type endpoint struct {
	handler http.Handler
	body    inbound.Total // until the request body is complete; also of a response that does not stream
	streams bool          // the handler sets a deadline for each write
	model   bool          // model requests
}

// refuse rejects a request for any path in its dialect.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	route.ForbidSniffing(w)
	s.requests.Refuse(w, r, err)
}

var errNoTunnel = apierr.New(apierr.MethodNotAllowed, "CONNECT is not supported, because the gateway opens no tunnels; send requests to it")

// endpointOf returns what serves a request with a canonical path.
func (s *Server) endpointOf(r *http.Request) endpoint {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if path == controlplane.TailPath {
		return endpoint{handler: s.tail, body: s.inbound.control, streams: true}
	}
	if h := s.handlerOf(r, path); h != nil {
		return endpoint{handler: h, body: s.inbound.control}
	}
	return endpoint{handler: modelHandler{s}, body: s.inbound.model, streams: true, model: true}
}

// handlerOf returns the handler of a path that has the limits of the control plane, nil
// for a model request.
func (s *Server) handlerOf(r *http.Request, path string) http.Handler {
	switch {
	case exports.IsFile(path) && s.exports != nil:
		return s.exports
	case controlplane.InLog(path) && s.control.Handles(r): // declared routes take precedence over ids
		return s.control
	case controlplane.InLog(path), strings.HasPrefix(path, controlplane.ExplainPath+"/"):
		return s.logRoute
	case path == sessions.ClaimPath, path == sessions.AcceptPath, path == sessions.PasswordPath:
		return http.HandlerFunc(sessions.ServePage)
	case path == people.SignInPath:
		return http.HandlerFunc(sessions.ServeSignIn)
	case path == oauth.PagePath:
		return http.HandlerFunc(oauth.ServePage)
	case path == oauth.AuthorizePath:
		return http.HandlerFunc(oauth.ServeAuthorize)
	case path == toolauth.LinkPath, path == toolauth.CallbackPath, strings.HasPrefix(path, toolauth.CallbackPath+"/"):
		return http.HandlerFunc(toolservers.ServeConnect)
	case path == route.PagePath:
		return http.HandlerFunc(route.ServePage)
	case s.control.Handles(r) && !s.isForProvider(r):
		return s.control
	case s.control.Owns(path) && !dataplane.IsUnifiedRoute(r.Method, path) && !s.isForProvider(r):
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.control.ServeUnknown(w, r, s.requests.NearRoute(r.Method, path))
		})
	case dataplane.IsModelPath(path):
		return nil
	case path == "/health":
		return http.HandlerFunc(s.health)
	case path == "/ready":
		return http.HandlerFunc(s.readiness)
	}
	return http.HandlerFunc(serveOther)
}

// isForProvider reports whether a request is for a provider, although its path may be one
// of the control plane too: clients of Anthropic's API name its version, and others send a
// header of the gateway.
func (s *Server) isForProvider(r *http.Request) bool {
	return len(r.Header["Anthropic-Version"]) > 0 || s.requests.PassesThrough(r.Header)
}

// modelHandler serves model requests.
type modelHandler struct{ server *Server }

func (m modelHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.server.metrics.inFlight.Inc()
	defer m.server.metrics.inFlight.Dec()
	m.server.plane.ServeHTTP(w, r)
}

// isModelRoute reports whether a request with a canonical path is a model request.
func (s *Server) isModelRoute(r *http.Request) bool {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	return s.endpointOf(r).model && s.Off.CheckPath(path) == nil
}

// documentRoutes adds the routes that the control plane does not serve to its description.
func (s *Server) documentRoutes() {
	for _, r := range dataplane.Routes() {
		s.control.Document(route.Documented{Method: r.Method, Path: r.Path, Tag: "Models", Summary: r.Summary})
	}
	for _, r := range controlplane.LogRoutes() {
		s.control.Document(r)
	}
}

// controlRoutes returns the routes of the control plane, as method and path.
func (s *Server) controlRoutes() []string {
	var list []string
	for _, r := range s.control.Routes() {
		for _, path := range r.Paths() {
			list = append(list, r.Method+" "+path)
		}
	}
	return list
}

var errNotFound = apierr.New(apierr.NotFound, "path not found; model routes begin with /v1/")

// serveOther serves the root and unknown paths.
func serveOther(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/" {
		writeError(w, errNotFound)
		return
	}
	io.WriteString(w, "modelgate is serving; model routes begin with /v1/; /reference documents the administration API\n")
}

// health responds as long as the process serves.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	io.WriteString(w, "ok\n")
}
