package security

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

// A key of a user may do on model routes at most what the user's role allows, whatever the
// scopes of the key are, from the moment the role changes.
func TestKeysOfUsersDoOnModelRoutesWhatTheirRoleAllows(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, o options) {
		g, p := launch(t, o), newProvider(t, nil)
		hook := newProvider(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"verdict":true}`)
		})
		g.as(t, rootKey, "PUT", "/v1/admin/organisation", `{"settings":{"security_settings":{"membersWriteVirtualKeys":false}}}`).ok(t)
		g.create(t, rootKey, "/v1/guardrail-credentials", fmt.Sprintf(`{"partner":"default.webhook","organisation_id":"default","credentials":{"authorization":"Bearer %s","url":%q}}`, storedKey, hook.root), "id")
		user := g.userID(t, g.member(t, "ann", "member", `[{"id":"default","role":"member"}]`))
		key := g.create(t, rootKey, "/v1/api-keys/workspace/user", fmt.Sprintf(`{"name":"k","workspace_id":"default","user_id":%q,"scopes":["completions.write","guardrails.create","providers.update"]}`, user), "key")
		g.awaitKey(t, key)
		service := g.key(t, rootKey, "default", []string{"completions.write", "guardrails.create", "providers.update"}, "")
		stored := fmt.Sprintf(`{"provider":"openai-compatible","custom_host":%q,"api_key":%q,"input_guardrails":[{"deny":true,"default.webhook":{"webhookURL":%q,"storedCredentials":true,"failOnError":true}}]}`, p.url, clientKey, hook.root+"/check")
		code := fmt.Sprintf(`{"provider":"openai-compatible","custom_host":%q,"api_key":%q,"input_guardrails":[{"default.wasm":{"code":"AGFzbQEAAAA="}}]}`, p.url, clientKey)
		cases := []struct{ name, method, path, body, config, kind string }{
			{"stored credentials of checks", "POST", "/v1/chat/completions", chatBody, stored, ""},
			{"code in a config", "POST", "/v1/chat/completions", chatBody, code, ""},
			{"client secrets", "POST", "/v1/realtime/client_secrets", `{}`, "", "x-gateway-pass-through: true"},
			{"client secrets in capitals", "POST", "/v1/Realtime/Client_Secrets", `{}`, "", ""},
			{"a realtime call with SDP", "POST", "/v1/realtime", "v=0\r\n", "", "application/sdp"},
			{"a realtime call with a slash", "POST", "/v1/realtime/?model=gpt-4o", "v=0\r\n", "", "application/sdp"},
			{"realtime sessions", "POST", "/v1/realtime/sessions", `{}`, "", ""},
			{"keys of an organisation", "POST", "/v1/organizations/api_keys", `{}`, "", ""},
			{"keys of an organisation, encoded", "POST", "/v1/organizations/api%5Fkeys", `{}`, "", ""},
			{"administration keys", "POST", "/v1/organization/admin_api_keys", `{}`, "", ""},
			{"keys of an account", "POST", "/v1/accounts/acme/users/ann/apiKeys", `{}`, "", ""},
			{"service accounts", "POST", "/v1/accounts/acme/serviceAccounts", `{}`, "", ""},
			{"keys of a project", "POST", "/v1/projects/p/api-keys", `{}`, "", ""},
			{"keys", "POST", "/v1/keys", `{}`, "", ""},
			{"a list of keys", "POST", "/v1/accounts/a/listKeys", `{}`, "", ""},
			{"service accounts of a project", "POST", "/v1/organization/projects/p/service_accounts", `{}`, "", ""},
			{"users of an organisation", "POST", "/v1/organizations/users/u", `{}`, "", ""},
			{"invites of an organisation", "POST", "/v1/organizations/invites", `{}`, "", ""},
			{"invites", "POST", "/v1/invites", `{}`, "", ""},
			{"invitations in capitals", "POST", "/v1/Invitations", `{}`, "", ""},
			{"certificates of an organisation", "POST", "/v1/organization/certificates/activate", `{}`, "", ""},
			{"certificates of a project", "POST", "/v1/projects/p/certificates", `{}`, "", ""},
			{"users of an account", "POST", "/v1/accounts/acme/users", `{}`, "", ""},
			{"users of an account, removed", "DELETE", "/v1/accounts/acme/users/ann", ``, "", ""},
			{"members of a project", "POST", "/v1/projects/p/members", `{}`, "", ""},
			{"members of a project, with a matrix parameter", "POST", "/v1/projects/p/members;a=b", `{}`, "", ""},
			{"members of a workspace", "POST", "/v1/organizations/workspaces/w/members", `{}`, "", ""},
			{"a policy of a project", "POST", "/v1/projects/p:setIamPolicy", `{}`, "", ""},
			{"a policy of a project, encoded", "POST", "/v1/projects/p%3AsetIamPolicy", `{}`, "", ""},
			{"a token of a service account", "POST", "/v1/projects/-/serviceAccountz/a:generateAccessToken", `{}`, "", ""},
			{"a signature of a service account", "POST", "/v1/projects/-/x/a:signJwt", `{}`, "", ""},
			{"permissions of a model", "POST", "/v1/tunedModels/m/permissions", `{}`, "", ""},
			{"users by SCIM", "POST", "/v1/api/2.0/preview/scim/v2/Users", `{}`, "", ""},
			{"a token of a workspace", "POST", "/v1/api/2.0/token/create", `{}`, "", ""},
			{"a role assignment", "PUT", "/v1/providers/Microsoft.Authorization/roleAssignments/r", `{}`, "", "x-gateway-pass-through: true"},
			{"an access key by an action", "POST", "/v1/x?Action=CreateAccessKey&UserName=ann", `{}`, "", ""},
			{"an access key by an action in small letters", "GET", "/v1/x?Version=1&action=CreateAccessKey", ``, "", ""},
			{"an access key by an encoded action", "POST", "/v1/x?%41ction=Create%41ccessKey", `{}`, "", ""},
			{"a user by an action", "POST", "/v1/x?Action=CreateUser", `{}`, "", ""},
			{"a policy by an action", "POST", "/v1/x?Action=AttachUserPolicy", `{}`, "", ""},
			{"a role by an action", "POST", "/v1/x?Action=AssumeRole", `{}`, "", ""},
			{"a key by a target", "POST", "/v1/x", `{}`, "", "X-Amz-Target: TrentService.CreateGrant"},
			{"a secret by a target", "POST", "/v1/x", `{}`, "", "X-Amz-Target: secretsmanager.GetSecretValue"},
			{"an API key by a header", "POST", "/v1/x", `{}`, "", "X-TC-Action: CreateApiKey"},
			{"a user by a header", "POST", "/v1/x", `{}`, "", "x-acs-action: CreateUser"},
		}
		send := func(key string, i int) (status int, reached bool) {
			c := cases[i]
			p.reset()
			hook.reset()
			header := toCustomHost(key, p)
			if c.config != "" {
				header = []string{"x-gateway-api-key", key, "x-gateway-config", c.config}
			}
			if name, value, ok := strings.Cut(c.kind, ": "); ok {
				header = append(header, name, value)
			} else if c.kind != "" {
				header = append(header, "Content-Type", c.kind)
			}
			r := g.do(t, c.method, c.path, c.body, header...)
			return r.status, len(p.seen()) > 0 && (c.config != stored || hook.got(storedKey))
		}
		for i, c := range cases {
			attack(t, "escalation", "a member's key with the scope: "+c.name, func(t *testing.T) {
				if status, reached := send(key, i); status < 400 || reached || hook.got(storedKey) {
					t.Errorf("status %d, provider reached: %t, credential sent: %t", status, reached, hook.got(storedKey))
				}
				if c.config == code { // the module does nothing, so no one gets it compiled
					return
				}
				if status, reached := send(service, i); !reached {
					t.Errorf("a service key with the scope: status %d, provider not reached", status)
				}
			})
		}
		attack(t, "escalation", "a member's key after the role has changed, and changed back", func(t *testing.T) {
			role := func(name string) {
				g.as(t, rootKey, "PUT", "/v1/admin/workspaces/default/users/"+user, fmt.Sprintf(`{"role":%q}`, name)).ok(t)
			}
			role("admin")
			waittest.Until(t, "the key may do what an admin may", func() bool { _, reached := send(key, 2); return reached })
			role("member")
			waittest.Until(t, "the key may no longer", func() bool { _, reached := send(key, 2); return !reached })
			g.as(t, rootKey, "PUT", "/v1/admin/organisation", `{"settings":{"security_settings":{"membersWriteVirtualKeys":true}}}`).ok(t)
			waittest.Until(t, "members may change providers", func() bool { _, reached := send(key, 2); return reached })
		})
		through := append(toCustomHost(g.key(t, rootKey, "default", []string{"completions.write"}, ""), p), "x-gateway-pass-through", "true")
		if r := g.do(t, "POST", "/v1/realtime/client_secrets", `{}`, through...); r.status != 403 || !strings.Contains(string(r.body), "providers.update") {
			t.Errorf("without the scope: status %d: %.300s", r.status, r.body)
		}
	})
}
