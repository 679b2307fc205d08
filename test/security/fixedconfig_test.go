package security

import (
	"net/http"
	"strings"
	"testing"
)

func TestFixedConfigNeedsAConfig(t *testing.T) {
	t.Parallel()
	g, _ := start(t)
	slug := g.config(t, `{"provider":"@stored"}`)
	for _, c := range []struct{ name, kind, defaults string }{
		{"a key that fixes no config", "workspace/service", `{"allow_config_override":false}`},
		{"a key that fixes an empty config", "workspace/service", `{"allow_config_override":false,"config_id":""}`},
		{"a key that fixes the config null", "workspace/service", `{"allow_config_override":false,"config_id":null}`},
		{"an organisation's key that fixes no config", "organisation/service", `{"allow_config_override":false}`},
	} {
		attack(t, "escalation", c.name+" is refused", func(t *testing.T) {
			scopes, place := `["models.list"]`, `"workspace_id":"default",`
			if strings.HasPrefix(c.kind, "organisation") {
				scopes, place = `["organisation_users.read"]`, ""
			}
			g.as(t, rootKey, "POST", "/v1/api-keys/"+c.kind, `{"name":"k",`+place+`"scopes":`+scopes+`,"defaults":`+c.defaults+`}`).
				refused(t, http.StatusBadRequest, "defaults.allow_config_override", "config_id")
		})
	}
	attack(t, "escalation", "a change that fixes no config is refused", func(t *testing.T) {
		k := g.mint(t, rootKey, `["models.list"]`, "")
		g.as(t, rootKey, "PUT", "/v1/api-keys/"+k.id, `{"defaults":{"allow_config_override":false}}`).refused(t, http.StatusBadRequest, "defaults.allow_config_override")
		g.as(t, rootKey, "PUT", "/v1/api-keys/"+k.id, `{"defaults":{"allow_config_override":false,"config_id":"`+slug+`"}}`).ok(t)
	})
}

func TestKeysFixedToAConfigCannotRewriteIt(t *testing.T) {
	t.Parallel()
	g := launch(t, options{})
	manager := g.member(t, "manager", "member", `[{"id":"default","role":"manager"}]`)
	other := g.member(t, "other", "member", `[{"id":"default","role":"manager"}]`)
	admin := g.member(t, "admin", "member", `[{"id":"default","role":"admin"}]`)
	for _, c := range []struct{ name, by, who string }{
		{"a manager whom the operator fixed", rootKey, manager},
		{"a manager whom an admin fixed", admin, manager},
		{"a manager whom another manager fixed", other, manager},
		{"an admin whom the operator fixed", rootKey, admin},
	} {
		attack(t, "escalation", c.name+" to a config can't rewrite it", func(t *testing.T) {
			slug := g.config(t, `{"retry":{"attempts":1}}`)
			g.personKey(t, c.by, g.userID(t, c.who), `,"defaults":{"config_id":"`+slug+`","allow_config_override":false}`)
			g.as(t, c.who, "PUT", "/v1/configs/"+slug+"?workspace_id=default", `{"config":{"retry":{"attempts":2}}}`).refused(t, http.StatusForbidden, "config", "fixed")
			g.as(t, rootKey, "PUT", "/v1/configs/"+slug+"?workspace_id=default", `{"config":{"retry":{"attempts":2}}}`).ok(t)
		})
	}
	attack(t, "escalation", "a manager can rewrite a config that their key does not fix, and one that a deleted key fixed", func(t *testing.T) {
		put := func(who, slug string) response {
			return g.as(t, who, "PUT", "/v1/configs/"+slug+"?workspace_id=default", `{"config":{"retry":{"attempts":3}}}`)
		}
		loose, fixed, another := g.config(t, `{"retry":{"attempts":1}}`), g.config(t, `{"retry":{"attempts":1}}`), g.config(t, `{"retry":{"attempts":1}}`)
		standard := g.member(t, "standard", "member", `[{"id":"default","role":"manager"}]`)
		g.personKey(t, rootKey, g.userID(t, standard), `,"defaults":{"config_id":"`+loose+`"}`)
		put(standard, loose).ok(t)
		bound := g.member(t, "bound", "member", `[{"id":"default","role":"manager"}]`)
		k := g.personKey(t, rootKey, g.userID(t, bound), `,"defaults":{"config_id":"`+fixed+`","allow_config_override":false}`)
		put(bound, another).ok(t)
		put(bound, fixed).refused(t, http.StatusForbidden, "fixed")
		g.as(t, rootKey, "DELETE", "/v1/api-keys/"+k.id, "").ok(t)
		put(bound, fixed).ok(t)
		self := g.member(t, "self", "member", `[{"id":"default","role":"manager"}]`)
		k = g.personKey(t, self, g.userID(t, self), `,"defaults":{"config_id":"`+another+`","allow_config_override":false}`)
		g.as(t, rootKey, "PUT", "/v1/api-keys/"+k.id, `{"usage_limits":{"credit_limit":5}}`).ok(t) // a budget is not the config
		put(self, another).ok(t)
	})
	attack(t, "escalation", "a manager can rewrite a config that is fixed for others, or by themselves", func(t *testing.T) {
		free := g.member(t, "free", "member", `[{"id":"default","role":"manager"}]`) // the others are fixed to configs by now
		slug := g.config(t, `{"retry":{"attempts":1}}`)
		g.personKey(t, free, g.userID(t, other), `,"defaults":{"config_id":"`+slug+`","allow_config_override":false}`)
		g.as(t, free, "PUT", "/v1/configs/"+slug+"?workspace_id=default", `{"config":{"retry":{"attempts":2}}}`).ok(t)
	})
}
