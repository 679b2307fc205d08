package conformance

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

const (
	chatEvents = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1700000001,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Hel\"},\"finish_reason\":null}]}\n\n" +
		"data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\", \"created\":1700000001,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"lo\"},\"finish_reason\":null}]}\n\n" +
		"data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1700000001,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n" +
		"data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1700000001,\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2,\"total_tokens\":9}}\n\n"
	textEvents = "data: {\"id\":\"t\",\"object\":\"text_completion\",\"created\":1700000002,\"model\":\"m\",\"choices\":[{\"text\":\"on\",\"index\":0,\"logprobs\":null,\"finish_reason\":null}]}\n\n" +
		"data: {\"id\":\"t\",\"object\":\"text_completion\",\"created\":1700000002,\"model\":\"m\",\"choices\":[{\"text\":\"e\",\"index\":0,\"logprobs\":null,\"finish_reason\":\"stop\"}]}\n\n"
	done = "data: [DONE]\n\n"

	firstChatEvent = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1700000001,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel\"},\"finish_reason\":null}]}\n\n"
	chatError      = "event: error\ndata: {\"error\":{\"message\":\"overloaded\",\"type\":\"server_error\",\"code\":\"overloaded\"}}\n\n"
)

var (
	chatStream = modelRoute{path: "/v1/chat/completions", body: `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"x"}]}`}
	textStream = modelRoute{path: "/v1/completions", body: `{"model":"m","stream":true,"prompt":"x"}`}
)

func TestStreams(t *testing.T) {
	g, _ := start(t)
	for _, tt := range []struct {
		of, name string
		modelRoute
		sent, want string
	}{
		{"S-270 S-271 S-272 S-472 S-141", "chat arrives as it was sent", chatStream, chatEvents + done, chatEvents + done},
		{"S-270", "event lines of the provider pass", chatStream, "event: chunk\n" + chatEvents + "event: end\n" + done, "event: chunk\n" + chatEvents + "event: end\n" + done},
		{"S-270", "an error with an event line passes", chatStream, firstChatEvent + chatError, firstChatEvent + chatError},
		{"S-271 S-472", "a missing [DONE] after the finish is supplied to chat", chatStream, chatEvents, chatEvents + done},
		{"S-271 S-472", "an unfinished last line is finished", chatStream, chatEvents + "data: [DONE]", chatEvents + done},
		{"S-149 S-472", "text arrives as it was sent", textStream, textEvents + done, textEvents + done},
		{"S-149 S-472", "a missing [DONE] after the finish is supplied to text", textStream, textEvents, textEvents + done},
	} {
		prove(t, tt.of, tt.name, func(t *testing.T) {
			p := newProvider(t, streams(tt.sent))
			got := g.do(t, "POST", tt.path, tt.body, to(p)...).wantOK(t)
			if string(got.body) != tt.want {
				t.Errorf("stream = %q, want %q", got.body, tt.want)
			}
			if ct := got.header.Get("Content-Type"); !strings.HasPrefix(ct, "text/event-stream") {
				t.Errorf("content type = %q, want text/event-stream", ct)
			}
		})
	}
	for _, fault := range []string{"", "+no-done", "+no-blank", "+crlf", "+comments", "+bom"} {
		for of, r := range map[string]modelRoute{"S-270 S-271 S-472 S-141": chatStream, "S-149 S-472": textStream} {
			prove(t, of, "the simulator's stream on "+r.path+" with"+fault, func(t *testing.T) {
				p := &provider{url: simulate(t) + "/v1"}
				got := g.do(t, "POST", r.path, strings.Replace(r.body, `"m"`, `"sim-1+tokens=4+pace=0s`+fault+`"`, 1), to(p)...).wantOK(t)
				checkStream(t, string(got.body), map[string]string{chatStream.path: "chat.completion.chunk", textStream.path: "text_completion"}[r.path])
			})
		}
	}
	for name, sent := range map[string]string{
		"ends before its finish": strings.Split(chatEvents, "\n\n")[0] + "\n\n",
		"breaks off":             "",
	} {
		prove(t, "S-271", "a stream that "+name+" never ends in [DONE]", func(t *testing.T) {
			say := streams(sent)
			if sent == "" {
				say = func(w http.ResponseWriter, r *http.Request, in received) {
					streams(chatEvents[:200])(w, r, in)
					http.NewResponseController(w).Flush()
					panic(http.ErrAbortHandler)
				}
			}
			got := g.do(t, "POST", chatStream.path, chatStream.body, to(newProvider(t, say))...)
			if strings.Contains(string(got.body), "[DONE]") || got.status == 200 && !strings.Contains(string(got.body), `"error"`) {
				t.Errorf("status %d, stream = %q, want an error and no [DONE]", got.status, got.body)
			}
		})
	}
	prove(t, "S-270 S-272", "usage that nobody asked for is taken out of a stream, and its event lines stay", func(t *testing.T) {
		const begin, end = "event: chunk\ndata: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]", "}\n\n"
		p := newProvider(t, streams(begin+`,"usage":null`+end+"event: usage\ndata: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2,\"total_tokens\":9}}\n\n"+done))
		for _, options := range []string{``, `,"stream_options":{}`, `,"stream_options":{"include_usage":false}`} {
			got := g.do(t, "POST", chatStream.path, `{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]`+options+`}`, to(p)...).wantOK(t)
			if string(got.body) != begin+end+done {
				t.Errorf("with %q the stream is %q, want %q", options, got.body, begin+end+done)
			}
		}
	})
	prove(t, "S-305", "stream null requests a complete response", func(t *testing.T) {
		p := newProvider(t, nil)
		got := g.do(t, "POST", "/v1/completions", `{"model":"m","prompt":"x","stream":null}`, to(p)...).wantOK(t)
		if got.object(t)["object"] != "text_completion" || p.only(t).header.Get("Accept") == "text/event-stream" {
			t.Errorf("answer = %s, want a whole one", got.body)
		}
	})
}

// checkStream wants events of data lines alone, each an object of this kind,
// and [DONE] at the end.
func checkStream(t *testing.T, stream, kind string) {
	t.Helper()
	var data []string
	for line := range strings.SplitSeq(strings.TrimPrefix(strings.ReplaceAll(stream, "\r\n", "\n"), "\ufeff"), "\n") {
		text, ok := strings.CutPrefix(line, "data: ")
		switch {
		case ok:
			data = append(data, text)
		case line != "" && !strings.HasPrefix(line, ":"):
			t.Errorf("a line of the stream is %q, want data lines alone", line)
		}
	}
	if len(data) < 3 || data[len(data)-1] != "[DONE]" || !strings.HasSuffix(strings.ReplaceAll(stream, "\r\n", "\n"), "\n\n") {
		t.Fatalf("stream = %q, want several events and [DONE]", stream)
	}
	for _, text := range data[:len(data)-1] {
		var v struct {
			Object  string
			Created json.Number
		}
		if err := json.Unmarshal([]byte(text), &v); err != nil || v.Object != kind || len(v.Created) != 10 {
			t.Errorf("event %s (%v), want an object of %s", text, err, kind)
		}
	}
}
