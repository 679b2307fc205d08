package dataplane_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"modelgate/internal/model/tokens"
	"modelgate/internal/testing/gatewaytest"
)

// reportedUsage is a member of a chat response that says 7 and 4 tokens were used.
const reportedUsage = `"usage":{"prompt_tokens":7,"completion_tokens":4,"total_tokens":11}`

// usageEvent is an event of a chat stream with reportedUsage.
const usageEvent = `data: {"id":"c","object":"chat.completion.chunk","model":"served","choices":[],` + reportedUsage + "}\n\n"

// chatResponse is a complete chat response with this text and further members.
func chatResponse(text, more string) string {
	return `{"id":"c","object":"chat.completion","model":"served","choices":[{"index":0,"message":{"role":"assistant","content":"` + text + `"},"finish_reason":"stop"}]` + more + `}`
}

// closing makes a response that ends with its connection, or one with an
// announced length that never comes where it is broken.
func closing(contentType string, broken bool) string {
	if broken {
		return rawHead(contentType, "Content-Length: 1000000")
	}
	return rawHead(contentType, "Connection: close")
}

// recordedUsage returns the recorded tokens of an entry, as "prompt completion",
// with "estimated" behind them where they are; "none" where nothing is known.
func recordedUsage(e map[string]any) string {
	if e["usage"] == nil {
		return "none"
	}
	out := fmt.Sprintf("%v %v", at(e, "usage.prompt_tokens"), at(e, "usage.completion_tokens"))
	if e["usage_estimated"] == true {
		out += " estimated"
	}
	return out
}

// estimated is what recordedUsage returns for an estimate.
func estimated(prompt, completion int) string {
	return fmt.Sprintf("%d %d estimated", prompt, completion)
}

// gzipped is the end of a head and a body that is compressed.
func gzipped(body string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, body)
	w.Close()
	return "Content-Encoding: gzip\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" + b.String()
}

// swapped answers with whatever handler was stored last.
type swapped struct{ atomic.Pointer[http.Handler] }

func (s *swapped) ServeHTTP(w http.ResponseWriter, r *http.Request) { (*s.Load()).ServeHTTP(w, r) }

func (s *swapped) set(h http.Handler) { s.Store(&h) }

// The figures are those of docs/ledger.md, "Estimates".
func TestUsageIsEstimatedOnlyAsFarAsTheProviderDoesNotReportIt(t *testing.T) {
	t.Parallel()
	u := new(swapped)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: u})
	const json, events, binary = "application/json", "text/event-stream", "application/octet-stream"
	text := strings.Repeat("word", 10) // 10 tokens
	long := strings.Repeat("word", 100)
	perText := func(body string) int { return (len(body) + 2) / 3 } // on pass-through
	in := perText(plainChat)
	chatIn, embedIn, speechIn := 6, 2, 4 // by the tokenizer: "hi" and a message, "hello", "hello" and "v"
	const embed = `{"model":"m","input":"hello"}`
	const speech = `{"model":"m","input":"hello","voice":"v"}`
	for _, tt := range []struct {
		name, path, body string
		response         string // of the provider, with its head
		want             string
	}{
		{"a response without usage", "/chat/completions", plainChat, closing(json, false) + chatResponse(text, ""), estimated(chatIn, 10)},
		{"a response with less usage than text", "/chat/completions", plainChat, closing(json, false) + chatResponse(long, ","+reportedUsage), "7 4"},
		{"a stream without usage", "/chat/completions", streamChat, closing(events, false) + chunk(text) + finish + done, estimated(chatIn, 10)},
		{"a stream with less usage than text", "/chat/completions", streamChat, closing(events, false) + chunk(long) + finish + usageEvent + done, "7 4"},
		{"a stream that breaks off after more text than it reported", "/chat/completions", streamChat, closing(events, true) + usageEvent + chunk(text), "7 10 estimated"},
		{"a stream that breaks off after as much text as it reported", "/chat/completions", streamChat, closing(events, true) + usageEvent + chunk("wordwordwordword"), "7 4"},
		{"a stream that breaks off after less text than it reported", "/chat/completions", streamChat, closing(events, true) + usageEvent + chunk("word"), "7 4"},
		{"a stream that breaks off without usage", "/chat/completions", streamChat, closing(events, true) + chunk(text), estimated(chatIn, 10)},
		{"an error", "/chat/completions", plainChat, "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" + `{"error":{"message":"no"}}`, "none"},
		{"embeddings without usage", "/embeddings", embed, closing(json, false) + `{"object":"list","model":"m","data":[{"object":"embedding","index":0,"embedding":[1,2]}]}`, estimated(embedIn, 0)},
		{"moderations", "/moderations", embed, closing(json, false) + `{"id":"m","model":"m","results":[{"flagged":false}]}`, estimated(embedIn, 0)},
		{"speech of 1000 bytes", "/audio/speech", speech, closing("audio/mpeg", false) + strings.Repeat("s", 1000), estimated(speechIn, 1)},
		{"speech of 1001 bytes", "/audio/speech", speech, closing("audio/mpeg", false) + strings.Repeat("s", 1001), estimated(speechIn, 2)},
		{"passed through, with usage", "/any/path", plainChat, closing(json, false) + `{"x":"` + strings.Repeat("word ", 2000) + `",` + reportedUsage + `}`, "7 4"},
		{"passed through, with less usage than text and without a finish reason", "/any/path", plainChat, closing(json, false) + strings.Replace(chatResponse(long, ","+reportedUsage), `,"finish_reason":"stop"`, "", 1), "7 4"},
		{"passed through, with an unusual status", "/any/path", plainChat, "HTTP/1.1 299 Odd\r\nConnection: close\r\n\r\n" + strings.Repeat("b", 2500), estimated(in, 3)},
		{"passed through, compressed", "/any/path", plainChat, "HTTP/1.1 200 OK\r\n" + gzipped(chatResponse("word", ","+reportedUsage)), "7 4"},
		{"passed through, unreadable", "/any/path", plainChat, closing(binary, false) + strings.Repeat("b", 2500), estimated(in, 3)},
		{"passed through, a stream with less usage than text that ends early", "/any/path", plainChat, closing(events, false) + usageEvent + chunk(long), "7 96 estimated"},
		{"passed through, an error", "/any/path", plainChat, "HTTP/1.1 300 Choices\r\nConnection: close\r\n\r\nx", "none"},
		{"passed through, broken off after usage", "/any/path", plainChat, closing(events, true) + usageEvent + chunk(long), "7 96 estimated"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u.set(raw(tt.response))
			if got := recordedUsage(g.Entry(g.Post(tt.path, tt.body))); got != tt.want {
				t.Errorf("POST %s: recorded usage %s, want %s", tt.path, got, tt.want)
			}
		})
	}
}

func TestInputOfARequestIsEstimatedByItsKind(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: raw(closing("application/json", false) + chatResponse("word", ""))})
	content := func(text string) string {
		return `{"model":"m","messages":[{"role":"user","content":"` + text + `"}]}`
	}
	image := func(address string) string {
		return `{"model":"m","messages":[{"role":"user","content":[{"image_url":{"url":"` + address + `"}}]}]}`
	}
	counted := func(body string) int {
		return int(tokens.EstimateRequest("openai-compatible", "m", []byte(body)))
	}
	for _, tt := range []struct {
		name, body string
		media      int // tokens of media; 0 for text
	}{
		{"a word of 1 KB", content(strings.Repeat("x", 1024)), 0},
		{"a word of more than 1 KB", content(strings.Repeat("x", 1025)), 0},
		{"lines of more than 1 KB", content(strings.Repeat(`word\n`, 1000)), 0},
		{"a long text that begins with a space", content(" " + strings.Repeat("x", 2000)), 0},
		{"an empty string", content(""), 0},
		{"an address as text", content("https://example.com/cat.png"), 0},
		{"a data URL as text", content("data:image/png;base64,iVBORw0KGgo="), 0},
		{"a short address", image("s3://b/k"), 1000},
		{"an address", image("https://example.com/cat.png"), 1000},
		{"a data URL", image("data:image/png;base64,iVBORw0KGgo="), 1000},
		{"a large picture", image("data:image/png;base64," + strings.Repeat("A", 3<<20)), 3145},
		{"text in a field for media", image("https://example.com/cat.png shows a cat"), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body, want := tt.body, counted(tt.body)
			if tt.media > 0 {
				want = counted(`{"model":"m","messages":[{"role":"user"}]}`) + tt.media
			}
			if got, want := recordedUsage(g.Entry(g.Post("/chat/completions", body))), estimated(want, 1); got != want {
				t.Errorf("%.80s of %d bytes: recorded usage %s, want %s", body, len(body), got, want)
			}
		})
	}
	t.Run("a prompt of tokens", func(t *testing.T) {
		for body, want := range map[string]string{
			`{"model":"m","input":[` + strings.Repeat("15,", 999) + `15]}`: estimated(1000, 1),
			`{"model":"m","input":[[1, 2, 3], [4, 5]]}`:                    estimated(5, 1),
		} {
			if got := recordedUsage(g.Entry(g.Post("/embeddings", body))); got != want {
				t.Errorf("a body of %d bytes: recorded usage %s, want %s", len(body), got, want)
			}
		}
	})
	for _, n := range []int{1, 3} {
		body := content(strings.Repeat(`a","image_url":"http://a.example/1","y":"`, n) + "b")
		want := counted(content(strings.Repeat(`a","y":"`, n)+"b")) + 1000*n
		if got, want := recordedUsage(g.Entry(g.Post("/chat/completions", body))), estimated(want, 1); got != want {
			t.Errorf("%d addresses: recorded usage %s, want %s", n, got, want)
		}
	}
}

func TestTranscriptionIsEstimatedByTheSizeOfItsFileAndItsText(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: raw(closing("text/plain", false) + strings.Repeat("word", 5) + "s")}) // 21 bytes, 4.2 of which are a token of an OpenAI model
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	w.WriteField("model", "m")
	file, err := w.CreateFormFile("file", "a.wav")
	if err != nil {
		t.Fatal(err)
	}
	file.Write(bytes.Repeat([]byte("s"), 5000))
	w.Close()
	size := form.Len()
	for name, announced := range map[string]bool{"of a known length": true, "of an unknown length": false} {
		t.Run(name, func(t *testing.T) {
			var body io.Reader = bytes.NewReader(form.Bytes())
			if !announced {
				body = io.MultiReader(body) // whose length nobody can tell
			}
			req := g.Request("POST", "/audio/transcriptions", "", "Content-Type", w.FormDataContentType())
			upload, err := http.NewRequestWithContext(t.Context(), "POST", req.URL.String(), body)
			if err != nil {
				t.Fatal(err)
			}
			upload.Header = req.Header
			if got, want := recordedUsage(g.Entry(g.Do(upload))), estimated((size+999)/1000, 5); got != want {
				t.Errorf("a form of %d bytes: recorded usage %s, want %s", size, got, want)
			}
		})
	}
}

func TestPassedRequestsThatOnlyReadUseNoTokens(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: raw(closing("application/octet-stream", false) + strings.Repeat("b", 2500))})
	for _, tt := range []struct{ method, body, want string }{
		{"POST", plainChat, estimated((len(plainChat)+2)/3, 3)},
		{"PUT", plainChat, estimated((len(plainChat)+2)/3, 3)},
		{"POST", "", "none"},
		{"GET", plainChat, "none"},
		{"GET", "", "none"},
		{"DELETE", plainChat, "none"},
	} {
		if got := recordedUsage(g.Entry(g.Do(g.Request(tt.method, "/any/path", tt.body)))); got != tt.want {
			t.Errorf("%s with a body of %d bytes: recorded usage %s, want %s", tt.method, len(tt.body), got, tt.want)
		}
	}
}

func TestInputIsEstimatedIfTheClientLeavesBeforeTheResponse(t *testing.T) {
	t.Parallel()
	g, u := newScriptedPairs(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	body := `{"model":"gpt-4o","messages":[{"role":"user","content":"` + strings.Repeat("word ", 1000) + `"}]}`
	counted := tokens.EstimateRequest("openai", "gpt-4o", []byte(body))
	req := g.Request("POST", "/chat/completions", body, "x-gateway-provider", "@chat", "x-gateway-trace-id", "early").WithContext(ctx)
	go func() {
		if res, err := http.DefaultTransport.RoundTrip(req); err == nil {
			res.Body.Close()
		}
	}()
	leave(t, cancel, u.next())
	e := entryOf(t, g, "early")

	heads := begin(t, g.Request("POST", "/chat/completions", body, "x-gateway-provider", "@chat"))
	c := u.next()
	c.w.Header().Set("Content-Type", "application/json")
	c.send(chatResponse("", fmt.Sprintf(`,"usage":{"prompt_tokens":%d,"completion_tokens":0}`, counted)))
	c.finish()
	want := g.Entry(gatewaytest.Response{Header: receive(t, heads, "the head").Header})
	if want["cost"] == nil || want["cost_estimated"] != false {
		t.Fatalf("a response whose usage was reported: cost %v, estimated %v; want one that is known", want["cost"], want["cost_estimated"])
	}
	if e["cost"] != want["cost"] || e["cost_estimated"] != true {
		t.Errorf("after the client left: cost %v, estimated %v; want %v, as the tokenizer counts, estimated", e["cost"], e["cost_estimated"], want["cost"])
	}
}
