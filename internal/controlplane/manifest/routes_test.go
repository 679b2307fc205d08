package manifest_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/configs"
	"modelgate/internal/controlplane/integrations"
	"modelgate/internal/controlplane/manifest"
	"modelgate/internal/controlplane/organisations"
	"modelgate/internal/controlplane/policies"
	"modelgate/internal/controlplane/providers"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/controlplane/workspaces"
	"modelgate/internal/guardrail/checks"
	"modelgate/internal/identity/access"
	"modelgate/internal/secrets/datakey"
	"modelgate/internal/secrets/secretref"
	"modelgate/internal/settings"
	"modelgate/internal/store"
	"modelgate/internal/testing/routetest"
	"modelgate/internal/testing/waittest"
	"modelgate/internal/upstream"
)

const statePath = "/admin/state"

// gateway is a gateway with the routes of states, and a key of its organisation.
type gateway struct {
	*routetest.Bench
	key   *routetest.Caller
	local place // the same database, for commands
}

func newGateway(t *testing.T) gateway {
	t.Helper()
	b := routetest.New(t)
	local := world(t, b.DB, master)
	b.API.Secrets, b.API.Guardrails = datakey.New(b.DB, local.Box), checks.New(checks.Services{})
	b.API.CheckHost = upstream.New(upstream.Options{}).CheckHost
	for _, add := range []func(*route.API){
		manifest.Routes{Box: local.Box, References: secretref.New(secretref.Options{Environment: []string{"APP_*", "FREE_KEY", "OPENAI_API_KEY"}, Files: []string{"/run/secrets"}})}.Add, workspaces.Add, integrations.Add, providers.Add,
		configs.Add, policies.Routes{}.Add, organisations.Routes{}.Add,
	} {
		add(b.API)
	}
	return gateway{b, b.As(organisationKey()), local}
}

func organisationKey() access.Identity {
	return access.Identity{Type: access.OrganisationService, Workspace: "-", Scopes: access.Scopes(access.OrganisationService)}
}

// exported is the response of an export.
type exported struct {
	State     json.RawMessage
	Variables []string
}

// variables returns a value for each name.
func (e exported) values() map[string]string {
	values := make(map[string]string)
	for _, name := range e.Variables {
		values[name], _ = env(name)
	}
	return values
}

func (g gateway) export(t *testing.T) (out exported) {
	t.Helper()
	g.key.Must("GET", statePath, "", &out)
	return out
}

// sending returns the body of a request with a state.
func sending(t *testing.T, state string, more map[string]any) string {
	t.Helper()
	body := map[string]any{"state": json.RawMessage(state)}
	maps.Copy(body, more)
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// send returns the lines of the changes that a state makes.
func (g gateway) send(t *testing.T, state string, more map[string]any) (lines []string) {
	t.Helper()
	var out struct {
		Changes []struct {
			Operation, Kind, Name string
			Fields                []string
		}
	}
	g.key.Must("POST", statePath, sending(t, state, more), &out)
	for _, c := range out.Changes {
		lines = append(lines, fmt.Sprint(c.Operation, " ", c.Kind, " ", c.Name, " ", c.Fields))
	}
	return lines
}

// refuse sends a state that must be refused, and must not change anything.
func (g gateway) refuse(t *testing.T, status int, state string, more map[string]any, want ...string) {
	t.Helper()
	before := g.export(t)
	a := g.key.Call("POST", statePath, sending(t, state, more))
	for _, text := range want {
		if !strings.Contains(a.Body, text) {
			t.Errorf("%.200s: %s, want %s", state, a.Body, text)
		}
	}
	if a.Status != status {
		t.Errorf("%.200s: %d %s, want %d", state, a.Status, a.Body, status)
	}
	if diff := cmp.Diff(string(before.State), string(g.export(t).State)); diff != "" {
		t.Errorf("%.200s: the refused state changed:\n%s", state, diff)
	}
}

const members = "members: [{email: owner@example.com, role: owner}, {email: ann@example.com}, {email: mate@example.com}]\n"

func TestASentStateExportsTheSameElsewhere(t *testing.T) {
	first, second := newGateway(t), newGateway(t)
	first.local.mustApply(t, completeManifest(t), manifest.Apply{})
	state := first.export(t)
	if strings.Contains(string(state.State), "canary") || len(state.Variables) == 0 {
		t.Fatalf("the export has a credential, or names %q: %s", state.Variables, state.State)
	}
	for _, section := range []string{"members", "keys", "deployments", "identity_providers", "domains", "directory_mappings", "workload_identities"} {
		if strings.Contains(string(state.State), `"`+section+`":[`) {
			t.Errorf("the export has %s", section)
		}
	}
	var members strings.Builder // whom entries of the state name
	for _, u := range first.Query(`SELECT email FROM users ORDER BY email`) {
		members.WriteString(", {email: " + u + ", workspaces: {default: member, ws-team: member}}")
	}
	second.local.mustApply(t, "workspaces: [{slug: default}, {slug: ws-team}]\nmembers: ["+strings.TrimPrefix(members.String(), ", ")+"]\n", manifest.Apply{})
	more := map[string]any{"variables": state.values()}
	if planned := second.send(t, string(state.State), map[string]any{"variables": state.values(), "dry_run": true}); len(planned) < 20 {
		t.Errorf("a dry run plans %q", planned)
	}
	second.send(t, string(state.State), more)
	if diff := cmp.Diff(string(state.State), string(second.export(t).State)); diff != "" {
		t.Errorf("the second export differs:\n%s", diff)
	}
	for _, prune := range []bool{false, true} {
		more["prune"] = prune
		if again := second.send(t, string(state.State), more); len(again) != 0 {
			t.Errorf("sent again with prune %t, it changes %q", prune, again)
		}
	}
	// The credentials arrived: the same file finds no differences locally.
	var text strings.Builder
	if err := settings.WriteSent(&text, state.State); err != nil {
		t.Fatal(err)
	}
	if changes := second.local.mustApply(t, text.String(), manifest.Apply{Prune: true}); len(changes) != 0 {
		t.Errorf("applied locally it changes %q", changes)
	}
}

func TestOnlyAdministratorsReadOrSendAState(t *testing.T) {
	g := newGateway(t)
	g.Exec(`INSERT INTO users (id, email, password_hash, status, first_name, last_name, created_at, updated_at) VALUES
		('admin', 'a@example.com', '', 'active', '', '', 0, 0), ('member', 'm@example.com', '', 'active', '', '', 0, 0)`)
	g.Exec(`INSERT INTO organisation_members (organisation_id, user_id, role, created_at, updated_at)
		VALUES ($1, 'admin', 'admin', 0, 0), ($1, 'member', 'member', 0, 0)`, store.DefaultOrganisation)
	session := func(user, role string) access.Identity {
		return access.Identity{KeyID: "session of " + user, Type: access.Session, UserID: user, Workspace: "-", Scopes: access.RoleScopes(role)}
	}
	fixed, fewer := organisationKey(), organisationKey()
	fixed.ConfigFixed = true
	fewer.Scopes = slices.DeleteFunc(fewer.Scopes, func(s access.Scope) bool { return s == "policies.delete" })
	made := organisationKey()
	made.Rank = access.RankAdmin // its creator's
	promoted := session("member", "owner")
	for name, tt := range map[string]struct {
		as   access.Identity
		want int
	}{
		"an admin":                         {session("admin", "admin"), http.StatusOK},
		"a key with all scopes":            {organisationKey(), http.StatusOK},
		"an installation key":              {access.Identity{Scopes: []access.Scope{access.ScopeAll}}, http.StatusOK},
		"a member":                         {session("member", "member"), http.StatusForbidden},
		"a member with scopes of an owner": {promoted, http.StatusForbidden},
		"a key that lacks a scope":         {fewer, http.StatusForbidden},
		"a key whose config is fixed":      {fixed, http.StatusForbidden},
		"a key of a workspace's admin":     {made, http.StatusForbidden},
		"a key of a workspace":             {access.Identity{Type: access.WorkspaceService, Scopes: access.Scopes(access.OrganisationService)}, http.StatusForbidden},
		"an admin's user key":              {access.Identity{Type: access.WorkspaceUser, UserID: "admin", Scopes: access.Scopes(access.OrganisationService)}, http.StatusForbidden},
		"a token":                          {access.Identity{Type: access.Token, Scopes: access.Scopes(access.Token)}, http.StatusForbidden},
	} {
		tt.as.KeyID = name
		c := g.As(tt.as)
		for _, a := range []routetest.Response{c.Call("GET", statePath, ""), c.Call("POST", statePath, `{"state":{"policies":[]}}`)} {
			if a.Status != tt.want {
				t.Errorf("%s: %d %s, want %d", name, a.Status, a.Body, tt.want)
			}
		}
	}
}

func TestAStateReachesNoOtherOrganisation(t *testing.T) {
	g := newGateway(t)
	g.local.mustApply(t, "workspaces: [{slug: default}, {slug: ours}]\nguardrails: [{slug: gr-ours, checks: [{id: default.regexMatch, parameters: {rule: x}}]}]\n", manifest.Apply{})
	before := g.export(t)
	g.Exec(`INSERT INTO organisations (id, slug, name, owner_id, settings, data_key, status, created_at, updated_at)
		VALUES ('elsewhere', 'elsewhere', 'Elsewhere', '', '{}', '', 'active', 0, 0)`)
	g.Exec(`INSERT INTO workspaces (id, organisation_id, slug, name, icon, description, defaults, settings, security_settings,
		usage_limits, rate_limits, is_default, status, created_by, created_at, updated_at)
		VALUES ('abroad', 'elsewhere', 'abroad', 'abroad', '', '', '{}', '{}', '{}', '[]', '[]', TRUE, 'active', '', 0, 0)`)
	theirs := organisationKey()
	theirs.KeyID, theirs.Organisation = "abroad", "elsewhere"
	other := gateway{g.Bench, g.As(theirs), g.local}
	state := string(other.export(t).State)
	if strings.Contains(state, "ours") || !strings.Contains(state, "abroad") {
		t.Errorf("another organisation exports %s", state)
	}
	other.refuse(t, http.StatusBadRequest, `{"configs":[{"slug":"pc-a","workspace":"ours","config":{"retry":{"attempts":2}}}]}`, nil,
		`workspace \"ours\" not found`)
	other.send(t, `{"workspaces":[{"slug":"abroad"}],"guardrails":[],"configs":[],"policies":[],"organisation":{"name":"Theirs"}}`, map[string]any{"prune": true})
	if diff := cmp.Diff(string(before.State), string(g.export(t).State)); diff != "" {
		t.Errorf("another organisation's state changed ours:\n%s", diff)
	}
}

func TestSectionsThatARequestMustNotHaveAreRefusedByName(t *testing.T) {
	g := newGateway(t)
	for section, want := range map[string]string{
		"members": "says who may use the gateway", "keys": "says who may use the gateway", "deployments": "says who may use the gateway",
		"identity_providers": "says who may use the gateway", "domains": "says who may use the gateway",
		"directory_mappings": "says who may use the gateway", "workload_identities": "says who may use the gateway",
		"upstream": "is not a section of a state", "alerts": "is not a section of a state", "audit": "is not a section of a state",
		"tools": "is not a section of a state", "secrets": "is not a section of a state", "telemetry": "is not a section of a state",
		"nonsense": "is not a section of a state", "<<": "is not a section of a state", "Keys": "is not a section of a state",
		"k\\u0065ys": "says who may use the gateway", "members ": "is not a section of a state",
	} {
		for _, value := range []string{"[]", "null", "{}", `[{"name":"a"}]`} {
			g.refuse(t, http.StatusBadRequest, `{"workspaces":[{"slug":"default"},{"slug":"new"}],"`+section+`":`+value+`}`, nil, want,
				`"param":"state.`+strings.ReplaceAll(section, `k\u0065ys`, "keys"))
		}
	}
	for _, state := range []string{`[]`, `null`, `"workspaces: []"`, `1`} {
		g.refuse(t, http.StatusBadRequest, state, nil, "state")
	}
	for _, state := range []string{`{"policies":[],"policies":[]}`, `{"configs":[{"slug":"a","slug":"b"}]}`} {
		g.refuse(t, http.StatusBadRequest, state, nil, "is duplicated")
	}
	if a := g.key.Call("POST", statePath, "workspaces: []"); a.Status != http.StatusBadRequest {
		t.Errorf("YAML: %d %s", a.Status, a.Body)
	}
}

func TestAStateIsBounded(t *testing.T) {
	g := newGateway(t)
	deep := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	many := func(n int) string {
		return `{"workspaces":[{"slug":"default"}` + strings.Repeat(`,{"slug":"default"}`, n-1) + `]}`
	}
	g.refuse(t, http.StatusBadRequest, `{"configs":[{"slug":"pc-a","config":`+deep(63)+`}]}`, nil, "is nested more than 64 levels deep")
	g.refuse(t, http.StatusBadRequest, `{"configs":`+strings.Repeat("[", 70)+strings.Repeat("]", 70)+`}`, nil, "is nested more than 64 levels deep")
	g.refuse(t, http.StatusBadRequest, many(2001), nil, "has 2001 objects")
	g.refuse(t, http.StatusBadRequest, many(2000), nil, "duplicate slug")
	g.refuse(t, http.StatusRequestEntityTooLarge, `{"configs":"`+strings.Repeat("a", 4<<20)+`"}`, nil, "larger than")
	var given strings.Builder
	given.WriteString(`{"workspaces":[{"slug":"default"}`)
	for i := range 400 {
		given.WriteString(fmt.Sprintf(`,{"slug":"w%d"}`, i))
	}
	given.WriteString(`],"integrations":[{"slug":"i","provider":"openai"}`)
	for i := range 200 {
		given.WriteString(fmt.Sprintf(`,{"slug":"i%d","provider":"openai","global":{"enabled":true}}`, i))
	}
	g.refuse(t, http.StatusBadRequest, given.String()+`]}`, nil, "more than 50000 times")
	values := make(map[string]string)
	for i := range 1001 {
		values[fmt.Sprint("V", i)] = "v"
	}
	g.refuse(t, http.StatusBadRequest, `{}`, map[string]any{"variables": values}, "variables")
}

func TestAStateReadsNothingOfTheHost(t *testing.T) {
	t.Setenv("STATE_CANARY", "canary-of-the-host")
	g := newGateway(t)
	integration := func(key string) string {
		return `{"integrations":[{"slug":"a","provider":"openai","api_key":"` + key + `"}]}`
	}
	g.refuse(t, http.StatusBadRequest, integration("${STATE_CANARY}"), nil, "STATE_CANARY is not set", `"param":"state.integrations[0].api_key"`)
	g.refuse(t, http.StatusBadRequest, integration("${STATE_CANARY}"), map[string]any{"variables": map[string]string{"OTHER": "x"}}, "STATE_CANARY is not set")
	g.refuse(t, http.StatusBadRequest, integration("plain"), nil, "plaintext credentials are not allowed")
	sealed := g.local.Box.Seal(secret.New("canary-of-another"))
	g.refuse(t, http.StatusBadRequest, integration(sealed), nil, "sealed")
	reference := func(fields string) string { return `{"secret_references":[{"slug":"sr-a",` + fields + `}]}` }
	for fields, want := range map[string]string{
		`"manager_type":"environment","secret_path":"STATE_CANARY"`:                                             "that the operator does not allow",
		`"manager_type":"environment","secret_path":"MODELGATE_MASTER_KEY"`:                                     "that the operator does not allow",
		`"manager_type":"file","secret_path":"/etc/passwd"`:                                                     "secret_path",
		`"manager_type":"file","secret_path":"/run/secrets/../passwd"`:                                          "secret_path",
		`"manager_type":"cloud_a_secrets","secret_path":"a","auth_config":{"type":"serviceRole","region":"eu"}`: "own_identity",
	} {
		for _, dry := range []bool{true, false} {
			g.refuse(t, http.StatusBadRequest, reference(fields), map[string]any{"dry_run": dry}, want)
		}
	}
	g.send(t, reference(`"manager_type":"environment","secret_path":"APP_KEY"`), nil) // the operator allows it
	if got := g.Query(`SELECT response_status_code || request_body FROM audit_logs`); strings.Contains(strings.Join(got, " "), "canary") {
		t.Errorf("the audit log has a credential: %s", got)
	}
}

func TestASentCredentialIsStoredSealedAndNotShown(t *testing.T) {
	g := newGateway(t)
	state := `{"integrations":[{"slug":"a","provider":"openai","api_key":"${NAMED}"}]}`
	a := g.key.Call("POST", statePath, sending(t, state, map[string]any{"variables": map[string]string{"NAMED": "canary-key"}}))
	if a.Status != http.StatusOK || strings.Contains(a.Body, "canary") {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	for _, table := range []string{"audit_logs", "integrations"} {
		for _, row := range g.Query(`SELECT json_group_array(json_array(` + strings.Join(g.Query(`SELECT name FROM pragma_table_info('`+table+`')`), ",") + `)) FROM ` + table) {
			if strings.Contains(row, "canary") {
				t.Errorf("%s has the credential: %s", table, row)
			}
		}
	}
	if got := g.send(t, state, map[string]any{"variables": map[string]string{"NAMED": "canary-key"}}); len(got) != 0 {
		t.Errorf("sent again it changes %q", got)
	}
	if got := g.send(t, state, map[string]any{"variables": map[string]string{"NAMED": "canary-other"}, "dry_run": true}); !slices.Equal(got, []string{"change integration a [api_key]"}) {
		t.Errorf("another credential changes %q", got)
	}
	// A stored credential is not sent to an address that somebody else chooses.
	g.refuse(t, http.StatusBadRequest, `{"integrations":[{"slug":"a","provider":"openai","custom_host":"https://other.example.com/v1"}]}`, nil, "stored secrets are not sent to a new address")
}

func TestSignInSettingsNeedAFreshSignIn(t *testing.T) {
	g := newGateway(t)
	g.Exec(`INSERT INTO users (id, email, password_hash, status, first_name, last_name, created_at, updated_at) VALUES ('admin', 'a@example.com', '', 'active', '', '', 0, 0)`)
	g.Exec(`INSERT INTO organisation_members (organisation_id, user_id, role, created_at, updated_at) VALUES ($1, 'admin', 'admin', 0, 0)`, store.DefaultOrganisation)
	stale := access.Identity{KeyID: "stale", Type: access.Session, UserID: "admin", Workspace: "-", Scopes: access.RoleScopes("admin"), ProvedAt: g.Clock.Add(-time.Hour)}
	workload := organisationKey()
	workload.KeyID, workload.Workload = "workload", "w"
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range []string{
		`{"require_second_factor":true}`,
		`{"jwt":{"jwks":{"keys":[{"kty":"RSA","kid":"one","e":"AQAB","n":"` + base64.RawURLEncoding.EncodeToString(private.N.Bytes()) + `"}]}}}`,
	} {
		state := `{"organisation":{"name":"N","settings":` + set + `}}`
		for name, c := range map[string]*routetest.Caller{"stale": g.As(stale), "workload": g.As(workload)} {
			a := c.Call("POST", statePath, sending(t, state, nil))
			if a.Status != http.StatusForbidden || name == "stale" && !strings.Contains(a.Body, route.CodeFreshRequired) {
				t.Errorf("%s sets %s: %d %s", name, set, a.Status, a.Body)
			}
			if a := c.Call("POST", statePath, sending(t, `{"organisation":{"name":"N"}}`, nil)); a.Status != http.StatusOK {
				t.Errorf("%s: %d %s", name, a.Status, a.Body)
			}
		}
		g.send(t, state, nil) // a lasting key of the organisation
		if a := g.As(stale).Call("POST", statePath, sending(t, `{"organisation":{"name":"N"}}`, nil)); a.Status != http.StatusForbidden {
			t.Errorf("a stale session resets %s: %d %s", set, a.Status, a.Body)
		}
		g.send(t, `{"organisation":{"name":"N"}}`, nil)
	}
}

func TestObjectsOfTheSettingsFileAreNotSent(t *testing.T) {
	g := newGateway(t)
	g.API.Files = func() route.Declared {
		return route.Declared{
			Configs:   []store.ConfigText{{Config: store.Config{ID: route.FileID("pc-file"), Slug: "pc-file", Workspace: store.DefaultWorkspace, Organisation: store.DefaultOrganisation}}},
			Providers: []store.Provider{{ID: route.FileID("file"), Slug: "file", Workspace: store.DefaultWorkspace, Organisation: store.DefaultOrganisation}},
		}
	}
	g.refuse(t, http.StatusBadRequest, `{"configs":[{"slug":"pc-file","config":{"retry":{"attempts":2}}}]}`, nil, "is declared in the settings file", "state.configs[0]")
	g.refuse(t, http.StatusBadRequest, `{"integrations":[{"slug":"a","provider":"openai","workspaces":[{"workspace":"default"}]}],"providers":[{"slug":"file","integration":"a"}]}`,
		nil, "is declared in the settings file", "state.providers[0]")
	g.send(t, `{"configs":[{"slug":"pc-own","config":{"retry":{"attempts":2}}}]}`, nil)
}

func TestDisabledFeaturesAreNotSent(t *testing.T) {
	g := newGateway(t)
	limited := `[{"slug":"default","usage_limits":[{"type":"cost","credit_limit":5}]}]`
	for _, tt := range []struct {
		off         route.Feature
		state, want string
	}{
		{route.Guardrails, `{"guardrails":[]}`, "state.guardrails"},
		{route.Guardrails, `{"guardrail_credentials":[]}`, "state.guardrail_credentials"},
		{route.Guardrails, `{"organisation":{"name":"N"}}`, "state.organisation"}, // would clear the lists of guardrails
		{route.Policies, `{"policies":[]}`, "state.policies"},
		{route.UsageLimits, `{"policies":[]}`, "state.policies"},
		{route.UsageLimits, `{"workspaces":` + limited + `}`, "state.workspaces"},
	} {
		g.API.Off = route.DisabledFeatures{tt.off: true}
		g.refuse(t, http.StatusForbidden, tt.state, nil, string(tt.off)+"=OFF", tt.want)
		state := g.export(t)
		if got := g.send(t, string(state.State), map[string]any{"prune": true}); len(got) != 0 {
			t.Errorf("without %s the export changes %q", tt.off, got)
		}
	}
	g.API.Off = nil
	g.send(t, `{"workspaces":`+limited+`}`, nil)
}

func TestAStateIsSentCompletelyOrNotAtAll(t *testing.T) {
	g := newGateway(t)
	g.send(t, `{"secret_references":[{"slug":"sr-a","manager_type":"environment","secret_path":"APP_KEY"}],
		"integrations":[{"slug":"a","provider":"openai","secret_mappings":[{"target_field":"key","secret_reference":"sr-a"}]}]}`, nil)
	g.refuse(t, http.StatusConflict, `{"workspaces":[{"slug":"default"},{"slug":"new"}],"secret_references":[]}`, map[string]any{"prune": true},
		"secret_reference sr-a: it is used by 1 integrations")
	g.refuse(t, http.StatusBadRequest, `{"workspaces":[{"slug":"default"},{"slug":"new"}],"policies":[{"name":"p","kind":"rate","type":"requests","unit":"rpm","value":5,"conditions":[{"key":"nonsense","value":["*"]}],"group_by":["workspace"]}]}`,
		nil, "state.policies[0]")
	failed := g.Query(`SELECT response_status_code || ' ' || resource_type || ' ' || request_body FROM audit_logs WHERE response_status_code >= 400`)
	if want := []string{"409 manifest {}", "400 manifest {}"}; !slices.Equal(failed, want) {
		t.Errorf("the audit log has of failures %q, want %q", failed, want)
	}
}

func TestPruningStaysWithinTheSectionsOfTheState(t *testing.T) {
	g := newGateway(t)
	g.local.mustApply(t, members+"workspaces: [{slug: default}, {slug: one}]\nkeys: [{name: k, sha256: "+strings.Repeat("ab", 32)+"}]\n"+
		"configs: [{slug: pc-a, config: {retry: {attempts: 2}}}]\nguardrails: [{slug: gr-a, checks: [{id: default.regexMatch, parameters: {rule: x}}]}]\n"+
		"organisation: {settings: {input_guardrails: [gr-a]}}\n", manifest.Apply{})
	all := func() []string {
		return g.Query(`SELECT 'user ' || email FROM users UNION SELECT 'key ' || name || status FROM gateway_keys UNION
			SELECT 'config ' || slug || status FROM configs UNION SELECT 'workspace ' || slug || status FROM workspaces UNION
			SELECT 'guardrail ' || slug || status FROM guardrails ORDER BY 1`)
	}
	before := all()
	g.refuse(t, http.StatusConflict, `{"guardrails":[]}`, map[string]any{"prune": true}, "remove it there first")
	for _, state := range []string{`{}`, `{"version":1}`, `{"policies":[],"mcp_servers":[]}`} {
		if got := g.send(t, state, map[string]any{"prune": true}); len(got) != 0 {
			t.Errorf("%s removes %q", state, got)
		}
	}
	g.send(t, `{"configs":[]}`, map[string]any{"prune": true})
	want := strings.ReplaceAll(strings.Join(before, "\n"), "config pc-aactive", "config pc-aarchived")
	if diff := cmp.Diff(want, strings.Join(all(), "\n")); diff != "" {
		t.Errorf("pruning configs changed:\n%s", diff)
	}
}

func TestEachObjectOfAStateIsInTheAuditLog(t *testing.T) {
	g := newGateway(t)
	events := func() []string {
		return g.Query(`SELECT resource_type || ' ' || resource_id || ' ' || action || ' ' || user_id || ' ' || request_body FROM audit_logs ORDER BY sequence`)
	}
	g.send(t, `{"workspaces":[{"slug":"default","name":"Default"},{"slug":"new"}],"configs":[{"slug":"pc-a","workspace":"new","config":{"retry":{"attempts":2}}}]}`, nil)
	g.send(t, `{"workspaces":[{"slug":"default","name":"Default"},{"slug":"new","name":"Other"}],"configs":[]}`, map[string]any{"prune": true})
	g.send(t, `{"configs":[{"slug":"pc-b","config":{"retry":{"attempts":2}}}]}`, map[string]any{"dry_run": true})
	want := []string{
		`workspace new create KEY {"fields":[]}`, `config new/pc-a create KEY {"fields":[]}`, `manifest ` + store.DefaultOrganisation + ` update KEY {}`,
		`workspace new update KEY {"fields":["name"]}`, `config new/pc-a delete KEY {"fields":[]}`, `manifest ` + store.DefaultOrganisation + ` update KEY {}`,
		`manifest ` + store.DefaultOrganisation + ` update KEY {"dry_run":"true"}`,
	}
	got := events()
	for i := range got {
		got[i] = strings.ReplaceAll(got[i], "key-a", "KEY")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events:\n%s", diff)
	}
	if n := g.Changes(); n != 2 {
		t.Errorf("%d changes were published, want one for each state that changed something", n)
	}
}

func TestStatesAreSentOneAfterAnother(t *testing.T) {
	g := newGateway(t)
	check, entered, leave := g.API.CheckHost, make(chan struct{}, 1), make(chan struct{})
	var once sync.Once
	g.API.CheckHost = func(raw string) (*url.URL, error) {
		once.Do(func() {
			entered <- struct{}{}
			<-leave
		})
		return check(raw)
	}
	first, second := make(chan routetest.Response, 1), make(chan routetest.Response, 1)
	body := sending(t, `{"integrations":[{"slug":"slow","provider":"openai","custom_host":"https://slow.example.com/v1"}]}`, nil)
	go func() { first <- g.key.Call("POST", statePath, body) }()
	waittest.Receive(t, entered, "the check of an address")
	gone, cancel := context.WithCancel(t.Context())
	cancel() // so that it does not wait
	r := httptest.NewRequestWithContext(gone, "POST", "/v1"+statePath, strings.NewReader(`{"state":{}}`))
	r.Header.Set("x-gateway-api-key", "key-a")
	r.Header.Set("Content-Type", "application/json")
	if a := g.Serve(r); a.Status != http.StatusTooManyRequests || a.Header.Get("Retry-After") == "" {
		t.Errorf("while a state is applied: %d %s", a.Status, a.Body)
	}
	go func() { second <- g.key.Call("POST", statePath, `{"state":{"policies":[]}}`) }()
	close(leave)
	if a := waittest.Receive(t, first, "the first response"); a.Status != http.StatusOK {
		t.Errorf("the first: %d %s", a.Status, a.Body)
	}
	if a := waittest.Receive(t, second, "the second response"); a.Status != http.StatusOK && a.Status != http.StatusTooManyRequests {
		t.Errorf("one that waits: %d %s", a.Status, a.Body)
	}
	g.send(t, `{"configs":[{"slug":"pc-b","config":{"retry":{"attempts":2}}}]}`, nil)
}

func TestChangesAtTheSameTimeAreNotLost(t *testing.T) {
	g := newGateway(t)
	check, times := g.API.CheckHost, 0
	root := g.Root()
	g.API.CheckHost = func(raw string) (*url.URL, error) {
		if times > 0 {
			times--
			root.Must("POST", "/admin/workspaces", fmt.Sprintf(`{"name":"during %d","description":"d"}`, times), nil)
		}
		return check(raw)
	}
	state := func(slug string) string {
		return `{"integrations":[{"slug":"` + slug + `","provider":"openai","custom_host":"https://one.example.com/v1","global":{"enabled":true}}]}`
	}
	times = 1
	g.send(t, state("a"), nil)
	if got := g.Query(`SELECT count(*) FROM workspaces w WHERE status = 'active' AND NOT EXISTS (SELECT 1 FROM providers p WHERE p.workspace_id = w.id)`); got[0] != "0" {
		t.Errorf("%s workspaces lack the integration that all have", got[0])
	}
	times = 100
	a := g.key.Call("POST", statePath, sending(t, state("b"), nil))
	if a.Status != http.StatusConflict || !strings.Contains(a.Body, "send the request again") {
		t.Errorf("a database that changes all the time: %d %s", a.Status, a.Body)
	}
	if got := g.Query(`SELECT slug FROM integrations ORDER BY slug`); !slices.Equal(got, []string{"a"}) {
		t.Errorf("integrations %q", got)
	}
}
