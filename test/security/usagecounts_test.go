package security

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// noCounts are values that are not counts of tokens. Each once made a request free, or
// counted less than nothing.
var noCounts = []struct{ name, value string }{
	{"an exponent", `1e3`}, {"a capital exponent", `7E2`}, {"a string", `"700"`}, {"an empty string", `""`}, {"a string NaN", `"NaN"`},
	{"a negative number", `-700`}, {"a small fraction", `0.5`}, {"a negative zero", `-0`},
	{"more than 63 bits", `9223372036854775808`}, {"more than 64 bits", `18446744073709551616`}, {"the largest int64", `9223372036854775807`},
	{"a giant exponent", `1e400`}, {"an absurd number", `5000000000`}, {"a list", `[700]`}, {"an object", `{"value":700}`}, {"true", `true`},
}

// usageReport is a way in which a provider reports usage. Every %[1]s in its response is a count.
type usageReport struct {
	name, provider, path, body string
	stream                     bool
	response                   string
}

const (
	messagesBody = `{"model":"claude","max_tokens":4096,"messages":[{"role":"user","content":"hello"}]}`
	respondBody  = `{"model":"gpt-4o","input":"hello"}`
	geminiBody   = `{"contents":[{"role":"user","parts":[{"text":"hello"}]}]}`
	messagesEnd  = "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":%[1]s}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
)

// usageReports returns reports of every dialect, complete and streamed, on unified
// routes, translated and on pass-through. Their text has a thousand tokens.
func usageReports() []usageReport {
	chat := `{"id":"c1","object":"chat.completion","model":"gpt-4o","choices":[{"index":0,"message":{"role":"assistant","content":"` + long + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":%[1]s,"completion_tokens":%[1]s}}`
	chatEvents := chunk(long, "") + fmt.Sprintf(lastChunk, "") + `data: {"id":"c1","object":"chat.completion.chunk","model":"gpt-4o","choices":[],"usage":{"prompt_tokens":%[1]s,"completion_tokens":%[1]s}}` + "\n\n" + done
	message := `{"id":"m","type":"message","role":"assistant","model":"claude","content":[{"type":"text","text":"` + long + `"}],"stop_reason":"end_turn","usage":{"input_tokens":9,"output_tokens":%[1]s}}`
	messageEvents := messagesStart + messagesDelta(long) + messagesEnd
	response := `{"id":"r","object":"response","model":"gpt-4o","status":"completed","output":[{"type":"message","id":"i","role":"assistant","status":"completed","content":[{"type":"output_text","text":"` + long + `","annotations":[]}]}],"usage":{"input_tokens":%[1]s,"output_tokens":%[1]s,"total_tokens":%[1]s}}`
	responseEvents := "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"object\":\"response\",\"model\":\"gpt-4o\",\"status\":\"in_progress\",\"output\":[]}}\n\n" +
		"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"item_id\":\"i\",\"output_index\":0,\"content_index\":0,\"delta\":\"" + long + "\"}\n\n" +
		"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":" + response + "}\n\n"
	gemini := `{"candidates":[{"content":{"role":"model","parts":[{"text":"` + long + `"}]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":%[1]s,"candidatesTokenCount":%[1]s,"totalTokenCount":%[1]s},"modelVersion":"gemini-2.5-flash"}`
	streamed := func(body string) string { return strings.Replace(body, "{", `{"stream":true,`, 1) }
	return []usageReport{
		{"chat", "openai-compatible", completePath, chatBody, false, chat},
		{"a chat stream", "openai-compatible", completePath, streamBody, true, chatEvents},
		{"chat on pass-through", "openai-compatible", passPath, chatBody, false, chat},
		{"a chat stream on pass-through", "openai-compatible", passPath, streamBody, true, chatEvents},
		{"details of chat", "openai-compatible", completePath, chatBody, false, strings.Replace(chat, `"prompt_tokens":%[1]s,"completion_tokens":%[1]s`, `"prompt_tokens":150,"completion_tokens":200,"completion_tokens_details":{"reasoning_tokens":%[1]s}`, 1)},
		{"text completions", "openai-compatible", "/v1/completions", `{"model":"gpt","prompt":"hello"}`, false, `{"id":"c","object":"text_completion","model":"gpt","choices":[{"index":0,"text":"` + long + `","finish_reason":"stop"}],"usage":{"prompt_tokens":%[1]s,"completion_tokens":%[1]s}}`},
		{"messages", "anthropic", "/v1/messages", messagesBody, false, message},
		{"a messages stream", "anthropic", "/v1/messages", streamed(messagesBody), true, messageEvents},
		{"messages as chat", "anthropic", completePath, `{"model":"claude","max_tokens":4096,"messages":[{"role":"user","content":"hello"}]}`, false, message},
		{"a messages stream as chat", "anthropic", completePath, `{"model":"claude","max_tokens":4096,"stream":true,"messages":[{"role":"user","content":"hello"}]}`, true, messageEvents},
		{"responses", "openai", "/v1/responses", respondBody, false, response},
		{"a responses stream", "openai", "/v1/responses", streamed(respondBody), true, responseEvents},
		{"gemini", "google", "/v1beta/models/gemini-2.5-flash:generateContent", geminiBody, false, gemini},
		{"a gemini stream", "google", "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse", geminiBody, true, "data: " + gemini + "\r\n\r\n"},
		{"gemini as chat", "google", completePath, `{"model":"gemini-2.5-flash","messages":[{"role":"user","content":"hello"}]}`, false, gemini},
		{"cohere as chat", "cohere", completePath, `{"model":"command-a","messages":[{"role":"user","content":"hello"}]}`, false, `{"id":"c","finish_reason":"COMPLETE","message":{"role":"assistant","content":[{"type":"text","text":"` + long + `"}]},"usage":{"tokens":{"input_tokens":%[1]s,"output_tokens":%[1]s}}}`},
		{"embeddings", "openai-compatible", "/v1/embeddings", `{"model":"e","input":"` + long + `"}`, false, `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.1]}],"model":"e","usage":{"prompt_tokens":%[1]s,"total_tokens":%[1]s}}`},
		{"cohere embeddings", "cohere", "/v1/embeddings", `{"model":"embed-v4.0","input":["` + long + `"]}`, false, `{"id":"e","embeddings":{"float":[[0.1]]},"meta":{"billed_units":{"input_tokens":%[1]s}}}`},
	}
}

// TestInvalidUsageIsEstimated shows that what a provider reports of the tokens is
// used only if it is a count, in every dialect. Otherwise the tokens are estimated.
func TestInvalidUsageIsEstimated(t *testing.T) {
	t.Parallel()
	g := launch(t, options{})
	for _, report := range usageReports() {
		for _, c := range noCounts {
			attack(t, "exhaustion", report.name+" reports "+c.name, func(t *testing.T) {
				e := g.reportUsage(t, &report, c.value)
				if n, estimated := tokens(e); !estimated || n < 900 || n > 4_000 {
					t.Errorf("booked %d tokens, estimated %t; want about 1000, estimated", n, estimated)
				}
			})
		}
		t.Run("legitimate: "+report.name, func(t *testing.T) {
			e := g.reportUsage(t, &report, "300")
			if n, estimated := tokens(e); estimated || n < 300 || n > 600 {
				t.Errorf("booked %d tokens, estimated %t; want those that the provider reports", n, estimated)
			}
		})
	}
}

// reportUsage sends a request whose provider reports a count, and returns its log entry.
func (g *gateway) reportUsage(t *testing.T, r *usageReport, count string) map[string]any {
	t.Helper()
	content := "application/json"
	if r.stream {
		content = "text/event-stream"
	}
	p := newProvider(t, respondWith(content, "", []byte(strings.ReplaceAll(r.response, "%[1]s", count))))
	header := toCustomHost(rootKey, p)
	header[3] = r.provider
	res := g.do(t, "POST", r.path, r.body, header...)
	if res.status != http.StatusOK {
		t.Fatalf("status %d: %.300s", res.status, res.body)
	}
	return g.entry(t, res)
}

// TestAnAbsurdCountNeverMendsABudget shows that a provider's report neither takes from what
// was counted before nor overflows it.
func TestAnAbsurdCountNeverMendsABudget(t *testing.T) {
	t.Parallel()
	g := launch(t, options{})
	for _, count := range []string{"-100000", "-9223372036854775808", "9223372036854775807", "4611686018427387904", "18446744073709551516"} {
		attack(t, "exhaustion", "a report of "+count+" tokens after a budget was used", func(t *testing.T) {
			made := g.as(t, rootKey, "POST", "/v1/api-keys/workspace/service", `{"name":"limited","workspace_id":"default","scopes":["completions.write"],"usage_limits":{"type":"tokens","credit_limit":1000}}`).ok(t)
			key := made.text(t, "key")
			g.awaitKey(t, key)
			const used = `{"id":"c1","object":"chat.completion","model":"gpt-4o","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":%s,"completion_tokens":%s,"total_tokens":%s}}`
			for _, n := range []string{"300", count} {
				p := newProvider(t, respondWith("application/json", "", fmt.Appendf(nil, used, n, n, n)))
				g.do(t, "POST", completePath, chatBody, toCustomHost(key, p)...).ok(t)
			}
			p := newProvider(t, respondWith("application/json", "", fmt.Appendf(nil, used, "300", "300", "600")))
			g.do(t, "POST", completePath, chatBody, toCustomHost(key, p)...).ok(t)
			if r := g.do(t, "POST", completePath, chatBody, toCustomHost(key, p)...); r.status != http.StatusPreconditionFailed {
				t.Errorf("status %d after 1,200 tokens of a budget of 1,000, want 412", r.status)
			}
		})
	}
}
