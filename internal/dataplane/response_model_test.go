package dataplane_test

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"modelgate/internal/format/eventstream"
	"modelgate/internal/identity/access"
	"modelgate/internal/testing/gatewaytest"
)

// namedModels returns every name that a response gives its model.
func namedModels(t *testing.T, client string, res gatewaytest.Response) (names []string) {
	t.Helper()
	path := map[string][]string{
		"chat": {"model"}, "messages": {"model", "message.model"}, "invoke": {"model", "message.model"},
		"responses": {"model", "response.model"}, "gemini": {"modelVersion"},
	}[client]
	events := []any{}
	switch kind := res.Header.Get("Content-Type"); {
	case strings.HasPrefix(kind, "text/event-stream"):
		events = sseData(res.Body)
	case kind == eventstream.ContentType:
		for _, e := range binaryData(t, res.Body) {
			var inner any
			data, _ := base64.StdEncoding.DecodeString(str(at(e, "bytes")))
			json.Unmarshal(data, &inner)
			events = append(events, inner)
		}
	default:
		events = append(events, any(res.JSON(t)))
	}
	for _, e := range events {
		for _, p := range path {
			if name, ok := at(e, p).(string); ok {
				names = append(names, name)
			}
		}
	}
	return names
}

// servedBy is a provider of every dialect that calls its model "served".
func servedBy(w http.ResponseWriter, r *http.Request) {
	streamed := strings.Contains(r.URL.Path, "tream")
	var body struct{ Stream bool }
	json.NewDecoder(r.Body).Decode(&body)
	streamed = streamed || body.Stream
	answer := func(plain, stream string) {
		if !streamed {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, plain)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, stream)
	}
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/chat/completions"):
		answer(`{"id":"c","model":"served","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}`,
			providerChoice(0, "a", "")+providerChoice(0, "", "stop")+done)
	case strings.HasSuffix(path, "/messages"):
		answer(`{"id":"m","type":"message","role":"assistant","model":"served","content":[{"type":"text","text":"a"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`,
			messageStart+messageDelta("a")+messageEnd)
	case strings.HasSuffix(path, "/responses"):
		const response = `{"id":"r","object":"response","status":"%s","model":"served","output":[]}`
		answer(fmt.Sprintf(response, "completed"),
			"event: response.created\ndata: {\"type\":\"response.created\",\"response\":"+fmt.Sprintf(response, "in_progress")+"}\n\n"+
				"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":"+fmt.Sprintf(response, "completed")+"}\n\n")
	case strings.Contains(path, "enerateContent"):
		const response = `{"candidates":[{"content":{"role":"model","parts":[{"text":"a"}]},"finishReason":"STOP"}],"modelVersion":"served"}`
		answer(response, "data: "+response+"\n\ndata: "+response+"\n\n")
	case strings.HasSuffix(path, "/invoke"):
		answer(`{"content":[{"type":"text","text":"a"}],"model":"served","stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":4}}`, "")
	case strings.HasSuffix(path, "/invoke-with-response-stream"):
		w.Header().Set("Content-Type", eventstream.ContentType)
		fmt.Fprint(w, chunkOf(`{"type":"message_start","message":{"model":"served","usage":{"input_tokens":3}}}`)+
			chunkOf(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":4}}`)+chunkOf(`{"type":"message_stop"}`))
	default:
		http.NotFound(w, r)
	}
}

// Claude Code drops its signed thinking if the response names another model than
// the request. Other clients read from it who served them.
func TestResponseNamesTheModelThatItsDialectNeeds(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Settings: pairSettings, Upstream: http.HandlerFunc(servedBy)})
	defaults := map[string]string{"messages": "requested"}
	for _, client := range clientFormats {
		for _, target := range []string{"chat", "messages", "gemini", "converse"} {
			if target == "converse" && client.name != "invoke" {
				continue
			}
			for _, stream := range []bool{false, true} {
				for _, setting := range []string{"", "requested", "served"} {
					t.Run(fmt.Sprintf("%s at %s, stream %t, %q", client.name, target, stream, setting), func(t *testing.T) {
						model := "@" + target + "/sent/\"ü" // split by the gateway, and escaped in JSON
						if target == "converse" {
							model = "@converse/" + claude
						}
						path, body := client.request(model, stream)
						req := mustPost(t, g, path, body)
						if setting != "" {
							req.Header.Set("x-gateway-config", fmt.Sprintf(`{"passthrough":true,"response_model":%q}`, setting))
						}
						res := g.Do(req)
						want := map[string]string{"requested": model, "served": "served"}[cmp.Or(setting, defaults[client.name], "served")]
						names := namedModels(t, client.name, res)
						if res.Status != 200 || len(names) == 0 && client.name != "converse" {
							t.Fatalf("status %d names %q: %s", res.Status, names, res.Body)
						}
						for _, name := range names {
							if name != want {
								t.Errorf("the response names %q, want %q: %s", name, want, res.Body)
							}
						}
						if named := res.Header.Get("x-gateway-model"); want == model && client.name != "converse" && named != "served" {
							t.Errorf("x-gateway-model is %q, want served", named)
						}
						if e := g.Entry(res); e["response_model"] != "served" {
							t.Errorf("the log has response_model %v, want served", e["response_model"])
						}
					})
				}
			}
		}
	}
}

// mustPost makes a request for a path below the root.
func mustPost(t *testing.T, g *gatewaytest.Gateway, path, body string) *http.Request {
	t.Helper()
	req := g.Request(http.MethodPost, "/", body)
	at, err := url.Parse(g.Root + path)
	if err != nil {
		t.Fatal(err)
	}
	req.URL = at
	req.Header.Del("x-gateway-provider")
	return req
}

// A key sets it for requests whose config does not.
func TestResponseModelOfAKey(t *testing.T) {
	t.Parallel()
	const key = "mg-a-key-of-the-settings-file-0001"
	for _, setting := range []string{"requested", "served"} {
		g := gatewaytest.New(t, gatewaytest.Options{Upstream: http.HandlerFunc(servedBy), Settings: pairSettings + `
keys:
  - {name: k, sha256: ` + access.HashKey(key).String() + `, response_model: ` + setting + `}
`})
		for _, client := range []clientFormat{clientFormats[0], clientFormats[1]} {
			for _, config := range []string{"", "requested", "served"} {
				path, body := client.request("@chat/m", true)
				want := map[string]string{"requested": "@chat/m", "served": "served"}[cmp.Or(config, setting)]
				req := mustPost(t, g, path, body)
				req.Header.Set("x-gateway-api-key", key)
				if config != "" {
					req.Header.Set("x-gateway-config", fmt.Sprintf(`{"passthrough":true,"response_model":%q}`, config))
				}
				res := g.Do(req)
				if names := namedModels(t, client.name, res); len(names) == 0 || names[0] != want {
					t.Errorf("key %s, config %q: %s client reads %q, want %s: %s", setting, config, client.name, names, want, res.Body)
				}
			}
		}
	}
}

// Only the name is replaced: every other byte of a response of the client's own
// dialect stays.
func TestModelIsReplacedInPlace(t *testing.T) {
	t.Parallel()
	const (
		body = "{ \"type\" : \"message\",\r\n\t\"unknown\":1.50, \"model\" :\t\"served\" ,\"content\":[{\"type\":\"text\",\"text\":\"\\u0041 \\\"model\\\":\\\"served\\\"\"}],\"stop_reason\":\"end_turn\",\"usage\":{\"input_tokens\":1e0,\"output_tokens\":2}}\n"
		// A message_start over several lines, with a comment that has the name too.
		stream = ": \"served\"\r\nevent: message_start\r\ndata: {\"type\":\"message_start\",\"served\":\"served\",\r\ndata: \"message\":{\"x\":\"served\",\"model\":\"served\",\"content\":[]}}\r\n\r\n" +
			"event:content_block_delta\ndata:{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"\\\"model\\\":\\\"served\\\"\"},\"model\":\"served\"}\n\n" +
			": comment\n\n" + "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	)
	for _, tt := range []struct{ name, model, answer, want string }{
		{"complete", "asked", rawHead("application/json") + body, strings.Replace(body, `"served"`, `"asked"`, 1)},
		{"complete, the same name", "served", rawHead("application/json") + body, body},
		{"stream", "asked", sseOf(stream), strings.Replace(stream, `"model":"served"`, `"model":"asked"`, 1)},
		{"stream, the same name", "served", sseOf(stream), stream},
		{"a name too long to be repeated", strings.Repeat("n", 501), rawHead("application/json") + body, body},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := gatewaytest.New(t, gatewaytest.Options{Settings: pairSettings, Upstream: raw(tt.answer)})
			res := clientFormats[1].send(t, g, "@messages", tt.model, strings.HasPrefix(tt.name, "stream"))
			if string(res.Body) != tt.want {
				t.Errorf("the client got\n%q, want\n%q", res.Body, tt.want)
			}
		})
	}
}

// A response too long to be held has its model near its beginning.
func TestModelOfALongResponseIsReplaced(t *testing.T) {
	t.Parallel()
	body := `{"type":"message","model":"served","content":[{"type":"text","text":"` + strings.Repeat("a", 9<<20) + `"}],"stop_reason":"end_turn"}`
	for _, head := range []string{rawHead("application/json"), rawHead("application/json", "Connection: close", fmt.Sprintf("Content-Length: %d", len(body)))} {
		g := gatewaytest.New(t, gatewaytest.Options{Settings: pairSettings, Upstream: raw(head + body)})
		res := clientFormats[1].send(t, g, "@messages", "asked for", false)
		if want := strings.Replace(body, `"served"`, `"asked for"`, 1); res.Err != nil || string(res.Body) != want {
			t.Errorf("%d bytes, %v, want %d: %.60q", len(res.Body), res.Err, len(want), res.Body)
		}
	}
}
