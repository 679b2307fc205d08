package route

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestBodiesAreMaskedForTheAuditLog(t *testing.T) {
	quoted := func(text string) string {
		b, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, tt := range []struct{ name, body, keeps string }{
		{"a field", `{"name":"n","key":"sekret"}`, `"name":"n"`},
		{"a config", `{"name":"n","config":{"provider":"openai","apiKey":"sekret"}}`, `"provider":"openai"`},
		{"a config as a string", `{"config":` + quoted(`{"provider":"openai","api_key":"sekret"}`) + `}`, `\"provider\":\"openai\"`},
		{"a config as a string in a string", `{"x":` + quoted(`{"config":`+quoted(`{"api_key":"sekret"}`)+`}`) + `}`, `config`},
		{"a target", `{"config":` + quoted(`{"targets":[{"provider":"bedrock","cloudASecretAccessKey":"sekret"}]}`) + `}`, `bedrock`},
		{"a service account", `{"config":{"provider":"vertex-ai","cloud_b_service_account_json":{"a":"sekret"}}}`, `vertex-ai`},
		{"parameters", `{"config":{"provider":"@a","override_params":{"model":"m","auth":"sekret","headers":{"X-A":"sekret"}}}}`, `"model":"m"`},
		{"a config that is cut off", `{"config":` + quoted(`{"api_key":"sekret"`) + `}`, `not JSON`},
		{"a config without braces", `{"config":` + quoted(`"api_key": "sekret"`) + `}`, `not JSON`},
		{"a list in a string", `{"x":` + quoted(`[{"password":"sekret"}]`) + `}`, `***`},
		{"a text with braces", `{"text":"{{name}} and more"}`, `{{name}} and more`},
		{"the name of a config", `{"config":"pc-main-123"}`, `pc-main-123`},
		{"an address", `{"custom_host":"https://host.example:8443/v1"}`, `"https://host.example:8443/v1"`},
		{"an address with a password", `{"configurations":{"custom_host":"https://me:sekret@host.example/v1"}}`, `"https://***@host.example/v1"`},
		{"an address with a token as its user", `{"custom_host":"https://sekret@host.example/v1"}`, `"https://***@host.example/v1"`},
		{"an address with a query", `{"checks":[{"parameters":{"url":"https://host.example/hook?a=sekret&sekret&b=sekret#sekret"}}]}`, `"https://host.example/hook?a=***\u0026***\u0026b=***#***"`},
		{"the address of a channel", `{"url":"https://hooks.slack.com/services/T0/B0/sekret"}`, `"url":"https://hooks.slack.com/***"`},
		{"the address of a channel in capitals", `{"url":"https://HOOKS.Slack.com:443/%73ekret?a=sekret"}`, `:443/***?a=***"`},
		{"the address of a channel of Teams", `{"url":"https://acme.webhook.office.com/webhookb2/sekret/b"}`, `"url":"https://acme.webhook.office.com/***"`},
		{"a malformed address", `{"custom_host":"https://me:sekret@host.example:bad/v1"}`, `"custom_host":"***"`},
		{"a text with an address", `{"string":"see https://host.example/a?b=c for more"}`, `see https://host.example/a?b=c for more`},
		{"no JSON", `api_key=sekret`, `not JSON`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := maskBody([]byte(tt.body))
			if strings.Contains(got, "sekret") || !strings.Contains(got, tt.keeps) || !json.Valid([]byte(got)) {
				t.Errorf("maskBody = %s, want %s kept and no secret", got, tt.keeps)
			}
		})
	}
}
