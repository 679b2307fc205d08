package dialects

import (
	"fmt"
	"strings"

	"modelgate/internal/simulator"
)

// A testCase is a case of every pair.
type testCase struct {
	name   string
	models map[string]string // of targets, where another is wanted
	not    []string          // clients whose protocol has no words for it
	only   string            // whole or stream; empty is both
	check  func(c *cell) string
}

var hello = ask{turns: []turn{user(textPiece("Say hello"))}}

// stops are the words of each protocol for the end, a limit, a stop sequence,
// tools, and a refusal.
var stops = map[string][5]string{
	"chat":      {"stop", "length", "stop", "tool_calls", "content_filter"},
	"messages":  {"end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"},
	"responses": {"completed", "max_output_tokens", "completed", "completed", "content_filter"},
	"gemini":    {"STOP", "MAX_TOKENS", "STOP", "STOP", "SAFETY"},
	"converse":  {"end_turn", "max_tokens", "stop_sequence", "tool_use", "content_filtered"},
}

const (
	endStop = iota
	lengthStop
	sequenceStop
	toolStop
	refusalStop
)

func (c *cell) stopped(which int) {
	c.Helper()
	c.expect("stop", c.h.stop, stops[c.client.name][which])
}

var cases = []*testCase{
	{name: "text", check: textCase},
	{name: "turns and sampling reach", check: turnsCase},
	{name: "one tool call", check: oneCallCase},
	{name: "parallel tool calls", check: parallelCase},
	{name: "no parallel tool calls", not: []string{"gemini", "converse"}, check: serialCase},
	{name: "a tool that must be called", check: chosenCase},
	{name: "results of tools", check: loopCase},
	{name: "a failed result", not: []string{"chat", "responses"}, check: failedCase},
	{name: "image in the request", check: func(c *cell) string { return c.media(picture) }},
	{name: "image at an address", not: []string{"converse"}, check: linkedCase},
	{name: "PDF in the request", check: func(c *cell) string { return c.media(document) }},
	{name: "image in the response", models: map[string]string{"gemini": "gemini-2.5-flash-image"}, check: paintedCase},
	{name: "thinking", check: thinkingCase},
	{name: "thinking comes back", check: returnedCase},
	{name: "thinking strictly", check: strictCase},
	{name: "thinking of another vendor", check: movedCase},
	{name: "thinking, Gemini 3", models: map[string]string{"gemini": "gemini-3-flash-preview"}, check: returnedCase},
	{name: "another vendor, Gemini 3", models: map[string]string{"gemini": "gemini-3-flash-preview"}, check: movedCase},
	{name: "structured output", check: schemaCase},
	{name: "structured output, older models", models: map[string]string{
		"messages": "claude-3-5-haiku-20241022", "converse": "amazon.nova-pro-v1:0", "gemini": "gemini-2.0-flash",
	}, check: schemaCase},
	{name: "structured output next to tools", check: crowdedCase},
	{name: "stop sequence", not: []string{"responses"}, check: sequenceCase},
	{name: "length", check: lengthCase},
	{name: "refusal", check: refusalCase},
	{name: "cached usage", check: cachedCase},
	{name: "marks for the cache", not: []string{"responses", "gemini"}, check: markedCase},
	{name: "provider says 400", check: func(c *cell) string { return c.errors("context-length", 400) }},
	{name: "provider says 429", check: func(c *cell) string { return c.errors("status=429+retry-after=7", 429) }},
	{name: "provider says 529", check: func(c *cell) string { return c.errors("status=529", 529) }},
	{name: "error inside the stream", only: "stream", check: func(c *cell) string { return c.broken("error-event=6") }},
	{name: "stream that is cut", only: "stream", check: func(c *cell) string { return c.broken("cut=6") }},
	{name: "stream that ends early", only: "stream", check: func(c *cell) string { return c.broken("cut=6,clean") }},
}

func textCase(c *cell) string {
	c.strict = true
	c.checkResponse(hello, "tokens=32")
	if said := c.h.all(text); !strings.HasPrefix(said, "echo: Say hello") || len(said) != 32*4 || len(c.h.pieces) != 1 {
		c.Errorf("pieces = %+v", c.h.pieces)
	}
	c.stopped(endStop)
	c.expect("completion", c.h.completion, 32)
	if c.h.prompt == 0 {
		c.Error("no usage of the prompt")
	}
	return c.fate()
}

func turnsCase(c *cell) string {
	r := c.reported(ask{system: "Be brief.", limit: 500, warm: true,
		turns: []turn{user(textPiece("One")), assistant(textPiece("Two")), user(textPiece("Three"))}}, "")
	c.expect("system", r.System, "Be brief.")
	c.expect("roles", r.Roles, []string{"user", "assistant", "user"})
	c.expect("texts", r.Texts, []string{"One", "Two", "Three"})
	c.expect("limit", r.MaxTokens, 500)
	c.expect("temperature", r.Temperature, 0.5)
	return c.fate()
}

// city is what the simulator calls tools with.
const city = `{"city":"Say hello"}`

func (c *cell) called(names ...string) {
	c.Helper()
	calls := c.h.calls()
	seen := map[string]bool{}
	var got []string
	for _, p := range calls {
		got = append(got, p.name)
		if seen[p.id] || p.id == "" && c.client.name != "gemini" {
			c.Errorf("the ids of the calls are %+v", calls)
		}
		seen[p.id] = true
		if strings.ReplaceAll(p.args, " ", "") != strings.ReplaceAll(city, " ", "") {
			c.Errorf("arguments of %s = %s", p.name, p.args)
		}
	}
	c.expect("calls", got, names)
	c.stopped(toolStop)
}

func oneCallCase(c *cell) string {
	q := hello
	q.tools = []string{"weather"}
	r := c.reported(q, "")
	c.expect("tools", r.Tools, []string{"weather"})
	c.checkResponse(q, "")
	c.called("weather")
	return c.fate()
}

func parallelCase(c *cell) string {
	q := hello
	q.tools = []string{"weather", "news"}
	c.checkResponse(q, "calls=3+preface+interleave")
	c.called("weather", "news", "weather")
	const preface = "Let me look that up."
	if c.to.dialect == "cohere" && c.h.all(text) == "" {
		c.expect("preface", c.h.all(thought), preface) // Cohere calls it the plan
		return adapted
	}
	c.expect("preface", c.h.all(text), preface)
	return c.fate()
}

func serialCase(c *cell) string {
	q := hello
	q.tools, q.serial = []string{"weather", "news"}, true
	r := c.reported(q, "")
	fate := c.fate()
	if serial := fate != dropped; r.Serial != serial {
		c.Errorf("one call at most = %t, and the header says %q", r.Serial, c.params())
	}
	return fate
}

func chosenCase(c *cell) string {
	q := hello
	q.tools, q.choose = []string{"weather", "news"}, "news"
	c.checkResponse(q, "")
	c.called("news")
	return c.fate()
}

// loop is a conversation whose tools have been called.
func loop(failed bool) ask {
	return ask{tools: []string{"weather", "news"}, turns: []turn{
		user(textPiece("What of Oslo?")),
		assistant(textPiece("I look."), piece{kind: call, id: "call_1", name: "weather", args: `{"city":"Oslo"}`},
			piece{kind: call, id: "call_2", name: "news", args: `{"city":"Bergen"}`}),
		user(piece{kind: result, id: "call_1", name: "weather", text: "rain"},
			piece{kind: result, id: "call_2", name: "news", text: "boom", failed: failed}),
	}}
}

func loopCase(c *cell) string {
	r := c.reported(loop(false), "")
	if len(r.Calls) != 2 || len(r.Results) != 2 {
		c.Fatalf("calls %+v, results %+v", r.Calls, r.Results)
	}
	for i, want := range []struct{ name, city, text string }{{"weather", "Oslo", "rain"}, {"news", "Bergen", "boom"}} {
		c.expect("name", r.Calls[i].Name, want.name)
		c.expect("arguments", r.Calls[i].Arguments, object{"city": want.city})
		c.expect("result", r.Results[i].Text, want.text)
		c.expect("id of the result", r.Results[i].ID, r.Calls[i].ID)
		c.expect("failure", r.Results[i].Failed, false)
	}
	if !strings.Contains(c.params(), "tool_plan") {
		c.expect("texts", r.Texts[:2], []string{"What of Oslo?", "I look."})
	}
	c.checkResponse(loop(false), "")
	if c.h.all(text) == "" {
		c.Errorf("no response: %+v", c.h.pieces)
	}
	return c.fate()
}

// failedCase asks that the model learns of the failure, in a field or as text.
func failedCase(c *cell) string {
	r := c.reported(loop(true), "")
	got := r.Results[1]
	if !strings.Contains(got.Text, "boom") || r.Results[0].Failed {
		c.Errorf("results = %+v", r.Results)
	}
	switch {
	case got.Failed:
		return c.fate()
	case strings.Contains(strings.ToLower(got.Text), "error"):
		return adapted
	}
	return dropped
}

func (c *cell) media(k kind) string {
	r := c.reportedOrRefused(ask{turns: []turn{user(textPiece("What is it?"), piece{kind: k})}}, "")
	if r == nil {
		return refusedWord
	}
	c.expect("images and documents", fmt.Sprint(r.Images, r.Documents), map[kind]string{picture: "1 0", document: "0 1"}[k])
	c.expect("text", r.Texts[0], "What is it?")
	return c.fate()
}

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
	r := c.reportedOrRefused(ask{turns: []turn{user(textPiece("What is it?"), piece{kind: linked})}}, "")
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

// places are the elements that a refusal of the second part names.
var places = map[string]string{
	"chat": "messages[0].content[1]", "messages": "messages[0].content[1]", "responses": "input[0].content[1]",
	"gemini": "contents[0].parts[1]", "converse": "messages[0].content[1]",
}
