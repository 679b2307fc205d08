package dataplane_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// pairSettings are a gateway with a provider of each protocol, all of them the
// simulator.
const pairSettings = `timeouts: {header: 20s, first_token: 20s, idle: 20s}
limits: {event: 1 MB}
providers:
  - {slug: chat, provider: openai, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
  - {slug: messages, provider: anthropic, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
  - {slug: gemini, provider: google, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
  - {slug: converse, provider: bedrock, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
  - {slug: cohere, provider: cohere, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
`

// pairTargets are the slugs of the settings, each named after its protocol. The
// one called chat speaks responses as well.
var pairTargets = []string{"chat", "messages", "gemini", "converse", "cohere"}

// translates reports whether a client and a target have no protocol in common.
func translates(client, target string) bool {
	return client != target && (client != "responses" || target != "chat")
}

// pairFaults are the faults whose outcome a protocol or a translation could
// change, in the form that shows it, with the outcome where both sides speak
// chat. Frames are counted, so that each client has had some before the sixth.
var pairFaults = map[string]struct {
	form          string
	plain, stream outcome
}{
	"none":             {"tokens=20", completed, streamed},
	"small frames":     {"tokens=40+size=1", completed, streamed},
	"a refusal":        {"refusal", completed, streamed},
	"thinking":         {"thinking=9+tokens=20", completed, streamed},
	"a report":         {"report", completed, streamed},
	"cached":           {"cached=5+cache-write=7", completed, streamed},
	"400":              {"status=400", refusedWith(400), refusedWith(400)},
	"401":              {"status=401", refusedWith(401), refusedWith(401)},
	"404":              {"model-not-found", refusedWith(404), refusedWith(404)},
	"429":              {"retry-after=2+status=429", refusedWith(429), refusedWith(429)},
	"500":              {"status=500", refusedWith(500), refusedWith(500)},
	"529":              {"status=529", refusedWith(529), refusedWith(529)},
	"context length":   {"context-length", refusedWith(400), refusedWith(400)},
	"content filter":   {"content-filter", refusedWith(400), refusedWith(400)},
	"redirect":         {"redirect=http://127.0.0.1:1/x", failed(502, "upstream_unreadable"), failed(502, "upstream_unreadable")},
	"page":             {"html", failed(502, "upstream_unreadable"), failed(502, "upstream_unreadable")},
	"page of an error": {"html-error=503", refusedWith(503), refusedWith(503)},
	"reset":            {"reset", failed(502, "upstream_reset"), failed(502, "upstream_reset")},
	"slow head":        {"headers=20s", failed(504, "header_timeout"), failed(504, "header_timeout")},
	"slow begin":       {"first=20s", failed(504, "header_timeout"), failed(504, "first_event_timeout")},
	"stall":            {"tokens=40+stall=20s@6", failed(504, "idle_timeout"), broken("gateway", "idle_timeout")},
	"cut":              {"tokens=40+cut=6", failed(502, "upstream_reset"), broken("gateway", "upstream_reset")},
	"cut before all":   {"cut=0", failed(502, "upstream_reset"), failed(502, "upstream_reset")},
	"clean cut":        {"tokens=40+cut=6,clean", failed(502, "upstream_unreadable"), broken("provider", "upstream_stream_incomplete")},
	"malformed":        {"tokens=40+malformed=6", completed, streamed},
	"error event":      {"tokens=40+error-event=6", completed, broken("provider", "provider_error")},
	"error at once":    {"error-event=1", completed, refusedWith(500)},
	"bad checksum":     {"tokens=40+bad-crc=6", completed, streamed},
	"torn":             {"tokens=40+torn=6", completed, broken("provider", "upstream_stream_incomplete")},
	"no end":           {"no-done", completed, streamed},
	"no usage":         {"no-usage", completed.noUsage(), streamed.noUsage()},
	"no blank line":    {"no-blank", completed, streamed},
	"line ends":        {"crlf+comments+bom", completed, streamed},
	"whole for stream": {"json-for-stream", completed, completed},
	"stream for whole": {"sse-for-json", streamed.noUsage(), streamed},
	"gzip":             {"gzip", completed, streamed},
	"gzip bomb":        {"gzip-bomb", failed(502, "upstream_unreadable"), failed(502, "upstream_unreadable")},
	"length too long":  {"length=%2B10", failed(502, "upstream_reset"), failed(502, "upstream_reset")},
	"forged answer":    {"smuggle", completed, completed},
	"trailers":         {"trailers", completed, streamed},
	"other type":       {"content-type=text/plain", completed, failed(502, "upstream_unreadable")},
}

// errorsAtOnce are the statuses of the error with which a stream of a protocol begins.
var errorsAtOnce = map[string]int{"chat": 500, "responses": 500, "messages": 529, "gemini": 503, "converse": 429, "cohere": 502}

// pairOutcome is what a pair makes of a fault: o, except for what its protocols
// change.
func pairOutcome(fault, client, target string, stream bool, o outcome) outcome {
	early := target == "messages" || target == "gemini" // usage comes with the first frames
	foreign := translates(client, target)
	binary := target == "converse"
	switch {
	case fault == "error at once" && stream:
		o = refusedWith(errorsAtOnce[target])
	case fault == "stream for whole" && !stream && foreign:
		o = completed
		o.usage = target != "chat" // which counts where it is asked to
	case fault == "stream for whole" && !stream:
		o.usage = client != "chat"
	case fault == "whole for stream" && stream && foreign, fault == "forged answer" && stream && foreign:
		o = streamed
	case (fault == "malformed" || fault == "torn" && !binary) && stream && foreign:
		o = broken("gateway", "upstream_unreadable")
	case fault == "bad checksum" && stream && binary:
		o = broken("gateway", "upstream_unreadable")
	case fault == "torn" && stream && binary:
		o = broken("gateway", "upstream_reset")
	case fault == "no end" && stream && (client == "responses" && !foreign || target != "chat" && target != "messages"):
		o = broken("provider", "upstream_stream_incomplete")
	}
	if o.end == "error" {
		o.usage = early
	}
	return o
}

// wordless are the faults whose response is not the usual text.
var wordless = []string{"a refusal", "thinking", "a report", "malformed", "bad checksum", "small frames"}

// TestEveryPairHasItsOutcome sends each fault through each pair of a client's
// protocol and a target's.
func TestEveryPairHasItsOutcome(t *testing.T) {
	t.Parallel()
	for fault, row := range pairFaults {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			settings := pairSettings
			if strings.Contains(row.form, "=20s") {
				settings = strings.ReplaceAll(settings, "20s", "1500ms")
			}
			g := gatewaytest.New(t, gatewaytest.Options{Settings: settings})
			var wg sync.WaitGroup
			for i, client := range clientFormats {
				for j, target := range pairTargets {
					if costly := raceEnabled || fault == "gzip bomb"; costly && (i+j)%3 != 1 {
						continue
					}
					wg.Go(func() {
						for stream, o := range map[bool]outcome{false: row.plain, true: row.stream} {
							want := pairOutcome(fault, client.name, target, stream, o)
							meet(t, g, client, target, fault, row.form, stream, want)
						}
					})
				}
			}
			wg.Wait()
			if strings.Contains(g.Log.String(), "panic") {
				t.Errorf("a handler panicked:\n%s", g.Log)
			}
		})
	}
}

// meet sends one request and checks what its client and the log see.
func meet(t *testing.T, g *gatewaytest.Gateway, client clientFormat, target, fault, form string, stream bool, want outcome) {
	name := fmt.Sprintf("%s to %s, stream=%t", client.name, target, stream)
	model := fmt.Sprintf("sim-%s-%s-%t+%s", client.name, target, stream, form)
	res := client.send(t, g, "@"+target, model, stream)
	h := client.readResponse(t, res)
	if want.status >= 400 {
		want.end = "error body"
	}
	if res.Err != nil || res.Status != want.status || h.end != want.end {
		t.Errorf("%s: got %d, end %s, %v; want %d, end %s: %.300s", name, res.Status, h.end, res.Err, want.status, want.end, res.Body)
		return
	}
	if want.source == nil && !slices.Contains(wordless, fault) && !strings.HasPrefix(h.text, "echo: hello") {
		t.Errorf("%s: the text is %.100q", name, h.text)
	}
	if want.end == "error body" && h.message == "" {
		t.Errorf("%s: no message: %s", name, res.Body)
	}
	e := g.Entry(res)
	failure, _ := e["error"].(map[string]any)
	if e["status"] != float64(want.status) || failure["source"] != want.source || failure["code"] != want.code || e["provider_slug"] != target {
		t.Errorf("%s: recorded %v by %v, error %v; want %d by %s, %v %v", name, e["status"], e["provider_slug"], failure, want.status, target, want.source, want.code)
	}
	if got := e["usage"] != nil; got != want.usage && (want.usage || e["usage_estimated"] != true) {
		t.Errorf("%s: usage recorded = %t, want %t", name, got, want.usage)
	}
	model = strings.ReplaceAll(model, "%2B", map[bool]string{true: "+", false: "%2B"}[target == "converse"]) // which unescapes names
	if n := g.Sim.Calls(model); n != 1 || len(e["attempts"].([]any)) != 1 {
		t.Errorf("%s: the provider was called %d times, recorded attempts %v, want one", name, n, e["attempts"])
	}
	if after := res.Header.Get("Retry-After"); fault == "429" && after != "2" {
		t.Errorf("%s: Retry-After = %q, want 2", name, after)
	}
}
