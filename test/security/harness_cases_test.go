package security

import (
	"net/http"
	"testing"

	"modelgate/internal/testing/waittest"
)

// TestKeysOfOneOrganisationReadNothingOfAnother shows what the suite relies on:
// a second organisation, keys of both, and the provider behind them.
func TestKeysOfOneOrganisationReadNothingOfAnother(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, o options) {
		g, p := launch(t, o), newProvider(t, nil)
		owner := g.organisation(t, "second")
		scopes := []string{"completions.write", "logs.list", "logs.view"}
		ours, theirs := g.key(t, rootKey, "default", scopes, ""), g.key(t, owner, "default", scopes, "")
		id := g.do(t, "POST", "/v1/chat/completions", chatBody, toCustomHost(theirs, p)...).ok(t).header.Get("x-gateway-request-id")
		waittest.Until(t, "the request is in its owner's log", func() bool {
			return g.as(t, theirs, "GET", "/v1/logs/"+id, "").status == http.StatusOK
		})
		for _, path := range []string{"/v1/logs/" + id, "/v1/explain/" + id, "/v1/logs/" + id + "?workspace_id=default"} {
			attack(t, "isolation", "reads "+path[:9]+" of another organisation", func(t *testing.T) {
				if got := g.as(t, ours, "GET", path, ""); got.status == http.StatusOK {
					t.Errorf("GET %s of another organisation = 200: %.300s", path, got.body)
				}
			})
		}
	})
}
