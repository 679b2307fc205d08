package dialects

import (
	"encoding/json"
	"slices"
	"strings"

	"modelgate/internal/simulator"
)

// reportedOrRefused is reported, or nil where the request is refused and the
// error names the second part of the message.
func (c *cell) reportedOrRefused(q ask, faults string) *simulator.Report {
	c.Helper()
	c.send(q, "report")
	if c.res.Status == 400 {
		c.refused(q, places[c.client.name])
		return nil
	}
	return c.reported(q, faults)
}

func linkedCase(c *cell) string {
	r := c.reportedOrRefused(ask{turns: []turn{user(say("What is it?"), piece{kind: linked})}}, "")
	if r == nil {
		return refusedWord
	}
	c.expect("images", r.Images, 1)
	return c.fate()
}

func paintedCase(c *cell) string {
	if c.to.dialect != "gemini" {
		return unsaid
	}
	c.checkResponse(hello, "image")
	for _, p := range c.h.pieces {
		if p.kind == picture {
			return c.fate()
		}
	}
	return dropped
}

// ponder is an ask whose response thinks and calls a tool.
func ponder() ask {
	return ask{think: true, tools: []string{"weather"}, limit: 4000, turns: []turn{user(say("What of Oslo?"))}}
}

func thinkingCase(c *cell) string {
	q := ponder()
	q.tools = nil
	c.checkResponse(q, "thinking=8")
	fate := c.fate()
	said := c.h.all(thought)
	if said == "" || !strings.HasPrefix(c.h.all(text), "echo") {
		c.Errorf("pieces = %+v", c.h.pieces)
	}
	if c.h.pieces[0].kind != thought {
		c.Errorf("the thinking is not first: %+v", c.h.pieces)
	}
	return fate
}

// strictCase asks that thinking neither shows where the protocol has none, nor
// disturbs the response.
func strictCase(c *cell) string {
	c.strict = true
	q := ponder()
	q.tools = nil
	c.checkResponse(q, "thinking=8")
	if said := c.h.all(text); !strings.HasPrefix(said, "echo") {
		c.Errorf("pieces = %+v", c.h.pieces)
	}
	if c.h.all(thought) == "" {
		return dropped
	}
	return c.fate()
}

// again is the next turn of q after the response that was heard: it as it came,
// and the results of its calls.
func (c *cell) again(q ask) ask {
	var results []piece
	for _, p := range c.h.calls() {
		results = append(results, piece{kind: result, id: p.id, name: p.name, text: "rain"})
	}
	if results == nil {
		results = []piece{say("And now?")}
	}
	q.turns = append(q.turns[:len(q.turns):len(q.turns)], assistant(c.h.pieces...), user(results...))
	return q
}

// returnedCase gives thinking back to the vendor that signed it; the simulator
// refuses signatures that are not its own.
func returnedCase(c *cell) string {
	q := ponder()
	c.checkResponse(q, "thinking=8")
	c.called2("weather")
	r := c.reported(c.again(q), "")
	c.expect("results", len(r.Results), 1)
	switch {
	case signed(r):
		return ok
	case len(r.Thinking) > 0, c.to.dialect == "cohere" && strings.Contains(c.body(), `"tool_plan":"The user`):
		return adapted // as text
	}
	return dropped
}

// body is what the simulator got of the last request.
func (c *cell) body() string {
	for _, r := range slices.Backward(c.g.Sim.Requests()) {
		if strings.Contains(string(r.Body), c.sent) {
			return string(r.Body)
		}
	}
	return ""
}

// called2 is called for a response to other words.
func (c *cell) called2(name string) {
	c.Helper()
	if calls := c.h.calls(); len(calls) != 1 || calls[0].name != name {
		c.Fatalf("pieces = %+v", c.h.pieces)
	}
}

// signed reports whether a signature came back, of thinking or of a call.
func signed(r *simulator.Report) bool {
	for _, t := range r.Thinking {
		if t.Signature != "" {
			return true
		}
	}
	for _, p := range r.Calls {
		if p.Signature != "" && !strings.HasPrefix(p.Signature, "skip") && !strings.HasPrefix(p.Signature, "c2tpcF") {
			return true
		}
	}
	return false
}

// movedCase goes on with a conversation at the target that another vendor's
// model began: nothing of its signatures may reach this one. Back at the first
// vendor, its signature counts again.
func movedCase(c *cell) string {
	there := *c
	there.to, there.model = targets[1], targets[1].model // messages
	if c.to.vendor == "anthropic" {
		there.to, there.model = targets[3], targets[3].model // gemini
	}
	q := ponder()
	there.checkResponse(q, "thinking=8")
	there.called2("weather")
	next := there.again(q)
	next.think = false
	r := c.reported(next, "")
	verdict := c.fate()
	c.expect("results", len(r.Results), 1)
	if c.client.name == "chat" && c.to.dialect == "chat" {
		return ok // content_blocks go on unchanged: whether the host reads them is its own affair
	}
	if signed(r) {
		c.Errorf("a signature of another vendor reached it: %+v, %+v", r.Thinking, r.Calls)
	}
	if len(r.Thinking) == 0 && verdict == ok {
		verdict = dropped
	}
	c.checkResponse(next, "")
	if len(c.h.calls()) > 0 {
		c.Errorf("called again: %+v", c.h.pieces)
	}
	home := c.again(next)
	home.think = true
	if r := there.reported(home, ""); !signed(r) && there.to.vendor != "" && there.client.name != "" {
		c.Errorf("at home again, the signature of %s is lost: %+v, %+v", there.to.vendor, r.Thinking, r.Calls)
	}
	return verdict
}

// formed checks that the response is the object that was asked for.
func (c *cell) formed() {
	c.Helper()
	var m object
	if err := json.Unmarshal([]byte(c.h.all(text)), &m); err != nil || str(m, "city") == "" || len(c.h.calls()) > 0 {
		c.Errorf("the response is not the object asked for: %v in %+v", err, c.h.pieces)
	}
	c.stopped(endStop)
}

func schemaCase(c *cell) string {
	q := hello
	q.schema = true
	c.checkResponse(q, "")
	fate := c.fate()
	if fate != dropped {
		c.formed()
	}
	return fate
}

// crowdedCase asks for a form with tools next to it, which have been called.
func crowdedCase(c *cell) string {
	q := loop(false)
	q.schema = true
	c.checkResponse(q, "")
	fate := c.fate()
	if fate != dropped && len(c.h.calls()) == 0 && c.h.all(text) != "" && !strings.HasPrefix(c.h.all(text), "echo") {
		c.formed()
	}
	return fate
}

func sequenceCase(c *cell) string {
	q := ask{turns: []turn{user(say("alpha omega beta"))}, stops: []string{"omega"}}
	c.checkResponse(q, "")
	fate := c.fate()
	if said := c.h.all(text); fate == ok && said != "echo: alpha " {
		c.Errorf("text = %q", said)
	}
	if fate == ok && c.h.stop != stops[c.client.name][sequenceStop] && c.h.stop != stops[c.client.name][endStop] {
		c.stopped(sequenceStop)
	}
	return fate
}

func lengthCase(c *cell) string {
	q := hello
	q.limit = 20
	c.checkResponse(q, "")
	if said := c.h.all(text); len(said) != 80 {
		c.Errorf("%d bytes: %q", len(said), said)
	}
	c.stopped(lengthStop)
	return c.fate()
}

func refusalCase(c *cell) string {
	c.checkResponse(hello, "refusal")
	c.refusedStop()
	if said := c.h.all(text) + c.h.all(refusal); said == "" && c.to.dialect != "gemini" {
		return dropped // the words; the stop says it. Gemini has none
	}
	return c.fate()
}

// refusedStop asks for the stop of a refusal, or, where the provider has none,
// that of the end.
func (c *cell) refusedStop() {
	c.Helper()
	end := c.h.stop == stops[c.client.name][endStop] && (c.to.dialect == "cohere" || c.h.all(refusal) != "")
	if !end {
		c.stopped(refusalStop)
	}
}

func cachedCase(c *cell) string {
	c.checkResponse(hello, "tokens=32")
	plain := c.h.prompt
	c.checkResponse(hello, "cached=5+cache-write=7+tokens=32")
	c.expect("cached", c.h.cached, 5)
	c.expect("completion", c.h.completion, 32)
	if c.h.prompt != plain+12 {
		c.Errorf("prompt = %d, without caches %d", c.h.prompt, plain)
	}
	if c.h.written != 7 {
		return dropped
	}
	return c.fate()
}

func markedCase(c *cell) string {
	q := ask{mark: true, turns: []turn{user(say("A long text"), say("and a question"))}}
	r := c.reported(q, "")
	c.expect("text", strings.ReplaceAll(r.Texts[0], "\n", ""), "A long textand a question")
	if fate := c.fate(); r.CachePoints > 0 || fate != ok {
		return fate
	}
	return dropped
}

func (c *cell) errors(fault string, status int) string {
	c.send(hello, fault)
	if c.res.Status != status || c.h.fault == "" {
		c.Errorf("status %d, %q; want %d", c.res.Status, c.h.fault, status)
	}
	if strings.Contains(fault, "retry-after") && c.res.Header.Get("Retry-After") != "7" {
		c.Error("Retry-After is lost")
	}
	return ok
}

// broken asks for an error in the client's dialect inside a stream that began.
func (c *cell) broken(fault string) string {
	c.send(hello, fault)
	if c.res.Status != 200 || c.h.fault == "" || c.h.ended || !strings.HasPrefix(c.h.all(text), "echo") {
		c.Errorf("status %d, fault %q, ended %t, text %q\n%s", c.res.Status, c.h.fault, c.h.ended, c.h.all(text), c.res.Body)
	}
	return ok
}
