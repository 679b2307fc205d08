package controlplane_test

import (
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// TestSavingSaysWhatIsLeftOutOfAnAddress saves addresses that end in the path of an
// operation, which the gateway adds itself, and others.
func TestSavingSaysWhatIsLeftOutOfAnAddress(t *testing.T) {
	g := gatewaytest.New(t, gatewaytest.Options{MasterKey: "the master key of a test"})
	number := 0
	for _, host := range []struct{ provider, address, removed string }{
		{"openai-compatible", "https://models.example.com/v1/chat/completions", "/chat/completions"},
		{"openai-compatible", "https://models.example.com/v1", ""},
		{"anthropic", "https://models.example.com/v1/messages/", "/messages"},
		{"google", "https://models.example.com/v1beta", "/v1beta"},
	} {
		var integration, config, key string
		for _, tt := range []struct {
			method, path, body, field string
		}{
			{"POST", "/integrations", `{"name":"I","slug":"i-NUMBER","ai_provider_id":"PROVIDER","key":"k","configurations":{"custom_host":"HOST"}}`, "configurations.custom_host"},
			{"PUT", "/integrations/INTEGRATION", `{"configurations":{"custom_host":"HOST"}}`, "configurations.custom_host"},
			{"PUT", "/integrations/INTEGRATION", `{"name":"another"}`, ""},
			{"PUT", "/integrations/INTEGRATION/models", `{"models":[{"slug":"a","enabled":true},{"slug":"m","enabled":true,"configurations":{"custom_host":"HOST"}}]}`, "models[1].configurations.custom_host"},
			{"POST", "/virtual-keys", `{"name":"V NUMBER","provider":"PROVIDER","key":"k","custom_host":"HOST","workspace_id":"default"}`, "custom_host"},
			{"PUT", "/virtual-keys/KEY?workspace_id=default", `{"model_config":{"custom_host":"HOST"}}`, "custom_host"},
			{"POST", "/configs", `{"name":"C","workspace_id":"default","config":{"strategy":{"mode":"single"},"targets":[{"provider":"PROVIDER","api_key":"k","custom_host":"HOST"}]}}`, "config.targets[0].custom_host"},
			{"POST", "/configs", `{"name":"C","workspace_id":"default","config":"{\"strategy\":{\"mode\":\"single\"},\"custom_host\":\"HOST\",\"targets\":[{\"provider\":\"PROVIDER\",\"api_key\":\"k\"}]}"}`, "config.targets[0].custom_host"},
			{"PUT", "/configs/CONFIG", `{"config":{"provider":"PROVIDER","api_key":"k","custom_host":"HOST"}}`, "config.custom_host"},
			{"PUT", "/configs/CONFIG", `{"name":"another"}`, ""},
		} {
			number++
			fill := strings.NewReplacer("HOST", host.address, "PROVIDER", host.provider, "NUMBER", fmt.Sprint(number), "INTEGRATION", integration, "CONFIG", config, "KEY", key)
			res := g.Do(g.Request(tt.method, fill.Replace(tt.path), fill.Replace(tt.body)))
			if res.Status != 200 {
				t.Fatalf("%s %s: status %d: %s", tt.method, tt.path, res.Status, res.Body)
			}
			body := res.JSON(t)
			if data, ok := body["data"].(map[string]any); ok {
				body = data
			}
			switch tt.method + " " + tt.path {
			case "POST /integrations":
				integration = fmt.Sprint(body["slug"])
			case "POST /virtual-keys":
				key = fmt.Sprint(body["slug"])
			case "POST /configs":
				config = fmt.Sprint(body["slug"])
			}
			want := "<nil>"
			if host.removed != "" && tt.field != "" {
				want = fmt.Sprintf("[%s: %q was left out at the end, because the gateway adds the path of each operation]", tt.field, host.removed)
			}
			if got := fmt.Sprint(body["warnings"]); got != want {
				t.Errorf("%s %s with %s: warnings %s, want %s: %s", tt.method, tt.path, host.address, got, want, res.Body)
			}
		}
	}
}
