package dataplane_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// thinker is a host whose models send thinking in a member of the message.
type thinker struct {
	member string

	mu   sync.Mutex
	last string // guarded by mu
}

func (u *thinker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	u.mu.Lock()
	u.last = string(body)
	u.mu.Unlock()
	var q struct{ Stream bool }
	_ = json.Unmarshal(body, &q)
	if !q.Stream {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hello",%q:"I thought."},"finish_reason":"stop"}]}`, u.member)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, chunk := range []string{
		fmt.Sprintf(`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant",%q:"I "}}]}`, u.member),
		fmt.Sprintf(`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{%q:"thought."}}]}`, u.member),
		`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"hello"}}]}`,
		`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
	} {
		fmt.Fprintf(w, "data: %s\n\n", chunk)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

func (u *thinker) body() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.last
}

// loops are conversations in the middle of a loop of tool calls, in each protocol,
// with the thinking before the call; ended are those with a later turn of the user.
var loops = map[string]string{
	"messages": `{"model":%q,"stream":%t,"max_tokens":100,"tools":[{"name":"f","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[` +
		`{"type":"thinking","thinking":"Think!","signature":"mg1.none.-"},{"type":"tool_use","id":"a","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"r"}]}]}`,
	"gemini": `{"contents":[{"role":"user","parts":[{"text":"x"}]},{"role":"model","parts":[{"text":"Think!","thought":true},{"functionCall":{"name":"f","args":{}}}]},` +
		`{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"r"}}}]}],"tools":[{"functionDeclarations":[{"name":"f"}]}]}`,
	"converse": `{"messages":[{"role":"user","content":[{"text":"x"}]},{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"Think!"}}},{"toolUse":{"toolUseId":"a","name":"f","input":{}}}]},` +
		`{"role":"user","content":[{"toolResult":{"toolUseId":"a","content":[{"text":"r"}]}}]}],"toolConfig":{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"object"}}}}]}}`,
}

// The thinking of a loop of tool calls goes back to the models that were seen to
// send theirs, in their member; the option of the provider decides otherwise.
func TestThinkingGoesBackToWhereItWasSeen(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ member, kept string }{{"reasoning_content", "reasoning_content"}, {"reasoning", "reasoning"}} {
		for _, client := range clientFormats[:5] {
			if loops[client.name] == "" {
				continue
			}
			for _, stream := range []bool{false, true} {
				u := &thinker{member: tt.member}
				g := gatewaytest.New(t, gatewaytest.Options{Upstream: u, Settings: `providers:
  - {slug: host, provider: openai-compatible, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
  - {slug: keep, provider: openai-compatible, custom_host: SIMULATOR, api_key: "${SECOND_KEY}", options: {reasoning: keep}}
  - {slug: drop, provider: vllm, custom_host: SIMULATOR, api_key: "${PAIR_KEY}", options: {reasoning: drop}}
`})
				loop := client
				loop.body = loops[client.name]
				thought := func(member string) string { return fmt.Sprintf(`%q:"Think!"`, member) }
				for _, step := range []struct {
					what, target, model string
					ask                 clientFormat
					want                string // in the sent body; empty for no thinking
				}{
					{"before anything was seen", "@host", "m", loop, ""},
					{"keep, before anything was seen", "@keep", "k", loop, thought("reasoning_content")},
					{"the first turn", "@host", "n", client, ""},
					{"after it was seen", "@host", "n", loop, thought(tt.kept)},
					{"another model", "@host", "other", loop, ""},
					{"the first turn of drop", "@drop", "n", client, ""},
					{"drop", "@drop", "n", loop, ""},
					{"keep, in the member that was seen", "@keep", "k", loop, thought(tt.kept)},
				} {
					res := step.ask.send(t, g, step.target, step.model, stream)
					sent, said := u.body(), res.Header.Get("X-Gateway-Params")
					if res.Status != 200 || strings.Contains(sent, "Think!") != (step.want != "") || !strings.Contains(sent, step.want) {
						t.Errorf("%s, %s, stream %t, %s: status %d, sent %s, want %s", tt.member, client.name, stream, step.what, res.Status, sent, step.want)
					}
					left := strings.Contains(said, "the target does not read it")
					if wants := step.want == "" && strings.Contains(step.ask.body, "Think!"); left != wants {
						t.Errorf("%s, %s, stream %t, %s: announced %q", tt.member, client.name, stream, step.what, said)
					}
				}
			}
		}
	}
}

// Thinking that no tool call follows is kept only if the provider's option asks.
func TestThinkingOfEndedTurnsGoesBackOnRequest(t *testing.T) {
	t.Parallel()
	u := &thinker{member: "reasoning_content"}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: u, Settings: `providers:
  - {slug: host, provider: openai-compatible, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
  - {slug: keep, provider: openai-compatible, custom_host: SIMULATOR, api_key: "${PAIR_KEY}", options: {reasoning: keep}}
`})
	const ended = `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"thinking","thinking":"Think!","signature":"mg1.none.-"},{"type":"text","text":"y"}]},{"role":"user","content":"z"}]}`
	for range 2 {
		for slug, want := range map[string]bool{"@host": false, "@keep": true} {
			res := g.Post("/messages", ended, "x-gateway-provider", slug)
			if sent := u.body(); res.Status != 200 || strings.Contains(sent, `"reasoning_content":"Think!"`) != want {
				t.Errorf("%s: status %d, sent %s, want thinking: %t", slug, res.Status, sent, want)
			}
		}
	}
}
