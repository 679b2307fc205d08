package dataplane_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// polled is a provider of a prediction that is done once each of these answers was
// given to a question for its state.
type polled struct {
	mu        sync.Mutex
	responses []polledResponse // guarded by mu, as is all below
	asked     int
	ended     []string // cancellations
	refuses   bool     // breaks the connection of a cancellation
}

type polledResponse struct {
	status int
	body   string
}

func (p *polled) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	p.mu.Lock()
	defer p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case strings.HasSuffix(r.URL.Path, "/cancel"):
		p.ended = append(p.ended, r.URL.Path)
		if p.refuses {
			panic(http.ErrAbortHandler)
		}
	case r.Method == http.MethodPost:
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, `{"id":"p1","status":"starting","urls":{}}`)
	default:
		a := p.responses[min(p.asked, len(p.responses)-1)]
		p.asked++
		w.WriteHeader(a.status)
		io.WriteString(w, a.body)
	}
}

func newPolled(t *testing.T, p *polled) *gatewaytest.Gateway {
	t.Helper()
	return gatewaytest.New(t, gatewaytest.Options{Upstream: p, Settings: pairSettings + `
  - {slug: replicate, provider: replicate, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
`})
}

// A question that the provider can't answer now is asked again; what will not change
// ends the prediction, which nobody pays for longer then.
func TestAPredictionIsPolledUntilItIsFinal(t *testing.T) {
	t.Parallel()
	good := polledResponse{status: 200, body: `{"id":"p1",` + succeeded + `}`}
	working := polledResponse{status: 200, body: `{"id":"p1","status":"processing","urls":{}}`}
	for _, tt := range []struct {
		name   string
		first  polledResponse
		status int
		asked  int
		words  string
	}{
		{"still working", working, 200, 2, ""},
		{"too many requests", polledResponse{status: 429, body: "{}"}, 200, 2, ""},
		{"an error of the provider", polledResponse{status: 500, body: "{}"}, 200, 2, ""},
		{"an overload", polledResponse{status: 503, body: "{}"}, 200, 2, ""},
		{"an unknown prediction", polledResponse{status: 404, body: "{}"}, 502, 1, "404"},
		{"a status below those of the provider's errors", polledResponse{status: 499, body: "{}"}, 502, 1, "499"},
		{"no content", polledResponse{status: 202, body: "{}"}, 502, 1, "202"},
		{"no prediction", polledResponse{status: 200, body: `[]`}, 502, 1, "not a job"},
		{"a part of a prediction", polledResponse{status: 200, body: `{"id":"p1","status":"proc`}, 502, 1, "whole JSON"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := &polled{responses: []polledResponse{tt.first, good}}
			res := clientFormats[0].send(t, newPolled(t, p), "@replicate", "meta/llama", false)
			p.mu.Lock()
			defer p.mu.Unlock()
			if res.Status != tt.status || !strings.Contains(string(res.Body), tt.words) {
				t.Errorf("status %d, want %d with %q: %s", res.Status, tt.status, tt.words, res.Body)
			}
			if ended := len(p.ended) == 1; ended != (tt.status != 200) || tt.asked > 1 && p.asked != tt.asked {
				t.Errorf("asked %d times, ended by %q; want %d times, ended: %t", p.asked, p.ended, tt.asked, tt.status != 200)
			}
		})
	}
}

// A provider that does not listen to the end of a prediction changes nothing.
func TestAPredictionMayNotBeCancelled(t *testing.T) {
	t.Parallel()
	p := &polled{responses: []polledResponse{{status: 404, body: "{}"}}, refuses: true}
	g := newPolled(t, p)
	res := clientFormats[0].send(t, g, "@replicate", "meta/llama", false)
	if res.Status != 502 || strings.Contains(g.Log.String(), "panic") {
		t.Errorf("status %d, want 502 and no panic: %s\n%s", res.Status, res.Body, g.Log)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.ended) == 0 {
		t.Error("the prediction was not ended")
	}
}

// The events of a prediction are read from where it says, unless that fails.
func TestAPredictionsEventsMustBeEvents(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, kind string
		status     int
		body       string
		want       int
	}{
		{"events", "text/event-stream", 200, events, 200},
		{"another status", "text/event-stream", 404, events, 502},
		{"another type", "application/json", 200, "{}", 502},
		{"nothing", "text/event-stream", 200, "", 502},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cancelled := make(chan struct{}, 4)
			g := gatewaytest.New(t, gatewaytest.Options{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "application/json")
				switch {
				case strings.HasSuffix(r.URL.Path, "/cancel"):
					cancelled <- struct{}{}
				case r.URL.Path == "/events":
					w.Header().Set("Content-Type", tt.kind)
					w.WriteHeader(tt.status)
					io.WriteString(w, tt.body)
				case r.Method == http.MethodPost:
					fmt.Fprintf(w, `{"id":"p1","status":"starting","urls":{"stream":"http://%s/events"}}`, r.Host)
				default:
					io.WriteString(w, `{"id":"p1",`+succeeded+`}`)
				}
			}), Settings: pairSettings + "\n  - {slug: replicate, provider: replicate, custom_host: SIMULATOR, api_key: \"${PAIR_KEY}\"}\n"})
			res := clientFormats[0].send(t, g, "@replicate", "meta/llama", true)
			if res.Status != tt.want {
				t.Errorf("status %d, want %d: %s", res.Status, tt.want, res.Body)
			}
			if h := clientFormats[0].readResponse(t, res); tt.want == 200 && (h.end != "done" || h.text != "echo:{ hello" || len(cancelled) > 0) {
				t.Errorf("end %s, text %q, %d cancellations; want the whole text and none: %s", h.end, h.text, len(cancelled), res.Body)
			}
			if tt.want == 502 {
				receive(t, cancelled, "the end of the prediction")
			}
		})
	}
}
