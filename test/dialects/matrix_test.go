package dialects

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"modelgate/internal/simulator"
	"modelgate/internal/testing/gatewaytest"
)

// A client is one protocol as its clients speak it.
type client struct {
	name          string
	plain, stream string // paths; %s is the model, if it is there
	body          func(q *ask) object
}

var clients = []*client{
	{"chat", "/v1/chat/completions", "", chatBody},
	{"messages", "/v1/messages", "", messagesBody},
	{"responses", "/v1/responses", "", responsesBody},
	{"gemini", "/v1beta/models/%s:generateContent", "/v1beta/models/%s:streamGenerateContent?alt=sse", geminiBody},
	{"converse", "/model/%s/converse", "/model/%s/converse-stream", converseBody},
}

// request returns where and what a client sends.
func (k *client) request(q *ask, model string, stream bool) (path, body string) {
	m := k.body(q)
	if k.stream == "" {
		m["model"], m["stream"] = model, stream
		if !stream {
			delete(m, "stream_options")
		}
		return k.plain, asJSON(m)
	}
	if path = k.plain; stream {
		path = k.stream
	}
	return fmt.Sprintf(path, url.PathEscape(model)), asJSON(m)
}

// A cell is one case for one pair, whole or streamed.
type cell struct {
	*testing.T
	g      *gatewaytest.Gateway
	client *client
	to     *target
	model  string // of the target, without faults
	stream bool
	strict bool

	sent string // the model with faults, which the simulator counts by
	res  gatewaytest.Response
	h    clientView
}

var serial atomic.Int64

// send sends an ask to c's target and reads the response. Faults are joined by a
// plus.
func (c *cell) send(q ask, faults string) {
	c.Helper()
	c.sent = fmt.Sprintf("%s+header=X-Cell:%d", c.model, serial.Add(1))
	if faults != "" {
		c.sent += "+" + faults
	}
	path, body := c.client.request(&q, c.sent, c.stream)
	req, err := http.NewRequestWithContext(c.Context(), http.MethodPost, c.g.Root+path, strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	req.Header.Set("x-gateway-api-key", gatewaytest.Key)
	req.Header.Set("x-gateway-provider", "@"+string(c.to.dialect))
	req.Header.Set("x-gateway-strict-vendora-compliance", fmt.Sprint(c.strict))
	req.Header.Set("Content-Type", "application/json")
	c.res = c.g.Do(req)
	c.h = readers[c.client.name].read(c.res)
	if c.res.Err != nil || c.h.unsound != "" {
		c.Errorf("the response to %s is unsound: %v, %s\n%.20000s", body, c.res.Err, c.h.unsound, c.res.Body)
	}
}

// checkResponse is send where the response must be one.
func (c *cell) checkResponse(q ask, faults string) {
	c.Helper()
	if c.send(q, faults); c.res.Status != 200 || c.h.fault != "" || !c.h.ended {
		c.Fatalf("status %d, fault %q, ended %t: %.1500s\nasked %+v", c.res.Status, c.h.fault, c.h.ended, c.res.Body, q)
	}
}

// reported is answered with what the simulator understood.
func (c *cell) reported(q ask, faults string) *simulator.Report {
	c.Helper()
	c.checkResponse(q, strings.TrimPrefix(faults+"+report", "+"))
	var r simulator.Report
	if err := json.Unmarshal([]byte(c.h.all(text)), &r); err != nil {
		c.Fatalf("no report: %v in %.500s", err, c.res.Body)
	}
	if r.Dialect != string(c.to.dialect) || r.Stream != c.stream {
		c.Errorf("reached as %s, streamed %t; want %s, %t", r.Dialect, r.Stream, c.to.dialect, c.stream)
	}
	return &r
}

// params are the changes of parameters.
func (c *cell) params() string { return c.res.Header.Get("x-gateway-params") }

// fate is the worst that became of a parameter.
func (c *cell) fate() string {
	switch p := c.params(); {
	case strings.Contains(p, ";dropped"), strings.Contains(p, ";ignored"):
		return dropped
	case p != "":
		return adapted
	}
	return ok
}

// refusal is the verdict on a request that must be refused before anything is
// sent, with an element of the body that the error names.
func (c *cell) refused(q ask, element string) string {
	c.Helper()
	c.send(q, "")
	if c.res.Status != 400 || !strings.Contains(c.h.fault, element) {
		c.Errorf("status %d, %q; want 400 that names %s", c.res.Status, c.h.fault, element)
	}
	if n := c.g.Sim.Calls(c.sent); n != 0 {
		c.Errorf("%d requests were sent", n)
	}
	return refusedWord
}

func (c *cell) expect(what string, got, want any) {
	c.Helper()
	if g, w := asJSON(got), asJSON(want); g != w {
		c.Errorf("%s = %s, want %s (params %s)", what, g, w, c.params())
	}
}

// The verdicts of the table.
const (
	ok          = "ok"
	adapted     = "adapted"
	dropped     = "dropped"
	refusedWord = "refused"
	unsaid      = "-" // the client's protocol has no words for it
	failed      = "FAILED"
)

// outcome is the verdict on a cell, and what the header said.
type outcome struct{ verdict, params string }

func TestEveryPairOfDialects(t *testing.T) {
	g := start(t)
	table := make([][]outcome, len(cases)*len(clients)*len(targets))
	t.Run("cells", func(t *testing.T) {
		for i, k := range cases {
			for j, from := range clients {
				for n, to := range targets {
					slot := &table[(i*len(clients)+j)*len(targets)+n]
					*slot = []outcome{{verdict: failed}, {verdict: failed}}
					for s, stream := range []bool{false, true} {
						t.Run(fmt.Sprintf("%s/%s to %s/stream=%t", k.name, from.name, to.dialect, stream), func(t *testing.T) {
							t.Parallel()
							c := &cell{T: t, g: g, client: from, to: to, model: to.model, stream: stream}
							if m := k.models[string(to.dialect)]; m != "" {
								c.model = m
							}
							(*slot)[s] = check(k, c)
						})
					}
				}
			}
		}
	})
	golden(t, "testdata/matrix.txt", summary(t, table))
	if strings.Contains(g.Log.String(), "panic") {
		t.Errorf("a handler panicked:\n%s", g.Log)
	}
}

func check(k *testCase, c *cell) (o outcome) {
	o.verdict = failed
	if k.only != "" && !strings.Contains(k.only, c.mode()) || slices.Contains(k.not, c.client.name) {
		return outcome{verdict: unsaid}
	}
	verdict := k.check(c)
	if c.Failed() {
		return o
	}
	if verdict == refusedWord {
		return outcome{verdict: verdict}
	}
	return outcome{verdict, c.params()}
}

func (c *cell) mode() string {
	if c.stream {
		return "stream"
	}
	return "whole"
}

// summary is the table as text.
func summary(t *testing.T, table [][]outcome) string {
	var b strings.Builder
	for i, k := range cases {
		fmt.Fprintf(&b, "%-32s", k.name)
		for _, to := range targets {
			fmt.Fprintf(&b, "%-10s", to.dialect)
		}
		b.WriteByte('\n')
		notes := map[string][]string{}
		for j, from := range clients {
			fmt.Fprintf(&b, "  %-30s", from.name)
			for n, to := range targets {
				o := joined(t, k, table[(i*len(clients)+j)*len(targets)+n])
				fmt.Fprintf(&b, "%-10s", o.verdict)
				if o.params != "" {
					notes[o.params] = append(notes[o.params], from.name+">"+string(to.dialect))
				}
			}
			b.WriteByte('\n')
		}
		var lines []string
		for params, pairs := range notes {
			lines = append(lines, fmt.Sprintf("    %s: %s\n", strings.Join(pairs, " "), params))
		}
		slices.Sort(lines)
		b.WriteString(strings.Join(lines, "") + "\n")
	}
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// joined is the one outcome of a case: streams are to fare as complete responses do.
func joined(t *testing.T, k *testCase, both []outcome) outcome {
	whole, stream := both[0], both[1]
	switch {
	case whole == stream, stream.verdict == unsaid && k.only != "":
		return whole
	case whole.verdict == unsaid && k.only != "":
		return stream
	case !t.Failed():
		t.Errorf("%s: whole %v, streamed %v", k.name, whole, stream)
	}
	return outcome{whole.verdict + "/" + stream.verdict, ""}
}
