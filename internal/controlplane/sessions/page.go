package sessions

import (
	_ "embed"
	"net/http"
)

// The paths of the page on which a person claims the installation or accepts an
// invite, both with the token of the link in the query.
const (
	ClaimPath  = "/claim"
	AcceptPath = "/accept-invite"
)

//go:embed page.html
var page []byte

// ServePage answers with the page. It loads nothing from elsewhere, and the
// token stays in the browser until the form is sent.
func ServePage(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	w.Write(page)
}
