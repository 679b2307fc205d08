package dataplane_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"modelgate/internal/dataplane"
	"modelgate/internal/testing/gatewaytest"
)

// BenchmarkToolCall compares what a call of a tool costs the gateway, in front of a server
// that responds at once, with a POST of the same size that passes through to a provider. Run it with
//
//	go test ./internal/dataplane -run none -bench ToolCall -cpu 1
func BenchmarkToolCall(b *testing.B) {
	const result = `{"content":[{"type":"text","text":"done"}]}`
	const message = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x","arguments":{"q":"what is the weather"}}}`
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"jsonrpc":"2.0","id":7,"result":`+result+`}`)
	}))
	b.Cleanup(upstream.Close)
	f := &relay{price: cent, server: forward(upstream.URL)}
	g := newToolGateway(b, f, gatewaytest.Options{Upstream: upstream.Config.Handler})
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	send := func(b *testing.B, url string, h ...string) {
		b.ReportAllocs()
		for b.Loop() {
			req, _ := http.NewRequestWithContext(b.Context(), "POST", url, strings.NewReader(message))
			req.Header.Set("Content-Type", "application/json")
			for i := 0; i < len(h); i += 2 {
				req.Header.Set(h[i], h[i+1])
			}
			res, err := client.Do(req)
			if err != nil {
				b.Fatal(err)
			}
			body, _ := io.ReadAll(res.Body)
			res.Body.Close()
			if res.StatusCode != 200 || !strings.Contains(string(body), "done") {
				b.Fatalf("%d %s", res.StatusCode, body)
			}
		}
	}
	b.Run("tool", func(b *testing.B) { send(b, g.Root+"/mcp/github", "authorization", "Bearer "+g.key) })
	b.Run("pass through", func(b *testing.B) {
		send(b, g.URL+"/unknown", "x-gateway-api-key", gatewaytest.Key, "x-gateway-provider", "@simulator")
	})
}

// forward returns a server that a call reaches over HTTP.
func forward(url string) func(context.Context, *dataplane.ToolCall, string) (string, dataplane.ToolEnd) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	return func(ctx context.Context, _ *dataplane.ToolCall, arguments string) (string, dataplane.ToolEnd) {
		req, _ := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(arguments))
		res, err := client.Do(req)
		if err != nil {
			return "", dataplane.ToolEnd{Err: err}
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		text, _ := strings.CutPrefix(string(body), `{"jsonrpc":"2.0","id":7,"result":`)
		return strings.TrimSuffix(text, "}"), dataplane.ToolEnd{Status: res.StatusCode, Err: err}
	}
}
