package server

import (
	"io"
	"net/http"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane"
	"modelgate/internal/controlplane/exports"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/controlplane/sessions"
	"modelgate/internal/dataplane"
	"modelgate/internal/limits/inbound"
	"modelgate/internal/records/ledger"
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
	h := s.handlerOf(r)
	switch h.(type) {
	case modelRoutes: // sets a deadline for each write, like the tail
		body.SetTotal(s.inbound.model)
	case *controlplane.Tail:
		route.ForbidSniffing(w)
	default:
		route.ForbidSniffing(w)
		inbound.LimitResponse(w, r, s.inbound.control.Time)
	}
	h.ServeHTTP(w, r)
}

// refuse rejects a request for any path in its dialect.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	route.ForbidSniffing(w)
	s.requests.Refuse(w, r, err)
}

var errNoTunnel = apierr.New(apierr.MethodNotAllowed, "CONNECT is not supported, because the gateway opens no tunnels; send requests to it")

// handlerOf returns the handler of a request with a canonical path.
func (s *Server) handlerOf(r *http.Request) http.Handler {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	switch {
	case path == controlplane.TailPath:
		return s.tail
	case exports.IsFile(path) && s.exports != nil:
		return s.exports
	case controlplane.InLog(path) && s.control.Handles(r): // declared routes take precedence over ids
		return s.control
	case controlplane.InLog(path), strings.HasPrefix(path, controlplane.ExplainPath+"/"):
		return s.logRoute
	case path == sessions.ClaimPath, path == sessions.AcceptPath, path == sessions.PasswordPath:
		return http.HandlerFunc(sessions.ServePage)
	case path == route.PagePath:
		return http.HandlerFunc(route.ServePage)
	case s.control.Handles(r) && !s.isForProvider(r):
		return s.control
	case s.control.Owns(path) && !dataplane.IsUnifiedRoute(r.Method, path) && !s.isForProvider(r):
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.control.ServeUnknown(w, r, s.requests.NearRoute(r.Method, path))
		})
	case dataplane.IsModelPath(path):
		return modelRoutes{s}
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

// modelRoutes serves model requests.
type modelRoutes struct{ *Server }

func (m modelRoutes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.metrics.inFlight.Inc()
	defer m.metrics.inFlight.Dec()
	m.plane.ServeHTTP(w, r)
}

// isModelRoute reports whether a request with a canonical path is a model request.
func (s *Server) isModelRoute(r *http.Request) bool {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	_, ok := s.handlerOf(r).(modelRoutes)
	return ok && s.Off.CheckPath(path) == nil
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

// reportBlocked reports that nothing can be recorded, which rejects requests unless
// records may be dropped.
func (s *Server) reportBlocked(w http.ResponseWriter) {
	if ledger.FullPolicy(s.first.Ledger.OnFull) == ledger.DropRows {
		io.WriteString(w, "ready, degraded: the ledger can't be written, for example because the disk is full; requests are served without records\n")
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	io.WriteString(w, "not ready: the ledger can't be written, for example because the disk is full; model requests are rejected\n")
}

// readiness reports to load balancers whether to send requests here.
func (s *Server) readiness(w http.ResponseWriter, _ *http.Request) {
	if !s.ready.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, "draining or not started\n")
		return
	}
	if s.ledger != nil && (s.ledger.Blocked() || noSpace(LedgerDir(s.Data))) {
		s.reportBlocked(w)
		return
	}
	if s.away.Load() { // not a reason to send requests to other nodes
		io.WriteString(w, "ready, degraded: the database can't be reached; requests are served from its last state\n")
		return
	}
	if s.counters.unavailable() { // others are no better off
		io.WriteString(w, "ready, degraded: the shared counters of limits can't be reached; each limit's on_store_down applies\n")
		return
	}
	io.WriteString(w, "ready\n")
}
