package dataplane_test

import (
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

func TestBaggageBecomesMetadataBelowWhatIsThere(t *testing.T) {
	t.Parallel()
	handler, _ := asked(t)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: handler})
	long := strings.Repeat("x", 513)
	for _, tt := range []struct {
		name, baggage, metadata, want string
	}{
		{"decoded, with properties", "tenant=a%20b%2Cc ; ttl=5, plain=x=y", "", "map[plain:x=y tenant:a b,c]"},
		{"under metadata", "team=bags,other=1", `{"team":"headers"}`, "map[other:1 team:headers]"},
		{"malformed members", "a, =b, c=%zz, d=%ff, e=" + long + "," + long + "=f, g=", "", "map[g:]"},
		{"the first of a name", "a=1,a=2", "", "map[a:1]"},
		{"too many", strings.Repeat("x,", 64) + "a=1", "", "map[]"},
		{"too long", "a=" + strings.Repeat("x", 8192), "", "map[]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := g.Entry(g.Post("/chat/completions", plainChat, "baggage", tt.baggage, "x-gateway-metadata", tt.metadata))
			if got := fmt.Sprint(e["metadata"]); got != tt.want {
				t.Errorf("metadata = %s, want %s", got, tt.want)
			}
		})
	}
}

func TestATraceparentGivesTheExchangeASpanOfItsOwn(t *testing.T) {
	t.Parallel()
	handler, _ := asked(t)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: handler})
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	res := g.Post("/chat/completions", plainChat, "traceparent", parent)
	id := strings.ReplaceAll(res.Header.Get("x-gateway-request-id"), "-", "")
	recorded(t, g.Entry(res), map[string]any{"span_id": id[16:], "span_name": "POST /v1/chat/completions"})
	res = g.Post("/chat/completions", plainChat, "traceparent", parent, "x-gateway-span-id", "mine", "x-gateway-span-name", "step 1", "x-gateway-parent-span-id", "above")
	recorded(t, g.Entry(res), map[string]any{"span_id": "mine", "span_name": "step 1", "parent_span_id": "above"})
}
