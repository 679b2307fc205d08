package security

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

// organisationSecret is a secret that the organisation keeps elsewhere, machineKey
// the one of the gateway's own machine.
const (
	organisationSecret = "sk-organisation-secret-112233"
	machineKey         = "machine-secret-access-key-445566"
)

// memberScopes are what a member of a workspace, or a program in it, may do.
var memberScopes = []string{
	"completions.write", "virtual_keys.create", "virtual_keys.read", "virtual_keys.update", "providers.create", "providers.update",
	"workspace_integrations.create", "workspace_integrations.update", "workspace_integrations.read", "configs.create", "configs.update",
}

// secretWorld is an organisation that keeps a secret elsewhere, a member of a
// workspace who may map it, and the member's own server.
type secretWorld struct {
	g       *gateway
	listed  *provider // the only host that the reference "listed" allows
	theirs  *provider // the attacker's
	member  string    // a key
	session string    // of a person who is a member
}

func newSecretWorld(t *testing.T, o options) *secretWorld {
	o.settings = "version: 1\nsecrets:\n  environment: [ORG_*]\n  refresh: 1s\n"
	o.env = append(o.env, "ORG_KEY="+organisationSecret)
	w := &secretWorld{g: launch(t, o), listed: newProvider(t, nil), theirs: newProvider(t, nil)}
	reference := func(slug, more string) {
		w.g.as(t, rootKey, "POST", "/v1/secret-references", fmt.Sprintf(`{"name":%q,"slug":%q,"manager_type":"environment","secret_path":"ORG_KEY"%s}`, slug, slug, more)).ok(t)
	}
	reference("plain", "")
	reference("narrow", `,"allowed_providers":["groq"]`)
	reference("listed", fmt.Sprintf(`,"allowed_hosts":[%q]`, w.listed.root))
	w.member = w.g.key(t, rootKey, "default", memberScopes, "")
	w.session = w.g.member(t, "member", "member", `[{"id":"default","role":"member"}]`)
	return w
}

// mapping is the field of a request that maps the reference onto a field.
func mapping(field, reference string) string {
	return fmt.Sprintf(`"secret_mappings":[{"target_field":%q,"secret_reference_id":%q}]`, field, reference)
}

// stolen fails the test if the attacker's server received a secret.
func (w *secretWorld) stolen(t *testing.T) {
	t.Helper()
	for _, secret := range []string{organisationSecret, storedKey, machineKey} {
		if w.theirs.got(secret) {
			t.Errorf("the server of the attacker received %q", secret)
		}
	}
}

// TestMappedSecretGoesOnlyWhereItsReferenceAllows tries every way by which a
// member could have the organisation's secret sent to a host of their own.
func TestMappedSecretGoesOnlyWhereItsReferenceAllows(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, o options) {
		w := newSecretWorld(t, o)
		g, theirs := w.g, w.theirs
		port := theirs.root[strings.LastIndexByte(theirs.root, ':'):]
		listedPort := w.listed.root[strings.LastIndexByte(w.listed.root, ':'):]
		key := func(fields, reference string) string {
			return `{"name":"v",` + fields + `,` + mapping("key", reference) + `}`
		}
		integration := func(fields, reference string) string {
			return `{"name":"i","workspace_id":"default",` + fields + `,` + mapping("key", reference) + `}`
		}
		compatible := func(host string) string { return fmt.Sprintf(`"provider":"openai-compatible","customHost":%q`, host) }
		for _, tt := range []struct{ name, path, body string }{
			{"a virtual key with a host", "/virtual-keys", key(compatible(theirs.url), "plain")},
			{"a virtual key with a host, the other spelling", "/virtual-keys", key(fmt.Sprintf(`"provider":"openai","custom_host":%q`, theirs.url), "plain")},
			{"a virtual key with a host in model_config", "/virtual-keys", key(fmt.Sprintf(`"provider":"openai","model_config":{"customHost":%q}`, theirs.url), "plain")},
			{"a host that another reference allows", "/virtual-keys", key(compatible(w.listed.url), "plain")},
			{"a host that the reference does not list", "/virtual-keys", key(compatible(theirs.url), "listed")},
			{"the listed host by https", "/virtual-keys", key(compatible("https://127.0.0.1"+listedPort), "listed")},
			{"the listed host at another port", "/virtual-keys", key(compatible("http://127.0.0.1"+port), "listed")},
			{"the listed host at the default port", "/virtual-keys", key(compatible("http://127.0.0.1"), "listed")},
			{"the listed host as user information", "/virtual-keys", key(compatible("http://127.0.0.1"+listedPort+"@127.0.0.1"+port), "listed")},
			{"the listed host as path", "/virtual-keys", key(compatible("http://127.0.0.1"+port+"/127.0.0.1"+listedPort), "listed")},
			{"the listed host in front of another domain", "/virtual-keys", key(compatible("http://127.0.0.1.example.com"+listedPort), "listed")},
			{"the listed host as one decimal number", "/virtual-keys", key(compatible("http://2130706433"+listedPort), "listed")},
			{"the listed host in hexadecimal", "/virtual-keys", key(compatible("http://0x7f000001"+listedPort), "listed")},
			{"the listed host in short form", "/virtual-keys", key(compatible("http://127.1"+listedPort), "listed")},
			{"the listed host inside IPv6", "/virtual-keys", key(compatible("http://[::ffff:127.0.0.1]"+listedPort), "listed")},
			{"another address of loopback", "/virtual-keys", key(compatible("http://[::1]"+port), "listed")},
			{"a name of loopback", "/virtual-keys", key(compatible("http://localhost"+listedPort), "listed")},
			{"a name with a final dot", "/virtual-keys", key(compatible("http://127.0.0.1."+listedPort), "listed")},
			{"a percent-encoded host", "/virtual-keys", key(compatible("http://%31%32%37.0.0.1"+listedPort), "listed")},
			{"a host with a backslash", "/virtual-keys", key(compatible(`http://127.0.0.1`+port+`\@127.0.0.1`+listedPort), "listed")},
			{"an Azure resource", "/virtual-keys", key(`"provider":"azure-openai","resourceName":"theirs"`, "plain")},
			{"an Azure resource with dots", "/virtual-keys", key(`"provider":"azure-openai","resourceName":"evil.example.com"`, "plain")},
			{"a Foundry address", "/virtual-keys", key(fmt.Sprintf(`"provider":"azure-ai","foundryUrl":%q`, theirs.url), "plain")},
			{"a Foundry resource", "/virtual-keys", key(`"provider":"azure-ai","resourceName":"theirs"`, "plain")},
			{"a serverless deployment", "/virtual-keys", key(`"provider":"azure-ai","deploymentName":"theirs","region":"eastus"`, "plain")},
			{"a managed endpoint", "/virtual-keys", key(`"provider":"azure-ai","endpointName":"theirs","region":"eastus"`, "plain")},
			{"a Databricks workspace", "/virtual-keys", key(`"provider":"databricks","workspace":"theirs"`, "plain")},
			{"a Snowflake account", "/virtual-keys", key(`"provider":"cortex","account":"theirs"`, "plain")},
			{"a region that is a host", "/virtual-keys", key(`"provider":"bedrock","region":"x.execute-api.us-east-1"`, "plain")},
			{"a provider that the reference does not name", "/virtual-keys", key(`"provider":"openai"`, "narrow")},
			{"a provider that the reference does not name, by a host", "/virtual-keys", key(fmt.Sprintf(`"provider":"groq","customHost":%q`, theirs.url), "narrow")},
			{"an integration with a host", "/integrations", integration(fmt.Sprintf(`"ai_provider_id":"openai","configurations":{"custom_host":%q}`, theirs.url), "plain")},
			{"an integration with a Foundry address", "/integrations", integration(fmt.Sprintf(`"ai_provider_id":"azure-ai","configurations":{"cloud_c_foundry_url":%q}`, theirs.url), "plain")},
			{"an integration with an Azure resource", "/integrations", integration(`"ai_provider_id":"azure-openai","configurations":{"cloud_c_resource_name":"theirs"}`, "plain")},
			{"the secret in a header", "/virtual-keys", `{"name":"v",` + compatible(theirs.url) + `,"key":"own",` + mapping("model_config.custom_headers.X-Secret", "plain") + `}`},
			{"the secret in a setting that is shown", "/virtual-keys", `{"name":"v","provider":"openai","key":"own",` + mapping("model_config.organization", "plain") + `}`},
			{"the secret as part of the host", "/virtual-keys", `{"name":"v","provider":"azure-openai","key":"own",` + mapping("model_config.resource_name", "plain") + `}`},
			{"the secret as the host", "/virtual-keys", `{"name":"v","provider":"openai","key":"own",` + mapping("model_config.custom_host", "plain") + `}`},
		} {
			attack(t, "credential theft", tt.name, func(t *testing.T) {
				for _, token := range []string{w.member, w.session} {
					got := g.as(t, token, "POST", "/v1"+tt.path, tt.body)
					if got.status < 400 || got.status >= 500 {
						t.Errorf("POST %s %s = %d: %.300s", tt.path, tt.body, got.status, got.body)
					}
				}
				w.stolen(t)
			})
		}
		w.legitimate(t)
		w.inTwoSteps(t)
		w.otherWays(t)
	})
}

// create makes a virtual key as the member and returns its slug.
func (w *secretWorld) create(t *testing.T, body string) string {
	t.Helper()
	return w.g.create(t, w.member, "/v1/virtual-keys", body, "data.slug")
}

// asks sends a chat request to the managed provider until the gateway knows it.
func (w *secretWorld) asks(t *testing.T, slug string, header ...string) response {
	t.Helper()
	var got response
	waittest.Until(t, "@"+slug+" is known", func() bool {
		got = w.g.as(t, w.member, "POST", "/v1/chat/completions", chatBody, append([]string{"x-gateway-provider", "@" + slug}, header...)...)
		return got.status != http.StatusNotFound && !strings.Contains(string(got.body), "secret_pending")
	})
	return got
}

// legitimate maps the reference onto the host that it lists.
func (w *secretWorld) legitimate(t *testing.T) {
	slug := w.create(t, fmt.Sprintf(`{"name":"fine","provider":"openai","customHost":%q,%s}`, w.listed.url, mapping("key", "listed")))
	if got := w.asks(t, slug); got.status != http.StatusOK || !w.listed.got(organisationSecret) {
		t.Fatalf("the listed host: %d %.300s, got the secret: %t", got.status, got.body, w.listed.got(organisationSecret))
	}
	own := w.create(t, fmt.Sprintf(`{"name":"own","provider":"openai","customHost":%q,"key":"sk-own-credential-7788"}`, w.theirs.url))
	if got := w.asks(t, own); got.status != http.StatusOK || !w.theirs.got("sk-own-credential-7788") {
		t.Fatalf("a credential of the member's own at a host of their own: %d %.300s", got.status, got.body)
	}
	w.create(t, `{"name":"provider","provider":"openai",`+mapping("key", "plain")+`}`)
	w.create(t, `{"name":"region","provider":"bedrock","region":"eu-west-1",`+mapping("key", "plain")+`}`)
}

// inTwoSteps tries changes of what was allowed.
func (w *secretWorld) inTwoSteps(t *testing.T) {
	mapped := w.create(t, `{"name":"mapped","provider":"openai",`+mapping("key", "plain")+`}`)
	hosted := w.create(t, fmt.Sprintf(`{"name":"hosted","provider":"openai","customHost":%q,"key":"own-key"}`, w.theirs.url))
	stored := w.create(t, `{"name":"stored","provider":"openai","key":"`+storedKey+`","custom_headers":{"X-Extra":"`+storedKey+`"}}`)
	azure := w.create(t, `{"name":"azure","provider":"azure-openai","resourceName":"ours","key":"`+storedKey+`"}`)
	mask := w.g.as(t, w.member, "GET", "/v1/virtual-keys/"+stored, "").ok(t).text(t, "masked_api_key")
	integration := w.g.create(t, w.member, "/v1/integrations", `{"name":"i","workspace_id":"default","ai_provider_id":"openai","key":"`+storedKey+`","create_default_provider":false}`, "slug")
	referring := w.g.create(t, w.member, "/v1/integrations", `{"name":"r","workspace_id":"default","ai_provider_id":"openai","create_default_provider":false,`+mapping("key", "plain")+`}`, "slug")
	host := fmt.Sprintf("%q", w.theirs.url)
	for _, tt := range []struct{ name, path, body string }{
		{"a host for a mapping that is there", "/virtual-keys/" + mapped, `{"customHost":` + host + `}`},
		{"a host in model_config for a mapping that is there", "/virtual-keys/" + mapped, `{"model_config":{"custom_host":` + host + `}}`},
		{"a host and a key for a mapping that is there", "/virtual-keys/" + mapped, `{"customHost":` + host + `,"key":"own"}`},
		{"a mapping for a host that is there", "/virtual-keys/" + hosted, `{` + mapping("key", "plain") + `}`},
		{"a mapping of a header for a host that is there", "/virtual-keys/" + hosted, `{` + mapping("model_config.custom_headers.X-S", "plain") + `}`},
		{"a host for a stored key", "/virtual-keys/" + stored, `{"customHost":` + host + `}`},
		{"a host for a stored key that is sent as its mask", "/virtual-keys/" + stored, `{"customHost":` + host + `,"key":"` + mask + `"}`},
		{"a host and a key for stored headers", "/virtual-keys/" + stored, `{"customHost":` + host + `,"key":"own"}`},
		{"another provider for a stored key", "/virtual-keys/" + stored, `{"provider":"groq"}`},
		{"another Azure resource for a stored key", "/virtual-keys/" + azure, `{"resourceName":"theirs"}`},
		{"a host for the stored key of an integration", "/integrations/" + integration, `{"configurations":{"custom_host":` + host + `}}`},
		{"a host for the mapping of an integration", "/integrations/" + referring, `{"configurations":{"custom_host":` + host + `}}`},
		{"a host and a mapping for an integration", "/integrations/" + integration, `{"key":"own","configurations":{"custom_host":` + host + `},` + mapping("key", "plain") + `}`},
		{"the reference's own list", "/secret-references/plain", `{"allowed_hosts":[` + host + `]}`},
		{"the reference's own providers", "/secret-references/narrow", `{"allowed_providers":[]}`},
	} {
		attack(t, "credential theft", "changes "+tt.name, func(t *testing.T) {
			for _, token := range []string{w.member, w.session} {
				got := w.g.as(t, token, "PUT", "/v1"+tt.path, tt.body)
				if got.status < 400 || got.status >= 500 {
					t.Errorf("PUT %s %s = %d: %.300s", tt.path, tt.body, got.status, got.body)
				}
			}
			w.stolen(t)
		})
	}
}

// otherWays tries to lead requests with a secret elsewhere while it is used.
func (w *secretWorld) otherWays(t *testing.T) {
	slug := w.create(t, fmt.Sprintf(`{"name":"used","provider":"openai","customHost":%q,%s}`, w.listed.url, mapping("key", "listed")))
	w.asks(t, slug).ok(t)
	config := func(text string) []string { return []string{"x-gateway-config", text} }
	saved := w.g.create(t, w.member, "/v1/configs", fmt.Sprintf(`{"name":"saved","workspace_id":"default","config":{"strategy":{"mode":"fallback"},"targets":[{"provider":"@%s"},{"strategy":{"mode":"loadbalance"},"targets":[{"provider":"@%s"}]}]}}`, slug, slug), "data.slug")
	credential := w.g.create(t, w.member, "/v1/configs", `{"name":"credential","workspace_id":"default","config":{"strategy":{"mode":"fallback"},"targets":[{"strategy":{"mode":"single"},"targets":[{"provider":"openai-compatible","api_key":"`+storedKey+`"}]}]}}`, "data.slug")
	for _, tt := range []struct {
		name   string
		header []string
	}{
		{"a header next to the slug", []string{"x-gateway-provider", "@" + slug, "x-gateway-custom-host", w.theirs.url}},
		{"a header next to the virtual key", []string{"x-gateway-virtual-key", slug, "x-gateway-custom-host", w.theirs.url}},
		{"a host in a config", config(fmt.Sprintf(`{"provider":"@%s","custom_host":%q}`, slug, w.theirs.url))},
		{"a host in a config with a virtual key", config(fmt.Sprintf(`{"virtual_key":%q,"custom_host":%q}`, slug, w.theirs.url))},
		{"a host of a parent", config(fmt.Sprintf(`{"custom_host":%q,"strategy":{"mode":"fallback"},"targets":[{"provider":"@%s"}]}`, w.theirs.url, slug))},
		{"a host of a grandparent", config(fmt.Sprintf(`{"strategy":{"mode":"fallback"},"targets":[{"custom_host":%q,"strategy":{"mode":"loadbalance"},"targets":[{"strategy":{"mode":"single"},"targets":[{"provider":"@%s"}]}]}]}`, w.theirs.url, slug))},
		{"a host of a second target", config(fmt.Sprintf(`{"strategy":{"mode":"fallback"},"targets":[{"provider":"@%s"},{"provider":"@%s","custom_host":%q}]}`, slug, slug, w.theirs.url))},
		{"a header above a config", append(config(fmt.Sprintf(`{"strategy":{"mode":"fallback"},"targets":[{"provider":"@%s"}]}`, slug)), "x-gateway-custom-host", w.theirs.url)},
		{"a header above a saved config", append(config(saved), "x-gateway-custom-host", w.theirs.url)},
		{"a header above a saved credential", append(config(credential), "x-gateway-custom-host", w.theirs.url)},
		{"a header and another slug", []string{"x-gateway-provider", slug, "x-gateway-custom-host", w.theirs.url}},
	} {
		attack(t, "credential theft", "sends a secret by "+tt.name, func(t *testing.T) {
			got := w.g.as(t, w.member, "POST", "/v1/chat/completions", chatBody, tt.header...)
			if got.status < 400 || got.status >= 500 {
				t.Errorf("%d: %.300s", got.status, got.body)
			}
			w.stolen(t)
		})
	}
	w.byOptions(t, slug)
	w.byRedirect(t)
	w.byModel(t)
	w.byExplain(t, slug)
	w.narrowed(t, slug)
}

// byOptions sends headers that choose a host where they name no managed provider.
func (w *secretWorld) byOptions(t *testing.T, slug string) {
	for _, header := range [][]string{
		{"x-gateway-cloud-c-resource-name", "theirs"}, {"x-gateway-cloud-c-foundry-url", w.theirs.url}, {"x-gateway-foundry-url", w.theirs.url},
		{"x-gateway-region", "evil.example.com"}, {"x-gateway-workspace", "theirs"}, {"x-gateway-snowflake-account", "theirs"},
	} {
		attack(t, "credential theft", "chooses the host by "+header[0], func(t *testing.T) {
			w.listed.reset()
			if got := w.asks(t, slug, header...); got.status == http.StatusOK && len(w.listed.seen()) != 1 {
				t.Errorf("%d, and the listed host received %d requests", got.status, len(w.listed.seen()))
			}
			w.stolen(t)
		})
	}
	for _, path := range []string{"/v1@127.0.0.1/x", "/v1//" + strings.TrimPrefix(w.theirs.root, "http://") + "/x", "/v1/http://" + strings.TrimPrefix(w.theirs.root, "http://") + "/x",
		"/v1/@" + strings.TrimPrefix(w.theirs.root, "http://"), "/v1/..//" + strings.TrimPrefix(w.theirs.root, "http://")} {
		attack(t, "credential theft", "chooses the host by the path "+strings.ReplaceAll(path, w.theirs.root[17:], ":port"), func(t *testing.T) {
			w.g.as(t, w.member, "POST", path, chatBody, "x-gateway-provider", "@"+slug)
			w.stolen(t)
			if n := len(w.theirs.seen()); n > 0 && w.theirs.got(organisationSecret) {
				t.Errorf("the attacker's server received %d requests", n)
			}
		})
	}
}

// byRedirect has the allowed host redirect to the attacker's.
func (w *secretWorld) byRedirect(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		attack(t, "credential theft", fmt.Sprintf("redirects with %d", status), func(t *testing.T) {
			away := newProvider(t, func(rw http.ResponseWriter, r *http.Request) {
				http.Redirect(rw, r, w.theirs.url+"/chat/completions", status)
			})
			name := fmt.Sprintf("redirect%d", status)
			w.g.as(t, rootKey, "POST", "/v1/secret-references", fmt.Sprintf(`{"name":"r","slug":%q,"manager_type":"environment","secret_path":"ORG_KEY","allowed_hosts":[%q]}`, name, away.root)).ok(t)
			slug := w.create(t, fmt.Sprintf(`{"name":%q,"provider":"openai","customHost":%q,%s}`, name, away.url, mapping("key", name)))
			if w.asks(t, slug); !away.got(organisationSecret) {
				t.Error("the allowed host did not receive the secret")
			}
			w.stolen(t)
		})
	}
}

// byModel gives a model of an integration a host of its own.
func (w *secretWorld) byModel(t *testing.T) {
	attack(t, "credential theft", "gives a model a host of its own", func(t *testing.T) {
		slug := w.g.create(t, w.member, "/v1/integrations", fmt.Sprintf(`{"name":"m","slug":"models","workspace_id":"default","ai_provider_id":"openai","configurations":{"custom_host":%q,"custom_headers":{"X-Extra":%q}},%s}`,
			w.listed.url, storedKey, mapping("key", "listed")), "slug")
		w.g.as(t, w.member, "PUT", "/v1/integrations/"+slug+"/models", fmt.Sprintf(`{"models":[{"slug":"gpt-4o","enabled":true,"configurations":{"custom_host":%q}}]}`, w.theirs.url)).ok(t)
		w.asks(t, slug)
		waittest.Until(t, "the model has its own host", func() bool {
			w.asks(t, slug)
			return len(w.theirs.seen()) > 0
		})
		w.stolen(t)
	})
}

// byExplain reads what would be sent.
func (w *secretWorld) byExplain(t *testing.T, slug string) {
	attack(t, "credential theft", "reads the secret by explain", func(t *testing.T) {
		got := w.g.as(t, w.member, "POST", "/v1/explain", `{"request":{"headers":{"x-gateway-provider":"@`+slug+`"},"body":`+chatBody+`}}`)
		if strings.Contains(string(got.body), organisationSecret) {
			t.Errorf("explain shows the secret: %.300s", got.body)
		}
	})
}

// narrowed takes the host out of the reference that an entry uses.
func (w *secretWorld) narrowed(t *testing.T, slug string) {
	attack(t, "credential theft", "uses a mapping whose reference no longer allows the host", func(t *testing.T) {
		w.g.as(t, rootKey, "PUT", "/v1/secret-references/listed", `{"allowed_hosts":[]}`).ok(t)
		waittest.Until(t, "the provider returns 503", func() bool { return w.asks(t, slug).status == http.StatusServiceUnavailable })
		w.listed.reset()
		w.asks(t, slug).refused(t, http.StatusServiceUnavailable, "secret_host_refused", "allowed_hosts")
		if w.listed.got(organisationSecret) {
			t.Error("the host received the secret after it was taken from the list")
		}
	})
}

// TestReferenceListsAreChecked sends lists that would allow too much.
func TestReferenceListsAreChecked(t *testing.T) {
	t.Parallel()
	g := launch(t, options{settings: "version: 1\nsecrets:\n  environment: [ORG_*]\n"})
	kept := "/v1/secret-references/" + g.create(t, rootKey, "/v1/secret-references", `{"name":"kept","manager_type":"environment","secret_path":"ORG_KEY","allowed_hosts":["models.example.com"]}`, "slug")
	for _, tt := range []struct{ hosts, at string }{
		{`["*"]`, "[0]"}, {`["models.example.com","*"]`, "[1]"}, {`["*.com"]`, "[0]"}, {`["https://*"]`, "[0]"}, {`["user@models.example.com"]`, "[0]"}, {`["models.example.com/path"]`, "[0]"},
		{`["ftp://models.example.com"]`, "[0]"}, {`[""]`, "[0]"}, {`["a b"]`, "[0]"}, {`["models.example.com#x"]`, "[0]"},
	} {
		attack(t, "credential theft", "a reference with allowed_hosts "+tt.hosts, func(t *testing.T) {
			g.as(t, rootKey, "POST", "/v1/secret-references", `{"name":"r","manager_type":"environment","secret_path":"ORG_KEY","allowed_hosts":`+tt.hosts+`}`).refused(t, http.StatusBadRequest, "allowed_hosts"+tt.at)
			g.as(t, rootKey, "PUT", kept, `{"allowed_hosts":`+tt.hosts+`}`).refused(t, http.StatusBadRequest, "allowed_hosts"+tt.at)
		})
	}
	attack(t, "credential theft", "a reference with a provider that does not exist", func(t *testing.T) {
		g.as(t, rootKey, "POST", "/v1/secret-references", `{"name":"r","manager_type":"environment","secret_path":"ORG_KEY","allowed_providers":["nobody"]}`).refused(t, http.StatusBadRequest, "allowed_providers[0]")
	})
	attack(t, "credential theft", "a file with a reference that every host gets", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "apply.yaml")
		if err := os.WriteFile(file, []byte("version: 1\nsecret_references: [{slug: all, manager_type: environment, secret_path: ORG_KEY, allowed_hosts: [\"*\"]}]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, errText, code := command(t, "apply", "--data", g.data, file); code == 0 || !strings.Contains(out+errText, "allowed_hosts[0]") {
			t.Errorf("apply: exit %d: %s%s", code, out, errText)
		}
	})
	attack(t, "credential theft", "a file that maps a reference onto a host that it does not list", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "apply.yaml")
		text := "version: 1\nsecret_references: [{slug: s, manager_type: environment, secret_path: ORG_KEY}]\n" +
			"integrations: [{slug: a, provider: openai, custom_host: \"https://models.example.com\", secret_mappings: [{target_field: key, secret_reference: s}]}]\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, more := range [][]string{{"--dry-run"}, nil} {
			out, errText, code := command(t, append(append([]string{"apply", "--data", g.data}, more...), file)...)
			if code == 0 || !strings.Contains(out+errText, "may not be sent to https://models.example.com") {
				t.Errorf("apply %v: exit %d: %s%s", more, code, out, errText)
			}
		}
	})
}

// TestLentIdentityGoesOnlyToTheCloud tries to have the identity of the gateway's
// machine sent to a tenant's server.
func TestLentIdentityGoesOnlyToTheCloud(t *testing.T) {
	t.Parallel()
	theirs := newProvider(t, nil)
	tls := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(tls.Close)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(machineKey), 0o600); err != nil {
		t.Fatal(err)
	}
	listed := filepath.Join(t.TempDir(), "listed") // which tenants may name, so that only the address is wrong
	if err := os.WriteFile(listed, []byte(machineKey), 0o600); err != nil {
		t.Fatal(err)
	}
	g := launch(t, options{settings: "version: 1\nsecrets:\n  own_identity: true\n  files: [\"" + filepath.Dir(listed) + "\"]\n", env: []string{
		"AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY=" + machineKey,
		"AZURE_FEDERATED_TOKEN_FILE=" + token, "AZURE_TENANT_ID=tenant", "AZURE_CLIENT_ID=client", "AZURE_AUTHORITY_HOST=" + tls.URL,
		"GOOGLE_APPLICATION_CREDENTIALS=" + token, "IDENTITY_ENDPOINT=" + theirs.root + "/identity", "IDENTITY_HEADER=" + machineKey,
	}})
	member := g.key(t, rootKey, "default", memberScopes, "")
	account := func(tokenURL, source, more string) string {
		text := fmt.Sprintf(`{"type":"external_account","audience":"a","subject_token_type":"t","token_url":%q,"credential_source":%s%s}`, tokenURL, source, more)
		return fmt.Sprintf(`"provider":"vertex-ai","region":"global","projectId":"p","authType":"workloadIdentityFederation","serviceAccountJson":%q`, text)
	}
	const sts = "https://sts.googleapis.com/v1/token"
	file := fmt.Sprintf(`{"file":%q}`, token)
	address := fmt.Sprintf(`{"url":%q}`, theirs.root+"/subject")
	host := fmt.Sprintf(`,"customHost":%q`, theirs.url)
	for _, tt := range []struct{ name, fields string }{
		{"a federated identity with a token address", account(tls.URL+"/token", file, "")},
		{"a federated identity with a token address of a bucket", account("https://storage.googleapis.com/upload/storage/v1/b/theirs/o", file, "")},
		{"a federated identity with a look-alike of the token address", account("https://sts.googleapis.com.evil.example/v1/token", file, "")},
		{"a listed identity with a token address", account(tls.URL+"/token", fmt.Sprintf(`{"file":%q}`, listed), "")},
		{"a listed identity with a look-alike of the token address", account("https://sts.googleapis.com.evil.example/v1/token", fmt.Sprintf(`{"file":%q}`, listed), "")},
		{"a federated identity with a file of the machine", account(sts, file, "")},
		{"a federated identity with a system file", account(sts, `{"file":"/etc/passwd"}`, "")},
		{"a federated identity with the environment of the process", account(sts, `{"file":"/proc/self/environ"}`, "")},
		{"a federated identity with an address of its own", account(sts, address, "")},
		{"a federated identity with the metadata service", account(sts, `{"url":"http://169.254.169.254/latest/user-data"}`, "")},
		{"a federated identity at a custom host", account(sts, file, "") + host},
		{"the machine's keys at a custom host", `"provider":"bedrock","authType":"serviceRole","region":"us-east-1"` + host},
		{"a role of the machine at a custom host", `"provider":"bedrock","authType":"assumedRole","roleArn":"arn:aws:iam::123456789012:role/r","region":"us-east-1"` + host},
		{"the machine's account at a custom host", `"provider":"vertex-ai","authType":"workload","region":"global","projectId":"p"` + host},
		{"a managed identity at a custom host", `"provider":"azure-openai","authMode":"managed","resourceName":"r"` + host},
		{"a managed identity at a Foundry address", fmt.Sprintf(`"provider":"azure-ai","authMode":"managed","foundryUrl":%q`, theirs.url)},
		{"a managed identity at a resource", `"provider":"azure-openai","authMode":"managed","resourceName":"theirs"`},
		{"a managed identity at an endpoint", `"provider":"azure-ai","authMode":"managed","endpointName":"theirs","region":"eastus"`},
		{"a workload identity at a custom host", `"provider":"azure-openai","authMode":"workload","resourceName":"r"` + host},
		{"a workload identity at a resource", `"provider":"azure-openai","authMode":"workload","resourceName":"theirs"`},
		{"a managed identity with another scope", `"provider":"azure-openai","authMode":"managed","resourceName":"theirs","entraScope":"https://management.azure.com/.default"`},
	} {
		attack(t, "escalation", tt.name, func(t *testing.T) {
			theirs.reset()
			got := g.as(t, member, "POST", "/v1/virtual-keys", `{"name":"v",`+tt.fields+`}`)
			if got.status >= 400 && got.status < 500 {
				return
			}
			slug := got.ok(t).text(t, "data.slug")
			waittest.Until(t, "@"+slug+" is known", func() bool {
				got = g.as(t, member, "POST", "/v1/chat/completions", chatBody, "x-gateway-provider", "@"+slug)
				return got.status != http.StatusNotFound
			})
			if got.status < 400 || got.status >= 500 {
				t.Errorf("status %d: %.300s", got.status, got.body)
			}
			if n := len(theirs.seen()); n > 0 {
				t.Errorf("the attacker's server received %d requests: %+v", n, theirs.seen())
			}
		})
	}
	attack(t, "escalation", "a managed identity of the organisation with another scope", func(t *testing.T) {
		theirs.reset()
		g.create(t, rootKey, "/v1/integrations", `{"name":"wide","slug":"wide","ai_provider_id":"azure-openai","configurations":{"cloud_c_auth_mode":"managed","cloud_c_resource_name":"r","cloud_c_entra_scope":"https://management.azure.com/.default"}}`, "slug")
		var got response
		waittest.Until(t, "@wide is known", func() bool {
			got = g.as(t, member, "POST", "/v1/chat/completions", chatBody, "x-gateway-provider", "@wide")
			return got.status != http.StatusNotFound
		})
		got.refused(t, http.StatusBadRequest, "entra_scope")
		if n := len(theirs.seen()); n > 0 {
			t.Errorf("a token was asked for: %+v", theirs.seen())
		}
	})
	for _, header := range [][]string{
		{"x-gateway-provider", "bedrock", "x-gateway-cloud-a-auth-type", "serviceRole", "x-gateway-custom-host", theirs.url},
		{"x-gateway-provider", "azure-openai", "x-gateway-cloud-c-auth-mode", "managed", "x-gateway-cloud-c-resource-name", "theirs"},
		{"x-gateway-provider", "vertex-ai", "x-gateway-cloud-b-auth-type", "workload", "x-gateway-cloud-b-region", "global", "x-gateway-cloud-b-project-id", "p"},
	} {
		attack(t, "escalation", "the machine's identity of "+header[1]+" by headers", func(t *testing.T) {
			theirs.reset()
			got := g.as(t, member, "POST", "/v1/chat/completions", chatBody, header...)
			if got.status < 400 || got.status >= 500 || len(theirs.seen()) > 0 {
				t.Errorf("status %d, %d requests: %.300s", got.status, len(theirs.seen()), got.body)
			}
		})
	}
}

// TestTokenAddressesPassTheAddressGuard gives credentials whose token address is
// private.
func TestTokenAddressesPassTheAddressGuard(t *testing.T) {
	t.Parallel()
	secure := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the private token address was reached") }))
	t.Cleanup(secure.Close)
	u, err := url.Parse(secure.URL)
	if err != nil {
		t.Fatal(err)
	}
	authority := filepath.Join(t.TempDir(), "authority.pem") // whose certificate does not keep the gateway away
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	g := launch(t, options{noTrust: true, env: []string{"SSL_CERT_FILE=" + authority}})
	member := g.key(t, rootKey, "default", memberScopes, "")
	for _, host := range []string{"127.0.0.1:" + u.Port(), "localhost:" + u.Port(), "[::1]:" + u.Port(), "[::ffff:127.0.0.1]:" + u.Port(), "0.0.0.0:" + u.Port(), "10.0.0.1", "169.254.169.254", "metadata.google.internal", "127.0.0.1.nip.io:" + u.Port()} {
		attack(t, "address guard", "a service account with the token address "+strings.ReplaceAll(host, u.Port(), "port"), func(t *testing.T) {
			text := fmt.Sprintf(`{"type":"authorized_user","client_id":"c","client_secret":"s","refresh_token":"r","token_uri":"https://%s/token"}`, host)
			got := g.do(t, "POST", "/v1/chat/completions", chatBody, "x-gateway-api-key", member, "x-gateway-provider", "vertex-ai",
				"x-gateway-cloud-b-region", "global", "x-gateway-cloud-b-project-id", "p", "x-gateway-cloud-b-service-account-json", text)
			if got.status < 400 {
				t.Errorf("status %d: %.300s", got.status, got.body)
			}
		})
	}
}
