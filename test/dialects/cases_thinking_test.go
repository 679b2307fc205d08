package dialects

import (
	"slices"
	"strings"

	"modelgate/internal/simulator"
)

// ponder is an ask whose response thinks and calls a tool.
func ponder() ask {
	return ask{think: true, tools: []string{"weather"}, limit: 4000, turns: []turn{user(textPiece("What of Oslo?"))}}
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

// again is the next turn of q after the response that was read: it as it came,
// and the results of its calls.
func (c *cell) again(q ask) ask {
	var results []piece
	for _, p := range c.h.calls() {
		results = append(results, piece{kind: result, id: p.id, name: p.name, text: "rain"})
	}
	if results == nil {
		results = []piece{textPiece("And now?")}
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
