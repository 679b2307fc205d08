package dataplane_test

import (
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/simulator"
	"modelgate/internal/testing/gatewaytest"
)

// outcome is what a client and the log get to see of a fault.
type outcome struct {
	status int
	end    string // how the body ends: done and error are ends of streams, complete is one JSON body
	source any    // recorded, nil for success
	code   any    // recorded
	usage  bool   // recorded
}

var (
	completed = outcome{200, "complete", nil, nil, true}
	streamed  = outcome{200, "done", nil, nil, true}
)

// noUsage is o without figures.
func (o outcome) noUsage() outcome { o.usage = false; return o }

func refusedWith(status int) outcome {
	return outcome{status, "complete", "provider", fmt.Sprintf("status_%d", status), false}
}
func failed(status int, code string) outcome {
	return outcome{status, "complete", "gateway", code, false}
}
func broken(source, code string) outcome { return outcome{200, "error", source, code, false} }

// faults holds a row per fault of the simulator: how the model asks for it,
// and what happens to a plain and of a streamed request.
var faults = map[string]struct {
	form          string
	plain, stream outcome
}{
	"tokens":           {"tokens=5", completed, streamed},
	"size":             {"size=3", completed, streamed},
	"pace":             {"pace=1ms", completed, streamed},
	"report":           {"report", completed, streamed},
	"thinking":         {"thinking=5", completed, streamed},
	"refusal":          {"refusal", completed, streamed},
	"calls":            {"calls=2", completed, streamed},
	"call-ids":         {"call-ids=90", completed, streamed},
	"turns":            {"turns=system", completed, streamed},
	"preface":          {"preface", completed, streamed},
	"interleave":       {"interleave", completed, streamed},
	"cached":           {"cached=5", completed, streamed},
	"cache-write":      {"cache-write=5", completed, streamed},
	"image":            {"image", completed, streamed},
	"generated":        {"generated", completed, streamed},
	"reads":            {"reads=2", completed, streamed}, // this fault and the four below are of stored objects
	"takes":            {"takes=1h", completed, streamed},
	"job":              {"job=hang", completed, streamed},
	"lost":             {"lost", completed, streamed},
	"half-content":     {"half-content", completed, streamed},
	"odd-results":      {"odd-results", completed, streamed},
	"times":            {"times=1+status=503", refusedWith(503), refusedWith(503)},
	"every":            {"every=1+status=503", refusedWith(503), refusedWith(503)},
	"flap":             {"flap=1h+status=503", refusedWith(503), refusedWith(503)},
	"quota":            {"quota=1@q", completed, streamed},
	"status":           {"status=429", refusedWith(429), refusedWith(429)},
	"retry-after":      {"retry-after=2+status=503", refusedWith(503), refusedWith(503)},
	"retry-after-ms":   {"retry-after-ms=250+status=529", refusedWith(529), refusedWith(529)},
	"context-length":   {"context-length", refusedWith(400), refusedWith(400)},
	"content-filter":   {"content-filter", refusedWith(400), refusedWith(400)},
	"model-not-found":  {"model-not-found", refusedWith(404), refusedWith(404)},
	"no-prefill":       {"no-prefill", completed, streamed},
	"redirect":         {"redirect=http://127.0.0.1:1/x", failed(502, "upstream_unreadable"), failed(502, "upstream_unreadable")},
	"html":             {"html", failed(502, "upstream_unreadable"), failed(502, "upstream_unreadable")},
	"html-error":       {"html-error=502", refusedWith(502), refusedWith(502)},
	"reset":            {"reset", failed(502, "upstream_reset"), failed(502, "upstream_reset")},
	"hang":             {"hang", failed(504, "header_timeout"), failed(504, "header_timeout")},
	"huge":             {"huge=20MB", completed.noUsage(), failed(502, "upstream_unreadable")},
	"gzip-bomb":        {"gzip-bomb", failed(502, "upstream_unreadable"), failed(502, "upstream_unreadable")},
	"headers":          {"headers=20s", failed(504, "header_timeout"), failed(504, "header_timeout")},
	"first":            {"first=20s", failed(504, "header_timeout"), failed(504, "first_event_timeout")},
	"stall":            {"stall=20s@3", failed(504, "idle_timeout"), broken("gateway", "idle_timeout")},
	"cut":              {"cut=5", failed(502, "upstream_reset"), broken("gateway", "upstream_reset")},
	"malformed":        {"malformed=3", completed, streamed},
	"error-event":      {"error-event=3", completed, broken("provider", "provider_error")},
	"bad-crc":          {"bad-crc=3", completed, streamed},
	"torn":             {"torn=3", completed, broken("provider", "upstream_stream_incomplete")},
	"no-done":          {"no-done", completed, streamed},
	"no-usage":         {"no-usage", completed.noUsage(), streamed.noUsage()},
	"no-blank":         {"no-blank", completed, streamed},
	"crlf":             {"crlf", completed, streamed},
	"comments":         {"comments", completed, streamed},
	"bom":              {"bom", completed, streamed},
	"event-first":      {"event-first", completed, streamed},
	"json-for-stream":  {"json-for-stream", completed, completed},
	"sse-for-json":     {"sse-for-json", streamed.noUsage(), streamed},
	"gzip":             {"gzip", completed, streamed},
	"length":           {"length=%2B10", failed(502, "upstream_reset"), failed(502, "upstream_reset")},
	"duplicate-length": {"duplicate-length", failed(502, "upstream_bad_response"), failed(502, "upstream_bad_response")},
	"smuggle":          {"smuggle", completed, completed},
	"early-hints":      {"early-hints", completed, streamed},
	"trailers":         {"trailers", completed, streamed},
	"content-type":     {"content-type=text/plain", completed, failed(502, "upstream_unreadable")},
	"set-cookie":       {"set-cookie", completed, streamed},
	"header":           {"header=X-Further:yes", completed, streamed},

	// More than one form of a fault is worth a row.
	"length short":     {"length=-1", failed(502, "upstream_unreadable"), failed(502, "upstream_unreadable")},
	"length shorter":   {"length=-100", failed(502, "upstream_unreadable"), failed(502, "upstream_unreadable")},
	"cut clean":        {"cut=5,clean", failed(502, "upstream_unreadable"), broken("provider", "upstream_stream_incomplete")},
	"cut before all":   {"cut=0", failed(502, "upstream_reset"), failed(502, "upstream_reset")},
	"error first":      {"error-event=1", completed, refusedWith(500)},
	"html unavailable": {"html-error=503", refusedWith(503), refusedWith(503)},
}

const faultLimits = "timeouts: {header: 1s, first_token: 1s, idle: 1s}\nlimits: {event: 1 MB}\n"

func TestEveryFaultHasItsOutcome(t *testing.T) {
	t.Parallel()
	for _, f := range simulator.Faults() {
		if _, ok := faults[f.Name]; !ok {
			t.Errorf("the fault %s of the simulator has no row", f.Name)
		}
	}
	for name, row := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := gatewaytest.New(t, gatewaytest.Options{Settings: faultLimits})
			suffer(t, g, row.form, false, row.plain)
			g.Sim.Reset()
			suffer(t, g, row.form, true, row.stream)
			if strings.Contains(g.Log.String(), "panic") {
				t.Errorf("a handler panicked:\n%s", g.Log)
			}
		})
	}
}

// suffer sends a request whose model asks for a fault, checks everything visible of
// it, and that the next request is answered.
func suffer(t *testing.T, g *gatewaytest.Gateway, form string, stream bool, want outcome) {
	t.Helper()
	model := "sim-1+" + form
	body := simChat(model, stream)
	if stream {
		body = strings.Replace(body, `"stream"`, `"stream_options":{"include_usage":true},"stream"`, 1)
	}
	res := g.Post("/chat/completions", body)
	end := "complete"
	switch text := strings.ReplaceAll(string(res.Body), "\r\n", "\n"); {
	case strings.HasSuffix(text, done) || strings.HasSuffix(text, done+"\n"):
		end = "done"
	case strings.HasPrefix(text, "data:"):
		end = "error"
		errorOf(t, text[strings.LastIndex(strings.TrimSpace(text), "\n")+1:])
	default:
		res.JSON(t)
	}
	if res.Err != nil || res.Status != want.status || end != want.end {
		t.Fatalf("stream=%t: got %d, end %s, %v; want %d, end %s: %.300s", stream, res.Status, end, res.Err, want.status, want.end, res.Body)
	}
	if n := g.Sim.Calls(model); n != 1 {
		t.Errorf("stream=%t: the provider was called %d times, want once", stream, n)
	}
	e := g.Entry(res)
	recorded(t, e, map[string]any{"status": want.status, "error.source": want.source, "error.code": want.code,
		"model": model, "provider_slug": "simulator", "stream": stream})
	if n := len(e["attempts"].([]any)); n != 1 {
		t.Errorf("stream=%t: %d attempts recorded, want 1", stream, n)
	}
	if got := e["usage"] != nil; got != want.usage && (want.usage || e["usage_estimated"] != true) {
		t.Errorf("stream=%t: usage reported = %t, want %t", stream, got, want.usage)
	}
	if res.Header.Get("Set-Cookie") != "" {
		t.Errorf("stream=%t: a provider's cookie reached the client", stream)
	}
	if next := g.Post("/chat/completions", simChat("sim-1", false)); next.Status != 200 {
		t.Errorf("stream=%t: the next request got %d: %s", stream, next.Status, next.Body)
	}
}

func TestRetryAfterOfTheProviderReachesTheClient(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{})
	for form, name := range map[string]string{"retry-after=7+status=429": "Retry-After", "retry-after-ms=7+status=503": "Retry-After-Ms"} {
		if res := g.Post("/chat/completions", simChat("sim-1+"+form, false)); res.Header.Get(name) != "7" {
			t.Errorf("%s: %s = %q, want 7", form, name, res.Header.Get(name))
		}
	}
}
