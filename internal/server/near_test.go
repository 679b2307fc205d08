package server_test

import (
	"encoding/json"
	"strings"
	"testing"

	"modelgate/internal/dataplane"
	"modelgate/internal/testing/gatewaytest"
)

// TestARequestWithoutAProviderIsHelped sends requests with a misspelt header or path and
// reads the error.
func TestARequestWithoutAProviderIsHelped(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{})
	const none = "no provider selected; put it before the model, as in @slug/model, set x-gateway-provider to a provider id or @slug, or send a config that names one"
	for _, tt := range []struct {
		method, path string
		header       []string
		want         string
	}{
		{"POST", "/chat/completions", nil, none},
		{"POST", "/chat/completions", []string{"x-gateway-providr", "@simulator"}, none + "; the header x-gateway-providr has no effect: did you mean x-gateway-provider?"},
		{"POST", "/chat/completions", []string{"x-gatewayprovider", "@simulator"}, none + "; the header x-gatewayprovider has no effect: did you mean x-gateway-provider?"},
		{"POST", "/chat/completions", []string{"x-gateway-confg", "pc-a"}, none + "; the header x-gateway-confg has no effect: did you mean x-gateway-config?"},
		{"POST", "/chat/completion", nil, none + "; POST /v1/chat/completion is not a route of the gateway: did you mean POST /v1/chat/completions?"},
		{"GET", "/chat/completions", nil, none + "; GET /v1/chat/completions is not a route of the gateway: did you mean POST /v1/chat/completions?"},
		{"POST", "/v1/chat/completions", nil, none + "; POST /v1/v1/chat/completions is not a route of the gateway: did you mean POST /v1/chat/completions?"},
		{"GET", "/api-key", nil, none + "; GET /v1/api-key is not a route of the gateway: did you mean GET /v1/api-keys?"},
		{"GET", "/guardrail/gr-1", nil, none + "; GET /v1/guardrail/gr-1 is not a route of the gateway: did you mean GET /v1/guardrails/{guardrail}?"},
		{"GET", "/something/else", nil, none},
	} {
		header := append([]string{"x-gateway-provider", ""}, tt.header...)
		res := g.Do(g.Request(tt.method, tt.path, chat, header...))
		var body struct {
			Error struct{ Message, Code string }
		}
		if err := json.Unmarshal(res.Body, &body); err != nil || res.Status != 400 || body.Error.Code != "missing_provider" || body.Error.Message != tt.want {
			t.Errorf("%s %s %q: %d %s\nwant %s", tt.method, tt.path, tt.header, res.Status, body.Error.Message, tt.want)
		}
	}
}

// TestTheDescriptionHasEveryRoute finds the routes of model requests and of the log in
// the OpenAPI document.
func TestTheDescriptionHasEveryRoute(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{})
	g.URL = g.Root
	var doc struct {
		Paths map[string]map[string]struct{ Summary string }
	}
	if err := json.Unmarshal(g.Get("/openapi.json").Body, &doc); err != nil {
		t.Fatal(err)
	}
	for _, r := range dataplane.Routes() {
		if got := doc.Paths[r.Path][strings.ToLower(r.Method)].Summary; got == "" || got != r.Summary {
			t.Errorf("%s %s is described as %q, want %q", r.Method, r.Path, got, r.Summary)
		}
	}
	for _, want := range []string{"post /v1/chat/completions", "post /v1/messages", "post /v1/responses", "post /v1beta/models/{model}:generateContent", "post /model/{model}/converse",
		"get /v1/models", "get /v1/models/{model}", "get /v1/logs", "get /v1/logs/{log}", "get /v1/logs/tail", "get /v1/explain/{log}", "post /v1/explain", "post /v1/configs"} {
		method, path, _ := strings.Cut(want, " ")
		if doc.Paths[path][method].Summary == "" {
			t.Errorf("%s is not described", want)
		}
	}
}
