package exchange_test

import (
	"net/http"
	"testing"

	"modelgate/api"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/limits/policy"
	"modelgate/internal/limits/quota"
	"modelgate/internal/pipeline/exchange"
)

// A request that the gateway sends itself is limited like the request that causes it,
// by policies for its own model, and carries nothing that the client sent for another.
func TestOwnRequestsHaveLimitsAndNoHeaders(t *testing.T) {
	limits := []*quota.Limit{{}}
	r := &exchange.Request{
		Model:    "gpt-4o",
		Received: exchange.Received{Header: http.Header{"Authorization": {"Bearer k"}}, RequestedModel: "gpt-4o", Query: "a=b"},
		Limiting: exchange.Limiting{Limits: limits, Facts: &policy.Facts{Model: "gpt-4o", EndpointType: "chat", Config: "c", Prompt: "p", KeyID: "key"}},
		Leaves:   []exchange.Leaf{{Guards: new(exchange.Guards)}},
	}
	own := r.Derive(chat.Dialect{}, api.Embeddings, "/embeddings", "embedder")
	if f := own.Limiting.Facts; f.Model != "embedder" || f.EndpointType != string(api.Embeddings) || f.Config != "" || f.Prompt != "" || f.KeyID != "key" {
		t.Errorf("policies read %+v, want those of the embedder and the key", f)
	}
	if r.Limiting.Facts.Model != "gpt-4o" {
		t.Errorf("the facts of the request name %q, want gpt-4o", r.Limiting.Facts.Model)
	}
	if len(own.Limiting.Limits) != 1 || own.Limiting.Limits[0] != limits[0] {
		t.Error("the limits of the request are missing")
	}
	if own.Received.Header.Get("Authorization") != "" || own.Received.Query != "" || own.Leaves != nil {
		t.Errorf("header %v, query %q, leaves %v: want nothing of the request", own.Received.Header, own.Received.Query, own.Leaves)
	}
}

func TestHeadersOfTheGatewayAreNotForwarded(t *testing.T) {
	r := &exchange.Request{Received: exchange.Received{HeaderPrefixes: []string{"x-own-"}}}
	for name, refused := range map[string]bool{"X-Own-": true, "x-own-trace": true, " X-OWN-A ": true, "x-own": false, "x-owner": false, "y-own-": false} {
		if err := r.CheckForwardedHeaders(http.Header{}, []string{name}); (err != nil) != refused {
			t.Errorf("%q: error %v, refused: %t", name, err, refused)
		}
	}
}
