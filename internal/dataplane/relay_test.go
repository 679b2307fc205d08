package dataplane_test

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"modelgate/internal/base/secret"
	"modelgate/internal/provider"
	"modelgate/internal/simulator"
	"modelgate/internal/snapshot"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/recorder"
	"modelgate/internal/testing/waittest"
)

// newRealtime is a gateway with providers that have sessions.
func newRealtime(t *testing.T, more string) *gatewaytest.Gateway {
	t.Helper()
	return gatewaytest.New(t, gatewaytest.Options{Settings: pairSettings + more, Simulator: recorder.Options{Record: 50}})
}

// newListed is a gateway with the managed provider @few, which allows one model.
func newListed(t *testing.T, kind, model string) *gatewaytest.Gateway {
	t.Helper()
	upstream := httptest.NewServer(simulator.New(simulator.Options{}))
	t.Cleanup(upstream.Close)
	return gatewaytest.New(t, gatewaytest.Options{Managed: []snapshot.ManagedProvider{{
		Slug: "few", Provider: kind, Rules: &snapshot.ModelRules{Models: provider.NewModelList(false, []string{model}, nil)},
		Settings: provider.Settings{Key: secret.New("sk-x"), CustomHost: upstream.URL + "/v1"},
	}}})
}

// sendBinary sends bytes.
func (c *socketClient) sendBinary(b []byte) {
	c.t.Helper()
	if err := c.conn.Write(c.t.Context(), websocket.MessageBinary, b); err != nil {
		c.t.Fatal(err)
	}
}

func TestMessagesPassUnchangedInBothDirections(t *testing.T) {
	t.Parallel()
	g := newRealtime(t, "")
	c := dialSocket(t, g, "/live/sessions", toChat, "@chat")
	for _, size := range []int{0, 1, 125, 126, 4096, 4097, 65535, 65536, 1 << 20} {
		data := make([]byte, size)
		rand.Read(data)
		c.sendBinary(data)
		if m := c.message(); m.kind != websocket.MessageBinary || string(m.data) != string(data) || m.err != nil {
			t.Fatalf("%d bytes come back as %d (%v)", size, len(m.data), m.err)
		}
	}
	for i := range 200 { // order
		c.send(fmt.Sprintf("not JSON \"session %d", i))
	}
	for i := range 200 {
		if m := c.message(); string(m.data) != fmt.Sprintf("not JSON \"session %d", i) || m.kind != websocket.MessageText {
			t.Fatalf("message %d is %q", i, m.data)
		}
	}
}

func TestARealtimeSessionIsRelayedRecordedAndPriced(t *testing.T) {
	t.Parallel()
	g := newRealtime(t, "")
	for _, path := range []string{"/realtime?model=@chat/gpt-realtime", "/realtime?model=gpt-realtime", "/realtime/translations?model=@chat/gpt-realtime"} {
		c := dialSocket(t, g, path, toChat, map[bool]string{true: "", false: "@chat"}[strings.Contains(path, "@")], "OpenAI-Beta", "realtime=v1")
		created, _ := c.until("session.created")
		if session := created["session"].(map[string]any); session["model"] != "gpt-realtime" {
			t.Fatalf("%s: the session is %v", path, session)
		}
		for range 2 {
			c.send(`{"type":"response.create"}`)
			c.until("response.done")
		}
		id := c.head.Get("x-gateway-request-id")
		c.conn.Close(websocket.StatusNormalClosure, "")
		e := entryByID(t, g, id)
		usage, _ := e["usage"].(map[string]any)
		cost, _ := e["cost"].(map[string]any)
		if e["status"] != 101.0 || usage["prompt_tokens"] != 264.0 || usage["completion_tokens"] != 242.0 || len(e["attempts"].([]any)) != 3 {
			t.Errorf("%s: recorded %v with %v", path, e, usage)
		}
		if e["provider_slug"] != "chat" || e["model"] != "gpt-realtime" || e["error"] != nil {
			t.Errorf("%s: recorded %v (%v)", path, e, cost)
		}
	}
	for _, r := range g.Sim.Requests() {
		if r.Header.Get("OpenAI-Beta") != "" || strings.Contains(fmt.Sprint(r.Header), gatewaytest.Key) {
			t.Errorf("the provider gets %v", r.Header)
		}
	}
}

// entryByID waits for the entry with this id.
func entryByID(t *testing.T, g *gatewaytest.Gateway, id string) (e map[string]any) {
	t.Helper()
	waittest.Until(t, "the entry of the session", func() bool {
		res := g.Get("/logs/" + id)
		if res.Status != 200 {
			return false
		}
		e = res.JSON(t)
		if inner, ok := e["data"].(map[string]any); ok {
			e = inner
		}
		return true
	})
	return e
}

func TestBrowsersShowTheirKeyAsASubprotocol(t *testing.T) {
	t.Parallel()
	g := newRealtime(t, "")
	c, res := tryDial(t, g, "/realtime?model=@chat/gpt-realtime", []string{"realtime", "openai-insecure-api-key." + gatewaytest.Key, "openai-beta.realtime-v1"},
		"x-gateway-api-key", "", toChat, "")
	if c == nil {
		t.Fatalf("refused with %d", res.StatusCode)
	}
	c.until("session.created")
	if got := res.Header.Values("Sec-WebSocket-Protocol"); !slices.Equal(got, []string{"realtime"}) {
		t.Errorf("the gateway chose %q", got)
	}
	if strings.Contains(fmt.Sprint(res.Header), gatewaytest.Key) {
		t.Errorf("the key is in %v", res.Header)
	}
	c.conn.CloseNow()
	waittest.Until(t, "the request at the provider", func() bool { return len(g.Sim.Requests()) == 1 })
	if r := g.Sim.Requests()[0]; r.Header.Get("Sec-WebSocket-Protocol") != "realtime" || strings.Contains(fmt.Sprint(r.Header), gatewaytest.Key) {
		t.Errorf("the provider gets %v", r.Header)
	}
	if c, res := tryDial(t, g, "/realtime?model=m", []string{"realtime", "openai-insecure-api-key.mg-wrong"}, "x-gateway-api-key", ""); c != nil || res.StatusCode != 401 {
		t.Error("a wrong key is accepted")
	}
}

func TestCloseCodesAreCarriedBothWays(t *testing.T) {
	t.Parallel()
	g := newRealtime(t, "")
	for fault, want := range map[string]websocket.StatusCode{
		"close=1000": 1000, "close=1001": 1001, "close=1011": 1011, "close=3000": 3000, "close=4999": 4999,
		"close=0":    websocket.StatusNoStatusRcvd, // a frame without a code
		"close=1006": -1, "close=5000": -1,         // no code of a frame
		"drop": -1,
	} {
		c := dialSocket(t, g, "/realtime?model=@chat/m%2B"+fault, toChat, "")
		c.until("session.created")
		c.send(`{"type":"response.create"}`)
		code, reason, _ := c.closed()
		if code != want || want > 0 && want != 1005 && reason != "as asked" {
			t.Errorf("%s: closed with %d %q, want %d", fault, code, reason, want)
		}
	}
}

func TestErrorsOfTheProvidersHandshakeAreResponses(t *testing.T) {
	t.Parallel()
	g := newRealtime(t, "")
	for _, tt := range []struct {
		name, path string
		headers    []string
		status     int
	}{
		{"an error of the provider", "/realtime?model=@chat/m%2Bstatus=429", []string{toChat, ""}, 429},
		{"no model", "/realtime", nil, 400},
		{"no provider", "/realtime?model=m", []string{toChat, ""}, 400},
		{"several models", "/realtime?model=a&model=b", nil, 400},
		{"an unknown slug", "/realtime?model=@nobody/m", []string{toChat, ""}, 404},
		{"without a key", "/realtime?model=m", []string{"x-gateway-api-key", ""}, 401},
	} {
		c, res := tryDial(t, g, tt.path, nil, append([]string{toChat, "@chat"}, tt.headers...)...)
		if c != nil || res.StatusCode != tt.status {
			t.Errorf("%s: status %d, want %d", tt.name, res.StatusCode, tt.status)
		}
	}
}

func TestALargeMessageOfTheProviderEndsTheSession(t *testing.T) {
	t.Parallel()
	g := newRealtime(t, "")
	c := dialSocket(t, g, "/realtime?model=@chat/m%2Bhuge=17000000", toChat, "")
	c.until("session.created")
	c.send(`{"type":"response.create"}`)
	if code, _, before := c.closed(); code != websocket.StatusMessageTooBig || !slices.Equal(before, []string{"error message_too_large"}) {
		t.Errorf("closed with %d after %q, want 1009", code, before)
	}
}

func TestAnExhaustedBudgetEndsASession(t *testing.T) {
	t.Parallel()
	g := newRealtime(t, "")
	key := mustScopedKey(t, g, `"scopes":["completions.write"],"usage_limits":{"type":"tokens","credit_limit":300}`)
	c := dialSocket(t, g, "/realtime?model=@chat/gpt-realtime", toChat, "", "x-gateway-api-key", key)
	c.until("session.created")
	c.send(`{"type":"response.create"}`)
	c.until("response.done")
	c.send(`{"type":"response.create"}`)
	code, _, before := c.closed()
	if code != websocket.StatusPolicyViolation || !slices.Equal(before, []string{"response.created", "response.output_text.delta",
		"response.output_audio.delta", "response.done", "error budget_exhausted"}) {
		t.Errorf("closed with %d after %q, want 1008 after the turn and an error", code, before)
	}
	if c, res := tryDial(t, g, "/realtime?model=@chat/gpt-realtime", nil, toChat, "", "x-gateway-api-key", key); c != nil || res.StatusCode != 412 {
		t.Errorf("a further session: status %d", res.StatusCode)
	}
}

func TestASessionThatBreaksOffIsChargedForWhatWasSeen(t *testing.T) {
	t.Parallel()
	g := newRealtime(t, "")
	c := dialSocket(t, g, "/realtime?model=@chat/gpt-realtime%2Bsilent", toChat, "")
	c.until("session.created")
	c.send(`{"type":"response.create"}`)
	c.until("response.output_audio.delta")
	id := c.head.Get("x-gateway-request-id")
	c.conn.CloseNow()
	e := entryByID(t, g, id)
	usage, _ := e["usage"].(map[string]any)
	if tokens, _ := usage["completion_tokens"].(float64); tokens < 2 || tokens > 10 || e["usage_estimated"] != true {
		t.Errorf("recorded %v", usage)
	}
}

func TestASessionCannotChangeToAModelOutsideOfTheRightsOfItsKey(t *testing.T) {
	t.Parallel()
	g := newListed(t, "openai", "gpt-realtime")
	if c, res := tryDial(t, g, "/realtime?model=@few/other", nil, toChat, ""); c != nil || res.StatusCode != 403 && res.StatusCode != 404 {
		t.Fatalf("another model: status %d", res.StatusCode)
	}
	c := dialSocket(t, g, "/realtime?model=@few/gpt-realtime", toChat, "")
	c.until("session.created")
	for _, text := range []string{
		`{"type":"session.update","session":{"model":"other"}}`,
		`{"type":"x","type":"session.update","session":{"model":"other"}}`,
		`{"type":"session.update","\u0073ession":{"mode\u006c":"other"}}`,
		`{"type":"session.update","session":{"audio":{"input":{"transcription":{"model":"other"}}}}}`,
		`{"type":"session.update","session":{"model":7}}`,
	} {
		c.send(text)
		if e := c.event(); e["type"] != "error" {
			t.Errorf("%s: answered with %v", text, e)
		}
	}
	c.send(`{"type":"session.update","session":{"model":"gpt-realtime","instructions":"x"}}`)
	c.until("session.updated")
}

func TestDrainingTellsSessionsAndClosesThem(t *testing.T) {
	t.Parallel()
	g := newRealtime(t, "drain: {max: 100ms}\n")
	c := dialSocket(t, g, "/realtime?model=@chat/gpt-realtime", toChat, "")
	c.until("session.created")
	g.Drain()
	code, _, before := c.closed()
	if code != websocket.StatusServiceRestart || len(before) == 0 || before[0] != "error shutting_down" {
		t.Errorf("closed with %d after %q, want 1012 after an error", code, before)
	}
}

func TestARevokedKeyEndsItsSessions(t *testing.T) {
	t.Parallel()
	g := newRealtime(t, "")
	key, id := mustKeyWithID(t, g, `"scopes":["completions.write"]`)
	c := dialSocket(t, g, "/realtime?model=@chat/gpt-realtime", toChat, "", "x-gateway-api-key", key)
	c.until("session.created")
	if res := g.Do(g.Request(http.MethodDelete, "/api-keys/"+id, "")); res.Status > 299 {
		t.Fatalf("status %d: %s", res.Status, res.Body)
	}
	if code, _, before := c.closed(); code != websocket.StatusPolicyViolation || !slices.Equal(before, []string{"error invalid_api_key"}) {
		t.Errorf("closed with %d after %q, want 1008 and an error", code, before)
	}
}

func TestTheLiveProtocolIsRelayedWithItsUsage(t *testing.T) {
	t.Parallel()
	g := newRealtime(t, "")
	const path = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"
	c := dialSocket(t, g, path, toChat, "", "x-gateway-api-key", "", "x-goog-api-key", gatewaytest.Key)
	c.send(`{"setup":{"model":"models/gemini-live"}}`)
	if m := c.message(); m.kind != websocket.MessageBinary || !strings.Contains(string(m.data), "setupComplete") {
		t.Fatalf("message %q (%v)", m.data, m.err)
	}
	c.send(`{"clientContent":{"turns":[]}}`)
	c.message()
	if m := c.message(); !strings.Contains(string(m.data), "usageMetadata") {
		t.Fatalf("message %q (%v)", m.data, m.err)
	}
	id := c.head.Get("x-gateway-request-id")
	c.conn.Close(websocket.StatusNormalClosure, "")
	e := entryByID(t, g, id)
	usage, _ := e["usage"].(map[string]any)
	if usage["prompt_tokens"] != 10.0 || usage["completion_tokens"] != 25.0 || e["provider_slug"] != "gemini" {
		t.Errorf("recorded %v", e)
	}
}

func TestSessionsCountAsRequestsInProgress(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{
		Settings: strings.Replace(pairSettings, "limits: {", "limits: {concurrency: {key: 1, wait: -1s}, ", 1)})
	key := mustScopedKey(t, g, `"scopes":["completions.write"]`)
	c := dialSocket(t, g, "/realtime?model=@chat/gpt-realtime", toChat, "", "x-gateway-api-key", key)
	c.until("session.created")
	if other, res := tryDial(t, g, "/realtime?model=@chat/gpt-realtime", nil, toChat, "", "x-gateway-api-key", key); other != nil || res.StatusCode != 503 {
		t.Errorf("a second session: status %d", res.StatusCode)
	}
	c.conn.Close(websocket.StatusNormalClosure, "")
	waittest.Until(t, "a place", func() bool {
		other, _ := tryDial(t, g, "/realtime?model=@chat/gpt-realtime", nil, toChat, "", "x-gateway-api-key", key)
		return other != nil
	})
}
