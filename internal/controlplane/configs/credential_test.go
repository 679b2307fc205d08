package configs_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/controlplane/configs"
	"modelgate/internal/testing/routetest"
)

// holding is a config with credentials of every kind, each with the canary.
const holding = `{"strategy":{"mode":"fallback"},"targets":[` +
	`{"provider":"openai","apiKey":"canary-openai-0123456789"},` +
	`{"strategy":{"mode":"single"},"targets":[{"provider":"bedrock","cloud_a_region":"us-east-1","cloud_a_access_key_id":"canary-access-0123","cloud_a_secret_access_key":"canary-secret-0123","cloud_a_session_token":"canary"}]},` +
	`{"provider":"vertex-ai","cloud_b_region":"r","cloud_b_service_account_json":{"type":"service_account","private_key":"canary-account"}},` +
	`{"provider":"@main","override_params":{"tools":[{"type":"mcp","server_url":"https://tools.example.com","headers":{"X-Tool":"canary-tool-0123456789"}}]}}]}`

func body(t *testing.T, name, config string, asText bool) string {
	t.Helper()
	var value any = json.RawMessage(config)
	if asText {
		value = config
	}
	b, err := json.Marshal(map[string]any{"name": name, "config": value})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// toResponse returns the config as a read shows it.
func toResponse(t *testing.T, c *routetest.Caller, slug string) string {
	t.Helper()
	var one struct{ Data struct{ Config string } }
	c.Must("GET", "/configs/"+slug, "", &one)
	return one.Data.Config
}

func TestCredentialsOfAConfigAreStoredSealedAndShownAsMasks(t *testing.T) {
	for _, asText := range []bool{false, true} {
		t.Run(fmt.Sprint("as a string: ", asText), func(t *testing.T) {
			b := routetest.New(t, configs.Add)
			c := b.Root()
			var s saved
			c.Must("POST", "/configs", body(t, "a", holding, asText), &s)
			before := toResponse(t, c, s.Data.Slug)
			c.Must("PUT", "/configs/"+s.Data.Slug, body(t, "a", strings.Replace(before, `"us-east-1",`, `"us-east-1","retry":{"attempts":1},`, 1), asText), nil)
			for _, path := range []string{"/configs", "/configs/" + s.Data.Slug, "/configs/" + s.Data.Slug + "?format=object", "/configs/" + s.Data.Slug + "/versions"} {
				if a := c.Call("GET", path, ""); a.Status != http.StatusOK || strings.Contains(a.Body, "canary") {
					t.Errorf("GET %s: %d %s", path, a.Status, a.Body)
				}
			}
			if !strings.Contains(before, `"apiKey":"ca***89"`) || !strings.Contains(before, `"cloud_b_service_account_json":"***"`) {
				t.Errorf("shown as %s", before)
			}
			for _, row := range append(b.Query(`SELECT text || sealed FROM config_versions`), b.Query(`SELECT request_body FROM audit_logs`)...) {
				if strings.Contains(row, "canary") {
					t.Errorf("a row holds a credential: %s", row)
				}
			}
			if n := len(b.Query(`SELECT sealed FROM config_versions WHERE sealed LIKE 'sealed:%'`)); n != 2 {
				t.Errorf("%d versions have sealed credentials, want 2", n)
			}
		})
	}
}

func TestMaskStandsForTheStoredCredentialOnlyWhereItBelongs(t *testing.T) {
	b := routetest.New(t, configs.Add)
	c := b.Root()
	for _, tt := range []struct {
		name, config, change, by, fault string
	}{
		{"another setting", `{"provider":"openai","api_key":"canary-0123456789"}`, `{"provider"`, `{"retry":{"attempts":2},"provider"`, ""},
		{"another spelling", `{"provider":"openai","api_key":"canary-0123456789"}`, `api_key`, `apiKey`, ""},
		{"another provider", `{"provider":"openai","api_key":"canary-0123456789"}`, `"openai"`, `"groq"`, "$.api_key is the mask"},
		{"a host", `{"provider":"openai","api_key":"canary-0123456789"}`, `{"provider"`, `{"custom_host":"https://thief.example.com","provider"`, "$.api_key is the mask"},
		{"a host above", `{"strategy":{"mode":"single"},"targets":[{"provider":"openai","api_key":"canary-0123456789"}]}`, `{"strategy"`, `{"customHost":"https://thief.example.com","strategy"`, "$.targets[0].api_key is the mask"},
		{"another target", `{"strategy":{"mode":"single"},"targets":[{"provider":"openai","api_key":"canary-0123456789"}]}`, `[{`, `[{"provider":"@main"},{`, "$.targets[1].api_key is a mask"},
		{"another credential", `{"provider":"azure-ai","cloud_c_endpoint_name":"e","cloud_c_deployment_type":"managed","api_key":"canary-0123456789"}`, `api_key`, `cloud_c_ad_token`, "$.cloud_c_ad_token is a mask"},
		{"another resource", `{"provider":"azure-openai","resource_name":"ours","api_key":"canary-0123456789"}`, `ours`, `theirs`, "$.api_key is the mask"},
		{"another server", `{"provider":"@main","override_params":{"server_url":"https://ours.example.com","token":"canary-0123456789"}}`, `ours`, `theirs`, "$.override_params.token is the mask"},
		{"a longer mask", `{"provider":"openai","api_key":"canary-0123456789"}`, `ca***89`, `xx***yy`, "$.api_key is a mask"},
		{"the short mask", `{"provider":"openai","api_key":"canary-0123456789"}`, `ca***89`, `***`, ""},
		{"a service account", `{"provider":"vertex-ai","cloud_b_region":"r","cloud_b_service_account_json":{"private_key":"canary"}}`, `"r"`, `"r","weight":1`, ""},
		{"a service account for another region", `{"provider":"vertex-ai","cloud_b_region":"r","cloud_b_service_account_json":{"private_key":"canary"}}`, `"r"`, `"s"`, "is the mask"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var s saved
			c.Must("POST", "/configs", body(t, "a", tt.config, false), &s)
			mask := toResponse(t, c, s.Data.Slug)
			next := strings.Replace(mask, tt.change, tt.by, 1)
			if next == mask {
				t.Fatalf("%s has no %s", mask, tt.change)
			}
			a := c.Call("PUT", "/configs/"+s.Data.Slug, body(t, "a", next, true))
			if (a.Status == http.StatusOK) != (tt.fault == "") || !strings.Contains(a.Body, tt.fault) || strings.Contains(a.Body, "canary") {
				t.Errorf("%d %s, want %q", a.Status, a.Body, tt.fault)
			}
			if tt.fault == "" && strings.Contains(toResponse(t, c, s.Data.Slug), "canary") {
				t.Error("the credential is shown after a change")
			}
		})
	}
}

func TestANewConfigRefusesAMaskAsItsCredential(t *testing.T) {
	c := routetest.New(t, configs.Add).Root()
	for _, value := range []string{"***", "ca***89"} {
		if a := c.Call("POST", "/configs", body(t, "a", `{"provider":"openai","api_key":"`+value+`"}`, false)); a.Status != http.StatusBadRequest || !strings.Contains(a.Body, "is a mask, not a credential") {
			t.Errorf("%q: %d %s", value, a.Status, a.Body)
		}
	}
}

func TestCredentialOfASavedConfigNeedsAProvider(t *testing.T) {
	c := routetest.New(t, configs.Add).Root()
	for _, config := range []string{
		`{"api_key":"canary-0123456789","retry":{"attempts":1}}`,
		`{"strategy":{"mode":"single"},"targets":[{"passthrough":true,"apiKey":"canary-0123456789"}]}`,
		`{"retry":{"attempts":1},"override_params":{"access_token":"canary-0123456789"}}`,
	} {
		for _, asText := range []bool{false, true} {
			a := c.Call("POST", "/configs", body(t, "a", config, asText))
			if a.Status != http.StatusBadRequest || !strings.Contains(a.Body, "AB01") || !strings.Contains(a.Body, "is a credential without a provider") || strings.Contains(a.Body, "canary") {
				t.Errorf("%s: %d %s", config, a.Status, a.Body)
			}
		}
	}
}
