package controlplane_test

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/controlplane/route"
)

var update = flag.Bool("update", false, "write docs/access.md from what the routes answer")

const accessPage = "../../docs/access.md"

// words are what the table says of a response's status.
var words = map[int]string{
	http.StatusOK:           "yes",
	http.StatusForbidden:    "no",
	http.StatusNotFound:     "absent",
	http.StatusUnauthorized: "key",
}

// odd are the samples that succeed for nobody, with why: for them, a refusal of
// what was asked is a yes.
var odd = map[string][]int{
	"claim":                        {http.StatusNotFound},                                 // the organisation has an owner
	"login":                        {http.StatusUnauthorized, http.StatusTooManyRequests}, // nobody here has a password
	"accept-invite":                {http.StatusNotFound},                                 // the token is nobody's
	"change-password":              {http.StatusBadRequest, http.StatusTooManyRequests},   // nobody here has a password
	"reset-password":               {http.StatusConflict},                                 // the person has no password yet
	"end-own-session":              {http.StatusNotFound},                                 // the session is somebody else's
	"sign-in-owner":                {http.StatusNotFound},                                 // the token is nobody's
	"confirm-session":              {http.StatusConflict},                                 // nobody here has a password
	"begin-passkey-sign-in":        {http.StatusServiceUnavailable},                       // the gateway has no host name
	"sign-in-with-passkey":         {http.StatusUnauthorized},                             // the browser has no challenge
	"begin-second-factor":          {http.StatusServiceUnavailable},
	"prove-second-factor":          {http.StatusBadRequest}, // the session waits for nothing
	"begin-passkey":                {http.StatusServiceUnavailable},
	"add-passkey":                  {http.StatusBadRequest},                      // the browser has no challenge
	"add-one-time-codes":           {http.StatusBadRequest},                      // the enrolment is nobody's
	"replace-recovery-codes":       {http.StatusConflict},                        // nobody here has a second factor
	"set-password":                 {http.StatusNotFound},                        // the token is nobody's
	"create-organisation-user-key": {http.StatusBadRequest},                      // there are no such keys
	"cancel-export":                {http.StatusBadRequest},                      // it is a draft
	"download-export":              {http.StatusBadRequest},                      // it is a draft
	"cancel-job":                   {http.StatusConflict},                        // it has ended
	"create-tool-sign-in-link":     {http.StatusConflict},                        // nobody signs in to the server
	"logout":                       {http.StatusBadRequest, http.StatusNotFound}, // a key has no session, and nobody here signed in
	"rotate-identity-provider-key": {http.StatusBadRequest},                      // a provider with OpenID Connect has none
}

func TestEveryRouteOpensForWhomThePageSays(t *testing.T) {
	w := newWorld(t)
	var page strings.Builder
	page.WriteString(accessHead)
	tag := ""
	for _, r := range w.Routes() {
		if r.Tag != tag {
			tag = r.Tag
			fmt.Fprintf(&page, "\n## %s\n\n| route |", tag)
			for _, k := range kinds {
				fmt.Fprintf(&page, " %s |", k.name)
			}
			page.WriteString(" nobody |\n|---|" + strings.Repeat("---|", len(kinds)+1) + "\n")
		}
		fmt.Fprintf(&page, "| `%s %s` |", r.Method, r.Path)
		for _, k := range kinds {
			fmt.Fprintf(&page, " %s |", w.outcome(t, r, k.name))
		}
		fmt.Fprintf(&page, " %s |\n", w.outcome(t, r, ""))
	}
	if *update {
		if err := os.WriteFile(accessPage, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(accessPage)
	if err != nil {
		t.Fatal(err)
	}
	if page.String() != string(want) {
		t.Errorf("docs/access.md is not what the routes do; run this test with -update, and check every line that changes\n%s", changed(string(want), page.String()))
	}
}

// outcome is what the sample of a route comes to for a caller. The world is put
// back afterwards.
func (w *world) outcome(t *testing.T, r *route.Route, caller string) string {
	t.Helper()
	path, body := w.request(r)
	a := w.CallerOf(caller).Call(r.Method, path, body)
	if r.Method != http.MethodGet && a.Status == http.StatusOK {
		w.restore()
	}
	if slices.Contains(odd[r.Name], a.Status) {
		return "yes"
	}
	if word, ok := words[a.Status]; ok {
		return word
	}
	t.Errorf("%s %s for %q: %d %s; the sample %s is wrong, or the route", r.Method, path, caller, a.Status, a.Body, r.Name)
	return "?"
}

// changed returns the lines of b that a has not, and of a that b has not.
func changed(a, b string) string {
	var out strings.Builder
	for _, side := range [][3]string{{"+ ", a, b}, {"- ", b, a}} {
		had := make(map[string]bool)
		for line := range strings.Lines(side[1]) {
			had[line] = true
		}
		for line := range strings.Lines(side[2]) {
			if !had[line] {
				out.WriteString(side[0] + line)
			}
		}
	}
	return out.String()
}

const accessHead = `# Access matrix

<!-- Generated from the routes by go test ./internal/controlplane -run Page -update. Do not edit. -->

Look up who may call a route of the control plane. Each result comes from a real call, by a
caller with all scopes that its kind can have, in an organisation with one object of each kind.
A key with fewer scopes may do less; ` + "`/openapi.json`" + ` names the scope that a route needs.

| result | meaning |
|---|---|
| **yes** | the request is served |
| **no** | 403 with the code AB03 |
| **absent** | 404: the caller cannot see the object |
| **key** | 401: a key or session is required |

| caller | meaning |
|---|---|
| owner, admin | of the organisation |
| workspace admin, manager, member | members of the organisation with that role in the workspace |
| keys | of the organisation, of a workspace, and a user key of a member; "no scopes" is an organisation key without any |
| token | a JSON Web Token of another issuer, which acts as a workspace key |

An organisation can change what managers and members may do; the table shows the default. See [roles](roles.md).
`
