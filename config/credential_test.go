package config_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"modelgate/config"
)

// TestReplacedCredentialsAreGoneAndComeBack also holds for any spelling of the
// properties and of JSON.
func TestReplacedCredentialsAreGoneAndComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, other := draw(t)
		text := []byte(other)
		want, err := config.Parse(text)
		if err != nil {
			t.Fatalf("Parse(%s) = %v", text, err)
		}
		held := map[string]string{}
		hidden, err := config.ReplaceCredentials(text, func(c config.Credential) (string, error) {
			held[c.Path] = c.Value.Reveal()
			return "***", nil
		})
		if err != nil || strings.Contains(string(hidden), secretMark) {
			t.Fatalf("ReplaceCredentials(%s) = %s, %v", text, hidden, err)
		}
		again, err := config.ReplaceCredentials(hidden, func(c config.Credential) (string, error) { return held[c.Path], nil })
		if err != nil {
			t.Fatal(err)
		}
		got, err := config.Parse(again)
		if err != nil || string(got.Reveal()) != string(want.Reveal()) {
			t.Errorf("filled again: %s, %v, want %s", again, err, want.Reveal())
		}
	})
}

func TestCredentialsAreFoundWhereverTheyAre(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"at the root", `{"provider":"openai","api_key":"s"}`, []string{"$.api_key"}},
		{"in camel case", `{"provider":"openai","apiKey":"s"}`, []string{"$.api_key"}},
		{"with escapes", `{"provider":"openai","\u0061pi_key":"s"}`, []string{"$.api_key"}},
		{"in targets of targets", `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@a"},{"strategy":{"mode":"single"},"targets":[{"provider":"openai","apiKey":"s"}]}]}`,
			[]string{"$.targets[1].targets[0].api_key"}},
		{"of the clouds", `{"provider":"bedrock","cloud_a_access_key_id":"s","cloudASecretAccessKey":"s","cloud_a_session_token":"s","cloud_a_region":"r"}`,
			[]string{"$.cloud_a_access_key_id", "$.cloud_a_secret_access_key", "$.cloud_a_session_token"}},
		{"of oracle", `{"provider":"oracle","oracle_private_key":"s","oracle_key_passphrase":"s","oracle_fingerprint":"f"}`,
			[]string{"$.oracle_private_key", "$.oracle_key_passphrase"}},
		{"a service account", `{"provider":"vertex-ai","cloud_b_service_account_json":{"private_key":"s"}}`, []string{"$.cloud_b_service_account_json"}},
		{"a service account that is hidden", `{"provider":"vertex-ai","cloud_b_service_account_json":"***"}`, []string{"$.cloud_b_service_account_json"}},
		{"in parameters", `{"provider":"@a","override_params":{"tools":[{"type":"mcp","server_url":"https://h","authorization":"s","headers":{"X-A":"s"}}]}}`,
			[]string{"$.override_params.tools[0].authorization", "$.override_params.tools[0].headers.X-A"}},
		{"in default parameters", `{"provider":"@a","defaultParams":{"x":{"access_token":"s","clientSecret":["s","t"]}}}`,
			[]string{"$.default_params.x.access_token", "$.default_params.x.clientSecret[0]", "$.default_params.x.clientSecret[1]"}},
		{"in hooks", `{"provider":"@a","before_request_hooks":[{"id":"h","checks":[{"id":"webhook","parameters":{"headers":{"Authorization":"s"},"credentials":{"apiKey":"s"}}}]}]}`,
			[]string{"$.before_request_hooks[0].checks[0].parameters.headers.Authorization", "$.before_request_hooks[0].checks[0].parameters.credentials.apiKey"}},
		{"in guardrails", `{"provider":"@a","input_guardrails":[{"partner.check":{"api-key":"s"}}]}`, []string{`$.input_guardrails[0]["partner.check"].api-key`}},
		{"not parameters of models", `{"provider":"@a","override_params":{"max_tokens":5,"stop_token":"x","max_completion_tokens":1,"logit_bias":{"1":2},"prompt_cache_key":"u","safety_identifier":"u"}}`, nil},
		{"not names of a schema", `{"provider":"@a","override_params":{"tools":[{"function":{"parameters":{"type":"object","properties":{"password":{"type":"string"}}}}}]}}`, nil},
		{"not conditions", `{"strategy":{"mode":"conditional","conditions":[{"query":{"metadata.api_key":{"$eq":"x"}},"then":"a"}],"default":"a"},"targets":[{"name":"a","provider":"@a"}]}`, nil},
		{"not empty ones", `{"provider":"@a","cloud_a_session_token":"","cloud_b_service_account_json":{}}`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list, err := config.Credentials([]byte(tt.text))
			var got []string
			for _, c := range list {
				got = append(got, c.Path)
			}
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("Credentials = %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestShownParametersHideTheirCredentials(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"credentials", `{ "token":"sekret", "a": [1.0, {"apiKey":"sekret"}] }`, `{ "token":"***", "a": [1.0, {"apiKey":"***"}] }`},
		{"everything below headers", `{"headers":{"X-A":"sekret","X-B":["sekret"]}}`, `{"headers":{"X-A":"***","X-B":["***"]}}`},
		{"none", `{ "max_tokens" : 5 }`, `{ "max_tokens" : 5 }`},
		{"nothing", `{}`, `{}`},
	} {
		got, err := config.MaskParams([]byte(tt.text))
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: MaskParams(%s) = %s, %v; want %s", tt.name, tt.text, got, err, tt.want)
		}
	}
	if got, err := config.MaskParams([]byte(`{"token":"sekret"`)); err == nil || got != nil {
		t.Errorf("MaskParams of text that is not JSON = %s, %v; want an error", got, err)
	}
	object := config.Object{{Name: "token", Value: json.RawMessage(`"sekret"`)}, {Name: "n", Value: json.RawMessage(`1.0`)}}
	want := config.Object{{Name: "token", Value: json.RawMessage(`"***"`)}, {Name: "n", Value: json.RawMessage(`1.0`)}}
	if diff := cmp.Diff(want, object.Masked()); diff != "" {
		t.Errorf("Masked (-want +got):\n%s", diff)
	}
	if got := config.Object(nil).Masked(); got != nil {
		t.Errorf("Masked of nothing = %v, want nil", got)
	}
	broken := config.Object{{Name: "token", Value: json.RawMessage(`"sekret`)}}
	if got := broken.Masked(); got != nil {
		t.Errorf("Masked of what is not JSON = %v, want nil", got)
	}
}

func TestCredentialsHaveNamesOfAtMost128Bytes(t *testing.T) {
	for length, want := range map[int]int{128: 1, 129: 0} {
		name := strings.Repeat("x", length-len("_token")) + "_token"
		list, err := config.Credentials([]byte(`{"provider":"@a","override_params":{"` + name + `":"s"}}`))
		if err != nil || len(list) != want {
			t.Errorf("Credentials of a name of %d bytes = %d, %v; want %d", length, len(list), err, want)
		}
	}
}

func TestDestinationChangesWithWhereACredentialIsSent(t *testing.T) {
	for _, tt := range []struct {
		name, before, after string
		same                bool
	}{
		{"other settings", `{"provider":"openai","api_key":"a"}`, `{"api_key":"b","provider":"openai","retry":{"attempts":2},"weight":1}`, true},
		{"another provider", `{"provider":"openai","api_key":"a"}`, `{"provider":"groq","api_key":"a"}`, false},
		{"another host", `{"provider":"openai","api_key":"a"}`, `{"provider":"openai","api_key":"a","customHost":"https://h.example"}`, false},
		{"another resource", `{"provider":"azure-openai","api_key":"a","resource_name":"r"}`, `{"provider":"azure-openai","api_key":"a","resource_name":"x"}`, false},
		{"another endpoint", `{"provider":"azure-ai","cloud_c_ad_token":"a","cloud_c_foundry_url":"https://r"}`, `{"provider":"azure-ai","cloud_c_ad_token":"a","cloud_c_foundry_url":"https://x"}`, false},
		{"another host to inherit", `{"strategy":{"mode":"single"},"targets":[{"provider":"openai","api_key":"a"}]}`,
			`{"custom_host":"https://h.example","strategy":{"mode":"single"},"targets":[{"provider":"openai","api_key":"a"}]}`, false},
		{"another host of a target with its own", `{"strategy":{"mode":"single"},"targets":[{"provider":"openai","custom_host":"https://o","api_key":"a"}]}`,
			`{"custom_host":"https://h.example","strategy":{"mode":"single"},"targets":[{"provider":"openai","custom_host":"https://o","api_key":"a"}]}`, true},
		{"another server of a tool", `{"provider":"@a","override_params":{"tools":[{"server_url":"https://a","authorization":"a"}]}}`,
			`{"provider":"@a","override_params":{"tools":[{"server_url":"https://b","authorization":"a"}]}}`, false},
		{"another credential next to it", `{"provider":"@a","override_params":{"token":"a","password":"p"}}`, `{"provider":"@a","override_params":{"token":"a","password":"q"}}`, true},
		{"another host below a parameter", `{"override_params":{"token":"a"},"strategy":{"mode":"single"},"targets":[{"provider":"@a"}]}`,
			`{"override_params":{"token":"a"},"strategy":{"mode":"single"},"targets":[{"provider":"@b"}]}`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, err := config.Credentials([]byte(tt.before))
			after, err2 := config.Credentials([]byte(tt.after))
			if err != nil || err2 != nil || len(before) == 0 || len(after) != len(before) {
				t.Fatalf("Credentials = %d, %d, %v, %v", len(before), len(after), err, err2)
			}
			if got := before[0].Destination == after[0].Destination; got != tt.same || before[0].Path != after[0].Path {
				t.Errorf("same destination: %t, want %t", got, tt.same)
			}
		})
	}
}

func TestCredentialWithoutAProviderIsRefused(t *testing.T) {
	for _, tt := range []struct{ name, text, path string }{
		{"at the root", `{"api_key":"sekret","retry":{"attempts":1}}`, "$.api_key"},
		{"with a host", `{"apiKey":"sekret","custom_host":"https://h.example","retry":{"attempts":1}}`, "$.api_key"},
		{"next to targets", `{"api_key":"sekret","strategy":{"mode":"single"},"targets":[{"provider":"@a"}]}`, "$.api_key"},
		{"a target left to the request", `{"strategy":{"mode":"single"},"targets":[{"passthrough":true,"api_key":"sekret"}]}`, "$.targets[0].api_key"},
		{"a prompt's provider", `{"prompt_id":"p","api_key":"sekret"}`, "$.api_key"},
		{"of a provider above", `{"provider":"openai","strategy":{"mode":"single"},"targets":[{"api_key":"sekret","prompt_id":"p"}]}`, "$.targets[0].api_key"},
		{"a cloud's", `{"cloud_a_secret_access_key":"sekret","retry":{"attempts":1}}`, "$.cloud_a_secret_access_key"},
		{"a service account", `{"cloud_b_service_account_json":{"private_key":"sekret"},"retry":{"attempts":1}}`, "$.cloud_b_service_account_json"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := config.Parse([]byte(tt.text))
			e, _ := errors.AsType[*config.Errors](err)
			if e == nil || e.Faults[0].Path != tt.path || !strings.Contains(err.Error(), "AB01") || strings.Contains(err.Error(), "sekret") {
				t.Errorf("Parse = %v, want a fault at %s", err, tt.path)
			}
		})
	}
}

func TestCredentialInParametersNeedsAProviderOfTheConfig(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		unbound    bool
	}{
		{"a provider next to it", `{"provider":"@a","override_params":{"token":"sekret"}}`, false},
		{"targets that name theirs", `{"default_params":{"token":"sekret"},"strategy":{"mode":"single"},"targets":[{"provider":"@a"},{"virtual_key":"v"}]}`, false},
		{"no provider", `{"retry":{"attempts":1},"override_params":{"token":"sekret"}}`, true},
		{"a target left to the request", `{"override_params":{"token":"sekret"},"strategy":{"mode":"single"},"targets":[{"provider":"@a"},{"passthrough":true}]}`, true},
		{"a hook", `{"retry":{"attempts":1},"before_request_hooks":[{"id":"h","checks":[{"id":"c","parameters":{"token":"sekret"}}]}]}`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list, err := config.Credentials([]byte(tt.text))
			if err != nil || len(list) != 1 {
				t.Fatalf("Credentials = %v, %v", list, err)
			}
			if err := config.CheckBound(list); (err != nil) != tt.unbound || err != nil && !strings.Contains(err.Error(), list[0].Path) {
				t.Errorf("CheckBound = %v, want refused: %t", err, tt.unbound)
			}
			if text := fmt.Sprintf("%+v %#v", list, list); strings.Contains(text, "sekret") {
				t.Errorf("a credential is printed: %s", text)
			}
		})
	}
}

func TestSettingsNextToAManagedProviderAreRefused(t *testing.T) {
	for _, tt := range []struct{ name, text, path string }{
		{"a key", `{"provider":"@a","api_key":"sekret"}`, "$.api_key"},
		{"a key in camel case", `{"provider":"@a","apiKey":"sekret"}`, "$.api_key"},
		{"a key and the older name", `{"virtual_key":"a","api_key":"sekret"}`, "$.api_key"},
		{"a key of a target", `{"strategy":{"mode":"single"},"targets":[{"provider":"@a","api_key":"sekret"}]}`, "$.targets[0].api_key"},
		{"a key of a cloud", `{"provider":"@a","cloud_a_secret_access_key":"sekret"}`, "$.cloud_a_secret_access_key"},
		{"a service account", `{"provider":"@a","cloud_b_service_account_json":{"private_key":"sekret"}}`, "$.cloud_b_service_account_json"},
		{"a region", `{"provider":"@a","cloud_a_region":"us-east-1"}`, "$.cloud_a_region"},
		{"an organisation", `{"provider":"@a","vendora_organization":"x"}`, "$.vendora_organization"},
		{"a resource", `{"provider":"@a","resource_name":"r"}`, "$.resource_name"},
		{"a deployment", `{"virtual_key":"@a","deployment_id":"d"}`, "$.deployment_id"},
		{"deployments", `{"provider":"@a","deployments":[{"deployment_id":"d","alias":"a","api_version":"v"}]}`, "$.deployments"},
		{"another managed provider", `{"provider":"@a","virtual_key":"b"}`, "$.virtual_key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := config.Parse([]byte(tt.text))
			e, _ := errors.AsType[*config.Errors](err)
			if e == nil || len(e.Faults) != 1 || e.Faults[0].Path != tt.path || strings.Contains(err.Error(), "sekret") {
				t.Errorf("Parse = %v, want a fault at %s", err, tt.path)
			}
		})
	}
	for _, text := range []string{
		`{"provider":"@a","cloud_a_session_token":"","cloud_a_region":""}`,
		`{"provider":"@a","virtual_key":"a"}`,
		`{"provider":"@a","vendorb_beta":"x","cloud_c_entra_scope":"s","api_version":"v"}`,
		`{"provider":"openai","api_key":"sekret","virtual_key":"a","vendora_project":"p"}`,
	} {
		if _, err := config.Parse([]byte(text)); err != nil {
			t.Errorf("Parse(%s) = %v", text, err)
		}
	}
}
