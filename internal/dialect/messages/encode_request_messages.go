package messages

import (
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// turn is one message as sent.
type turn struct {
	role  llm.Role
	parts []llm.Part
	extra []llm.Member
	last  bool // of the assistant, for the model to continue
}

// conversation writes the system prompt and the messages.
func (e *requestEncoder) conversation() {
	system, turns := e.turns()
	if hint := e.jsonHint(); hint != "" {
		system = append(system, llm.Text{Text: hint})
	}
	if len(system) > 0 {
		e.Name("system")
		e.content(system)
	}
	e.Name("messages")
	e.Open('[')
	for i := range turns {
		e.turn(&turns[i])
	}
	e.Close(']')
}

// turns returns the system prompt and the turns of the conversation. System
// messages after the start keep their place for clients of this dialect; those
// of other clients move to the system prompt, since not every model accepts
// them elsewhere.
func (e *requestEncoder) turns() (system []llm.Part, turns []turn) {
	for i := range e.r.Messages {
		m := &e.r.Messages[i]
		switch {
		case m.Role != llm.System && m.Role != llm.Developer:
			turns = e.add(turns, m.Role, e.sendable(m), m.Extra)
		case len(turns) == 0:
			system = append(system, e.sendable(m)...)
		case e.own:
			turns = append(turns, turn{role: llm.System, parts: e.sendable(m), extra: m.Extra})
		default:
			system = append(system, e.sendable(m)...)
			e.changes.Adapt(llm.FieldParts, dialect.SystemFirst)
		}
	}
	if len(turns) == 0 && len(system) > 0 && !e.own {
		// The conversation must have a turn that is not blank.
		e.changes.Adapt(llm.FieldParts, dialect.SystemAsUser)
		return nil, []turn{{role: llm.User, parts: system}}
	}
	if len(turns) > 0 && turns[0].role == llm.Assistant && !e.own {
		turns = append([]turn{{role: llm.User, parts: []llm.Part{e.changes.BeginWithUser()}}}, turns...)
	}
	if n := len(turns); n > 0 && turns[n-1].role == llm.Assistant && !e.own {
		turns[n-1].last = true
	}
	return system, turns
}

// add appends a turn, or merges it with the last turn if that has the same
// role. Tool results come first, right after the calls.
func (e *requestEncoder) add(turns []turn, role llm.Role, parts []llm.Part, extra []llm.Member) []turn {
	if e.own {
		return append(turns, turn{role: role, parts: parts, extra: extra})
	}
	if len(parts) == 0 {
		return turns
	}
	if n := len(turns); n > 0 && turns[n-1].role == role {
		turns[n-1].parts = append(turns[n-1].parts, parts...)
		return turns
	}
	return append(turns, turn{role: role, parts: parts})
}

func resultsFirst(parts []llm.Part) []llm.Part {
	sorted := make([]llm.Part, 0, len(parts))
	for _, first := range [...]bool{true, false} {
		for _, p := range parts {
			if _, ok := p.(llm.ToolResult); ok == first {
				sorted = append(sorted, p)
			}
		}
	}
	return sorted
}

// sendable returns the parts of a message that the protocol accepts: no blank
// text, no thinking of other vendors.
func (e *requestEncoder) sendable(m *llm.Message) []llm.Part {
	parts := make([]llm.Part, 0, len(m.Parts))
	for _, p := range m.Parts {
		switch part := p.(type) {
		case llm.Text:
			if !e.own && strings.TrimSpace(part.Text) == "" {
				continue
			}
		case llm.Refusal:
			p = llm.Text{Text: part.Text}
		case llm.Thinking:
			if !usable(part) {
				e.changes.LeaveOutThinking()
				continue
			}
		}
		parts = append(parts, p)
	}
	return parts
}

func (e *requestEncoder) turn(t *turn) {
	if !e.own {
		t.parts = resultsFirst(t.parts)
	}
	if t.last {
		trimLast(t.parts)
	}
	e.Open('{')
	e.text("role", string(t.role))
	e.Name("content")
	e.content(t.parts)
	if e.own {
		e.members(t.extra)
	}
	e.Close('}')
}

// trimLast removes trailing white space from the text that the model continues,
// which is rejected there.
func trimLast(parts []llm.Part) {
	if n := len(parts); n > 0 {
		if text, ok := parts[n-1].(llm.Text); ok {
			text.Text = strings.TrimRight(text.Text, " \t\r\n")
			parts[n-1] = text
		}
	}
}

// content writes the blocks of a turn.
func (e *requestEncoder) content(parts []llm.Part) {
	e.Open('[')
	for _, p := range parts {
		e.part(p)
	}
	e.Close(']')
}

func (e *requestEncoder) members(list []llm.Member) {
	for _, m := range list {
		e.Key(m.Name)
		e.Raw(m.Value)
	}
}

func (e *requestEncoder) part(p llm.Part) {
	switch part := p.(type) {
	case llm.Text:
		e.words(&part)
	case llm.Thinking:
		e.thought(&part)
	case llm.Media:
		e.media(&part)
	case llm.ToolCall:
		e.call(&part)
	case llm.ToolResult:
		e.result(&part)
	case llm.Native:
		e.Raw(part.Raw)
	}
}

func (e *requestEncoder) words(t *llm.Text) {
	e.Open('{')
	e.text("type", "text")
	e.Name("text")
	e.String(t.Text)
	e.citations(t.Citations)
	e.cache(t.Cache)
	e.Close('}')
}

// citations writes citations of this dialect. The vendor rejects others, since
// it cannot verify them.
func (e *requestEncoder) citations(list []llm.Citation) {
	open := false
	for _, c := range list {
		if c.Dialect != own || c.Raw == nil {
			continue
		}
		if !open {
			e.Name("citations")
			e.Open('[')
			open = true
		}
		e.Raw(c.Raw)
	}
	if open {
		e.Close(']')
	}
}

func (e *requestEncoder) thought(t *llm.Thinking) {
	e.Open('{')
	if t.Redacted {
		e.text("type", "redacted_thinking")
		e.text("data", t.Signature.Value)
	} else {
		e.text("type", "thinking")
		e.Name("thinking")
		e.String(t.Text)
		e.text("signature", t.Signature.Value)
	}
	e.Close('}')
}

func (e *requestEncoder) call(c *llm.ToolCall) {
	e.Open('{')
	e.text("type", "tool_use")
	e.text("id", dialect.PlainCallID.Fit(c.ID))
	e.text("name", c.Name)
	e.Name("input")
	switch v := valueOf([]byte(c.Arguments)); {
	case c.Custom:
		e.Open('{')
		e.Name(customInput)
		e.String(c.Arguments)
		e.Close('}')
	case strings.TrimSpace(c.Arguments) == "":
		e.Raw(emptyObject)
	case v.Kind() == jsonedit.Object:
		e.Raw(v.Raw())
	}
	if e.own {
		e.members(c.Extra)
	}
	e.cache(c.Cache)
	e.Close('}')
}

var emptyObject = []byte("{}")

func (e *requestEncoder) result(r *llm.ToolResult) {
	e.Open('{')
	e.text("type", "tool_result")
	e.text("tool_use_id", dialect.PlainCallID.Fit(r.ID))
	if parts := e.sendable(&llm.Message{Parts: r.Parts}); len(parts) > 0 {
		e.Name("content")
		e.content(parts)
	}
	if r.Failed {
		e.Name("is_error")
		e.Bool(true)
	}
	if e.own {
		e.members(r.Extra)
	}
	e.cache(r.Cache)
	e.Close('}')
}
