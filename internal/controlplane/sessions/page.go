package sessions

import (
	_ "embed"
	"net/http"

	"modelgate/internal/controlplane/route"
)

// The paths of the page on which a person claims the installation, accepts an
// invite or sets their first password, with the token of the link in the query.
const (
	ClaimPath    = "/claim"
	AcceptPath   = "/accept-invite"
	PasswordPath = "/set-password"
)

//go:embed page.html
var page []byte

// ServePage answers with the page. The token stays in the browser until the form
// is sent.
func ServePage(w http.ResponseWriter, r *http.Request) { route.Page(w, r, page) }
