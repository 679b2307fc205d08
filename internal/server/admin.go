package server

import (
	"fmt"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"modelgate/internal/access"
	"modelgate/internal/apierr"
	"modelgate/internal/secret"
	"modelgate/internal/snapshot"
)

// minAdminToken is the length of the admin token, in bytes, below which it could
// be guessed.
const minAdminToken = 16

// checkAdmin refuses an admin listener that others than this machine could read
// without a token.
func checkAdmin(addr net.Addr, token secret.String) error {
	if n := len(token.Reveal()); n > 0 && n < minAdminToken {
		return fmt.Errorf("the admin token has %d bytes; use at least %d", n, minAdminToken)
	}
	if tcp, ok := addr.(*net.TCPAddr); token.Empty() && (!ok || !tcp.IP.IsLoopback()) {
		return fmt.Errorf("the admin address %s can be reached from other machines and has no token; set MODELGATE_ADMIN_TOKEN or --admin-token-file, or listen on 127.0.0.1 with --admin-listen", addr)
	}
	return nil
}

// adminRoutes returns the admin listener's handler. Health and readiness need no
// token: those who probe them have none, and they say nothing of requests.
func (s *Server) adminRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", s.health)
	mux.HandleFunc("GET /ready", s.readiness)
	mux.Handle("GET /metrics", s.withAdminToken(promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{})))
	return mux
}

var errAdminToken = apierr.New(apierr.Unauthenticated, "the admin listener needs its token, as authorization: Bearer …; it is that of MODELGATE_ADMIN_TOKEN or --admin-token-file").
	WithParam("authorization").WithCode("invalid_admin_token")

// withAdminToken lets requests with the admin token through, and all where there
// is none.
func (s *Server) withAdminToken(next http.Handler) http.Handler {
	if s.AdminToken.Empty() {
		return next
	}
	want := access.HashKey(s.AdminToken.Reveal())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if access.HashKey(snapshot.Bearer(r.Header)) != want { // of hashes, whose comparison tells nothing of the token
			s.metrics.refusedAdmin.Inc()
			w.Header().Set("WWW-Authenticate", "Bearer")
			writeError(w, errAdminToken)
			return
		}
		next.ServeHTTP(w, r)
	})
}
