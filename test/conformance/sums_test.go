package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// TestGroupsSumSeveralDifferentRequests compares the columns of a group with
// the log's entries of its requests, no two of which have the same figures.
func TestGroupsSumSeveralDifferentRequests(t *testing.T) {
	var turn atomic.Int64
	p := newProvider(t, func(w http.ResponseWriter, r *http.Request, in received) {
		n := turn.Add(1)
		w.Header().Set("Content-Type", "application/json")
		if n == 3 {
			w.WriteHeader(http.StatusInternalServerError)
			io.WriteString(w, `{"error":{"message":"broken","type":"server_error"}}`)
			return
		}
		fmt.Fprintf(w, `{"id":"c","object":"chat.completion","model":"gpt-4.1-mini","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}],
			"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`, 1000*n*n, 10*n, 1000*n*n+10*n)
	})
	g := launchFor(t, "version: 1\n", budgetEnv...)
	h := &people{gateway: g, provider: p}
	const requests, responseed = 5.0, 4.0
	var cost, input, output, latency float64
	for range int(requests) {
		got := g.do(t, "POST", modelRoutes[0].path, chatOf("gpt-4.1-mini"), "x-gateway-api-key", bootstrapKey, "x-gateway-provider", "openai",
			"x-gateway-custom-host", p.url, "Authorization", "Bearer "+credential)
		e := g.entry(t, got)
		number := func(path ...any) float64 {
			n, _ := at(e, path...).(json.Number)
			f, _ := n.Float64()
			return f
		}
		cost, latency = cost+number("cost"), latency+number("timing", "total_ms")
		input, output = input+number("usage", "prompt_tokens"), output+number("usage", "completion_tokens")
	}
	if input != 1000*(1+4+16+25) || output != 10*(1+2+4+5) || cost == 0 {
		t.Fatalf("the entries have %v input and %v output tokens and cost %v", input, output, cost)
	}
	want := map[string]float64{
		"cost": cost, "total_tokens": input + output, "avg_tokens": (input + output) / responseed, "avg_input_tokens": input / responseed,
		"avg_output_tokens": output / responseed, "avg_latency": latency / requests, "success_rate": 80, "error_count": 1, "requests": requests,
	}
	for _, base := range []string{"/analytics", "/logs"} {
		prove(t, "S-391 S-393 S-394", "the columns of GET "+base+"/groups/model are those of five different requests", func(t *testing.T) {
			rows := h.groups(t, bootstrapKey, base+"/groups/model?columns="+strings.Join(columns, ","))
			if len(rows) != 1 {
				t.Fatalf("groups = %v, want one", rows)
			}
			for name, exact := range want {
				if got, ok := rows[0][name].(float64); !ok || math.Abs(got-exact) > 1e-6*exact+0.01 {
					t.Errorf("%s = %v, want %v", name, rows[0][name], exact)
				}
			}
		})
	}
}
