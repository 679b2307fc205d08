package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

func TestNegotiatedPricesComeBeforeTheBook(t *testing.T) {
	t.Parallel()
	// The provider says: 3 tokens read, 2 written, by the model "served".
	w := new(witness)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: w, MasterKey: master, Settings: "prices:\n  - {provider: openai, model: base-1, input: 100, output: 200}\n"})
	integrate := func(slug, rest string) {
		t.Helper()
		mustCall(t, g, "POST", "/integrations", `{"name":"n","slug":"`+slug+`","ai_provider_id":"openai","key":"the-key-of-all","configurations":{"custom_host":"`+g.Upstream+`"}`+rest+`}`)
	}
	integrate("plain", "")
	integrate("own", "")
	mustCall(t, g, "PUT", "/integrations/own/models",
		`{"models":[{"slug":"base-1","enabled":true,"pricing_config":{"type":"static","pay_as_you_go":{"request_token":{"price":0.02},"response_token":{"price":0.05}}}}],"allow_all_models":true}`)
	integrate("dear", `,"pricing_adjustments":{"multiplier":1.5}`)
	integrate("mixed", `,"pricing_adjustments":{"default":{"multiplier":3},"gpt-4.1":{"multiplier":0.5}}`)
	for _, tt := range []struct {
		provider, model string
		cents           string // 100 and 200 dollars for a million tokens are 0.01 and 0.02 cents for one
		row             string
	}{
		{"@plain", "base-1", "0.07", "openai/base-1"}, // 3 × 0.01 + 2 × 0.02
		{"@own", "base-1", "0.16", "integration/base-1"},
		{"@own", "gpt-4.1", "0.0022", "openai/gpt-4.1"}, // 3 × 0.0002 + 2 × 0.0008, of the book
		{"@dear", "base-1", "0.105", "openai/base-1 x1.5"},
		{"@mixed", "gpt-4.1", "0.0011", "openai/gpt-4.1 x0.5"},
		{"@mixed", "base-1", "0.21", "openai/base-1 x3"},
		{"@plain", "other", "", ""},
		{"@dear", "other", "", ""},
	} {
		res := g.Post("/chat/completions", chatFor(tt.model), "x-gateway-provider", tt.provider)
		entry := g.Do(g.Request("GET", "/logs/"+res.Header.Get("x-gateway-request-id"), ""))
		var got struct {
			Cost  json.Number
			Price *string
		}
		if err := json.Unmarshal(entry.Body, &got); err != nil || entry.Status != 200 {
			t.Fatalf("%d %s", entry.Status, entry.Body)
		}
		row := ""
		if got.Price != nil {
			row = *got.Price
		}
		if got.Cost.String() != tt.cents || row != tt.row {
			t.Errorf("%s at %s costs %q cents by %q, want %q by %q", tt.model, tt.provider, got.Cost, row, tt.cents, tt.row)
		}
	}
}

// served answers in the tier that it is asked for: 3 tokens read, 2 written.
func served(out http.ResponseWriter, r *http.Request) {
	var asked struct {
		Tier string `json:"service_tier"`
	}
	json.NewDecoder(r.Body).Decode(&asked)
	out.Header().Set("Content-Type", "application/json")
	io.WriteString(out, `{"id":"c","object":"chat.completion","model":"m","service_tier":"`+asked.Tier+`","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`)
}

func TestTheTierOfAResponseIsInItsCost(t *testing.T) {
	t.Setenv("SIM_KEY", "k")
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: http.HandlerFunc(served), Settings: `
providers:
  - {slug: ours, provider: openai, custom_host: SIMULATOR, api_key: "${SIM_KEY}"}
prices:
  - {provider: openai, model: m, input: 100, output: 200, batch: 50, priority: 200}
  - {provider: openai, model: plain, input: 100, output: 200}
upstream: {trusted_hosts: [127.0.0.1]}
`})
	for _, tt := range []struct {
		model, tier string
		cost, row   any
	}{
		{"m", "default", 0.07, "openai/m"},
		{"m", "flex", 0.035, "openai/m flex"},
		{"m", "priority", 0.14, "openai/m priority"},
		{"m", "scale", nil, nil},
		{"plain", "default", 0.07, "openai/plain"},
		{"plain", "flex", nil, nil},
		{"plain", "priority", nil, nil},
	} {
		body := fmt.Sprintf(`{"model":%q,"service_tier":%q,"messages":[{"role":"user","content":"hi"}]}`, tt.model, tt.tier)
		e := g.Entry(g.Post("/chat/completions", body, "x-gateway-provider", "@ours"))
		if e["cost"] != tt.cost || e["price"] != tt.row {
			t.Errorf("%s in the tier %s costs %v cents by %v, want %v by %v", tt.model, tt.tier, e["cost"], e["price"], tt.cost, tt.row)
		}
	}
}

func TestImagesCostWhatTheirTokensDo(t *testing.T) {
	t.Setenv("SIM_KEY", "k")
	paint := func(out http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		usage := `,"usage":{"total_tokens":30,"input_tokens":10,"output_tokens":20,"input_tokens_details":{"text_tokens":10,"image_tokens":0}}`
		if bytes.Contains(body, []byte("dall-e")) {
			usage = ""
		}
		out.Header().Set("Content-Type", "application/json")
		io.WriteString(out, `{"created":1,"data":[{"b64_json":"AA"}]`+usage+`}`)
	}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: http.HandlerFunc(paint), Settings: `
providers:
  - {slug: ours, provider: openai, custom_host: SIMULATOR, api_key: "${SIM_KEY}"}
upstream: {trusted_hosts: [127.0.0.1]}
`})
	for model, cost := range map[string]any{"gpt-image-1": 0.085, "dall-e-3": nil} { // 10 × 5 and 20 × 40 dollars for a million
		e := g.Entry(g.Post("/images/generations", `{"model":"`+model+`","prompt":"a cat"}`, "x-gateway-provider", "@ours"))
		if e["status"] != 200.0 || e["cost"] != cost {
			t.Errorf("an image of %s: status %v, cost %v cents, want %v", model, e["status"], e["cost"], cost)
		}
	}
}
