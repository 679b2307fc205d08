package security

import (
	"net/http"
	"testing"
)

func TestSecretsOfHigherKeysStayWithThem(t *testing.T) {
	t.Parallel()
	g := launch(t, options{})
	manager := g.member(t, "manager", "member", `[{"id":"default","role":"manager"}]`)
	workspaceAdmin := g.member(t, "wadmin", "member", `[{"id":"default","role":"admin"}]`)
	admin := g.member(t, "admin", "admin", `[]`)
	const lifts = `["completions.write","workspace_user_api_keys.read","workspace_user_api_keys.update","workspace_user_api_keys.rotate"]`
	for _, c := range []struct{ name, maker, kind string }{
		{"a service key that the operator made", rootKey, "service"},
		{"a service key that a workspace admin made", workspaceAdmin, "service"},
		{"a workspace admin's own key", workspaceAdmin, "user"},
		{"an admin's own key", admin, "user"},
	} {
		attack(t, "escalation", "a manager doesn't get the secret of "+c.name, func(t *testing.T) {
			scopes := lifts
			if c.kind == "user" {
				scopes = `["completions.write","providers.update"]`
			}
			r := g.as(t, c.maker, "POST", "/v1/api-keys/workspace/"+c.kind, `{"name":"k","workspace_id":"default","scopes":`+scopes+`}`).ok(t)
			g.as(t, manager, "POST", "/v1/api-keys/"+r.text(t, "id")+"/rotate", "{}").refused(t, http.StatusForbidden, "AB03", "rank")
			g.as(t, c.maker, "POST", "/v1/api-keys/"+r.text(t, "id")+"/rotate", "{}").ok(t)
		})
	}
	attack(t, "escalation", "a manager can't make a harmless key of an admin one that changes limits", func(t *testing.T) {
		k := g.mint(t, workspaceAdmin, `["completions.write"]`, "")
		g.as(t, manager, "POST", "/v1/api-keys/"+k.id+"/rotate", "{}").ok(t)
		g.as(t, manager, "PUT", "/v1/api-keys/"+k.id, `{"scopes":`+lifts+`}`).refused(t, http.StatusForbidden, "rank")
		g.as(t, manager, "PUT", "/v1/api-keys/"+k.id, `{"scopes":["completions.write","models.list"]}`).ok(t)
	})
	attack(t, "escalation", "a service key that a manager made doesn't get the secret of one that an admin made", func(t *testing.T) {
		const rotates = `["completions.write","workspace_service_api_keys.read","workspace_service_api_keys.rotate"]`
		low, high := g.mint(t, manager, rotates, ""), g.mint(t, workspaceAdmin, rotates, "")
		g.as(t, low.secret, "POST", "/v1/api-keys/"+high.id+"/rotate", "{}").refused(t, http.StatusForbidden, "rank")
		g.as(t, high.secret, "POST", "/v1/api-keys/"+low.id+"/rotate", "{}").ok(t)
	})
	attack(t, "escalation", "a manager can rotate keys of managers and members", func(t *testing.T) {
		member := g.member(t, "member", "member", `[{"id":"default","role":"member"}]`)
		own := g.as(t, member, "POST", "/v1/api-keys/workspace/user", `{"name":"k","workspace_id":"default","scopes":["completions.write"]}`).ok(t).text(t, "id")
		g.as(t, manager, "POST", "/v1/api-keys/"+own+"/rotate", "{}").ok(t)
		g.as(t, manager, "POST", "/v1/api-keys/"+g.mint(t, manager, lifts, "").id+"/rotate", "{}").ok(t)
	})
}

func TestKeysForOthersRankNoHigherThanTheirMaker(t *testing.T) {
	t.Parallel()
	g := launch(t, options{})
	member := g.member(t, "member", "member", `[{"id":"default","role":"member"}]`)
	manager := g.member(t, "manager", "member", `[{"id":"default","role":"manager"}]`)
	admin := g.userID(t, g.member(t, "admin", "admin", `[]`))
	integration := g.create(t, rootKey, "/v1/integrations", `{"name":"i","slug":"i","ai_provider_id":"openai","key":"sk-x"}`, "slug")
	g.as(t, rootKey, "PUT", "/v1/integrations/i/workspaces", `{"workspaces":[{"id":"default","enabled":true}],"create_default_provider":false}`).ok(t)
	id := g.create(t, rootKey, "/v1/providers", `{"name":"limited","slug":"limited","workspace_id":"default","integration_id":"`+integration+`","usage_limits":{"credit_limit":5}}`, "id")
	service := g.mint(t, manager, `["completions.write","workspace_user_api_keys.create","providers.read","providers.update"]`, "").secret
	for _, c := range []struct{ name, maker string }{{"a manager", manager}, {"a manager's service key", service}} {
		attack(t, "escalation", c.name+" can't lift a provider's budget with a key for an admin", func(t *testing.T) {
			body := `{"name":"k","workspace_id":"default","scopes":["completions.write","providers.read","providers.update"],"user_id":"` + admin + `"}`
			key := g.create(t, c.maker, "/v1/api-keys/workspace/user", body, "key")
			g.awaitKey(t, key)
			g.as(t, key, "PUT", "/v1/providers/"+id, `{"usage_limits":{"credit_limit":5000}}`).refused(t, http.StatusForbidden, "usage_limits")
			g.as(t, key, "PUT", "/v1/providers/"+id, `{"note":"legitimate"}`).ok(t)
		})
	}
	attack(t, "escalation", "a member can't make a key for an admin", func(t *testing.T) {
		body := `{"name":"k","workspace_id":"default","scopes":["completions.write"],"user_id":"` + admin + `"}`
		g.as(t, member, "POST", "/v1/api-keys/workspace/user", body).refused(t, http.StatusForbidden, "AB03")
	})
}
