package workloads_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane"
	"modelgate/internal/controlplane/workloads"
	"modelgate/internal/identity/access"
	"modelgate/internal/identity/workload"
	"modelgate/internal/snapshot"
	"modelgate/internal/store"
	"modelgate/internal/testing/oidctest"
	"modelgate/internal/testing/routetest"
)

// world is a control plane whose workloads have tokens of an issuer.
type world struct {
	*routetest.Bench
	*oidctest.Provider
	t    *testing.T
	root *routetest.Caller
	key  string // id of a service key
}

const audience = "https://gate.example.com"

func newWorld(t *testing.T) *world {
	w := &world{Provider: oidctest.New(t), t: t}
	w.URL = "https://issuer.example.com"
	w.Bench = routetest.New(t, controlplane.Families{
		Workloads: workloads.Routes{Verifier: workload.NewVerifier(w.Provider), Issue: w.issue},
	}.Add)
	w.API.Now = time.Now
	w.root = w.Root()
	w.key = w.serviceKey(`"without_secret":true,"scopes":["completions.write","models.list"]`)
	return w
}

func (w *world) serviceKey(fields string) string {
	w.t.Helper()
	var k struct{ ID, Key string }
	w.root.Must("POST", "/api-keys/workspace/service", `{"name":"ci",`+fields+`}`, &k)
	if hasSecret := !strings.Contains(fields, "without_secret"); hasSecret != (k.Key != "") {
		w.t.Errorf("with %s the key has the secret %q", fields, k.Key)
	}
	return k.ID
}

// snapshot returns what a node knows.
func (w *world) snapshot() *snapshot.Snapshot {
	w.t.Helper()
	var in snapshot.Input
	keys, err := w.DB.Keys(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, k := range keys {
		if k.Status == store.KeyActive {
			in.Keys = append(in.Keys, k.Identities()...)
		}
	}
	list, err := w.DB.ActiveWorkloadIdentities(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, i := range list {
		signing, err := w.Secrets.Open(w.t.Context(), i.Organisation, i.Sealed)
		if err != nil {
			w.t.Fatal(err)
		}
		in.Workloads = append(in.Workloads, snapshot.Workload{ID: i.ID, Slug: i.Slug, Key: i.Key, Signing: signing})
	}
	s, err := snapshot.Build(in)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) issue(g access.WorkloadGrant, now time.Time) (secret.String, *access.Identity, error) {
	return w.snapshot().WorkloadKey(g, now)
}

// owner returns whom a node knows a key as.
func (w *world) owner(key string, later time.Duration) (*access.Identity, error) {
	id, _, err := w.snapshot().Authenticate(http.Header{"Authorization": {"Bearer " + key}}, time.Now().Add(later))
	return id, err
}

// add adds a workload identity and returns its id.
func (w *world) add(slug, more string) string {
	w.t.Helper()
	var out struct{ ID string }
	w.root.Must("POST", "/workload-identities", w.body(slug, more), &out)
	return out.ID
}

func (w *world) body(slug, more string) string {
	return fmt.Sprintf(`{"name":"CI","slug":%q,"type":"oidc","issuer":%q,"audience":%q,"api_key_id":%q,"claims":{"sub":["ci:build"]}%s}`,
		slug, w.URL, audience, w.key, more)
}

func (w *world) token(more map[string]any) string {
	now := time.Now()
	c := map[string]any{"iss": w.URL, "aud": audience, "sub": "ci:build", "iat": now.Unix(), "exp": now.Add(time.Minute).Unix()}
	maps.Copy(c, more)
	return w.Signed(c)
}

// exchanged is the response of the token endpoint.
type exchanged struct {
	Token       string `json:"access_token"`
	Type        string `json:"token_type"`
	Issued      string `json:"issued_token_type"`
	ExpiresIn   int64  `json:"expires_in"`
	Scope       string
	Error       string
	Description string `json:"error_description"`
}

func (w *world) exchange(client, token string, more ...string) (int, exchanged) {
	w.t.Helper()
	form := url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "client_id": {client}, "subject_token": {token},
		"subject_token_type": {"urn:ietf:params:oauth:token-type:jwt"},
	}
	for i := 0; i < len(more); i += 2 {
		if form.Set(more[i], more[i+1]); more[i+1] == "" {
			form.Del(more[i])
		}
	}
	a := w.Nobody().CallWith("POST", "/oauth/token", form.Encode(), http.Header{"Content-Type": {"application/x-www-form-urlencoded"}})
	var out exchanged
	if err := json.Unmarshal([]byte(a.Body), &out); err != nil || a.Header.Get("Cache-Control") != "no-store" {
		w.t.Fatalf("the response is %s with %v", a.Body, a.Header)
	}
	return a.Status, out
}

func (w *world) mustExchange(client string, more ...string) exchanged {
	w.t.Helper()
	status, out := w.exchange(client, w.token(nil), more...)
	if status != http.StatusOK || out.Token == "" {
		w.t.Fatalf("exchanging: %d %+v", status, out)
	}
	return out
}

// audits returns the bodies of the audit log's rows of exchanges, oldest first.
// TestNoLastingRightFollowsFromAShortKey: what a short-lived key made would outlive it, and
// whoever revokes it would not know.
func TestNoLastingRightFollowsFromAShortKey(t *testing.T) {
	w := newWorld(t)
	for _, workload := range []string{"", "w"} {
		c := w.As(access.Identity{KeyID: "k", Type: access.OrganisationService, Workload: workload, Scopes: []access.Scope{access.ScopeAll}})
		for _, r := range []struct{ method, path, body string }{
			{"POST", "/api-keys/workspace/service", `{"name":"n","workspace_id":"default","scopes":["models.list"]}`},
			{"POST", "/api-keys/organisation/service", `{"name":"n","scopes":["models.list"]}`},
			{"POST", "/workload-identities", w.body("new", "")},
			{"POST", "/admin/users/invites", `{"email":"a@example.com","role":"admin","workspaces":[],"workspace_api_key_details":{"scopes":["models.list"]}}`},
			{"POST", "/scim/tokens", `{"name":"n"}`},
			{"PUT", "/api-keys/" + w.key, `{"expires_at":null}`},
		} {
			a := c.Call(r.method, r.path, r.body)
			if refused := strings.Contains(a.Body, "short-lived key of a workload identity"); refused != (workload != "") {
				t.Errorf("%s %s with a short-lived key %v: %d %s", r.method, r.path, workload != "", a.Status, a.Body)
			}
		}
	}
}

func (w *world) audits() []string {
	return w.Query(`SELECT request_body || ' ' || user_id || ' ' || response_status_code FROM audit_logs WHERE action = 'exchange' ORDER BY id`)
}

func TestAWorkloadExchangesItsTokenForAShortKey(t *testing.T) {
	w := newWorld(t)
	id := w.add("build", `,"ttl":600`)
	before := w.Changes()
	out := w.mustExchange(id)
	if out.Type != "Bearer" || out.Issued != "urn:ietf:params:oauth:token-type:access_token" || out.ExpiresIn > 600 || out.ExpiresIn < 590 ||
		out.Scope != "completions.write models.list" {
		t.Errorf("the response is %+v", out)
	}
	owner, err := w.owner(out.Token, 0)
	if err != nil || owner.KeyID != w.key || owner.Workload != id || owner.Workspace != store.DefaultWorkspace || !owner.Allows("completions.write") ||
		owner.Metadata["workload_identity"] != "build" || owner.Metadata["workload_subject"] != "ci:build" {
		t.Fatalf("the owner is %+v, %v", owner, err)
	}
	if _, err := w.owner(out.Token, 11*time.Minute); err == nil {
		t.Error("the key is valid after its time")
	}
	for i := range len(out.Token) {
		changed := []byte(out.Token)
		if changed[i]++; i > 0 && i < len(changed)-1 { // the last character has unused bits
			if _, err := w.owner(string(changed), 0); err == nil {
				t.Fatalf("a key that was changed at %d is valid", i)
			}
		}
	}
	if got := w.Changes() - before; got != 0 {
		t.Errorf("an exchange made %d changes, each of which nodes would load", got)
	}
	rows := w.audits()
	if len(rows) != 1 || !strings.Contains(rows[0], `"subject":"ci:build"`) || !strings.HasSuffix(rows[0], w.key+" 200") {
		t.Errorf("the audit log has %q", rows)
	}
	if again := w.mustExchange(id); again.Token == out.Token {
		t.Error("two exchanges give the same key")
	}
	short := w.mustExchange(id, "scope", "models.list")
	if owner, err := w.owner(short.Token, 0); err != nil || owner.Allows("completions.write") || !owner.Allows("models.list") || short.Scope != "models.list" {
		t.Errorf("with fewer scopes the owner is %+v, %v", owner, err)
	}
}

func TestRefusedExchangesSayNothingAndAreAudited(t *testing.T) {
	w := newWorld(t)
	a, b := w.add("a", ""), w.add("b", `,"status":"disabled"`)
	other := oidctest.New(t)
	other.URL = "https://other.example.com"
	var c struct{ ID string }
	w.root.Must("POST", "/workload-identities", strings.Replace(w.body("c", ""), w.URL, other.URL, 1), &c)
	for name, tt := range map[string]struct{ client, token, reason string }{
		"an unknown identity":            {"none", w.token(nil), ""},
		"a slug":                         {"a", w.token(nil), ""},
		"a disabled identity":            {b, w.token(nil), "disabled"},
		"another subject":                {a, w.token(map[string]any{"sub": "ci:other"}), "claims"},
		"another audience":               {a, w.token(map[string]any{"aud": "https://other.example.com"}), "audience"},
		"expired":                        {a, w.token(map[string]any{"exp": time.Now().Add(-time.Hour).Unix(), "iat": time.Now().Add(-2 * time.Hour).Unix()}), "expired"},
		"a token of another issuer":      {c.ID, w.token(nil), "issuer"},
		"signed by another issuer":       {a, other.Signed(map[string]any{"iss": w.URL, "aud": audience, "sub": "ci:build", "exp": time.Now().Add(time.Minute).Unix()}), "unknown_key"},
		"a gateway key instead of a JWT": {a, "mg-" + strings.Repeat("a", 43), "token"},
	} {
		before := len(w.audits())
		status, out := w.exchange(tt.client, tt.token)
		if status != http.StatusBadRequest || out.Error != "invalid_request" || out.Description != "the token was refused; the audit log of the organisation has the reason" {
			t.Errorf("%s: %d %+v", name, status, out)
		}
		rows := w.audits()[before:]
		if tt.reason == "" && len(rows) > 0 || tt.reason != "" && (len(rows) != 1 || !strings.Contains(rows[0], `"reason":"`+tt.reason+`"`)) {
			t.Errorf("%s: the audit log has %q, want %q", name, rows, tt.reason)
		}
		if len(rows) > 0 && strings.Contains(rows[0], strings.Split(tt.token+"..", ".")[1]) && strings.Contains(tt.token, ".") {
			t.Errorf("%s: the audit log has the token", name)
		}
	}
}

func TestRequestsForTokensAreCheckedAsTheStandardSays(t *testing.T) {
	w := newWorld(t)
	id := w.add("a", "")
	for name, tt := range map[string]struct {
		more   []string
		status int
		code   string
	}{
		"no grant type":            {[]string{"grant_type", ""}, 400, "invalid_request"},
		"another grant type":       {[]string{"grant_type", "password"}, 400, "unsupported_grant_type"},
		"no token":                 {[]string{"subject_token", ""}, 400, "invalid_request"},
		"no type":                  {[]string{"subject_token_type", ""}, 400, "invalid_request"},
		"SAML":                     {[]string{"subject_token_type", "urn:ietf:params:oauth:token-type:saml2"}, 400, "invalid_request"},
		"a refresh token":          {[]string{"requested_token_type", "urn:ietf:params:oauth:token-type:refresh_token"}, 400, "invalid_request"},
		"no client":                {[]string{"client_id", ""}, 400, "invalid_request"},
		"a secret":                 {[]string{"client_secret", "x"}, 401, "invalid_client"},
		"an actor":                 {[]string{"actor_token", "x"}, 400, "invalid_request"},
		"another server":           {[]string{"audience", "https://other.example.com"}, 400, "invalid_target"},
		"another resource":         {[]string{"resource", "https://other.example.com"}, 400, "invalid_target"},
		"a scope that it lacks":    {[]string{"scope", "models.list logs.list"}, 400, "invalid_scope"},
		"an unknown scope":         {[]string{"scope", "models.lists"}, 400, "invalid_scope"},
		"scopes without end":       {[]string{"scope", strings.Repeat("models.list ", 1000)}, 400, "invalid_scope"},
		"every scope":              {[]string{"scope", "*"}, 400, "invalid_scope"},
		"this server":              {[]string{"audience", "http://listen.example:8787"}, 200, ""},
		"an ID token":              {[]string{"subject_token_type", "urn:ietf:params:oauth:token-type:id_token"}, 200, ""},
		"an access token":          {[]string{"subject_token_type", "urn:ietf:params:oauth:token-type:access_token"}, 200, ""},
		"parameters of extensions": {[]string{"x", "y"}, 200, ""},
	} {
		if status, out := w.exchange(id, w.token(nil), tt.more...); status != tt.status || out.Error != tt.code {
			t.Errorf("%s: %d %+v, want %d %s", name, status, out, tt.status, tt.code)
		}
	}
	for name, tt := range map[string]struct{ kind, body string }{
		"JSON":                      {"application/json", `{"grant_type":"x"}`},
		"a parameter that is twice": {"application/x-www-form-urlencoded", "grant_type=a&grant_type=b"},
	} {
		a := w.Nobody().CallWith("POST", "/oauth/token", tt.body, http.Header{"Content-Type": {tt.kind}})
		if a.Status != http.StatusBadRequest || !strings.Contains(a.Body, `"error":"invalid_request"`) {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
}

func TestShortKeysEndWithTheirIdentity(t *testing.T) {
	w := newWorld(t)
	for name, end := range map[string]func(id, path string){
		"disabled":     func(_, path string) { w.root.Must("PUT", path, `{"status":"disabled"}`, nil) },
		"deleted":      func(_, path string) { w.root.Must("DELETE", path, "", nil) },
		"revoked":      func(_, path string) { w.root.Must("POST", path+"/revoke", "", nil) },
		"other rules":  func(_, path string) { w.root.Must("PUT", path, `{"claims":{"sub":["ci:deploy"]}}`, nil) },
		"another aud":  func(_, path string) { w.root.Must("PUT", path, `{"audience":"https://new.example.com"}`, nil) },
		"key disabled": func(string, string) { w.root.Must("PUT", "/api-keys/"+w.key, `{"status":"disabled"}`, nil) },
		"key deleted":  func(string, string) { w.root.Must("DELETE", "/api-keys/"+w.key, "", nil) },
	} {
		w.key = w.serviceKey(`"scopes":["models.list"]`)
		id := w.add(strings.ReplaceAll(name, " ", "-"), "")
		out := w.mustExchange(id)
		w.root.Must("PUT", "/workload-identities/"+id, `{"name":"Renamed","ttl":120}`, nil)
		if _, err := w.owner(out.Token, 0); err != nil {
			t.Errorf("%s: before, after another name: %v", name, err)
		}
		end(id, "/workload-identities/"+id)
		if owner, err := w.owner(out.Token, 0); err == nil {
			t.Errorf("%s: the key is still of %+v", name, owner)
		}
	}
}

// Who may not rotate a key may not let workloads have it.
func TestAddingAWorkloadIdentityNeedsTheRightToRotate(t *testing.T) {
	w := newWorld(t)
	strong := w.serviceKey(`"scopes":["completions.write","logs.list"]`)
	for name, tt := range map[string]struct {
		as     access.Identity
		key    string
		status int
	}{
		"every right":          {access.Identity{Type: access.WorkspaceService, Scopes: []access.Scope{"workspace_service_api_keys.rotate", "completions.write", "models.list"}}, w.key, 200},
		"no right to rotate":   {access.Identity{Type: access.WorkspaceService, Scopes: []access.Scope{"workspace_service_api_keys.update", "completions.write", "models.list"}}, w.key, 403},
		"fewer scopes":         {access.Identity{Type: access.WorkspaceService, Scopes: []access.Scope{"workspace_service_api_keys.rotate", "completions.write"}}, strong, 403},
		"another organisation": {access.Identity{Type: access.OrganisationService, Organisation: "other", Workspace: "-", Scopes: []access.Scope{"workspace_service_api_keys.rotate"}}, w.key, 404},
		"a short key": {access.Identity{Type: access.WorkspaceService, Workload: "w",
			Scopes: []access.Scope{"workspace_service_api_keys.rotate", "completions.write", "models.list"}}, w.key, 403},
		"an unknown key": {access.Identity{Type: access.WorkspaceService, Scopes: []access.Scope{"workspace_service_api_keys.rotate"}}, "none", 404},
	} {
		c := w.As(tt.as)
		a := c.Call("POST", "/workload-identities", strings.Replace(w.body("by-"+strings.ReplaceAll(name, " ", "-"), ""), w.key, tt.key, 1))
		if a.Status != tt.status {
			t.Errorf("%s: %d %s, want %d", name, a.Status, a.Body, tt.status)
		}
	}
	short := w.As(access.Identity{Type: access.WorkspaceService, KeyID: strong, Workload: "w", Scopes: []access.Scope{"workspace_service_api_keys.rotate", "completions.write", "logs.list"}})
	if a := short.Call("POST", "/api-keys/"+strong+"/rotate", ""); a.Status != http.StatusForbidden {
		t.Errorf("a short key gets a lasting secret of its service key: %d %s", a.Status, a.Body)
	}
	if a := w.root.Call("POST", "/api-keys/"+w.key+"/rotate", ""); a.Status != http.StatusConflict {
		t.Errorf("a key without a secret is rotated: %d %s", a.Status, a.Body)
	}
	id := w.add("hidden", "")
	blind := w.As(access.Identity{Type: access.WorkspaceService, Workspace: "elsewhere", Scopes: []access.Scope{"workspace_service_api_keys.read", "workspace_service_api_keys.list", "workspace_service_api_keys.rotate"}})
	for _, call := range [][2]string{{"GET", ""}, {"PUT", `{"name":"x"}`}, {"DELETE", ""}} {
		if a := blind.Call(call[0], "/workload-identities/"+id, call[1]); a.Status != http.StatusNotFound {
			t.Errorf("%s from another workspace: %d %s", call[0], a.Status, a.Body)
		}
	}
	if a := blind.Call("GET", "/workload-identities", ""); strings.Contains(a.Body, id) {
		t.Errorf("another workspace lists %s", a.Body)
	}
}

func TestFieldsOfWorkloadIdentitiesAreChecked(t *testing.T) {
	w := newWorld(t)
	for name, tt := range map[string]struct{ old, put, param string }{
		"no rules":            {`"claims":{"sub":["ci:build"]}`, `"ttl":60`, "claims"},
		"every workload":      {`"ci:build"`, `"*"`, "claims.sub"},
		"a private address":   {w.URL, "http://169.254.169.254", "issuer"},
		"private keys":        {`"type":"oidc"`, `"type":"oidc","jwks_url":"http://10.0.0.1/keys"`, "jwks_url"},
		"an hour and more":    {`"type":"oidc"`, `"type":"oidc","ttl":3601`, "ttl"},
		"no audience":         {`"audience":"` + audience + `"`, `"ttl":60`, "audience"},
		"a kind that is none": {`"type":"oidc"`, `"type":"saml"`, "type"},
	} {
		a := w.root.Call("POST", "/workload-identities", strings.Replace(w.body("x", ""), tt.old, tt.put, 1))
		if a.Status != http.StatusBadRequest || !strings.Contains(a.Body, `"param":"`+tt.param+`"`) {
			t.Errorf("%s: %d %s, want %s", name, a.Status, a.Body, tt.param)
		}
	}
}

func TestRefusedExchangesOfAnAddressAreLimited(t *testing.T) {
	w := newWorld(t)
	now := time.Now()
	w.API.Now = func() time.Time { return now } // else some are forgotten
	id := w.add("a", "")
	for range 80 { // successes are not counted
		w.mustExchange(id)
	}
	limited := 0
	for range 80 {
		if status, out := w.exchange(id, w.token(map[string]any{"sub": "x:y"})); status == http.StatusTooManyRequests && out.Error == "temporarily_unavailable" {
			limited++
		}
	}
	if limited != 20 {
		t.Errorf("%d of 80 refused exchanges were limited, want 20", limited)
	}
}
