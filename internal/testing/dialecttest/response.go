package dialecttest

import (
	"slices"

	"pgregory.net/rapid"

	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
)

// Response generates complete responses with all supported parts.
func Response(can Capabilities) *rapid.Generator[*llm.Response] {
	return rapid.Custom(func(t *rapid.T) *llm.Response {
		g := generator{T: t, Capabilities: can}
		if can.has(llm.FieldTools) {
			g.named = []llm.Tool{{Name: "tool_0"}, {Name: "tool_1", Custom: can.CustomTools}}
		}
		r := &llm.Response{Usage: g.usage()}
		g.head(r)
		n := 1
		if can.has(llm.FieldN) {
			n += g.upTo(2, "more choices")
		}
		for range n {
			r.Choices = append(r.Choices, g.option())
		}
		if can.FitResponse != nil {
			can.FitResponse(r)
		}
		return r
	})
}

func (g *generator) head(r *llm.Response) {
	if g.ID {
		r.ID = "answer-123"
	}
	if g.Model {
		r.Model = "model-of-the-day"
	}
	if g.Created {
		r.Created = 1690000000
	}
	if g.Tier && g.maybe("tier") {
		r.ServiceTier = "default"
	}
	if g.Mark && g.maybe("fingerprint") {
		r.Fingerprint = "fp_123"
	}
}

func (g *generator) option() llm.Choice {
	c := llm.Choice{Parts: g.assistantParts(true)}
	calls, speaks := 0, false
	for _, p := range c.Parts {
		switch p.(type) {
		case llm.ToolCall:
			calls++
		case llm.Text:
			speaks = true
		}
	}
	c.Stop = one(g, or(g.Stops, llm.StopEnd, llm.StopLength), "stop reason")
	if calls > 0 {
		c.Stop = llm.StopTool
	}
	if c.Stop == llm.StopSequence && g.StopText {
		c.StopText = "END"
	}
	if speaks && g.has(llm.FieldLogprobs) && g.maybe("logprobs") {
		c.Logprobs = []llm.Logprob{
			{Token: "Hel", Logprob: -0.5, Bytes: []int{72, 101, 108},
				Top: []llm.Logprob{{Token: "Hel", Logprob: -0.5, Bytes: []int{72, 101, 108}}, {Token: "H", Logprob: -9.25}}},
			{Token: "lo", Logprob: -1e-7},
		}
	}
	return c
}

func (g *generator) usage() llm.Usage {
	count := func(can int64) int64 {
		if can == 0 {
			return 0
		}
		return g.number(0, 5000)
	}
	u := &g.Usage
	return llm.Usage{
		Input: count(u.Input), CachedInput: count(u.CachedInput), CacheWrite5m: count(u.CacheWrite5m), CacheWrite1h: count(u.CacheWrite1h),
		Output: count(u.Output), Reasoning: count(u.Reasoning), InputAudio: count(u.InputAudio), OutputAudio: count(u.OutputAudio),
		Known: *u != llm.Usage{},
	}
}

// Streamed generates a stream of r: text arrives in pieces, and calls and
// choices are interleaved.
func Streamed(t *rapid.T, r *llm.Response) []llm.Event {
	g := generator{T: t}
	all := slices.Collect(dialect.Replay(r))
	tail := all[len(all)-2:]
	lanes := make([][]llm.Event, len(r.Choices))
	for _, e := range all[1 : len(all)-2] {
		lanes[e.Choice] = append(lanes[e.Choice], g.pieces(e)...)
	}
	for i := range lanes {
		lanes[i] = g.interleave(lanes[i])
	}
	return append(append(all[:1:1], g.merge(lanes)...), tail...)
}

// pieces cuts the text of an event into up to four.
func (g *generator) pieces(e llm.Event) (list []llm.Event) {
	text := []rune(e.Text)
	for len(text) > 1 && len(list) < 3 && g.maybe("cut") {
		n := 1 + g.upTo(len(text)-2, "place")
		piece := llm.Event{Kind: e.Kind, Choice: e.Choice, Part: e.Part, Text: string(text[:n])}
		list, text = append(list, piece), text[n:]
	}
	e.Text = string(text)
	return append(list, e)
}

// interleave makes consecutive tool calls begin together and end together.
func (g *generator) interleave(events []llm.Event) (out []llm.Event) {
	for len(events) > 0 {
		n := 0
		if _, ok := events[0].Opened.(llm.ToolCall); ok {
			n = callEvents(events)
		}
		if n == 0 || !g.maybe("beside") {
			n = max(n, 1)
			out, events = append(out, events[:n]...), events[n:]
			continue
		}
		for _, kind := range []llm.EventKind{llm.EventPartStart, llm.EventDelta, llm.EventPartEnd} {
			parts := map[int][]llm.Event{}
			for _, e := range events[:n] {
				if e.Kind == kind {
					parts[e.Part] = append(parts[e.Part], e)
				}
			}
			out = append(out, roundRobin(parts, events[0].Part)...)
		}
		events = events[n:]
	}
	return out
}

// callEvents returns the number of call events at the start.
func callEvents(events []llm.Event) int {
	for i, e := range events {
		if _, ok := e.Opened.(llm.ToolCall); e.Kind == llm.EventFinish || e.Kind == llm.EventPartStart && !ok {
			return i
		}
	}
	return len(events)
}

// roundRobin takes an event of each part in turn.
func roundRobin(parts map[int][]llm.Event, first int) (out []llm.Event) {
	for left := true; left; {
		left = false
		for i := first; i < first+len(parts); i++ {
			if len(parts[i]) > 0 {
				out, parts[i], left = append(out, parts[i][0]), parts[i][1:], true
			}
		}
	}
	return out
}

func (g *generator) merge(lanes [][]llm.Event) (out []llm.Event) {
	for {
		var open []int
		for i, lane := range lanes {
			if len(lane) > 0 {
				open = append(open, i)
			}
		}
		if len(open) == 0 {
			return out
		}
		i := one(g, open, "lane")
		out, lanes[i] = append(out, lanes[i][0]), lanes[i][1:]
	}
}
