package dataplane_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/gatewaytest"
)

// A provider that is alive says so in comments, for minutes perhaps. Clients and
// proxies close a connection on which nothing arrives.
func TestCommentsBeforeTheFirstEventReachTheClientWithinASecond(t *testing.T) {
	t.Parallel()
	g, u := newScriptedPairs(t)
	for _, client := range clientFormats[:3] { // the last is translated
		t.Run(client.name, func(t *testing.T) {
			target, events := "chat", chunk("a")+finish+done
			if client.name != "chat" {
				target, events = "messages", messageStart+messageDelta("a")+messageEnd
			}
			heads := begin(t, client.ask(t, g, "x-gateway-provider", "@"+target, "m", true))
			c := u.next()
			c.events()
			c.send(": one\n\n")
			res := receive(t, heads, "the head")
			r := bufio.NewReader(res.Body)
			line, err := r.ReadString('\n')
			if line != ": one\n" || err != nil {
				t.Errorf("the client has %q, %v; want the comment before any event", line, err)
			}
			c.send(": two\n\n")
			r.ReadString('\n')
			if line, err = r.ReadString('\n'); line != ": two\n" {
				t.Errorf("then the client has %q, %v; want the second comment", line, err)
			}
			c.send(events)
			c.finish()
			rest := readRest(t, r)
			if h := client.readResponse(t, gatewaytest.Response{Status: res.StatusCode, Header: res.Header, Body: []byte(rest)}); h.end != "done" || h.text != "a" {
				t.Errorf("the client read %+v: %s", h, rest)
			}
		})
	}
}

// While another attempt can follow, a failure must not reach the client.
func TestCommentsBeforeTheFirstEventAreHeldWhileAnotherAttemptCanFollow(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{
		"a target": twoTargets(fallsBack, "chat", "m1", "chat", "m2"),
		"a retry":  `{"provider":"@chat","retry":{"attempts":1}}`,
	} {
		t.Run(name, func(t *testing.T) {
			g, u := newScriptedPairs(t)
			client := clientFormats[0]
			heads := begin(t, client.ask(t, g, "x-gateway-config", config, "m", true))
			c := u.next()
			c.events()
			c.send(": one\n\n")
			time.Sleep(1200 * time.Millisecond)
			c.send(midError)
			c.finish()
			c = u.next()
			c.events()
			c.send(chunk("a") + finish + done)
			c.finish()
			res := receive(t, heads, "the head")
			body := readRest(t, bufio.NewReader(res.Body))
			if res.StatusCode != 200 || strings.Contains(body, "fell over") || !strings.HasSuffix(body, done) {
				t.Errorf("status %d: %s", res.StatusCode, body)
			}
		})
	}
}

// While a guardrail can deny the stream, its denial has its own status, or is a
// completion, however many comments precede it.
func TestCommentsBeforeTheFirstEventAreHeldWhileAGuardrailCanDeny(t *testing.T) {
	t.Parallel()
	many := strings.Repeat(": "+strings.Repeat("c", 1000)+"\n\n", 100)
	for _, tt := range []struct {
		name, config, comments, text string
		status                       int
	}{
		{"denied", `"output_guardrails":[` + denyBad + `]`, ": one\n\n", "bad", 446},
		{"denied after many comments", `"output_guardrails":[` + denyBad + `]`, many, "bad", 446},
		{"held back", `"output_guardrails":[` + strings.Replace(denyBad, "{", `{"stream":"hold",`, 1) + `]`, ": one\n\n", "bad", 446},
		{"passed", `"output_guardrails":[` + denyBad + `]`, ": one\n\n", "good", 200},
		{"passed after many comments", `"output_guardrails":[` + denyBad + `]`, many, "good", 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g, u := newScriptedPairs(t)
			heads := begin(t, clientFormats[0].ask(t, g, "x-gateway-config", `{"provider":"@chat",`+tt.config+`}`, "m", true))
			c := u.next()
			c.events()
			c.send(tt.comments)
			select {
			case res := <-heads:
				t.Fatalf("the headers with status %d did not wait", res.StatusCode)
			case <-time.After(1200 * time.Millisecond): // longer than comments are held back otherwise
			}
			c.send(chunk(tt.text) + finish + done)
			c.finish()
			res := receive(t, heads, "the response")
			body := readRest(t, bufio.NewReader(res.Body))
			if res.StatusCode != tt.status || strings.Contains(body, `"bad"`) || strings.HasSuffix(body, done) != (tt.status == 200) {
				t.Errorf("status %d, want %d: %.3000s", res.StatusCode, tt.status, body)
			}
			if tt.text == "good" && (!strings.HasPrefix(body, tt.comments[:4]) || !strings.Contains(body, `"good"`)) {
				t.Errorf("the client has %.3000s", body)
			}
		})
	}
}

// Nor do comments turn a soft denial into an error in the stream.
func TestSoftDenialAfterCommentsIsACompletion(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); !strings.Contains(string(body), `"stream":true`) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"choices":[{"index":0,"message":{"role":"assistant","content":"good"},"finish_reason":"stop"}]}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, ": one\n\n")
		http.NewResponseController(w).Flush()
		time.Sleep(1200 * time.Millisecond) // longer than comments are held back otherwise
		io.WriteString(w, chunk("bad")+finish+done)
	})})
	id := saveGuardrail(t, g, "bad", `{"deny":true,"soft_deny_200":true}`)
	res := g.Do(clientFormats[0].ask(t, g, "x-gateway-config", guarded(`"output_guardrails":["`+id+`"]`), "m", true))
	if h := clientFormats[0].readResponse(t, res); res.Status != 200 || h.end != "done" || !strings.Contains(h.text, "the guardrail checks failed") {
		t.Errorf("status %d, read %+v: %s", res.Status, h, res.Body)
	}
}

// Comments of a branch of a race are sent when the other branches have failed.
func TestCommentsOfTheLastBranchOfAHedgeReachTheClientBeforeTheFirstEvent(t *testing.T) {
	t.Parallel()
	for _, failing := range []string{"m1", "m2"} {
		t.Run(failing+" fails", func(t *testing.T) {
			t.Parallel()
			g, u := newScriptedPairs(t)
			config := strings.Replace(twoTargets(fallsBack, "chat", "m1", "chat", "m2"), "{", `{"hedge":{"delay_ms":10,"max":1},`, 1)
			heads := begin(t, clientFormats[0].ask(t, g, "x-gateway-config", config, "m", true))
			last, fails := u.next(), u.next()
			if !strings.Contains(string(fails.Body), `"`+failing+`"`) {
				last, fails = fails, last
			}
			last.events()
			last.send(": one\n\n")
			fails.events()
			fails.send(": other\n\n")
			select {
			case <-heads:
				t.Fatal("comments were sent while another branch was in progress")
			case <-time.After(1200 * time.Millisecond): // longer than comments are held back otherwise
			}
			fails.send(midError)
			fails.finish()
			r := bufio.NewReader(receive(t, heads, "the head").Body)
			if line, err := r.ReadString('\n'); line != ": one\n" || err != nil {
				t.Errorf("the client has %q, %v; want the comment before any event", line, err)
			}
			last.send(chunk("a") + finish + done)
			last.finish()
			if rest := readRest(t, r); !strings.HasSuffix(rest, done) || strings.Contains(rest, "other") {
				t.Errorf("then the client has %s", rest)
			}
		})
	}
}

// In a race within a race, the branches of both must have failed.
func TestCommentsOfTheLastBranchOfNestedHedgesReachTheClientBeforeTheFirstEvent(t *testing.T) {
	t.Parallel()
	const hedge = `"hedge":{"delay_ms":10,"max":1},"strategy":{"mode":"fallback"},`
	target := func(model string) string {
		return `{"provider":"@chat","override_params":{"model":"` + model + `"}}`
	}
	config := `{` + hedge + `"targets":[{` + hedge + `"targets":[` + target("m1") + `,` + target("m2") + `]},` + target("m3") + `]}`
	for _, order := range [][]string{{"m1", "m2", "m3"}, {"m2", "m3", "m1"}, {"m3", "m1", "m2"}} {
		t.Run(strings.Join(order[:2], " and ")+" fail", func(t *testing.T) {
			t.Parallel()
			g, u := newScriptedPairs(t)
			heads := begin(t, clientFormats[0].ask(t, g, "x-gateway-config", config, "m", true))
			calls := make(map[string]*call)
			for range order {
				c := u.next()
				var v struct{ Model string }
				if err := json.Unmarshal(c.Body, &v); err != nil {
					t.Fatal(err)
				}
				calls[v.Model] = c
				c.events()
				c.send(": " + v.Model + "\n\n")
			}
			for _, model := range order[:2] {
				select {
				case <-heads:
					t.Fatal("comments were sent while another branch was in progress")
				case <-time.After(1200 * time.Millisecond): // longer than comments are held back otherwise
				}
				calls[model].send(midError)
				calls[model].finish()
			}
			last := calls[order[2]]
			r := bufio.NewReader(receive(t, heads, "the head").Body)
			if line, err := r.ReadString('\n'); line != ": "+order[2]+"\n" || err != nil {
				t.Errorf("the client has %q, %v; want the comment before any event", line, err)
			}
			last.send(chunk("a") + finish + done)
			last.finish()
			if rest := readRest(t, r); !strings.HasSuffix(rest, done) {
				t.Errorf("then the client has %s", rest)
			}
		})
	}
}

// An error after the comments ends the stream that they began.
func TestFailureAfterEarlyCommentsIsAnErrorInTheStream(t *testing.T) {
	t.Parallel()
	g, u := newScriptedPairs(t)
	client := clientFormats[0]
	for name, end := range map[string]string{"an error": midError, "nothing": ""} {
		heads := begin(t, client.ask(t, g, "x-gateway-provider", "@chat", "m", true))
		c := u.next()
		c.events()
		c.send(": one\n\n")
		res := receive(t, heads, "the head")
		c.send(end)
		c.finish()
		body := readRest(t, bufio.NewReader(res.Body))
		if !strings.HasPrefix(body, ": one\n\n") || !strings.Contains(body, `"error":`) || strings.Contains(body, done) {
			t.Errorf("%s: %s", name, fmt.Sprintf("%.300s", body))
		}
	}
}

func readRest(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Errorf("reading the rest: %v", err)
	}
	return string(b)
}
