package secrets_test

import (
	"strings"
	"testing"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/controlplane/secrets"
	"modelgate/internal/testing/routetest"
)

func TestChangesOfAReferenceDoNotMix(t *testing.T) {
	var do func()
	c := routetest.New(t, func(a *route.API) {
		a.Secrets = routetest.Interleaved{Sealer: a.Secrets, Do: &do}
		secrets.Routes{}.Add(a)
	}).Root()
	c.Must("POST", "/secret-references", vault, nil)
	do = func() { c.Must("PUT", "/secret-references/v", `{"name":"theirs"}`, nil) }
	a := c.Call("PUT", "/secret-references/v", `{"name":"mine","auth_config":{"token":"another-token-4711"}}`)
	if a.Status != 409 || !strings.Contains(a.Body, "changed by another request") {
		t.Errorf("a change next to another: %d %s", a.Status, a.Body)
	}
	var got item
	c.Must("GET", "/secret-references/v", "", &got)
	if got.Name != "theirs" || got.Auth["token"] != "hv***89" {
		t.Errorf("after both %+v", got)
	}
}
