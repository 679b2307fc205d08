package conformance

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"modelgate/internal/testing/waittest"
)

// reasonsOfLength are how streams end at their limit of output tokens, by API format.
var reasonsOfLength = map[string]string{
	"chat": `"finish_reason":"length"`, "messages": `"stop_reason":"max_tokens"`, "responses": "response.incomplete",
	"gemini": `"finishReason":"MAX_TOKENS"`, "converse": "max_tokens",
}

func TestAStreamEndsWithItsBudget(t *testing.T) {
	g, _ := start(t)
	chat := asker{name: "chat", path: "/v1/chat/completions", body: `{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`}
	for _, a := range append([]asker{chat}, askers...) {
		prove(t, "M-137", a.name, func(t *testing.T) {
			closed := make(chan bool, 1)
			p := newProvider(t, untilClosed(closed))
			var made struct{ Key string }
			text := g.do(t, "POST", "/v1/api-keys/workspace/service",
				`{"name":"k","workspace_id":"default","scopes":["completions.write"],"usage_limits":{"type":"tokens","credit_limit":300,"on_budget_end":"stop"}}`,
				"x-gateway-api-key", bootstrapKey).wantOK(t).body
			if err := json.Unmarshal(text, &made); err != nil {
				t.Fatal(err)
			}
			waittest.Until(t, "the key is known", func() bool { return g.do(t, "GET", "/v1/models", "", "x-gateway-api-key", made.Key).status != 401 })
			header := of("deepseek", p)
			header[1] = made.Key
			got := g.do(t, "POST", a.path, a.body, header...).wantOK(t)
			if !bytes.Contains(got.body, []byte(reasonsOfLength[a.name])) {
				t.Errorf("the stream does not end with %s: %.300s", reasonsOfLength[a.name], got.body[max(len(got.body)-300, 0):])
			}
			if n := bytes.Count(got.body, []byte("word")); n < 50 || n > 1500 { // one format repeats its text
				t.Errorf("the client has %d words of a budget of 300 tokens", n)
			}
			if !waittest.Receive(t, closed, "the provider to see the end of its connection") {
				t.Error("the connection to the provider stayed open")
			}
		})
	}
}

// untilClosed streams words until its connection is closed, at most ten thousand. It reports
// whether it was closed before.
func untilClosed(closed chan<- bool) behaviour {
	return func(w http.ResponseWriter, r *http.Request, _ received) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 10_000 {
			io.WriteString(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}`+"\n\n")
			http.NewResponseController(w).Flush()
			if r.Context().Err() != nil {
				closed <- true
				return
			}
		}
		closed <- false
	}
}
