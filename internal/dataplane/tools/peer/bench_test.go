package peer_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"modelgate/internal/base/bytepool"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/upstream"
)

// fixedServer answers each request with the same response, at little cost.
func fixedServer(b *testing.B, kind, body string) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", kind)
		io.WriteString(w, body)
	})}
	go server.Serve(l)
	b.Cleanup(func() { server.Close() })
	return "http://" + l.Addr().String()
}

var benchResponse = `{"jsonrpc":"2.0","id":"c-1","result":{"content":[{"type":"text","text":"` + string(bytes.Repeat([]byte("word "), 200)) + `"}]}}`

// BenchmarkSend compares a call of a tool with forwarding its bytes.
func BenchmarkSend(b *testing.B) {
	const json, stream = "application/json", "text/event-stream"
	client := upstream.New(upstream.Options{})
	b.Run("forwarded", func(b *testing.B) {
		s, pool := mustServer(b, fixedServer(b, json, benchResponse)), bytepool.New(0)
		message := modernCall(s, "echo", `{"text":"x"}`).Message
		for b.Loop() {
			w := upstream.NewWatchdog(b.Context(), upstream.Timeouts{Header: time.Minute, Total: time.Hour})
			body, _ := pool.Get(len(message))
			body.Fill(func(dst []byte) []byte { return append(dst, message...) })
			req := (&http.Request{Method: http.MethodPost, URL: s.URL, ContentLength: int64(len(message)), Body: body.Reader(),
				GetBody: body.Open, Header: http.Header{"Content-Type": {json}, "Authorization": {"Bearer x"}}}).WithContext(w.Context())
			resp, err := client.Do(req, false)
			if err != nil {
				b.Fatal(err)
			}
			got, err := pool.ReadAll(resp.Body, resp.ContentLength, 16<<20)
			if err != nil {
				b.Fatal(err)
			}
			got.Release()
			resp.Body.Close()
			body.Release()
			w.Stop()
		}
	})
	p := mustPeers(b, peer.Options{Client: client})
	for name, tt := range map[string]struct {
		kind, body string
		legacy     bool
	}{"modern JSON": {json, benchResponse, false}, "legacy JSON": {json, benchResponse, true}, "stream": {stream, "event: message\ndata: " + benchResponse + "\n\n", false}} {
		b.Run(name, func(b *testing.B) {
			s := mustServer(b, fixedServer(b, tt.kind, tt.body))
			call := modernCall(s, "echo", `{"text":"x"}`)
			if tt.legacy {
				call.Session = peer.Session{ID: "s", Version: peer.LegacyVersion}
			}
			for b.Loop() {
				reply, err := p.Send(b.Context(), call)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := reply.Next(); err != nil {
					b.Fatal(err)
				}
				reply.Close()
			}
		})
	}
}
