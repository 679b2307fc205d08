package config_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"modelgate/config"
)

const parentSettings = `"override_params":{"temperature":0,"max_tokens":5},"default_params":{"a":1,"b":1},"drop_params":["x"],
	"retry":{"attempts":3,"on_status_codes":[500]},"cache":{"mode":"simple","max_age":60},"request_timeout":100,
	"custom_host":"https://p.example.com","forward_headers":["X-P"],"strict_vendora_compliance":false,
	"cb_config":{"failure_threshold":3,"cooldown_interval":30000},
	"before_request_hooks":[{"id":"p"}],"after_request_hooks":[{"id":"p"}],"input_guardrails":["p"],"output_guardrails":["p"],
	"hedge":{"delay_ms":50},"stream_continuation":true,"prompt_cache":true,"on_unsupported":"refuse","response_model":"served"`

// inherit returns the effective first target of a root with parent's members.
func inherit(t *testing.T, parent, child string) *config.Config {
	t.Helper()
	root := mustParse(t, `{`+parent+`,"strategy":{"mode":"fallback"},"targets":[{"provider":"openai","api_key":"k"`+child+`}]}`)
	return config.Inherit(config.Inherit(nil, root), root.Targets[0])
}

// canonical returns one member of the canonical form.
func canonical(t *testing.T, c *config.Config, name string) string {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal(c.Canonical(), &members); err != nil {
		t.Fatal(err)
	}
	return string(members[name])
}

func TestTargetsTakeOverWhatTheyDoNotSay(t *testing.T) {
	for _, tt := range []struct{ property, child, want string }{
		{"override_params", ``, `{"max_tokens":5,"temperature":0}`},
		{"override_params", `,"override_params":{"max_tokens":9}`, `{"max_tokens":9,"temperature":0}`},
		{"default_params", `,"default_params":{"b":2}`, `{"a":1,"b":2}`},
		{"drop_params", ``, `["x"]`},
		{"drop_params", `,"drop_params":["y"]`, `["y"]`},
		{"retry", ``, `{"attempts":3,"on_status_codes":[500]}`},
		{"retry", `,"retry":{"attempts":1}`, `{"attempts":1}`},
		{"cache", ``, `{"max_age":60,"mode":"simple"}`},
		{"cache", `,"cache":{"mode":"semantic"}`, `{"mode":"semantic"}`},
		{"request_timeout", ``, `100`},
		{"request_timeout", `,"request_timeout":300`, `300`},
		{"request_timeout", `,"request_timeout":0`, `100`},
		{"custom_host", ``, `"https://p.example.com"`},
		{"custom_host", `,"custom_host":"https://c.example.com"`, `"https://c.example.com"`},
		{"forward_headers", ``, `["X-P"]`},
		{"forward_headers", `,"forward_headers":[]`, `[]`},
		{"strict_vendora_compliance", ``, `false`},
		{"strict_vendora_compliance", `,"strict_vendora_compliance":true`, `true`},
		{"cb_config", ``, `{"cooldown_interval":30000,"failure_threshold":3}`},
		{"cb_config", `,"cb_config":{"failure_threshold":1,"cooldown_interval":40000}`, `{"cooldown_interval":40000,"failure_threshold":1}`},
		{"before_request_hooks", ``, `[{"id":"p"}]`},
		{"before_request_hooks", `,"before_request_hooks":[]`, `[]`},
		{"before_request_hooks", `,"input_guardrails":["c"]`, `[{"id":"p"}]`},
		{"after_request_hooks", `,"after_request_hooks":[{"id":"c"}]`, `[{"id":"c"}]`},
		{"input_guardrails", ``, `["p"]`},
		{"input_guardrails", `,"input_guardrails":["c"]`, `["c"]`},
		{"output_guardrails", `,"output_guardrails":["c"]`, `["c"]`},
		{"hedge", ``, `{"delay_ms":50}`},
		{"prompt_cache", `,"prompt_cache":false`, `false`},
		{"stream_continuation", `,"stream_continuation":false`, `false`},
		{"on_unsupported", ``, `"refuse"`},
		{"response_model", ``, `"served"`},
		{"response_model", `,"response_model":"requested"`, `"requested"`},
	} {
		t.Run(tt.property+tt.child, func(t *testing.T) {
			if got := canonical(t, inherit(t, parentSettings, tt.child), tt.property); got != tt.want {
				t.Errorf("%s = %s, want %s", tt.property, got, tt.want)
			}
		})
	}
}

func TestTargetsNeverTakeOverWhoTheParentIs(t *testing.T) {
	own := `"name":"root","provider":"anthropic","api_key":"root","virtual_key":"v","prompt_id":"p","weight":3,"on_status_codes":[429],
		"cloud_a_region":"r","cloud_b_service_account_json":{"a":"b"},"resource_name":"r","deployment_id":"d","api_version":"v",
		"deployments":[{"deployment_id":"d","alias":"a","api_version":"v"}],"passthrough":true`
	got := inherit(t, own, ``)
	want := &config.Config{Path: "config.targets[0]", Provider: "openai", APIKey: config.NewSecret("k")}
	if diff := cmp.Diff(want, got, sizeless); diff != "" {
		t.Errorf("the target took over (-want +got):\n%s", diff)
	}
}

func TestSettingsReachTheLeavesThroughAllLevels(t *testing.T) {
	root := mustParse(t, `{"override_params":{"a":1,"b":1,"c":1},"request_timeout":100,"strategy":{"mode":"fallback","cb_config":{"failure_threshold":3,"cooldown_interval":30000}},
		"targets":[{"override_params":{"b":2,"c":2},"strategy":{"mode":"single"},"targets":[{"provider":"@x","override_params":{"c":3}}]}]}`)
	middle := config.Inherit(config.Inherit(nil, root), root.Targets[0])
	got := config.Inherit(middle, middle.Targets[0])
	if got.RequestTimeout != 100*time.Millisecond || got.Breaker == nil || got.Breaker.FailureThreshold != 3 {
		t.Errorf("timeout %v, breaker %v, want those of the root", got.RequestTimeout, got.Breaker)
	}
	if params := canonical(t, got, "override_params"); params != `{"a":1,"b":2,"c":3}` {
		t.Errorf("override_params = %s", params)
	}
	if got.Path != "config.targets[0].targets[0]" {
		t.Errorf("Path = %s", got.Path)
	}
}

func TestTheNearestBreakerCounts(t *testing.T) {
	const breaker = `{"failure_threshold":%d,"cooldown_interval":30000}`
	root := mustParse(t, fmt.Sprintf(`{"cb_config":`+breaker+`,"strategy":{"mode":"fallback"},"targets":[
		{"strategy":{"mode":"single","cb_config":`+breaker+`},"targets":[{"provider":"@x"},{"provider":"@x","cb_config":`+breaker+`}]},{"provider":"@x"}]}`, 1, 2, 3))
	top := config.Inherit(nil, root)
	middle := config.Inherit(top, root.Targets[0])
	for i, leaf := range []*config.Config{config.Inherit(top, root.Targets[1]), config.Inherit(middle, middle.Targets[0]), config.Inherit(middle, middle.Targets[1])} {
		if got, want := leaf.Breaker.FailureThreshold, float64(i+1); got != want {
			t.Errorf("%s: threshold %v, want %v", leaf.Path, got, want)
		}
	}
}

func TestInheritChangesNeitherSide(t *testing.T) {
	root := mustParse(t, `{`+parentSettings+`,"strategy":{"mode":"fallback"},"targets":[{"provider":"@x","override_params":{"max_tokens":9}}]}`)
	before := string(root.Reveal())
	config.Inherit(root, root.Targets[0])
	if after := string(root.Reveal()); after != before {
		t.Errorf("after Inherit: %s, want %s", after, before)
	}
}
