package dataplane_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/recorder"
)

// newPairs is a gateway with a provider of each protocol.
func newPairs(t *testing.T) *gatewaytest.Gateway {
	t.Helper()
	return gatewaytest.New(t, gatewaytest.Options{Settings: pairSettings, Simulator: recorder.Options{Record: 50}})
}

// twoTargets is a config with two targets, each a slug and a model.
func twoTargets(more, slug1, model1, slug2, model2 string) string {
	return fmt.Sprintf(`{%s"targets":[{"provider":"@%s","weight":1,"override_params":{"model":%q}},{"provider":"@%s","weight":0,"override_params":{"model":%q}}]}`,
		more, slug1, model1, slug2, model2)
}

const fallsBack = `"strategy":{"mode":"fallback"},`

// across sends a request of each client's protocol under a config, plain and
// streamed, and hands its response on.
func across(t *testing.T, g *gatewaytest.Gateway, config string, check func(t *testing.T, client clientFormat, h clientView, res gatewaytest.Response, e map[string]any)) {
	t.Helper()
	for _, client := range clientFormats {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s stream %t", client.name, stream), func(t *testing.T) {
				g.Sim.Reset()
				res := g.Do(client.ask(t, g, "x-gateway-config", config, "m", stream))
				h := client.readResponse(t, res)
				if want := map[bool]string{true: "done", false: "complete"}[stream]; res.Status != 200 || h.end != want {
					t.Fatalf("status %d, end %s, want %s: %.400s", res.Status, h.end, want, res.Body)
				}
				check(t, client, h, res, g.Entry(res))
			})
		}
	}
}

func TestAFallbackLeadsFromOneProtocolToAnother(t *testing.T) {
	t.Parallel()
	g := newPairs(t)
	for i, first := range pairTargets {
		second := pairTargets[(i+1)%len(pairTargets)]
		t.Run(first+" to "+second, func(t *testing.T) {
			across(t, g, twoTargets(fallsBack, first, "sim-1+status=529", second, "sim-2+tokens=9"), func(t *testing.T, _ clientFormat, h clientView, res gatewaytest.Response, e map[string]any) {
				if !strings.HasPrefix(h.text, "echo: hello") || res.Header.Get("x-gateway-model") != "sim-2+tokens=9" {
					t.Errorf("text %q by %s", h.text, res.Header.Get("x-gateway-model"))
				}
				if len(e["attempts"].([]any)) != 2 || e["provider_slug"] != second || e["usage"] == nil || e["error"] != nil {
					t.Errorf("recorded %v", e)
				}
			})
		})
	}
}

func TestAHedgeMayBeInAnotherProtocol(t *testing.T) {
	t.Parallel()
	g := newPairs(t)
	config := twoTargets(fallsBack+`"hedge":{"delay_ms":30,"max":1},`, "messages", "sim-1+headers=20s", "gemini", "sim-2+tokens=9")
	across(t, g, config, func(t *testing.T, _ clientFormat, h clientView, res gatewaytest.Response, e map[string]any) {
		if !strings.HasPrefix(h.text, "echo: hello") || len(e["attempts"].([]any)) != 2 || e["provider_slug"] != "gemini" || e["usage"] == nil {
			t.Errorf("text %q, recorded %v", h.text, e)
		}
	})
}

func TestRetriesAreTheSameInEachProtocol(t *testing.T) {
	t.Parallel()
	g := newPairs(t)
	for _, target := range pairTargets {
		for _, fault := range []string{"status=429+times=1", "status=503+times=1", "reset+times=1", "error-event=1+times=1"} {
			t.Run(target+" "+fault, func(t *testing.T) {
				g.Sim.Reset()
				model := "sim-1+" + fault
				config := fmt.Sprintf(`{"provider":"@%s","retry":{"attempts":2}}`, target)
				res := g.Do(clientFormats[1].ask(t, g, "x-gateway-config", config, model, true))
				e := g.Entry(res)
				if h := clientFormats[1].readResponse(t, res); res.Status != 200 || h.end != "done" || g.Sim.Calls(model) != 2 || len(e["attempts"].([]any)) != 2 {
					t.Errorf("status %d, end %s, %d calls, recorded %v", res.Status, h.end, g.Sim.Calls(model), e["attempts"])
				}
			})
		}
	}
}

// A stream of chat that breaks at one provider goes on at another, whatever
// their protocols are.
func TestABrokenStreamGoesOnInAnotherProtocol(t *testing.T) {
	t.Parallel()
	g := newPairs(t)
	chat := clientFormats[0]
	for i, first := range pairTargets {
		for _, fault := range []string{"cut=8", "cut=8,clean", "error-event=8", "malformed=8"} {
			for _, second := range []string{pairTargets[(i+1)%len(pairTargets)], "gemini"} {
				for _, way := range []string{"tokens=30", "tokens=30+json-for-stream"} {
					if fault == "malformed=8" && first == "chat" {
						continue // bytes pass there
					}
					if second == "chat" && way != "tokens=30" {
						continue // a response in its own protocol is not made a stream
					}
					t.Run(strings.Join([]string{first, fault, second, way}, " "), func(t *testing.T) {
						g.Sim.Reset()
						config := twoTargets(fallsBack+`"stream_continuation":true,`, first, "sim-1+tokens=60+"+fault, second, "sim-2+"+way)
						res := g.Do(chat.ask(t, g, "x-gateway-config", config, "m", true))
						h := chat.readResponse(t, res)
						before, after, _ := strings.Cut(string(res.Body), ": continued by config.targets[1]\n\n")
						if h.end != "done" || !strings.HasPrefix(h.text, "echo: hello") || !strings.Contains(streamText(after), "Your answer above was cut off") {
							t.Fatalf("end %s, text %q, before %q: %s", h.end, h.text, streamText(before), res.Body)
						}
						e := g.Entry(res)
						if e["provider_slug"] != second || len(e["attempts"].([]any)) != 2 || e["error"] != nil {
							t.Errorf("recorded %v", e)
						}
					})
				}
			}
		}
	}
}

func TestUnsupportedRequestsAreRefusedInTheClientsProtocol(t *testing.T) {
	t.Parallel()
	g := newPairs(t)
	for _, tt := range []struct {
		name, path, target, body string
		status                   int
	}{
		{"tokens of another protocol", "/v1/messages/count_tokens", "gemini", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, 200},
		{"tokens of a protocol without", "/v1/messages/count_tokens", "cohere", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, 200},
		{"tokens of chat", "/v1/messages/count_tokens", "chat", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, 200},
		{"tokens of its own protocol", "/v1/messages/count_tokens", "messages", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, 200},
		{"embeddings of a protocol without", "/v1/embeddings", "messages", `{"model":"m","input":"hi"}`, 501},
		{"embeddings of cohere", "/v1/embeddings", "cohere", `{"model":"m","input":"hi"}`, 200},
		{"embeddings of google", "/v1/embeddings", "gemini", `{"model":"m","input":"hi"}`, 200},
		{"embeddings that fail", "/v1/embeddings", "cohere", `{"model":"m+status=429","input":"hi"}`, 429},
		{"embeddings as a stream", "/v1/embeddings", "cohere", `{"model":"m+content-type=text/event-stream","input":"hi"}`, 502},
		{"embeddings cut off", "/v1/embeddings", "gemini", `{"model":"m+cut=20","input":"hi"}`, 502},
		{"speech of google", "/v1/audio/speech", "gemini", `{"model":"m","input":"hi","voice":"alloy"}`, 501},
		{"invalid base64", "/v1/messages", "chat", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"%%%"}}]}]}`, 400},
		{"a result without a call", "/v1/chat/completions", "messages", `{"model":"m","messages":[{"role":"tool","tool_call_id":"x","content":"y"}]}`, 400},
	} {
		t.Run(tt.name, func(t *testing.T) {
			model := strings.ReplaceAll(tt.name, " ", "-")
			body := strings.Replace(tt.body, `"model":"m`, `"model":"`+model, 1)
			req := g.Request(http.MethodPost, "", body, "x-gateway-provider", "@"+tt.target)
			req.URL.Path = tt.path
			res := g.Do(req)
			if res.Status != tt.status {
				t.Fatalf("status %d, want %d: %s", res.Status, tt.status, res.Body)
			}
			v := res.JSON(t)
			if strings.HasPrefix(tt.path, "/v1/messages") && tt.status >= 400 && v["type"] != "error" {
				t.Errorf("the error is not of the client's protocol: %s", res.Body)
			}
			if tt.status >= 400 && str(at(v, "error.message")) == "" {
				t.Errorf("no message: %s", res.Body)
			}
			if n := g.Sim.Calls(model); (tt.status == 400 || tt.status == 501) && n != 0 {
				t.Errorf("%d requests were sent", n)
			}
		})
	}
}
