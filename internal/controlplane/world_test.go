package controlplane_test

import (
	"context"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"modelgate/internal/base/secret"
	"modelgate/internal/cache/respcache"
	"modelgate/internal/controlplane"
	"modelgate/internal/controlplane/analytics"
	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/controlplane/guardrails"
	"modelgate/internal/controlplane/integrations"
	"modelgate/internal/controlplane/manifest"
	"modelgate/internal/controlplane/policies"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/controlplane/sessions"
	"modelgate/internal/controlplane/signin"
	"modelgate/internal/controlplane/toolservers"
	"modelgate/internal/controlplane/webhooks"
	"modelgate/internal/dataplane"
	"modelgate/internal/guardrail/checks"
	"modelgate/internal/identity/access"
	"modelgate/internal/identity/oidc"
	"modelgate/internal/limits/policy"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
	"modelgate/internal/testing/oidctest"
	"modelgate/internal/testing/routetest"
)

// world is an organisation that has something of everything, and callers of
// every kind with all that their kind may have.
type world struct {
	*routetest.Bench
	ids  *strings.Replacer // of what was made, by the words in samples
	root *routetest.Caller

	log      *logstore.Store
	policies *policy.Set // that requests apply

	restore func() // puts back what the world was made with
}

// kind is a kind of caller, a column of the table.
type kind struct {
	name string
	as   access.Identity // the key's id is the name
}

// session is a person who signed in. The role in the organisation gives the
// scopes; that in the workspace is a row.
func session(name, role string) kind {
	return kind{name, access.Identity{Type: access.Session, UserID: strings.ReplaceAll(name, " ", "-"), Workspace: "-", Scopes: access.RoleScopes(role)}}
}

func key(name string, t access.KeyType, workspace, user string) kind {
	return kind{name, access.Identity{Type: t, UserID: user, Workspace: workspace, Scopes: access.Scopes(t)}}
}

// kinds are all callers that there are. The people have rows of these ids.
var kinds = []kind{
	session("owner", "owner"),
	session("admin", "admin"),
	session("workspace admin", "member"),
	session("manager", "member"),
	session("member", "member"),
	key("organisation key", access.OrganisationService, "-", ""),
	key("workspace key", access.WorkspaceService, "", ""),
	key("user key", access.WorkspaceUser, "", "member"),
	key("token", access.Token, "", ""),
	{"no scopes", access.Identity{Type: access.OrganisationService, Workspace: "-"}},
}

// newWorld makes everything once.
func newWorld(t testing.TB) *world {
	t.Helper()
	w := new(world)
	w.log = openLog(t)
	login := oidctest.New(t)
	login.URL = "https://login.example.com"
	box, err := secret.NewBox(secret.New("the master key of a test")) // that of the bench
	if err != nil {
		t.Fatal(err)
	}
	w.Bench = routetest.New(t, controlplane.Families{
		State:    manifest.Routes{Box: box},
		Sessions: sessions.Routes{Verify: func(token string) (*access.Identity, error) { return w.Verify(token) }},
		SignIn: signin.Routes{Protocols: signin.Protocols{OIDC: oidc.NewCache(login, nil)}, LookupTXT: func(context.Context, string) ([]string, error) {
			return w.Query(`SELECT 'modelgate-domain=' || challenge FROM domains`), nil
		}},
		Integrations: integrations.Routes{Tests: credentials.NewTester(func(context.Context, *credentials.Trial) (*dataplane.ProviderTrialResult, error) {
			return new(dataplane.ProviderTrialResult), nil
		})},
		Guardrails: guardrails.Routes{CheckModule: new(checks.Modules).Check, Log: w.log},
		Policies:   policies.Routes{Policies: func() *policy.Set { return w.policies }},
		Analytics:  analytics.Routes{Log: w.log},
		ToolServers: toolservers.Routes{Probe: func(context.Context, *toolserver.Server, string) (*toolserver.Found, error) {
			return &toolserver.Found{Name: "issues"}, nil
		}},
		Webhooks: webhooks.Routes{Sender: webhooks.New(webhooks.Options{Client: receiver{}, Secrets: lateSealer{w}})},
		Logs:     controlplane.Logs{Log: w.log, Flush: w.log.Flush, Recorder: w.log},
		Cache:    new(respcache.Invalidations),
	}.Add)
	w.Exec(`INSERT INTO claims (hash, organisation_id, created_at, expires_at) VALUES ($1, $2, $3, $4)`,
		access.HashKey("the-link").String(), store.DefaultOrganisation, w.Clock.UnixMilli(), w.Clock.AddDate(0, 0, 1).UnixMilli())
	w.addPeople()
	for _, k := range kinds {
		k.as.KeyID = k.name
		w.As(k.as)
	}
	w.API.Guardrails = checks.New(checks.Services{})
	root, ids := w.Root(), []string{"{user}", "mate", "{session}", "session-of-mate", "{grant}", "grant-of-mate", "{workspace}", "default", "{version}", "1"}
	for _, m := range makings {
		var out struct {
			ID, Slug, Key, Link string
			InviteLink          string `json:"invite_link"`
			Data                struct{ ID, Slug string }
			VersionID           string `json:"version_id"`
			IDs                 []string
			FeedbackIDs         []string `json:"feedback_ids"`
		}
		body := strings.NewReplacer(ids...).Replace(m.body)
		root.Must("POST", m.path, body, &out)
		id := out.Slug
		if id == "" {
			id = out.Data.Slug
		}
		if id == "" {
			id = out.ID
		}
		for _, first := range append(out.IDs, out.FeedbackIDs...) {
			id = first
		}
		kind, _, _ := strings.Cut(m.word, "{") // of an object whose parameter others have too
		ids = append(ids, m.word, kind+id)
	}
	w.addLimits(t)
	w.Exec(`INSERT INTO mcp_connections (server_id, user_id, issuer, sealed, state, created_at, updated_at)
		SELECT id, 'mate', 'https://issuer.example.com', 'sealed', 'active', 0, 0 FROM mcp_servers`)
	w.addJob()
	ids = append(ids, "{delivery}", w.addDelivery(t))
	ids = append(ids, "{job}", "the-job")
	ids = append(ids, "{result}", w.addObserved(t, strings.NewReplacer(ids...).Replace("{guardrail}")))
	ids = append(ids, "{entity}", policy.EntityID("api_key:a"))
	w.ids, w.root, w.restore = strings.NewReplacer(ids...), root, w.Keep()
	return w
}

// openLog opens an empty log.
func openLog(t testing.TB) *logstore.Store {
	logs, err := logstore.Open(t.Context(), logstore.Options{Path: filepath.Join(t.TempDir(), "logs.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { logs.Close(context.Background()) })
	return logs
}

// addPeople are one of each role, and one more to be changed.
func (w *world) addPeople() {
	for id, roles := range map[string][2]string{
		"owner": {"owner", ""}, "admin": {"admin", ""}, "workspace-admin": {"member", "admin"},
		"manager": {"member", "manager"}, "member": {"member", "member"}, "mate": {"member", "member"},
	} {
		w.Exec(`INSERT INTO users (id, email, first_name, last_name, password_hash, status, created_at, updated_at)
			VALUES ($1, $1 || '@example.com', '', '', '', 'active', 0, 0)`, id)
		w.Exec(`INSERT INTO organisation_members (organisation_id, user_id, role, created_at, updated_at) VALUES ($1, $2, $3, 0, 0)`,
			store.DefaultOrganisation, id, roles[0])
		if roles[1] != "" {
			w.Exec(`INSERT INTO workspace_members (workspace_id, user_id, role, created_at, updated_at) VALUES ($1, $2, $3, 0, 0)`,
				store.DefaultWorkspace, id, roles[1])
		}
	}
	w.Exec(`INSERT INTO sessions (hash, id, user_id, organisation_id, address, user_agent, created_at, last_used_at, expires_at)
		VALUES ('session-of-mate', 'session-of-mate', 'mate', $1, '', '', $2, $2, $3)`, store.DefaultOrganisation, w.Clock.UnixMilli(), w.Clock.AddDate(0, 0, 1).UnixMilli())
	w.Exec(`UPDATE organisations SET owner_id = 'owner'`)
	w.Exec(`INSERT INTO oauth_grants (id, organisation_id, user_id, workspace_id, client_id, client_name, redirect_uri, scopes, resource, sealed, created_at)
		VALUES ('grant-of-mate', $1, 'mate', $2, 'c', 'c', 'https://c.example/', '["mcp.invoke"]', '', '', $3)`,
		store.DefaultOrganisation, store.DefaultWorkspace, w.Clock.UnixMilli())
	w.Exec(`INSERT INTO oauth_proofs (grant_id, code_hash, code_challenge, code_used_at, family_hash, token_hash, ends_at)
		VALUES ('grant-of-mate', '', '', $1, '', '', $2)`, w.Clock.UnixMilli(), w.Clock.AddDate(0, 0, 1).UnixMilli())
}

// everyKey are fields of a policy that counts each key.
const everyKey = `"conditions":[{"key":"api_key","value":"*"}],"group_by":[{"key":"api_key"}]`

// addLimits gives each policy a counter.
func (w *world) addLimits(t testing.TB) {
	w.Exec(`INSERT INTO spending (kind, id, attempts, cost, tokens, unknown, unpriced)
		SELECT 'policy', id || '/-/0/api_key:a', 1, 1, 1, 0, 0 FROM policies WHERE kind = 'usage'`)
	rows, err := w.DB.ActivePolicies(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var list []policy.Policy
	for i := range rows {
		list = append(list, rows[i].Rule(nil))
	}
	set := policy.Compile(list, nil)
	set.Match(nil, &policy.Facts{Time: w.Clock, Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, KeyID: "a"})
	w.policies = set
}

// addJob adds a job that is dead.
func (w *world) addJob() {
	w.Exec(`INSERT INTO jobs (id, kind, subject_id, organisation_id, workspace_id, state, node, token, renewals, tries, failure, progress, created_at, ended_at)
		VALUES ('the-job', 'other', 'none', $1, $2, 'dead', 'a', 5, 0, 5, 'it failed', 0, 0, 0)`, store.DefaultOrganisation, store.DefaultWorkspace)
}

// addDelivery adds a delivery that has failed, and returns its id.
func (w *world) addDelivery(t testing.TB) (id string) {
	e := store.Event{Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, Type: "batch.failed", Object: "batch", Time: w.Clock}
	if err := w.DB.Update(t.Context(), nil, func(tx *store.Tx) error { return tx.EmitEvent(t.Context(), e) }); err != nil {
		t.Fatal(err)
	}
	w.Exec(`UPDATE webhook_deliveries SET state = 'failed'`)
	w.Exec(`UPDATE jobs SET state = 'dead' WHERE kind = 'webhook'`)
	return w.Query(`SELECT id FROM webhook_deliveries`)[0]
}

// receiver is an endpoint of webhooks that receives everything.
type receiver struct{}

func (receiver) IsTrusted(*url.URL) bool { return false }

func (receiver) Do(*http.Request, bool) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, nil
}

// lateSealer is the sealer of a world that is made later.
type lateSealer struct{ *world }

func (s lateSealer) Seal(ctx context.Context, organisation string, v secret.String) (string, error) {
	return s.Secrets.Seal(ctx, organisation, v)
}

func (s lateSealer) Open(ctx context.Context, organisation, sealed string) (secret.String, error) {
	return s.Secrets.Open(ctx, organisation, sealed)
}

// addObserved stores a result of a guardrail and returns its id.
func (w *world) addObserved(t testing.TB, slug string) string {
	r := logstore.GuardResult{
		ID: reqlog.NewID(w.Clock), Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, Guardrail: slug, Version: "v",
		Event: "request", Verdict: logstore.GuardFailed, Weight: 1, Created: w.Clock,
	}
	if err := w.log.AddGuardResults(t.Context(), []logstore.GuardResult{r}); err != nil {
		t.Fatal(err)
	}
	return r.ID.String()
}

// smallModule is a WebAssembly module whose _start does nothing.
const smallModule = "AGFzbQEAAAABBAFgAAADAgEABwoBBl9zdGFydAAACgQBAgAL"

// makings are what the world is built from, in order: later ones may name earlier
// ones. The first workspace is that of the callers.
var makings = []struct{ word, path, body string }{
	{"{spare}", "/workspaces", `{"name":"Spare"}`},
	{"{invite}", "/admin/users/invites", `{"email":"new@example.com","role":"member","workspaces":[{"id":"default","role":"member"}],"workspace_api_key_details":{"scopes":["models.list"]}}`},
	{"{key}", "/api-keys/workspace/service", `{"name":"a key","scopes":["models.list"],"workspace_id":"default"}`},
	{"{integration}", "/integrations", `{"name":"Main","ai_provider_id":"openai","slug":"main","key":"sk-of-the-world","workspace_id":"default"}`},
	{"{provider}", "/providers", `{"name":"Second","integration_id":"main","slug":"second","workspace_id":"default"}`},
	{"{config}", "/configs", `{"name":"Plain","workspace_id":"default","config":{"retry":{"attempts":1}}}`},
	{"{prompt}", "/prompts", `{"name":"Greeting","workspace_id":"default","string":"Hello {{name}}","parameters":{},"model":"m"}`},
	{"{partial}", "/prompts/partials", `{"name":"Tone","workspace_id":"default","string":"Be kind"}`},
	{"{label}", "/labels", `{"name":"stable","workspace_id":"default"}`},
	{"{collection}", "/collections", `{"name":"Team","workspace_id":"default"}`},
	{"{guardrail}", "/guardrails", `{"name":"Short","workspace_id":"default","checks":[{"id":"default.wordCount","parameters":{"maxWords":9}}],"actions":{}}`},
	{"{credential}", "/guardrail-credentials", `{"partner":"lakera","workspace_id":"default","credentials":{"apiKey":"k-0123456789"}}`},
	{"{module}", "/guardrail-modules", `{"name":"Own","workspace_id":"default","code":"` + smallModule + `"}`},
	{"{policy}", "/policies/rate-limits", `{"name":"Slow","workspace_id":"default","organisation_id":"default",` + everyKey + `,"type":"requests","unit":"rpm","value":10}`},
	{"{usage}", "/policies/usage-limits", `{"name":"Money","workspace_id":"default","organisation_id":"default",` + everyKey + `,"type":"cost","credit_limit":10}`},
	{"{reference}", "/secret-references", `{"name":"Vault","slug":"vault","manager_type":"hashicorp_vault","secret_path":"kv/app","auth_config":{"type":"token","address":"https://vault.example.com","token":"hv-of-the-world"}}`},
	{"{export}", "/logs/exports", `{"workspace_id":"default","requested_data":["id"],"filters":{"time_of_generation_min":"2026-04-01T00:00:00Z","time_of_generation_max":"2026-05-01T00:00:00Z"}}`},
	{"{export_schedule}", "/logs/export-schedules", `{"name":"Daily","workspaces":["default"],"every":"day","requested_data":["id"]}`},
	{"{endpoint}", "/webhook_endpoints", `{"name":"Batches","url":"https://hooks.example.com/batches","event_types":["batch.failed"],"workspace_id":"default"}`},
	{"{deployment}", "/deployments", `{"name":"Frankfurt","slug":"fra"}`},
	{"{identity_provider}", "/identity-providers", `{"name":"Main","slug":"login","issuer":"https://login.example.com","client_id":"gateway","client_secret":"of-the-world"}`},
	{"{workload_identity}", "/workload-identities", `{"name":"CI","slug":"ci","api_key_id":"{key}","type":"oidc","issuer":"https://issuer.example.com","audience":"https://gate.example.com","claims":{"sub":["ci:build"]}}`},
	{"agent-integrations/{tool_integration}", "/agent-integrations", `{"name":"Helper","slug":"helper-at","url":"https://helper.example.com","auth_type":"headers","configurations":{"custom_headers":{"Authorization":"Bearer of-the-world"}},"workspace_id":"default"}`},
	{"agent-servers/{tool_server}", "/agent-servers", `{"name":"Helper","slug":"helper","agent_integration_id":"helper-at","workspace_id":"default"}`},
	{"{tool_integration}", "/mcp-integrations", `{"name":"Tools","slug":"tools","url":"https://tools.example.com/mcp","transport":"http","auth_type":"headers","configurations":{"custom_headers":{"Authorization":"Bearer of-the-world"}},"workspace_id":"default"}`},
	{"{tool_server}", "/mcp-servers", `{"name":"Issues","slug":"issues","mcp_integration_id":"tools","workspace_id":"default"}`},
	{"{mcp_bundle}", "/mcp-bundles", `{"name":"Daily","slug":"daily","tools":["issues"],"workspace_id":"default"}`},
	{"{client}", "/oauth/clients", `{"name":"Portal","redirect_uris":["https://portal.example.com/cb"]}`},
	{"{domain}", "/domains", `{"name":"example.com"}`},
	{"{token}", "/scim/tokens", `{"name":"Directory"}`},
	{"{mapping}", "/scim/workspaces", `{"workspace_id":"default","role":"member","scim_group_name":"Staff"}`},
	{"{trace}", "/logs", `{"request":{"url":"/","body":null},"response":{"body":null}}`}, // an entry without a trace has its own, of the same id
	{"{feedback}", "/feedback", `{"trace_id":"{trace}","value":5}`},
}

// samples are a good request for each route, by its name. The first word is
// what follows the path: a query, or nothing. A second is the body.
var samples = map[string][2]string{
	"delete-keys":                  {"?created_by=nobody", ""},
	"update-organisation":          {"", `{"name":"Acme"}`},
	"apply-state":                  {"", `{"state":{"policies":[]}}`},
	"update-organisation-defaults": {"", `{"input_guardrails":[]}`},

	"update-input-guardrail-exclusions":  {"", `{"workspaces":[{"workspace_id":"default","excluded":true}]}`},
	"update-output-guardrail-exclusions": {"", `{"workspaces":[]}`},

	"create-workspace":      {"", `{"name":"Third","description":"d"}`},
	"update-workspace":      {"", `{"name":"Renamed","description":"d"}`},
	"delete-workspace":      {"", `{"name":"Spare"}`},
	"add-workspace-users":   {"", `{"users":[{"id":"mate","role":"member"}]}`},
	"update-workspace-user": {"", `{"role":"manager"}`},

	"create-invite": {"", `{"email":"other@example.com","role":"member","workspaces":[{"id":"default","role":"member"}],"workspace_api_key_details":{"scopes":["models.list"]}}`},
	"update-user":   {"", `{"role":"admin"}`},
	"set-password":  {"", `{"token":"none","first_name":"N","password":"a long enough password"}`},

	"change-password": {"", `{"current_password":"not the password","password":"a long enough password"}`},

	"sign-in-owner":        {"", `{"token":"none"}`},
	"confirm-session":      {"", `{"password":"not the password"}`},
	"sign-in-with-passkey": {"", `{"passkey":{}}`},
	"prove-second-factor":  {"", `{"code":"123456"}`},
	"add-passkey":          {"", `{"passkey":{}}`},
	"rename-passkey":       {"", `{"name":"N"}`},
	"add-one-time-codes":   {"", `{"enrolment":"none","code":"123456"}`},

	"change-own-profile": {"", `{"first_name":"N"}`},

	"create-identity-provider":              {"", `{"name":"Other","issuer":"https://other.example.com","client_id":"gateway","client_secret":"of-another"}`},
	"rotate-identity-provider-key":          {"", `{}`},
	"update-identity-provider":              {"", `{"name":"Renamed"}`},
	"create-domain":                         {"", `{"name":"example.org"}`},
	"create-workload-identity":              {"", `{"name":"Other","api_key_id":"{key}","type":"oidc","issuer":"https://issuer.example.com","audience":"https://gate.example.com","claims":{"sub":["ci:build"]}}`},
	"update-workload-identity":              {"", `{"name":"Renamed"}`},
	"create-mcp-integration":                {"", `{"name":"Other","slug":"other-tools","url":"https://other.example.com/mcp","transport":"http","auth_type":"none","description":"d","workspace_id":"default"}`},
	"update-mcp-integration":                {"", `{"name":"Renamed","description":"d"}`},
	"update-mcp-integration-workspaces":     {"", `{"workspaces":[]}`},
	"update-mcp-integration-capabilities":   {"", `{"capabilities":[{"name":"create","type":"tool","enabled":false}]}`},
	"create-mcp-server":                     {"", `{"name":"Other","slug":"other-server","mcp_integration_id":"tools","description":"d","workspace_id":"default"}`},
	"list-mcp-servers":                      {"?workspace_id=default", ""},
	"get-mcp-server":                        {"?workspace_id=default", ""},
	"update-mcp-server":                     {"?workspace_id=default", `{"name":"Renamed","description":"d"}`},
	"delete-mcp-server":                     {"?workspace_id=default", ""},
	"test-mcp-server":                       {"?workspace_id=default", ""},
	"sync-mcp-server":                       {"?workspace_id=default", ""},
	"get-mcp-server-metadata":               {"?workspace_id=default", ""},
	"list-mcp-server-capabilities":          {"?workspace_id=default", ""},
	"update-mcp-server-capabilities":        {"?workspace_id=default", `{"capabilities":[{"name":"create","type":"tool","enabled":false}]}`},
	"get-mcp-server-user-access":            {"?workspace_id=default", ""},
	"update-mcp-server-user-access":         {"?workspace_id=default", `{"user_access":[{"user_id":"mate","enabled":false}],"default_user_access":"allow"}`},
	"list-mcp-server-connections":           {"?workspace_id=default", ""},
	"revoke-mcp-server-connection":          {"?workspace_id=default&user_id=mate", ""},
	"create-agent-integration":              {"", `{"name":"Other","slug":"other-agent","url":"https://other.example.com","auth_type":"none","description":"d","workspace_id":"default"}`},
	"update-agent-integration":              {"", `{"name":"Renamed","description":"d"}`},
	"update-agent-integration-workspaces":   {"", `{"workspaces":[]}`},
	"update-agent-integration-capabilities": {"", `{"capabilities":[{"name":"message","type":"tool","enabled":false}]}`},
	"create-agent-server":                   {"", `{"name":"Other","slug":"other-helper","agent_integration_id":"helper-at","description":"d","workspace_id":"default"}`},
	"list-agent-servers":                    {"?workspace_id=default", ""},
	"get-agent-server":                      {"?workspace_id=default", ""},
	"update-agent-server":                   {"?workspace_id=default", `{"name":"Renamed","description":"d"}`},
	"delete-agent-server":                   {"?workspace_id=default", ""},
	"test-agent-server":                     {"?workspace_id=default", ""},
	"sync-agent-server":                     {"?workspace_id=default", ""},
	"get-agent-server-metadata":             {"?workspace_id=default", ""},
	"list-agent-server-capabilities":        {"?workspace_id=default", ""},
	"update-agent-server-capabilities":      {"?workspace_id=default", `{"capabilities":[{"name":"message","type":"tool","enabled":false}]}`},
	"get-agent-server-user-access":          {"?workspace_id=default", ""},
	"update-agent-server-user-access":       {"?workspace_id=default", `{"user_access":[{"user_id":"mate","enabled":false}],"default_user_access":"allow"}`},
	"create-mcp-bundle":                     {"", `{"name":"Other","slug":"other-bundle","tools":["issues"],"description":"d","workspace_id":"default"}`},
	"list-mcp-bundles":                      {"?workspace_id=default", ""},
	"get-mcp-bundle":                        {"?workspace_id=default", ""},
	"update-mcp-bundle":                     {"?workspace_id=default", `{"name":"Renamed","description":"d"}`},
	"delete-mcp-bundle":                     {"?workspace_id=default", ""},
	"list-registry-servers":                 {"?workspace_id=default", ""},
	"get-device-sign-in":                    {"?user_code=BCDF-GHJK", ""},
	"decide-device-sign-in":                 {"", `{"user_code":"BCDF-GHJK","decision":"deny"}`},
	"get-consent":                           {"?request=client_id%3Dnone", ""},
	"decide-consent":                        {"", `{"request":"client_id=none","consent_token":"none","decision":"deny"}`},
	"create-oauth-client":                   {"", `{"name":"Other","redirect_uris":["https://other.example.com/cb"]}`},
	"create-tool-sign-in-link":              {"", `{"mcp_server_id":"issues","workspace_id":"default"}`},
	"revoke-own-tool-connection":            {"?workspace_id=default", ""},
	"get-tool-sign-in":                      {"?link=mgl_none", ""},
	"begin-tool-sign-in":                    {"", `{"link":"mgl_none"}`},
	"finish-tool-sign-in":                   {"", `{"query":"state=none&code=none"}`},

	"claim":         {"", `{"token":"the-link","email":"boss@example.com","first_name":"B","password":"a long enough password"}`},
	"login":         {"", `{"email":"mate@example.com","password":"not the password"}`},
	"accept-invite": {"", `{"token":"none","first_name":"N","password":"a long enough password"}`},
	"introspect":    {"", `{"token":"mg-unknown"}`},

	"create-organisation-service-key": {"", `{"name":"k","scopes":["audit_logs.list"]}`},
	"create-workspace-service-key":    {"", `{"name":"k","scopes":["models.list"],"workspace_id":"default"}`},
	"create-workspace-user-key":       {"", `{"name":"k","scopes":["models.list"],"workspace_id":"default","user_id":"member"}`},
	"create-organisation-user-key":    {"", `{"name":"k","scopes":["audit_logs.list"]}`},
	"update-key":                      {"", `{"name":"renamed"}`},
	"rotate-key":                      {"", `{}`},

	"create-integration":            {"", `{"name":"Other","ai_provider_id":"openai","slug":"other","key":"sk-other","description":"d","workspace_id":"default","tags":{"a":"b"}}`},
	"update-integration":            {"", `{"name":"Renamed","description":"d"}`},
	"update-integration-models":     {"", `{"models":[{"slug":"gpt-4o","enabled":true}]}`},
	"delete-integration-models":     {"?slugs=none", ""},
	"test-integration":              {"", `{"ai_provider_id":"openai","key":"sk-other","configurations":{},"workspace_id":"default"}`},
	"update-integration-workspaces": {"", `{"workspaces":[{"id":"default","enabled":true}]}`},

	"create-provider":     {"", `{"name":"Third","integration_id":"main","slug":"third","note":"n","workspace_id":"default"}`},
	"list-providers":      {"?workspace_id=default", ""},
	"get-provider":        {"?workspace_id=default", ""},
	"get-provider-health": {"?workspace_id=default", ""},
	"update-provider":     {"", `{"name":"Renamed","note":"n","workspace_id":"default"}`},
	"delete-provider":     {"?workspace_id=default", ""},
	"create-virtual-key":  {"", `{"name":"VK","provider":"openai","key":"sk-vk","note":"n","workspace_id":"default"}`},
	"list-virtual-keys":   {"?workspace_id=default", ""},
	"get-virtual-key":     {"?workspace_id=default", ""},
	"update-virtual-key":  {"", `{"name":"Renamed","note":"n","workspace_id":"default"}`},
	"delete-virtual-key":  {"?workspace_id=default", ""},

	"list-catalogue-models": {"?workspace_id=default", ""},

	"create-config":          {"", `{"name":"Other","workspace_id":"default","config":{"retry":{"attempts":2}}}`},
	"list-configs":           {"?workspace_id=default", ""},
	"get-config":             {"", ""},
	"update-config":          {"", `{"name":"Renamed"}`},
	"rollback-config":        {"", `{"version":1}`},
	"rollback-guardrail":     {"", `{"version":1}`},
	"create-guardrail":       {"", `{"name":"Other","workspace_id":"default","checks":[{"id":"default.wordCount","parameters":{"maxWords":9}}],"actions":{}}`},
	"list-guardrails":        {"?workspace_id=default", ""},
	"update-guardrail":       {"", `{"name":"Renamed"}`},
	"test-guardrail":         {"", `{"workspace_id":"default","guardrail":"{guardrail}","text":"a"}`},
	"label-guardrail-result": {"", `{"label":"right"}`},
	"list-config-versions":   {"", ""},

	"create-guardrail-module": {"", `{"name":"Other","workspace_id":"default","code":"` + smallModule + `"}`},
	"list-guardrail-modules":  {"?workspace_id=default", ""},

	"create-guardrail-credential": {"", `{"partner":"pillar","workspace_id":"default","credentials":{"apiKey":"k-0123456789"}}`},
	"list-guardrail-credentials":  {"?workspace_id=default", ""},
	"update-guardrail-credential": {"", `{"credentials":{"apiKey":"k-9876543210"}}`},

	"create-prompt":        {"", `{"name":"Other","workspace_id":"default","string":"x","model":"m","version_description":"d"}`},
	"list-prompts":         {"?workspace_id=default", ""},
	"update-prompt":        {"", `{"patch":true,"model":"n","name":"Renamed"}`},
	"publish-prompt":       {"", `{"version":1}`},
	"label-prompt-version": {"", `{"label_id":null}`},
	"create-partial":       {"", `{"name":"Other","workspace_id":"default","string":"x"}`},
	"list-partials":        {"?workspace_id=default", ""},
	"update-partial":       {"", `{"name":"Renamed","string":"y","description":"d"}`},
	"publish-partial":      {"", `{"version":1}`},
	"create-label":         {"", `{"name":"other","workspace_id":"default","description":"d","color_code":"#fff"}`},
	"list-labels":          {"?workspace_id=default", ""},
	"update-label":         {"", `{"name":"renamed","description":"d"}`},
	"create-collection":    {"", `{"name":"Other","workspace_id":"default"}`},
	"list-collections":     {"?workspace_id=default", ""},
	"update-collection":    {"", `{"name":"Renamed"}`},

	"create-rate-limit-policy":  {"", `{"workspace_id":"default","organisation_id":"default",` + everyKey + `,"type":"tokens","unit":"rpd","value":5}`},
	"list-rate-limit-policies":  {"?workspace_id=default", ""},
	"update-rate-limit-policy":  {"", `{"name":"Renamed"}`},
	"create-usage-limit-policy": {"", `{"workspace_id":"default","organisation_id":"default",` + everyKey + `,"type":"tokens","credit_limit":500}`},
	"list-usage-limit-policies": {"?workspace_id=default", ""},
	"update-usage-limit-policy": {"", `{"name":"Renamed","reset_usage_for_value":"api_key:a"}`},

	"create-secret-reference": {"", `{"name":"Other","slug":"other","description":"d","manager_type":"hashicorp_vault","secret_path":"kv/app","auth_config":{"type":"token","address":"https://vault.example.com","token":"hv-other"}}`},
	"update-secret-reference": {"", `{"name":"Renamed","description":"d"}`},
	"create-deployment":       {"", `{"name":"Paris","slug":"par"}`},
	"update-deployment":       {"", `{"name":"Renamed"}`},

	"group-analytics": {"?columns=cost,p99_latency", ""},
	"group-logs":      {"", ""},

	"get-trace":        {"?from=2026-04-30T00:00:00Z", ""}, // the clock stands still then
	"list-traces":      {"?workspace=default", ""},
	"add-feedback":     {"", `{"trace_id":"t","value":-3,"weight":0.5,"metadata":{"by":"a reader"}}`},
	"update-feedback":  {"", `{"value":4,"weight":1,"metadata":{}}`},
	"list-feedback":    {"?workspace=default", ""},
	"invalidate-cache": {"", `{"workspace_id":"default","namespace":"n"}`},
	"insert-logs":      {"", `{"request":{"url":"https://api.openai.com/v1/chat/completions","body":{"model":"m"}},"response":{"status":200,"body":{}},"metadata":{"team":"a"}}`},

	"create-export": {"", `{"workspace_id":"default","requested_data":["id","cost"],"format":"csv","filters":{"time_of_generation_min":"2026-04-01T00:00:00Z","time_of_generation_max":"2026-05-01T00:00:00Z"}}`},
	"list-exports":  {"?workspace_id=default", ""},

	"create-export-schedule": {"", `{"name":"Weekly","workspaces":["default"],"every":"week","timezone":"Europe/Berlin","requested_data":["id","cost"],"format":"csv","filters":{"status":"5xx"}}`},
	"update-export":          {"", `{"format":"parquet"}`},

	"create-directory-token":   {"", `{"name":"Other"}`},
	"create-directory-mapping": {"", `{"workspace_id":"default","role":"manager","scim_group_name":"Others"}`},

	"list-jobs": {"?workspace_id=default", ""},

	"create-webhook-endpoint": {"", `{"name":"Other","description":"d","url":"https://hooks.example.com/other?key=k","event_types":["batch.completed","response.completed"],"status":"disabled","workspace_id":"default"}`},
	"list-webhook-endpoints":  {"?workspace_id=default", ""},
	"update-webhook-endpoint": {"", `{"name":"Renamed","description":"d"}`},
	"modify-webhook-endpoint": {"", `{"event_types":["batch.expired"]}`},
	"rotate-webhook-secret":   {"", `{"keep_old_secret_active_for_24_hours":true}`},
	"test-webhook-endpoint":   {"", `{"event_type":"batch.completed"}`},

	"list-audit-logs": {"?start_time=2026-05-01T00:00:00Z&end_time=2026-05-02T00:00:00Z", ""},
}

// elsewhere are the paths of samples that are not about what the world's words
// stand for.
var elsewhere = map[string]string{
	"delete-workspace": "/admin/workspaces/{spare}",

	"get-usage-limit-policy": "/policies/usage-limits/{usage}", "update-usage-limit-policy": "/policies/usage-limits/{usage}", "delete-usage-limit-policy": "/policies/usage-limits/{usage}",
	"list-usage-limit-entities": "/policies/usage-limits/{usage}/entities", "reset-usage-limit-entity": "/policies/usage-limits/{usage}/entities/{entity}/reset",

	"group-analytics": "/analytics/groups/model", "group-logs": "/logs/groups/api_key",
}

// request returns the sample of a route: path with query, and body.
func (w *world) request(r *route.Route) (path, body string) {
	s := samples[r.Name]
	if path = elsewhere[r.Name]; path == "" {
		path = r.Path
	}
	return w.ids.Replace(path) + w.ids.Replace(s[0]), w.ids.Replace(s[1])
}
