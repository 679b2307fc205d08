package conformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// events writes a stream of server-sent events with this data.
func events(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		b.WriteString("data: " + d + "\n\n")
	}
	return b.String()
}

// chunks returns the objects of a stream of the chat protocol.
func chunks(t *testing.T, stream []byte) []any {
	t.Helper()
	var list []any
	for line := range bytes.Lines(stream) {
		data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: "))
		if !ok || string(data) == "[DONE]" {
			continue
		}
		list = append(list, exactly(t, data))
	}
	return list
}

// TestPartsOfTranslatedStreamsAreSeparate has providers of other protocols send two
// choices, or two calls, in turn.
func TestPartsOfTranslatedStreamsAreSeparate(t *testing.T) {
	g, _ := start(t)
	ask := func(t *testing.T, x providerFormat, stream string, more ...string) []any {
		t.Helper()
		p := newProvider(t, streams(stream))
		return chunks(t, g.do(t, "POST", chatStream.path, x.ask(append(more, `"stream":true`)...), x.to(p)...).wantOK(t).body)
	}
	prove(t, "S-133", "two choices of a stream", func(t *testing.T) {
		one := func(index, text, end string) string {
			return `{"candidates":[{"index":` + index + `,"content":{"role":"model","parts":[{"text":"` + text + `"}]}` + end + `}]}`
		}
		said, ends := map[string]string{}, map[string]any{}
		for _, chunk := range ask(t, byProvider("google"), events(one("0", "a", ""), one("1", "x", ""), one("0", "b", ""), one("1", "y", `,"finishReason":"MAX_TOKENS"`), one("0", "c", `,"finishReason":"STOP"`)), `"n":2`) {
			index := fmt.Sprint(at(chunk, "choices", 0, "index"))
			text, _ := at(chunk, "choices", 0, "delta", "content").(string)
			said[index] += text
			if end := at(chunk, "choices", 0, "finish_reason"); end != nil {
				ends[index] = end
			}
		}
		if said["0"] != "abc" || said["1"] != "xy" {
			t.Errorf("the choices say %v, want abc and xy", said)
		}
		if ends["0"] != "stop" || ends["1"] != "length" {
			t.Errorf("the choices end with %v, want stop and length", ends)
		}
	})
	prove(t, "S-135", "two calls in a stream", func(t *testing.T) {
		begin := func(index, id, name string) string {
			return `{"type":"content_block_start","index":` + index + `,"content_block":{"type":"tool_use","id":"` + id + `","name":"` + name + `","input":{}}}`
		}
		piece := func(index, text string) string {
			return `{"type":"content_block_delta","index":` + index + `,"delta":{"type":"input_json_delta","partial_json":"` + text + `"}}`
		}
		end := func(index string) string { return `{"type":"content_block_stop","index":` + index + `}` }
		calls := map[string]string{}
		for _, chunk := range ask(t, byProvider("anthropic"), events(`{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":7,"output_tokens":1}}}`,
			begin("0", "call_1", "look"), piece("0", `{\"q\"`), piece("0", `:1}`), end("0"), begin("1", "call_2", "find"), piece("1", `{\"q\":`), piece("1", `2}`), end("1"),
			`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":2}}`, `{"type":"message_stop"}`)) {
			if call := at(chunk, "choices", 0, "delta", "tool_calls", 0); call != nil {
				name, _ := at(call, "function", "name").(string)
				arguments, _ := at(call, "function", "arguments").(string)
				calls[fmt.Sprint(at(call, "index"))] += name + arguments
			}
		}
		if calls["0"] != `look{"q":1}` || calls["1"] != `find{"q":2}` || len(calls) != 2 {
			t.Errorf("the calls by index are %v, want look with 1 and find with 2", calls)
		}
	})
}

// TestEventsOfTranslatedStreamsAreNotHeldBack lets the provider send an event only after
// the client has read what the one before says. No comment may flush what is held back.
func TestEventsOfTranslatedStreamsAreNotHeldBack(t *testing.T) {
	g := launchFor(t, "version: 1\ntimeouts: {keep_alive: -1s}\n", "MODELGATE_TRUSTED_HOSTS=127.0.0.1")
	for provider, tt := range map[string]struct{ begin, event string }{
		"anthropic": {
			events(`{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":7,"output_tokens":1}}}`,
				`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`),
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"piece-%d"}}`,
		},
		"google": {"", `{"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":"piece-%d"}]}}]}`},
	} {
		prove(t, "S-270", provider, func(t *testing.T) {
			const pieces = 4
			read := make(chan struct{})
			p := newProvider(t, func(w http.ResponseWriter, r *http.Request, _ received) {
				w.Header().Set("Content-Type", "text/event-stream")
				io.WriteString(w, tt.begin)
				for i := range pieces {
					io.WriteString(w, events(fmt.Sprintf(tt.event, i)))
					http.NewResponseController(w).Flush()
					select {
					case <-read:
					case <-r.Context().Done():
						return
					}
				}
			})
			x := byProvider(provider)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			res, err := client.Do(g.request(t, "POST", chatStream.path, strings.NewReader(x.ask(`"stream":true`)), x.to(p, "Content-Type", "application/json")...).WithContext(ctx))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			lines := bufio.NewScanner(res.Body)
			for i := range pieces {
				piece := fmt.Sprintf("piece-%d", i)
				for found := false; !found; found = strings.Contains(lines.Text(), piece) {
					if !lines.Scan() {
						t.Fatalf("%s did not come before the provider sent more: %v", piece, lines.Err())
					}
				}
				read <- struct{}{}
			}
		})
	}
}

// TestTokensOfCachesAndThinkingAreCounted has providers of other protocols count them
// each in its own way.
func TestTokensOfCachesAndThinkingAreCounted(t *testing.T) {
	g, _ := start(t)
	for provider, tt := range map[string]struct{ response, want string }{
		"anthropic": {`{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Hello"}],"stop_reason":"end_turn","usage":{"input_tokens":7,"cache_read_input_tokens":5,"cache_creation_input_tokens":3,"output_tokens":9,"output_tokens_details":{"thinking_tokens":4}}}`, "[15,9,24]"},
		"google":    {`{"candidates":[{"index":0,"finishReason":"STOP","content":{"role":"model","parts":[{"text":"Hello"}]}}],"usageMetadata":{"promptTokenCount":12,"cachedContentTokenCount":5,"candidatesTokenCount":2,"thoughtsTokenCount":4,"totalTokenCount":18}}`, "[12,6,18]"},
		"bedrock":   {`{"output":{"message":{"role":"assistant","content":[{"text":"Hello"}]}},"stopReason":"end_turn","usage":{"inputTokens":7,"cacheReadInputTokens":5,"cacheWriteInputTokens":3,"outputTokens":2,"totalTokens":17}}`, "[15,2,17]"},
	} {
		prove(t, "S-143", provider, func(t *testing.T) {
			x := byProvider(provider)
			p := newProvider(t, says(200, "application/json", tt.response))
			usage := at(g.do(t, "POST", chatStream.path, x.ask(), x.to(p)...).wantOK(t).object(t), "usage")
			if got, _ := json.Marshal([]any{at(usage, "prompt_tokens"), at(usage, "completion_tokens"), at(usage, "total_tokens")}); string(got) != tt.want {
				t.Errorf("prompt, completion and total are %s, want %s: %v", got, tt.want, usage)
			}
		})
	}
}
