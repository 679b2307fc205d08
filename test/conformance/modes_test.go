package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/waittest"
)

// after answers with then once d has passed.
func after(d time.Duration, then behaviour) behaviour {
	return func(w http.ResponseWriter, r *http.Request, in received) {
		<-time.After(d)
		then(w, r, in)
	}
}

func TestTheQuickerTargetIsPreferred(t *testing.T) {
	g, _ := start(t)
	const latency = `"mode":"latency"`
	const slowness = 400 * time.Millisecond
	for _, tt := range []struct {
		name, slower, quicker string // further members of the targets
	}{
		{"the quicker one", `"name":"slow"`, `"name":"quick"`},
		{"whatever their weights", `"weight":1`, `"weight":0`},
	} {
		prove(t, "M-166", tt.name, func(t *testing.T) {
			const n = 12
			slow, quick := newProvider(t, after(slowness, canned)), newProvider(t, nil)
			for range n {
				g.ask(t, tree(latency, leaf(slow, tt.slower), leaf(quick, tt.quicker))).wantOK(t)
			}
			if slow.hits() < 1 || slow.hits() > 2 || slow.hits()+quick.hits() != n {
				t.Errorf("the slow target got %d and the quick one %d of %d, want one to measure the slow one", slow.hits(), quick.hits(), n)
			}
		})
	}
	prove(t, "M-166", "a quick failure is not speed", func(t *testing.T) {
		const n = 6
		failing, slow := newProvider(t, withStatuses(500)), newProvider(t, after(slowness, canned))
		for range n {
			g.ask(t, tree(latency, leaf(failing), leaf(slow)))
		}
		if failing.hits() < 1 || failing.hits() > 2 {
			t.Errorf("the failing target got %d of %d, want one", failing.hits(), n)
		}
	})
	prove(t, "M-166", "every target is measured", func(t *testing.T) {
		p := fleet(t, nil, nil, nil)
		for range 60 { // a target that is not among the first five is drawn by two thirds of the others
			g.ask(t, tree(latency, leaf(p[0]), leaf(p[1]), leaf(p[2]))).wantOK(t)
		}
		for i := range p {
			if p[i].hits() == 0 {
				t.Errorf("target %d was never called", i)
			}
		}
	})
	prove(t, "M-166", "the one with fewer requests in progress", func(t *testing.T) {
		for range 8 { // each is drawn first in half of the cases
			release, left := newSignal(), newSignal()
			asked := make(chan struct{}, 2)
			say := func(w http.ResponseWriter, r *http.Request, in received) {
				asked <- struct{}{}
				held(newSignal(), release, left, canned)(w, r, in)
			}
			p := fleet(t, say, say)
			config := tree(latency, leaf(p[0]), leaf(p[1]))
			done := make(chan struct{}, 2)
			for range 2 {
				go func() { g.ask(t, config); done <- struct{}{} }()
				waittest.Receive(t, asked, "the request at the provider")
			}
			release.set()
			waittest.Receive(t, done, "the first response")
			waittest.Receive(t, done, "the second response")
			called(t, []int{1, 1}, p...)
		}
	})
	prove(t, "M-166", "its failure is the response", func(t *testing.T) {
		p := fleet(t, withStatuses(500), withStatuses(500))
		if got := g.ask(t, tree(latency, leaf(p[0]), leaf(p[1]))); got.status != 500 || p[0].hits()+p[1].hits() != 1 {
			t.Errorf("status %d after %d calls, want 500 after one", got.status, p[0].hits()+p[1].hits())
		}
	})
}

func TestTheCheaperTargetIsPreferred(t *testing.T) {
	g := launchFor(t, `version: 1
prices:
  - {provider: openai-compatible, model: cheap, input: 1, output: 1}
  - {provider: openai-compatible, model: fair, input: 1.5, output: 1.5}
  - {provider: openai-compatible, model: dear, input: 2, output: 2}
  - {provider: openai-compatible, model: dear-output, input: 1, output: 10}
  - {provider: openai-compatible, model: dear-input, input: 10, output: 1}
  - {provider: anthropic, model: cheapest, input: 0.1, output: 0.1}
`, "MODELGATE_TRUSTED_HOSTS=127.0.0.1")
	const long = 9000 // bytes: more tokens of input than the 500 of output
	for _, tt := range []struct {
		name, models, member string
		bytes                int
		want                 int
	}{
		{"the first", "cheap dear", ``, 0, 0},
		{"the last", "dear dear cheap", ``, 0, 2},
		{"in the middle", "dear cheap dear", ``, 0, 1},
		{"of equal ones the first", "dear dear", ``, 0, 0},
		{"one without a price comes last", "unknown dear", ``, 0, 1},
		{"the first if none has a price", "unknown unknown", ``, 0, 0},
		{"500 tokens of output without a limit", "dear-output dear-input", ``, 0, 1},
		{"much input", "dear-input dear-output", ``, long, 1},
		{"a low limit of output", "dear-input dear-output", `"max_tokens":1,`, 0, 1},
		{"a high limit of output", "dear-output dear-input", `"max_completion_tokens":5000,`, long, 1},
	} {
		prove(t, "M-167", tt.name, func(t *testing.T) {
			var p []*provider
			var targets []string
			want := make([]int, len(strings.Fields(tt.models)))
			want[tt.want] = 1
			for model := range strings.FieldsSeq(tt.models) {
				p = append(p, newProvider(t, nil))
				targets = append(targets, leaf(p[len(p)-1], `"override_params":{"model":"`+model+`"}`))
			}
			body := fmt.Sprintf(`{"model":"m",%s"messages":[{"role":"user","content":"%s"}]}`, tt.member, strings.Repeat("u", tt.bytes))
			g.do(t, "POST", modelRoutes[0].path, body, "x-gateway-api-key", bootstrapKey, "x-gateway-config", tree(`"mode":"cost"`, targets...)).wantOK(t)
			called(t, want, p...)
		})
	}
	prove(t, "M-167", "the cheapest of a nested config counts", func(t *testing.T) {
		p := fleet(t, nil, nil, nil)
		target := func(i int, model string) string { return leaf(p[i], `"override_params":{"model":"`+model+`"}`) }
		g.ask(t, tree(`"mode":"cost"`, target(0, "fair"), tree(`"mode":"fallback"`, target(1, "cheap"), target(2, "dear"))))
		called(t, []int{0, 1, 0}, p...)
	})
	prove(t, "M-167", "embeddings have no output", func(t *testing.T) {
		p := fleet(t, nil, nil)
		config := tree(`"mode":"cost"`, leaf(p[0], `"override_params":{"model":"dear-input"}`), leaf(p[1], `"override_params":{"model":"dear-output"}`))
		g.do(t, "POST", modelRoutes[2].path, modelRoutes[2].body, "x-gateway-api-key", bootstrapKey, "x-gateway-config", config).wantOK(t)
		called(t, []int{0, 1}, p...)
	})
	prove(t, "M-167", "not one that does not offer the operation", func(t *testing.T) {
		p := fleet(t, nil, nil)
		cheapest := node(`"provider":"anthropic"`, `"api_key":"`+credential+`"`, `"custom_host":"`+p[0].url+`"`, `"override_params":{"model":"cheapest"}`)
		config := tree(`"mode":"cost"`, cheapest, leaf(p[1], `"override_params":{"model":"dear"}`))
		g.do(t, "POST", modelRoutes[2].path, modelRoutes[2].body, "x-gateway-api-key", bootstrapKey, "x-gateway-config", config).wantOK(t)
		called(t, []int{0, 1}, p...)
		g.ask(t, config)
		called(t, []int{1, 1}, p...)
	})
	prove(t, "M-167", "its failure is the response", func(t *testing.T) {
		p := fleet(t, withStatuses(500), nil)
		config := tree(`"mode":"cost"`, leaf(p[0], `"override_params":{"model":"cheap"}`), leaf(p[1], `"override_params":{"model":"dear"}`))
		if got := g.ask(t, config); got.status != 500 {
			t.Errorf("status %d, want that of the cheaper target", got.status)
		}
		called(t, []int{1, 0}, p...)
	})
}
