package conformance

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"mime/multipart"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestUnknownPathsReachTheProvider(t *testing.T) {
	g, _ := start(t)
	p := newProvider(t, nil)
	for _, path := range []string{"/rerank", "/x/y/z", "/assistants", "/vector_stores/vs_1/files", "/audio/voices"} {
		prove(t, "S-015", "POST "+path, func(t *testing.T) {
			g.do(t, "POST", "/v1"+path, `{"a":1}`, to(p)...).wantOK(t)
			if in := p.only(t); in.uri != "/v1"+path || string(in.body) != `{"a":1}` {
				t.Errorf("the provider got %s with %q, want %s with the body as sent", in.uri, in.body, "/v1"+path)
			}
		})
	}
	prove(t, "S-015", "moderations and speech reach it too", func(t *testing.T) {
		for path, body := range map[string]string{"/moderations": `{"input":"x"}`, "/audio/speech": `{"model":"t","input":"x","voice":"v"}`} {
			g.do(t, "POST", "/v1"+path, body, to(p)...).wantOK(t)
			if in := p.only(t); in.uri != "/v1"+path || string(in.body) != body {
				t.Errorf("the provider got %s with %q, want %s with %q", in.uri, in.body, "/v1"+path, body)
			}
		}
	})
	for _, method := range []string{"POST", "GET", "PUT", "DELETE"} {
		prove(t, "S-016 S-347", method, func(t *testing.T) {
			g.do(t, method, "/v1/things/1", "", to(p)...).wantOK(t)
			if in := p.only(t); in.method != method {
				t.Errorf("the provider got %s, want %s", in.method, method)
			}
		})
	}
	for _, method := range []string{"PATCH", "HEAD", "OPTIONS", "BREW", "get"} {
		for _, path := range []string{"/v1/things/1", "/v1/chat/completions"} {
			prove(t, "S-017", method+" "+path, func(t *testing.T) {
				got := g.do(t, method, path, "", to(p)...)
				if got.status != http.StatusMethodNotAllowed {
					t.Errorf("status %d, want 405", got.status)
				}
				if allow := got.header.Get("Allow"); !strings.Contains(allow, "POST") || strings.Contains(allow, "PATCH") {
					t.Errorf("Allow = %q, want the methods that are offered", allow)
				}
				p.wantNoRequests(t)
			})
		}
	}
}

func TestStoredObjectsAreTheProviders(t *testing.T) {
	g, _ := start(t)
	p := newProvider(t, says(200, "application/json", `{"id" : "x_1","object":"thing"}`))
	for _, tt := range []struct{ of, method, path string }{
		{"S-010", "POST", "/v1/batches"},
		{"S-010", "GET", "/v1/batches?after=batch_1&limit=5"},
		{"S-010", "POST", "/v1/batches/batch_1/cancel"},
		{"S-011", "POST", "/v1/fine_tuning/jobs"},
		{"S-011", "GET", "/v1/fine_tuning/jobs/ft_1"},
		{"S-011", "POST", "/v1/fine_tuning/jobs/ft_1/cancel"},
		{"S-011", "GET", "/v1/fine_tuning/jobs/ft_1/checkpoints?limit=2"},
		{"S-012", "GET", "/v1/files?purpose=batch"},
		{"S-012", "GET", "/v1/files/file_1"},
		{"S-013", "GET", "/v1/responses/resp_1?include=file_search_call.results"},
	} {
		prove(t, tt.of, tt.method+" "+tt.path, func(t *testing.T) {
			got := g.do(t, tt.method, tt.path, "", to(p)...).wantOK(t)
			if string(got.body) != `{"id" : "x_1","object":"thing"}` {
				t.Errorf("body = %q, want the provider's", got.body)
			}
			if in := p.only(t); in.uri != tt.path || in.method != tt.method {
				t.Errorf("the provider got %s %s, want %s %s", in.method, in.uri, tt.method, tt.path)
			}
		})
	}
}

func TestPassThroughResponsesArriveUnchanged(t *testing.T) {
	g, _ := start(t)
	binary := make([]byte, 300_000)
	rand.NewChaCha8([32]byte{1}).Read(binary)
	for _, tt := range []struct{ name, contentType, body string }{
		{"odd JSON", "application/json", "{ \"a\" :1.0,\n\t\"b\":[ 1e2 , -0.0],\"a\":\"\\u00e9\\/\" }\r\n"},
		{"broken JSON", "application/json", `{"a":`},
		{"a page", "text/html; charset=iso-8859-1", "<html>\xe9</html>"},
		{"binary", "audio/mpeg", string(binary)},
		{"an odd stream", "text/event-stream", "\ufeffevent: x\r\ndata:{\"a\" :1}\r\n\r\n: note\ndata: [DONE]"},
		{"nothing", "application/json", ""},
		{"gzip by name alone", "application/gzip", "\x1f\x8b\x08\x00broken"},
	} {
		prove(t, "S-018", tt.name, func(t *testing.T) {
			p := newProvider(t, says(200, tt.contentType, tt.body))
			got := g.do(t, "GET", "/v1/things", "", to(p)...).wantOK(t)
			if sha256.Sum256(got.body) != sha256.Sum256([]byte(tt.body)) {
				t.Errorf("got %d bytes %.60q, want %d bytes %.60q", len(got.body), got.body, len(tt.body), tt.body)
			}
			if ct := got.header["Content-Type"]; !slices.Equal(ct, []string{tt.contentType}) {
				t.Errorf("content type = %q, want %q", ct, tt.contentType)
			}
		})
	}
	prove(t, "S-018", "a compressed body stays compressed", func(t *testing.T) {
		p := newProvider(t, func(w http.ResponseWriter, _ *http.Request, _ received) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(binary[:1000])
		})
		got := g.do(t, "GET", "/v1/things", "", to(p, "Accept-Encoding", "gzip")...).wantOK(t)
		if !bytes.Equal(got.body, binary[:1000]) || got.header.Get("Content-Encoding") != "gzip" {
			t.Errorf("got %d bytes with content encoding %q, want the 1000 as sent with gzip", len(got.body), got.header.Get("Content-Encoding"))
		}
	})
	prove(t, "S-018 S-020", "errors keep the provider's form", func(t *testing.T) {
		for _, status := range []int{400, 401, 404, 429, 500, 503} {
			const body = "{\"error\" : {\"message\":\"no\", \"n\":1.0}}\n"
			p := newProvider(t, func(w http.ResponseWriter, _ *http.Request, _ received) {
				w.Header().Set("Content-Type", "application/problem+json")
				w.Header().Set("X-Reason", "odd")
				w.WriteHeader(status)
				io.WriteString(w, body)
			})
			got := g.do(t, "GET", "/v1/things", "", to(p)...)
			if string(got.body) != body {
				t.Errorf("%d: body = %q, want the provider's %q", status, got.body, body)
			}
			if ct, reason := got.header.Get("Content-Type"), got.header.Get("X-Reason"); ct != "application/problem+json" || reason != "odd" {
				t.Errorf("%d: content type %q and X-Reason %q, want the provider's", status, ct, reason)
			}
		}
	})
	prove(t, "S-018", "a body that breaks off breaks off for the client", func(t *testing.T) {
		p := newProvider(t, func(w http.ResponseWriter, _ *http.Request, _ received) {
			io.WriteString(w, "first half")
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		})
		got := g.do(t, "GET", "/v1/things", "", to(p)...)
		if string(got.body) != "first half" || got.err == nil {
			t.Errorf("got %q ended by %v, want the first half and a broken end", got.body, got.err)
		}
	})
	for _, status := range []int{200, 201, 202, 204, 206, 299, 302, 304, 400, 401, 404, 418, 429, 500, 503, 599} {
		prove(t, "S-019", fmt.Sprint(status), func(t *testing.T) {
			p := newProvider(t, func(w http.ResponseWriter, _ *http.Request, _ received) {
				w.Header().Set("Location", "/v1/things/2")
				w.Header().Set("Content-Type", "text/x-odd")
				w.WriteHeader(status)
				if status != 204 && status != 304 {
					io.WriteString(w, "as it is")
				}
			})
			got := g.do(t, "GET", "/v1/things", "", to(p)...)
			if at, own := strings.CutPrefix(got.header.Get("Location"), g.root); got.status != status || at != "/v1/things/2" || !own {
				t.Errorf("status %d, Location %q, want %d and the provider's at the gateway", got.status, at, status)
			}
			if status != 204 && status != 304 && string(got.body) != "as it is" {
				t.Errorf("body = %q, want the provider's", got.body)
			}
			if n := len(p.requests()); n != 1 {
				t.Errorf("the provider was called %d times, want once", n)
			}
		})
	}
	prove(t, "S-020", "a response without a content type gets none", func(t *testing.T) {
		p := newProvider(t, func(w http.ResponseWriter, _ *http.Request, _ received) {
			w.Header()["Content-Type"] = nil
			io.WriteString(w, "<html>")
		})
		if got := g.do(t, "GET", "/v1/things", "", to(p)...).wantOK(t); len(got.header["Content-Type"]) != 0 {
			t.Errorf("content type = %q, want none", got.header["Content-Type"])
		}
	})
	prove(t, "S-020", "headers that follow the body", func(t *testing.T) {
		p := newProvider(t, func(w http.ResponseWriter, _ *http.Request, _ received) {
			w.Header().Set("Trailer", "X-Sum")
			io.WriteString(w, "text")
			w.(http.Flusher).Flush()
			w.Header().Set("X-Sum", "7")
		})
		if got := g.do(t, "GET", "/v1/things", "", to(p)...).wantOK(t); got.trailer.Get("X-Sum") != "7" || string(got.body) != "text" {
			t.Errorf("body %q with the trailer %v, want the provider's", got.body, got.trailer)
		}
	})
	prove(t, "S-020", "headers", func(t *testing.T) {
		p := newProvider(t, func(w http.ResponseWriter, _ *http.Request, _ received) {
			h := w.Header()
			h.Set("Content-Type", "application/vnd.odd+json; v=2")
			h.Set("X-Ratelimit-Remaining-Requests", "59")
			h["X-Several"] = []string{"one", "two, three"}
			h["Set-Cookie"] = []string{"a=1; Path=/", "b=2"}
			h.Set("Etag", `W/"1"`)
			h.Set("Cache-Control", "max-age=5")
			h.Set("Date", "Mon, 01 Jan 2024 00:00:00 GMT")
			h.Set("Server", "odd/1")
			h.Set("X-Gateway-Provider", "somebody")
			io.WriteString(w, "{}")
		})
		got := g.do(t, "GET", "/v1/things", "", to(p)...).wantOK(t)
		for name, want := range map[string][]string{
			"Content-Type":                   {"application/vnd.odd+json; v=2"},
			"X-Ratelimit-Remaining-Requests": {"59"},
			"X-Several":                      {"one", "two, three"},
			"Set-Cookie":                     {"a=1; Path=/", "b=2"},
			"Etag":                           {`W/"1"`},
			"Cache-Control":                  {"max-age=5"},
			"Content-Length":                 {"2"},
			"Date":                           {"Mon, 01 Jan 2024 00:00:00 GMT"},
			"Server":                         {"odd/1"},
			"X-Gateway-Provider":             {"openai-compatible"}, // only the gateway speaks for itself
		} {
			if !slices.Equal(got.header[name], want) {
				t.Errorf("%s = %q, want %q", name, got.header[name], want)
			}
		}
	})
}

// pairs iterates over alternating names and values.
func pairs(header []string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for i := 0; i+1 < len(header); i += 2 {
			if !yield(header[i], header[i+1]) {
				return
			}
		}
	}
}

func TestPassThroughRequestsArriveAsTheyWere(t *testing.T) {
	g, _ := start(t)
	p := newProvider(t, nil)
	for _, target := range []string{
		"/v1/x/y/%2F%2f?b=2&a=1&a=&c",
		"/v1/files/https%3A%2F%2Fexample.com%2Fa.jsonl",
		"/v1/%E2%82%AC/%e2%82%ac/a%20b+c",
		"/v1/x;p=1,2/y@z:8/~(1)!$*'",
		"/v1/x?q=%20+%2B&empty=&&=v&q=a=b?c/d",
		"/v1/trailing/",
		"/v1/question?",
		"/v1/|{}[]^`\"<>",
		"/v1/\u00fc?\u00fc",
		"/v1/chat/completions/",
		"/v1/models/vendor%2Fmodel",
		"/v1/" + strings.Repeat("deep/", 60) + "end",
		"/v1/long?" + strings.Repeat("k=v&", 1500),
		"/v1/colon:action",
		"/v1/v1/v1",
	} {
		prove(t, "S-021 S-347", fmt.Sprintf("%.50s", target), func(t *testing.T) {
			p.forget()
			g.do(t, "GET", target, "", to(p)...).wantOK(t)
			if in := p.only(t); in.uri != target {
				t.Errorf("the provider got %.200s, want %.200s", in.uri, target)
			}
		})
	}
	for sent, want := range map[string]string{
		"/v1/x/%41%2D%7e/%66ile%2etxt?q=%41": "/v1/x/A-~/file.txt?q=%41",
		"/%76%31/things":                     "/v1/things",
		"/v1/%63hat/%6dodels":                "/v1/chat/models",
	} {
		prove(t, "S-021 S-347", "encoded without need: "+sent, func(t *testing.T) {
			p.forget()
			g.do(t, "GET", sent, "", to(p)...).wantOK(t)
			if in := p.only(t); in.uri != want {
				t.Errorf("the provider got %s, want %s", in.uri, want)
			}
		})
	}
	for _, target := range []string{
		"/v1//double", "/v1/x//y", "/v1/a/../b/./c/..", "/v1/../../other", "/v1/%2e%2e/other", "/v1/..;/other", "/v1/a%2F..%2Fb",
		`/v1/a\b`, "/v1/a%5Cb", "/v1/a%00b", "/v1/a%0Ab", "/v1/%c0%ae%c0%ae/x", "/v1/chat%2Fcompletions", "/v1/Chat/Completions", "/v1/chat;x=1/completions",
	} {
		prove(t, "S-021 S-347", "refused: "+target, func(t *testing.T) {
			p.forget()
			got := g.do(t, "POST", target, `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, to(p)...)
			if got.status != http.StatusBadRequest || !strings.Contains(string(got.body), "invalid_path") {
				t.Errorf("status %d: %.300s, want 400 invalid_path", got.status, got.body)
			}
			if n := len(p.requests()); n != 0 {
				t.Errorf("the provider was called %d times", n)
			}
		})
	}
	prove(t, "S-021 S-347", "three hundred random ones", func(t *testing.T) {
		random := rand.New(rand.NewPCG(21, 347))
		pieces := []string{"a", "Z", "0", "-", ".", "_", "~", "/", "%2F", "%2f", "%25", "%3F", "%ff",
			":", "@", "!", "$", "&", "'", "(", ")", "*", "+", ",", ";", "=", "models", "chat", "completions", "v1", "logs"}
		odd := regexp.MustCompile(`(?i)//|(/|%2F)\.\.?(;|/|%2F|$)`)
		some := func(list []string) string {
			var b strings.Builder
			for range random.IntN(12) {
				b.WriteString(list[random.IntN(len(list))])
			}
			return b.String()
		}
		for sent := 0; sent < 300; {
			target := "/v1/x" + some(pieces)
			if odd.MatchString(target) {
				continue // servers disagree about it
			}
			sent++
			if random.IntN(2) == 0 {
				target += "?" + some(append(pieces, "?", "&a=", "&a=1", "%20"))
			}
			p.forget()
			g.do(t, "GET", target, "", to(p)...).wantOK(t)
			if in := p.only(t); in.uri != target {
				t.Fatalf("the provider got %s, want %s", in.uri, target)
			}
		}
	})
	prove(t, "S-001 S-347", "a target that names the host too", func(t *testing.T) {
		p.forget()
		conn, err := net.Dial("tcp", strings.TrimPrefix(g.root, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET %s/v1/things/%%2f?b=2&a=1 HTTP/1.1\r\nHost: gateway\r\n", g.root)
		for name, value := range pairs(to(p)) {
			fmt.Fprintf(conn, "%s: %s\r\n", name, value)
		}
		io.WriteString(conn, "\r\n")
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if in := p.only(t); res.StatusCode != http.StatusOK || in.uri != "/v1/things/%2f?b=2&a=1" {
			t.Errorf("status %d, the provider got %s", res.StatusCode, in.uri)
		}
	})
	prove(t, "S-347", "bodies", func(t *testing.T) {
		for _, body := range []string{"{ \"temperature\" : 99.0,\n \"stream\":\"odd\", \"a\":1,\"a\":2 }", `{"broken":`, `[1, 2]`, "\x00\xff", `{"model":"@x/y"}`,
			"{ \"model\" : \"m\",\n \"stream\":true, \"max_tokens\" : 1.0, \"user\":\"\\u0075\", \"messages\":[ ] }\r\n"} {
			p.forget()
			g.do(t, "PUT", "/v1/things?x=1", body, to(p)...).wantOK(t)
			if in := p.only(t); string(in.body) != body || in.method != "PUT" || in.uri != "/v1/things?x=1" {
				t.Errorf("the provider got %s %s %q, want PUT with %q", in.method, in.uri, in.body, body)
			}
		}
		for _, method := range []string{"DELETE", "GET"} {
			p.forget()
			g.do(t, method, "/v1/things?x=1", `{"a": 1}`, to(p)...).wantOK(t)
			if in := p.only(t); string(in.body) != `{"a": 1}` || in.method != method {
				t.Errorf("the provider got %s %q, want %s with its body", in.method, in.body, method)
			}
		}
	})
	prove(t, "S-347", "headers that are the request's own", func(t *testing.T) {
		p.forget()
		g.do(t, "POST", "/v1/things", "a,b", to(p, "Content-Type", "text/csv; header=absent", "Accept", "text/x, */*;q=0.1", "Accept-Language", "de", "Openai-Beta", "assistants=v2")...).wantOK(t)
		in := p.only(t)
		for name, want := range map[string]string{"Content-Type": "text/csv; header=absent", "Accept": "text/x, */*;q=0.1", "Accept-Language": "de", "Openai-Beta": "assistants=v2", "User-Agent": "conformance"} {
			if got := in.header[name]; !slices.Equal(got, []string{want}) {
				t.Errorf("%s at the provider = %q, want %q", name, got, want)
			}
		}
	})
}

func TestLargeBodiesPassThroughUnchanged(t *testing.T) {
	g, _ := start(t)
	p := newProvider(t, nil)
	const beyondJSON = 51 << 20 // more than a JSON body may have
	content := make([]byte, beyondJSON)
	rand.NewChaCha8([32]byte{2}).Read(content)
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	w.WriteField("purpose", "batch")
	part, _ := w.CreateFormFile("file", "data.bin")
	part.Write(content[:5<<20])
	w.Close()
	type upload struct {
		path, contentType string
		bytes             []byte
	}
	arrives := func(t *testing.T, b upload, how string) {
		t.Helper()
		p.forget()
		req := g.request(t, "POST", b.path, bytes.NewReader(b.bytes), to(p, "Content-Type", b.contentType)...)
		if how == "chunks" {
			req.ContentLength, req.Body = -1, io.NopCloser(bytes.NewReader(b.bytes))
		}
		send(t, req).wantOK(t)
		in := p.only(t)
		if _, announced := in.line("Content-Length"); announced != (how == "announced length") {
			t.Errorf("the provider received a length: %t; sent in %s:\n%s", announced, how, in.head)
		}
		if sha256.Sum256(in.body) != sha256.Sum256(b.bytes) || in.header.Get("Content-Type") != b.contentType {
			t.Errorf("the provider got %d bytes of %q, want the %d of %q", len(in.body), in.header.Get("Content-Type"), len(b.bytes), b.contentType)
		}
	}
	for name, b := range map[string]upload{
		"multipart on a path that passes through": {"/v1/files", w.FormDataContentType(), form.Bytes()},
		"multipart on a unified path":             {"/v1/audio/transcriptions", w.FormDataContentType(), form.Bytes()},
		"binary":                                  {"/v1/uploads/1/parts", "application/octet-stream", content[:5<<20]},
	} {
		for _, how := range []string{"announced length", "chunks"} {
			prove(t, "S-348", name+" in "+how, func(t *testing.T) { arrives(t, b, how) })
		}
	}
	for _, size := range []int{1, 4<<10 - 1, 4 << 10, 4<<10 + 1, 16<<10 + 1, 1 << 20, 1<<20 + 1} {
		prove(t, "S-348", fmt.Sprintf("binary of %d bytes", size), func(t *testing.T) {
			for _, how := range []string{"announced length", "chunks"} {
				arrives(t, upload{"/v1/uploads/1/parts", "application/octet-stream", content[:size]}, how)
			}
		})
	}
	for _, how := range []string{"announced length", "chunks"} {
		prove(t, "S-348", "binary of more than a JSON body may have in "+how, func(t *testing.T) {
			arrives(t, upload{"/v1/uploads/1/parts", "application/octet-stream", content}, how)
		})
	}
}

// TestResponsesAreNotHeldBack lets the provider send a piece only after the
// client has read the one before. Whoever holds one back stops the exchange.
func TestResponsesAreNotHeldBack(t *testing.T) {
	g, _ := start(t)
	chat := `{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`
	event := func(i int) string {
		return fmt.Sprintf("data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%d\"}}]}\n\n", i)
	}
	const (
		knownLength = "pieces of a response whose length is known"
		failed      = "pieces of a failed response"
	)
	for _, tt := range []struct {
		of, name, path, body, contentType string
		piece                             func(i int) string
	}{
		{"S-349", "a stream of events", "/v1/anything", chat, "text/event-stream", event},
		{"S-349", "pieces of an event", "/v1/anything", chat, "text/event-stream", func(i int) string { return "da"[i%2 : i%2+1] }},
		{"S-349", "binary chunks", "/v1/audio/live", "{}", "audio/pcm", func(i int) string { return strings.Repeat(string(rune('a'+i)), 777) }},
		{"S-349", "pieces of JSON", "/v1/anything", "{}", "application/json", func(i int) string { return " " }},
		{"S-349", knownLength, "/v1/anything", "{}", "audio/pcm", func(i int) string { return strings.Repeat(string(rune('a'+i)), 777) }},
		{"S-349", failed, "/v1/anything", "{}", "text/plain", func(i int) string { return strings.Repeat(string(rune('a'+i)), 777) }},
		{"S-270 S-472", "a chat stream", "/v1/chat/completions", chat, "text/event-stream", event},
		{"S-472", "a text stream", "/v1/completions", `{"model":"m","prompt":"x","stream":true}`, "text/event-stream", event},
	} {
		prove(t, tt.of, tt.name, func(t *testing.T) {
			read := make(chan struct{})
			p := newProvider(t, func(w http.ResponseWriter, r *http.Request, _ received) {
				w.Header().Set("Content-Type", tt.contentType)
				if tt.name == knownLength {
					w.Header().Set("Content-Length", strconv.Itoa(8*len(tt.piece(0))))
				}
				if tt.name == failed {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
				for i := range 8 {
					io.WriteString(w, tt.piece(i))
					http.NewResponseController(w).Flush()
					select {
					case <-read:
					case <-r.Context().Done():
						return
					}
				}
			})
			req := g.request(t, "POST", tt.path, strings.NewReader(tt.body), to(p, "Content-Type", "application/json")...)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			res, err := client.Do(req.WithContext(ctx))
			if err != nil {
				t.Fatalf("no head came before the provider sent more: %v", err)
			}
			defer res.Body.Close()
			for i := range 8 {
				want := tt.piece(i)
				got := make([]byte, len(want))
				if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != want {
					t.Fatalf("piece %d = %q (%v), want %q before the provider sends more", i, got, err, want)
				}
				read <- struct{}{}
			}
		})
	}
}

func TestTheProviderSeesNothingOfTheGateway(t *testing.T) {
	g, stored := start(t)
	p := newProvider(t, nil)
	gatewayHeaders := []string{
		"x-gateway-trace-id", "t-1", "x-gateway-metadata", `{"_user":"u"}`, "x-gateway-request-timeout", "20000",
		"X-Gateway-Cache-Namespace", "n", "x-gateway-cache-force-refresh", "true", "x-gateway-span-id", "s",
		"x-gateway-debug", "false", "x-gateway-made-up", "x",
	}
	secrets := []string{"X-Api-Key", "client-x", "Api-Key", "client-a", "Cookie", "session=1", "Proxy-Authorization", "Basic x",
		"X-Goog-Api-Key", "client-g", "X-Auth-Token", "client-t", "Private-Token", "client-p", "X-Amz-Security-Token", "client-s", "Ocp-Apim-Subscription-Key", "client-o",
		"X-Functions-Key", "client-f", "Xi-Api-Key", "client-e", "X-Access-Token", "client-c", "X-Goog-Iam-Authorization-Token", "client-i"}
	check := func(t *testing.T, in received, credential string) {
		t.Helper()
		low := strings.ToLower(in.head)
		for _, word := range []string{"x-gateway", strings.ToLower(bootstrapKey), "session=1", "client-", "basic x"} {
			if strings.Contains(low, word) || strings.Contains(strings.ToLower(in.uri), word) {
				t.Errorf("the provider saw %q in:\n%s", word, in.head)
			}
		}
		if got := in.header["Authorization"]; !slices.Equal(got, []string{"Bearer " + credential}) {
			t.Errorf("Authorization at the provider = %q, want the provider's own credential", got)
		}
	}
	for _, tt := range []struct{ name, method, path, body string }{
		{"pass-through GET", "GET", "/v1/things?a=1", ""},
		{"pass-through POST", "POST", "/v1/things", `{"a":1}`},
		{"chat", "POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"x"}]}`},
	} {
		prove(t, "S-350", tt.name+" with the client's credential", func(t *testing.T) {
			p.forget()
			g.do(t, tt.method, tt.path, tt.body, to(p, append(gatewayHeaders, secrets...)...)...).wantOK(t)
			check(t, p.only(t), credential)
		})
		prove(t, "S-350", tt.name+" with a stored credential", func(t *testing.T) {
			stored.forget()
			g.do(t, tt.method, tt.path, tt.body, managed("@stored", append(gatewayHeaders, secrets...)...)...).wantOK(t)
			check(t, stored.only(t), storedKey)
		})
		prove(t, "S-350", tt.name+" with the gateway key as bearer token", func(t *testing.T) {
			stored.forget()
			g.do(t, tt.method, tt.path, tt.body, "Authorization", "Bearer "+bootstrapKey, "x-gateway-provider", "@stored").wantOK(t)
			check(t, stored.only(t), storedKey)
		})
	}
	for _, method := range []string{"GET", "POST"} {
		prove(t, "S-350", "pass-through "+method+" to a provider whose credential is in another header", func(t *testing.T) {
			stored.forget()
			g.do(t, method, "/v1/things", "", managed("@native", append([]string{"Authorization", "Bearer client-b"}, secrets...)...)...).wantOK(t)
			in := stored.only(t)
			if low := strings.ToLower(in.head); strings.Contains(low, "client-") || strings.Contains(low, "session=1") || !slices.Equal(in.header["X-Api-Key"], []string{storedKey}) {
				t.Errorf("the provider got\n%s", in.head)
			}
		})
	}
	prove(t, "S-350", "the gateway key goes to no provider through forwarded headers", func(t *testing.T) {
		for _, names := range []string{"Authorization", `["authorization"]`, "AUTHORIZATION", "X-Api-Key", "x-API-key"} {
			stored.forget()
			g.do(t, "GET", "/v1/things", "", "Authorization", "Bearer "+bootstrapKey, "X-Api-Key", bootstrapKey,
				"x-gateway-provider", "@native", "x-gateway-forward-headers", names)
			for _, in := range stored.requests() {
				if strings.Contains(in.head, bootstrapKey) {
					t.Errorf("forwarding %s, the provider saw the gateway key:\n%s", names, in.head)
				}
			}
		}
		stored.forget()
	})
	for place, path := range map[string]string{
		"a header":                      "/v1/things?a=1",
		"the query":                     "/v1/things?a=1&key=" + bootstrapKey,
		"the name of a query parameter": "/v1/things?" + url.QueryEscape(bootstrapKey) + "=&a=1",
	} {
		prove(t, "S-350", "the gateway key in "+place+" of the client's choice goes to no provider", func(t *testing.T) {
			for _, value := range []string{bootstrapKey, "Bearer " + bootstrapKey, "token=" + bootstrapKey + ";v=1"} {
				stored.forget()
				g.do(t, "GET", path, "", managed("@stored", "X-Own", value, "X-Other", "stays")...).wantOK(t)
				in := stored.only(t)
				if strings.Contains(in.head, bootstrapKey) || strings.Contains(in.uri, bootstrapKey) {
					t.Errorf("the provider saw the gateway key at %s:\n%s", in.uri, in.head)
				}
				if in.uri != "/v1/things?a=1" || in.header.Get("X-Other") != "stays" {
					t.Errorf("the provider was asked for %s with X-Other %q, want the rest of the request", in.uri, in.header.Get("X-Other"))
				}
			}
		})
	}
	prove(t, "S-350", "the gateway key as bearer token goes to no provider as a credential", func(t *testing.T) {
		p.forget()
		g.do(t, "GET", "/v1/things", "", "Authorization", "Bearer "+bootstrapKey, "x-gateway-provider", "openai-compatible", "x-gateway-custom-host", p.url)
		for _, in := range p.requests() {
			if strings.Contains(in.head, bootstrapKey) {
				t.Errorf("the provider saw the gateway key:\n%s", in.head)
			}
		}
		p.forget()
	})
}
