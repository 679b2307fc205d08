package dataplane_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/recorder"
)

// resumeConfig falls back to a second target, also in the middle of a stream.
func resumeConfig(first, second string) string {
	return oneLine(fmt.Sprintf(`{"strategy":{"mode":"fallback"},"stream_continuation":true,"targets":[
		{"provider":"@simulator","override_params":{"model":%q}},
		{"provider":"@simulator","override_params":{"model":%q}}]}`, first, second))
}

// streamText returns the text of a stream's deltas, read by plain means.
func streamText(body string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(body, "\n") {
		_, rest, ok := strings.Cut(line, `"delta":{`)
		if !ok {
			continue
		}
		if _, rest, ok = strings.Cut(rest, `"content":"`); ok {
			text, _, _ := strings.Cut(rest, `"`)
			b.WriteString(text)
		}
	}
	return b.String()
}

func TestABrokenStreamGoesOnWithTheNextTarget(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Simulator: recorder.Options{Record: 10}})
	for _, fault := range []string{"cut=6", "cut=6,clean", "error-event=6"} {
		t.Run(fault, func(t *testing.T) {
			g.Sim.Reset()
			res := g.Post("/chat/completions", fmt.Sprintf(hello, true), "x-gateway-provider", "",
				"x-gateway-config", resumeConfig("sim-1+"+fault, "sim-2+tokens=40"))
			body := string(res.Body)
			if res.Status != 200 || !strings.HasSuffix(body, "data: [DONE]\n\n") {
				t.Fatalf("status %d, the stream ends with %q", res.Status, body[max(0, len(body)-120):])
			}
			if !strings.Contains(body, ": continued by config.targets[1]\n\n") || strings.Contains(body, `"error"`) {
				t.Errorf("no marker, or an error, in:\n%s", body)
			}
			said, rest, _ := strings.Cut(body, ": continued by")
			first := streamText(said)
			if first == "" || !strings.Contains(streamText(rest), "echo: Your answer above was cut off") {
				t.Errorf("text %q then %q, want the second target's continuation", first, streamText(rest))
			}
			if err := g.Sim.Wait(t.Context(), 2); err != nil {
				t.Fatal(err)
			}
			var asked strings.Builder // recorded as requests end, which the first may do last
			for _, r := range g.Sim.Requests() {
				if body := string(r.Body); strings.Contains(body, `"sim-2+tokens=40"`) {
					asked.WriteString(body)
				}
			}
			if strings.Count(asked.String(), `"model"`) != 1 || !strings.Contains(asked.String(), `{"role":"assistant","content":"`+first+`"},{"role":"user"`) {
				t.Errorf("the second target was asked %s", asked.String())
			}
			e := g.Entry(res)
			if n := len(e["attempts"].([]any)); n != 2 || e["option_index"] != "config.targets[1]" || !strings.Contains(fmt.Sprint(e["decisions"]), "continues the stream") {
				t.Errorf("recorded: attempts %v, by %v, decisions %v", e["attempts"], e["option_index"], e["decisions"])
			}
		})
	}
}

func TestAStreamIsNotContinued(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{})
	tools := `{"model":"m","stream":true,"messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"string"}}}}}]}`
	for _, tt := range []struct{ name, body, config string }{
		{"inside a tool call", tools, resumeConfig("sim-1+cut=4", "sim-2")},
		{"with several choices", strings.Replace(fmt.Sprintf(hello, true), `"stream"`, `"n":2,"stream"`, 1), resumeConfig("sim-1+cut=8", "sim-2")},
		{"unless the config asks", fmt.Sprintf(hello, true), strings.Replace(resumeConfig("sim-1+cut=6", "sim-2"), `"stream_continuation":true`, `"stream_continuation":false`, 1)},
		{"when nobody is left", fmt.Sprintf(hello, true), resumeConfig("sim-1+cut=6", "sim-2+cut=3")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := g.Post("/chat/completions", tt.body, "x-gateway-provider", "", "x-gateway-config", tt.config)
			body := string(res.Body)
			if res.Status != 200 || strings.Contains(body, "[DONE]") || !strings.Contains(body, `"error"`) {
				t.Errorf("status %d, want a stream that ends in an error:\n%s", res.Status, body)
			}
		})
	}
}

// A model that repeats the end of what was sent must not appear twice.
func TestAContinuationRepeatsNothing(t *testing.T) {
	t.Parallel()
	calls := 0
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		calls++
		words := []string{"The quick brown ", "fox jumps ", "over"}
		if calls == 2 {
			words = []string{"fox jum", "ps over the la", "zy dog"}
		}
		for _, word := range words {
			fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%s\"},\"finish_reason\":null}]}\n\n", word)
		}
		http.NewResponseController(w).Flush()
		if calls == 1 {
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	})})
	res := g.Post("/chat/completions", fmt.Sprintf(hello, true), "x-gateway-provider", "", "x-gateway-config", resumeConfig("a", "b"))
	if got, want := streamText(string(res.Body)), "The quick brown fox jumps over the lazy dog"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
}
