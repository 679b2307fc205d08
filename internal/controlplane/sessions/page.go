package sessions

import (
	_ "embed"
	"net/http"

	"modelgate/internal/controlplane/route"
)

// Paths of the page on which a user claims the installation, accepts an invite or sets
// their first password, with the link's token in the query.
const (
	ClaimPath    = "/claim"
	AcceptPath   = "/accept-invite"
	PasswordPath = "/set-password"
)

//go:embed page.html
var page []byte

// ServePage serves the page. The token stays in the browser until the form is sent.
func ServePage(w http.ResponseWriter, r *http.Request) { route.Page(w, r, page) }

//go:embed login.html
var signInPage []byte

// ServeSignIn serves the page on which people sign in, and see who they are and how to
// sign out.
func ServeSignIn(w http.ResponseWriter, r *http.Request) { route.Page(w, r, signInPage) }
