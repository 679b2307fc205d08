package config_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"modelgate/config"
)

// leaf returns a valid config with further properties.
func leaf(more string) string {
	return `{"provider":"openai","api_key":"k",` + more + `}`
}

// tree returns a config whose root holds strategy and targets.
func tree(strategy, targets string) string {
	return `{"strategy":` + strategy + `,"targets":[` + targets + `]}`
}

const (
	named = `{"name":"a","provider":"openai","api_key":"k"}`
	other = `{"name":"b","provider":"openai","api_key":"k"}`
)

func mustParse(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Parse([]byte(text))
	if err != nil {
		t.Fatalf("Parse(%s) = %v, want a config", text, err)
	}
	return c
}

// faultsOf returns the faults of a text that must be refused.
func faultsOf(t *testing.T, text string) []config.FieldError {
	t.Helper()
	c, err := config.Parse([]byte(text))
	faults, ok := errors.AsType[*config.Errors](err)
	if !ok || c != nil {
		t.Fatalf("Parse(%s) = %v, %v, want *config.Errors", text, c, err)
	}
	if !strings.HasPrefix(err.Error(), "AB01: ") {
		t.Errorf("Parse(%s) says %q, want the prefix AB01", text, err)
	}
	return faults.Faults
}

// A row names the statement it stands for.
func TestParseAcceptsWhatTheSpecificationAllows(t *testing.T) {
	for _, tt := range []struct{ name, text string }{
		{"S-045 text of a config", leaf(`"name":"x"`)},
		{"S-048 fallback of loadbalance of single", tree(`{"mode":"fallback"}`, tree(`{"mode":"loadbalance"}`, tree(`{"mode":"single"}`, named)))},
		{"S-052 provider and api_key", `{"provider":"openai","api_key":"k"}`},
		{"S-053 provider that takes no credential", `{"provider":"ollama"}`},
		{"S-054 provider and custom_host", `{"provider":"openai","custom_host":"https://models.example.com/v1"}`},
		{"S-055 virtual_key", `{"virtual_key":"v"}`},
		{"S-056 strategy and targets", tree(`{"mode":"single"}`, named)},
		{"S-058 cache", `{"cache":{"mode":"simple"}}`},
		{"S-059 retry", `{"retry":{"attempts":0}}`},
		{"S-060 prompt_id", `{"prompt_id":"p"}`},
		{"S-061 forward_headers", `{"forward_headers":["X-A"]}`},
		{"S-062 request_timeout", `{"request_timeout":100}`},
		{"S-063 keys of cloud a", `{"provider":"bedrock","cloud_a_access_key_id":"i","cloud_a_secret_access_key":"s"}`},
		{"S-064 service account of cloud b", `{"provider":"vertex-ai","cloud_b_region":"r","cloud_b_service_account_json":{"type":"service_account"}}`},
		{"S-065 project of cloud b", `{"provider":"vertex-ai","cloud_b_region":"r","cloud_b_project_id":"p"}`},
		{"S-066 deployment of cloud c", `{"provider":"azure-ai","cloud_c_deployment_name":"d","cloud_c_deployment_type":"serverless","cloud_c_region":"r","cloud_c_api_version":"v"}`},
		{"S-067 endpoint of cloud c", `{"provider":"azure-ai","cloud_c_endpoint_name":"e","cloud_c_deployment_type":"managed"}`},
		{"S-068 after_request_hooks", `{"after_request_hooks":[{"id":"h"}]}`},
		{"S-068 before_request_hooks", `{"before_request_hooks":[{"id":"h"}]}`},
		{"S-068 input_guardrails", `{"input_guardrails":["g"]}`},
		{"S-068 output_guardrails", `{"output_guardrails":["g"]}`},
		{"S-070 latency mode", tree(`{"mode":"latency"}`, named)},
		{"S-070 cost mode", tree(`{"mode":"cost"}`, named)},
		{"S-073 codes of a strategy", tree(`{"mode":"fallback","on_status_codes":[429,446,246]}`, named)},
		{"S-074 codes outside fallback", tree(`{"mode":"loadbalance","on_status_codes":[429]}`, named)},
		{"S-076 then and default by name", tree(`{"mode":"conditional","conditions":[{"query":{"metadata.plan":"paid"},"then":"a"}],"default":"b"}`, named+","+other)},
		{"S-081 managed provider", `{"provider":"@team-openai"}`},
		{"S-086 host with credential", leaf(`"custom_host":"http://localhost:8080"`)},
		{"S-088 override_params", leaf(`"override_params":{"model":"m","anything":{"goes":[1,null]}}`)},
		{"S-090 weights", tree(`{"mode":"loadbalance"}`, `{"provider":"openai","api_key":"k","weight":0},{"provider":"openai","api_key":"k","weight":0.7}`)},
		{"S-090 weight ignored in fallback", tree(`{"mode":"fallback"}`, `{"provider":"openai","api_key":"k","weight":0}`)},
		{"S-091 codes of a target", tree(`{"mode":"fallback"}`, `{"provider":"openai","api_key":"k","on_status_codes":[]}`)},
		{"S-096 semantic cache", `{"cache":{"mode":"semantic"}}`},
		{"S-097 max_age", `{"cache":{"mode":"simple","max_age":30}}`},
		{"S-100 retry codes", `{"retry":{"attempts":3,"on_status_codes":[418]}}`},
		{"S-101 attempts above the limit", `{"retry":{"attempts":9}}`},
		{"S-102 threshold of one", leaf(`"cb_config":{"failure_threshold":1,"cooldown_interval":30000}`)},
		{"S-104 failure codes", leaf(`"cb_config":{"failure_threshold":2.5,"cooldown_interval":30000.5,"failure_status_codes":[429]}`)},
		{"S-105 compliance", leaf(`"strict_vendora_compliance":false`)},
		{"S-106 cloud resource", leaf(`"resource_name":"r","deployment_id":"d","api_version":"v"`)},
		{"S-107 deployments", leaf(`"deployments":[{"deployment_id":"d","alias":"a","api_version":"v","is_default":true}]`)},
		{"S-108 to S-115 provider options", leaf(`"vendora_organization":"o","vendora_project":"p","vendorb_beta":"b","cloud_a_region":"r","cloud_a_session_token":"t","cloud_c_entra_scope":"s"`)},
		{"S-116 to S-119 before hook", leaf(`"before_request_hooks":[{"id":"h","type":"guardrail","on_fail":{"feedback":{"value":-5,"weight":1,"metadata":{"a":1}},"deny":true},"on_success":{"feedback":{"value":5},"deny":false},"checks":[{"id":"default.contains","parameters":{"words":["x"]}}]}]`)},
		{"S-123 after hook", leaf(`"after_request_hooks":[{"id":"h","async":true,"on_fail":{"feedback":{"value":-5}}}]`)},
		{"S-125 to S-127 input guardrails", leaf(`"input_guardrails":["saved",{"id":"g","deny":true,"async":false,"on_fail":{"feedback":{"value":1}},"default.contains":{"words":["x"]}}]`)},
		{"S-129 output guardrails", leaf(`"output_guardrails":[{"on_fail":{"deny":true},"on_success":{"deny":false}}]`)},
		{"S-130 retry-after", `{"retry":{"attempts":1,"use_retry_after_headers":true}}`},
		{"S-130 retry-after in the singular", `{"retry":{"attempts":1,"use_retry_after_header":true}}`},
		{"AMB-9 model names the provider", tree(`{"mode":"single"}`, `{"override_params":{"model":"@team/gpt"}}`)},
		{"AMB-9 managed provider in a target", tree(`{"mode":"single"}`, `{"provider":"@team"}`)},
		{"AMB-9 legacy key in a target", tree(`{"mode":"single"}`, `{"virtual_key":"v"}`)},
		{"AMB-9b host inherited", `{"custom_host":"https://h.example.com","strategy":{"mode":"single"},"targets":[{"provider":"openai"}]}`},
		{"AMB-9b model inherited", `{"override_params":{"model":"@team/gpt"},"strategy":{"mode":"fallback"},"targets":[{"cache":{"mode":"simple"}}]}`},
		{"extension: authentication by role", `{"provider":"bedrock","cloud_a_role_arn":"arn"}`},
		{"extension: own identity", `{"provider":"azure-openai","cloud_c_auth_mode":"managed"}`},
		{"extension: sticky", tree(`{"mode":"loadbalance","sticky":{"enabled":true,"hash_fields":["metadata.user"],"ttl":60}}`, named)},
		{"extension: breaker of a strategy", tree(`{"mode":"fallback","cb_config":{"failure_threshold_percentage":50,"minimum_requests":10,"cooldown_interval":30000}}`, named)},
		{"extension: defaults, drops, hedge", leaf(`"default_params":{"a":1},"drop_params":["messages[*].name","a.b[0][1].c"],"hedge":{"delay_ms":200,"max":1},"stream_continuation":true,"on_unsupported":"refuse"`)},
	} {
		t.Run(tt.name, func(t *testing.T) { mustParse(t, tt.text) })
	}
}

func TestParseRefusesWithThePathOfTheFault(t *testing.T) {
	nested := func(target string) string { return tree(`{"mode":"fallback"}`, target) }
	for _, tt := range []struct{ name, text, path string }{
		{"S-049 unknown property", leaf(`"colour":"red"`), "$.colour"},
		{"S-050 unknown property of a target", nested(`{"provider":"openai","api_key":"k","colour":1}`), "$.targets[0].colour"},
		{"S-049 unknown property of retry", `{"retry":{"attempts":1,"wait":3}}`, "$.retry.wait"},
		{"S-051 nothing", `{}`, "$"},
		{"S-051 only a weight", `{"weight":1}`, "$"},
		{"S-051 only parameters", `{"override_params":{"model":"gpt"}}`, "$"},
		{"S-051 target that says nothing", nested(`{}`), "$.targets[0]"},
		{"S-053 bare provider", `{"provider":"openai"}`, "$"},
		{"S-053 bare provider in a target", nested(`{"provider":"openai"}`), "$.targets[0]"},
		{"S-057 strategy without targets", `{"strategy":{"mode":"single"}}`, "$.strategy"},
		{"S-057 targets without strategy", `{"targets":[` + named + `]}`, "$.targets"},
		{"S-063 secret key missing", `{"provider":"bedrock","cloud_a_access_key_id":"i"}`, "$"},
		{"S-063 key id missing", `{"provider":"bedrock","cloud_a_secret_access_key":"s"}`, "$"},
		{"S-064 region missing", `{"provider":"vertex-ai","cloud_b_service_account_json":{"a":"b"}}`, "$"},
		{"S-065 project missing", `{"provider":"vertex-ai","cloud_b_region":"r"}`, "$"},
		{"S-065 provider missing", `{"cloud_b_project_id":"p","cloud_b_region":"r"}`, "$"},
		{"S-067 type missing", `{"provider":"azure-ai","cloud_c_endpoint_name":"e"}`, "$"},
		{"S-067 endpoint missing", `{"provider":"azure-ai","cloud_c_deployment_type":"managed"}`, "$"},
		{"S-069 strategy is not an object", `{"strategy":"single","targets":[` + named + `]}`, "$.strategy"},
		{"S-069 mode missing", tree(`{}`, named), "$.strategy.mode"},
		{"S-070 unknown mode", tree(`{"mode":"random"}`, named), "$.strategy.mode"},
		{"S-071 query missing", tree(`{"mode":"conditional","conditions":[{"then":"a"}],"default":"a"}`, named), "$.strategy.conditions[0].query"},
		{"S-071 query is not an object", tree(`{"mode":"conditional","conditions":[{"query":"x","then":"a"}],"default":"a"}`, named), "$.strategy.conditions[0].query"},
		{"S-071 then missing", tree(`{"mode":"conditional","conditions":[{"query":{}}],"default":"a"}`, named), "$.strategy.conditions[0].then"},
		{"S-071 then is not a string", tree(`{"mode":"conditional","conditions":[{"query":{},"then":1}],"default":"a"}`, named), "$.strategy.conditions[0].then"},
		{"S-071 condition is not an object", tree(`{"mode":"conditional","conditions":[1],"default":"a"}`, named), "$.strategy.conditions[0]"},
		{"S-072 default is not a string", tree(`{"mode":"single","default":1}`, named), "$.strategy.default"},
		{"S-073 code as text", tree(`{"mode":"fallback","on_status_codes":["429"]}`, named), "$.strategy.on_status_codes[0]"},
		{"S-073 code with a fraction", tree(`{"mode":"fallback","on_status_codes":[429.5]}`, named), "$.strategy.on_status_codes[0]"},
		{"S-075 conditions missing", tree(`{"mode":"conditional","default":"a"}`, named), "$.strategy.conditions"},
		{"S-075 default missing", tree(`{"mode":"conditional","conditions":[{"query":{},"then":"a"}]}`, named), "$.strategy.default"},
		{"S-076 unknown then", tree(`{"mode":"conditional","conditions":[{"query":{},"then":"z"}],"default":"a"}`, named), "$.strategy.conditions[0].then"},
		{"S-076 unknown default", tree(`{"mode":"conditional","conditions":[{"query":{},"then":"a"}],"default":"z"}`, named), "$.strategy.default"},
		{"S-076 then names no sibling", tree(`{"mode":"conditional","conditions":[{"query":{},"then":"a"}],"default":"b"}`, `{"name":"b","strategy":{"mode":"single"},"targets":[`+named+`]}`), "$.strategy.conditions[0].then"},
		{"S-076 two targets of one name", nested(named + "," + named), "$.targets[1].name"},
		{"S-078 target is not an object", nested(`"openai"`), "$.targets[0]"},
		{"S-079 no target", nested(``), "$.targets"},
		{"S-080 name", leaf(`"name":1`), "$.name"},
		{"S-081 provider", `{"provider":1,"api_key":"k"}`, "$.provider"},
		{"S-081 slug missing", `{"provider":"@"}`, "$.provider"},
		{"S-082 api_key", `{"provider":"openai","api_key":1}`, "$.api_key"},
		{"S-084 virtual_key", `{"virtual_key":{}}`, "$.virtual_key"},
		{"S-085 host is no URL", `{"provider":"openai","custom_host":"models"}`, "$.custom_host"},
		{"S-085 host by another scheme", `{"provider":"openai","custom_host":"file:///etc/passwd"}`, "$.custom_host"},
		{"S-085 host with a user", `{"provider":"openai","custom_host":"https://a:b@h.example.com"}`, "$.custom_host"},
		{"S-087 prompt_id", `{"prompt_id":1}`, "$.prompt_id"},
		{"S-088 override_params", leaf(`"override_params":[]`), "$.override_params"},
		{"S-090 weight as text", leaf(`"weight":"1"`), "$.weight"},
		{"S-090 negative weight", leaf(`"weight":-0.1`), "$.weight"},
		{"S-090 weight that is not a finite number", leaf(`"weight":1e999`), "$.weight"},
		{"S-090 weights all zero", tree(`{"mode":"loadbalance"}`, `{"provider":"@a","weight":0},{"provider":"@b","weight":0}`), "$.targets"},
		{"S-090 weights without a sum", tree(`{"mode":"loadbalance"}`, `{"provider":"@a","weight":1e308},{"provider":"@b","weight":1e308}`), "$.targets"},
		{"S-091 codes of a target", leaf(`"on_status_codes":429`), "$.on_status_codes"},
		{"S-092 timeout with a fraction", `{"request_timeout":0.5}`, "$.request_timeout"},
		{"S-092 timeout as text", `{"request_timeout":"100"}`, "$.request_timeout"},
		{"S-092 negative timeout", `{"request_timeout":-1}`, "$.request_timeout"},
		{"S-507 timeout beyond a duration", `{"request_timeout":99999999999999999}`, "$.request_timeout"},
		{"S-093 header names", `{"forward_headers":"X-A"}`, "$.forward_headers"},
		{"S-093 a header name", `{"forward_headers":["X-A",1]}`, "$.forward_headers[1]"},
		{"S-093 no header name", `{"forward_headers":["X A"]}`, "$.forward_headers[0]"},
		{"S-093 header that is never forwarded", `{"forward_headers":["Metadata-Flavor"]}`, "$.forward_headers[0]"},
		{"S-096 mode missing", `{"cache":{}}`, "$.cache.mode"},
		{"S-096 other mode", `{"cache":{"mode":"fuzzy"}}`, "$.cache.mode"},
		{"S-097 max_age", `{"cache":{"mode":"simple","max_age":"60"}}`, "$.cache.max_age"},
		{"S-098 attempts missing", `{"retry":{}}`, "$.retry.attempts"},
		{"S-098 attempts as text", `{"retry":{"attempts":"3"}}`, "$.retry.attempts"},
		{"S-098 attempts with a fraction", `{"retry":{"attempts":1.5}}`, "$.retry.attempts"},
		{"S-098 negative attempts", `{"retry":{"attempts":-1}}`, "$.retry.attempts"},
		{"S-099 retry-after flag", `{"retry":{"attempts":1,"use_retry_after_headers":"yes"}}`, "$.retry.use_retry_after_headers"},
		{"S-100 retry codes", `{"retry":{"attempts":1,"on_status_codes":["x"]}}`, "$.retry.on_status_codes[0]"},
		{"S-102 threshold missing", leaf(`"cb_config":{"cooldown_interval":30000}`), "$.cb_config.failure_threshold"},
		{"S-102 threshold zero", leaf(`"cb_config":{"failure_threshold":0,"cooldown_interval":30000}`), "$.cb_config.failure_threshold"},
		{"S-505 threshold below one", leaf(`"cb_config":{"failure_threshold":0.5,"cooldown_interval":30000}`), "$.cb_config.failure_threshold"},
		{"S-102 threshold as text", leaf(`"cb_config":{"failure_threshold":"3","cooldown_interval":30000}`), "$.cb_config.failure_threshold"},
		{"S-103 cooldown missing", leaf(`"cb_config":{"failure_threshold":1}`), "$.cb_config.cooldown_interval"},
		{"S-506 cooldown too short", leaf(`"cb_config":{"failure_threshold":1,"cooldown_interval":29999}`), "$.cb_config.cooldown_interval"},
		{"S-104 failure code with a fraction", leaf(`"cb_config":{"failure_threshold":1,"cooldown_interval":30000,"failure_status_codes":[1.5]}`), "$.cb_config.failure_status_codes[0]"},
		{"S-105 compliance", leaf(`"strict_vendora_compliance":"false"`), "$.strict_vendora_compliance"},
		{"S-106 resource_name", leaf(`"resource_name":1`), "$.resource_name"},
		{"S-107 alias missing", leaf(`"deployments":[{"deployment_id":"d","api_version":"v"}]`), "$.deployments[0].alias"},
		{"S-107 default flag", leaf(`"deployments":[{"deployment_id":"d","alias":"a","api_version":"v","is_default":1}]`), "$.deployments[0].is_default"},
		{"S-108 organisation", leaf(`"vendora_organization":1`), "$.vendora_organization"},
		{"S-109 beta", leaf(`"vendorb_beta":["x"]`), "$.vendorb_beta"},
		{"S-110 region", leaf(`"cloud_a_region":null`), "$.cloud_a_region"},
		{"S-112 service account as text", `{"provider":"vertex-ai","cloud_b_region":"r","cloud_b_service_account_json":"{}"}`, "$.cloud_b_service_account_json"},
		{"S-115 deployment type", leaf(`"cloud_c_deployment_type":"shared"`), "$.cloud_c_deployment_type"},
		{"S-116 hook without id", leaf(`"before_request_hooks":[{"type":"guardrail"}]`), "$.before_request_hooks[0].id"},
		{"S-117 hook type", leaf(`"before_request_hooks":[{"id":"h","type":1}]`), "$.before_request_hooks[0].type"},
		{"S-118 deny as text", leaf(`"before_request_hooks":[{"id":"h","on_fail":{"deny":"no"}}]`), "$.before_request_hooks[0].on_fail.deny"},
		{"S-118 unknown key", leaf(`"before_request_hooks":[{"id":"h","on_fail":{"retry":true}}]`), "$.before_request_hooks[0].on_fail.retry"},
		{"S-118 feedback value", leaf(`"before_request_hooks":[{"id":"h","on_fail":{"feedback":{"value":"5"}}}]`), "$.before_request_hooks[0].on_fail.feedback.value"},
		{"S-118 feedback metadata", leaf(`"before_request_hooks":[{"id":"h","on_fail":{"feedback":{"metadata":[]}}}]`), "$.before_request_hooks[0].on_fail.feedback.metadata"},
		{"S-119 check without id", leaf(`"before_request_hooks":[{"id":"h","checks":[{"parameters":{}}]}]`), "$.before_request_hooks[0].checks[0].id"},
		{"S-119 check without parameters", leaf(`"before_request_hooks":[{"id":"h","checks":[{"id":"c"}]}]`), "$.before_request_hooks[0].checks[0].parameters"},
		{"S-123 async as text", leaf(`"after_request_hooks":[{"id":"h","async":"yes"}]`), "$.after_request_hooks[0].async"},
		{"S-124 deny in an after hook", leaf(`"after_request_hooks":[{"id":"h","on_fail":{"deny":true}}]`), "$.after_request_hooks[0].on_fail.deny"},
		{"S-126 deny as text", leaf(`"input_guardrails":[{"deny":"yes"}]`), "$.input_guardrails[0].deny"},
		{"S-127 further key as text", leaf(`"input_guardrails":[{"default.contains":"x"}]`), `$.input_guardrails[0]["default.contains"]`},
		{"S-128 item of another type", leaf(`"input_guardrails":[1]`), "$.input_guardrails[0]"},
		{"S-129 deny under on_fail of input", leaf(`"input_guardrails":[{"on_fail":{"deny":true}}]`), "$.input_guardrails[0].on_fail.deny"},
		{"S-131 credentials are not inherited", `{"provider":"openai","api_key":"k","strategy":{"mode":"single"},"targets":[{"override_params":{"model":"m"}}]}`, "$.targets[0]"},
		{"both spellings", leaf(`"override_params":{},"overrideParams":{}`), "$.overrideParams"},
		{"both spellings in an object", `{"retry":{"attempts":1,"use_retry_after_header":true,"use_retry_after_headers":true}}`, "$.retry.use_retry_after_headers"},
		{"breaker in two places", `{"cb_config":{"failure_threshold":1,"cooldown_interval":30000},"strategy":{"mode":"single","cb_config":{"failure_threshold":1,"cooldown_interval":30000}},"targets":[` + named + `]}`, "$.strategy.cb_config"},
		{"percentage above 100", leaf(`"cb_config":{"failure_threshold_percentage":101,"cooldown_interval":30000}`), "$.cb_config.failure_threshold_percentage"},
		{"minimum_requests alone", leaf(`"cb_config":{"minimum_requests":5,"cooldown_interval":30000}`), "$.cb_config.failure_threshold"},
		{"path of drop_params", leaf(`"drop_params":["a..b"]`), "$.drop_params[0]"},
		{"sticky field", tree(`{"mode":"loadbalance","sticky":{"enabled":true,"hash_fields":["user"]}}`, named), "$.strategy.sticky.hash_fields[0]"},
		{"hedge without a delay", leaf(`"hedge":{"max":1}`), "$.hedge.delay_ms"},
		{"on_unsupported", leaf(`"on_unsupported":"ignore"`), "$.on_unsupported"},
		{"response_model", leaf(`"response_model":"sent"`), "$.response_model"},
		{"empty string", `{"provider":"openai","api_key":""}`, "$.api_key"},
		{"duplicate member", `{"retry":{"attempts":1,"attempts":2}}`, "$.retry.attempts"},
		{"duplicate member in free content", leaf(`"override_params":{"a":{"b":1,"b":2}}`), "$.override_params.a.b"},
		{"duplicate member in an item of free content", leaf(`"override_params":{"a":[1,{"b":1,"b":2}]}`), "$.override_params.a[1].b"},
		{"not an object", `[]`, "$"},
		{"null", `null`, "$"},
		{"no JSON", `{"retry":`, "$"},
		{"something behind", `{"retry":{"attempts":1}} {}`, "$"},
		{"not a number", `{"weight":NaN}`, "$"},
		{"not UTF-8", leaf("\"name\":\"\xff\""), "$"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			faults := faultsOf(t, tt.text)
			if len(faults) != 1 || faults[0].Path != tt.path {
				t.Errorf("Parse(%s) faults = %q, want one at %s", tt.text, faults, tt.path)
			}
		})
	}
}

func TestNumbersAreTakenUpToTheirBounds(t *testing.T) {
	sticky := func(ttl string) string {
		return tree(`{"mode":"loadbalance","sticky":{"enabled":true,"hash_fields":["metadata.user"],"ttl":`+ttl+`}}`, named)
	}
	breaker := func(more string) string { return leaf(`"cb_config":{"cooldown_interval":30000,` + more + `}`) }
	for _, tt := range []struct {
		name    string
		text    func(n string) string
		within  []string
		refused map[string]string // with what the message says
	}{
		{"hedge.max", func(n string) string { return leaf(`"hedge":{"delay_ms":1,"max":` + n + `}`) },
			[]string{"1", "10", "1e1", "10.0"}, map[string]string{"0": "at least 1", "11": "at most 10", "1.5": "an integer, not 1.5", "1e-1": "an integer", "1e30": "at most 10", "-1e30": "at least 1", "1e400": "at most 10"}},
		{"hedge.delay_ms", func(n string) string { return leaf(`"hedge":{"delay_ms":` + n + `}`) },
			[]string{"1", "9223372036854"}, map[string]string{"0": "at least 1", "9223372036855": "at most 9223372036854", "-99999999999999999999": "at least 1", "99999999999999999999": "at most 9223372036854"}},
		{"on_status_codes", func(n string) string { return leaf(`"on_status_codes":[` + n + `]`) },
			[]string{"100", "999"}, map[string]string{"99": "at least 100, not 99", "1000": "at most 999"}},
		{"request_timeout", func(n string) string { return leaf(`"request_timeout":` + n) },
			[]string{"0", "1"}, map[string]string{"-1": "at least 0"}},
		{"retry.attempts", func(n string) string { return leaf(`"retry":{"attempts":` + n + `}`) },
			[]string{"0", "2147483647"}, map[string]string{"-1": "at least 0", "2147483648": "at most 2147483647"}},
		{"sticky.ttl", sticky, []string{"1", "9223372036"}, map[string]string{"0": "at least 1", "9223372037": "at most 9223372036"}},
		{"weight", func(n string) string { return leaf(`"weight":` + n) },
			[]string{"0", "-0", "0.001", "1e300"}, map[string]string{"-0.001": "at least 0, not -0.001", "1e400": "too large"}},
		{"failure_threshold", func(n string) string { return breaker(`"failure_threshold":` + n) },
			[]string{"1", "2.5"}, map[string]string{"0.999": "at least 1, not 0.999", "0": "at least 1"}},
		{"failure_threshold_percentage", func(n string) string { return breaker(`"failure_threshold_percentage":` + n) },
			[]string{"0.001", "100"}, map[string]string{"0": "above 0", "-5": "above 0", "100.001": "at most 100"}},
		{"minimum_requests", func(n string) string { return breaker(`"failure_threshold":1,"minimum_requests":` + n) },
			[]string{"1"}, map[string]string{"0": "at least 1"}},
		{"cooldown_interval", func(n string) string {
			return leaf(`"cb_config":{"failure_threshold":1,"cooldown_interval":` + n + `}`)
		},
			[]string{"30000", "30000.5", "9.22e12"}, map[string]string{"29999.999": "at least 30000, not 29999.999", "9223372036854.775": "too large", "9.23e12": "too large", "1e400": "too large"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, n := range tt.within {
				mustParse(t, tt.text(n))
			}
			for n, says := range tt.refused {
				if faults := faultsOf(t, tt.text(n)); len(faults) != 1 || !strings.Contains(faults[0].Path, tt.name) || !strings.Contains(faults[0].Message, says) {
					t.Errorf("faults of %s are %q, want one that says %q", n, faults, says)
				}
			}
		})
	}
}

// S-066: each property of the group in turn.
func TestEveryPropertyOfAGroupIsNeeded(t *testing.T) {
	group := []string{`"provider":"azure-ai"`, `"cloud_c_deployment_name":"d"`, `"cloud_c_deployment_type":"serverless"`, `"cloud_c_region":"r"`, `"cloud_c_api_version":"v"`}
	mustParse(t, "{"+strings.Join(group, ",")+"}")
	for i := range group {
		rest := append(append([]string{}, group[:i]...), group[i+1:]...)
		faultsOf(t, "{"+strings.Join(rest, ",")+"}")
	}
}

func TestLimitsOfTargets(t *testing.T) {
	list := func(n int) string { return strings.TrimSuffix(strings.Repeat(`{"provider":"@a"},`, n), ",") }
	conditional := `{"mode":"conditional","conditions":[{"query":{},"then":"a"}],"default":"a"}`
	deep := func(levels int) string {
		text := `{"provider":"@a"}`
		for range levels {
			text = tree(`{"mode":"single"}`, text)
		}
		return text
	}
	twins := func(text string) string { return tree(`{"mode":"single"}`, text+","+text) }
	mustParse(t, tree(`{"mode":"fallback"}`, strings.TrimSuffix(strings.Repeat(twins(twins(`{"provider":"@a"}`))+",", 20), ","))) // many, and none deep
	for _, tt := range []struct{ name, fits, over, path string }{
		{"root", tree(`{"mode":"fallback"}`, list(100)), tree(`{"mode":"fallback"}`, list(101)), "$.targets"},
		{"conditional root", tree(conditional, named+","+list(999)), tree(conditional, named+","+list(1000)), "$.targets"},
		{"below a target", tree(`{"mode":"single"}`, tree(`{"mode":"fallback"}`, list(50))), tree(`{"mode":"single"}`, tree(`{"mode":"fallback"}`, list(51))), "$.targets[0].targets"},
		{"depth", deep(config.MaxDepth), deep(config.MaxDepth + 1), "$" + strings.Repeat(".targets[0]", config.MaxDepth) + ".targets"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			mustParse(t, tt.fits)
			if faults := faultsOf(t, tt.over); faults[0].Path != tt.path {
				t.Errorf("faults = %q, want the first at %s", faults, tt.path)
			}
		})
	}
}

// A text of nothing but misspelt names must not cost more than it is worth.
func TestManyUnknownNamesAreRefusedQuickly(t *testing.T) {
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, `,"provide%d":1`, i)
	}
	start := time.Now()
	faults := faultsOf(t, leaf(b.String()[1:]))
	if took := time.Since(start); took > 10*time.Second || len(faults) != 101 {
		t.Errorf("%d faults in %v, want the first 100 and a note within seconds", len(faults), took)
	}
	if !strings.Contains(faults[0].Message, "did you mean") || strings.Contains(faults[99].Message, "did you mean") {
		t.Errorf("faults = %q … %q, want a guess for the first only", faults[0], faults[4999])
	}
}

func TestNestingWithoutEndIsRefused(t *testing.T) {
	deep := leaf(`"override_params":{"a":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`)
	if faults := faultsOf(t, deep); !strings.Contains(faults[0].Message, "nested deeper") {
		t.Errorf("faults = %q, want one about nesting", faults)
	}
}

func TestAllFaultsComeInOneResponse(t *testing.T) {
	text := `{"colour":1,"retry":{"attempts":-1,"wait":2},"strategy":{"mode":"conditional","conditions":[{"query":{"metadata.a":{"$like":1}},"then":"z"}],"default":"y"},
	"targets":[{"name":"a","provider":"openai"},{"name":"a","provider":"@x","weight":-1}]}`
	var paths []string
	for _, f := range faultsOf(t, text) {
		paths = append(paths, f.Path)
	}
	want := `[$.colour $.retry.attempts $.retry.wait $.strategy.conditions[0].query["metadata.a"].$like $.targets[1].weight $.targets[1].name $.strategy.conditions[0].then $.strategy.default $.targets[0]]`
	if got := fmt.Sprint(paths); got != want {
		t.Errorf("paths = %s\nwant    %s", got, want)
	}
}

// A fault hides what follows from it, and nothing else.
func TestFaultsAreNeitherRepeatedNorHidden(t *testing.T) {
	for _, tt := range []struct{ name, text, paths string }{
		{"what is missing may be misspelt", `{"provider":"openai","apikey":"k"}`, "[$.apikey]"},
		{"what is missing may be what is wrong", `{"provider":"openai","api_key":1}`, "[$.api_key]"},
		{"a strange property gives no provider", `{"colour":1}`, "[$.colour $]"},
		{"a target's fault is not its parent's", tree(`{"mode":"conditional"}`, `{"name":1}`), "[$.targets[0].name $.strategy.conditions $.strategy.default]"},
		{"a target's fault is not its sibling's", tree(`{"mode":"single"}`, `{"name":1},{}`), "[$.targets[0].name $.targets[1]]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var paths []string
			for _, f := range faultsOf(t, tt.text) {
				paths = append(paths, f.Path)
			}
			if got := fmt.Sprint(paths); got != tt.paths {
				t.Errorf("Parse(%s) faults at %s, want %s", tt.text, got, tt.paths)
			}
		})
	}
}

func TestUnknownProvidersAreFoundInTheWholeTree(t *testing.T) {
	c := mustParse(t, tree(`{"mode":"fallback"}`, `{"provider":"opnai","api_key":"k"},{"provider":"@x"},{"provider":"openai","api_key":"k"},`+tree(`{"mode":"single"}`, `{"provider":"nope","api_key":"k"}`)))
	err := c.CheckProviders([]string{"openai", "anthropic"})
	want := `AB01: invalid config: $.targets[0].provider names no known provider ("opnai"); did you mean "openai"?; $.targets[3].targets[0].provider names no known provider ("nope"); list them with modelgate providers`
	if err == nil || err.Error() != want {
		t.Errorf("CheckProviders = %v\nwant %s", err, want)
	}
}
