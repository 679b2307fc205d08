package keys_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"modelgate/api"
	"modelgate/internal/controlplane/configs"
	"modelgate/internal/controlplane/keys"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/testing/routetest"
)

type created struct{ ID, Key, Object string }

type item struct {
	ID, Key, Name, Type, Status string
	Scopes                      []string
	UserID                      string  `json:"user_id"`
	ExpiresAt                   *string `json:"expires_at"`
	UpdatedAt                   string  `json:"last_updated_at"`
	Mode                        string  `json:"creation_mode"`
	UsageLimits                 *struct {
		CreditLimit   float64 `json:"credit_limit"`
		Status        string
		LastReset     *string `json:"last_reset_at"`
		ExhaustedSent bool    `json:"is_exhausted_alerts_sent"`
	} `json:"usage_limits"`
}

func mustMake(t *testing.T, c *routetest.Caller, path, body string) created {
	t.Helper()
	var out created
	c.Must("POST", "/api-keys/"+path, body, &out)
	if out.ID == "" || !strings.HasPrefix(out.Key, access.KeyPrefix) || out.Object != "api-key" {
		t.Fatalf("made %+v", out)
	}
	return out
}

func mustGet(c *routetest.Caller, id string) item {
	var out item
	c.Must("GET", "/api-keys/"+id, "", &out)
	return out
}

// wantRefused reports a response that is not an error with this status, code and
// field. An empty field is any.
func wantRefused(t *testing.T, what string, a routetest.Response, status int, code, field string) {
	t.Helper()
	var e struct{ Error struct{ Code, Param string } }
	if err := json.Unmarshal([]byte(a.Body), &e); err != nil || a.Status != status || e.Error.Code != code || field != "" && e.Error.Param != field {
		t.Errorf("%s: %d %s; want %d %s of %q", what, a.Status, a.Body, status, code, field)
	}
}

func TestAKeyIsReadAsItWasMadeWithoutItsSecret(t *testing.T) {
	b := routetest.New(t, keys.Add, configs.Add)
	c := b.Root()
	var config struct{ Data struct{ ID, Slug string } }
	c.Must("POST", "/configs", `{"name":"x","config":{"retry":{"attempts":1}}}`, &config)
	k := mustMake(t, c, "workspace/service", `{"name":"ci","description":"builds","scopes":["completions:write","gateway.logs.view","logs.view"],
		"usage_limits":{"credit_limit":10,"alert_threshold":8,"periodic_reset":"monthly"},
		"defaults":{"metadata":{"team":"a"},"config_id":"`+config.Data.ID+`","allow_config_override":false,"request_logging":"none","response_model":"requested"},"alert_emails":["a@example.com"],
		"expires_at":"2026-06-01T10:00:00+02:00","rotation_policy":{"rotation_period":"weekly"}}`)
	a := c.Call("GET", "/api-keys/"+k.ID, "")
	want := `{"id":"` + k.ID + `","key":"mg***` + k.Key[len(k.Key)-2:] + `","name":"ci","description":"builds","type":"workspace-service",` +
		`"organisation_id":"` + store.DefaultOrganisation + `","workspace_id":"` + store.DefaultWorkspace + `","user_id":null,"status":"active","creation_mode":"api","created_by":"key-a","made_by_keys":[],` +
		`"created_at":"2026-05-01T12:00:00.000Z","last_updated_at":"2026-05-01T12:00:00.000Z","rate_limits":[],` +
		`"usage_limits":{"credit_limit":10,"type":"cost","alert_threshold":8,"periodic_reset":"monthly","periodic_reset_days":null,"next_usage_reset_at":"2026-06-01T00:00:00.000Z",` +
		`"current_usage":0,"status":"active","last_reset_at":null,"on_budget_end":"finish","is_threshold_alerts_sent":false,"is_exhausted_alerts_sent":false,"is_expired_alerts_sent":false},"reset_usage":0,` +
		`"scopes":["completions.write","logs.view"],"defaults":{"metadata":{"team":"a"},"config_id":"` + config.Data.Slug + `","allow_config_override":false,"request_logging":"none","response_model":"requested"},` +
		`"alert_emails":["a@example.com"],"allowed_addresses":[],"tools":null,"expires_at":"2026-06-01T08:00:00.000Z","rotation_policy":{"rotation_period":"weekly","rotation_period_days":null,` +
		`"next_rotation_at":"2026-05-04T00:00:00.000Z","is_due":false,"key_transition_period_ms":1800000},"key_transition_expires_at":null,"egress_policy":null,"managed_by":"api","object":"api-key"}` + "\n"
	if diff := cmp.Diff(want, a.Body); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	row, err := b.DB.Key(t.Context(), store.DefaultOrganisation, k.ID)
	if id := row.Identity(); err != nil || !id.Hash.Equal(access.HashKey(k.Key)) || id.Config != config.Data.Slug || !id.ConfigFixed || id.Metadata["team"] != "a" || id.Logging.Key != access.LogNone || id.ResponseModel != api.ModelRequested {
		t.Errorf("stored %+v, %v", row, err)
	}
	wantRefused(t, "an unknown name", c.Call("POST", "/api-keys/workspace/service", `{"name":"n","scopes":["models.list"],"defaults":{"response_model":"sent"}}`), 400, "AB01", "defaults.response_model")
	bare := mustMake(t, c, "workspace/service", `{"name":"bare","scopes":["models.list"],"usage_limits":null,"defaults":null,"expires_at":null,"rotation_policy":null}`)
	if got := c.Call("GET", "/api-keys/"+bare.ID, "").Body; !strings.Contains(got, `"usage_limits":null`) || !strings.Contains(got, `"allow_config_override":true,"request_logging":null,"response_model":null`) ||
		!strings.Contains(got, `"rate_limits":[]`) || !strings.Contains(got, `"alert_emails":[]`) || !strings.Contains(got, `"rotation_policy":null`) || !strings.Contains(got, `"expires_at":null`) {
		t.Errorf("a bare key is %s", got)
	}
}

func TestSecretsOfKeysAreInNoLaterResponse(t *testing.T) {
	b := routetest.New(t, keys.Add)
	c := b.Root()
	k := mustMake(t, c, "workspace/service", `{"name":"ci","scopes":["models.list"]}`)
	var next created
	c.Must("POST", "/api-keys/"+k.ID+"/rotate", "", &next)
	for _, path := range []string{"/api-keys", "/api-keys/" + k.ID} {
		body := c.Call("GET", path, "").Body
		for _, secret := range []string{k.Key, next.Key, k.Key[3:], access.HashKey(k.Key).String(), access.HashKey(next.Key).String()} {
			if strings.Contains(body, secret) {
				t.Errorf("%s shows a secret or its hash", path)
			}
		}
	}
}

func TestKeyErrorsNameTheField(t *testing.T) {
	b := routetest.New(t, keys.Add, configs.Add)
	c := b.Root()
	k := mustMake(t, c, "workspace/service", `{"name":"ci","scopes":["models.list"]}`)
	before := b.Changes()
	for _, tt := range []struct{ fields, param string }{
		{`"name":""`, "name"},
		{`"name":"` + strings.Repeat("x", 256) + `"`, "name"},
		{`"name":"a\u0000b"`, "name"},
		{`"name":7`, "name"},
		{`"description":"` + strings.Repeat("x", 1025) + `"`, "description"},
		{`"scopes":[]`, "scopes"},
		{`"scopes":"models.list"`, "scopes"},
		{`"scopes":["nonsense.write"]`, "scopes[0]"},
		{`"scopes":["models.list","*"]`, "scopes[1]"},
		{`"scopes":["gateway.*"]`, "scopes[0]"},
		{`"scopes":["audit_logs.list"]`, "scopes[0]"},
		{`"rate_limits":[{"type":"requests","unit":"rpy","value":1}]`, "rate_limits[0].unit"},
		{`"rate_limits":[{"type":"requests","unit":"rpm","value":-1}]`, "rate_limits[0].value"},
		{`"rate_limits":[{"type":"requests","unit":"rpm","value":0}]`, "rate_limits[0].value"},
		{`"rate_limits":[{"type":"requests","unit":"rpm","value":1.5}]`, "rate_limits[0].value"},
		{`"rate_limits":[{"type":"requests","unit":"rpm","value":9007199254740993}]`, "rate_limits[0].value"},
		{`"rate_limits":[{"type":"requests","unit":"rpm"}]`, "rate_limits[0].value"},
		{`"rate_limits":[{"type":"requests","unit":"rpm","value":1},{"type":"requests","unit":"rpm","value":2}]`, "rate_limits[1]"},
		{`"usage_limits":{}`, "usage_limits"},
		{`"usage_limits":{"credit_limit":0.5}`, "usage_limits.credit_limit"},
		{`"usage_limits":{"credit_limit":99,"type":"tokens"}`, "usage_limits.credit_limit"},
		{`"usage_limits":{"credit_limit":9,"type":"euros"}`, "usage_limits.type"},
		{`"usage_limits":{"credit_limit":9,"alert_threshold":10}`, "usage_limits.alert_threshold"},
		{`"usage_limits":{"credit_limit":9,"periodic_reset_days":366}`, "usage_limits.periodic_reset_days"},
		{`"usage_limits":{"credit_limit":9,"periodic_reset_days":0}`, "usage_limits.periodic_reset_days"},
		{`"usage_limits":{"credit_limit":9,"periodic_reset":"daily"}`, "usage_limits.periodic_reset"},
		{`"usage_limits":{"credit_limit":9,"periodic_reset":"weekly","periodic_reset_days":3}`, "usage_limits.periodic_reset_days"},
		{`"usage_limits":{"credit_limit":9,"next_usage_reset_at":"2026-05-01"}`, "usage_limits.next_usage_reset_at"},
		{`"usage_limits":{"credit_limit":9,"more":1}`, "usage_limits.more"},
		{`"defaults":{"metadata":{"a":1}}`, "defaults.metadata.a"},
		{`"defaults":{"metadata":{"a":"` + strings.Repeat("x", 129) + `"}}`, "defaults.metadata"},
		{`"defaults":{"more":1}`, "defaults.more"},
		{`"alert_emails":["nobody"]`, "alert_emails[0]"},
		{`"expires_at":"tomorrow"`, "expires_at"},
		{`"expires_at":"2026-05-01T12:00:00Z"`, "expires_at"},
		{`"rotation_policy":{}`, "rotation_policy"},
		{`"rotation_policy":{"rotation_period":"weekly","rotation_period_days":3}`, "rotation_policy"},
		{`"rotation_policy":{"rotation_period_days":366}`, "rotation_policy.rotation_period_days"},
		{`"rotation_policy":{"next_rotation_at":"2026-01-01T00:00:00Z"}`, "rotation_policy.next_rotation_at"},
		{`"rotation_policy":{"rotation_period":"weekly","key_transition_period_ms":-1}`, "rotation_policy.key_transition_period_ms"},
		{`"more":1`, "more"},
	} {
		body := `{"name":"x",` + tt.fields + `}`
		if !strings.HasPrefix(tt.fields, `"scopes"`) {
			body = `{"name":"x","scopes":["models.list"],` + tt.fields + `}`
		}
		wantRefused(t, "POST "+tt.fields, c.Call("POST", "/api-keys/workspace/service", body), http.StatusBadRequest, "AB01", tt.param)
		wantRefused(t, "PUT "+tt.fields, c.Call("PUT", "/api-keys/"+k.ID, `{`+tt.fields+`}`), http.StatusBadRequest, "AB01", tt.param)
	}
	missing := `"defaults":{"config_id":"pc-none-000000"}`
	wantRefused(t, "POST a config", c.Call("POST", "/api-keys/workspace/service", `{"name":"x","scopes":["models.list"],`+missing+`}`), http.StatusNotFound, "AB02", "defaults.config_id")
	wantRefused(t, "PUT a config", c.Call("PUT", "/api-keys/"+k.ID, `{`+missing+`}`), http.StatusNotFound, "AB02", "defaults.config_id")
	for what, body := range map[string]string{"no name": `{"scopes":["models.list"]}`, "no scopes": `{"name":"x"}`, "null scopes": `{"name":"x","scopes":null}`, "no JSON": `{`} {
		wantRefused(t, what, c.Call("POST", "/api-keys/workspace/service", body), http.StatusBadRequest, "AB01", "")
	}
	for _, body := range []string{`{"name":null}`, `{"type":"workspace-user"}`, `{"user_id":"u"}`} {
		wantRefused(t, body, c.Call("PUT", "/api-keys/"+k.ID, body), http.StatusBadRequest, "AB01", "")
	}
	wantRefused(t, "organisation/user", c.Call("POST", "/api-keys/organisation/user", `{"name":"x","scopes":["logs.view"]}`), http.StatusBadRequest, "AB01", "type")
	wantRefused(t, "a user of a service key", c.Call("POST", "/api-keys/workspace/service", `{"name":"x","scopes":["logs.view"],"user_id":"u"}`), http.StatusBadRequest, "AB01", "user_id")
	wantRefused(t, "a user key without a user", c.Call("POST", "/api-keys/workspace/user", `{"name":"x","scopes":["logs.view"]}`), http.StatusBadRequest, "AB01", "user_id")
	wantRefused(t, "another organisation", c.Call("POST", "/api-keys/workspace/service", `{"name":"x","scopes":["logs.view"],"organisation_id":"other"}`), http.StatusNotFound, "AB02", "organisation_id")
	wantRefused(t, "a config of an organisation's key", c.Call("POST", "/api-keys/organisation/service", `{"name":"x","scopes":["audit_logs.list"],"defaults":{"config_id":"a"}}`), http.StatusBadRequest, "AB01", "defaults.config_id")
	if got := b.Changes(); got != before {
		t.Errorf("%d changes were kept", got-before)
	}
	if got := mustGet(c, k.ID); got.Name != "ci" || len(got.Scopes) != 1 {
		t.Errorf("the key is now %+v", got)
	}
}

func TestAnUpdateChangesOnlyItsFields(t *testing.T) {
	b := routetest.New(t, keys.Add)
	c := b.Root()
	k := mustMake(t, c, "workspace/service", `{"name":"ci","description":"d","scopes":["models.list"],"usage_limits":{"credit_limit":10},
		"defaults":{"metadata":{"a":"b"}},"alert_emails":["a@example.com"],"allowed_addresses":[],"tools":null,"expires_at":"2026-06-01T00:00:00Z",
		"rotation_policy":{"rotation_period_days":3}}`)
	before := c.Call("GET", "/api-keys/"+k.ID, "").Body
	b.Clock = b.Clock.Add(time.Minute)
	c.Must("PUT", "/api-keys/"+k.ID, `{"name":"cd"}`, nil)
	want := strings.NewReplacer(`"name":"ci"`, `"name":"cd"`, `"last_updated_at":"2026-05-01T12:00`, `"last_updated_at":"2026-05-01T12:01`).Replace(before)
	if diff := cmp.Diff(want, c.Call("GET", "/api-keys/"+k.ID, "").Body); diff != "" {
		t.Errorf("after another name (-want +got):\n%s", diff)
	}
	if a := c.Call("PUT", "/api-keys/"+k.ID, `{"description":null,"scopes":["completions:write"],"usage_limits":null,"rate_limits":null,"defaults":null,
		"alert_emails":null,"expires_at":null,"rotation_policy":null,"workspace_id":"default"}`); a.Status != http.StatusOK || !strings.Contains(a.Body, `"object":"api-key"`) || !strings.Contains(a.Body, `"usage_limits":null`) {
		t.Errorf("clearing: %d %s", a.Status, a.Body)
	}
	got := c.Call("GET", "/api-keys/"+k.ID, "").Body
	for _, want := range []string{`"description":""`, `"scopes":["completions.write"]`, `"usage_limits":null`, `"rate_limits":[]`, `"metadata":{}`, `"alert_emails":[]`, `"expires_at":null`, `"rotation_policy":null`} {
		if !strings.Contains(got, want) {
			t.Errorf("after clearing there is no %s in %s", want, got)
		}
	}
}

func TestAKeyThatWasReadBeforeItChangedIsNotOverwritten(t *testing.T) {
	b := routetest.New(t, keys.Add)
	c := b.Root()
	k := mustMake(t, c, "workspace/service", `{"name":"ci","scopes":["models.list"]}`)
	read := mustGet(c, k.ID).UpdatedAt
	b.Clock = b.Clock.Add(time.Millisecond)
	put := func(tag, name string) routetest.Response {
		return c.CallWith("PUT", "/api-keys/"+k.ID, `{"name":"`+name+`"}`, http.Header{"If-Match": {tag}})
	}
	if a := put(`"`+read+`"`, "first"); a.Status != http.StatusOK {
		t.Errorf("as it was read: %d %s", a.Status, a.Body)
	}
	wantRefused(t, "as it was", put(read, "second"), http.StatusPreconditionFailed, "AB07", "")
	if a := put("*", "third"); a.Status != http.StatusOK {
		t.Errorf("as it is: %d %s", a.Status, a.Body)
	}
	if got := mustGet(c, k.ID).Name; got != "third" {
		t.Errorf("the name is %q", got)
	}
}

func TestADeletedKeyIsGone(t *testing.T) {
	b := routetest.New(t, keys.Add)
	c := b.Root()
	k := mustMake(t, c, "workspace/service", `{"name":"ci","scopes":["models.list"]}`)
	c.Must("DELETE", "/api-keys/"+k.ID, "", nil)
	for _, call := range [][3]string{{"GET", "", ""}, {"PUT", "", `{"name":"x"}`}, {"DELETE", "", ""}, {"POST", "/rotate", ""}} {
		wantRefused(t, call[0]+call[1], c.Call(call[0], "/api-keys/"+k.ID+call[1], call[2]), http.StatusNotFound, "AB08", "id")
	}
	var list struct{ Total int }
	if c.Must("GET", "/api-keys", "", &list); list.Total != 0 {
		t.Errorf("%d keys are listed", list.Total)
	}
	if row, err := b.DB.Key(t.Context(), store.DefaultOrganisation, k.ID); err != nil || row.Status != store.KeyRevoked {
		t.Errorf("the row is %+v, %v", row, err)
	}
}

func TestARotatedKeyHasTwoSecretsForAWhile(t *testing.T) {
	b := routetest.New(t, keys.Add)
	c := b.Root()
	k := mustMake(t, c, "workspace/service", `{"name":"ci","scopes":["models.list"],"rotation_policy":{"rotation_period_days":3,"key_transition_period_ms":3600000}}`)
	type rotation struct {
		created
		EndsAt string `json:"key_transition_expires_at"`
	}
	var first rotation
	c.Must("POST", "/api-keys/"+k.ID+"/rotate", "", &first)
	if first.ID != k.ID || first.Key == k.Key || first.EndsAt != "2026-05-01T13:00:00.000Z" {
		t.Errorf("rotated %+v", first)
	}
	row, err := b.DB.Key(t.Context(), store.DefaultOrganisation, k.ID)
	if ids := row.Identities(); err != nil || len(ids) != 2 || ids[0].Hash != access.HashKey(first.Key) || ids[1].Hash != access.HashKey(k.Key) || !ids[1].ExpiresAt.Equal(b.Clock.Add(time.Hour)) {
		t.Errorf("identities %+v, %v", row.Identities(), err)
	}
	if got := mustGet(c, k.ID).Key; got != "mg***"+first.Key[len(first.Key)-2:] {
		t.Errorf("mask %q", got)
	}
	b.Clock = b.Clock.Add(time.Hour - 1)
	if got := c.Call("GET", "/api-keys/"+k.ID, "").Body; !strings.Contains(got, `"key_transition_expires_at":"2026-05-01T13:00:00.000Z"`) {
		t.Errorf("the transition is not told: %s", got)
	}
	var second rotation
	c.Must("POST", "/api-keys/"+k.ID+"/rotate", `{"key_transition_period_ms":1800000}`, &second)
	if second.EndsAt != "2026-05-01T13:29:59.999Z" {
		t.Errorf("rotated again %+v", second)
	}
	row, err = b.DB.Key(t.Context(), store.DefaultOrganisation, k.ID)
	if ids := row.Identities(); err != nil || len(ids) != 2 || ids[0].Hash != access.HashKey(second.Key) || ids[1].Hash != access.HashKey(first.Key) {
		t.Errorf("after a second rotation in the transition: %+v, %v", ids, err)
	}
	var third struct {
		created
		EndsAt *string `json:"key_transition_expires_at"`
	}
	c.Must("POST", "/api-keys/"+k.ID+"/rotate", `{"key_transition_period_ms":0}`, &third)
	row, err = b.DB.Key(t.Context(), store.DefaultOrganisation, k.ID)
	if ids := row.Identities(); err != nil || third.EndsAt != nil || len(ids) != 1 || ids[0].Hash != access.HashKey(third.Key) {
		t.Errorf("after a rotation with a transition of zero: %+v, %v, ends %v", ids, err, third.EndsAt)
	}
	b.Clock = b.Clock.Add(24 * time.Hour)
	c.Must("POST", "/api-keys/"+k.ID+"/rotate", `{}`, nil)
	if got := c.Call("GET", "/api-keys/"+k.ID, "").Body; !strings.Contains(got, `"next_rotation_at":"2026-05-05T00:00:00.000Z"`) {
		t.Errorf("the next rotation counts from this one: %s", got)
	}
	for _, body := range []string{`{"key_transition_period_ms":-1}`, `{"key_transition_period_ms":7776000001}`, `{"more":1}`} {
		wantRefused(t, body, c.Call("POST", "/api-keys/"+k.ID+"/rotate", body), http.StatusBadRequest, "AB01", "")
	}
}

func TestKeysWhoseRotationIsDueAreFound(t *testing.T) {
	b := routetest.New(t, keys.Add)
	c := b.Root()
	mustMake(t, c, "workspace/service", `{"name":"never","scopes":["models.list"]}`)
	mustMake(t, c, "workspace/service", `{"name":"later","scopes":["models.list"],"rotation_policy":{"rotation_period_days":30}}`)
	k := mustMake(t, c, "workspace/service", `{"name":"weekly","scopes":["models.list"],"rotation_policy":{"rotation_period":"weekly"}}`)
	due := func() string {
		t.Helper()
		var list struct {
			Data []struct {
				Name     string
				Rotation struct {
					Due bool `json:"is_due"`
				} `json:"rotation_policy"`
			}
		}
		c.Must("GET", "/api-keys?rotation_due=true", "", &list)
		var names []string
		for _, k := range list.Data {
			if !k.Rotation.Due {
				t.Errorf("%s is listed and not due", k.Name)
			}
			names = append(names, k.Name)
		}
		return strings.Join(names, " ")
	}
	if got := due(); got != "" {
		t.Errorf("before its time %q", got)
	}
	b.Clock = time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC)
	if got := due(); got != "weekly" {
		t.Errorf("at its time %q", got)
	}
	c.Must("POST", "/api-keys/"+k.ID+"/rotate", "", nil)
	if got := due(); got != "" {
		t.Errorf("after it was rotated %q", got)
	}
	b.Clock = b.Clock.AddDate(0, 0, 7)
	c.Must("PUT", "/api-keys/"+k.ID, `{"rotation_policy":null}`, nil)
	if got := due(); got != "" {
		t.Errorf("without a policy %q", got)
	}
}

func TestAKeyExpiresByTheClockAndCanBeGivenMoreTime(t *testing.T) {
	b := routetest.New(t, keys.Add)
	c := b.Root()
	k := mustMake(t, c, "workspace/service", `{"name":"ci","scopes":["models.list"],"expires_at":"2026-05-01T13:00:00Z"}`)
	b.Clock = b.Clock.Add(time.Hour)
	if got := mustGet(c, k.ID).Status; got != "expired" {
		t.Errorf("before it is marked it is %s", got)
	}
	if n, err := b.DB.MarkExpired(t.Context(), b.Clock, func(k store.Key) *store.Audit { return &store.Audit{ID: "a", Organisation: k.Organisation} }); n != 1 || err != nil {
		t.Errorf("MarkExpired() = %d, %v", n, err)
	}
	if got := mustGet(c, k.ID).Status; got != "expired" {
		t.Errorf("after it is marked it is %s", got)
	}
	wantRefused(t, "rotating", c.Call("POST", "/api-keys/"+k.ID+"/rotate", ""), http.StatusConflict, "AB07", "")
	c.Must("PUT", "/api-keys/"+k.ID, `{"name":"still expired"}`, nil)
	if got := mustGet(c, k.ID).Status; got != "expired" {
		t.Errorf("after another name it is %s", got)
	}
	c.Must("PUT", "/api-keys/"+k.ID, `{"expires_at":"2026-05-02T00:00:00Z"}`, nil)
	if got := mustGet(c, k.ID).Status; got != "active" {
		t.Errorf("with more time it is %s", got)
	}
}

func TestAnExhaustedKeyIsFreedByAHigherBudgetOrAReset(t *testing.T) {
	for _, tt := range []struct {
		body, want string
		reset      bool
	}{
		{`{"name":"x"}`, "exhausted", false},
		{`{"usage_limits":{"credit_limit":10}}`, "exhausted", false},
		{`{"usage_limits":{"credit_limit":5}}`, "exhausted", false},
		{`{"usage_limits":{"credit_limit":11}}`, "active", false},
		{`{"usage_limits":{"alert_threshold":5}}`, "active", false},
		{`{"usage_limits":null}`, "active", false},
		{`{"reset_usage":false}`, "exhausted", false},
		{`{"reset_usage":true}`, "active", true},
	} {
		t.Run(tt.body, func(t *testing.T) {
			b := routetest.New(t, keys.Add)
			c := b.Root()
			k := mustMake(t, c, "workspace/service", `{"name":"ci","scopes":["models.list"],"usage_limits":{"credit_limit":10}}`)
			b.Exec(`UPDATE gateway_keys SET status = 'exhausted' WHERE id = $1`, k.ID)
			b.Exec(`INSERT INTO spending (kind, id, attempts, cost, tokens, unknown, unpriced) VALUES ('key', $1, 1, 10000000000, 0, 0, 0)`, k.ID)
			c.Must("PUT", "/api-keys/"+k.ID, tt.body, nil)
			got := mustGet(c, k.ID)
			if got.Status != tt.want || got.UsageLimits != nil && got.UsageLimits.Status != tt.want || tt.reset != (got.UsageLimits != nil && got.UsageLimits.LastReset != nil) {
				t.Errorf("the key is %s, its budget %+v", got.Status, got.UsageLimits)
			}
		})
	}
}

func TestAnAuditRowNamesTheKeyAndHoldsNoSecret(t *testing.T) {
	b := routetest.New(t, keys.Add)
	c := b.Root()
	k := mustMake(t, c, "workspace/service", `{"name":"ci","scopes":["models.list"]}`)
	var next created
	c.Must("POST", "/api-keys/"+k.ID+"/rotate", "", &next)
	rows := b.Query(`SELECT resource_type || ' ' || action || ' ' || resource_id || ' ' || workspace_id || ' ' || response_status_code || request_body || request_headers FROM audit_logs ORDER BY id`)
	if len(rows) != 2 {
		t.Fatalf("audit rows %q", rows)
	}
	slices.Sort(rows) // ids of one millisecond come in any order
	for i, row := range rows {
		if !strings.HasPrefix(row, "api_key "+[]string{"create", "rotate"}[i]+" "+k.ID+" "+store.DefaultWorkspace+" 200") || strings.Contains(row, k.Key) || strings.Contains(row, next.Key) {
			t.Errorf("audit row %s", row)
		}
	}
}

func TestUpdatesAtTheSameTimeLoseNothingOfEachOther(t *testing.T) {
	c := routetest.New(t, keys.Add).Root()
	k := mustMake(t, c, "workspace/service", `{"name":"ci","scopes":["models.list"]}`)
	bodies := []string{
		`{"name":"new"}`, `{"description":"new"}`, `{"scopes":["logs.view"]}`, `{"usage_limits":{"credit_limit":7}}`,
		`{"alert_emails":["a@example.com"]}`, `{"expires_at":"2027-01-01T00:00:00Z"}`, `{"defaults":{"metadata":{"new":"new"}}}`, `{"rotation_policy":{"rotation_period_days":9}}`,
	}
	var g sync.WaitGroup
	for _, body := range bodies {
		g.Go(func() {
			if a := c.Call("PUT", "/api-keys/"+k.ID, body); a.Status != http.StatusOK {
				t.Errorf("%s: %d %s", body, a.Status, a.Body)
			}
		})
	}
	g.Wait()
	got := c.Call("GET", "/api-keys/"+k.ID, "").Body
	for _, want := range []string{`"name":"new"`, `"description":"new"`, `["logs.view"]`, `"credit_limit":7`, `a@example.com`, `"2027-01-01`, `"new":"new"`, `"rotation_period_days":9`} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %s in %s", want, got)
		}
	}
}

func TestAKeyIsDisabledAndEnabledAgain(t *testing.T) {
	b := routetest.New(t, keys.Add)
	c := b.Root()
	k := mustMake(t, c, "workspace/service", `{"name":"ci","scopes":["models.list"]}`)
	wantRefused(t, "another state", c.Call("PUT", "/api-keys/"+k.ID, `{"status":"revoked"}`), http.StatusBadRequest, "AB01", "status")
	for _, want := range []string{"disabled", "active"} {
		c.Must("PUT", "/api-keys/"+k.ID, `{"status":"`+want+`"}`, nil)
		c.Must("PUT", "/api-keys/"+k.ID, `{"name":"another name"}`, nil) // keeps the state
		if got := mustGet(c, k.ID).Status; got != want {
			t.Errorf("the key is %s, want %s", got, want)
		}
	}
}
