package secrets_test

import (
	"context"
	"strings"
	"testing"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/controlplane/route/routetest"
	"modelgate/internal/controlplane/secrets"
	"modelgate/internal/secret"
)

// interleaved does something else whenever a secret is sealed.
type interleaved struct {
	route.Sealer
	do *func()
}

func (m interleaved) Seal(ctx context.Context, organisation string, s secret.String) (string, error) {
	if do := *m.do; do != nil {
		*m.do = nil
		do()
	}
	return m.Sealer.Seal(ctx, organisation, s)
}

func TestChangesOfAReferenceDoNotMix(t *testing.T) {
	var do func()
	c := routetest.New(t, func(a *route.API) { a.Secrets = interleaved{a.Secrets, &do}; secrets.Add(a) }).Root()
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
