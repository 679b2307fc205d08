package security

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestLimitsThatReadersDisagreeOnDoNotBindWhatIsReserved sends two limits of one request, of
// which providers may respect either.
func TestLimitsThatReadersDisagreeOnDoNotBindWhatIsReserved(t *testing.T) {
	t.Parallel()
	g, p := launchReserving(t, nil)
	key := g.budgeted(t, 1_000_000)
	for _, c := range []struct {
		name, members string
		api           int // of limitedAPIs
		want          int64
	}{
		{"the older name is larger", `"max_completion_tokens":1,"max_tokens":90000`, 0, 90_000},
		{"the newer name is larger", `"max_tokens":1,"max_completion_tokens":90000`, 0, 90_000},
		{"the second in other capitals", `"max_tokens":1,"Max_Tokens":90000`, 0, 90_000},
		{"the second with the Kelvin sign", `"max_tokens":1,"max_to\u212aens":90000`, 0, 90_000},
		{"the second in capitals in an option", `"options":{"num_predict":1,"NUM_PREDICT":90000}`, 8, 90_000},
		{"two options", `"options":{"num_predict":1},"Options":{"num_predict":90000}`, 8, 90_000},
		{"without an end in Ollama", `"options":{"num_predict":-1}`, 8, unknownOutput},
		{"until the context is full in Ollama", `"options":{"num_predict":-2}`, 8, unknownOutput},
		{"as a string in Cohere's own API", `"max_tokens":"90000"`, 9, 90_000},
		{"with an exponent on pass-through", `"max_tokens":9e4`, 10, 90_000},
		{"none of one that is null", `"max_tokens":null`, 10, unknownOutput},
		{"one that is no number on pass-through", `"max_tokens":1,"max_completion_tokens":"all"`, 10, unknownOutput},
		{"less than one on pass-through", `"max_completion_tokens":1,"max_tokens":-1`, 10, unknownOutput},
		{"a larger one in an unknown API", `"max_tokens":1,"generation_config":{"max_output_tokens":90000}`, 11, 90_000},
		{"several responses", `"max_tokens":1000,"n":90`, 0, 90_000},
		{"several responses as a string on pass-through", `"max_tokens":1000,"n":"90"`, 10, 90_000},
		{"several responses in an unknown API", `"candidateCount":1,"n":20`, 11, 20 * unknownOutput},
		{"both spellings of gemini", `"generationConfig":{"maxOutputTokens":1},"generation_config":{"maxOutputTokens":90000}`, 5, 90_000},
		{"both spellings inside of gemini", `"generationConfig":{"maxOutputTokens":1,"max_output_tokens":90000}`, 5, 90_000},
		{"the field of the model in converse", `"inferenceConfig":{"maxTokens":1},"additionalModelRequestFields":{"max_tokens":90000}`, 7, 90_000},
	} {
		attack(t, "exhaustion", "the larger limit is reserved: "+c.name, func(t *testing.T) {
			a := limitedAPIs[c.api]
			p.reset()
			r := g.as(t, key, "POST", a.path, a.with(c.members, "hello"), "x-gateway-provider", "@"+a.provider)
			if r.status == http.StatusBadRequest && len(p.seen()) == 0 {
				return // the gateway does not accept the member in this API
			}
			if reserved, _ := g.reserved(t, r); reserved < c.want {
				t.Errorf("status %d, reserved %d tokens, want %d at least", r.status, reserved, c.want)
			}
		})
	}
}

// written are responses without usage in which TEXT is what the model wrote.
var written = []struct {
	name        string
	api         int // of limitedAPIs
	media, body string
}{
	{"chat", 0, "application/json", `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"TEXT"},"finish_reason":"stop"}]}`},
	{"a call of a tool", 0, "application/json", `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{\"a\":\"TEXT\"}"}}]},"finish_reason":"tool_calls"}]}`},
	{"a stream of chat", 1, "text/event-stream", chunk("TEXT", "") + fmt.Sprintf(lastChunk, "") + done},
	{"responses", 3, "application/json", `{"id":"r","object":"response","status":"completed","model":"m","output":[{"type":"message","id":"x","role":"assistant","status":"completed","content":[{"type":"output_text","text":"TEXT","annotations":[]}]}]}`},
	{"messages", 4, "application/json", `{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"TEXT"}],"stop_reason":"end_turn"}`},
	{"gemini", 5, "application/json", `{"candidates":[{"content":{"role":"model","parts":[{"text":"TEXT"}]},"finishReason":"STOP"}]}`},
	{"converse", 7, "application/json", `{"output":{"message":{"role":"assistant","content":[{"text":"TEXT"}]}},"stopReason":"end_turn"}`},
	{"chat on pass-through", 10, "application/json", `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"TEXT"},"finish_reason":"stop"}]}`},
	{"messages for chat", 13, "application/json", `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"TEXT"},"finish_reason":"stop"}]}`},
	{"chat for messages", 12, "application/json", `{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"TEXT"}],"stop_reason":"end_turn"}`},
}

// TestWrittenTextIsCountedWithoutReportedUsage has providers write text of which English
// estimates would be far too low.
func TestWrittenTextIsCountedWithoutReportedUsage(t *testing.T) {
	t.Parallel()
	for _, w := range written {
		t.Run(w.name, func(t *testing.T) {
			name := ""
			g, _ := launchReserving(t, func(rw http.ResponseWriter, r *http.Request) {
				text := texts[name]
				if strings.Contains(w.body, `\"TEXT\"`) { // JSON inside of JSON
					b, _ := json.Marshal(text)
					text = string(b[1 : len(b)-1])
				}
				respondWith(w.media, "", []byte(strings.Replace(w.body, "TEXT", text, 1)))(rw, r)
			})
			key := g.budgeted(t, 100_000_000)
			for name = range texts {
				attack(t, "exhaustion", name+" that a model writes is counted: "+w.name, func(t *testing.T) {
					want := tokenized(t, texts[name])
					a := limitedAPIs[w.api]
					r := g.as(t, key, "POST", a.path, a.with(a.required(), "hi"), "x-gateway-provider", "@"+a.provider).ok(t)
					if _, used := g.reserved(t, r); used*3 < want || used > 4*want+200 {
						t.Errorf("used %d of %d tokens", used, want)
					}
				})
			}
		})
	}
}
