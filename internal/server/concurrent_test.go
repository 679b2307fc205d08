package server_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/recorder"
	"modelgate/internal/testing/waittest"
)

// heldGateway is a gateway whose provider holds requests that ask for it.
type heldGateway struct {
	*limitedGateway
	holding chan bool // receives when the provider has a request that it holds
	release chan bool // a request ends for each value
}

const heldChat = `{"model":"sim-1","max_tokens":10,"messages":[{"role":"user","content":"hold"}]}`

func newHeldGateway(t *testing.T, settings string) *heldGateway {
	t.Parallel()
	h := &heldGateway{limitedGateway: &limitedGateway{t: t}, holding: make(chan bool, 16), release: make(chan bool)}
	h.Gateway = gatewaytest.New(t, gatewaytest.Options{Settings: settings, MasterKey: "the master key of a test of requests in progress", Simulator: recorder.Options{
		Check: func(_ *http.Request, body []byte) error {
			h.reached.Add(1)
			if strings.Contains(string(body), `"hold"`) {
				h.holding <- true
				select {
				case <-h.release:
				case <-t.Context().Done():
				}
			}
			return nil
		},
	}})
	return h
}

// hold sends a request that the provider holds, and returns its future response.
func (h *heldGateway) hold(key string, headers ...string) chan gatewaytest.Response {
	done := make(chan gatewaytest.Response, 1)
	go func() { done <- h.chat(key, heldChat, headers...) }()
	h.t.Helper()
	select {
	case <-h.holding:
	case res := <-done:
		h.t.Fatalf("a request that the provider was to hold: %d %s", res.Status, res.Body)
	case <-time.After(storeTimeout):
		h.t.Fatalf("a request did not reach the provider, which has received %d", h.reached.Load())
	}
	return done
}

// releaseOne has the provider answer one request that it holds.
func (h *heldGateway) releaseOne() {
	h.t.Helper()
	select {
	case h.release <- true:
	case <-time.After(storeTimeout):
		h.t.Fatalf("the provider, which has received %d requests, holds none", h.reached.Load())
	}
}

// await returns the next response of those to come.
func (h *heldGateway) await(done ...chan gatewaytest.Response) gatewaytest.Response {
	h.t.Helper()
	for deadline := time.Now().Add(storeTimeout); time.Now().Before(deadline); {
		for _, d := range done {
			select {
			case res := <-d:
				return res
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	h.t.Fatalf("waited in vain for a response; the provider has received %d requests", h.reached.Load())
	panic("not reached")
}

func (h *heldGateway) reservedBy(key string) float64 {
	list, _ := h.Get("/limits", "x-gateway-api-key", key).JSON(h.t)["data"].([]any)
	s, _ := list[0].(map[string]any)
	if s["unit"] != "concurrent" || s["used"] != 0.0 || s["reset_at"] != nil {
		h.t.Errorf("limit %v", s)
	}
	return s["reserved"].(float64)
}

func TestRequestsInProgressOfAKeyAreLimited(t *testing.T) {
	h := newHeldGateway(t, "")
	key := h.key(`"rate_limits":[{"type":"requests","unit":"concurrent","value":2}]`)
	first, second := h.hold(key), h.hold(key)
	if n := h.reservedBy(key); n != 2 {
		t.Errorf("%v requests are in progress, want 2", n)
	}
	res := h.chat(key, oneChat)
	if res.Status != 429 || res.Header.Get("Retry-After") != "1" || !strings.Contains(string(res.Body), "this gateway key has reached its limit of requests in progress, 2 requests at a time") || h.reached.Load() != 2 {
		t.Errorf("a third request: %d %v %s, %d reached the provider", res.Status, res.Header, res.Body, h.reached.Load())
	}
	if other := h.key(`"rate_limits":[{"type":"requests","unit":"concurrent","value":1}]`); h.chat(other, oneChat).Status != 200 {
		t.Error("another key is limited as well")
	}
	h.releaseOne()
	if res = h.await(first, second); res.Status != 200 {
		t.Errorf("a request within the limit: %d %s", res.Status, res.Body)
	}
	waittest.Until(t, "the place is free", func() bool { return h.reservedBy(key) == 1 })
	if res := h.chat(key, oneChat); res.Status != 200 {
		t.Errorf("with a free place: %d %s", res.Status, res.Body)
	}
	h.releaseOne()
	if res := h.await(first, second); res.Status != 200 { // of the two, one is left
		t.Errorf("the other request within the limit: %d %s", res.Status, res.Body)
	}
	waittest.Until(t, "all places are free", func() bool { return h.reservedBy(key) == 0 })
}

// A stream is in progress until its end, and one that its client leaves until then.
func TestStreamsAreInProgressUntilTheirEnd(t *testing.T) {
	h := newHeldGateway(t, "")
	key := h.key(`"rate_limits":[{"type":"requests","unit":"concurrent","value":1}]`)
	body := fmt.Sprintf(`{"model":"sim-1","stream":true,"messages":[{"role":"user","content":%q}]}`, strings.Repeat("word ", 200_000)) // more than buffers take
	res, err := http.DefaultTransport.RoundTrip(h.Request("POST", "/chat/completions", body, "x-gateway-api-key", key, "x-gateway-provider", "@simulator"))
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != 200 {
		t.Fatalf("status %d", res.StatusCode)
	}
	if again := h.chat(key, oneChat); again.Status != 429 {
		t.Errorf("while a stream is open: %d, want 429", again.Status)
	}
	res.Body.Close()
	waittest.Until(t, "the place of a stream that was left is free", func() bool { return h.chat(key, oneChat).Status == 200 })
}

func TestProviderWithTooManyRequestsInProgressIsSkipped(t *testing.T) {
	h := newHeldGateway(t, "")
	h.provider("bound", `"rate_limits":[{"type":"requests","unit":"concurrent","value":1}]`)
	key := h.key(`"rate_limits":[]`)
	config := `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@bound"},{"provider":"@simulator"}]}`
	first := h.hold(key, "x-gateway-provider", "@bound")
	if res := h.chat(key, oneChat, "x-gateway-provider", "@bound"); res.Status != 429 || !strings.Contains(string(res.Body), "the provider bound has reached its limit of requests in progress") {
		t.Errorf("the provider alone: %d %s", res.Status, res.Body)
	}
	req := h.Request("POST", "/chat/completions", oneChat, "x-gateway-api-key", key, "x-gateway-config", config)
	if res := h.Do(req); res.Status != 200 || res.Header.Get("x-gateway-last-used-option-index") != "config.targets[1]" {
		t.Errorf("with a fallback: %d %v %s", res.Status, res.Header, res.Body)
	}
	h.releaseOne()
	h.await(first)
	waittest.Until(t, "the provider is used again", func() bool {
		return h.Do(h.Request("POST", "/chat/completions", oneChat, "x-gateway-api-key", key, "x-gateway-config", config)).Header.Get("x-gateway-last-used-option-index") == "config.targets[0]"
	})
}

func TestConcurrentTokensAreRefused(t *testing.T) {
	h := newHeldGateway(t, "")
	for limits, want := range map[string]string{
		`[{"type":"tokens","unit":"concurrent","value":1}]`:                                                     "rate_limits[0].type",
		`[{"type":"requests","unit":"concurrent","value":1},{"type":"requests","unit":"concurrent","value":2}]`: "rate_limits[1]",
		`[{"type":"requests","unit":"concurrent","value":0}]`:                                                   "rate_limits[0].value",
	} {
		res := h.Post("/api-keys/workspace/service", `{"name":"k","workspace_id":"default","scopes":["completions.write"],"rate_limits":`+limits+`}`)
		if res.Status != 400 || !strings.Contains(string(res.Body), want) || !strings.Contains(string(res.Body), "AB01") {
			t.Errorf("%s: %d %s, want AB01 for %s", limits, res.Status, res.Body, want)
		}
	}
}

func TestRequestsWaitForRoomInTheGateway(t *testing.T) {
	h := newHeldGateway(t, "limits: {concurrency: {requests: 1, wait: 1m}}\n")
	key := gatewaytest.Key
	first := h.hold(key)
	second := make(chan gatewaytest.Response, 1)
	go func() { second <- h.chat(key, oneChat) }()
	waittest.Until(t, "a request waits", func() bool { return strings.Contains(metricsOf(t, h.Gateway), "\nmodelgate_requests_waiting 1\n") })
	if n := h.reached.Load(); n != 1 {
		t.Errorf("%d requests reached the provider, want one", n)
	}
	h.releaseOne()
	if res := h.await(first); res.Status != 200 {
		t.Errorf("the first request: %d %s", res.Status, res.Body)
	}
	if res := h.await(second); res.Status != 200 {
		t.Errorf("the request that waited: %d %s", res.Status, res.Body)
	}
}

// A request is being prepared from its admission until it is sent to a provider.
func TestRequestsArePreparedUntilTheyAreSent(t *testing.T) {
	h := newHeldGateway(t, "")
	preparing := func(n int) func() bool {
		return func() bool {
			return strings.Contains(metricsOf(t, h.Gateway), fmt.Sprintf("\nmodelgate_requests_preparing %d\n", n))
		}
	}
	body, rest := io.Pipe()
	done := make(chan gatewaytest.Response, 1)
	req := h.Request("POST", "/chat/completions", "", "x-gateway-provider", "@simulator")
	req.Body, req.ContentLength = body, int64(len(oneChat))
	go func() { done <- h.Do(req) }()
	io.WriteString(rest, oneChat[:10])
	waittest.Until(t, "a request whose body arrives is being prepared", preparing(1))
	held := h.hold(gatewaytest.Key)
	if !preparing(1)() { // at once: the body that arrives has a time limit, after which nothing would be prepared
		t.Error("a request that waits for its provider is being prepared")
	}
	io.WriteString(rest, oneChat[10:])
	h.releaseOne()
	for _, done := range []chan gatewaytest.Response{done, held} {
		if res := h.await(done); res.Status != 200 {
			t.Errorf("%d %s, want 200", res.Status, res.Body)
		}
	}
	waittest.Until(t, "nothing is being prepared afterwards", preparing(0))
}

func TestAKeyLeavesRoomToOthers(t *testing.T) {
	h := newHeldGateway(t, "limits: {concurrency: {requests: 3, key: 2, wait: -1s}}\n")
	key, other := h.key(`"rate_limits":[]`), h.key(`"rate_limits":[]`)
	first, second := h.hold(key), h.hold(key)
	if res := h.chat(key, oneChat); res.Status != 503 {
		t.Errorf("a third request of a key that may have two: %d %s", res.Status, res.Body)
	}
	if res := h.chat(other, oneChat); res.Status != 200 {
		t.Errorf("a request of another key: %d %s", res.Status, res.Body)
	}
	h.releaseOne()
	h.releaseOne()
	for _, done := range []chan gatewaytest.Response{first, second} {
		if res := h.await(done); res.Status != 200 {
			t.Errorf("a request within the limit: %d %s", res.Status, res.Body)
		}
	}
}

// A request that waits is refused at its deadline, however long the others take.
func TestRequestsWaitUpToADeadline(t *testing.T) {
	h := newHeldGateway(t, "limits: {concurrency: {requests: 1, wait: 100ms}}\n")
	first := h.hold(gatewaytest.Key)
	second := make(chan gatewaytest.Response, 1)
	go func() { second <- h.chat(gatewaytest.Key, oneChat) }()
	select {
	case res := <-second:
		if res.Status != 503 || !strings.Contains(string(res.Body), `"code":"overloaded"`) {
			t.Errorf("a request that waited: %d %s", res.Status, res.Body)
		}
	case <-time.After(time.Minute):
		t.Error("a request that may wait for 100 ms still waits after a minute")
	}
	h.releaseOne()
	h.await(first)
}

// A request without room is refused in its dialect, whatever its body, and recorded.
func TestRequestsWithoutRoomAreRefusedEarly(t *testing.T) {
	h := newHeldGateway(t, "limits: {concurrency: {requests: 1, key: 1, wait: -1s}}\n")
	first := h.hold(gatewaytest.Key)
	for path, want := range map[string]string{
		"/v1/chat/completions":                 `"code":"overloaded"`,
		"/v1/messages":                         `"type":"error"`,
		"/v1beta/models/sim-1:generateContent": `"status":"UNAVAILABLE"`,
		"/v1/responses":                        `"code":"overloaded"`,
		"/model/sim-1/converse":                `"message":`,
	} {
		req := h.Request("POST", "/chat/completions", oneChat, "x-gateway-provider", "@simulator")
		req.URL.Path = path
		res := h.Do(req)
		if res.Status != 503 || res.Header.Get("Retry-After") != "1" || !strings.Contains(string(res.Body), want) || !strings.Contains(string(res.Body), "limits.concurrency") {
			t.Errorf("%s: %d %v %s, want 503 with %s", path, res.Status, res.Header, res.Body, want)
		}
		if e := h.Entry(res); e["status"] != 503.0 {
			t.Errorf("%s is recorded as %v", path, e)
		}
	}
	if res := h.Post("/explain", `{"request":{"headers":{"x-gateway-provider":"@simulator"},"body":`+oneChat+`}}`); res.Status != 200 {
		t.Errorf("a dry run needs no room: %d %s", res.Status, res.Body)
	}
	h.releaseOne()
	h.await(first)
	waittest.Until(t, "there is room again", func() bool { return h.chat(gatewaytest.Key, oneChat).Status == 200 })
	if text := metricsOf(t, h.Gateway); !strings.Contains(text, "\nmodelgate_requests_refused_total 5\n") {
		t.Errorf("metrics lack five refused requests")
	}
}
