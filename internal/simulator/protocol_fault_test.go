package simulator_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"modelgate/internal/simulator"
)

// A faultCheck checks a fault in one protocol, complete or streamed.
type faultCheck func(t *testing.T, g *protocolCase, h *fixture, streamed bool)

// send sends the usual request with faults in the model's name.
func (g *protocolCase) send(t *testing.T, h *fixture, faults string, streamed bool) *response {
	t.Helper()
	return g.post(h, "m+"+faults, simpleQuestion, streamed)
}

// parse reads a response that must be complete.
func (g *protocolCase) parse(t *testing.T, a *response, streamed bool) parsed {
	t.Helper()
	if a.err != nil || a.StatusCode != 200 {
		t.Fatalf("%d %.300s, %v", a.StatusCode, a.body, a.err)
	}
	if !streamed {
		return g.understand(t, a.body)
	}
	return g.follow(a.body)
}

// validCase checks that the response is what it is without the fault.
func validCase(faults string) faultCheck {
	return func(t *testing.T, g *protocolCase, h *fixture, streamed bool) {
		if got := g.parse(t, g.send(t, h, faults, streamed), streamed); !strings.HasPrefix(got.text, "echo: Say it") || got.broken > 0 || got.completion != 64 || streamed && !got.ended {
			t.Errorf("%s: heard %+v", faults, got)
		}
	}
}

// refusedCase checks the status, and that the protocol's error says something.
func refusedCase(faults string, status int) faultCheck {
	return func(t *testing.T, g *protocolCase, h *fixture, streamed bool) {
		a := g.send(t, h, faults, streamed)
		body := strings.TrimSuffix(strings.TrimPrefix(a.body, "["), "]")
		if fault := g.fault(mustObject(t, body)); a.StatusCode != status || fault == "" {
			t.Errorf("%s: %d %s", faults, a.StatusCode, a.body)
		}
	}
}

func headed(faults string, status int, name, value string) faultCheck {
	return func(t *testing.T, g *protocolCase, h *fixture, streamed bool) {
		if a := g.send(t, h, faults, streamed); a.StatusCode != status || !strings.HasPrefix(a.Header.Get(name), value) {
			t.Errorf("%s: %d with %s %q", faults, a.StatusCode, name, a.Header.Get(name))
		}
	}
}

func slowCase(faults string, d time.Duration) faultCheck {
	return func(t *testing.T, g *protocolCase, h *fixture, streamed bool) {
		start := time.Now()
		a := g.send(t, h, faults, streamed)
		if took := time.Since(start); a.err != nil || took < d {
			t.Errorf("%s: after %s, %v", faults, took, a.err)
		}
	}
}

// inStream is for faults of streams: a complete response is as it is without.
func inStream(faults string, check func(t *testing.T, g *protocolCase, a *response, got parsed)) faultCheck {
	return func(t *testing.T, g *protocolCase, h *fixture, streamed bool) {
		if !streamed {
			validCase(faults)(t, g, h, false)
			return
		}
		a := g.send(t, h, faults, true)
		check(t, g, a, g.follow(a.body))
	}
}

func (g *protocolCase) events() bool { return g.framing() == "events" }

func (g *protocolCase) framing() string {
	switch g.name {
	case "ollama":
		return "lines"
	case "converse", "messages on bedrock":
		return "binary"
	}
	return "events"
}

// statuses are what a few calls are answered with.
func statuses(faults string, want ...int) faultCheck {
	return func(t *testing.T, g *protocolCase, h *fixture, streamed bool) {
		for i, status := range want {
			if a := g.send(t, h, faults, streamed); a.StatusCode != status {
				t.Errorf("%s: call %d has status %d, want %d", faults, i+1, a.StatusCode, status)
			}
		}
	}
}

func shaped(faults string, ok func(parsed) bool) faultCheck {
	return func(t *testing.T, g *protocolCase, h *fixture, streamed bool) {
		if got := g.parse(t, g.send(t, h, faults, streamed), streamed); !ok(got) {
			t.Errorf("%s: heard %+v", faults, got)
		}
	}
}

var faultChecks = map[string]faultCheck{
	"tokens":   shaped("tokens=7", func(h parsed) bool { return len(h.text) == 28 && h.completion == 7 }),
	"size":     shaped("size=128", func(h parsed) bool { return len(h.text) == 256 && h.frames < 14 }),
	"pace":     validCase("pace=1us"),
	"report":   shaped("report", func(h parsed) bool { return strings.HasPrefix(h.text, `{"dialect":`) }),
	"thinking": shaped("thinking=3", func(h parsed) bool { return len(h.thinking) == 12 }),
	"refusal":  shaped("refusal", func(h parsed) bool { return h.refusal != "" }),
	"calls":    validCase("calls=2"), // there are no tools
	"call-ids": func(t *testing.T, g *protocolCase, h *fixture, streamed bool) {
		got := g.parse(t, g.post(h, "m+call-ids=90", withTools, streamed), streamed)
		odd := !strings.HasPrefix(g.name, "messages") && g.name != "converse"
		for _, c := range got.calls {
			if c.id != "" && (len(c.id) != 90 || strings.Contains(c.id, "|fc.") != odd) {
				t.Errorf("an id of a call is %q", c.id)
			}
		}
		if len(got.calls) != 2 {
			t.Errorf("heard %+v", got)
		}
	},
	"preface":         validCase("preface"),
	"interleave":      validCase("interleave"),
	"cached":          validCase("cached=5"),
	"cache-write":     validCase("cache-write=5"),
	"image":           validCase("image"),
	"generated":       validCase("generated"), // files have a test of their own
	"times":           statuses("status=500+times=2", 500, 500, 200),
	"every":           statuses("status=503+every=3", 200, 200, 503),
	"flap":            statuses("status=500+flap=1h", 500),
	"quota":           statuses("quota=1@q", 200, 429),
	"status":          refusedCase("status=529", 529),
	"retry-after":     headed("status=429+retry-after=2", 429, "Retry-After", "2"),
	"retry-after-ms":  headed("status=503+retry-after-ms=250", 503, "Retry-After-Ms", "250"),
	"context-length":  refusedCase("context-length", 400),
	"content-filter":  refusedCase("content-filter", 400),
	"model-not-found": refusedCase("model-not-found", 404),
	"no-prefill":      validCase("no-prefill"),
	"turns":           validCase("turns=system"),
	"redirect":        headed("redirect=http:%2F%2Felse.invalid", 302, "Location", "http://else.invalid"),
	"html":            headed("html", 200, "Content-Type", "text/html"),
	"html-error":      headed("html-error=502", 502, "Content-Type", "text/html"),
	"headers":         slowCase("headers=20ms", 20*time.Millisecond),
	"first":           slowCase("first=20ms", 20*time.Millisecond),
	"stall":           slowCase("stall=20ms@3", 20*time.Millisecond),
	"gzip-bomb":       headed("gzip-bomb", 200, "Content-Encoding", "gzip"),
	"early-hints":     validCase("early-hints"),
	"set-cookie":      headed("set-cookie", 200, "Set-Cookie", "simulator=1"),
	"header":          headed("header=X-Odd:odd", 200, "X-Odd", "odd"),
	"content-type":    headed("content-type=a/b", 200, "Content-Type", "a/b"),
	"reset": func(t *testing.T, g *protocolCase, h *fixture, streamed bool) {
		path, body := g.request("m+reset", simpleQuestion, streamed)
		if _, err := h.send("POST", path, body, g.header...); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("error = %v, want a reset", err)
		}
	},
	"hang": func(t *testing.T, g *protocolCase, h *fixture, streamed bool) {
		path, body := g.request("m+hang", simpleQuestion, streamed)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, "POST", h.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := http.DefaultClient.Do(r); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error = %v, want none but the client's own", err)
		}
	},
	"huge": func(t *testing.T, g *protocolCase, h *fixture, streamed bool) {
		a := g.send(t, h, "huge=300KB", streamed)
		if got := g.parse(t, a, streamed); len(a.body) != 300e3 || len(got.text) < 50e3 || got.broken > 0 || streamed && !got.ended {
			t.Errorf("%d bytes, text of %d, broken %d, ended %t", len(a.body), len(got.text), got.broken, got.ended)
		}
	},
	"cut": func(t *testing.T, g *protocolCase, h *fixture, streamed bool) {
		for faults, want := range map[string]error{"cut=6": syscall.ECONNRESET, "cut=6,clean": nil} {
			a := g.send(t, h, faults, streamed)
			if !errors.Is(a.err, want) || !streamed && len(a.body) != 6 {
				t.Errorf("%s: %d bytes, %v", faults, len(a.body), a.err)
			}
			if got := g.follow(a.body); streamed && (got.frames != 6 || got.ended || got.broken > 0) {
				t.Errorf("%s: %+v", faults, got)
			}
		}
	},
	"malformed": inStream("malformed=5", func(t *testing.T, g *protocolCase, a *response, got parsed) {
		if got.broken != 1 || !got.ended {
			t.Errorf("heard %+v", got)
		}
	}),
	"error-event": inStream("error-event=5", func(t *testing.T, g *protocolCase, a *response, got parsed) {
		want := 5
		if g.name == "responses" {
			want = 6 // the response fails as well
		}
		if got.fault == "" || got.frames != want || got.ended || a.err != nil || got.broken > 0 {
			t.Errorf("heard %+v, %v", got, a.err)
		}
	}),
	"bad-crc": inStream("bad-crc=5", func(t *testing.T, g *protocolCase, a *response, got parsed) {
		if binary := g.framing() == "binary"; binary != (got.broken == 1) || binary != (got.frames == 4) {
			t.Errorf("heard %+v", got)
		}
	}),
	"torn": inStream("torn=5", func(t *testing.T, g *protocolCase, a *response, got parsed) {
		if a.err != nil || got.ended || got.broken != 1 {
			t.Errorf("heard %+v, %v", got, a.err)
		}
	}),
	"no-done": inStream("no-done", func(t *testing.T, g *protocolCase, a *response, got parsed) {
		if got.ended || got.broken > 0 || len(got.text) != 256 {
			t.Errorf("heard %+v", got)
		}
	}),
	"no-usage": shaped("no-usage", func(h parsed) bool { return h.prompt == 0 && h.completion == 0 && h.stop != "" }),
	"no-blank": inStream("no-blank", func(t *testing.T, g *protocolCase, a *response, got parsed) {
		end := map[string]string{"events": "\n\n", "lines": "\n", "binary": "never"}[g.framing()]
		if strings.HasSuffix(a.body, end) || !got.ended {
			t.Errorf("the stream ends in %q", a.body[len(a.body)-10:])
		}
	}),
	"crlf": inStream("crlf", func(t *testing.T, g *protocolCase, a *response, got parsed) {
		if n := strings.Count(a.body, "\r\n"); g.framing() != "binary" && n != strings.Count(a.body, "\n") || !got.ended {
			t.Errorf("%d lines end in CR LF", n)
		}
	}),
	"comments": inStream("comments", func(t *testing.T, g *protocolCase, a *response, got parsed) {
		if g.events() != strings.HasPrefix(a.body, ": comment\n") || !got.ended {
			t.Errorf("body = %.60q", a.body)
		}
	}),
	"bom": inStream("bom", func(t *testing.T, g *protocolCase, a *response, got parsed) {
		if g.events() != strings.HasPrefix(a.body, "\ufeff") || !got.ended {
			t.Errorf("body = %.60q", a.body)
		}
	}),
	"event-first": inStream("event-first", func(t *testing.T, g *protocolCase, a *response, got parsed) {
		if g.events() != strings.HasPrefix(a.body, "event: ") || !got.ended || got.broken > 0 {
			t.Errorf("body = %.60q", a.body)
		}
	}),
	"json-for-stream": func(t *testing.T, g *protocolCase, h *fixture, _ bool) {
		if got := g.understand(t, g.send(t, h, "json-for-stream", true).body); got.completion != 64 {
			t.Errorf("heard %+v", got)
		}
	},
	"sse-for-json": func(t *testing.T, g *protocolCase, h *fixture, _ bool) {
		if got := g.follow(g.send(t, h, "sse-for-json", false).body); !got.ended || got.broken > 0 {
			t.Errorf("heard %+v", got)
		}
	},
	"gzip": func(t *testing.T, g *protocolCase, h *fixture, streamed bool) {
		a := g.send(t, h, "gzip", streamed)
		z, err := gzip.NewReader(strings.NewReader(a.body))
		if err != nil {
			t.Fatal(err)
		}
		plain, err := io.ReadAll(z)
		a.body = string(plain)
		if got := g.parse(t, a, streamed); err != nil || len(got.text) != 256 {
			t.Errorf("heard %+v, %v", got, err)
		}
	},
	"length": func(t *testing.T, g *protocolCase, h *fixture, streamed bool) {
		if a := g.send(t, h, "length=+10", streamed); !errors.Is(a.err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes, %v", len(a.body), a.err)
		}
	},
	"reads":        validCase("reads=2"), // faults of stored objects do not change other responses
	"takes":        validCase("takes=1h"),
	"job":          validCase("job=fail"),
	"lost":         validCase("lost"),
	"half-content": validCase("half-content"),
	"odd-results":  validCase("odd-results"),
	"duplicate-length": func(t *testing.T, g *protocolCase, h *fixture, streamed bool) {
		path, body := g.request("m+duplicate-length", simpleQuestion, streamed)
		if _, err := h.send("POST", path, body, g.header...); err == nil {
			t.Error("net/http takes it")
		}
	},
	"smuggle": func(t *testing.T, g *protocolCase, h *fixture, streamed bool) {
		if a := g.send(t, h, "smuggle", streamed); a.StatusCode != 200 || g.understand(t, a.body).completion != 64 {
			t.Errorf("%d %.200s", a.StatusCode, a.body)
		}
	},
	"trailers": func(t *testing.T, g *protocolCase, h *fixture, streamed bool) {
		if a := g.send(t, h, "trailers", streamed); a.err != nil || !strings.HasPrefix(a.Trailer.Get("X-Simulator-Trailer"), "request ") {
			t.Errorf("trailer %v, %v", a.Trailer, a.err)
		}
	},
}

func TestEveryFaultDoesWhatItSaysInEveryProtocol(t *testing.T) {
	known := 0
	for _, f := range simulator.Faults() {
		check := faultChecks[f.Name]
		if check == nil {
			t.Errorf("fault %s has no case", f.Name)
			continue
		}
		known++
		for _, g := range protocolCases[1:] { // chat has cases of its own
			for _, streamed := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/%t", f.Name, g.name, streamed), func(t *testing.T) {
					t.Parallel()
					check(t, g, mustServe(t, simulator.Options{}), streamed)
				})
			}
		}
	}
	if known != len(faultChecks) {
		t.Errorf("%d cases for %d faults", len(faultChecks), known)
	}
}
