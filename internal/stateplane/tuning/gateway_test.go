package tuning_test

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/http"
	"slices"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

// TestAGatewayBillsTraining trains a model at a provider through a running gateway.
func TestAGatewayBillsTraining(t *testing.T) {
	t.Setenv("SIM_KEY", gatewaytest.SimulatorKey)
	g := gatewaytest.New(t, gatewaytest.Options{MasterKey: "training-master-key-0123456789abcdef", Settings: `version: 1
providers:
  - {slug: openai, provider: openai, custom_host: "SIMULATOR", api_key: "${SIM_KEY}"}
prices:
  - {provider: openai, model: "gpt-4o-mini*", training: 3}
`})
	call := func(method, path, body string, h ...string) map[string]any {
		t.Helper()
		res := g.Do(g.Request(method, path, body, append([]string{"x-gateway-provider", ""}, h...)...))
		if res.Status != http.StatusOK {
			t.Fatalf("%s %s: status %d: %s", method, path, res.Status, res.Body)
		}
		return res.JSON(t)
	}
	var buf bytes.Buffer
	form := multipart.NewWriter(&buf)
	form.WriteField("purpose", "fine-tune")
	part, _ := form.CreateFormFile("file", "examples.jsonl") // writes to memory
	for i := range 20 {
		fmt.Fprintf(part, `{"messages":[{"role":"user","content":"say %d"},{"role":"assistant","content":"%d"}]}`+"\n", i, i)
	}
	form.Close()
	file := call("POST", "/files", buf.String(), "Content-Type", form.FormDataContentType(), "x-gateway-provider", "@openai")["id"]
	job := call("POST", "/fine_tuning/jobs", fmt.Sprintf(`{"model":"gpt-4o-mini-2024-07-18","training_file":%q}`, file), "x-gateway-provider", "@openai")
	id := job["id"].(string)
	waittest.Until(t, "the end of the training", func() bool {
		job = call("GET", "/fine_tuning/jobs/"+id, "")
		return job["status"] == "succeeded"
	})
	var entries []any
	waittest.Until(t, "the log entry", func() bool {
		entries = call("GET", "/logs?operation=fine_tuning&provider=openai&limit=100", "")["data"].([]any)
		entries = slices.DeleteFunc(entries, func(e any) bool { return e.(map[string]any)["usage"] == nil }) // requests of the test
		return len(entries) > 0
	})
	tokens := job["trained_tokens"].(float64)
	e := entries[0].(map[string]any)
	if want := tokens * 3 / 1e6 * 100; len(entries) != 1 || tokens <= 0 || e["cost"] == nil || e["cost"].(float64) < want*0.99 || e["cost"].(float64) > want*1.01 { // in cents
		t.Errorf("%d entries, %v tokens cost %v cents, want %v", len(entries), tokens, e["cost"], want)
	}
}
