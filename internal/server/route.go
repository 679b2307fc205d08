package server

import (
	"io"
	"net/http"
	"strings"
	"time"

	"modelgate/internal/controlplane"
	"modelgate/internal/controlplane/exports"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/controlplane/sessions"
	"modelgate/internal/dataplane"
	"modelgate/internal/inbound"
)

// controlTime bounds a request to the control plane once its body is there, so
// that a database that does not answer is told of.
const controlTime = 20 * time.Second

// serveAPI routes by the canonical path. Everything behind it reads the path of
// r, so no two parts of the gateway decide about different spellings.
func (s *Server) serveAPI(w http.ResponseWriter, r *http.Request) {
	s.serving.join()
	defer s.serving.leave()
	r.RemoteAddr = s.proxies.Load().RemoteAddr(r)
	if s.draining.Load() { // clients are to send their next request elsewhere
		w.Header().Set("Connection", "close")
	}
	r, body := s.receive(w, r)
	if err := inbound.TooManyHeaders(r, s.inbound.headerCount); err != nil {
		s.refuse(w, r, err)
		return
	}
	if err := canonicalise(r); err != nil {
		s.refusePath(w, r, err)
		return
	}
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if s.control.ServeOff(w, path) {
		return
	}
	switch {
	case path == controlplane.TailPath:
		s.tail.ServeHTTP(w, r)
	case exports.IsFile(path) && s.exports != nil:
		s.exports.ServeHTTP(w, r)
	case controlplane.InLog(path) && s.control.Handles(r): // what is declared there wins over ids
		s.control.ServeHTTP(w, r)
	case controlplane.InLog(path), strings.HasPrefix(path, controlplane.ExplainPath+"/"):
		s.logRoute.ServeHTTP(w, r)
	case path == sessions.ClaimPath, path == sessions.AcceptPath, path == sessions.PasswordPath:
		sessions.ServePage(w, r)
	case path == route.PagePath:
		route.ServePage(w, r)
	case s.control.Handles(r):
		s.control.ServeHTTP(w, r)
	case dataplane.Serves(path):
		body.SetTotal(s.inbound.model)
		s.metrics.inFlight.Inc()
		defer s.metrics.inFlight.Dec()
		s.plane.ServeHTTP(w, r)
	case path == "/health":
		s.health(w, r)
	case path == "/ready":
		s.readiness(w, r)
	case path == "/":
		io.WriteString(w, "modelgate is serving; model routes begin with /v1/; /reference shows those of the administration\n")
	default:
		writeError(w, errNotFound)
	}
}

// health answers as long as the process serves.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	io.WriteString(w, "ok\n")
}

// readiness tells load balancers whether to send requests here.
func (s *Server) readiness(w http.ResponseWriter, _ *http.Request) {
	if !s.ready.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, "draining or not started\n")
		return
	}
	if s.away.Load() { // this is no reason to send requests elsewhere
		io.WriteString(w, "ready, degraded: the database can't be reached; requests are served from its last state\n")
		return
	}
	io.WriteString(w, "ready\n")
}
