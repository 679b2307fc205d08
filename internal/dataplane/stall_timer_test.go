package dataplane_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/gatewaytest"
)

// A client that keeps its connection open and reads nothing must not hold an
// upstream connection for ever.
func TestAStalledClientIsDisconnected(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, path, body, kind string }{
		{"stream", "/v1/chat/completions", fmt.Sprintf(hello, true), "text/event-stream"},
		{"pass-through", "/v1/any", `{}`, "application/octet-stream"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			left := make(chan struct{})
			g := gatewaytest.New(t, gatewaytest.Options{
				Settings: "timeouts: {client: 300ms, idle: 1h}\n",
				Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body)
					w.Header().Set("Content-Type", tt.kind)
					line := []byte("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" + strings.Repeat("x", 4000) + "\"}}]}\n\n")
					for r.Context().Err() == nil {
						if _, err := w.Write(line); err != nil {
							break
						}
					}
					close(left)
				}),
			})
			conn, err := net.Dial("tcp", strings.TrimPrefix(g.Root, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nX-Gateway-Api-Key: %s\r\nX-Gateway-Provider: @simulator\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
				tt.path, gatewaytest.Key, len(tt.body), tt.body)
			select {
			case <-left:
			case <-time.After(stallTimer):
				t.Fatal("the provider still sends to a client that reads nothing")
			}
		})
	}
}

// In HTTP/2 the deadline of a stream ends it even while nothing is written.
func TestResponseWhoseProviderPausesIsNotEnded(t *testing.T) {
	t.Parallel()
	const stall = time.Second
	for _, tt := range []struct{ name, path, body, kind string }{
		{"stream", "/v1/chat/completions", fmt.Sprintf(hello, true), "text/event-stream"},
		{"pass-through", "/v1/any", `{}`, "application/octet-stream"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := gatewaytest.New(t, gatewaytest.Options{
				Settings: fmt.Sprintf("timeouts: {client: %v, idle: 1h}\n", stall),
				Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", tt.kind)
					io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"one\"}}]}\n\n")
					w.(http.Flusher).Flush()
					<-time.After(2 * stall)
					io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"two\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
				}),
			})
			client := &http.Client{Transport: &http.Transport{Protocols: new(http.Protocols)}}
			client.Transport.(*http.Transport).Protocols.SetUnencryptedHTTP2(true)
			defer client.CloseIdleConnections()
			req, err := http.NewRequestWithContext(t.Context(), "POST", g.Root+tt.path, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-Gateway-Api-Key", gatewaytest.Key)
			req.Header.Set("X-Gateway-Provider", "@simulator")
			req.Header.Set("Content-Type", "application/json")
			res, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if err != nil || res.ProtoMajor != 2 || !strings.Contains(string(body), `"two"`) || !strings.HasSuffix(string(body), "[DONE]\n\n") {
				t.Errorf("HTTP/%d, %q, %v; want both chunks by HTTP/2", res.ProtoMajor, body, err)
			}
		})
	}
}
