package config_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"modelgate/config"
)

// One config with every part, field by field.
func TestParseFillsTheFields(t *testing.T) {
	got := mustParse(t, `{
		"overrideParams": {"model":"m","max_tokens":5},
		"request_timeout": 1500,
		"cache": {"mode":"semantic","maxAge":60},
		"retry": {"attempts":2,"use_retry_after_header":true,"on_status_codes":[500,429]},
		"cbConfig": {"failure_threshold":3,"failure_threshold_percentage":12.5,"minimum_requests":9,"cooldown_interval":30000.5},
		"hedge": {"delayMs":50,"max":2},
		"strategy": {"mode":"loadbalance","sticky":{"enabled":true,"hash_fields":["headers.X-User","metadata.User"],"ttl":60}},
		"targets": [{
			"name":"a","provider":"azure-openai","api_key":"k","weight":0.25,"strictVendoraCompliance":false,
			"resource_name":"r","deployments":[{"deployment_id":"d","alias":"m","api_version":"v","is_default":true}],
			"vendora_project":"p","cloud_b_service_account_json":{"a": 1},
			"beforeRequestHooks":[{"id":"h","onFail":{"deny":true,"feedback":{"value":-5}},"checks":[{"id":"c","parameters":{"x":1},"is_enabled":false}]}],
			"output_guardrails":["saved",{"id":"g","deny":true,"default.contains":{"words":["x"]}}]
		}]}`)
	want := &config.Config{
		Path:           "config",
		OverrideParams: config.Object{{Name: "model", Value: json.RawMessage(`"m"`)}, {Name: "max_tokens", Value: json.RawMessage(`5`)}},
		RequestTimeout: 1500 * time.Millisecond,
		Cache:          &config.Cache{Mode: config.CacheSemantic, MaxAge: time.Minute},
		Retry:          &config.Retry{Attempts: 2, UseRetryAfter: true, OnStatusCodes: []int{500, 429}},
		Breaker:        &config.Breaker{FailureThreshold: 3, FailurePercentage: 12.5, MinimumRequests: 9, Cooldown: 30*time.Second + 500*time.Microsecond},
		Hedge:          &config.Hedge{Delay: 50 * time.Millisecond, Max: 2},
		Strategy: &config.Strategy{Mode: config.Loadbalance, Sticky: &config.Sticky{
			Enabled: true, HashFields: []string{"headers.x-user", "metadata.User"}, TTL: time.Minute,
		}},
		Targets: []*config.Config{{
			Path: "config.targets[0]", Name: "a", Provider: "azure-openai", APIKey: config.NewSecret("k"),
			Weight: new(0.25), Strict: new(false), ResourceName: "r",
			Deployments:    []config.Deployment{{DeploymentID: "d", Alias: "m", APIVersion: "v", Default: true}},
			Options:        config.Options{"vendora_project": "p"},
			ServiceAccount: config.NewSecret(`{"a": 1}`),
			BeforeHooks: []config.Hook{{
				ID:     "h",
				OnFail: &config.HookActions{Deny: true, Feedback: &config.Feedback{Value: new(-5.0)}},
				Checks: []config.Check{{ID: "c", Parameters: config.Object{{Name: "x", Value: json.RawMessage(`1`)}}, Disabled: true}},
			}},
			OutputGuardrails: []config.Guardrail{{Saved: "saved"}, {
				ID: "g", Deny: true,
				Checks: []config.Check{{ID: "default.contains", Parameters: config.Object{{Name: "words", Value: json.RawMessage(`["x"]`)}}}},
			}},
		}},
	}
	if diff := cmp.Diff(want, got, sizeless); diff != "" {
		t.Errorf("Parse (-want +got):\n%s", diff)
	}
}

// AMB-16: a response is kept for seven days when max_age is not given.
func TestResponsesAreCachedForSevenDaysByDefault(t *testing.T) {
	if want := 604800 * time.Second; config.DefaultMaxAge != want {
		t.Errorf("DefaultMaxAge = %v, want %v", config.DefaultMaxAge, want)
	}
}

func TestOptionsHaveFurtherSpellings(t *testing.T) {
	for spelling, name := range map[string]string{
		"cloud_c_extra_params": "cloud_c_extra_parameters", "cloudCExtraParams": "cloud_c_extra_parameters",
		"stability_user_id": "stability_client_user_id", "stabilityVersion": "stability_client_version", "vendoraProject": "vendora_project",
	} {
		if got := mustParse(t, leaf(`"`+spelling+`":"x"`)).Options; len(got) != 1 || got[name] != "x" {
			t.Errorf("%s is read as %v, want %s", spelling, got, name)
		}
	}
}

func TestDenyCountsInBothItsPlaces(t *testing.T) {
	deny := &config.HookActions{Deny: true}
	for _, tt := range []struct {
		name string
		got  bool
		want bool
	}{
		{"hook without", config.Hook{OnSuccess: deny, OnFail: &config.HookActions{}}.Denies(), false},
		{"hook", config.Hook{Deny: true}.Denies(), true},
		{"hook on failure", config.Hook{OnFail: deny}.Denies(), true},
		{"guardrail without", config.Guardrail{}.Denies(), false},
		{"guardrail", config.Guardrail{Deny: true}.Denies(), true},
		{"guardrail on failure", config.Guardrail{OnFail: deny}.Denies(), true},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: Denies() = %t, want %t", tt.name, tt.got, tt.want)
		}
	}
}

func TestAttemptsAreLimited(t *testing.T) {
	for _, tt := range []struct {
		retry   *config.Retry
		want    int
		clamped bool
	}{
		{nil, 0, false},
		{&config.Retry{Attempts: 5}, 5, false},
		{&config.Retry{Attempts: 6}, 5, true},
	} {
		if got, clamped := tt.retry.EffectiveAttempts(); got != tt.want || clamped != tt.clamped {
			t.Errorf("%+v.Limited() = %d, %t, want %d, %t", tt.retry, got, clamped, tt.want, tt.clamped)
		}
	}
}

func TestMergeReplacesMembersWhole(t *testing.T) {
	object := func(text string) config.Object {
		return mustParse(t, `{"virtual_key":"v","override_params":`+text+`}`).OverrideParams
	}
	merged, err := json.Marshal(object(`{"a":{"x":1},"b":2}`).Merge(object(`{"c":3,"a":{"y":1}}`)))
	if err != nil || string(merged) != `{"b":2,"c":3,"a":{"y":1}}` {
		t.Errorf("Merge = %s, %v", merged, err)
	}
	if got := config.Object(nil).Merge(nil); got != nil {
		t.Errorf("Merge of nothing = %v, want nil", got)
	}
	if model, ok := object(`{"model":"\u0040x"}`).Text("model"); !ok || model != "@x" {
		t.Errorf("Text = %q, %t", model, ok)
	}
}
