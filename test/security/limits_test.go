package security

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

// makes are scopes of a key that makes and changes other keys of its workspace.
var makes = []string{
	"completions.write", "models.list", "logs.list", "workspace_service_api_keys.create", "workspace_service_api_keys.read", "workspace_service_api_keys.list",
	"workspace_service_api_keys.update", "workspace_service_api_keys.rotate", "workspace_service_api_keys.delete", "providers.create", "providers.read",
	"providers.list", "providers.update", "providers.delete", "configs.create", "configs.read", "configs.update", "configs.delete", "prompts.create",
	"prompts.update", "prompts.publish", "workspaces.update", "workspaces.read", "workspace_users.create", "workspace_users.update",
}

// made is a key that a test made.
type made struct{ id, secret string }

// mint makes a service key of the default workspace as token. More are further
// members of the body.
func (g *gateway) mint(t *testing.T, token, scopes, more string) made {
	t.Helper()
	r := g.as(t, token, "POST", "/v1/api-keys/workspace/service", `{"name":"k","workspace_id":"default","scopes":`+scopes+more+`}`).ok(t)
	k := made{r.text(t, "id"), r.text(t, "key")}
	g.awaitKey(t, k.secret)
	return k
}

// personKey makes a person's own key in the default workspace as token.
func (g *gateway) personKey(t *testing.T, token, user, more string) made {
	t.Helper()
	r := g.as(t, token, "POST", "/v1/api-keys/workspace/user", fmt.Sprintf(`{"name":"own","workspace_id":"default","scopes":["completions.write","models.list"],"user_id":%q%s}`, user, more)).ok(t)
	return made{r.text(t, "id"), r.text(t, "key")}
}

func words(list []string) string {
	b, _ := json.Marshal(list)
	return string(b)
}

// userID returns the id of the person of a session.
func (g *gateway) userID(t *testing.T, session string) string {
	t.Helper()
	return g.as(t, session, "GET", "/v1/auth/me", "").ok(t).text(t, "user_id")
}

// config saves a config in the default workspace and returns its slug.
func (g *gateway) config(t *testing.T, text string) string {
	t.Helper()
	return g.create(t, rootKey, "/v1/configs", `{"name":"c","workspace_id":"default","config":`+text+`}`, "data.slug")
}

const far = "2090-01-01T00:00:00Z"

func TestKeysDoNotLiftTheirOwnLimits(t *testing.T) {
	t.Parallel()
	g, _ := start(t)
	fixed := g.config(t, `{"provider":"@stored","retry":{"attempts":1}}`)
	limits := `,"usage_limits":{"credit_limit":5,"alert_threshold":1},"expires_at":"2080-01-01T00:00:00Z","defaults":{"config_id":"` + fixed + `","allow_config_override":false,"request_logging":"none","metadata":{"team":"a"}}`
	capped := g.mint(t, rootKey, words(makes), limits)
	child := g.mint(t, capped.secret, words(makes), "")
	for _, c := range []struct{ name, body, field string }{
		{"raise the budget", `{"usage_limits":{"credit_limit":500}}`, "usage_limits"},
		{"remove the budget", `{"usage_limits":null}`, "usage_limits"},
		{"lower the budget to set it again", `{"usage_limits":{"credit_limit":1}}`, "usage_limits"},
		{"change the type of the budget", `{"usage_limits":{"credit_limit":5000000,"type":"tokens"}}`, "usage_limits"},
		{"reset the budget by a period", `{"usage_limits":{"credit_limit":5,"alert_threshold":1,"periodic_reset":"weekly"}}`, "usage_limits"},
		{"reset the budget by a day", `{"usage_limits":{"credit_limit":5,"alert_threshold":1,"next_usage_reset_at":"2079-01-01"}}`, "usage_limits"},
		{"silence the warning", `{"usage_limits":{"credit_limit":5}}`, "usage_limits"},
		{"start the count again", `{"reset_usage":true}`, "usage_limits"},
		{"remove the end", `{"expires_at":null}`, "expires_at"},
		{"move the end", `{"expires_at":"` + far + `"}`, "expires_at"},
		{"remove the fixed config", `{"defaults":null}`, "defaults"},
		{"allow other configs", `{"defaults":{"config_id":"` + fixed + `","allow_config_override":true,"request_logging":"none","metadata":{"team":"a"}}}`, "defaults"},
		{"log more", `{"defaults":{"config_id":"` + fixed + `","allow_config_override":false,"request_logging":"full","metadata":{"team":"a"}}}`, "request_logging"},
		{"bill another team", `{"defaults":{"config_id":"` + fixed + `","allow_config_override":false,"request_logging":"none","metadata":{"team":"b"}}}`, "metadata"},
	} {
		attack(t, "escalation", "a key can't "+c.name+" of itself", func(t *testing.T) {
			g.as(t, capped.secret, "PUT", "/v1/api-keys/"+capped.id, c.body).refused(t, http.StatusForbidden, c.field)
		})
		attack(t, "escalation", "a minted key can't "+c.name+" of its maker", func(t *testing.T) {
			g.as(t, child.secret, "PUT", "/v1/api-keys/"+capped.id, c.body).refused(t, http.StatusForbidden, c.field)
		})
	}
	attack(t, "escalation", "the limits of a key are as before", func(t *testing.T) {
		body := string(g.as(t, rootKey, "GET", "/v1/api-keys/"+capped.id, "").ok(t).body)
		for _, want := range []string{`"credit_limit":5,`, `"alert_threshold":1,`, `"last_reset_at":null`, `"expires_at":"2080-01-01T00:00:00.000Z"`, `"allow_config_override":false`, `"request_logging":"none"`, `"team":"a"`} {
			if !strings.Contains(body, want) {
				t.Errorf("the key lacks %s: %s", want, body)
			}
		}
	})
	attack(t, "escalation", "a key can't lift a limit of itself that a lower rank set, nor can one that it minted", func(t *testing.T) {
		k := g.mint(t, rootKey, words(makes), "")
		minted := g.mint(t, k.secret, words(makes), "")
		manager := g.member(t, "limiting-manager", "member", `[{"id":"default","role":"manager"}]`)
		g.as(t, manager, "PUT", "/v1/api-keys/"+k.id, `{"usage_limits":{"credit_limit":5},"rate_limits":[{"type":"requests","unit":"rpd","value":9}]}`).ok(t)
		for _, secret := range []string{k.secret, minted.secret} {
			for field, body := range map[string]string{"usage_limits": "null", "rate_limits": "[]"} {
				g.as(t, secret, "PUT", "/v1/api-keys/"+k.id, fmt.Sprintf(`{%q:%s}`, field, body)).refused(t, http.StatusForbidden, field)
			}
		}
	})
	attack(t, "escalation", "the operator can change the limits of a key", func(t *testing.T) {
		k := g.mint(t, rootKey, `["models.list"]`, `,"usage_limits":{"credit_limit":5}`)
		g.as(t, rootKey, "PUT", "/v1/api-keys/"+k.id, `{"usage_limits":{"credit_limit":50},"reset_usage":true,"expires_at":"`+far+`"}`).ok(t)
	})
}

func TestMintedKeysAreNotWiderThanTheirMaker(t *testing.T) {
	t.Parallel()
	g, _ := start(t)
	fixed, other := g.config(t, `{"provider":"@stored","retry":{"attempts":1}}`), g.config(t, `{"provider":"@stored"}`)
	maker := g.mint(t, rootKey, words(makes), `,"usage_limits":{"credit_limit":5},"expires_at":"2080-01-01T00:00:00Z","defaults":{"config_id":"`+fixed+`","allow_config_override":false,"request_logging":"none","metadata":{"team":"a"}}`)
	middle := g.mint(t, maker.secret, words(makes), "")
	for _, from := range []struct {
		name string
		made
	}{{"a key", maker}, {"a minted key", middle}} {
		for _, c := range []struct{ name, more, field string }{
			{"a later end", `,"expires_at":"` + far + `"`, "expires_at"},
			{"a larger budget", `,"usage_limits":{"credit_limit":6}`, "usage_limits"},
			{"another config", `,"defaults":{"config_id":"` + other + `","allow_config_override":false}`, "config_id"},
			{"a config that is not fixed", `,"defaults":{"config_id":"` + fixed + `","allow_config_override":true}`, "config_id"},
			{"a config that is free", `,"defaults":{"allow_config_override":true}`, "config_id"},
			{"more logging", `,"defaults":{"request_logging":"full"}`, "request_logging"},
			{"metadata of another team", `,"defaults":{"metadata":{"team":"b"}}`, "metadata"},
		} {
			if from.name == "a minted key" && c.field == "usage_limits" {
				continue // it has no budget of its own: that of its maker counts
			}
			attack(t, "escalation", from.name+" can't mint one with "+c.name, func(t *testing.T) {
				g.as(t, from.secret, "POST", "/v1/api-keys/workspace/service", `{"name":"k","scopes":["completions.write"]`+c.more+`}`).refused(t, http.StatusForbidden, c.field)
			})
		}
		attack(t, "escalation", from.name+" can't mint one with a scope that it lacks", func(t *testing.T) {
			g.as(t, from.secret, "POST", "/v1/api-keys/workspace/service", `{"name":"k","scopes":["logs.view"]}`).refused(t, http.StatusForbidden, "scopes")
		})
		attack(t, "escalation", from.name+" mints one that inherits its limits", func(t *testing.T) {
			k := g.mint(t, from.secret, `["completions.write"]`, "")
			body := string(g.as(t, rootKey, "GET", "/v1/api-keys/"+k.id, "").ok(t).body)
			for _, want := range []string{`"expires_at":"2080-01-01T00:00:00.000Z"`, `"config_id":"` + fixed + `"`, `"allow_config_override":false`, `"request_logging":"none"`, `"team":"a"`} {
				if !strings.Contains(body, want) {
					t.Errorf("the minted key lacks %s: %s", want, body)
				}
			}
		})
	}
	narrow := g.mint(t, rootKey, words(makes), `,"rate_limits":[{"type":"requests","unit":"rph","value":1000}]`)
	for name, rates := range map[string]string{
		"a higher rate":        `[{"type":"requests","unit":"rph","value":1001}]`,
		"another rate instead": `[{"type":"tokens","unit":"rph","value":1}]`,
	} {
		attack(t, "escalation", "a key can't mint one with "+name, func(t *testing.T) {
			g.as(t, narrow.secret, "POST", "/v1/api-keys/workspace/service", `{"name":"k","scopes":["completions.write"],"rate_limits":`+rates+`}`).refused(t, http.StatusForbidden, "rate_limits")
		})
	}
	free := g.mint(t, rootKey, `["completions.write","models.list"]`, "")
	attack(t, "escalation", "a limited key can't get the secret of a key without its limits", func(t *testing.T) {
		g.as(t, maker.secret, "POST", "/v1/api-keys/"+free.id+"/rotate", "").refused(t, http.StatusForbidden, "AB03")
		g.awaitKey(t, free.secret)
	})
	attack(t, "escalation", "a minted key can't get the secret of its maker", func(t *testing.T) {
		g.as(t, middle.secret, "POST", "/v1/api-keys/"+maker.id+"/rotate", "").refused(t, http.StatusForbidden, "AB03")
	})
	attack(t, "escalation", "a key with a budget can't raise the budget of another key", func(t *testing.T) {
		k := g.mint(t, rootKey, `["completions.write"]`, `,"usage_limits":{"credit_limit":1}`)
		g.as(t, maker.secret, "PUT", "/v1/api-keys/"+k.id, `{"usage_limits":{"credit_limit":4}}`).refused(t, http.StatusForbidden, "usage_limits")
	})
	for _, c := range []struct{ name, method, path, body string }{
		{"change the config", "PUT", "/v1/configs/" + fixed, `{"config":{"provider":"@stored"}}`},
		{"archive the config", "PUT", "/v1/configs/" + fixed, `{"status":"archived"}`},
		{"delete the config", "DELETE", "/v1/configs/" + fixed, ``},
		{"publish a prompt that the config may name", "PUT", "/v1/prompts/any/makeDefault", `{"version":1}`},
	} {
		attack(t, "escalation", "a key with a fixed config can't "+c.name, func(t *testing.T) {
			g.as(t, maker.secret, c.method, c.path, c.body).refused(t, http.StatusForbidden, "fixed")
			g.as(t, middle.secret, c.method, c.path, c.body).refused(t, http.StatusForbidden, "fixed")
		})
	}
}

func TestKeysEndWithTheKeyThatMadeThem(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, o options) {
		g := launch(t, o)
		chain := func() (maker, child, grandchild made) {
			maker = g.mint(t, rootKey, words(makes), "")
			child = g.mint(t, maker.secret, words(makes), "")
			return maker, child, g.mint(t, child.secret, words(makes), "")
		}
		dead := func(t *testing.T, k made) {
			t.Helper()
			waittest.Until(t, "the minted key is refused", func() bool { return g.as(t, k.secret, "GET", "/v1/models", "").status == http.StatusUnauthorized })
		}
		attack(t, "tokens", "revoking a key revokes what it made", func(t *testing.T) {
			maker, child, grandchild := chain()
			g.as(t, rootKey, "DELETE", "/v1/api-keys/"+maker.id, "").ok(t)
			dead(t, child)
			dead(t, grandchild)
		})
		attack(t, "tokens", "a key that deletes itself takes its children along", func(t *testing.T) {
			maker, child, _ := chain()
			g.as(t, maker.secret, "DELETE", "/v1/api-keys/"+maker.id, "").ok(t)
			dead(t, child)
		})
		attack(t, "tokens", "a key or what it made can't let its children outlive it", func(t *testing.T) {
			maker, child, _ := chain()
			g.as(t, maker.secret, "DELETE", "/v1/api-keys/"+maker.id+"?keep_made=true", "").refused(t, http.StatusForbidden, "keep_made")
			g.as(t, child.secret, "DELETE", "/v1/api-keys/"+maker.id+"?keep_made=true", "").refused(t, http.StatusForbidden, "keep_made")
			g.as(t, rootKey, "DELETE", "/v1/api-keys/"+maker.id+"?keep_made=true", "").ok(t)
			dead(t, maker)
			g.as(t, child.secret, "GET", "/v1/models", "").ok(t)
		})
		attack(t, "tokens", "a shorter life of a key shortens those that it made", func(t *testing.T) {
			maker, child, grandchild := chain()
			g.expire(t, maker.id)
			dead(t, child)
			dead(t, grandchild)
			g.as(t, rootKey, "PUT", "/v1/api-keys/"+maker.id, `{"expires_at":null}`).ok(t)
			g.awaitKey(t, child.secret)
		})
		attack(t, "tokens", "an archived workspace takes all of its keys along", func(t *testing.T) {
			w := g.create(t, rootKey, "/v1/admin/workspaces", `{"name":"Gone"}`, "id")
			r := g.as(t, rootKey, "POST", "/v1/api-keys/workspace/service", `{"name":"k","workspace_id":"`+w+`","scopes":["models.list"]}`).ok(t)
			k := made{r.text(t, "id"), r.text(t, "key")}
			g.awaitKey(t, k.secret)
			g.as(t, rootKey, "DELETE", "/v1/admin/workspaces/"+w, `{"name":"Gone","force_delete":true}`).ok(t)
			dead(t, k)
		})
		attack(t, "tokens", "a person who is removed takes their keys along", func(t *testing.T) {
			session := g.member(t, "leaver", "member", `[{"id":"default","role":"member"}]`)
			id := g.userID(t, session)
			k := g.personKey(t, session, id, "")
			g.awaitKey(t, k.secret)
			g.as(t, rootKey, "DELETE", "/v1/admin/users/"+id, "").ok(t)
			dead(t, k)
		})
	})
}

// spend asks a model with a key until the gateway refuses it because of a budget.
func (g *gateway) spend(t *testing.T, k made, p *provider) {
	t.Helper()
	waittest.Until(t, "the budget is exhausted", func() bool { return g.ask(t, k, p).status == http.StatusPreconditionFailed })
}

func (g *gateway) ask(t *testing.T, k made, p *provider) response {
	t.Helper()
	return g.do(t, "POST", "/v1/chat/completions", chatBody, toCustomHost(k.secret, p)...)
}

func TestMintedKeysSpendTheBudgetOfTheirMaker(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	onBothDatabases(t, func(t *testing.T, o options) {
		g := launch(t, o)
		maker := g.mint(t, rootKey, words(makes), `,"usage_limits":{"credit_limit":100,"type":"tokens"}`)
		child := g.mint(t, maker.secret, words(makes), "")
		sibling := g.mint(t, maker.secret, words(makes), "")
		grandchild := g.mint(t, child.secret, words(makes), "")
		g.ask(t, grandchild, p).ok(t)
		g.spend(t, grandchild, p)
		for name, k := range map[string]made{"the maker": maker, "the child": child, "the sibling": sibling} {
			attack(t, "escalation", "a budget that minted keys have spent is spent for "+name, func(t *testing.T) {
				waittest.Until(t, "it is refused", func() bool { return g.ask(t, k, p).status == http.StatusPreconditionFailed })
			})
		}
		attack(t, "escalation", "a key with a spent budget mints no key with a fresh one", func(t *testing.T) {
			k := g.mint(t, maker.secret, words(makes), `,"usage_limits":{"credit_limit":100,"type":"tokens"}`)
			g.ask(t, k, p).refused(t, http.StatusPreconditionFailed)
		})
		attack(t, "escalation", "a rotated key has no fresh budget", func(t *testing.T) {
			k := made{child.id, g.as(t, maker.secret, "POST", "/v1/api-keys/"+child.id+"/rotate", `{"key_transition_period_ms":0}`).ok(t).text(t, "key")}
			g.awaitKey(t, k.secret)
			g.ask(t, k, p).refused(t, http.StatusPreconditionFailed)
		})
		attack(t, "escalation", "a larger budget of the maker lets its keys go on", func(t *testing.T) {
			g.as(t, rootKey, "PUT", "/v1/api-keys/"+maker.id, `{"usage_limits":{"credit_limit":100000,"type":"tokens"}}`).ok(t)
			waittest.Until(t, "the grandchild is served", func() bool { return g.ask(t, grandchild, p).status == http.StatusOK })
		})
	})
}

func TestPeopleDoNotLiftLimitsFromAbove(t *testing.T) {
	t.Parallel()
	g := launch(t, options{})
	manager := g.member(t, "manager", "member", `[{"id":"default","role":"manager"}]`)
	member := g.member(t, "person", "member", `[{"id":"default","role":"member"}]`)
	own := g.personKey(t, manager, g.userID(t, member), `,"usage_limits":{"credit_limit":5}`)
	managers := g.personKey(t, rootKey, g.userID(t, manager), `,"usage_limits":{"credit_limit":7},"expires_at":"2080-01-01T00:00:00Z"`)
	for _, c := range []struct {
		name, session string
		key           made
		body          string
	}{
		{"a member can't raise the budget that a manager set", member, own, `{"usage_limits":{"credit_limit":50}}`},
		{"a member can't remove the budget that a manager set", member, own, `{"usage_limits":null}`},
		{"a member can't start the count again that a manager set", member, own, `{"reset_usage":true}`},
		{"a manager can't raise the budget of their own key that an admin set", manager, managers, `{"usage_limits":{"credit_limit":70}}`},
		{"a manager can't move the end of their own key that an admin set", manager, managers, `{"expires_at":"` + far + `"}`},
	} {
		attack(t, "escalation", c.name, func(t *testing.T) {
			g.as(t, c.session, "PUT", "/v1/api-keys/"+c.key.id, c.body).refused(t, http.StatusForbidden, "AB03")
		})
	}
	attack(t, "escalation", "a capped member can't make a key with a larger budget", func(t *testing.T) {
		g.as(t, member, "POST", "/v1/api-keys/workspace/user", `{"name":"x","workspace_id":"default","scopes":["completions.write"],"usage_limits":{"credit_limit":50}}`).refused(t, http.StatusForbidden, "usage_limits")
	})
	attack(t, "escalation", "a further key of a capped member ends with the capped one", func(t *testing.T) {
		k := g.personKey(t, member, g.userID(t, member), "")
		g.awaitKey(t, k.secret)
		g.as(t, member, "DELETE", "/v1/api-keys/"+own.id, "").ok(t)
		waittest.Until(t, "it is refused", func() bool { return g.as(t, k.secret, "GET", "/v1/models", "").status == http.StatusUnauthorized })
	})
	attack(t, "escalation", "a capped member can't delete the key and make another", func(t *testing.T) {
		g.as(t, member, "POST", "/v1/api-keys/workspace/user", `{"name":"x","workspace_id":"default","scopes":["completions.write"]}`).refused(t, http.StatusForbidden, "ask the user who set them")
		g.personKey(t, manager, g.userID(t, member), "") // which a manager may
	})
	attack(t, "escalation", "a manager can change what a manager set", func(t *testing.T) {
		k := g.personKey(t, manager, g.userID(t, member), `,"usage_limits":{"credit_limit":5}`)
		g.as(t, manager, "PUT", "/v1/api-keys/"+k.id, `{"usage_limits":{"credit_limit":6}}`).ok(t)
	})
	attack(t, "escalation", "a member can't remove the budget that a manager set on a key that had none", func(t *testing.T) {
		k := g.personKey(t, manager, g.userID(t, member), "")
		g.as(t, manager, "PUT", "/v1/api-keys/"+k.id, `{"usage_limits":{"credit_limit":5}}`).ok(t)
		g.as(t, member, "PUT", "/v1/api-keys/"+k.id, `{"usage_limits":null}`).refused(t, http.StatusForbidden, "AB03", "usage_limits")
	})
	attack(t, "escalation", "a manager can't change what another manager set on the manager's own key", func(t *testing.T) {
		other := g.member(t, "other-manager", "member", `[{"id":"default","role":"manager"}]`)
		k := g.personKey(t, other, g.userID(t, manager), `,"usage_limits":{"credit_limit":5}`)
		g.as(t, manager, "PUT", "/v1/api-keys/"+k.id, `{"usage_limits":null}`).refused(t, http.StatusForbidden, "usage_limits", "another user")
		g.as(t, other, "PUT", "/v1/api-keys/"+k.id, `{"usage_limits":null}`).ok(t)
	})
	attack(t, "escalation", "a key that a manager made ranks no higher than the manager", func(t *testing.T) {
		g.as(t, rootKey, "PUT", "/v1/workspaces/default", `{"usage_limits":[{"credit_limit":1000}]}`).ok(t)
		k := g.mint(t, manager, `["workspaces.update","workspaces.read"]`, "")
		g.as(t, k.secret, "PUT", "/v1/workspaces/default", `{"usage_limits":[{"credit_limit":9000}]}`).refused(t, http.StatusForbidden, "usage_limits")
	})
	g.as(t, rootKey, "PUT", "/v1/admin/organisation", `{"settings":{"request_logging":"metadata","request_logging_override":true}}`).ok(t)
	for _, c := range []struct{ name, body, field string }{
		{"raise the budget of the workspace", `{"usage_limits":[{"credit_limit":9000}]}`, "usage_limits"},
		{"remove the budget of the workspace", `{"usage_limits":[]}`, "usage_limits"},
		{"change the logging of the workspace", `{"settings":{"request_logging":"full"}}`, "request_logging"},
		{"let keys live longer than the workspace says", `{"settings":{"request_logging":"none","user_api_key_max_ttl":99999}}`, "user_api_key_max_ttl"},
	} {
		attack(t, "escalation", "a manager can't "+c.name, func(t *testing.T) {
			g.as(t, rootKey, "PUT", "/v1/workspaces/default", `{"usage_limits":[{"credit_limit":1000}],"settings":{"request_logging":"none","user_api_key_max_ttl":3600}}`).ok(t)
			g.as(t, manager, "PUT", "/v1/workspaces/default", c.body).refused(t, http.StatusForbidden, c.field)
		})
	}
	attack(t, "escalation", "a manager can't allow keys more than the organisation does", func(t *testing.T) {
		g.as(t, rootKey, "PUT", "/v1/workspaces/default", `{"usage_limits":[],"settings":{}}`).ok(t)
		g.as(t, rootKey, "PUT", "/v1/admin/organisation", `{"settings":{"user_api_key_max_ttl":3600}}`).ok(t)
		g.as(t, manager, "PUT", "/v1/workspaces/default", `{"settings":{"user_api_key_max_ttl":7200}}`).refused(t, http.StatusForbidden, "organisation")
		g.as(t, manager, "PUT", "/v1/workspaces/default", `{"settings":{"user_api_key_max_ttl":1800}}`).ok(t)
		g.as(t, rootKey, "PUT", "/v1/admin/organisation", `{"settings":{"user_api_key_max_ttl":null}}`).ok(t)
	})
}

func TestProvidersKeepTheirLimits(t *testing.T) {
	t.Parallel()
	g := launch(t, options{})
	member := g.member(t, "person", "member", `[{"id":"default","role":"member"}]`)
	integration := g.create(t, rootKey, "/v1/integrations", `{"name":"i","slug":"i","ai_provider_id":"openai","key":"sk-x"}`, "slug")
	g.as(t, rootKey, "PUT", "/v1/integrations/i/workspaces", `{"workspaces":[{"id":"default","enabled":true}],"create_default_provider":false}`).ok(t)
	id := g.create(t, rootKey, "/v1/providers", `{"name":"limited","slug":"limited","workspace_id":"default","integration_id":"`+integration+`","usage_limits":{"credit_limit":5},"expires_at":"2080-01-01T00:00:00Z"}`, "id")
	for _, c := range []struct{ name, path, body string }{
		{"raise the budget of a provider", "/v1/providers/", `{"usage_limits":{"credit_limit":50}}`},
		{"remove the budget of a provider", "/v1/providers/", `{"usage_limits":null}`},
		{"start the count of a provider again", "/v1/providers/", `{"reset_usage":true}`},
		{"move the end of a provider", "/v1/providers/", `{"expires_at":"` + far + `"}`},
		{"raise the budget of a virtual key", "/v1/virtual-keys/", `{"usage_limits":{"credit_limit":50}}`},
		{"start the count of a virtual key again", "/v1/virtual-keys/", `{"reset_usage":true}`},
	} {
		attack(t, "escalation", "a member can't "+c.name, func(t *testing.T) {
			g.as(t, member, "PUT", c.path+id+"?workspace_id=default", c.body).refused(t, http.StatusForbidden, "AB03")
		})
	}
	attack(t, "escalation", "a member can't use the same credential by a second provider", func(t *testing.T) {
		g.as(t, member, "POST", "/v1/providers", `{"name":"free","workspace_id":"default","integration_id":"`+integration+`"}`).refused(t, http.StatusForbidden, "integration_id")
	})
	attack(t, "escalation", "a member can't archive a provider and make it again without limits", func(t *testing.T) {
		g.as(t, member, "DELETE", "/v1/providers/"+id+"?workspace_id=default", "").ok(t)
		g.as(t, member, "POST", "/v1/providers", `{"name":"again","slug":"limited","workspace_id":"default","integration_id":"`+integration+`"}`).refused(t, http.StatusForbidden, "integration_id")
		g.create(t, rootKey, "/v1/providers", `{"name":"again","slug":"limited","workspace_id":"default","integration_id":"`+integration+`"}`, "id")
	})
	attack(t, "escalation", "a manager can't change what the organisation gives to the workspace", func(t *testing.T) {
		manager := g.member(t, "manager", "member", `[{"id":"default","role":"manager"}]`)
		g.as(t, manager, "PUT", "/v1/integrations/i/workspaces?workspace_id=default", `{"workspaces":[{"id":"default","enabled":true,"reset_usage":true}]}`).refused(t, http.StatusForbidden, "AB03")
		g.as(t, manager, "PUT", "/v1/integrations/i/models?workspace_id=default", `{"models":[],"allow_all_models":true}`).refused(t, http.StatusForbidden, "AB03")
	})
	attack(t, "escalation", "a manager can't lift the limits of the workspace's own integration that an admin set", func(t *testing.T) {
		manager := g.member(t, "manager2", "member", `[{"id":"default","role":"manager"}]`)
		g.create(t, rootKey, "/v1/integrations", `{"name":"o","slug":"own","ai_provider_id":"openai","key":"sk-x","workspace_id":"default"}`, "slug")
		g.as(t, rootKey, "PUT", "/v1/integrations/own/workspaces", `{"workspaces":[{"id":"default","enabled":true,"usage_limits":[{"credit_limit":5}]}]}`).ok(t)
		g.as(t, rootKey, "PUT", "/v1/integrations/own/models", `{"models":[{"slug":"gpt-4o-mini","enabled":true}],"allow_all_models":false}`).ok(t)
		g.as(t, manager, "PUT", "/v1/integrations/own/workspaces?workspace_id=default", `{"workspaces":[{"id":"default","enabled":true,"usage_limits":[{"credit_limit":50}]}]}`).refused(t, http.StatusForbidden, "usage_limits")
		g.as(t, manager, "PUT", "/v1/integrations/own/workspaces?workspace_id=default", `{"workspaces":[{"id":"default","enabled":true,"reset_usage":true}]}`).refused(t, http.StatusForbidden, "usage_limits")
		g.as(t, manager, "PUT", "/v1/integrations/own/models?workspace_id=default", `{"models":[],"allow_all_models":true}`).refused(t, http.StatusForbidden, "models")
		g.as(t, manager, "PUT", "/v1/integrations/own/models?workspace_id=default", `{"models":[{"slug":"gpt-4o","enabled":true}]}`).refused(t, http.StatusForbidden, "models")
	})
}

func TestNobodyInvitesAboveThemselves(t *testing.T) {
	t.Parallel()
	g := launch(t, options{})
	hire := g.create(t, rootKey, "/v1/api-keys/organisation/service", `{"name":"hr","scopes":["organisation_users.create","organisation_users.update","organisation_users.read","organisation_users.list"]}`, "key")
	g.awaitKey(t, hire)
	attack(t, "escalation", "a key with few scopes can't invite an admin", func(t *testing.T) {
		g.as(t, hire, "POST", "/v1/admin/users/invites", `{"email":"a@example.com","role":"admin","workspaces":[]}`).refused(t, http.StatusForbidden, "role")
	})
	for _, role := range []string{"admin", "manager"} {
		attack(t, "escalation", "a key with few scopes can't invite a "+role+" of a workspace", func(t *testing.T) {
			g.as(t, hire, "POST", "/v1/admin/users/invites", `{"email":"b@example.com","role":"member","workspaces":[{"id":"default","role":"`+role+`"}]}`).refused(t, http.StatusForbidden, "role")
		})
	}
	attack(t, "escalation", "a key with few scopes can't invite with a key of more scopes", func(t *testing.T) {
		g.as(t, hire, "POST", "/v1/admin/users/invites", `{"email":"c@example.com","role":"member","workspaces":[{"id":"default","role":"member"}],"workspace_api_key_details":{"scopes":["configs.update"]}}`).refused(t, http.StatusForbidden, "scopes")
	})
	attack(t, "escalation", "a key with few scopes can't make a member an admin", func(t *testing.T) {
		id := g.userID(t, g.member(t, "plain", "member", `[{"id":"default","role":"member"}]`))
		g.as(t, hire, "PUT", "/v1/admin/users/"+id, `{"role":"admin"}`).refused(t, http.StatusForbidden, "role")
	})
	attack(t, "escalation", "a key that invites can still invite a member", func(t *testing.T) {
		g.as(t, hire, "POST", "/v1/admin/users/invites", `{"email":"d@example.com","role":"member","workspaces":[{"id":"default","role":"member"}]}`).ok(t)
	})
	attack(t, "escalation", "a service key with few scopes can't make a person an admin of its workspace", func(t *testing.T) {
		id := g.userID(t, g.member(t, "accomplice", "member", `[]`))
		k := g.mint(t, rootKey, `["workspace_users.create","workspace_users.update"]`, "")
		g.as(t, k.secret, "POST", "/v1/workspaces/default/users", `{"users":[{"id":"`+id+`","role":"admin"}]}`).refused(t, http.StatusForbidden, "role")
		g.as(t, k.secret, "POST", "/v1/workspaces/default/users", `{"users":[{"id":"`+id+`","role":"member"}]}`).ok(t)
		g.as(t, k.secret, "PUT", "/v1/workspaces/default/users/"+id, `{"role":"manager"}`).refused(t, http.StatusForbidden, "role")
	})
}
