package dataplane_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

// predictions is a provider of predictions.
type predictions struct {
	cancelled chan struct{}

	mu     sync.Mutex
	script          // guarded by mu, as is all below
	asked  []string // method and path of each request
	auth   []string
	body   string // of the prediction that was made
}

// script is how a prediction goes.
type script struct {
	polls  int    // questions until it has ended
	end    string // how it ends, as JSON members
	stream bool   // it has events
	events string
	hold   bool   // nothing ends
	host   string // of the events, where it is not the provider's own
}

func (p *predictions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p.mu.Lock()
	p.asked = append(p.asked, r.Method+" "+r.URL.Path)
	p.auth = append(p.auth, r.Header.Get("Authorization")+" "+r.Header.Get("Prefer"))
	w.Header().Set("Content-Type", "application/json")
	state := `"status":"processing","urls":{}`
	if p.stream {
		state = `"status":"starting","urls":{"stream":"http://` + cmp.Or(p.host, r.Host) + `/events"}`
	}
	hold := false
	switch {
	case strings.HasSuffix(r.URL.Path, "/cancel"):
		close(p.cancelled)
	case r.URL.Path == "/events":
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, p.events)
		p.mu.Unlock()
		w.(http.Flusher).Flush()
		if p.hold {
			<-r.Context().Done()
		}
		return
	case r.Method == http.MethodPost:
		p.body = string(body)
		w.WriteHeader(http.StatusCreated)
	default:
		p.polls--
		hold = p.hold
	}
	if p.polls <= 0 {
		state = p.end
	}
	p.mu.Unlock()
	if !hold {
		fmt.Fprintf(w, `{"id":"p1",%s}`, state)
		return
	}
	<-r.Context().Done()
}

const succeeded = `"status":"succeeded","output":["echo:"," hello"],"metrics":{"input_token_count":3,"output_token_count":4}`

func newPredictions(t *testing.T, p *predictions) *gatewaytest.Gateway {
	t.Helper()
	p.cancelled = make(chan struct{})
	return gatewaytest.New(t, gatewaytest.Options{Upstream: p, Settings: pairSettings + `
  - {slug: replicate, provider: replicate, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
`})
}

const events = "event: output\ndata: echo:\n\nevent: output\ndata: { hello\n\nevent: done\ndata: {}\n\n"

func TestPredictionsAnswerEveryProtocol(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		script script
		stream bool
		text   string
		asked  int
	}{
		{"at once", script{end: succeeded}, false, "echo: hello", 1},
		{"after a while", script{polls: 2, end: succeeded}, false, "echo: hello", 3},
		{"after a while, for who streams", script{polls: 1, end: succeeded}, true, "echo: hello", 2},
		{"as events", script{polls: 1, end: succeeded, stream: true, events: events}, true, "echo:{ hello", 3},
		{"with events at a host that is not the provider's", script{polls: 1, end: succeeded, stream: true, events: events, host: "api.example.com"}, true, "echo: hello", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, client := range clientFormats {
				if tt.script.polls > 0 && !tt.script.stream && client.name != "chat" {
					continue // asking again takes time
				}
				p := &predictions{script: tt.script}
				g := newPredictions(t, p)
				res := client.send(t, g, "@replicate", "meta/llama", tt.stream)
				h := client.readResponse(t, res)
				if h.end != map[bool]string{true: "done", false: "complete"}[tt.stream] || h.text != tt.text {
					t.Errorf("%s: end %s, text %q: %.300s", client.name, h.end, h.text, res.Body)
				}
				if len(p.asked) != tt.asked || !strings.HasSuffix(p.asked[0], "/models/meta/llama/predictions") || !strings.HasPrefix(p.body, `{"input":{"prompt":"hello"`) {
					t.Errorf("%s: asked %v: %s", client.name, p.asked, p.body)
				}
				if want := "Bearer " + gatewaytest.SimulatorKey + " " + map[bool]string{false: "wait=30"}[tt.stream]; p.auth[0] != want || p.asked[len(p.asked)-1] != "GET /events" && len(p.asked) > 3 {
					t.Errorf("%s: credential %q, want %q", client.name, p.auth[0], want)
				}
				for i, path := range p.asked {
					if path == "GET /events" && p.auth[i] != " " {
						t.Errorf("%s: the events were asked for with %q", client.name, p.auth[i])
					}
				}
				if e := g.Entry(res); at(e, "usage.prompt_tokens") != 3.0 || at(e, "usage.completion_tokens") != 4.0 {
					t.Errorf("%s: recorded %v", client.name, e["usage"])
				}
			}
		})
	}
}

func TestAPredictionThatFailsIsAnError(t *testing.T) {
	t.Parallel()
	for end, words := range map[string]string{`"status":"failed","error":"out of memory"`: "out of memory", `"status":"canceled"`: "canceled", `"status":"x"} {`: "whole JSON"} {
		p := &predictions{script: script{polls: 1, end: end}}
		g := newPredictions(t, p)
		res := clientFormats[0].send(t, g, "@replicate", "meta/llama", false)
		if h := clientFormats[0].readResponse(t, res); res.Status != 502 || !strings.Contains(h.message, words) {
			t.Errorf("%s: status %d: %s", end, res.Status, res.Body)
		}
	}
	p := &predictions{script: script{polls: 9, end: succeeded, stream: true, events: "event: output\ndata: a\n\nevent: error\ndata: broke\n\n"}}
	res := clientFormats[0].send(t, newPredictions(t, p), "@replicate", "meta/llama", true)
	if h := clientFormats[0].readResponse(t, res); h.end != "error" || h.text != "a" || !strings.Contains(h.message, "broke") {
		t.Errorf("an error among the events: %+v: %s", h, res.Body)
	}
}

func TestAPredictionIsCancelledWhenTheClientLeaves(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		script script
		stream bool
	}{
		{"while it is asked for", script{polls: 99, hold: true}, false},
		{"while its events come", script{polls: 99, stream: true, hold: true, events: "event: output\ndata: a\n\n"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &predictions{script: tt.script}
			g := newPredictions(t, p)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			heads := begin(t, clientFormats[0].ask(t, g, "x-gateway-provider", "@replicate", "meta/llama", tt.stream).WithContext(ctx))
			if tt.stream {
				io.ReadFull(receive(t, heads, "the head").Body, make([]byte, 4))
			} else {
				waittest.Until(t, "the state was asked for", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return len(p.asked) > 1 })
			}
			cancel()
			receive(t, p.cancelled, "the cancellation")
		})
	}
}

func TestImagesOfPredictionsAreAddresses(t *testing.T) {
	t.Parallel()
	p := &predictions{script: script{polls: 1, end: `"status":"succeeded","output":["https://a.example/1.png"]`}}
	g := newPredictions(t, p)
	res := g.Post("/images/generations", `{"model":"black-forest-labs/flux-schnell","prompt":"a cat","n":1}`, "x-gateway-provider", "@replicate")
	if res.Status != 200 || at(res.JSON(t), "data.0.url") != "https://a.example/1.png" || !strings.HasSuffix(p.asked[0], "/models/black-forest-labs/flux-schnell/predictions") {
		t.Errorf("status %d, asked %v: %s", res.Status, p.asked, res.Body)
	}
}
