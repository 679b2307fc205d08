package security

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

// egressWorld is a gateway with a managed provider at its own host, a second host
// that no policy lists, and keys.
type egressWorld struct {
	g             *gateway
	listed, other *provider
	config        string // saved, whose target is other
}

func newEgressWorld(t *testing.T, o options) *egressWorld {
	if o.settings == "" { // paths of files pass through too, as those without a record
		o.settings = "version: 1\nfiles: {unrecorded: pass}\n"
	}
	w := &egressWorld{g: launch(t, o), listed: newProvider(t, nil), other: newProvider(t, nil)}
	for slug, p := range map[string]*provider{"listed": w.listed, "other": w.other} {
		w.g.as(t, rootKey, "POST", "/v1/integrations", fmt.Sprintf(`{"name":%q,"slug":%q,"ai_provider_id":"openai","key":%q,"configurations":{"custom_host":%q}}`, slug, slug, storedKey, p.url)).ok(t)
	}
	w.config = w.g.create(t, rootKey, "/v1/configs", fmt.Sprintf(`{"name":"c","workspace_id":"default","config":{"provider":"openai","api_key":"sk-x","custom_host":%q}}`, w.other.url), "data.slug")
	return w
}

// policy sets the egress policy of the organisation or the workspace; null removes it.
func (w *egressWorld) policy(t *testing.T, level, policy string) {
	t.Helper()
	path, body := "/v1/admin/organisation", `{"settings":{"egress_policy":`+policy+`}}`
	if level == "workspace" {
		path = "/v1/admin/workspaces/default"
	}
	w.g.as(t, rootKey, "PUT", path, body).ok(t)
}

// asked sends a request until the gateway has the policy that was just set: it
// returns 403 when that is wanted, and reaches a provider otherwise.
func (w *egressWorld) asked(t *testing.T, refused bool, send func() response) response {
	t.Helper()
	var got response
	waittest.Until(t, fmt.Sprintf("the request is refused: %t", refused), func() bool {
		got = send()
		return (got.status == http.StatusForbidden) == refused
	})
	return got
}

func (w *egressWorld) reset() { w.listed.reset(); w.other.reset() }

// TestEgressPolicyBindsEveryRouteAndLeaf tries what a policy refuses by every way
// to name it, with the policy at every level.
func TestEgressPolicyBindsEveryRouteAndLeaf(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, o options) {
		w := newEgressWorld(t, o)
		scopes := []string{"completions.write", "models.list"}
		plain := w.g.key(t, rootKey, "default", scopes, "")
		for _, level := range []string{"organisation", "workspace", "key"} {
			hosts := fmt.Sprintf(`{"custom_hosts":[%q]}`, w.listed.root)
			key := func(policy string) string {
				if level != "key" {
					w.policy(t, level, policy)
					return plain
				}
				return w.g.key(t, rootKey, "default", scopes, `,"egress_policy":`+policy)
			}
			w.customHosts(t, level, key(hosts))
			w.passThrough(t, level, key(fmt.Sprintf(`{"custom_hosts":[%q,%q],"pass_through":["GET /files/*","POST /batches/**"]}`, w.listed.root, w.other.root)))
			w.managedOnly(t, level, key(`{"managed_providers_only":true}`))
			if level != "key" {
				w.policy(t, level, "null")
				w.asked(t, false, func() response {
					return w.g.do(t, "POST", "/v1/chat/completions", chatBody, toCustomHost(plain, w.other)...)
				})
			}
		}
		w.narrowest(t, scopes)
	})
}

// managed are the headers of a request to a managed provider.
func managed(key, slug string, more ...string) []string {
	return append([]string{"x-gateway-api-key", key, "x-gateway-provider", "@" + slug}, more...)
}

func (w *egressWorld) customHosts(t *testing.T, level, key string) {
	g := w.g
	config := func(text string, more ...string) []string {
		return append([]string{"x-gateway-api-key", key, "x-gateway-config", text}, more...)
	}
	leaf := func(p *provider) string {
		return fmt.Sprintf(`{"provider":"openai","api_key":"sk-x","custom_host":%q}`, p.url)
	}
	w.asked(t, true, func() response {
		return g.do(t, "POST", "/v1/chat/completions", chatBody, toCustomHost(key, w.other)...)
	})
	w.reset()
	for _, tt := range []struct {
		name, method, path, body string
		header                   []string
	}{
		{"a custom host", "POST", "/v1/chat/completions", chatBody, toCustomHost(key, w.other)},
		{"a custom host of messages", "POST", "/v1/messages", chatBody, toCustomHost(key, w.other)},
		{"a custom host of responses", "POST", "/v1/responses", `{"model":"gpt-4o","input":"x"}`, toCustomHost(key, w.other)},
		{"a custom host of embeddings", "POST", "/v1/embeddings", `{"model":"e","input":"x"}`, toCustomHost(key, w.other)},
		{"a custom host of a path that passes through", "GET", "/v1/files", "", toCustomHost(key, w.other)},
		{"a custom host of models", "GET", "/v1/models", "", toCustomHost(key, w.other)},
		{"a managed provider", "POST", "/v1/chat/completions", chatBody, managed(key, "other")},
		{"a config", "POST", "/v1/chat/completions", chatBody, config(leaf(w.other))},
		{"a saved config", "POST", "/v1/chat/completions", chatBody, config(w.config)},
		{"the second leaf of a fallback", "POST", "/v1/chat/completions", chatBody, config(`{"strategy":{"mode":"fallback"},"targets":[{"provider":"@listed"},` + leaf(w.other) + `]}`)},
		{"a leaf deep in a tree", "POST", "/v1/chat/completions", chatBody, config(`{"strategy":{"mode":"fallback"},"targets":[{"provider":"@listed"},{"strategy":{"mode":"loadbalance"},"targets":[{"provider":"@listed"},{"strategy":{"mode":"single"},"targets":[{"provider":"@other"}]}]}]}`)},
		{"the listed host by https", "POST", "/v1/chat/completions", chatBody, toCustomHost(key, &provider{url: strings.Replace(w.listed.url, "http:", "https:", 1)})},
		{"the listed host as user information", "POST", "/v1/chat/completions", chatBody, config(fmt.Sprintf(`{"provider":"openai","api_key":"sk-x","custom_host":%q}`, "http://"+strings.TrimPrefix(w.listed.root, "http://")+"@"+strings.TrimPrefix(w.other.url, "http://")))},
	} {
		attack(t, "escalation", level+": custom_hosts, "+tt.name, func(t *testing.T) {
			got := g.do(t, tt.method, tt.path, tt.body, tt.header...)
			if got.status != http.StatusForbidden && got.status != http.StatusBadRequest {
				t.Errorf("status %d: %.300s", got.status, got.body)
			}
			if got.status == http.StatusForbidden && !strings.Contains(string(got.body), "egress_policy.custom_hosts of the "+level) {
				t.Errorf("the refusal does not name its level and field: %.300s", got.body)
			}
			if n := len(w.other.seen()) + len(w.listed.seen()); n > 0 {
				t.Errorf("providers received %d requests", n)
			}
		})
	}
	attack(t, "escalation", level+": custom_hosts, rehearsal answers as the request", func(t *testing.T) {
		got := g.as(t, key, "POST", "/v1/explain", `{"request":{"headers":{"x-gateway-provider":"@other"},"body":`+chatBody+`}}`).ok(t)
		if !strings.Contains(string(got.body), "egress_refused") {
			t.Errorf("explain: %.300s", got.body)
		}
	})
	attack(t, "escalation", level+": custom_hosts, the list of models asks nobody else", func(t *testing.T) {
		w.reset()
		g.as(t, key, "GET", "/v1/models", "").ok(t)
		if n := len(w.other.seen()); n > 0 {
			t.Errorf("the host that is not listed received %d requests", n)
		}
	})
	g.do(t, "POST", "/v1/chat/completions", chatBody, toCustomHost(key, w.listed)...).ok(t)
	g.do(t, "POST", "/v1/chat/completions", chatBody, managed(key, "listed")...).ok(t)
}

func (w *egressWorld) passThrough(t *testing.T, level, key string) {
	g := w.g
	w.asked(t, true, func() response { return g.do(t, "GET", "/v1/files", "", managed(key, "listed")...) })
	w.reset()
	for _, request := range []string{
		"GET /v1/files", "DELETE /v1/files/f1", "POST /v1/files/f1", "GET /v1/files/f1/content", "GET /v1/filesystem/f1", "GET /v1/organization/admin_api_keys",
		"POST /v1/fine_tuning/jobs", "GET /v1/files/..", "GET /v1/files/../organization", "GET /v1/files/%2e%2e", "GET /v1/files/%2E%2E%2Forganization", "GET /v1//files/f1",
		"GET /v1/files//f1", "GET /v1/files/./f1", "POST /v1/batches/../files", "POST /v1/batches/x/../../files", "POST /v1/batches/%2e%2e/files", "GET /v1/FILES/f1", `GET /v1/files\f1`, "POST /v1/batches/..%5cfiles",
	} {
		attack(t, "escalation", level+": pass_through, "+request, func(t *testing.T) {
			method, path, _ := strings.Cut(request, " ")
			got := g.do(t, method, path, "", managed(key, "listed")...)
			if got.status != http.StatusForbidden && got.status != http.StatusBadRequest {
				t.Errorf("status %d: %.300s", got.status, got.body)
			}
			if got.status == http.StatusForbidden && !strings.Contains(string(got.body), "egress_policy.pass_through of the "+level) {
				t.Errorf("the refusal does not name its level and field: %.300s", got.body)
			}
			if n := len(w.listed.seen()); n > 0 {
				t.Errorf("the provider received %d requests", n)
			}
		})
	}
	g.do(t, "GET", "/v1/files/f1", "", managed(key, "listed")...).ok(t)
	g.do(t, "POST", "/v1/batches/b1/cancel", "{}", managed(key, "listed")...).ok(t)
	g.do(t, "POST", "/v1/chat/completions", chatBody, managed(key, "listed")...).ok(t)
}

func (w *egressWorld) managedOnly(t *testing.T, level, key string) {
	g := w.g
	w.asked(t, true, func() response {
		return g.do(t, "POST", "/v1/chat/completions", chatBody, toCustomHost(key, w.listed)...)
	})
	w.reset()
	for name, header := range map[string][]string{
		"a credential of one's own": {"x-gateway-api-key", key, "x-gateway-provider", "openai", "Authorization", "Bearer " + clientKey},
		"a custom host":             toCustomHost(key, w.listed),
		"a config with a key":       {"x-gateway-api-key", key, "x-gateway-config", fmt.Sprintf(`{"provider":"openai","api_key":"sk-x","custom_host":%q}`, w.listed.url)},
		"a leaf of a tree":          {"x-gateway-api-key", key, "x-gateway-config", `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@listed"},{"provider":"openai","api_key":"sk-x"}]}`},
		"a saved config":            {"x-gateway-api-key", key, "x-gateway-config", w.config},
	} {
		attack(t, "escalation", level+": managed_providers_only, "+name, func(t *testing.T) {
			g.do(t, "POST", "/v1/chat/completions", chatBody, header...).refused(t, http.StatusForbidden, "egress_policy.managed_providers_only of the "+level, "egress_refused")
			if n := len(w.listed.seen()) + len(w.other.seen()); n > 0 {
				t.Errorf("providers received %d requests", n)
			}
		})
	}
	g.do(t, "POST", "/v1/chat/completions", chatBody, managed(key, "listed")...).ok(t)
}

// narrowest sets policies above and below each other.
func (w *egressWorld) narrowest(t *testing.T, scopes []string) {
	g := w.g
	wide := g.key(t, rootKey, "default", scopes, `,"egress_policy":{"custom_hosts":["*"],"pass_through":["*"]}`)
	attack(t, "escalation", "a key with a wide policy below a narrow one", func(t *testing.T) {
		w.policy(t, "workspace", `{"custom_hosts":[]}`)
		w.asked(t, true, func() response {
			return g.do(t, "POST", "/v1/chat/completions", chatBody, toCustomHost(wide, w.other)...)
		}).refused(t, http.StatusForbidden, "of the workspace")
	})
	member := g.member(t, "egress-manager", "member", `[{"id":"default","role":"manager"}]`)
	program := g.key(t, rootKey, "default", []string{"completions.write", "workspaces.update", "workspaces.read"}, "")
	// The program ranks higher: what it sets is not the manager's to change.
	for _, by := range []struct{ name, token string }{{"a manager", member}, {"a program of the workspace", program}} {
		name, token := by.name, by.token
		for _, policy := range []string{"null", `{}`, `{"custom_hosts":["*"]}`, `{"custom_hosts":null}`, `{"pass_through":[]}`} {
			attack(t, "escalation", name+" sets the workspace's policy to "+policy, func(t *testing.T) {
				g.as(t, token, "PUT", "/v1/admin/workspaces/default", `{"settings":{"egress_policy":`+policy+`}}`).refused(t, http.StatusForbidden, "settings.egress_policy")
			})
		}
		attack(t, "escalation", name+" clears the workspace's settings", func(t *testing.T) {
			for _, body := range []string{`{"settings":{}}`, `{"settings":null}`, `{"settings":{"debug_log":true}}`} {
				g.as(t, token, "PUT", "/v1/admin/workspaces/default", body).ok(t)
				if got := g.as(t, rootKey, "GET", "/v1/admin/workspaces/default", "").ok(t); !strings.Contains(string(got.body), `"egress_policy":{"custom_hosts":[]}`) {
					t.Errorf("after %s: %.400s", body, got.body)
				}
			}
		})
		attack(t, "escalation", name+" sets the organisation's policy", func(t *testing.T) {
			g.as(t, token, "PUT", "/v1/admin/organisation", `{"settings":{"egress_policy":null}}`).refused(t, http.StatusForbidden)
		})
	}
	attack(t, "at rest", "a policy that allows nothing stays so after a restart", func(t *testing.T) {
		g.restart(t)
		g.do(t, "POST", "/v1/chat/completions", chatBody, toCustomHost(wide, w.other)...).refused(t, http.StatusForbidden, "of the workspace")
	})
}

// TestEgressPolicyOfAKeyInTheSettings has a policy for a key of modelgate.yaml, and
// files with malformed policies.
func TestEgressPolicyOfAKeyInTheSettings(t *testing.T) {
	t.Parallel()
	const hash = "129803f329494c52c9bd8789f31400fda8ee7153c8fec7a9fa248eb78befab39" // of "a-key-of-the-state-file"
	g, p := launch(t, options{settings: "version: 1\nkeys:\n  - {name: ci, sha256: " + hash + ", egress_policy: {custom_hosts: [], pass_through: []}}\n"}), newProvider(t, nil)
	attack(t, "escalation", "a custom host with a key of the settings", func(t *testing.T) {
		g.do(t, "POST", "/v1/chat/completions", chatBody, toCustomHost("a-key-of-the-state-file", p)...).refused(t, http.StatusForbidden, "egress_policy.custom_hosts of the key")
		if len(p.seen()) > 0 {
			t.Error("the provider received a request")
		}
	})
	attack(t, "escalation", "pass-through with a key of the settings", func(t *testing.T) {
		g.do(t, "GET", "/v1/files", "", "x-gateway-api-key", "a-key-of-the-state-file", "x-gateway-provider", "openai", "Authorization", "Bearer "+clientKey).refused(t, http.StatusForbidden, "egress_policy.pass_through of the key")
	})
	for _, level := range []string{"organisation", "workspace", "key"} {
		for policy, field := range map[string]string{
			`{"custom_hosts":["a/b"]}`: "egress_policy.custom_hosts[0]", `{"pass_through":["/a/../b"]}`: "egress_policy.pass_through[0]", `{"hosts":[]}`: "", `{"custom_hosts":"none"}`: "",
		} {
			attack(t, "escalation", level+": a malformed policy "+policy, func(t *testing.T) {
				got := response{}
				switch level {
				case "organisation":
					got = g.as(t, rootKey, "PUT", "/v1/admin/organisation", `{"settings":{"egress_policy":`+policy+`}}`)
				case "workspace":
					got = g.as(t, rootKey, "PUT", "/v1/admin/workspaces/default", `{"settings":{"egress_policy":`+policy+`}}`)
				case "key":
					got = g.as(t, rootKey, "POST", "/v1/api-keys/workspace/service", `{"name":"k","workspace_id":"default","scopes":["completions.write"],"egress_policy":`+policy+`}`)
				}
				got.refused(t, http.StatusBadRequest, field)
			})
		}
	}
	attack(t, "log and export", "a refusal of a policy is counted and logged", func(t *testing.T) {
		got := g.do(t, "POST", "/v1/chat/completions", chatBody, toCustomHost("a-key-of-the-state-file", p)...).refused(t, http.StatusForbidden)
		id := got.header.Get("x-gateway-request-id")
		waittest.Until(t, "the refusal is in the log", func() bool {
			return strings.Contains(string(g.as(t, rootKey, "GET", "/v1/logs/"+id, "").body), "egress_refused")
		})
		if text := g.metrics(t); !strings.Contains(text, `modelgate_gateway_errors_total{code="egress_refused"}`) {
			t.Error("the refusal is not counted")
		}
	})
}

// TestEgressPolicyOfAKeyIsNotItsOwnToChange has keys and their owners try to lift
// the policy that was set for them.
func TestEgressPolicyOfAKeyIsNotItsOwnToChange(t *testing.T) {
	t.Parallel()
	g, p := launch(t, options{}), newProvider(t, nil)
	scopes := []string{"completions.write", "workspace_service_api_keys.create", "workspace_service_api_keys.update", "workspace_service_api_keys.rotate", "workspace_service_api_keys.read", "workspace_service_api_keys.list"}
	list := `["` + strings.Join(scopes, `","`) + `"]`
	capped := g.as(t, rootKey, "POST", "/v1/api-keys/workspace/service", `{"name":"capped","workspace_id":"default","scopes":`+list+`,"egress_policy":{"custom_hosts":[]}}`).ok(t)
	free := g.as(t, rootKey, "POST", "/v1/api-keys/workspace/service", `{"name":"free","workspace_id":"default","scopes":["completions.write"]}`).ok(t)
	key, id := capped.text(t, "key"), capped.text(t, "id")
	g.awaitKey(t, key)
	for _, policy := range []string{`null`, `{}`, `{"custom_hosts":["*"]}`, `{"custom_hosts":null}`, `{"pass_through":[]}`} {
		attack(t, "escalation", "a key changes its own egress policy to "+policy, func(t *testing.T) {
			g.as(t, key, "PUT", "/v1/api-keys/"+id, `{"egress_policy":`+policy+`}`).refused(t, http.StatusForbidden, "egress_policy")
		})
		attack(t, "escalation", "a key makes a key with the egress policy "+policy, func(t *testing.T) {
			got := g.as(t, key, "POST", "/v1/api-keys/workspace/service", `{"name":"k","workspace_id":"default","scopes":["completions.write"],"egress_policy":`+policy+`}`)
			if got.status == http.StatusForbidden {
				return
			}
			made := got.ok(t).text(t, "key")
			g.awaitKey(t, made)
			g.do(t, "POST", "/v1/chat/completions", chatBody, toCustomHost(made, p)...).refused(t, http.StatusForbidden, "egress_policy.custom_hosts")
		})
	}
	attack(t, "escalation", "a key changes its defaults to lose its egress policy", func(t *testing.T) {
		g.as(t, key, "PUT", "/v1/api-keys/"+id, `{"defaults":null}`)
		g.as(t, rootKey, "PUT", "/v1/api-keys/"+id, `{"defaults":null}`).ok(t)
		g.do(t, "POST", "/v1/chat/completions", chatBody, toCustomHost(key, p)...).refused(t, http.StatusForbidden, "egress_policy.custom_hosts")
	})
	attack(t, "escalation", "a key makes a key without an egress policy", func(t *testing.T) {
		made := g.as(t, key, "POST", "/v1/api-keys/workspace/service", `{"name":"k","workspace_id":"default","scopes":["completions.write"]}`).ok(t).text(t, "key")
		g.awaitKey(t, made)
		g.do(t, "POST", "/v1/chat/completions", chatBody, toCustomHost(made, p)...).refused(t, http.StatusForbidden, "egress_policy.custom_hosts")
	})
	attack(t, "escalation", "a key that was made before its maker was limited", func(t *testing.T) {
		maker := g.as(t, rootKey, "POST", "/v1/api-keys/workspace/service", `{"name":"maker","workspace_id":"default","scopes":`+list+`}`).ok(t)
		g.awaitKey(t, maker.text(t, "key"))
		made := g.as(t, maker.text(t, "key"), "POST", "/v1/api-keys/workspace/service", `{"name":"k","workspace_id":"default","scopes":["completions.write"]}`).ok(t).text(t, "key")
		g.awaitKey(t, made)
		g.as(t, rootKey, "PUT", "/v1/api-keys/"+maker.text(t, "id"), `{"egress_policy":{"custom_hosts":[]}}`).ok(t)
		waittest.Until(t, "the key is limited with its maker", func() bool {
			return g.do(t, "POST", "/v1/chat/completions", chatBody, toCustomHost(made, p)...).status == http.StatusForbidden
		})
		p.reset()
	})
	attack(t, "escalation", "a key rotates a key without an egress policy", func(t *testing.T) {
		g.as(t, key, "POST", "/v1/api-keys/"+free.text(t, "id")+"/rotate", "{}").refused(t, http.StatusForbidden)
	})
	if n := len(p.seen()); n > 0 {
		t.Errorf("the provider received %d requests", n)
	}
	g.as(t, rootKey, "PUT", "/v1/api-keys/"+id, `{"egress_policy":null}`).ok(t)
	waittest.Until(t, "the policy is gone", func() bool {
		return g.do(t, "POST", "/v1/chat/completions", chatBody, toCustomHost(key, p)...).status == http.StatusOK
	})
}

// TestEgressPolicyCoversIdentityProviders also tries a policy that changed since a provider
// was stored.
func TestEgressPolicyCoversIdentityProviders(t *testing.T) {
	t.Parallel()
	w := newEgressWorld(t, options{})
	store := func(slug string) response {
		return w.g.as(t, rootKey, "POST", "/v1/identity-providers", fmt.Sprintf(`{"name":"n","slug":%q,"issuer":%q,"client_id":"c","client_secret":"s"}`, slug, w.other.root))
	}
	id := fmt.Sprint(store("before").ok(t).object(t)["id"])
	w.g.do(t, "GET", "/v1/auth/sso/"+id, "")
	before := len(w.other.seen())
	if before == 0 {
		t.Fatal("nothing was requested from the identity provider")
	}
	w.policy(t, "organisation", fmt.Sprintf(`{"custom_hosts":[%q]}`, w.listed.root))
	waittest.Until(t, "a provider elsewhere is refused", func() bool { return store("after").status == http.StatusBadRequest })
	w.g.as(t, rootKey, "POST", "/v1/identity-providers/before/test", "").ok(t)
	if n := len(w.other.seen()); n != before {
		t.Errorf("%d requests went to a host that the policy does not list", n-before)
	}
}
