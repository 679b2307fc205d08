package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/recorder"
	"modelgate/internal/testing/waittest"
	"modelgate/internal/upstream"
)

// newSlowGateway is a limitedGateway whose provider runs background responses without their
// clients, and never answers requests with "wait".
func newSlowGateway(t *testing.T, settings string) *limitedGateway {
	t.Helper()
	l := &limitedGateway{t: t}
	sim := recorder.New(recorder.Options{})
	l.Gateway = gatewaytest.New(t, gatewaytest.Options{MasterKey: "the master key of a test of limits", Settings: settings, Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.reached.Add(1)
		raw, err := io.ReadAll(r.Body)
		body := string(raw)
		switch {
		case err != nil: // the client left
		case strings.Contains(body, `"wait"`):
			<-r.Context().Done()
		case strings.Contains(body, `"background"`) && strings.Contains(body, `"stream":true`):
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\",\"status\":\"in_progress\",\"background\":true,\"usage\":null}}\n\n")
			fmt.Fprint(w, "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"four\"}\n\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case strings.Contains(body, `"background"`):
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"id":"resp_1","object":"response","status":"queued","background":true,"model":"sim-1","output":[],"usage":null}`)
		default:
			r.Body = io.NopCloser(strings.NewReader(body))
			sim.ServeHTTP(w, r)
		}
	})})
	return l
}

// counted is a limit as GET /limits shows it.
type counted struct {
	Type           string
	Used, Reserved float64
}

// limits returns the limits of a key by type.
func (l *limitedGateway) limits(key string) map[string]counted {
	l.t.Helper()
	var out struct{ Data []counted }
	res := l.Get("/limits", "x-gateway-api-key", key)
	if err := json.Unmarshal(res.Body, &out); err != nil || res.Status != 200 {
		l.t.Fatalf("%d %s, %v", res.Status, res.Body, err)
	}
	all := map[string]counted{}
	for _, c := range out.Data {
		all[c.Type] = c
	}
	return all
}

// send sends a request on a path below the root.
func (l *limitedGateway) send(method, path, key, body string, h ...string) gatewaytest.Response {
	req := l.Request(method, "/chat/completions", body, append([]string{"x-gateway-api-key", key, "x-gateway-provider", "@simulator"}, h...)...)
	req.URL.Path = path
	return l.Do(req)
}

const allLimits = `"rate_limits":[{"type":"requests","unit":"rpd","value":1000},{"type":"tokens","unit":"rpd","value":10000000}],"usage_limits":{"type":"cost","credit_limit":1000}`

// TestResponsesInTheBackgroundCountTheirLargestOutput sends requests whose responses the
// provider makes after they have ended.
func TestResponsesInTheBackgroundCountTheirLargestOutput(t *testing.T) {
	t.Parallel()
	l := newSlowGateway(t, "log: {level: info}\n")
	for _, tt := range []struct {
		body     string
		leave    bool
		from, to float64 // tokens
	}{
		{`{"model":"sim-1","background":true,"max_output_tokens":3000,"input":"hello"}`, false, 3000, 3040},
		{`{"model":"sim-1","background":true,"input":"hello"}`, false, 4096, 4136},
		{`{"model":"sim-1","background":"true","max_output_tokens":3000,"input":"hello"}`, false, 0, 0}, // refused
		{`{"model":"sim-1","background":true,"stream":true,"max_output_tokens":3000,"input":"hello"}`, true, 3000, 3040},
		{`{"model":"sim-1","background":false,"max_output_tokens":3000,"input":"hello"}`, false, 1, 40},
	} {
		key := l.key(allLimits)
		if tt.leave {
			l.leaveAfter(key, "/responses", tt.body, `"delta":"four"`)
		} else if res := l.send("POST", "/v1/responses", key, tt.body); res.Status != 200 && tt.to > 0 || res.Status == 200 && tt.to == 0 {
			t.Errorf("%s: %d %s", tt.body, res.Status, res.Body)
		}
		var got counted
		waittest.Until(t, "the request has ended: "+tt.body, func() bool {
			all := l.limits(key)
			got = all["tokens"]
			return got.Reserved == 0 && (all["requests"].Used == 1 || tt.to == 0)
		})
		if got.Used < tt.from || got.Used > tt.to {
			t.Errorf("%s: %g tokens, want %g to %g", tt.body, got.Used, tt.from, tt.to)
		}
	}
	poor := l.key(`"usage_limits":{"type":"tokens","credit_limit":2000,"on_budget_end":"stop"}`)
	for _, body := range []string{
		`{"model":"sim-1","background":true,"stream":true,"max_output_tokens":3000,"input":"hello"}`,
		`{"model":"sim-1","background":true,"max_output_tokens":3000,"input":"hello"}`,
	} {
		before := l.reached.Load()
		if res := l.send("POST", "/v1/responses", poor, body); res.Status != 412 || l.reached.Load() != before {
			t.Errorf("%s with too little left: %d %s", body, res.Status, res.Body)
		}
	}
}

// leaveAfter sends a request and leaves when a text of the response has arrived.
func (l *limitedGateway) leaveAfter(key, path, body, text string) {
	l.t.Helper()
	ctx, leave := context.WithTimeout(l.t.Context(), storeTimeout)
	defer leave()
	req := l.Request("POST", path, body, "x-gateway-api-key", key, "x-gateway-provider", "@simulator").WithContext(ctx)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		l.t.Fatal(err)
	}
	defer res.Body.Close()
	var read strings.Builder
	buf := make([]byte, 512)
	for !strings.Contains(read.String(), text) {
		n, err := res.Body.Read(buf)
		read.Write(buf[:n])
		if err != nil {
			l.t.Fatalf("%d %s: %v", res.StatusCode, read.String(), err)
		}
	}
}

// TestRequestsThatTheirClientAbandonsCount sends requests that the provider has when their
// client leaves, or when the timeout that it chose ends. A timeout that ends before the
// provider has the request is doubled.
func TestRequestsThatTheirClientAbandonsCount(t *testing.T) {
	t.Parallel()
	l := newSlowGateway(t, "log: {level: info}\n")
	const body = `{"model":"sim-1","max_tokens":10,"messages":[{"role":"user","content":"wait"}]}`
	for _, tt := range []struct {
		name string
		send func(key string, timeout int) // in milliseconds
	}{
		{"timeout of the request", func(key string, timeout int) {
			if res := l.chat(key, body, "x-gateway-request-timeout", fmt.Sprint(timeout)); res.Status != 408 {
				t.Errorf("%d %s", res.Status, res.Body)
			}
		}},
		{"timeout of the config", func(key string, timeout int) {
			if res := l.Post("/chat/completions", body, "x-gateway-api-key", key, "x-gateway-config", fmt.Sprintf(`{"provider":"@simulator","request_timeout":%d}`, timeout)); res.Status != 408 {
				t.Errorf("%d %s", res.Status, res.Body)
			}
		}},
		{"timeout of a retried request", func(key string, timeout int) {
			if res := l.Post("/chat/completions", body, "x-gateway-api-key", key, "x-gateway-config", fmt.Sprintf(`{"provider":"@simulator","request_timeout":%d,"retry":{"attempts":1,"on_status_codes":[408]}}`, timeout)); res.Status != 408 {
				t.Errorf("%d %s", res.Status, res.Body)
			}
		}},
		{"client that leaves", func(key string, _ int) {
			before := l.reached.Load()
			ctx, leave := context.WithCancel(t.Context())
			go func() {
				for l.reached.Load() == before && ctx.Err() == nil {
					<-time.After(time.Millisecond)
				}
				leave()
			}()
			req := l.Request("POST", "/chat/completions", body, "x-gateway-api-key", key, "x-gateway-provider", "@simulator").WithContext(ctx)
			if res, err := http.DefaultClient.Do(req); !errors.Is(err, context.Canceled) {
				t.Errorf("%v, %v", res, err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var key string
			var n float64
			for timeout := 200; n == 0 && timeout < 60_000; timeout *= 2 {
				before := l.reached.Load()
				key = l.key(strings.Replace(allLimits, "1000}", "1}", 1))
				tt.send(key, timeout)
				n = float64(l.reached.Load() - before)
			}
			var got map[string]counted
			waittest.Until(t, "the request has ended", func() bool {
				got = l.limits(key)
				return got["requests"].Reserved+got["tokens"].Reserved+got["cost"].Reserved == 0
			})
			if got["requests"].Used != 1 || got["tokens"].Used < 4*n || got["tokens"].Used > 20*n || got["cost"].Used == 0 {
				t.Errorf("counted %+v for %g attempts", got, n)
			}
			if res := l.chat(key, oneChat); res.Status != 429 {
				t.Errorf("the next request: %d %s", res.Status, res.Body)
			}
		})
	}
}

// TestTimeoutsBeforeAProviderIsReachedReturnWhatWasReserved sends requests to a provider
// that cannot be connected to, on both ways of sending.
func TestTimeoutsBeforeAProviderIsReachedReturnWhatWasReserved(t *testing.T) {
	t.Parallel()
	l := &limitedGateway{t: t}
	l.Gateway = gatewaytest.New(t, gatewaytest.Options{MasterKey: "the master key of a test of limits", Settings: "log: {level: info}\n", Reach: upstream.Options{
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, context.Cause(ctx) },
	}})
	for _, size := range []int{10, 100_000} {
		key := l.key(allLimits)
		res := l.chat(key, strings.Replace(oneChat, "hello", strings.Repeat("a", size), 1), "x-gateway-request-timeout", "100")
		if got := l.limits(key); res.Status != 408 || got["requests"].Used+got["requests"].Reserved+got["tokens"].Used+got["tokens"].Reserved != 0 {
			t.Errorf("%d %s; counted %+v", res.Status, res.Body, got)
		}
	}
}

// TestClientsThatLeaveBeforeAProviderIsReachedReturnWhatWasReserved has clients leave while
// the gateway connects, on both ways of sending. No limit counts anything then, also that of
// the provider, and the ledger has no usage.
func TestClientsThatLeaveBeforeAProviderIsReachedReturnWhatWasReserved(t *testing.T) {
	t.Parallel()
	l := &limitedGateway{t: t}
	dialled := make(chan bool, 8)
	l.Gateway = gatewaytest.New(t, gatewaytest.Options{MasterKey: "the master key of a test of limits", Settings: "log: {level: info}\n", Reach: upstream.Options{
		TrustLoopback: true,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			dialled <- true
			<-ctx.Done()
			return nil, context.Cause(ctx)
		},
	}})
	l.provider("unreached", `"rate_limits":[{"type":"requests","unit":"rpd","value":1},{"type":"tokens","unit":"rpd","value":1000}]`)
	for _, size := range []int{10, 100_000} {
		key := l.key(allLimits)
		body := strings.Replace(oneChat, "hello", strings.Repeat("a", size), 1)
		for _, h := range [][]string{nil, {"x-gateway-request-timeout", "60000"}, {"x-gateway-trace-id", "last"}} {
			ctx, leave := context.WithCancel(t.Context())
			go func() {
				select {
				case <-dialled:
				case <-time.After(storeTimeout):
				}
				leave()
			}()
			req := l.Request("POST", "/chat/completions", body, append([]string{"x-gateway-api-key", key, "x-gateway-provider", "@unreached"}, h...)...).WithContext(ctx)
			if res, err := http.DefaultClient.Do(req); !errors.Is(err, context.Canceled) {
				t.Fatalf("%v, %v", res, err)
			}
			l.nothingCounted(key, "unreached") // the gateway settles after the client has left
		}
	}
}

// nothingCounted waits until the limits of a key and of its provider reserve nothing, and
// fails the test if they count anything.
func (l *limitedGateway) nothingCounted(key, provider string) {
	l.t.Helper()
	for owner, caller := range map[string]string{"owner=key": key, "owner=provider&workspace_id=default&id=" + provider: gatewaytest.Key} {
		var used string
		waittest.Until(l.t, owner+" reserves nothing", func() bool {
			var out struct{ Data []counted }
			res := l.Get("/limits?"+owner, "x-gateway-api-key", caller)
			if err := json.Unmarshal(res.Body, &out); err != nil || len(out.Data) < 2 {
				l.t.Fatalf("%d %s, %v", res.Status, res.Body, err)
			}
			used = ""
			for _, c := range out.Data {
				if c.Reserved != 0 {
					return false
				}
				if c.Used != 0 {
					used += fmt.Sprintf("%+v ", c)
				}
			}
			return true
		})
		if used != "" {
			l.t.Errorf("%s counts %s", owner, used)
		}
	}
}

// TestRefusedHostsCountNoRequest names a host whose address the gateway refuses when it
// connects, so that nothing is sent.
func TestRefusedHostsCountNoRequest(t *testing.T) {
	t.Parallel()
	l := &limitedGateway{t: t}
	l.Gateway = gatewaytest.New(t, gatewaytest.Options{MasterKey: "the master key of a test of limits", Settings: "log: {level: info}\n", Reach: upstream.Options{Resolver: privateNames{}}})
	key := l.key(allLimits)
	res := l.Post("/chat/completions", oneChat, "x-gateway-api-key", key, "x-gateway-provider", "openai", "Authorization", "Bearer sk-1", "x-gateway-custom-host", "https://models.example.com/v1")
	if got := l.limits(key); res.Status != 400 || !strings.Contains(string(res.Body), "custom_host_refused") || got["requests"].Used+got["requests"].Reserved+got["tokens"].Used+got["tokens"].Reserved != 0 {
		t.Errorf("%d %s; counted %+v", res.Status, res.Body, got)
	}
}

// privateNames resolves every name to a private address.
type privateNames struct{}

func (privateNames) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
}

// TestUnitsFitIntoABudget sends requests for images and speech whose price
// is known before they are sent, with a budget that is never exceeded.
func TestUnitsFitIntoABudget(t *testing.T) {
	t.Parallel()
	l := newSlowGateway(t, `
prices:
  - {provider: openai-compatible, model: painter, images: {default: 0.04, hd: 4}}
  - {provider: openai-compatible, model: sketcher, images: {default: 0.04}, request: 0.03}
  - {provider: openai-compatible, model: speaker, characters: 15}
  - {provider: openai-compatible, model: listener, second: 0.001}
log: {level: info}
`)
	const form = "multipart/form-data; boundary=x"
	recording := func(n int) string {
		return "--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nlistener\r\n--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.mp3\"\r\n\r\n" + strings.Repeat("a", n) + "\r\n--x--\r\n"
	}
	for _, tt := range []struct {
		path, body, media string
		budget            string // dollars, of at least 0.01
		fits              bool
	}{
		{"/v1/images/generations", `{"model":"painter","prompt":"a kiwi"}`, "", "0.05", true},
		{"/v1/images/generations", `{"model":"painter","prompt":"a kiwi"}`, "", "0.03", false},
		{"/v1/images/generations", `{"model":"painter","prompt":"a kiwi","n":2}`, "", "0.05", false},
		{"/v1/images/generations", `{"model":"painter","prompt":"a kiwi","n":2}`, "", "0.09", true},
		{"/v1/images/generations", `{"model":"painter","prompt":"a kiwi","quality":"hd"}`, "", "3.9", false},
		{"/v1/images/generations", `{"model":"painter","prompt":"a kiwi","quality":"hd"}`, "", "4.1", true},
		{"/v1/images/generations", `{"model":"sketcher","prompt":"a kiwi"}`, "", "0.06", false},
		{"/v1/images/generations", `{"model":"sketcher","prompt":"a kiwi"}`, "", "0.08", true},
		{"/v1/audio/speech", `{"model":"speaker","input":"` + strings.Repeat("a", 4000) + `","voice":"v"}`, "", "0.05", false}, // 0.06
		{"/v1/audio/speech", `{"model":"speaker","input":"` + strings.Repeat("a", 4000) + `","voice":"v"}`, "", "0.07", true},
		{"/v1/audio/speech", `{"model":"speaker","input":"` + strings.Repeat("é", 4000) + `","voice":"v"}`, "", "0.08", true},
		{"/v1/audio/transcriptions", recording(75_000), form, "0.09", false}, // up to 100 seconds
		{"/v1/audio/transcriptions", recording(75_000), form, "0.11", true},
	} {
		policy := l.policy("usage-limits", fmt.Sprintf(`{"name":"p","type":"cost","credit_limit":%s,"on_budget_end":"stop","conditions":[{"key":"metadata.app","value":"%s"}],"group_by":[{"key":"api_key"}]}`, tt.budget, "a"+tt.budget+tt.path))
		key, before := l.key(`"rate_limits":[]`), l.reached.Load()
		metadata := fmt.Sprintf(`{"app":"a%s%s"}`, tt.budget, tt.path)
		h := []string{"x-gateway-metadata", metadata}
		if tt.media != "" {
			h = append(h, "Content-Type", tt.media)
		}
		res := l.send("POST", tt.path, key, tt.body, h...)
		if fits := l.reached.Load() > before; fits != tt.fits || !tt.fits && res.Status != 412 {
			t.Errorf("%s %.60s of %s dollars (policy %s): %d %.300s", tt.path, tt.body, tt.budget, policy, res.Status, res.Body)
		}
	}
}

// TestLimitsAreNotLeftBehindByConnections refuses what makes a client independent of the
// gateway, on every path that a provider may read as one that does.
func TestLimitsAreNotLeftBehindByConnections(t *testing.T) {
	t.Parallel()
	l := newSlowGateway(t, "log: {level: info}\n")
	key := l.key(`"rate_limits":[]`)
	for _, path := range []string{
		"/v1/realtime/client_secrets", "/v1/realtime/sessions", "/v1/Realtime/Sessions/", "/v1/realtime/transcription_sessions",
		"/v1/realtime/client_secrets;a=b", "/v1/chatkit/sessions", "/v1/organization/admin_api_keys", "/v1/keys", "/v1/auth/grant", "/v1/auth_tokens", "/v1/auth_tokens;v=1/x",
	} {
		for _, method := range []string{"POST", "GET", "PUT"} {
			before := l.reached.Load()
			if res := l.send(method, path, key, `{}`, "x-gateway-pass-through", "true"); l.reached.Load() != before || res.Status != 403 || !strings.Contains(string(res.Body), "providers.update") {
				t.Errorf("%s %s: %d %s", method, path, res.Status, res.Body)
			}
		}
	}
	// The gateway counts what calls use, so they have one spelling.
	for _, path := range []string{"/v1/Realtime/Calls/", "/v1/realtime/calls;a=b", "/v1/realtime//calls"} {
		before := l.reached.Load()
		if res := l.send("POST", path, key, `{}`, "x-gateway-pass-through", "true"); l.reached.Load() != before || res.Status != 400 {
			t.Errorf("%s: %d %s", path, res.Status, res.Body)
		}
	}
	if res := l.send("POST", "/v1/realtime/client_secrets", gatewaytest.Key, `{}`); res.Status != 200 {
		t.Errorf("a key that may change providers: %d %s", res.Status, res.Body)
	}
	for _, path := range []string{"/v1/realtime", "/v1/responses", "/v1/chat/completions", "/v1/any"} {
		before := l.reached.Load()
		for _, value := range []string{"websocket", "WebSocket", "h2c, websocket/13"} {
			res := l.send("GET", path, key, "", "Connection", "Upgrade", "Upgrade", value)
			if l.reached.Load() != before || res.Status != 426 || !strings.Contains(string(res.Body), `"websocket_unsupported"`) {
				t.Errorf("%s by %s: %d %s", path, value, res.Status, res.Body)
			}
		}
	}
	if res := l.send("GET", "/v1/any", key, "", "Connection", "Upgrade", "Upgrade", "h2c"); res.Status != 200 {
		t.Errorf("another protocol, which a server may ignore: %d %s", res.Status, res.Body)
	}
}
