package security

import (
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

func TestMintedKeysLoseTheScopesThatTheirMakerLoses(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, o options) {
		g := launch(t, o)
		maker := g.mint(t, rootKey, words(makes), "")
		child := g.mint(t, maker.secret, `["models.list","logs.list","configs.read","workspace_service_api_keys.create"]`, "")
		grandchild := g.mint(t, child.secret, `["models.list","logs.list","configs.read"]`, "")
		for _, k := range []made{child, grandchild} {
			g.as(t, k.secret, "GET", "/v1/logs", "").ok(t)
			g.as(t, k.secret, "GET", "/v1/auth/me", "").ok(t)
		}
		g.as(t, rootKey, "PUT", "/v1/api-keys/"+maker.id, `{"scopes":["models.list","workspace_service_api_keys.create"]}`).ok(t)
		for name, k := range map[string]made{"a child": child, "a grandchild": grandchild} {
			attack(t, "escalation", name+" does not keep a scope that its maker lost", func(t *testing.T) {
				waittest.Until(t, "the scope is lost", func() bool { return g.as(t, k.secret, "GET", "/v1/logs", "").status == http.StatusForbidden })
				g.as(t, k.secret, "GET", "/v1/models", "").ok(t)
			})
			attack(t, "escalation", name+" is introspected with the scopes that it has left", func(t *testing.T) {
				r := g.as(t, rootKey, "POST", "/v1/oauth/introspect", `{"token":"`+k.secret+`"}`).ok(t)
				if got := r.text(t, "scope"); strings.Contains(got, "logs.list") || !strings.Contains(got, "models.list") {
					t.Errorf("scope %q", got)
				}
			})
		}
		attack(t, "escalation", "a key does not keep a scope that its maker, an organisation's key, lost", func(t *testing.T) {
			r := g.as(t, rootKey, "POST", "/v1/api-keys/organisation/service", `{"name":"k","scopes":["logs.list","workspace_service_api_keys.create"]}`).ok(t)
			made := g.mint(t, r.text(t, "key"), `["models.list","logs.list"]`, "")
			g.as(t, made.secret, "GET", "/v1/logs", "").ok(t)
			g.as(t, rootKey, "PUT", "/v1/api-keys/"+r.text(t, "id"), `{"scopes":["workspace_service_api_keys.create"]}`).ok(t)
			waittest.Until(t, "the scope is lost", func() bool { return g.as(t, made.secret, "GET", "/v1/logs", "").status == http.StatusForbidden })
			g.as(t, made.secret, "GET", "/v1/models", "").ok(t) // a scope that organisation keys can't have themselves
		})
		attack(t, "escalation", "a key is not given a scope that the key which made it lacks", func(t *testing.T) {
			g.as(t, rootKey, "PUT", "/v1/api-keys/"+child.id, `{"scopes":["models.list","logs.list","configs.read","providers.read","workspace_service_api_keys.create"]}`).refused(t, http.StatusForbidden, "providers.read")
		})
		attack(t, "escalation", "a scope that the maker gets back is the child's again", func(t *testing.T) {
			g.as(t, rootKey, "PUT", "/v1/api-keys/"+maker.id, `{"scopes":["models.list","logs.list"]}`).ok(t)
			waittest.Until(t, "the scope is back", func() bool { return g.as(t, grandchild.secret, "GET", "/v1/logs", "").status == http.StatusOK })
		})
	})
}

func TestKeysOfAMakerEndAtOnce(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, o options) {
		g := launch(t, o)
		owner := g.organisation(t, "second")
		manager := g.member(t, "manager", "member", `[{"id":"default","role":"manager"}]`)
		id := g.userID(t, manager)
		first, second := g.mint(t, manager, `["models.list","workspace_service_api_keys.create"]`, ""), g.mint(t, manager, `["models.list"]`, "")
		below := g.mint(t, first.secret, `["models.list"]`, "")
		attack(t, "isolation", "another organisation neither lists nor ends the keys that somebody made", func(t *testing.T) {
			for _, by := range []string{id, "%25", "_", ""} {
				if got := g.as(t, owner, "GET", "/v1/api-keys?created_by="+by, ""); strings.Contains(string(got.body), first.id) {
					t.Errorf("created_by=%s lists %s", by, got.body)
				}
				g.as(t, owner, "DELETE", "/v1/api-keys?created_by="+by, "")
			}
			g.as(t, first.secret, "GET", "/v1/models", "").ok(t)
		})
		attack(t, "escalation", "a pattern in place of a maker finds no key of one's own organisation", func(t *testing.T) {
			for _, by := range []string{"%25", "_", id[:8] + "%25", "!%25"} {
				if got := g.as(t, rootKey, "GET", "/v1/api-keys?created_by="+by, ""); strings.Contains(string(got.body), first.id) {
					t.Errorf("created_by=%s lists %s", by, got.body)
				}
				g.as(t, rootKey, "DELETE", "/v1/api-keys?created_by="+by, "")
			}
			g.as(t, first.secret, "GET", "/v1/models", "").ok(t)
		})
		attack(t, "escalation", "a member does not end the keys of services", func(t *testing.T) {
			member := g.member(t, "member", "member", `[{"id":"default","role":"member"}]`)
			g.as(t, member, "DELETE", "/v1/api-keys?created_by="+id, "").ok(t)
			g.as(t, first.secret, "GET", "/v1/models", "").ok(t)
		})
		attack(t, "tokens", "a manager who is demoted leaves service keys, which one request ends", func(t *testing.T) {
			g.as(t, rootKey, "PUT", "/v1/workspaces/default/users/"+id, `{"role":"member"}`).ok(t)
			g.as(t, first.secret, "GET", "/v1/models", "").ok(t)
			if got := string(g.as(t, rootKey, "GET", "/v1/api-keys?created_by="+id, "").ok(t).body); !strings.Contains(got, first.id) || !strings.Contains(got, second.id) || strings.Contains(got, below.id) {
				t.Errorf("listed: %s", got)
			}
			g.as(t, rootKey, "DELETE", "/v1/api-keys?created_by="+id, "").ok(t)
			for _, k := range []made{first, second, below} {
				waittest.Until(t, "the key has ended", func() bool { return g.as(t, k.secret, "GET", "/v1/models", "").status == http.StatusUnauthorized })
			}
		})
	})
}

func TestCappedPeopleMakeNoUncappedKeys(t *testing.T) {
	t.Parallel()
	g, p := launch(t, options{}), newProvider(t, nil)
	manager := g.member(t, "manager", "member", `[{"id":"default","role":"manager"}]`)
	own := g.personKey(t, rootKey, g.userID(t, manager), `,"usage_limits":{"credit_limit":100,"type":"tokens"}`)
	free := g.mint(t, rootKey, `["completions.write"]`, "")
	attack(t, "escalation", "a capped manager can't make a service key with a larger budget", func(t *testing.T) {
		g.as(t, manager, "POST", "/v1/api-keys/workspace/service", `{"name":"k","workspace_id":"default","scopes":["completions.write"],"usage_limits":{"credit_limit":101,"type":"tokens"}}`).
			refused(t, http.StatusForbidden, "AB03", "usage_limits", "credit_limit is 100")
	})
	attack(t, "escalation", "a capped manager can't get the secret of a service key without a budget", func(t *testing.T) {
		g.as(t, manager, "POST", "/v1/api-keys/"+free.id+"/rotate", "{}").refused(t, http.StatusForbidden, "AB03", "100")
	})
	attack(t, "escalation", "what a capped manager's service key spends is spent for all that they make", func(t *testing.T) {
		k := g.mint(t, manager, `["completions.write"]`, "")
		g.ask(t, k, p).ok(t)
		g.spend(t, k, p)
		g.ask(t, g.mint(t, manager, `["completions.write"]`, ""), p).refused(t, http.StatusPreconditionFailed)
		waittest.Until(t, "the manager's own key is exhausted", func() bool { return g.ask(t, own, p).status == http.StatusPreconditionFailed })
		g.ask(t, free, p).ok(t)
	})
}
