package dataplane_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/gatewaytest"
)

// A client that keeps its connection open and reads nothing must not hold an
// upstream connection for ever.
func TestAClientThatTakesNothingIsGivenUp(t *testing.T) {
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
			case <-time.After(patience):
				t.Fatal("the provider still sends to a client that reads nothing")
			}
		})
	}
}
