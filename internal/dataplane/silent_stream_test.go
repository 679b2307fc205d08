package dataplane_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/gatewaytest"
)

const briefSilence = "timeouts: {header: 20s, first_token: 20s, idle: 20s, keep_alive: 500ms}\n"

func newSilentPairs(t *testing.T) (*gatewaytest.Gateway, *scripted) {
	t.Helper()
	u := newScripted(t)
	_, providers, _ := strings.Cut(pairSettings, "\n")
	return gatewaytest.New(t, gatewaytest.Options{Settings: briefSilence + providers, Upstream: u}), u
}

// silentTarget is a target that the client's dialect differs from, or not, and the
// events of a complete response.
type silentTarget struct{ slug, start, rest string }

var silentTargets = []silentTarget{
	{"chat", chunk("a"), finish + done},
	{"messages", messageStart + messageDelta("a"), messageEnd},
}

// A model may think for minutes after its provider has sent the headers. Clients and
// proxies close a connection on which nothing arrives.
func TestHeadersOfASilentStreamArriveBeforeTheFirstEvent(t *testing.T) {
	t.Parallel()
	for _, client := range clientFormats {
		for _, target := range silentTargets {
			if client.name == "invoke" && target.slug == "chat" || client.name == "responses" && target.slug == "chat" {
				continue // answered in another dialect
			}
			t.Run(client.name+" to "+target.slug, func(t *testing.T) {
				t.Parallel()
				g, u := newSilentPairs(t)
				heads := begin(t, client.ask(t, g, "x-gateway-provider", "@"+target.slug, "m", true))
				c := u.next()
				c.events()
				c.send("")
				res := receive(t, heads, "the headers of a silent stream")
				r := bufio.NewReader(res.Body)
				if res.StatusCode != 200 || res.Header.Get("X-Gateway-Provider") == "" {
					t.Errorf("status %d, headers %v", res.StatusCode, res.Header)
				}
				if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
					for range 2 {
						if got := event(t, r); got != ": keep-alive\n\n" {
							t.Errorf("the client has %q, want a comment", got)
						}
					}
				}
				c.send(target.start + target.rest)
				c.finish()
				rest := readRest(t, r)
				if h := client.readResponse(t, gatewaytest.Response{Status: res.StatusCode, Header: res.Header, Body: []byte(rest)}); h.end != "done" || h.text != "a" {
					t.Errorf("the client read %+v: %s", h, rest)
				}
			})
		}
	}
}

// What follows the headers can only be an error in the stream.
func TestFailureOfASilentStreamIsAnErrorInTheStream(t *testing.T) {
	t.Parallel()
	for _, client := range clientFormats {
		for name, end := range map[string]string{"an error": "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"fell over\"}}\n\n", "nothing": ""} {
			t.Run(client.name+" "+name, func(t *testing.T) {
				t.Parallel()
				g, u := newSilentPairs(t)
				heads := begin(t, client.ask(t, g, "x-gateway-provider", "@messages", "m", true))
				c := u.next()
				c.events()
				c.send("")
				res := receive(t, heads, "the headers of a silent stream")
				c.send(end)
				c.finish()
				rest := readRest(t, bufio.NewReader(res.Body))
				if h := client.readResponse(t, gatewaytest.Response{Status: res.StatusCode, Header: res.Header, Body: []byte(rest)}); h.end != "error" {
					t.Errorf("the client read %+v: %s", h, rest)
				}
			})
		}
	}
}

// While the outcome may still have another status, the headers wait for it.
func TestHeadersOfASilentStreamWaitForAnotherStatus(t *testing.T) {
	t.Parallel()
	fails := func(c *call) { c.send(midError) }
	responses := func(text string) func(c *call) {
		return func(c *call) { c.send(chunk(text) + finish + done) }
	}
	const timeout = `"request_timeout":2000`
	for _, tt := range []struct {
		name, config, header string
		calls                []func(c *call)
		status               int
	}{
		{"another target", twoTargets(fallsBack, "chat", "m1", "chat", "m2"), "", []func(c *call){fails, responses("a")}, 200},
		{"another target of a hedge", twoTargets(fallsBack+`"hedge":{"delay_ms":50},`, "chat", "m1", "chat", "m2"), "", []func(c *call){fails, responses("a")}, 200},
		{"a retry", `{"provider":"@chat","retry":{"attempts":1}}`, "", []func(c *call){fails, responses("a")}, 200},
		{"a timeout of the config", `{"provider":"@chat",` + timeout + `}`, "", []func(c *call){func(*call) {}}, 408},
		{"a timeout of the request", `{"provider":"@chat"}`, "2000", []func(c *call){func(*call) {}}, 408},
		{"a guardrail", `{"provider":"@chat","output_guardrails":[` + denyBad + `]}`, "", []func(c *call){responses("bad")}, 446},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g, u := newSilentPairs(t)
			req := clientFormats[0].ask(t, g, "x-gateway-config", tt.config, "m", true)
			if tt.header != "" {
				req.Header.Set("x-gateway-request-timeout", tt.header)
			}
			heads := begin(t, req)
			for i, call := range tt.calls {
				c := u.next()
				c.events()
				c.send("")
				if i == 0 {
					select {
					case res := <-heads:
						t.Fatalf("the headers with status %d did not wait", res.StatusCode)
					case <-time.After(1200 * time.Millisecond): // longer than headers wait otherwise
					}
				}
				call(c)
				if tt.status != http.StatusRequestTimeout {
					c.finish()
				}
			}
			res := receive(t, heads, "the response")
			if body := readRest(t, bufio.NewReader(res.Body)); res.StatusCode != tt.status || strings.Contains(body, "fell over") {
				t.Errorf("status %d, want %d: %.300s", res.StatusCode, tt.status, body)
			}
		})
	}
}

// A guardrail that only observes does not hold back the headers.
func TestHeadersOfASilentStreamDoNotWaitForAnObserver(t *testing.T) {
	t.Parallel()
	g, u := newSilentPairs(t)
	config := `{"provider":"@chat","output_guardrails":[` + strings.Replace(denyBad, `"deny":true`, `"async":true`, 1) + `]}`
	heads := begin(t, clientFormats[0].ask(t, g, "x-gateway-config", config, "m", true))
	c := u.next()
	c.events()
	c.send("")
	res := receive(t, heads, "the headers of a silent stream")
	c.send(chunk("bad") + finish + done)
	c.finish()
	if body := readRest(t, bufio.NewReader(res.Body)); res.StatusCode != 200 || !strings.HasSuffix(body, done) {
		t.Errorf("status %d: %s", res.StatusCode, body)
	}
}
