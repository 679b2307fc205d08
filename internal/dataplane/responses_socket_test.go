package dataplane_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/recorder"
	"modelgate/internal/testing/waittest"
)

const toChat = "x-gateway-provider"

// createTurn is a request for a response with a text as input, and more members.
func createTurn(model, input, more string) string {
	return fmt.Sprintf(`{"type":"response.create","model":%q,"input":%q%s}`, model, input, more)
}

// textOf returns the text of a response in the event that ends it.
func textOf(t *testing.T, event map[string]any) (id, text string) {
	t.Helper()
	response, _ := event["response"].(map[string]any)
	id, _ = response["id"].(string)
	var b strings.Builder
	output, _ := response["output"].([]any)
	for _, item := range output {
		content, _ := item.(map[string]any)["content"].([]any)
		for _, part := range content {
			s, _ := part.(map[string]any)["text"].(string)
			b.WriteString(s)
		}
	}
	return id, b.String()
}

func TestATurnOverAConnectionIsTheStreamOfARequest(t *testing.T) {
	t.Parallel()
	g := newPairs(t)
	for _, target := range pairTargets {
		t.Run(target, func(t *testing.T) {
			over := g.Post("/responses", `{"model":"sim-1+tokens=9","input":"hello","stream":true}`, toChat, "@"+target)
			var want []string
			for line := range strings.Lines(string(over.Body)) {
				if kind, ok := strings.CutPrefix(line, "event: "); ok {
					want = append(want, strings.TrimSpace(kind))
				}
			}
			c := dialSocket(t, g, "/responses", toChat, "@"+target)
			if len(want) < 5 || want[len(want)-1] != "response.completed" {
				t.Fatalf("over HTTP: %q", want)
			}
			for range 2 { // turns
				c.send(createTurn("sim-1+tokens=9", "hello", ""))
				for i, kind := range want {
					event := c.event()
					if event["type"] != kind || event["stream_id"] != nil {
						t.Fatalf("event %d is %v, want %s without a stream", i, event, kind)
					}
					if _, text := textOf(t, event); kind == "response.completed" && !strings.HasPrefix(text, "echo: hello") {
						t.Errorf("the response is %q", text)
					}
				}
			}
		})
	}
}

func TestEachTurnIsRecordedInTheTraceOfItsConnection(t *testing.T) {
	t.Parallel()
	g := newPairs(t)
	c := dialSocket(t, g, "/responses", toChat, "@chat")
	session := c.head.Get("x-gateway-request-id")
	for range 2 {
		c.send(createTurn("sim-1+tokens=9", "hello", ""))
		c.until("response.completed")
	}
	c.conn.Close(websocket.StatusNormalClosure, "")
	var list []any
	waittest.Until(t, "three entries", func() bool {
		list = g.Get("/logs?trace_id=" + session).JSON(t)["data"].([]any)
		return len(list) == 3
	})
	turns, sessions := 0, 0
	for _, one := range list {
		e := one.(map[string]any)
		switch e["status"] {
		case 200.0:
			turns++
			if usage, _ := e["usage"].(map[string]any); usage["completion_tokens"] != 9.0 || e["method"] != "POST" {
				t.Errorf("a turn is recorded as %v", e)
			}
		case 101.0:
			sessions++
			if e["id"] != session || e["method"] != "GET" || e["usage"] != nil {
				t.Errorf("the connection is recorded as %v", e)
			}
		}
	}
	if turns != 2 || sessions != 1 {
		t.Errorf("%d turns and %d connections are recorded in %v", turns, sessions, list)
	}
}

func TestHandshakesAreRefusedInPlainHTTP(t *testing.T) {
	t.Parallel()
	g := newPairs(t)
	models := mustScopedKey(t, g, `"scopes":["models.list"]`)
	limited := mustScopedKey(t, g, `"scopes":["completions.write"],"rate_limits":[{"type":"requests","unit":"rph","value":1}]`)
	if res := g.Post("/chat/completions", plainChat, "x-gateway-api-key", limited); res.Status != 200 {
		t.Fatalf("status %d: %s", res.Status, res.Body)
	}
	for _, tt := range []struct {
		name, path string
		headers    []string
		status     int
		code       string
	}{
		{"without a key", "/responses", []string{"x-gateway-api-key", ""}, 401, "missing_api_key"},
		{"with an unknown key", "/responses", []string{"x-gateway-api-key", "mg-unknown"}, 401, "invalid_api_key"},
		{"without the scope", "/responses", []string{"x-gateway-api-key", models}, 403, "forbidden"},
		{"beyond a rate limit", "/responses", []string{"x-gateway-api-key", limited}, 429, "rate_limited"},
		{"at a path that serves none", "/chat/completions", nil, 426, "websocket_unsupported"},
		{"at an unknown path", "/unknown", nil, 426, "websocket_unsupported"},
	} {
		c, res := tryDial(t, g, tt.path, nil, tt.headers...)
		if c != nil {
			t.Errorf("%s: the connection is open", tt.name)
			continue
		}
		var v struct{ Error struct{ Code string } }
		if err := json.NewDecoder(res.Body).Decode(&v); err != nil || res.StatusCode != tt.status || v.Error.Code != tt.code {
			t.Errorf("%s: status %d, code %q, %v; want %d and %q", tt.name, res.StatusCode, v.Error.Code, err, tt.status, tt.code)
		}
	}
}

// mustScopedKey makes a key with these members.
func mustScopedKey(t *testing.T, g *gatewaytest.Gateway, members string) string {
	t.Helper()
	key, _ := mustKeyWithID(t, g, members)
	return key
}

func mustKeyWithID(t *testing.T, g *gatewaytest.Gateway, members string) (key, id string) {
	t.Helper()
	made := g.Post("/api-keys/workspace/service", `{"name":"k","workspace_id":"default",`+members+`}`).JSON(t)
	key, _ = made["key"].(string)
	id, _ = made["id"].(string)
	if key == "" || id == "" {
		t.Fatalf("no key: %v", made)
	}
	return key, id
}

func TestErrorsOfATurnAreEventsAndTheConnectionGoesOn(t *testing.T) {
	t.Parallel()
	g := newPairs(t)
	c := dialSocket(t, g, "/responses", toChat, "@chat")
	for _, tt := range []struct {
		name, message string
		status        float64
		code          string
	}{
		{"no JSON", `{"type":`, 400, "invalid_json"},
		{"another type", `{"type":"response.cancel"}`, 400, "invalid_request"},
		{"a hostile stream id", createTurn("sim-1", "x", `,"stream_id":"a\"b"`), 400, "invalid_stream_id"},
		{"background", createTurn("sim-1", "x", `,"background":true`), 400, "invalid_request"},
		{"generate that is a string", createTurn("sim-1", "x", `,"generate":"no"`), 400, "invalid_request"},
		{"an error of the provider", createTurn("sim-1+status=429", "x", ""), 429, "rate_limit_exceeded"},
		{"an unknown chain", createTurn("sim-1", "x", `,"store":false,"previous_response_id":"resp_x"`), 400, "previous_response_not_found"},
	} {
		c.send(tt.message)
		if status, code := faultOf(t, c.event()); status != tt.status || code != tt.code {
			t.Errorf("%s: status %v, code %q; want %v and %q", tt.name, status, code, tt.status, tt.code)
		}
	}
	c.send(`{"type":"response.steer","previous_response_id":"resp_1","input":"stop"}`)
	failed, _ := c.until("response.steer.failed")
	if fault, _ := failed["error"].(map[string]any); fault["code"] != "steering_not_supported" {
		t.Errorf("steering: %v", failed)
	}
	c.send(createTurn("sim-1+tokens=9", "hello", ""))
	c.until("response.completed")
}

func TestAChainWithoutStorageLivesInItsConnection(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"chat", "messages"} {
		g := newPairs(t)
		c := dialSocket(t, g, "/responses", toChat, "@"+target)
		const unstored = `,"store":false`
		c.send(createTurn("sim-1+tokens=9", "first", unstored+`,"generate":false`))
		warm, before := c.until("response.completed")
		if before != 1 || len(g.Sim.Requests()) != 0 {
			t.Fatalf("%s: warming has %d events and %d requests", target, before, len(g.Sim.Requests()))
		}
		id, _ := textOf(t, warm)
		for _, input := range []string{"second", "third"} {
			c.send(createTurn("sim-1+tokens=9", input, unstored+fmt.Sprintf(`,"previous_response_id":%q`, id)))
			end, _ := c.until("response.completed")
			id, _ = textOf(t, end)
		}
		requests := g.Sim.Requests()
		if len(requests) != 2 {
			t.Fatalf("%s: %d requests", target, len(requests))
		}
		body := string(requests[1].Body)
		last := 0
		for _, text := range []string{"first", "second", "echo: ", "third"} {
			i := strings.Index(body, text)
			if i < last {
				t.Errorf("%s: %q is not in order in %s", target, text, body)
			}
			last = max(last, i)
		}
		if strings.Contains(body, "previous_response_id") || strings.Contains(body, `"generate"`) {
			t.Errorf("%s: the provider gets %s", target, body)
		}
		other := dialSocket(t, g, "/responses", toChat, "@"+target)
		other.send(createTurn("sim-1", "x", unstored+fmt.Sprintf(`,"previous_response_id":%q`, id)))
		if _, code := faultOf(t, other.event()); code != "previous_response_not_found" {
			t.Errorf("%s: another connection continues the chain: %q", target, code)
		}
	}
}

func TestLanesAreInOrderAndConcurrent(t *testing.T) {
	t.Parallel()
	u := newScripted(t)
	g := gatewaytest.New(t, gatewaytest.Options{Settings: pairSettings, Upstream: u})
	c := dialSocket(t, g, "/responses", toChat, "@chat")
	c.send(createTurn("m", "a1", `,"stream_id":"a"`))
	c.send(createTurn("m", "a2", `,"stream_id":"a"`))
	first := u.next()
	c.send(createTurn("m", "b1", `,"stream_id":"b"`))
	second := u.next()
	if !strings.Contains(string(first.Body), "a1") || !strings.Contains(string(second.Body), "b1") {
		t.Fatalf("the provider got %s and %s", first.Body, second.Body)
	}
	answer := func(call *call, id string) {
		call.events()
		call.send(`event: response.completed` + "\n" + `data: {"type":"response.completed","response":{"id":"` + id + `","status":"completed","output":[]}}` + "\n\n")
		call.finish()
	}
	answer(second, "b1")
	if e := c.event(); e["stream_id"] != "b" {
		t.Errorf("the first event is %v, want one of b", e)
	}
	answer(first, "a1")
	if e := c.event(); e["stream_id"] != "a" {
		t.Errorf("the second event is %v, want one of a", e)
	}
	third := u.next()
	if !strings.Contains(string(third.Body), "a2") {
		t.Errorf("the provider got %s", third.Body)
	}
	answer(third, "a2")
	c.until("response.completed")
	for i := range 40 {
		c.send(createTurn("m", "x", fmt.Sprintf(`,"generate":false,"stream_id":"s%d"`, i)))
	}
	refused := 0
	for range 30*2 + 10 {
		e := c.event()
		if e["type"] == "error" {
			if _, code := faultOf(t, e); code == "websocket_stream_limit_reached" {
				refused++
			}
		}
	}
	if refused != 10 { // 32, of which a and b are two
		t.Errorf("%d lanes are refused, want 10", refused)
	}
}

func TestAMessageThatIsTooLongClosesTheConnection(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Settings: "limits: {json_body: 100 KB}\n"})
	c := dialSocket(t, g, "/responses")
	c.conn.Write(t.Context(), websocket.MessageText, []byte(createTurn("sim-1", strings.Repeat("x", 200<<10), "")))
	if code, _, _ := c.closed(); code != websocket.StatusMessageTooBig {
		t.Errorf("closed with %d, want 1009", code)
	}
}

func TestARevokedKeyEndsItsConnections(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{})
	key, id := mustKeyWithID(t, g, `"scopes":["completions.write"]`)
	c := dialSocket(t, g, "/responses", "x-gateway-api-key", key)
	c.send(createTurn("sim-1+tokens=9", "hello", ""))
	c.until("response.completed")
	began := time.Now()
	if res := g.Do(g.Request(http.MethodDelete, "/api-keys/"+id, "")); res.Status > 299 {
		t.Fatalf("status %d: %s", res.Status, res.Body)
	}
	code, reason, before := c.closed()
	if code != websocket.StatusPolicyViolation || len(before) != 1 || before[0] != "error invalid_api_key" || time.Since(began) > soon {
		t.Errorf("closed with %d %q after %q and %v, want 1008 and an error", code, reason, before, time.Since(began))
	}
}

func TestDrainingClosesConnectionsBetweenTurns(t *testing.T) {
	t.Parallel()
	u := newScripted(t)
	g := gatewaytest.New(t, gatewaytest.Options{Settings: pairSettings, Upstream: u})
	idle, busy := dialSocket(t, g, "/responses", toChat, "@chat"), dialSocket(t, g, "/responses", toChat, "@chat")
	busy.send(createTurn("m", "hello", ""))
	call := u.next()
	busy.send(createTurn("m", "never begun", ""))
	g.Drain()
	if code, _, before := idle.closed(); code != websocket.StatusServiceRestart || len(before) != 0 {
		t.Errorf("an idle connection is closed with %d after %q, want 1012", code, before)
	}
	call.events()
	call.send("event: response.completed\ndata: " + `{"type":"response.completed","response":{"id":"r","status":"completed","output":[]}}` + "\n\n")
	call.finish()
	if code, _, before := busy.closed(); code != websocket.StatusServiceRestart || len(before) != 2 ||
		!slices.Contains(before, "response.completed") || !slices.Contains(before, "error shutting_down") {
		t.Errorf("a connection with a turn is closed with %d after %q, want 1012 after its response and an error for the next", code, before)
	}
	g.Stop()
	if len(u.came) != 0 {
		t.Error("a turn was begun while the gateway drained")
	}
}

func TestAClientThatLeavesEndsItsTurn(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Simulator: recorder.Options{Record: 5}})
	c := dialSocket(t, g, "/responses")
	c.send(createTurn("sim-1+pace=20ms+tokens=100000", "hello", ""))
	c.until("response.output_text.delta")
	c.conn.CloseNow()
	waittest.Until(t, "the end of the request at the provider", func() bool {
		list := g.Sim.Requests()
		return len(list) == 1 && list[0].Canceled
	})
}
