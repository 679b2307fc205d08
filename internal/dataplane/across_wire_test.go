package dataplane_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

// newScriptedPairs is a gateway whose providers of each protocol say what the
// test wants.
func newScriptedPairs(t *testing.T) (*gatewaytest.Gateway, *scripted) {
	t.Helper()
	u := newScripted(t)
	return gatewaytest.New(t, gatewaytest.Options{Settings: pairSettings, Upstream: u}), u
}

// begin sends a request and returns the response headers when it comes.
func begin(t *testing.T, req *http.Request) <-chan *http.Response {
	heads := make(chan *http.Response, 1)
	go func() {
		if res, err := http.DefaultTransport.RoundTrip(req); err == nil {
			heads <- res
		}
	}()
	return heads
}

const (
	messageStart = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"served\",\"content\":[],\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\n" +
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
	messagePing = "event: ping\ndata: {\"type\": \"ping\"}\n\n"
	messageEnd  = "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n" +
		"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":5}}\n\n" +
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
)

func messageDelta(text string) string {
	return "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"" + text + "\"}}\n\n"
}

// What a client gets of an event does not wait for the next one, not even
// behind events that give it nothing.
func TestATranslatedEventLeavesAtOnce(t *testing.T) {
	t.Parallel()
	g, u := newScriptedPairs(t)
	heads := begin(t, clientFormats[0].ask(t, g, "x-gateway-provider", "@messages", "m", true))
	c := u.next()
	c.events()
	c.send(messageStart + messagePing)
	r := bufferOf(receive(t, heads, "the head"))
	event(t, r) // says who speaks
	for i := range 5 {
		word := fmt.Sprintf("word %d", i)
		c.send(messageDelta(word) + messagePing + messagePing)
		if got := event(t, r); !strings.Contains(got, word) { // a comment fills silence
			t.Fatalf("the client got %q, want %s", got, word)
		}
	}
	c.send(messageEnd)
	c.finish()
	rest, err := io.ReadAll(r)
	if !strings.HasSuffix(string(rest), done) || err != nil {
		t.Errorf("the stream ends with %q, %v", rest, err)
	}
}

func TestAClientThatLeavesATranslationEndsTheProvidersWork(t *testing.T) {
	t.Parallel()
	for _, client := range clientFormats {
		t.Run(client.name, func(t *testing.T) {
			g, u := newScriptedPairs(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			target := map[bool]string{true: "@gemini", false: "@messages"}[client.name == "messages"]
			heads := begin(t, client.ask(t, g, "x-gateway-provider", target, "m", true).WithContext(ctx))
			c := u.next()
			c.events()
			if target == "@gemini" {
				c.send(`data: {"candidates":[{"content":{"parts":[{"text":"a"}],"role":"model"},"index":0}]}` + "\r\n\r\n")
			} else {
				c.send(messageStart + messageDelta("a"))
			}
			io.ReadFull(receive(t, heads, "the head").Body, make([]byte, 4))
			leave(t, cancel, c)
		})
	}
}

// A stream is complete when each choice that began has its reason.
func TestSeveralChoicesAreOpenUntilEachHasItsReason(t *testing.T) {
	t.Parallel()
	g, u := newScriptedPairs(t)
	part := func(n int, finish string) string {
		return fmt.Sprintf(`data: {"candidates":[{"content":{"parts":[{"text":"a"}],"role":"model"},"index":%d%s}]}`+"\r\n\r\n", n, finish)
	}
	const stop = `,"finishReason":"STOP"`
	for _, tt := range []struct{ name, stream, end string }{
		{"all", part(0, "") + part(1, "") + part(0, stop) + part(1, stop), "done"},
		{"one of two", part(0, "") + part(1, "") + part(0, stop), "error"},
		{"the other", part(0, "") + part(1, "") + part(1, stop), "error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, stream := range []bool{true, false} {
				heads := begin(t, g.Request("POST", "/chat/completions", fmt.Sprintf(`{"model":"m","n":2,"stream":%t,"messages":[{"role":"user","content":"hi"}]}`, stream), "x-gateway-provider", "@gemini"))
				c := u.next()
				c.events()
				c.send(tt.stream)
				c.finish()
				res := receive(t, heads, "the head")
				body, err := io.ReadAll(res.Body)
				h := clientFormats[0].readResponse(t, gatewaytest.Response{Status: res.StatusCode, Header: res.Header, Body: body, Err: err})
				want := tt.end
				if !stream {
					want = map[string]string{"done": "complete", "error": "error body"}[want]
				}
				if h.end != want || strings.Contains(string(body), "[DONE]") != (want == "done") {
					t.Errorf("stream %t: end %s, want %s: %s", stream, h.end, want, body)
				}
			}
		})
	}
}

// What a client sends of its own protocol's headers and credentials reaches
// only a provider that speaks it, and the gateway key none.
func TestHeadersAndKeysStayWithTheirProtocol(t *testing.T) {
	t.Parallel()
	g, u := newScriptedPairs(t)
	for _, tt := range []struct{ target, version, beta string }{
		{"@messages", "2023-06-01", "a-2025,b-2025"},
		{"@gemini", "", ""}, {"@chat", "", ""}, {"@converse", "", ""}, {"@cohere", "", ""},
	} {
		for _, credential := range []string{"x-api-key", "x-goog-api-key", "authorization"} {
			t.Run(tt.target+" "+credential, func(t *testing.T) {
				req := clientFormats[1].ask(t, g, "x-gateway-provider", tt.target, "m", false)
				req.Header.Del("x-gateway-api-key")
				req.Header.Set(credential, map[bool]string{true: "Bearer ", false: ""}[credential == "authorization"]+gatewaytest.Key)
				req.Header.Set("anthropic-beta", "a-2025,b-2025")
				req.Header.Set("anthropic-version", "2023-06-01")
				req.Header.Set("anthropic-dangerous-direct-browser-access", "true")
				req.Header.Set("x-stainless-lang", "js")
				req.URL.RawQuery = "key=" + gatewaytest.Key + "&beta=true"
				begin(t, req)
				c := u.next()
				c.finish()
				if v, b := c.Header.Get("anthropic-version"), c.Header.Get("anthropic-beta"); v != tt.version || b != tt.beta {
					t.Errorf("anthropic-version %q, anthropic-beta %q; want %q and %q", v, b, tt.version, tt.beta)
				}
				if asked := strings.Contains(c.URL.RawQuery, "beta=true"); asked != (tt.target == "@messages") {
					t.Errorf("the query at the provider is %q", c.URL.RawQuery)
				}
				all := fmt.Sprint(c.Header, c.URL, string(c.Body))
				for _, never := range []string{gatewaytest.Key, "Dangerous", "Stainless", "X-Gateway"} {
					if strings.Contains(all, never) {
						t.Errorf("the provider got %s: %s", never, all)
					}
				}
			})
		}
	}
}

// Beta features of the responses API reach providers that speak it, and no others.
func TestBetaFeaturesOfResponsesStayWithTheirProtocol(t *testing.T) {
	t.Parallel()
	g, u := newScriptedPairs(t)
	for target, want := range map[string]string{"@chat": "responses_multi_agent=v1", "@messages": "", "@gemini": ""} {
		t.Run(target, func(t *testing.T) {
			req := g.Request("POST", "/responses", `{"model":"m","input":"Hi","max_output_tokens":20}`,
				"x-gateway-provider", target, "openai-beta", "responses_multi_agent=v1")
			begin(t, req)
			c := u.next()
			c.finish()
			if got := c.Header.Get("OpenAI-Beta"); got != want {
				t.Errorf("openai-beta %q, want %q", got, want)
			}
		})
	}
}

func TestAForwardListDoesNotCarryTheGatewayKeyToAnotherProtocol(t *testing.T) {
	t.Parallel()
	g, u := newScriptedPairs(t)
	req := clientFormats[3].ask(t, g, "x-gateway-provider", "@messages", "m", false)
	req.Header.Del("x-gateway-api-key")
	req.Header.Set("x-goog-api-key", gatewaytest.Key)
	req.Header.Set("x-gateway-forward-headers", "x-goog-api-key")
	res := g.Do(req)
	if h := clientFormats[3].readResponse(t, res); res.Status != 400 || h.end != "error body" || len(u.came) != 0 {
		t.Errorf("status %d, end %s, %d requests: %s", res.Status, h.end, len(u.came), res.Body)
	}
}

// A complete response where a stream was asked for continues a broken
// one as a stream does: nothing is sent twice, and what it drops is reported.
func TestACompleteResponseOfAnotherProtocolContinuesAStream(t *testing.T) {
	t.Parallel()
	g, u := newScriptedPairs(t)
	config := twoTargets(fallsBack+`"stream_continuation":true,`, "chat", "one", "messages", "two")
	heads := begin(t, g.Request("POST", "/chat/completions", `{"model":"m","stream":true,"seed":5,"messages":[{"role":"user","content":"hi"}]}`,
		"x-gateway-provider", "", "x-gateway-config", config))
	c := u.next()
	c.events()
	c.send(chunk("The quick brown ") + chunk("fox jumps "))
	c.finish()
	c = u.next()
	c.w.Header().Set("Content-Type", "application/json")
	c.send(`{"id":"m","type":"message","role":"assistant","model":"served","content":[{"type":"text","text":"brown fox jumps over the lazy dog"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":9}}`)
	c.finish()
	res := receive(t, heads, "the head")
	body, err := io.ReadAll(res.Body)
	whole := gatewaytest.Response{Status: res.StatusCode, Header: res.Header, Body: body, Err: err}
	if h := clientFormats[0].readResponse(t, whole); h.end != "done" || h.text != "The quick brown fox jumps over the lazy dog" {
		t.Errorf("end %s, text %q: %s", h.end, h.text, body)
	}
	if e := g.Entry(whole); !strings.Contains(fmt.Sprint(e["params"]), "seed;dropped") || e["usage"] == nil {
		t.Errorf("recorded %v", e)
	}
}

// sent returns what reaches the provider for a request of a client.
func sent(t *testing.T, u *scripted, req *http.Request) *call {
	t.Helper()
	begin(t, req)
	c := u.next()
	c.finish()
	return c
}

func TestAModelInAPathMayNameItsProvider(t *testing.T) {
	t.Parallel()
	g, u := newScriptedPairs(t)
	for _, tt := range []struct{ path, want, model string }{
		{"/v1beta/models/@gemini/m-1:generateContent", "/v1/v1beta/models/m-1:generateContent", ""},
		{"/v1beta/models/%40gemini%2Fm-1:streamGenerateContent", "/v1/v1beta/models/m-1:streamGenerateContent?alt=sse", ""},
		{"/v1beta/models/@chat/m-1:generateContent", "/v1/chat/completions", "m-1"},
		{"/model/@messages%2Fm-1/converse", "/v1/messages", "m-1"},
		{"/model/%40converse%2Fa.b-v1%3A0/converse-stream", "/v1/model/a.b-v1%3A0/converse-stream", ""},
	} {
		t.Run(tt.path, func(t *testing.T) {
			client := clientFormats[3]
			if strings.HasPrefix(tt.path, "/model/") {
				client = clientFormats[4]
			}
			req := client.ask(t, g, "x-gateway-trace-id", "t", "m", false)
			req.URL.Opaque = tt.path
			c := sent(t, u, req)
			var body map[string]any
			json.Unmarshal(c.Body, &body)
			if c.RequestURI != tt.want || str(body["model"]) != tt.model {
				t.Errorf("sent to %s with the model %q, want %s with %q: %s", c.RequestURI, body["model"], tt.want, tt.model, c.Body)
			}
		})
	}
}

// A model that a config sets is where the target reads it.
func TestAnOverriddenModelIsWhereTheTargetReadsIt(t *testing.T) {
	t.Parallel()
	g, u := newScriptedPairs(t)
	for _, client := range clientFormats {
		for _, target := range pairTargets {
			t.Run(client.name+" to "+target, func(t *testing.T) {
				config := fmt.Sprintf(`{"provider":"@%s","override_params":{"model":"mine"}}`, target)
				c := sent(t, u, client.ask(t, g, "x-gateway-config", config, "theirs", false))
				var body map[string]any
				json.Unmarshal(c.Body, &body)
				inPath := strings.Contains(c.RequestURI, "/mine")
				if (str(body["model"]) == "mine") == inPath || inPath && body["model"] != nil || strings.Contains(c.RequestURI+string(c.Body), "theirs") {
					t.Errorf("sent to %s: %s", c.RequestURI, c.Body)
				}
			})
		}
	}
}

// Bodies of the messages protocol have the shape of the host that takes them,
// be they translated or not.
func TestABodyHasTheShapeOfItsHost(t *testing.T) {
	t.Parallel()
	u := newScripted(t)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: u, Settings: pairSettings + `
  - {slug: vertex, provider: vertex-ai, custom_host: SIMULATOR, api_key: "${PAIR_KEY}", options: {project_id: p, region: us-east5}}
`})
	for _, tt := range []struct{ client, slug, model, path string }{
		{"messages", "converse", "anthropic.claude-3-haiku-v1", "/invoke-with-response-stream"},
		{"messages", "vertex", "claude-3-haiku@1", ":streamRawPredict"},
		{"chat", "vertex", "claude-3-haiku@1", ":streamRawPredict"},
		{"gemini", "vertex", "claude-3-haiku@1", ":streamRawPredict"},
	} {
		t.Run(tt.client+" to "+tt.slug, func(t *testing.T) {
			for _, client := range clientFormats {
				if client.name != tt.client {
					continue
				}
				req := client.ask(t, g, "x-gateway-provider", "@"+tt.slug, tt.model, true)
				if tt.client == "messages" {
					req.Header.Set("anthropic-beta", "interleaved-thinking-2025-05-14")
				}
				c := sent(t, u, req)
				var body map[string]any
				json.Unmarshal(c.Body, &body)
				if !strings.HasSuffix(c.URL.Path, tt.path) || body["model"] != nil || body["anthropic_version"] == nil || body["messages"] == nil || body["max_tokens"] == nil {
					t.Errorf("sent to %s: %s", c.RequestURI, c.Body)
				}
				if _, streams := body["stream"]; streams && tt.slug == "converse" {
					t.Errorf("InvokeModel takes no stream: %s", c.Body)
				}
				if tt.client == "messages" && tt.slug == "converse" && (at(body, "anthropic_beta.0") != "interleaved-thinking-2025-05-14" || c.Header.Get("anthropic-beta") != "") {
					t.Errorf("beta flags: header %q, body %v", c.Header.Get("anthropic-beta"), body["anthropic_beta"])
				}
			}
		})
	}
}

func TestAnArrayOfGoogleHoldsTheEventsOfEachTarget(t *testing.T) {
	t.Parallel()
	g := newPairs(t)
	client := clientFormats[3]
	client.stream = strings.TrimSuffix(client.stream, "?alt=sse")
	for _, target := range pairTargets {
		for form, end := range map[string]string{"tokens=20": "done", "tokens=40+cut=8": "error", "tokens=40+error-event=8": "error", "status=400": "error body"} {
			t.Run(target+" "+form, func(t *testing.T) {
				res := client.send(t, g, "@"+target, "sim-1+"+form, true)
				if h := client.readResponse(t, res); h.end != end || res.Header.Get("Content-Type") != "application/json" || end == "done" && !strings.HasPrefix(h.text, "echo: hello") {
					t.Errorf("status %d, %s, end %s, want %s: %s", res.Status, res.Header.Get("Content-Type"), h.end, end, res.Body)
				}
			})
		}
	}
}

func TestExplainShowsTheTranslatedRequest(t *testing.T) {
	t.Parallel()
	g := newPairs(t)
	for _, tt := range []struct{ target, url, bound string }{
		{"messages", "/v1/messages", "max_tokens"},
		{"gemini", "/v1/v1beta/models/m:generateContent", "generationConfig.maxOutputTokens"},
		{"converse", "/v1/model/m/converse", "inferenceConfig.maxTokens"},
		{"cohere", "/v1/v2/chat", "max_tokens"},
	} {
		e := explained(t, g, fmt.Sprintf(`{"provider":"@%s"}`, tt.target), "", `{"model":"m","max_tokens":77,"seed":5,"user":"u","store":true,"messages":[{"role":"user","content":"hi"}]}`)
		if at(e, "attempt.url") != tt.url || at(e, "attempt.body."+tt.bound) != 77.0 || !strings.Contains(fmt.Sprint(at(e, "attempt.params")), "store;dropped") {
			t.Errorf("%s: %v", tt.target, e["attempt"])
		}
	}
	for _, client := range clientFormats[2:] {
		path, body := client.request("m", false)
		body = strings.Replace(body, `"max_tokens":100,`, "", 1)
		body = strings.Replace(body, "{", map[string]string{"responses": `{"max_output_tokens":77,`, "gemini": `{"generationConfig":{"maxOutputTokens":77},`, "converse": `{"inferenceConfig":{"maxTokens":77},`, "invoke": `{"max_tokens":77,`}[client.name], 1)
		res := g.Post("/explain", fmt.Sprintf(`{"request":{"path":%q,"body":%s},"config":{"provider":"@messages"}}`, path, body), "x-gateway-provider", "")
		e := res.JSON(t)
		if at(e, "attempt.body.max_tokens") != 77.0 || at(e, "estimate.completion_tokens") != 77.0 {
			t.Errorf("%s: %s", client.name, res.Body)
		}
	}
	if n := len(g.Sim.Requests()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// After answers of every kind, nothing is left running.
func TestTranslationsLeaveNothingBehind(t *testing.T) {
	g := newPairs(t)
	round := func() {
		for _, client := range clientFormats {
			for i, form := range []string{"tokens=9", "tokens=40+cut=6", "status=500", "tokens=40+malformed=6", "json-for-stream", "sse-for-json"} {
				client.send(t, g, "@"+pairTargets[i%len(pairTargets)], "sim-1+"+form, i%2 == 0)
				req := client.ask(t, g, "x-gateway-config", twoTargets(fallsBack+`"hedge":{"delay_ms":1,"max":1},"stream_continuation":true,`, "messages", "sim-1+first=100ms", "gemini", "sim-2+"+form), "m", true)
				g.Do(req)
			}
		}
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	}
	round()
	before := runtime.NumGoroutine()
	for range 3 {
		round()
	}
	waittest.Until(t, "the goroutines of responses have ended", func() bool { return runtime.NumGoroutine() <= before+10 })
}
