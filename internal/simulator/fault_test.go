package simulator_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"syscall"
	"testing"
	"time"

	"modelgate/internal/simulator"
)

// faultCases name the fault each of them shows, so that a fault without a case
// is noticed.
var faultCases = map[string]func(t *testing.T, h *fixture){
	"tokens": func(t *testing.T, h *fixture) {
		if got := gather(t, h.stream("tokens=7")); got.frames != 10 || len(got.text[0]) != 28 {
			t.Errorf("%d frames with %d bytes, want 10 with 28", got.frames, len(got.text[0]))
		}
	},
	"size": func(t *testing.T, h *fixture) {
		got := gather(t, h.stream("tokens=8+size=16"))
		if got.frames != 5 || len(got.text[0]) != 32 || got.usage.Completion != 8 {
			t.Errorf("%d frames with %d bytes, usage %+v", got.frames, len(got.text[0]), got.usage)
		}
	},
	"pace": func(t *testing.T, h *fixture) {
		start := time.Now()
		h.stream("tokens=2+pace=20ms") // five frames
		if took := time.Since(start); took < 80*time.Millisecond {
			t.Errorf("took %s, want at least four pauses of 20ms", took)
		}
	},
	"report": func(t *testing.T, h *fixture) {
		if got := gather(t, h.stream("report")); !json.Valid([]byte(got.text[0])) {
			t.Errorf("text = %q", got.text[0])
		}
	},
	"thinking": func(t *testing.T, h *fixture) {
		if got := gather(t, h.stream("thinking=5+tokens=3")); got.frames != 11 || got.usage.Completion != 8 {
			t.Errorf("%d frames, usage %+v", got.frames, got.usage)
		}
	},
	"refusal": func(t *testing.T, h *fixture) {
		h.wantScript(t, "refusal", simpleQuestion, func(a parsed) bool { return a.refusal != "" })
	},
	"calls": func(t *testing.T, h *fixture) {
		h.wantScript(t, "calls=3", withTools, func(a parsed) bool { return len(a.calls) == 3 })
	},
	"call-ids": func(t *testing.T, h *fixture) {
		h.wantScript(t, "call-ids=90", withTools, func(a parsed) bool { return len(a.calls) == 2 && len(a.calls[0].id) == 90 })
	},
	"preface": func(t *testing.T, h *fixture) {
		h.wantScript(t, "preface", withTools, func(a parsed) bool { return a.text == "Let me look that up." && len(a.calls) == 2 })
	},
	"interleave": func(t *testing.T, h *fixture) {
		body := protocolCases[0].post(h, "m+interleave", withTools, true).body
		first, last := strings.LastIndex(body, `[{"index":0`), strings.Index(body, `[{"index":1,"function":{"arguments"`)
		if first < last {
			t.Errorf("the calls come one after the other: %s", body)
		}
	},
	"cached": func(t *testing.T, h *fixture) {
		h.wantScript(t, "cached=9", simpleQuestion, func(a parsed) bool { return a.cached == 9 })
	},
	"cache-write": func(t *testing.T, h *fixture) {
		h.wantScript(t, "cache-write=900", simpleQuestion, func(a parsed) bool { return a.prompt > 900 })
	},
	"generated": func(t *testing.T, h *fixture) { // files of chat can be downloaded anyway
		var got struct{ ID string }
		body, kind := form(t, []byte("content"), "purpose", "batch")
		h.mustSend("POST", "/v1/files", body, "Content-Type", kind, simulator.HeaderFault, "generated").mustDecodeInto(t, &got)
		if a := h.mustSend("GET", "/v1/files/"+got.ID+"/content", ""); a.body != "content" {
			t.Errorf("content %q", a.body)
		}
	},
	"image": func(t *testing.T, h *fixture) {
		h.wantScript(t, "image", simpleQuestion, func(a parsed) bool { return a.images == 0 })
	},
	"bad-crc": func(t *testing.T, h *fixture) { // chat has no checksums
		if s := gather(t, h.stream("bad-crc=5")); s.broken != 0 || !s.done {
			t.Errorf("stream %+v", s)
		}
	},
	"torn": func(t *testing.T, h *fixture) {
		list := events(h.stream("torn=5"))
		if last := list[len(list)-1]; len(list) != 5 || last.ended || json.Valid([]byte(last.data)) {
			t.Errorf("%d events, the last %+v", len(list), last)
		}
	},
	"content-type": func(t *testing.T, h *fixture) {
		h.wantHeader(t, "content-type=text/plain", 200, "Content-Type", "text/plain")
		if a := h.mustPost("/v1/chat/completions", streamBody("m+content-type=a/b")); a.Header.Get("Content-Type") != "a/b" {
			t.Errorf("stream of type %q", a.Header.Get("Content-Type"))
		}
	},
	"reads": func(t *testing.T, h *fixture) {
		b := h.mustBatch(t, "m+reads=2")
		for _, want := range []string{"validating", "in_progress", "in_progress", "finalizing", "finalizing", "completed"} {
			if got := h.batch(t, b.ID); got.Status != want {
				t.Errorf("status %s, want %s", got.Status, want)
			}
		}
	},
	"takes": func(t *testing.T, h *fixture) {
		if b := h.mustBatch(t, "m+takes=0s"); b.Status != "validating" || h.batch(t, b.ID).Status != "completed" {
			t.Error("a batch that takes no time has not ended when it is read")
		}
		b := h.mustBatch(t, "m+takes=1h")
		for range 2 {
			if got := h.batch(t, b.ID).Status; got != "validating" {
				t.Errorf("%s: a batch that takes an hour has changed its state", got)
			}
		}
	},
	"job": func(t *testing.T, h *fixture) {
		for mode, want := range map[string]string{"hang": "in_progress", "fail": "failed", "expire": "expired", "slow-cancel": "completed"} {
			b := h.mustBatch(t, "m+job="+mode)
			for range 4 {
				b = h.batch(t, b.ID)
			}
			if b.Status != want || (b.Errors != nil) != (want == "failed") {
				t.Errorf("job=%s: %+v, want %s", mode, b, want)
			}
		}
	},
	"lost": func(t *testing.T, h *fixture) {
		file := h.mustUploadBatch(t, batchInput("m+lost", 1))
		if _, err := h.send("POST", "/v1/batches", batchBody(file)); err == nil {
			t.Error("there is a response")
		}
		if a := h.mustSend("GET", "/v1/batches", ""); !strings.Contains(a.body, file) {
			t.Errorf("the batch is not stored: %s", a.body)
		}
	},
	"half-content": func(t *testing.T, h *fixture) {
		var got struct{ ID string }
		body, kind := form(t, []byte("content."), "purpose", "batch")
		h.mustSend("POST", "/v1/files", body, "Content-Type", kind, simulator.HeaderFault, "half-content").mustDecodeInto(t, &got)
		if a := h.mustSend("GET", "/v1/files/"+got.ID+"/content", ""); a.body != "cont" || a.err == nil {
			t.Errorf("content %q, %v", a.body, a.err)
		}
	},
	"odd-results": func(t *testing.T, h *fixture) {
		h.mustSend("PUT", "/s3/b/in/a.jsonl", invocationRecords(100))
		var j invocationJob
		h.mustPost("/model-invocation-job", invocationBody("anthropic.m+odd-results")).mustDecodeInto(t, &j)
		id := j.JobArn[strings.LastIndexByte(j.JobArn, '/')+1:]
		for range 4 {
			h.invocation(t, id)
		}
		lines := strings.Split(strings.TrimSpace(h.mustSend("GET", "/s3/b/out/"+id+"/a.jsonl.out", "").body), "\n")
		if n := len(lines); n != 100 || lines[n-1] != lines[n-2] || strings.Contains(strings.Join(lines, ""), `"recordId":"r100"`) {
			t.Errorf("%d results, the last: %s", n, lines[n-1])
		}
	},
	"times": func(t *testing.T, h *fixture) { h.wantStatuses(t, "status=500+times=2", 500, 500, 200, 200) },
	"every": func(t *testing.T, h *fixture) { h.wantStatuses(t, "status=503+every=3", 200, 200, 503, 200, 200, 503) },
	"flap": func(t *testing.T, h *fixture) {
		h.wantStatuses(t, "status=500+flap=1h", 500, 500)
	},
	"quota": func(t *testing.T, h *fixture) {
		h.wantStatuses(t, "quota=2@shared", 200)
		h.wantStatuses(t, "quota=2@shared+tokens=3", 200, 429)
		h.wantStatuses(t, "quota=2@other", 200)
	},
	"status": func(t *testing.T, h *fixture) {
		for status, code := range map[int]string{429: "rate_limit_exceeded", 500: "", 503: "overloaded", 529: "overloaded", 401: "invalid_api_key", 418: ""} {
			a := h.mustPost("/v1/chat/completions", streamBody(fmt.Sprintf("m+status=%d", status)))
			if e := a.mustDecode(t).Error; a.StatusCode != status || e == nil || deref(e.Code) != code {
				t.Errorf("status %d: %d %s", status, a.StatusCode, a.body)
			}
		}
	},
	"retry-after": func(t *testing.T, h *fixture) {
		h.wantHeader(t, "status=429+retry-after=2", 429, "Retry-After", "2")
		h.wantHeader(t, "status=429", 429, "X-Ratelimit-Remaining-Requests", "0")
		h.wantHeader(t, "status=503+retry-after=Wed, 21 Oct 2026 07:28:00 GMT", 503, "Retry-After", "Wed, 21 Oct 2026 07:28:00 GMT")
	},
	"retry-after-ms": func(t *testing.T, h *fixture) {
		h.wantHeader(t, "status=429+retry-after-ms=250", 429, "Retry-After-Ms", "250")
	},
	"redirect": func(t *testing.T, h *fixture) {
		h.wantHeader(t, "redirect=http://else.invalid/a%2Bb", 302, "Location", "http://else.invalid/a+b")
	},
	"html-error": func(t *testing.T, h *fixture) {
		h.wantHeader(t, "html-error=502", 502, "Content-Type", "text/html; charset=utf-8")
	},
	"html": func(t *testing.T, h *fixture) {
		h.wantHeader(t, "html", 200, "Content-Type", "text/html; charset=utf-8")
	},
	"set-cookie": func(t *testing.T, h *fixture) {
		h.wantHeader(t, "set-cookie", 200, "Set-Cookie", "simulator=1; Path=/; HttpOnly")
	},
	"header":          func(t *testing.T, h *fixture) { h.wantHeader(t, "header=X-Odd: odd", 200, "X-Odd", "odd") },
	"context-length":  func(t *testing.T, h *fixture) { h.wantCode(t, "context-length", 400, "context_length_exceeded") },
	"content-filter":  func(t *testing.T, h *fixture) { h.wantCode(t, "content-filter", 400, "content_filter") },
	"model-not-found": func(t *testing.T, h *fixture) { h.wantCode(t, "model-not-found", 404, "model_not_found") },
	"turns": func(t *testing.T, h *fixture) {
		for body, want := range map[string]int{
			`{"model":"m+turns=system","messages":[{"role":"developer","content":"x"}]}`:                                            400,
			`{"model":"m+turns=system","messages":[{"role":"system","content":"x"}]}`:                                               200,
			`{"model":"m+turns=reply","messages":[{"role":"tool","tool_call_id":"a","content":"x"},{"role":"user","content":"x"}]}`: 400,
			`{"model":"m+turns=reply","messages":[{"role":"user","content":"x"},{"role":"assistant","content":"x"}]}`:               400,
			`{"model":"m+turns=reply","messages":[{"role":"user","content":"x"},{"role":"assistant","content":"x","prefix":true}]}`: 200,
			`{"model":"m+turns=alternate","messages":[{"role":"user","content":"x"},{"role":"user","content":"x"}]}`:                400,
			`{"model":"m+turns=alternate","messages":[{"role":"user","content":"x"},{"role":"system","content":"x"}]}`:              400,
			`{"model":"m+turns=alternate","messages":[{"role":"system","content":"x"},{"role":"user","content":"x"}]}`:              200,
		} {
			if a := h.mustPost("/v1/chat/completions", body); a.StatusCode != want {
				t.Errorf("%s: status = %d, want %d", body, a.StatusCode, want)
			}
		}
	},
	"no-prefill": func(t *testing.T, h *fixture) {
		h.wantStatuses(t, "no-prefill", 200)
		a := h.mustPost("/v1/chat/completions", `{"model":"m+no-prefill","messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y"}]}`)
		if a.StatusCode != 400 {
			t.Errorf("status = %d, want 400", a.StatusCode)
		}
	},
	"reset": func(t *testing.T, h *fixture) {
		_, err := h.send("POST", "/v1/chat/completions", plain("m+reset"))
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("error = %v, want a reset", err)
		}
	},
	"hang": func(t *testing.T, h *fixture) {
		if err := h.leaveAfter(30*time.Millisecond, plain("m+hang")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error = %v, want none but the client's own", err)
		}
	},
	"headers": func(t *testing.T, h *fixture) {
		h.wantSlow(t, "headers=60ms", plain, 60*time.Millisecond, 60*time.Millisecond)
		h.wantSlow(t, "headers=60ms", streamBody, 60*time.Millisecond, 60*time.Millisecond)
	},
	"first": func(t *testing.T, h *fixture) {
		h.wantSlow(t, "first=150ms", plain, 0, 150*time.Millisecond)
		h.wantSlow(t, "first=150ms", streamBody, 0, 150*time.Millisecond)
	},
	"stall": func(t *testing.T, h *fixture) {
		h.wantSlow(t, "stall=150ms@10", streamBody, 0, 150*time.Millisecond)
		h.wantSlow(t, "stall=150ms@10", plain, 0, 150*time.Millisecond)
	},
	"cut": func(t *testing.T, h *fixture) {
		a := h.mustPost("/v1/chat/completions", streamBody("m+cut=40"))
		if s := gather(t, a.body); !errors.Is(a.err, syscall.ECONNRESET) || s.frames != 40 || s.done || s.finish[0] != "" {
			t.Errorf("cut=40: %d frames, done %t, error %v", s.frames, s.done, a.err)
		}
		a = h.mustPost("/v1/chat/completions", streamBody("m+cut=40,clean"))
		if s := gather(t, a.body); a.err != nil || s.frames != 40 || s.done || s.finish[0] != "" {
			t.Errorf("cut=40,clean: %d frames, done %t, error %v", s.frames, s.done, a.err)
		}
		a = h.mustPost("/v1/chat/completions", plain("m+cut=40"))
		if len(a.body) != 40 || !errors.Is(a.err, syscall.ECONNRESET) {
			t.Errorf("cut=40 of a plain answer: %d bytes, error %v", len(a.body), a.err)
		}
		a = h.mustPost("/v1/chat/completions", plain("m+cut=40,clean"))
		if len(a.body) != 40 || a.err != nil {
			t.Errorf("cut=40,clean of a plain answer: %d bytes, error %v", len(a.body), a.err)
		}
	},
	"malformed": func(t *testing.T, h *fixture) {
		s := gather(t, h.stream("tokens=6+malformed=5"))
		fifth := events(h.stream("tokens=6+malformed=5"))[4].data
		if s.broken != 1 || s.frames != 9 || !s.done || json.Valid([]byte(fifth)) {
			t.Errorf("%d broken of %d frames, done %t", s.broken, s.frames, s.done)
		}
	},
	"error-event": func(t *testing.T, h *fixture) {
		s := gather(t, h.stream("error-event=5"))
		if s.errors != 1 || s.frames != 5 || s.done {
			t.Errorf("%d errors, %d frames, done %t; want one error as frame 5 and nothing more", s.errors, s.frames, s.done)
		}
	},
	"no-done": func(t *testing.T, h *fixture) {
		if s := gather(t, h.stream("no-done")); s.done || s.finish[0] != "stop" || s.usage == nil {
			t.Errorf("done %t, finish %q, usage %v", s.done, s.finish[0], s.usage)
		}
	},
	"no-usage": func(t *testing.T, h *fixture) {
		if s := gather(t, h.stream("no-usage")); s.usage != nil || !s.done {
			t.Errorf("usage %v, done %t", s.usage, s.done)
		}
		if c := h.mustPost("/v1/chat/completions", plain("m+no-usage")).mustDecode(t); c.Usage != nil || len(c.Choices) != 1 {
			t.Errorf("usage %v", c.Usage)
		}
	},
	"no-blank": func(t *testing.T, h *fixture) {
		list := events(h.stream("no-blank"))
		if last := list[len(list)-1]; last.ended || last.data != "[DONE]" || !list[len(list)-2].ended {
			t.Errorf("last event %+v", last)
		}
		list = events(h.stream("no-blank+no-done"))
		if last := list[len(list)-1]; last.ended || mustParse(t, last.data).Usage == nil {
			t.Errorf("last event without [DONE] %+v", last)
		}
	},
	"crlf": func(t *testing.T, h *fixture) {
		body := h.stream("crlf")
		if strings.Count(body, "\n") != strings.Count(body, "\r\n") || !strings.HasSuffix(body, "data: [DONE]\r\n\r\n") || !gather(t, body).done {
			t.Errorf("body = %.300q", body)
		}
	},
	"comments": func(t *testing.T, h *fixture) {
		for i, e := range events(h.stream("comments+tokens=2"))[:5] {
			if e.comments != 1 || e.data == "" {
				t.Errorf("event %d = %+v", i, e)
			}
		}
	},
	"bom": func(t *testing.T, h *fixture) {
		if body := h.stream("bom"); !strings.HasPrefix(body, "\ufeffdata: {") || strings.Count(body, "\ufeff") != 1 {
			t.Errorf("body = %.40q", body)
		}
	},
	"event-first": func(t *testing.T, h *fixture) {
		list := events(h.stream("event-first+error-event=3"))
		if len(list) != 3 || list[0].name != "message" || list[2].name != "error" {
			t.Errorf("events %+v", list)
		}
	},
	"json-for-stream": func(t *testing.T, h *fixture) {
		a := h.mustPost("/v1/chat/completions", streamBody("m+json-for-stream"))
		if c := a.mustDecode(t); a.Header.Get("Content-Type") != "application/json" || c.Object != "chat.completion" {
			t.Errorf("%s %s", a.Header.Get("Content-Type"), a.body)
		}
	},
	"sse-for-json": func(t *testing.T, h *fixture) {
		a := h.mustPost("/v1/chat/completions", plain("m+sse-for-json"))
		if s := gather(t, a.body); !s.done || !strings.HasPrefix(a.Header.Get("Content-Type"), "text/event-stream") {
			t.Errorf("%s %.200s", a.Header.Get("Content-Type"), a.body)
		}
	},
	"gzip": func(t *testing.T, h *fixture) {
		want := h.mustPost("/v1/chat/completions", plain("m")).mustDecode(t).Choices[0].Message.Content
		a := h.mustPost("/v1/chat/completions", plain("m+gzip"))
		if c := mustParse(t, mustUnzip(t, a)); c.Choices[0].Message.Content != want {
			t.Errorf("content = %q", c.Choices[0].Message.Content)
		}
		if s := gather(t, mustUnzip(t, h.mustPost("/v1/chat/completions", streamBody("m+gzip")))); s.text[0] != want || !s.done {
			t.Errorf("stream = %+v", s)
		}
	},
	"gzip-bomb": func(t *testing.T, h *fixture) {
		a := h.mustPost("/v1/chat/completions", plain("m+gzip-bomb"))
		if a.err != nil || len(a.body) > 2<<20 || a.Header.Get("Content-Encoding") != "gzip" {
			t.Fatalf("%d bytes on the wire, %v, %v", len(a.body), a.Header, a.err)
		}
		if testing.Short() {
			return
		}
		z, err := gzip.NewReader(strings.NewReader(a.body))
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, z); n != 1<<30 || err != nil {
			t.Errorf("decodes to %d bytes, %v; want 1 GiB and a right checksum", n, err)
		}
	},
	"huge": func(t *testing.T, h *fixture) {
		a := h.mustPost("/v1/chat/completions", plain("m+huge=3MB"))
		if c := a.mustDecode(t); len(a.body) != 3e6 || c.Choices[0].Message.Content == "" {
			t.Errorf("%d bytes", len(a.body))
		}
		a = h.mustPost("/v1/chat/completions", streamBody("m+huge=3MiB"))
		if s := gather(t, a.body); len(a.body) != 3<<20 || !s.done || s.frames != 1 || s.broken != 0 {
			t.Errorf("stream: %d bytes, %d frames, %d broken", len(a.body), s.frames, s.broken)
		}
	},
	"length": func(t *testing.T, h *fixture) {
		want := len(h.mustPost("/v1/chat/completions", plain("m+length=-0010")).body) // the same length of name
		a := h.mustPost("/v1/chat/completions", plain("m+length=+0010"))
		if !errors.Is(a.err, io.ErrUnexpectedEOF) || a.ContentLength != int64(len(a.body))+10 || len(a.body) != want+10 {
			t.Errorf("length=+10: %d announced, %d came, %v", a.ContentLength, len(a.body), a.err)
		}
	},
	"duplicate-length": func(t *testing.T, h *fixture) {
		if got := h.raw(t, plain("m+duplicate-length")); strings.Count(got, "Content-Length: ") != 2 {
			t.Errorf("wire = %s", got)
		}
		if _, err := h.send("POST", "/v1/chat/completions", plain("m+duplicate-length")); err == nil {
			t.Error("net/http takes it")
		}
	},
	"smuggle": func(t *testing.T, h *fixture) {
		got := h.raw(t, plain("m+smuggle"))
		if strings.Count(got, "HTTP/1.1 200 OK") != 2 || !strings.Contains(got, "Transfer-Encoding: chunked") || !strings.HasSuffix(got, "forged") {
			t.Errorf("wire = %s", got)
		}
	},
	"early-hints": func(t *testing.T, h *fixture) {
		var early int
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
			early = code
			return nil
		}})
		r, _ := http.NewRequestWithContext(ctx, "POST", h.url+"/v1/chat/completions", strings.NewReader(plain("m+early-hints")))
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if early != http.StatusEarlyHints || resp.StatusCode != 200 || resp.Header.Get("Link") != "" {
			t.Errorf("first %d, then %d %v", early, resp.StatusCode, resp.Header)
		}
	},
	"trailers": func(t *testing.T, h *fixture) {
		for _, body := range []string{plain("m+trailers"), streamBody("m+trailers")} {
			if a := h.mustPost("/v1/chat/completions", body); a.err != nil || !strings.HasPrefix(a.Trailer.Get("X-Simulator-Trailer"), "request ") {
				t.Errorf("trailer %v, %v", a.Trailer, a.err)
			}
		}
	},
}

func TestEveryFaultDoesWhatItSays(t *testing.T) {
	known := 0
	for _, f := range simulator.Faults() {
		check := faultCases[f.Name]
		if check == nil || f.Form == "" || f.Text == "" {
			t.Errorf("fault %+v has no case or no text", f)
			continue
		}
		known++
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			check(t, mustServe(t, simulator.Options{}))
		})
	}
	if known != len(faultCases) {
		t.Errorf("%d cases for %d faults", len(faultCases), known)
	}
}

func TestFaultHeaderWinsOverTheModel(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	for _, tt := range []struct {
		name, method, path, body, faults string
		want                             int
	}{
		{"chat", "POST", "/v1/chat/completions", plain("m+status=500"), "status=418", 418},
		{"a name that ends in a plus", "POST", "/v1/chat/completions", plain("command-r+"), "", 200},
		{"an unknown fault", "POST", "/v1/chat/completions", plain("m"), "no-such", 400},
		{"a value where none is taken", "POST", "/v1/chat/completions", plain("m"), "html=1", 400},
		{"embeddings", "POST", "/v1/embeddings", `{"model":"e","input":"x"}`, "status=503", 503},
		{"models", "GET", "/v1/models", "", "status=502", 502},
		{"an unknown path", "PUT", "/v1/anything/else", "x", "status=504", 504},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if a := h.mustSend(tt.method, tt.path, tt.body, simulator.HeaderFault, tt.faults); a.StatusCode != tt.want {
				t.Errorf("status = %d, want %d: %s", a.StatusCode, tt.want, a.body)
			}
		})
	}
}
