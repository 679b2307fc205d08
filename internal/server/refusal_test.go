package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/recorder"
	"modelgate/internal/testing/waittest"
)

// roughPost sends the head of a POST of a chat request with a body of n bytes, and no byte
// of the body, and returns the response.
func roughPost(t *testing.T, addr, key string, n int) (*http.Response, error) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nx-gateway-api-key: %s\r\nx-gateway-provider: @simulator\r\nContent-Length: %d\r\n\r\n", key, n)
	return http.ReadResponse(bufio.NewReader(conn), nil)
}

func TestAUsedUpRateLimitRefusesBeforeTheBodyIsRead(t *testing.T) {
	l := newLimitedGateway(t)
	key := l.key(`"rate_limits":[{"type":"requests","unit":"rpm","value":100},{"type":"requests","unit":"rpd","value":1},{"type":"requests","unit":"rpw","value":1}]`)
	if res := l.chat(key, oneChat); res.Status != 200 {
		t.Fatalf("the first: %d %s", res.Status, res.Body)
	}
	res, err := roughPost(t, hostOf(l.URL), key, 1<<20)
	if err != nil {
		t.Fatalf("no response before the body was sent: %v", err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	longest := "1 request per week"
	if time.Now().UTC().Weekday() == time.Sunday { // the week ends with the day, and the day comes first
		longest = "1 request per day"
	}
	if res.StatusCode != 429 || !strings.Contains(string(body), longest) || res.Header.Get("x-ratelimit-limit-requests") != "1" || res.Header.Get("Retry-After") == "" {
		t.Errorf("%d %v %s", res.StatusCode, res.Header, body)
	}
	full := gatewaytest.Response{Status: res.StatusCode, Header: res.Header, Body: body}
	if e := l.Entry(full); strings.Count(fmt.Sprint(e["limits"]), "refused:true") != 2 || e["status"] != 429.0 {
		t.Errorf("recorded: %v", e["limits"])
	}
	if n := l.reached.Load(); n != 1 {
		t.Errorf("%d requests reached the provider", n)
	}
}

func TestACachedResponseNeedsNoRoomInARateLimit(t *testing.T) {
	l := newLimitedGateway(t)
	const config = `{"provider":"@simulator","cache":{"mode":"simple"}}`
	saved := mustDo(t, l.Gateway, "POST", "/configs", `{"name":"c","workspace_id":"default","config":`+config+`}`).JSON(t)
	slug := saved["data"].(map[string]any)["slug"].(string)
	prompt := mustDo(t, l.Gateway, "POST", "/prompts", `{"name":"p","workspace_id":"default","string":"[{\"role\":\"user\",\"content\":\"hi\"}]","parameters":{},"model":"sim-1","virtual_key":"simulator"}`).JSON(t)["slug"].(string)
	completions := "/prompts/" + prompt + "/completions"
	for _, tt := range []struct {
		name, path, body, header, defaults string
	}{
		{"inline", "/chat/completions", chat, config, "{}"},
		{"saved", "/chat/completions", chat, slug, "{}"},
		{"of the key", "/chat/completions", chat, "", `{"config_id":"` + slug + `"}`},
		{"with a saved prompt", completions, `{"variables":{}}`, config, "{}"},
		{"of the key with a saved prompt", completions, `{"variables":{}}`, "", `{"config_id":"` + slug + `"}`},
	} {
		key := l.key(`"rate_limits":[{"type":"requests","unit":"rpd","value":1}],"defaults":` + tt.defaults)
		ask := func(body string) gatewaytest.Response {
			h := []string{"x-gateway-api-key", key, "x-gateway-cache-namespace", tt.name}
			if tt.header != "" {
				h = append(h, "x-gateway-config", tt.header)
			}
			return l.Post(tt.path, body, append(h, "x-gateway-provider", "")...)
		}
		if res := ask(tt.body); res.Status != 200 {
			t.Errorf("a config %s, the first: %d %s", tt.name, res.Status, res.Body)
			continue
		}
		waittest.Until(t, "the cached response of a config "+tt.name+" is returned", func() bool { return ask(tt.body).Header.Get("x-gateway-cache-status") == "HIT" })
		if res := ask(strings.Replace(tt.body, "{", `{"seed":1,`, 1)); res.Status != 429 {
			t.Errorf("a config %s, a request that is not cached: %d %s", tt.name, res.Status, res.Body)
		}
	}
}

// BenchmarkRefusal measures the CPU of refusals and of a response with the same body, on
// connections that stay open. It includes the CPU of a small client, as that of a plain
// handler shows, and that of the simulator for a response.
func BenchmarkRefusal(b *testing.B) {
	g := gatewaytest.New(b, gatewaytest.Options{Settings: "log: {level: info}\n", MasterKey: "the master key of a test of limits", Simulator: recorder.Options{}})
	held := make(chan struct{})
	full := gatewaytest.New(b, gatewaytest.Options{Settings: "limits: {concurrency: {requests: 1, queue: -1}}\n", Upstream: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // until then a closed connection is not noticed
		close(held)
		<-r.Context().Done()
	})})
	body := `{"model":"sim-1","max_tokens":10,"messages":[{"role":"user","content":"` + strings.Repeat("hello ", 600) + `"}]}`
	limited := benchKey(b, g, `"rate_limits":[{"type":"requests","unit":"rpd","value":1}]`)
	g.Post("/chat/completions", body, "x-gateway-api-key", limited, "x-gateway-provider", "@simulator")
	plain := benchPlain(b)
	ctx, release := context.WithCancel(b.Context())
	defer release()
	go full.Do(full.Request("POST", "/chat/completions", body).WithContext(ctx))
	waittest.Receive(b, held, "the request that is held")
	for _, c := range []struct {
		name, addr, key string
		status          int
	}{
		{"plain", plain, "none", 503},
		{"answer", hostOf(g.URL), gatewaytest.Key, 200},
		{"rate_limit", hostOf(g.URL), limited, 429},
		{"gate", hostOf(full.URL), gatewaytest.Key, 503},
	} {
		b.Run(c.name, func(b *testing.B) {
			head := fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nUser-Agent: bench\r\nContent-Type: application/json\r\nx-gateway-api-key: %s\r\nx-gateway-provider: @simulator\r\nContent-Length: %d\r\n\r\n%s", c.key, len(body), body)
			conn, err := net.Dial("tcp", c.addr)
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			r := bufio.NewReader(conn)
			before, n := waittest.CPUTime(b), 0
			b.ReportAllocs()
			for ; b.Loop(); n++ {
				if _, err := io.WriteString(conn, head); err != nil {
					b.Fatal(err)
				}
				res, err := http.ReadResponse(r, nil)
				if err != nil || res.StatusCode != c.status {
					b.Fatal(res, err)
				}
				io.Copy(io.Discard, res.Body)
			}
			b.ReportMetric(float64((waittest.CPUTime(b)-before).Nanoseconds())/float64(n)/1000, "cpu-µs/op")
		})
	}
}

func hostOf(url string) string { return strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/v1") }

func benchKey(b *testing.B, g *gatewaytest.Gateway, limits string) string {
	b.Helper()
	made := g.Post("/api-keys/workspace/service", `{"name":"k","workspace_id":"default","scopes":["completions.write"],`+limits+`}`)
	var key struct{ Key string }
	if err := json.Unmarshal(made.Body, &key); err != nil || key.Key == "" {
		b.Fatalf("%s %v", made.Body, err)
	}
	for g.Get("/models", "x-gateway-api-key", key.Key).Status == 401 {
	}
	return key.Key
}

func benchPlain(b *testing.B) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(503)
		io.WriteString(w, strings.Repeat("x", 300))
	})}
	go srv.Serve(l)
	b.Cleanup(func() { srv.Close() })
	return l.Addr().String()
}
