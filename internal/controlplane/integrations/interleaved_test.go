package integrations_test

import (
	"strings"
	"testing"

	"modelgate/internal/controlplane/integrations"
	"modelgate/internal/controlplane/providers"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/testing/routetest"
)

func TestCredentialsThatWereChangedConcurrentlyAreNotMixed(t *testing.T) {
	b := bench(t)
	var do func()
	d := b.Deps
	d.Secrets = routetest.Interleaved{Sealer: d.Secrets, Do: &do}
	b.API = route.New(d)
	integrations.Add(b.API)
	providers.Add(b.API)
	c := b.Root()
	m := create(t, c, `,"slug":"main"`)
	var vk struct{ Data struct{ Slug string } }
	c.Must("POST", "/virtual-keys", `{"name":"vk","provider":"bedrock","key":"some-key-of-length","region":"eu-west-1"}`, &vk)
	model := func(value string) string {
		return `{"models":[{"slug":"m","enabled":true,"is_custom":true,"configurations":{"custom_headers":{"X":"` + value + `"}}}]}`
	}
	c.Must("PUT", "/integrations/main/models", model("first"), nil)
	for _, tt := range []struct{ path, first, second string }{
		{"/integrations/main", `{"key":"the-key-of-the-first"}`, `{"configurations":{"custom_headers":{"X":"y"}}}`},
		{"/integrations/main/models", model("one-of-the-first"), model("another")},
		{"/virtual-keys/" + vk.Data.Slug, `{"region":"us-west-2"}`, `{"key":"the-key-of-the-second"}`},
	} {
		do = func() { c.Must("PUT", tt.path, tt.first, nil) }
		wantRefused(t, tt.path, c.Call("PUT", tt.path, tt.second), 409, "AB07")
	}
	if got := reveal(t, b, m.ID); got != `{"key":"the-key-of-the-first"}` {
		t.Errorf("sealed is %s", got)
	}
	do = func() { c.Must("PUT", "/integrations/main", `{"name":"other","description":"d"}`, nil) }
	c.Must("PUT", "/integrations/main", `{"key":"the-key-of-the-second","description":"e"}`, nil)
	if got := read(t, c, "main"); got.Name != "other" || got.Description != "e" || !strings.HasPrefix(got.MaskedKey, "th") {
		t.Errorf("changes of different fields: %+v", got)
	}
}
