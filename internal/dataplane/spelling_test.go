package dataplane_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// https://learn.microsoft.com/azure/ai-services/openai/reference
func TestModelIsSentAsItsProviderSpellsIt(t *testing.T) {
	t.Parallel()
	var sent string
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		sent = string(b)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`)
	})})
	config := strings.Replace(`{"provider":"azure-openai","api_key":"k","custom_host":"HOST","resource_name":"r","deployment_id":"d","cloud_c_model_name":"gpt-x"}`, "HOST", g.Upstream, 1)
	for model, want := range map[string]string{"m": "gpt-x", "gpt-x": "gpt-x", `gpt\u002dx`: `gpt\u002dx`} {
		body := `{"model": "` + model + `", "messages": [{"role": "user", "content": "hi"}]}`
		res := g.Do(g.Request("POST", "/chat/completions", body, "x-gateway-config", config))
		if want := strings.Replace(body, `"`+model+`"`, `"`+want+`"`, 1); res.Status != 200 || sent != want {
			t.Errorf("the provider got %s with status %d, want %s: %s", sent, res.Status, want, res.Body)
		}
	}
}
