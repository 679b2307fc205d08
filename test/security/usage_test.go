package security

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"modelgate/internal/testing/waittest"
)

// codings write the content codings that a provider may answer in.
var codings = map[string]func(w io.Writer) io.WriteCloser{
	"gzip":    func(w io.Writer) io.WriteCloser { z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed); return z },
	"deflate": func(w io.Writer) io.WriteCloser { z, _ := zlib.NewWriterLevel(w, zlib.BestSpeed); return z },
	"br":      func(w io.Writer) io.WriteCloser { return brotli.NewWriterLevel(w, brotli.BestSpeed) },
	"zstd": func(w io.Writer) io.WriteCloser {
		z, _ := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest))
		return z
	},
}

// encoded applies the codings of a Content-Encoding in its order.
func encoded(header string, body []byte) []byte {
	for name := range strings.SplitSeq(header, ", ") {
		var out bytes.Buffer
		w := codings[name](&out)
		w.Write(body)
		w.Close()
		body = out.Bytes()
	}
	return body
}

// respondWith returns a handler that responds to every request with the same bytes.
func respondWith(contentType, coding string, body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		if coding != "" {
			w.Header().Set("Content-Encoding", coding)
		}
		w.Write(body)
	}
}

// chunk is an event of a chat stream whose chunk ends in more.
func chunk(content, more string) string {
	return `data: {"id":"c1","object":"chat.completion.chunk","model":"gpt-4o","choices":[{"index":0,"delta":{"content":"` + content + `"},"finish_reason":null}]` + more + "}\n\n"
}

const (
	lastChunk  = `data: {"id":"c1","object":"chat.completion.chunk","model":"gpt-4o","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]%s}` + "\n\n"
	usageChunk = `data: {"id":"c1","object":"chat.completion.chunk","model":"gpt-4o","choices":[],"usage":{"prompt_tokens":400,"completion_tokens":300,"total_tokens":700}}` + "\n\n"
	done       = "data: [DONE]\n\n"
)

// plainStream is what a client sees that does not ask for usage.
func plainStream() string {
	return chunk("one", "") + chunk("two", "") + fmt.Sprintf(lastChunk, "") + done
}

// onRequest is a provider that reports usage where the request asks for it, as
// OpenAI does: a member usage in every chunk, and a chunk of its own.
func onRequest(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	if !strings.Contains(strings.ReplaceAll(string(body), " ", ""), `"include_usage":true`) {
		io.WriteString(w, plainStream())
		return
	}
	null := `,"usage":null`
	io.WriteString(w, chunk("one", null)+chunk("two", null)+fmt.Sprintf(lastChunk, null)+usageChunk+done)
}

const (
	streamBody   = `{"model":"gpt-4o","stream":true,"messages":[{"role":"user","content":"hello"}]}`
	passPath     = "/v1/other/answers"
	completePath = "/v1/chat/completions"
)

// entry returns the log entry of a reply.
func (g *gateway) entry(t *testing.T, r response) map[string]any {
	t.Helper()
	var got response
	waittest.Until(t, "the request is in the log", func() bool {
		got = g.as(t, rootKey, "GET", "/v1/logs/"+r.header.Get("x-gateway-request-id"), "")
		return got.status == http.StatusOK
	})
	e := got.object(t)
	if data, ok := e["data"].(map[string]any); ok {
		return data
	}
	return e
}

// tokens returns the total of tokens in a log entry, -1 for null, and whether they
// are estimated.
func tokens(e map[string]any) (n int, estimated bool) {
	n, estimated = -1, e["usage_estimated"] == true
	if usage, ok := e["usage"].(map[string]any); ok {
		fmt.Sscan(fmt.Sprint(usage["total_tokens"]), &n)
	}
	return n, estimated
}

// long is a string of a thousand tokens: each word is one.
var long = strings.Repeat("word ", 1000)

// messagesStart begins a stream of the messages dialect with partial usage.
const messagesStart = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude\",\"content\":[],\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\n" +
	"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"

func messagesDelta(text string) string {
	return "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"" + text + "\"}}\n\n"
}

// TestNoRequestIsFree shows that what a request used is booked, whatever the
// provider says of it.
func TestNoRequestIsFree(t *testing.T) {
	t.Parallel()
	g := launch(t, options{})
	const reported = `{"id":"c1","object":"chat.completion","model":"gpt-4o","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":400,"completion_tokens":300,"total_tokens":700}}`
	silent := `{"id":"c1","object":"chat.completion","model":"gpt-4o","choices":[{"index":0,"message":{"role":"assistant","content":"` + long + `"},"finish_reason":"stop"}]}`
	broken := func(contentType, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", contentType)
			io.WriteString(w, text)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
	}
	const events, json = "text/event-stream", "application/json"
	type request struct {
		name, path, body string
		provider         string // openai-compatible unless given
		handler          http.HandlerFunc
		tokens           int // at least, and exactly where not estimated
		estimated        bool
	}
	list := []request{
		{"plain chat stream", completePath, streamBody, "", onRequest, 700, false},
		{"plain text stream", "/v1/completions", `{"model":"gpt","prompt":"hello","stream":true}`, "", onRequest, 700, false},
		{"stream that refuses usage in its options", completePath, strings.Replace(streamBody, `"stream":true`, `"stream":true,"stream_options":{"include_usage":false}`, 1), "", onRequest, 700, false},
		{"stream without usage", completePath, streamBody, "", respondWith(events, "", []byte(chunk(long, "")+fmt.Sprintf(lastChunk, "")+done)), 1000, true},
		{"stream that breaks off", completePath, streamBody, "", broken(events, chunk(long, "")), 1000, true},
		{"stream that ends without a reason", completePath, streamBody, "", respondWith(events, "", []byte(chunk(long, ""))), 1000, true},
		{"messages stream that breaks off", "/v1/messages", `{"model":"claude","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hello"}]}`, "anthropic", broken(events, messagesStart+messagesDelta("a")+messagesDelta(long)), 1000, true},
		{"answer without usage", completePath, chatBody, "", respondWith(json, "", []byte(silent)), 1000, true},
		{"embedding without usage", "/v1/embeddings", `{"model":"e","input":"` + long + `"}`, "", respondWith(json, "", []byte(`{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.1]}],"model":"e"}`)), 1000, true},
		{"pictures in the request", completePath, `{"model":"gpt-4o","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}]}`, "", respondWith(json, "", []byte(`{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`)), 1000, true},
		{"image without usage", "/v1/images/generations", `{"model":"dall-e-3","prompt":"a cat"}`, "", respondWith(json, "", []byte(`{"created":1,"data":[{"b64_json":"`+strings.Repeat("iVBORw0KGgo", 100_000)+`"}]}`)), 1000, true},
		{"speech", "/v1/audio/speech", `{"model":"tts-1","input":"` + long + `","voice":"alloy"}`, "", respondWith("audio/mpeg", "", bytes.Repeat([]byte("sound"), 1000)), 1000, true},
		{"pass-through JSON without usage", passPath, `{"model":"gpt-4o"}`, "", respondWith(json, "", []byte(silent)), 1000, true},
		{"pass-through of an unknown type", passPath, `{"prompt":"` + long + `"}`, "", respondWith("application/x-unknown", "", bytes.Repeat([]byte("answer"), 1000)), 1000, true},
		{"pass-through stream without usage", passPath, streamBody, "", respondWith(events, "", []byte(chunk(long, "")+done)), 1000, true},
		{"pass-through stream that breaks off", passPath, streamBody, "", broken(events, chunk(long, "")), 1000, true},
		{"batch", "/v1/batches", `{"input_file_id":"f","endpoint":"/v1/chat/completions","completion_window":"24h"}`, "", respondWith(json, "", []byte(`{"id":"b"}`)), 1, true},
	}
	for coding := range codings {
		packed := encoded(coding, []byte(reported))
		list = append(list,
			request{"unified response in " + coding, completePath, chatBody, "", respondWith(json, coding, packed), 700, false},
			request{"pass-through answer in " + coding, passPath, chatBody, "", respondWith(json, coding, packed), 700, false},
			request{"pass-through stream in " + coding, passPath, streamBody, "", respondWith(events, coding, encoded(coding, []byte(chunk("one", "")+usageChunk+done))), 700, false},
			request{"unified stream in " + coding, completePath, streamBody, "", respondWith(events, coding, encoded(coding, []byte(chunk("one", "")+fmt.Sprintf(lastChunk, "")+usageChunk+done))), 700, false},
		)
	}
	list = append(list,
		request{"pass-through answer in two codings", passPath, chatBody, "", respondWith(json, "gzip, br", encoded("gzip, br", []byte(reported))), 700, false},
		request{"pass-through answer in an unknown coding", passPath, `{"prompt":"` + long + `"}`, "", respondWith(json, "rot13", []byte(reported)), 1000, true},
		request{"pass-through answer in three codings", passPath, `{"prompt":"` + long + `"}`, "", respondWith(json, "gzip, gzip, gzip", encoded("gzip, gzip, gzip", []byte(reported))), 1000, true},
	)
	for _, c := range list {
		attack(t, "exhaustion", c.name+" is booked", func(t *testing.T) {
			p := newProvider(t, c.handler)
			header := toCustomHost(rootKey, p)
			if c.provider != "" {
				header[3] = c.provider
			}
			r := g.do(t, "POST", c.path, c.body, header...)
			e := g.entry(t, r)
			n, estimated := tokens(e)
			if n < c.tokens || !c.estimated && n != c.tokens || estimated != c.estimated {
				t.Errorf("booked %d tokens, estimated %t; want %d, estimated %t (status %d)", n, estimated, c.tokens, c.estimated, r.status)
			}
		})
	}
}

// TestRequestForUsageIsInvisible shows that a client gets the bytes that it would
// have got if the gateway had not asked for usage.
func TestRequestForUsageIsInvisible(t *testing.T) {
	t.Parallel()
	g := launch(t, options{})
	asked := strings.Replace(streamBody, `"stream":true`, `"stream":true,"stream_options":{"include_usage":true}`, 1)
	null := `,"usage":null`
	inLast := `,"usage":{"prompt_tokens":400,"completion_tokens":300,"total_tokens":700}`
	for _, c := range []struct {
		name, provider, body string
		handler              http.HandlerFunc
		want                 string
		asks                 bool // the gateway asks the provider
	}{
		{"own chunk and null members", "openai-compatible", streamBody, onRequest, plainStream(), true},
		{"usage in the last chunk", "openai-compatible", streamBody, respondWith("text/event-stream", "", []byte(chunk("one", null)+fmt.Sprintf(lastChunk, inLast)+done)), chunk("one", "") + fmt.Sprintf(lastChunk, "") + done, true},
		{"the client asks", "openai-compatible", asked, onRequest, chunk("one", null) + chunk("two", null) + fmt.Sprintf(lastChunk, null) + usageChunk + done, true},
		{"the provider reports unasked", "deepseek", streamBody, respondWith("text/event-stream", "", []byte(chunk("one", null)+fmt.Sprintf(lastChunk, inLast)+done)), chunk("one", null) + fmt.Sprintf(lastChunk, inLast) + done, false},
		{"pass-through", "openai-compatible", streamBody, onRequest, plainStream(), false},
	} {
		attack(t, "bodies", "stream unchanged: "+c.name, func(t *testing.T) {
			p, path := newProvider(t, c.handler), completePath
			if c.name == "pass-through" {
				path = passPath
			}
			header := toCustomHost(rootKey, p)
			header[3] = c.provider
			r := g.do(t, "POST", path, c.body, header...).ok(t)
			if string(r.body) != c.want {
				t.Errorf("the client got\n%s\nwant\n%s", r.body, c.want)
			}
			if got := p.got(`"include_usage":true`); got != c.asks {
				t.Errorf("the provider was asked for usage = %t, want %t", got, c.asks)
			}
		})
	}
}

// TestBudgetsBindWithoutReportedUsage shows that a budget ends the use of a key
// whose provider reports nothing, or whose model has no price.
func TestBudgetsBindWithoutReportedUsage(t *testing.T) {
	t.Parallel()
	g := launch(t, options{})
	silent := respondWith("text/event-stream", "", []byte(chunk(long, "")+fmt.Sprintf(lastChunk, "")+done))
	const costly = `{"id":"c1","object":"chat.completion","model":"nobody-knows","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":100000,"completion_tokens":100000,"total_tokens":200000}}`
	hanging := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, chunk(long, ""))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	for _, c := range []struct {
		name, limit, path, body string
		handler                 http.HandlerFunc
		leaves                  bool // the client leaves after the first byte
	}{
		{"plain stream", `{"type":"tokens","credit_limit":500}`, completePath, streamBody, onRequest, false},
		{"stream without usage", `{"type":"tokens","credit_limit":500}`, completePath, streamBody, silent, false},
		{"stream that the client leaves", `{"type":"tokens","credit_limit":500}`, completePath, streamBody, hanging, true},
		{"pass-through that the client leaves", `{"type":"tokens","credit_limit":500}`, passPath, streamBody, hanging, true},
		{"gzip on pass-through", `{"type":"tokens","credit_limit":500}`, passPath, chatBody, respondWith("application/json", "gzip", encoded("gzip", []byte(costly))), false},
		{"br on pass-through", `{"type":"tokens","credit_limit":500}`, passPath, chatBody, respondWith("application/json", "br", encoded("br", []byte(costly))), false},
		{"model without a price", `{"type":"cost","credit_limit":1}`, completePath, chatBody, respondWith("application/json", "", []byte(costly)), false},
		{"pass-through without a price", `{"type":"cost","credit_limit":1}`, passPath, chatBody, respondWith("application/json", "", []byte(costly)), false},
	} {
		attack(t, "exhaustion", "budget binds: "+c.name, func(t *testing.T) {
			p := newProvider(t, c.handler)
			made := g.as(t, rootKey, "POST", "/v1/api-keys/workspace/service", `{"name":"limited","workspace_id":"default","scopes":["completions.write"],"usage_limits":`+c.limit+`}`).ok(t)
			key, id := made.text(t, "key"), made.text(t, "id")
			g.awaitKey(t, key)
			if c.leaves {
				leave(t, g, c.path, c.body, toCustomHost(key, p))
			} else {
				g.do(t, "POST", c.path, c.body, toCustomHost(key, p)...).ok(t)
			}
			waittest.Until(t, "the key is exhausted after one request", func() bool {
				return g.as(t, rootKey, "GET", "/v1/api-keys/"+id, "").text(t, "status") == "exhausted"
			})
			waittest.Until(t, "further requests are refused", func() bool {
				return g.do(t, "POST", c.path, c.body, toCustomHost(key, newProvider(t, silent))...).status == http.StatusPreconditionFailed
			})
		})
	}
}

// leave sends a request and closes the connection once the response has begun.
func leave(t *testing.T, g *gateway, path, body string, header []string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.root, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", path, len(body))
	for i := 0; i+1 < len(header); i += 2 {
		fmt.Fprintf(conn, "%s: %s\r\n", header[i], header[i+1])
	}
	io.WriteString(conn, "\r\n"+body)
	var got bytes.Buffer
	buf := make([]byte, 4<<10)
	for !strings.Contains(got.String(), "word") {
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatalf("the response did not begin: %v: %s", err, got.String())
		}
		got.Write(buf[:n])
	}
}

// TestCompressedResponsesAreBounded sends answers that are bombs, cut, or not what
// they say they are.
func TestCompressedResponsesAreBounded(t *testing.T) {
	g := launch(t, options{})
	const mebi = 1 << 20
	zeros := make([]byte, 256*mebi)
	bombs := map[string][]byte{}
	for coding := range codings {
		bombs[coding] = encoded(coding, zeros)
	}
	bombs["gzip, gzip"] = encoded("gzip", bombs["gzip"])
	for coding, bomb := range bombs {
		attack(t, "bodies", "bomb in "+coding+" on a unified route", func(t *testing.T) {
			p := newProvider(t, respondWith("application/json", coding, bomb))
			grown := g.peakMemory(t, func() {
				for range 3 {
					g.do(t, "POST", completePath, chatBody, toCustomHost(rootKey, p)...).refused(t, http.StatusBadGateway, "limit")
				}
			})
			if grown > 96*mebi {
				t.Errorf("the resident memory grew by %d MiB", grown/mebi)
			}
		})
		attack(t, "bodies", "bomb in "+coding+" on pass-through", func(t *testing.T) {
			p := newProvider(t, respondWith("application/json", coding, bomb))
			grown := g.peakMemory(t, func() {
				for range 3 {
					if r := g.do(t, "POST", passPath, chatBody, toCustomHost(rootKey, p)...).ok(t); !bytes.Equal(r.body, bomb) {
						t.Errorf("the client got %d bytes, want the %d of the provider", len(r.body), len(bomb))
					}
				}
			})
			if grown > 96*mebi {
				t.Errorf("the resident memory grew by %d MiB", grown/mebi)
			}
		})
	}
	var bare bytes.Buffer
	w, _ := flate.NewWriter(&bare, 6)
	io.WriteString(w, chatResponse)
	w.Close()
	for coding := range codings {
		whole := encoded(coding, []byte(chatResponse))
		for name, body := range map[string][]byte{"cut": whole[:len(whole)/2], "false": []byte(chatResponse), "empty": {}} {
			attack(t, "bodies", name+" "+coding+" on a unified route", func(t *testing.T) {
				p := newProvider(t, respondWith("application/json", coding, body))
				g.do(t, "POST", completePath, chatBody, toCustomHost(rootKey, p)...).refused(t, http.StatusBadGateway, "openai-compatible")
			})
			attack(t, "bodies", name+" "+coding+" on pass-through", func(t *testing.T) {
				p := newProvider(t, respondWith("application/json", coding, body))
				if r := g.do(t, "POST", passPath, chatBody, toCustomHost(rootKey, p)...).ok(t); !bytes.Equal(r.body, body) || r.header.Get("Content-Encoding") != coding {
					t.Errorf("the client got %q in %q, want the bytes of the provider", r.body, r.header.Get("Content-Encoding"))
				}
			})
		}
	}
	attack(t, "bodies", "bare deflate on a unified route", func(t *testing.T) {
		p := newProvider(t, respondWith("application/json", "deflate", bare.Bytes()))
		if r := g.do(t, "POST", completePath, chatBody, toCustomHost(rootKey, p)...).ok(t); !strings.Contains(string(r.body), `"content":"hi"`) {
			t.Errorf("the client got %q", r.body)
		}
	})
	g.as(t, rootKey, "GET", "/v1/auth/me", "").ok(t)
}
