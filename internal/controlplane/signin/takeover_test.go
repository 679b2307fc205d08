package signin_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"modelgate/internal/testing/samltest"
)

// TestAnotherKeySpeaksForNoOwner: admins enter the keys of a provider with SAML, and must not
// become owners with one of their own.
func TestAnotherKeySpeaksForNoOwner(t *testing.T) {
	for name, change := range map[string]func(w *samlWorld) string{
		"metadata": func(w *samlWorld) string { return w.Metadata() },
		"address": func(w *samlWorld) string {
			w.metadata = w.Metadata()
			return ""
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSAMLWorld(t)
			signIn := func(role string, want int) {
				t.Helper()
				w.Exec(`UPDATE organisation_members SET role = $1`, role)
				if a := w.browser().signIn(); a.Status != want {
					t.Fatalf("%s: %d %s", role, a.Status, w.reason())
				}
			}
			signIn("member", http.StatusSeeOther)
			replace := func() {
				t.Helper()
				w.Provider = samltest.New(t, "https://login.example.com")
				body := `{"metadata_url":"` + metadataURL + `/` + string(rune('a'+w.reads)) + `"}`
				if text := change(w); text != "" {
					quoted, err := json.Marshal(text)
					if err != nil {
						t.Fatal(err)
					}
					body = `{"metadata":` + string(quoted) + `}`
				}
				w.root.Must("PUT", "/identity-providers/"+w.id, body, nil)
			}
			replace()
			signIn("admin", http.StatusSeeOther)
			w.Exec(`UPDATE organisation_members SET role = 'owner'`)
			replace()
			if n := w.sessions(); n != 0 {
				t.Errorf("%d sessions of the owner go on", n)
			}
			signIn("owner", http.StatusForbidden)
			if got := w.reason(); got != "owner_must_link" {
				t.Errorf("the reason is %q", got)
			}
		})
	}
}
