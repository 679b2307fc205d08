package dataplane_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// cutAt returns a function that cuts a text at random places.
func cutAt(seed uint64) func(string) []string {
	return func(text string) (list []string) {
		r := rand.New(rand.NewPCG(seed, 0))
		for text != "" {
			n := min(1+r.IntN(9), len(text))
			list, text = append(list, text[:n]), text[n:]
		}
		return list
	}
}

const planted = "PLANTED-4711-SECRET"

const denyPlantedInWindows = `{"deny":true,"default.regexMatch":{"rule":"PLANTED-[0-9]{4}-SECRET","not":true}}`

// guardsAgainstPlanted are output guardrails that keep the planted text from
// clients: what they do, and what is left of the text around it.
var guardsAgainstPlanted = []struct{ name, config, want string }{
	{"redacted in windows", `{"deny":true,"default.regexReplace":{"rule":"PLANTED-[0-9]{4}-SECRET","redactText":"[gone]"}}`, "before it [gone] and after it"},
	{"redacted with the stream held", `{"deny":true,"stream":"hold","default.regexReplace":{"rule":"PLANTED-[0-9]{4}-SECRET","redactText":"[gone]"}}`, "before it [gone] and after it"},
	{"denied in windows", denyPlantedInWindows, ""},
	{"denied with the stream held", `{"deny":true,"stream":"hold","default.contains":{"words":["` + planted + `"],"operator":"none"}}`, ""},
}

// A planted text must not reach a client in any dialect, however the provider cuts
// the stream.
func TestPlantedTextNeverPassesAStream(t *testing.T) {
	t.Parallel()
	p := &textProvider{texts: []string{"before it " + planted + " and after it"}}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p})
	for seed := range uint64(12) {
		p.pieces = cutAt(seed)
		for _, guard := range guardsAgainstPlanted {
			for _, client := range clientFormats {
				res := g.Do(client.ask(t, g, "x-gateway-config", guarded(`"output_guardrails":[`+guard.config+`]`), "m", true))
				where := fmt.Sprintf("%s, %s, cut %d", guard.name, client.name, seed)
				h := client.readResponse(t, res)
				for n := 8; n <= len(planted); n++ { // nor any long beginning of it
					if strings.Contains(h.text+string(res.Body), planted[:n]) {
						t.Fatalf("%s: the client got %q in %.2000q", where, planted[:n], res.Body)
					}
				}
				if guard.want != "" && (res.Status != 200 || h.text != guard.want || h.end != "done") {
					t.Errorf("%s: status %d, text %q, end %s; want 200, %q, done", where, res.Status, h.text, h.end, guard.want)
				}
				if guard.want == "" && !(res.Status == 446 && h.end == "error body") && !(h.end == "error" && strings.Contains(h.message, "default.")) {
					t.Errorf("%s: status %d, end %s with %q; want a denial that names the check", where, res.Status, h.end, h.message)
				}
			}
		}
	}
}

// Text that can't begin a match passes at once.
func TestSafeTextIsNotHeldBack(t *testing.T) {
	t.Parallel()
	up := newScripted(t)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: up})
	req := clientFormats[0].ask(t, g, "x-gateway-config", guarded(`"output_guardrails":[{"deny":true,"default.contains":{"words":["secret"],"operator":"none"}}]`), "m", true)
	go up.respond(func(c *call) {
		c.events()
		c.send(chunk("Hello"))
		<-c.Context().Done()
	})
	_, body := open(t, req)
	if e := event(t, body); !strings.Contains(e, "Hello") { // nothing follows it
		t.Errorf("first event = %q", e)
	}
}

func TestPlantedTextNeverPassesThrough(t *testing.T) {
	t.Parallel()
	p := &textProvider{texts: []string{"before it " + planted + " and after it"}}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p})
	for _, guard := range guardsAgainstPlanted {
		for seed := range uint64(6) {
			p.pieces = cutAt(seed)
			for _, stream := range []bool{false, true} {
				res := g.Post("/some/other/path", fmt.Sprintf(`{"model":"m","stream":%t,"question":"hi"}`, stream), "x-gateway-provider", "", "x-gateway-config", guarded(`"output_guardrails":[`+guard.config+`]`))
				var text string
				if stream {
					text = clientFormats[0].stop(t, sseData(res.Body)).text
				}
				if strings.Contains(text+string(res.Body), planted[:10]) {
					t.Fatalf("%s, cut %d: status %d, %q", guard.name, seed, res.Status, res.Body)
				}
				if guard.want != "" && !strings.Contains(text+string(res.Body), "[gone]") {
					t.Errorf("%s, cut %d: status %d, %q", guard.name, seed, res.Status, res.Body)
				}
			}
		}
	}
}

func TestRedactedRequestReachesTheProviderWithoutTheText(t *testing.T) {
	t.Parallel()
	p := &textProvider{texts: []string{"fine"}}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p})
	config := guarded(`"input_guardrails":[{"default.regexReplace":{"rule":"hello","redactText":"[gone]"}}]`)
	for _, client := range clientFormats {
		res := g.Do(client.ask(t, g, "x-gateway-config", config, "m", false))
		if sent := *p.last.Load(); res.Status != 200 || strings.Contains(sent, "hello") || !strings.Contains(sent, "[gone]") {
			t.Errorf("%s: status %d, the provider got %s", client.name, res.Status, sent)
		}
	}
}

// The text that is kept of a stream for its checks is bounded: a longer one is denied
// by guardrails that act, and passes those that observe, which the log says.
func TestStreamsThatAreTooLongToBeChecked(t *testing.T) {
	t.Parallel()
	endless := &textProvider{texts: []string{strings.Repeat("word ", 2<<20)}, pieces: func(s string) (list []string) {
		for ; s != ""; s = s[min(len(s), 64<<10):] {
			list = append(list, s[:min(len(s), 64<<10)])
		}
		return list
	}}
	choices := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for n := range 12_000 { // each a text of its own
			fmt.Fprintf(w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{\"index\":%d,\"delta\":{\"content\":\"word \"}}]}\n\n", n)
		}
		fmt.Fprint(w, finish+done)
	})
	for name, upstream := range map[string]http.Handler{"a long text": endless, "many texts": choices} {
		g := gatewaytest.New(t, gatewaytest.Options{Upstream: upstream})
		for mode, acts := range map[string]bool{"window": true, "hold": true, "observe": false} {
			config := guarded(`"output_guardrails":[{"deny":true,"stream":"` + mode + `","default.contains":{"words":["secret"],"operator":"none"}}]`)
			res := g.Do(clientFormats[0].ask(t, g, "x-gateway-config", config, "m", true))
			body := string(res.Body)
			denied := strings.Contains(body, "response_unchecked") && !strings.Contains(body, "[DONE]")
			if passed := res.Status == 200 && strings.Contains(body, "[DONE]"); passed == acts || denied != acts {
				t.Errorf("%s, %s: status %d, passed %t, denied %t: …%.300s", name, mode, res.Status, passed, denied, body[max(len(body)-300, 0):])
			}
			if entry := entryOf(t, g, res.Header.Get("x-gateway-trace-id")); !acts && at(entry, "unchecked.0") != "text beyond 8 MB" {
				t.Errorf("%s, %s: unchecked is %v", name, mode, entry["unchecked"])
			}
		}
	}
}

// TestRedactedTextDoesNotReturnInTheHistory sends a second turn, in which the client
// repeats the text that the first turn was redacted of.
func TestRedactedTextDoesNotReturnInTheHistory(t *testing.T) {
	t.Parallel()
	p := &textProvider{texts: []string{"fine"}}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p})
	const turns = `{"role":"user","content":"hello one"},{"role":"assistant","content":"said hello"},{"role":"user","content":"two"}`
	for _, tt := range []struct{ path, body string }{
		{"/chat/completions", `{"model":"m","messages":[{"role":"system","content":"say hello first"},` + turns + `]}`},
		{"/messages", `{"model":"m","max_tokens":9,"system":"say hello first","messages":[` + turns + `]}`},
		{"/responses", `{"model":"m","instructions":"say hello first","input":[` + turns + `]}`},
	} {
		for params, want := range map[string]int{``: 1, `,"scope":"all"`: 0, `,"scope":"last"`: 3, `,"failOnDetection":true`: 3} {
			config := guarded(`"input_guardrails":[{"default.regexReplace":{"rule":"hello","redactText":"[gone]"` + params + `}}]`)
			res := g.Post(tt.path, tt.body, "x-gateway-provider", "", "x-gateway-config", config)
			if sent := *p.last.Load(); res.Status != 200 || strings.Count(sent, "hello") != want || !strings.Contains(sent, "two") {
				t.Errorf("%s with %q: status %d, want the word %d times: %s", tt.path, params, res.Status, want, sent)
			}
		}
		config := guarded(`"input_guardrails":[{"deny":true,"default.contains":{"words":["hello"],"operator":"none"}}]`)
		if res := g.Post(tt.path, tt.body, "x-gateway-provider", "", "x-gateway-config", config); res.Status != 200 {
			t.Errorf("%s: a check that changes nothing reads the history: status %d", tt.path, res.Status)
		}
	}
}
