package conformance

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

// people are a gateway whose first workspace has a member and a manager, with
// an admin and the means to sign in as each.
type people struct {
	*gateway
	provider *provider
	sessions map[string]string // tokens by name
	keys     map[string]string // by name; "service" is nobody's
	requests map[string]string // ids of one request by each key
}

// populate starts a gateway and invites its people.
func populate(t *testing.T) *people {
	t.Helper()
	p := newProvider(t, nil)
	h := &people{launchFor(t, "version: 1\n", "MODELGATE_TRUSTED_HOSTS=127.0.0.1", "MODELGATE_MASTER_KEY=the master key of a conformance test"), p, map[string]string{}, map[string]string{}, map[string]string{}}
	for name, role := range map[string][2]string{"admin": {"admin", ""}, "manager": {"member", "manager"}, "member": {"member", "member"}, "mate": {"member", "member"}} {
		h.join(t, name, role[0], role[1])
	}
	h.keys["service"] = h.made(t, "/v1/api-keys/workspace/service", `{"name":"s","workspace_id":"default","scopes":["completions.write","logs.list","logs.view"]}`)
	for name, key := range h.keys {
		h.requests[name] = h.ask(t, key)
	}
	return h
}

// root sends a request as the installation's own key.
func (h *people) root(t *testing.T, method, path, body string) map[string]any {
	t.Helper()
	return h.do(t, method, path, body, "x-gateway-api-key", bootstrapKey).wantOK(t).object(t)
}

func (h *people) made(t *testing.T, path, body string) string {
	t.Helper()
	key, _ := h.root(t, "POST", path, body)["key"].(string)
	return key
}

// join invites somebody, accepts for them and makes a key of theirs.
func (h *people) join(t *testing.T, name, organisation, workspace string) {
	t.Helper()
	places := "[]"
	if workspace != "" {
		places = `[{"id":"default","role":"` + workspace + `"}]`
	}
	link, _ := h.root(t, "POST", "/v1/admin/users/invites", fmt.Sprintf(`{"email":"%s@example.com","role":"%s","workspaces":%s}`, name, organisation, places))["invite_link"].(string)
	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	body := fmt.Sprintf(`{"token":%q,"password":"a long password of a test"}`, u.Query().Get("token"))
	opened := h.do(t, "POST", "/v1/auth/invites/accept", body).wantOK(t).object(t)
	h.sessions[name], _ = opened["token"].(string)
	user, _ := opened["user_id"].(string)
	h.keys[name] = h.made(t, "/v1/api-keys/workspace/user",
		fmt.Sprintf(`{"name":%q,"workspace_id":"default","user_id":%q,"scopes":["completions.write","logs.list","logs.view"]}`, name, user))
}

// ask sends a request for a model and returns its id once it is in the log.
func (h *people) ask(t *testing.T, key string, header ...string) string {
	t.Helper()
	chat := modelRoutes[0]
	var got response
	waittest.Until(t, "the gateway knows the key", func() bool {
		got = h.do(t, "POST", chat.path, chat.body, append(header, "x-gateway-api-key", key, "x-gateway-provider", "openai-compatible",
			"x-gateway-custom-host", h.provider.url, "Authorization", "Bearer "+credential)...)
		return got.status != http.StatusUnauthorized
	})
	id := got.wantOK(t).header.Get("x-gateway-request-id")
	waittest.Until(t, "the exchange is in the log", func() bool { // of the organisation of the key
		for _, reader := range []string{bootstrapKey, key} {
			if h.do(t, "GET", "/v1/logs/"+id, "", "x-gateway-api-key", reader).status == http.StatusOK {
				return true
			}
		}
		return false
	})
	return id
}

// set says what the organisation's switches are, and which sections it leaves.
func (h *people) set(t *testing.T, switches, left string) {
	t.Helper()
	h.root(t, "PUT", "/v1/admin/organisation", `{"settings":{"security_settings":null}}`)
	h.root(t, "PUT", "/v1/admin/organisation", `{"settings":{"security_settings":{`+switches+`},"overridable_sections":[`+left+`]}}`)
}

// lists returns whose requests somebody is shown in the log.
func (h *people) lists(t *testing.T, token string) string {
	t.Helper()
	body := string(h.do(t, "GET", "/v1/logs", "", "x-gateway-api-key", token).wantOK(t).body)
	var names []string
	for _, name := range []string{"admin", "manager", "mate", "member", "service"} {
		read := h.do(t, "GET", "/v1/logs/"+h.requests[name], "", "x-gateway-api-key", token)
		listed := strings.Contains(body, h.requests[name])
		if listed != (read.status == http.StatusOK) || !listed && read.status != http.StatusNotFound {
			t.Errorf("the request of %s: listed %t, read with status %d", name, listed, read.status)
		}
		if listed {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

func TestDataOfOthersIsShownAsTheOrganisationSays(t *testing.T) {
	h := populate(t)
	const all = "admin manager mate member service"
	for _, tt := range []struct{ of, switches, member, manager string }{
		{"S-460 S-461 S-528", ``, all, all},
		{"S-460 S-528", `"membersViewAllData":false`, "member", all},
		{"S-461 S-528", `"managersViewAllData":false`, all, "manager"},
	} {
		prove(t, tt.of, "with {"+tt.switches+"}", func(t *testing.T) {
			h.set(t, tt.switches, "")
			for name, want := range map[string]string{"member": tt.member, "manager": tt.manager, "admin": all} {
				for kind, token := range map[string]string{"session": h.sessions[name], "key": h.keys[name]} {
					if got := h.lists(t, token); got != want {
						t.Errorf("the %s of the %s is shown the requests of %q, want %q", kind, name, got, want)
					}
				}
			}
			if got := h.lists(t, h.keys["service"]); got != all {
				t.Errorf("the key of a service is shown the requests of %q, want all", got)
			}
		})
	}
	prove(t, "S-460 S-423 S-468", "nobody is shown the requests of an archived workspace but the organisation's admins", func(t *testing.T) {
		h.set(t, "", "")
		second, _ := h.root(t, "POST", "/v1/admin/workspaces", `{"name":"second","users":["mate@example.com"]}`)["id"].(string)
		id := h.ask(t, h.made(t, "/v1/api-keys/workspace/service", `{"name":"s","workspace_id":"`+second+`","scopes":["completions.write"]}`))
		for _, step := range []struct{ mate, admin int }{{200, 200}, {404, 200}} {
			for name, want := range map[string]int{"mate": step.mate, "admin": step.admin, "member": 404} {
				if got := h.do(t, "GET", "/v1/logs/"+id, "", "x-gateway-api-key", h.sessions[name]); got.status != want {
					t.Errorf("the session of the %s reads it with status %d, want %d", name, got.status, want)
				}
			}
			if step.mate == 200 {
				h.root(t, "DELETE", "/v1/admin/workspaces/"+second, `{"name":"second","force_delete":true}`)
			}
		}
	})
}

func TestOwnersAndAdminsSeeEverything(t *testing.T) {
	h := populate(t)
	settings, _ := h.root(t, "GET", "/v1/admin/organisation", "")["settings"].(map[string]any)
	switches, _ := settings["security_settings"].(map[string]any)
	if len(switches) < 8 {
		t.Fatalf("switches %v", switches)
	}
	var off []string
	for name := range switches {
		off = append(off, fmt.Sprintf("%q:false", name))
	}
	check := func(t *testing.T, path string, status map[string]int) {
		t.Helper()
		for name, want := range status {
			if got := h.do(t, "GET", path, "", "x-gateway-api-key", h.sessions[name]); got.status != want {
				t.Errorf("GET %s by the %s: status %d, want %d: %.300s", path, name, got.status, want, got.body)
			}
		}
	}
	paths := []string{"/v1/configs", "/v1/guardrails", "/v1/prompts", "/v1/virtual-keys?workspace_id=default", "/v1/api-keys?workspace_id=default", "/v1/analytics/groups/model"}
	prove(t, "S-468", "all switches off stop a member and no admin", func(t *testing.T) {
		h.set(t, strings.Join(off, ","), "")
		for _, path := range append(paths, "/v1/logs", "/v1/logs/"+h.requests["mate"]) {
			check(t, path, map[string]int{"admin": 200, "manager": 403, "member": 403})
			if got := h.do(t, "GET", path, "", "x-gateway-api-key", bootstrapKey); got.status != http.StatusOK {
				t.Errorf("GET %s by the installation's key: status %d", path, got.status)
			}
		}
		if got := h.lists(t, h.sessions["admin"]); got != "admin manager mate member service" {
			t.Errorf("the admin is shown the requests of %q, want all", got)
		}
	})
	prove(t, "S-468", "nor the owner", func(t *testing.T) {
		owner := h.claim(t)
		h.sessions["owner"] = owner
		h.as(t, owner, "PUT", "/v1/admin/organisation", `{"settings":{"security_settings":{`+strings.Join(off, ",")+`}}}`).wantOK(t)
		made := h.as(t, owner, "POST", "/v1/api-keys/workspace/service", `{"name":"s","workspace_id":"default","scopes":["completions.write","logs.view"]}`)
		key, _ := made.wantOK(t).object(t)["key"].(string)
		for _, path := range append(paths, "/v1/logs", "/v1/logs/"+h.ask(t, key)) {
			check(t, path, map[string]int{"owner": 200})
		}
	})
}

func TestWorkspacesOverrideInheritedSettings(t *testing.T) {
	h := populate(t)
	override := func(t *testing.T, value bool) response {
		t.Helper()
		workspace := h.root(t, "GET", "/v1/admin/workspaces/default", "")
		switches, _ := workspace["security_settings"].(map[string]any)
		var all []string
		for name, on := range switches {
			if name == "membersViewConfigs" {
				on = value
			}
			all = append(all, fmt.Sprintf("%q:%v", name, on))
		}
		return h.do(t, "PUT", "/v1/admin/workspaces/default", `{"security_settings":{`+strings.Join(all, ",")+`}}`, "x-gateway-api-key", bootstrapKey)
	}
	for _, organisation := range []bool{true, false} {
		name := fmt.Sprintf("the workspace says %t where the organisation says %t", !organisation, organisation)
		prove(t, "S-469", name, func(t *testing.T) {
			want := map[bool]int{true: http.StatusOK, false: http.StatusForbidden}
			check := func(may bool) {
				t.Helper()
				if got := h.do(t, "GET", "/v1/configs", "", "x-gateway-api-key", h.sessions["member"]); got.status != want[may] {
					t.Errorf("a member lists configs with status %d, want %d", got.status, want[may])
				}
			}
			said := fmt.Sprintf(`"membersViewConfigs":%t`, organisation)
			h.set(t, said, "")
			check(organisation)
			if got := override(t, !organisation); got.status != http.StatusForbidden {
				t.Errorf("what is not left to the workspace is set with status %d: %.300s", got.status, got.body)
			}
			h.set(t, said, `"configs"`)
			override(t, !organisation).wantOK(t)
			check(!organisation)
			h.set(t, said, `"prompts"`)
			check(organisation)
			h.root(t, "PUT", "/v1/admin/workspaces/default", `{"security_settings":null}`)
		})
	}
}

// TestRoleSettingsHoldForAllData reads logs, traces, analytics and prompts with each setting
// turned off for a role, as its members and as those of the other role.
func TestRoleSettingsHoldForAllData(t *testing.T) {
	h := populate(t)
	prompt, _ := h.root(t, "POST", "/v1/prompts", `{"name":"P","string":"hi","model":"m","parameters":{},"workspace_id":"default"}`)["id"].(string)
	const refused = -1
	rows := func(t *testing.T, name, path string) int {
		t.Helper()
		got := h.do(t, "GET", "/v1"+path, "", "x-gateway-api-key", h.sessions[name])
		if got.status == http.StatusForbidden {
			return refused
		}
		data, ok := got.wantOK(t).object(t)["data"].([]any)
		if !ok {
			return 1
		}
		return len(data)
	}
	for setting, want := range map[string]map[string]int{
		"ViewAllData":   {"/logs": 1, "/logs/traces": 1, "/analytics/groups/api_key": 1, "/logs/groups/api_key": 1, "/prompts": 1},
		"ViewAnalytics": {"/logs": 5, "/logs/traces": 5, "/analytics/groups/api_key": refused, "/logs/groups/api_key": refused, "/prompts": 1},
		"ViewPrompts":   {"/logs": 5, "/logs/traces": 5, "/analytics/groups/api_key": 5, "/prompts": refused, "/prompts/" + prompt: refused},
	} {
		for role, other := range map[string]string{"member": "manager", "manager": "member"} {
			prove(t, "S-470", role+"s"+setting, func(t *testing.T) {
				h.set(t, fmt.Sprintf(`"%ss%s":false`, role, setting), "")
				for path, n := range want {
					if got := rows(t, role, path); got != n {
						t.Errorf("GET %s of the %s: %d rows, want %d (%d is a refusal)", path, role, got, n, refused)
					}
					for _, name := range []string{other, "admin"} {
						if got := rows(t, name, path); got == refused || got < n {
							t.Errorf("GET %s of the %s: %d rows, want all", path, name, got)
						}
					}
				}
			})
		}
	}
}
