package server

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/snapshot"
)

// CheckAdmin returns an error for an admin listener that other hosts could read without
// a token.
func CheckAdmin(addr net.Addr, token secret.String) error {
	if err := checkLength("the admin token", token); err != nil {
		return err
	}
	if tcp, ok := addr.(*net.TCPAddr); token.Empty() && (!ok || !tcp.IP.IsLoopback()) {
		return fmt.Errorf("the admin address %s can be reached from other machines and has no token; set MODELGATE_ADMIN_TOKEN or --admin-token-file, or listen on 127.0.0.1 with --admin-listen", addr)
	}
	return nil
}

// checkLength returns an error for a secret that could be guessed. Name is its name in the
// error. An empty secret is none.
func checkLength(name string, s secret.String) error {
	if n := len(s.Reveal()); n > 0 && n < access.MinKeyBytes {
		return fmt.Errorf("%s has %d bytes; use at least %d, for example the output of: openssl rand -base64 32", name, n, access.MinKeyBytes)
	}
	return nil
}

// adminRoutes returns the admin listener's handler. Health and readiness need no token,
// because probes have none and the responses reveal nothing about requests.
func (s *Server) adminRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", s.health)
	mux.HandleFunc("GET /ready", s.readiness)
	mux.Handle("GET /metrics", s.withAdminToken(promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{})))
	mux.Handle("GET /prices", s.withAdminToken(http.HandlerFunc(s.priceFiles)))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		route.ForbidSniffing(w)
		if !s.isAdminHost(r.Host) {
			s.metrics.refusedAdmin.Inc()
			writeError(w, errAdminHost)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

var errAdminHost = apierr.New(apierr.Forbidden, "the admin listener has no token and is read only by its address, localhost or the host of --admin-listen, not by another name in Host; use one of these, or set MODELGATE_ADMIN_TOKEN").
	WithParam("host").WithCode("invalid_admin_host")

// isAdminHost reports whether a request may have this Host. Without a token, a page in a
// browser on this machine could read the listener by a name of its own that resolves to
// this machine; it cannot do so by an address. A token, which no page has, admits all.
func (s *Server) isAdminHost(host string) bool {
	if !s.AdminToken.Empty() {
		return true
	}
	name := hostname(host)
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return strings.EqualFold(name, "localhost") || name != "" && strings.EqualFold(name, hostname(s.AdminListen))
}

// hostname returns a host without its port.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

var errAdminToken = apierr.New(apierr.Unauthenticated, "the admin listener requires its token, sent as authorization: Bearer …; it is set by MODELGATE_ADMIN_TOKEN or --admin-token-file").
	WithParam("authorization").WithCode("invalid_admin_token")

// withAdminToken passes requests with the admin token to next, and all requests if
// there is no token.
func (s *Server) withAdminToken(next http.Handler) http.Handler {
	if s.AdminToken.Empty() {
		return next
	}
	want := access.HashKey(s.AdminToken.Reveal())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if access.HashKey(snapshot.Bearer(r.Header)) != want { // comparing hashes leaks nothing about the token
			s.metrics.refusedAdmin.Inc()
			w.Header().Set("WWW-Authenticate", "Bearer")
			writeError(w, errAdminToken)
			return
		}
		next.ServeHTTP(w, r)
	})
}
