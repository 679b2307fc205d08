package server_test

import (
	"encoding/json"
	"testing"

	"modelgate/internal/gatewaytest"
)

func TestWhatIsAgreedForAnIntegrationComesBeforeTheBook(t *testing.T) {
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
