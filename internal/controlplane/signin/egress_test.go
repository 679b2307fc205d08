package signin_test

import (
	"net/http"
	"testing"

	"modelgate/internal/base/egress"
	"modelgate/internal/store"
)

func TestEgressPolicyOfTheOrganisationCoversItsProviders(t *testing.T) {
	w := newWorld(t)
	allowed := egress.Hosts{"https://*.example.org"}
	w.API.Egress = func(organisation, workspace string) *egress.Policies {
		if organisation != store.DefaultOrganisation || workspace != "" {
			t.Errorf("asked for the policy of %q, %q", organisation, workspace)
		}
		return &egress.Policies{Organisation: &egress.Policy{CustomHosts: allowed}}
	}
	path := "/auth/sso/" + w.id
	if a := w.browser().open(path); a.Status != http.StatusBadGateway || len(w.Starts()) != 0 {
		t.Errorf("a sign-in began: %d %s", a.Status, a.Body)
	}
	body := `{"name":"n","slug":"n","issuer":"` + w.URL + `","client_id":"c","client_secret":"s"}`
	if a := w.root.Call("POST", "/identity-providers", body); a.Status != http.StatusBadRequest {
		t.Errorf("a provider that is not allowed was stored: %d %s", a.Status, a.Body)
	}
	var tested struct {
		OK    bool
		Steps []struct{ Name, Outcome string }
	}
	w.root.Must("POST", "/identity-providers/"+w.id+"/test", "", &tested)
	if n := len(tested.Steps); tested.OK || tested.Steps[n-1].Name != "egress" || tested.Steps[n-1].Outcome != "failed" {
		t.Errorf("the test says %+v", tested)
	}
	allowed = append(allowed, "https://login.example.com")
	if a := w.browser().open(path); a.Status != http.StatusFound {
		t.Errorf("an allowed provider: %d %s", a.Status, a.Body)
	}
}
