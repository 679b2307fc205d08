package dataplane_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"modelgate/internal/format/eventstream"
	"modelgate/internal/testing/gatewaytest"
)

// pausing is a provider that begins its response and then waits.
type pausing struct {
	header, body string // body is empty if it sends nothing at all
	calls        atomic.Int64
}

func (p *pausing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	p.calls.Add(1)
	if p.body != "" {
		w.Header().Set("Content-Type", p.header)
		io.WriteString(w, p.body)
		http.NewResponseController(w).Flush()
	}
	<-r.Context().Done()
}

func TestRequestTimeoutEndsStreamsOfEveryDialect(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"chat", "messages", "responses", "gemini", "converse"} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			b := newBudgeted(t)
			begun := endlessText(target)
			p := &pausing{header: "text/event-stream", body: begun.start + begun.event}
			if begun.binary {
				p.header = eventstream.ContentType
			}
			b.u.set(p)
			for _, client := range clientFormats {
				inTime(t, func(limit time.Duration) bool {
					req := client.ask(t, b.Gateway, "x-gateway-provider", "@"+target, "m", true)
					req.Header.Set("x-gateway-request-timeout", fmt.Sprint(limit.Milliseconds()))
					res := b.Do(req)
					if res.Status == http.StatusRequestTimeout {
						return false // not even the first event was in time
					}
					got := client.readResponse(t, res)
					if got.end != "error" || got.text != eventText {
						t.Errorf("%s client: %+v; want the text so far and an error", client.name, got)
					}
					recorded(t, b.Entry(res), map[string]any{"status": 200, "error.code": "timeout", "error.source": "gateway"})
					return true
				})
			}
		})
	}
}

// The sum of what two targets and a retry may take exceeds the deadline, what each may
// take does not.
func TestRequestTimeoutIncludesRetriesAndFallbacks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, config string
		calls        int64
	}{
		{"fallback", `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@simulator"},{"provider":"@simulator"}]}`, 1},
		{"retry", `{"provider":"@simulator","retry":{"attempts":3,"on_status_codes":[408]}}`, 1},
		{"fallback from attempts with a timeout", `{"request_timeout":1,"strategy":{"mode":"fallback"},"targets":[{"provider":"@simulator"},{"provider":"@simulator"}]}`, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := new(pausing)
			g := gatewaytest.New(t, gatewaytest.Options{Upstream: p})
			for _, body := range []string{plainChat, streamChat} {
				p.calls.Store(0)
				began := time.Now()
				res := g.Post("/chat/completions", body, "x-gateway-provider", "", "x-gateway-config", tt.config, "x-gateway-request-timeout", "400")
				took := time.Since(began)
				e := errorOf(t, string(res.Body))
				if res.Status != http.StatusRequestTimeout || e["code"] != "timeout" || !strings.Contains(e["message"].(string), "400 ms") {
					t.Errorf("%d %s; want 408 that names the limit", res.Status, res.Body)
				}
				if n := p.calls.Load(); n != tt.calls || took < 400*time.Millisecond {
					t.Errorf("%d calls in %v, want %d in 400 ms", n, took, tt.calls)
				}
			}
		})
	}
}

func TestRequestTimeoutBreaksPassThroughOff(t *testing.T) {
	t.Parallel()
	p := &pausing{header: "application/octet-stream", body: "some bytes"}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p})
	inTime(t, func(limit time.Duration) bool {
		res, err := http.DefaultClient.Do(g.Request("GET", "/things/1", "", "x-gateway-request-timeout", fmt.Sprint(limit.Milliseconds())))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode == http.StatusRequestTimeout {
			return false
		}
		body, err := io.ReadAll(res.Body)
		if string(body) != "some bytes" || err == nil {
			t.Errorf("body %q, error %v; want a broken connection after the bytes so far", body, err)
		}
		recorded(t, g.Entry(gatewaytest.Response{Header: res.Header}), map[string]any{"status": 200, "error.code": "timeout", "error.source": "gateway"})
		return true
	})
}

// A client that waits shortly says nothing about a provider that others share.
func TestRequestTimeoutDoesNotOpenCircuits(t *testing.T) {
	t.Parallel()
	p := new(pausing)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p})
	const config = `{"strategy":{"mode":"fallback"},"cb_config":{"failure_threshold":1,"cooldown_interval":60000},"targets":[{"provider":"@simulator"},{"provider":"@simulator"}]}`
	for range 3 {
		res := g.Post("/chat/completions", plainChat, "x-gateway-provider", "", "x-gateway-config", config, "x-gateway-request-timeout", "50")
		if got := res.Header.Get("x-gateway-last-used-option-index"); res.Status != 408 || got != "config.targets[0]" {
			t.Errorf("%d of %s, want 408 of config.targets[0]", res.Status, got)
		}
	}
}

func TestRequestTimeoutDoesNotEndSharedCalls(t *testing.T) {
	m := newSteppedModel()
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: m})
	first := m.begin(t, g, t.Context(), simpleCache)
	readTo(t, first.Body, "one")
	req := cachedRequest(g, "/chat/completions", streamBody, simpleCache)
	req.Header.Set("x-gateway-request-timeout", "100")
	if res := g.Do(req); !strings.Contains(string(res.Body), `"timeout"`) {
		t.Errorf("the second client: %d %s, want an error", res.Status, res.Body)
	}
	m.send(t, word("two"))
	readTo(t, first.Body, "two")
	m.send(t, stopWord)
	close(m.step)
	if rest, err := io.ReadAll(first.Body); err != nil || !strings.Contains(string(rest), `"stop"`) {
		t.Errorf("the first client got %q, %v", rest, err)
	}
}

// A retry that would begin after the deadline is not waited for.
func TestRequestTimeoutDoesNotWaitForALateRetry(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{})
	res := g.Post("/chat/completions", simChat("sim-1+status=503+retry-after=50", false), "x-gateway-provider", "",
		"x-gateway-config", `{"provider":"@simulator","retry":{"attempts":1,"use_retry_after_headers":true}}`, "x-gateway-request-timeout", "40000")
	if res.Status != 503 || res.Header.Get("Retry-After") != "50" {
		t.Errorf("%d %v %s; want the provider's own 503", res.Status, res.Header, res.Body)
	}
}

// The timeout of an attempt ends with its first event, and each attempt has one.
func TestAttemptTimeoutEndsWithTheFirstEvent(t *testing.T) {
	t.Parallel()
	p := new(pausing)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p})
	const two = `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@simulator"},{"provider":"@simulator"}]}`
	res := g.Post("/chat/completions", streamChat, "x-gateway-provider", "", "x-gateway-config", two, "x-gateway-attempt-timeout", "50")
	if p.calls.Load() != 2 || res.Status != 408 || res.Header.Get("x-gateway-params") != "" {
		t.Errorf("%d calls: %d %v %s; want 408 after two calls", p.calls.Load(), res.Status, res.Header, res.Body)
	}
	res = g.Post("/chat/completions", streamChat, "x-gateway-attempt-timeout", "soon")
	if e := errorOf(t, string(res.Body)); res.Status != 400 || e["param"] != "x-gateway-attempt-timeout" {
		t.Errorf("%d %s; want 400 that names the header", res.Status, res.Body)
	}
}

func TestExplainShowsTimeouts(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{})
	explain := func(headers map[string]string) map[string]any {
		headers["x-gateway-provider"] = "@simulator"
		body, _ := json.Marshal(map[string]any{"request": map[string]any{"headers": headers, "body": json.RawMessage(plainChat)}})
		return g.Post("/explain", string(body), "x-gateway-provider", "").JSON(t)
	}
	got := explain(map[string]string{"x-gateway-request-timeout": "5000", "x-gateway-attempt-timeout": "700"})
	if got["request_timeout_ms"] != 5000.0 || got["attempt"].(map[string]any)["request_timeout_ms"] != 700.0 {
		t.Errorf("request_timeout_ms = %v, of the attempt %v; want 5000 and 700", got["request_timeout_ms"], got["attempt"])
	}
}
