package route

import (
	_ "embed"
	"net/http"
)

// PagePath is the path of the API reference page.
const PagePath = "/reference"

//go:embed page.html
var page []byte

// Page writes an HTML page that loads nothing from elsewhere, may not be framed and
// sends no referrer.
func Page(w http.ResponseWriter, r *http.Request, html []byte) {
	h := w.Header()
	pageHeader(h)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	w.Write(html)
}

// pageHeader sets the header of a page.
func pageHeader(h http.Header) {
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'")
}

// ServePage serves the page at PagePath, which the browser builds from /openapi.json.
func ServePage(w http.ResponseWriter, r *http.Request) { Page(w, r, page) }
