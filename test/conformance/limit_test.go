package conformance

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestNothingIsSentUnasked(t *testing.T) {
	g, _ := start(t)
	prove(t, "S-471", "there is no route for webhooks", func(t *testing.T) {
		for _, path := range []string{"/webhooks", "/webhook", "/events", "/hooks"} {
			if got := g.do(t, "POST", path, `{}`, "x-gateway-api-key", bootstrapKey); got.status != http.StatusNotFound {
				t.Errorf("POST %s = %d, want 404", path, got.status)
			}
		}
	})
	prove(t, "S-471 S-516", "two hundred requests make two hundred calls and meet no quota", func(t *testing.T) {
		p := newProvider(t, nil)
		for i := range 200 {
			r := modelRoutes[i%len(modelRoutes)]
			if got := g.do(t, "POST", r.path, r.body, to(p)...); got.status != http.StatusOK {
				t.Fatalf("request %d: status %d, want 200", i, got.status)
			}
		}
		g.entry(t, g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, to(p)...))
		if n := len(p.requests()); n != 201 {
			t.Errorf("the provider was called %d times, want 201", n)
		}
	})
}

func TestManyRequestsAtOnceMeetNoQuota(t *testing.T) {
	g, _ := start(t)
	prove(t, "S-516", "two hundred requests at once", func(t *testing.T) {
		const n = 200
		all, released := make(chan struct{}), make(chan struct{})
		var arrived atomic.Int64
		p := newProvider(t, func(w http.ResponseWriter, r *http.Request, in received) {
			if arrived.Add(1) == n {
				close(all)
			}
			<-released
			canned(w, r, in)
		})
		defer sync.OnceFunc(func() { close(released) })()
		statuses := make(chan int, n)
		for range n {
			go func() {
				req := g.request(t, "POST", modelRoutes[0].path, strings.NewReader(modelRoutes[0].body), to(p, "Content-Type", "application/json")...)
				res, err := client.Do(req)
				if err != nil {
					statuses <- 0
					return
				}
				res.Body.Close()
				statuses <- res.StatusCode
			}()
		}
		select {
		case <-all:
		case status := <-statuses:
			t.Fatalf("one of %d requests at once was answered %d while %d were at the provider", n, status, arrived.Load())
		case <-time.After(patience / 2):
			t.Fatalf("%d of %d requests reached the provider", arrived.Load(), n)
		}
	})
}

func TestBodiesHaveALimit(t *testing.T) {
	g := launchFor(t, "version: 1\nlimits: {json_body: 4 KB, upload_body: 16 KB}\n", "MODELGATE_TRUSTED_HOSTS=127.0.0.1")
	p := newProvider(t, nil)
	chat := func(size int) string {
		const frame = `{"model":"m","messages":[{"role":"user","content":""}]}`
		return strings.Replace(frame, `""`, `"`+strings.Repeat("x", size-len(frame))+`"`, 1)
	}
	for _, tt := range []struct {
		name, path, contentType string
		body                    string
		fits                    bool
	}{
		{"JSON of 4096 bytes", "/v1/chat/completions", "application/json", chat(4096), true},
		{"JSON of 4097 bytes", "/v1/chat/completions", "application/json", chat(4097), false},
		{"an upload of 16384 bytes", "/v1/files", "application/octet-stream", strings.Repeat("x", 16384), true},
		{"an upload of 16385 bytes", "/v1/files", "application/octet-stream", strings.Repeat("x", 16385), false},
	} {
		for _, how := range []string{"announced", "in chunks"} {
			prove(t, "S-517", tt.name+" "+how, func(t *testing.T) {
				p.forget()
				req := g.request(t, "POST", tt.path, strings.NewReader(tt.body), to(p, "Content-Type", tt.contentType)...)
				if how == "in chunks" {
					req.ContentLength, req.Body = -1, io.NopCloser(strings.NewReader(tt.body))
				}
				got := send(t, req)
				if tt.fits {
					got.wantOK(t)
					if n := len(p.only(t).body); n != len(tt.body) {
						t.Errorf("the provider got %d bytes, want %d", n, len(tt.body))
					}
					return
				}
				got.refused(t, http.StatusRequestEntityTooLarge)
				p.wantNoRequests(t)
			})
		}
	}
	prove(t, "S-517", "one that lies about its length reaches nobody", func(t *testing.T) {
		p.forget()
		req := g.request(t, "POST", "/v1/chat/completions", strings.NewReader(chat(200)), to(p, "Content-Type", "application/json")...)
		req.ContentLength = 300
		res, err := client.Do(req)
		if err == nil {
			res.Body.Close()
			if res.StatusCode < 400 {
				t.Errorf("status %d, want a refusal", res.StatusCode)
			}
		}
		p.wantNoRequests(t)
	})
}

func TestUsedUpRateLimitsRefuseBeforeTheBodyIsRead(t *testing.T) {
	s := newSpenders(t)
	limited := func(t *testing.T) string {
		t.Helper()
		key := s.made(t, "/v1/api-keys/workspace/service", `{"name":"l","workspace_id":"`+s.workspace+`","scopes":["completions.write"],"rate_limits":[{"type":"requests","unit":"rpd","value":1}]}`)
		s.eventually(t, key)
		return key
	}
	const cached = `{"provider":"@some","cache":{"mode":"simple"}}`
	ask := func(t *testing.T, key, body string, header ...string) response {
		t.Helper()
		return s.do(t, "POST", "/v1/chat/completions", body, append([]string{"x-gateway-api-key", key}, header...)...)
	}
	prove(t, "M-212", "a request without a config", func(t *testing.T) {
		key := limited(t)
		ask(t, key, withOutput(10), "x-gateway-provider", "@some").wantOK(t)
		before := s.provider.hits()
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.gateway.root, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(patience / 4)) // half of what the gateway waits for a body
		fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nx-gateway-api-key: %s\r\nx-gateway-provider: @some\r\nContent-Length: 1000000\r\n\r\n", key)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("no response before the body was sent: %v", err)
		}
		body, _ := io.ReadAll(res.Body)
		if res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") == "" || res.Header.Get("x-ratelimit-limit-requests") != "1" || s.provider.hits() != before {
			t.Errorf("status %d, %v: %s", res.StatusCode, res.Header, body)
		}
	})
	prove(t, "M-212", "a cached response needs no room", func(t *testing.T) {
		key := limited(t)
		s.entry(t, ask(t, key, withOutput(11), "x-gateway-config", cached).wantOK(t))
		if got := ask(t, key, withOutput(11), "x-gateway-config", cached).wantOK(t); got.header.Get("x-gateway-cache-status") != "HIT" {
			t.Errorf("cache status %s, want HIT", got.header.Get("x-gateway-cache-status"))
		}
		if got := ask(t, key, withOutput(12), "x-gateway-config", cached); got.status != http.StatusTooManyRequests {
			t.Errorf("a request that is not cached: status %d: %s", got.status, got.body)
		}
	})
}
