package chat

import (
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
)

func (e *requestEncoder) messages() {
	e.Open('[')
	if text := e.formatInstruction(); text != "" {
		e.Open('{')
		e.textMember("role", "system")
		e.textMember("content", text)
		e.Close('}')
	}
	loop := e.loop()
	for i := range e.r.Messages {
		m := &e.r.Messages[i]
		switch m.Role {
		case llm.Assistant:
			e.assistant(m, i > loop)
		case llm.User:
			e.user(m)
		default:
			e.head(e.role(m.Role), m)
			e.content(m.Parts)
			e.Close('}')
		}
	}
	e.Close(']')
}

// loop returns the index of the last message with user content other than tool
// results. The assistant's thinking after it belongs to the current tool loop
// and is sent again.
func (e *requestEncoder) loop() int {
	for i := len(e.r.Messages) - 1; i >= 0; i-- {
		m := &e.r.Messages[i]
		if m.Role != llm.User {
			continue
		}
		for _, p := range m.Parts {
			if _, ok := p.(llm.ToolResult); !ok {
				return i
			}
		}
	}
	return -1
}

// role returns the role for system messages. Only the vendor has developer.
func (e *requestEncoder) role(r llm.Role) string {
	if r == llm.Developer && !e.profile.Vendor && e.r.Dialect != dialectName {
		return string(llm.System)
	}
	return string(r)
}

// head begins a message.
func (e *requestEncoder) head(role string, m *llm.Message) {
	e.Open('{')
	e.textMember("role", role)
	if !e.profile.NoNames {
		e.optionalText("name", m.Name)
	}
	if e.r.Dialect == dialectName {
		e.extra(m.Extra, "role", "name", "content")
	}
}

// user writes a user message after its tool results, which are messages of
// their own. Media in tool results move to the user message, since a result is
// text in this dialect.
func (e *requestEncoder) user(m *llm.Message) {
	var rest []llm.Part
	for _, p := range m.Parts {
		if result, ok := p.(llm.ToolResult); ok {
			rest = append(rest, e.result(&result)...)
		}
	}
	results := len(rest) > 0
	for _, p := range m.Parts {
		if _, ok := p.(llm.ToolResult); ok {
			results = true
			continue
		}
		rest = append(rest, p)
	}
	if results && len(rest) == 0 {
		return
	}
	e.head("user", m)
	e.content(rest)
	e.Close('}')
}

// result writes a tool result and returns its media, which have no place in it.
func (e *requestEncoder) result(r *llm.ToolResult) (media []llm.Part) {
	var words []llm.Part
	for _, p := range r.Parts {
		if _, ok := p.(llm.Text); ok {
			words = append(words, p)
		} else {
			media = append(media, p)
		}
	}
	if r.Failed {
		words = append([]llm.Part{llm.Text{Text: "Error: "}}, words...)
	}
	e.Open('{')
	e.textMember("role", "tool")
	e.textMember("tool_call_id", e.callID(r.ID))
	if e.r.Dialect == dialectName || e.profile.ShortIDs {
		e.optionalText("name", r.Name)
	}
	if r.Failed || !e.profile.ContentParts {
		e.textMember("content", joinText(words, "\n"))
	} else {
		e.content(words)
	}
	e.mark(r.Cache)
	e.Close('}')
	if len(media) == 0 {
		return nil
	}
	e.changes.Adapt(llm.FieldParts, dialect.MediaInUserMessage)
	return append([]llm.Part{llm.Text{Text: "What the tool call " + e.callID(r.ID) + " gave:"}}, media...)
}

// joinText joins the text of parts. The text of an assistant has nothing between
// its parts, which are cut anywhere.
func joinText(parts []llm.Part, between string) string {
	var all strings.Builder
	for i, p := range parts {
		text := p.(llm.Text).Text
		if i > 0 && !strings.HasSuffix(all.String(), "Error: ") {
			all.WriteString(between)
		}
		all.WriteString(text)
	}
	return all.String()
}

// callID returns the id of a call as the provider accepts it.
func (e *requestEncoder) callID(id string) string { return callIDs(e.profile).Fit(id) }

// callIDs returns the rule for ids of calls.
func callIDs(p *dialect.ChatProfile) dialect.NameRule {
	if p.ShortIDs {
		return dialect.NineCallID
	}
	return dialect.ShortCallID
}

// assistantParts holds the parts of an assistant message by their place in the
// dialect.
type assistantParts struct {
	words   []llm.Part // Text and the parts between texts
	refusal string
	thought []llm.Thinking
	calls   []llm.ToolCall
	audio   string
}

func (e *requestEncoder) sort(m *llm.Message) (s assistantParts) {
	for _, p := range m.Parts {
		switch part := p.(type) {
		case llm.Text:
			part.Citations = nil
			s.words = append(s.words, part)
		case llm.Refusal:
			s.refusal += part.Text
		case llm.Thinking:
			s.thought = append(s.thought, part)
		case llm.ToolCall:
			s.calls = append(s.calls, part)
		case llm.Media:
			if part.Kind == llm.Audio && part.FileID != "" {
				s.audio = part.FileID
				continue
			}
			s.words = append(s.words, part)
		case llm.Native:
			s.words = append(s.words, part)
		}
	}
	if s.refusal != "" && !e.profile.Vendor && e.r.Dialect != dialectName {
		s.words = append(s.words, llm.Text{Text: s.refusal})
		s.refusal = ""
	}
	return s
}

// assistant writes an assistant message. Thinking is sent only where the
// provider wants it back: within a loop of tool calls.
func (e *requestEncoder) assistant(m *llm.Message, loop bool) {
	s := e.sort(m)
	e.head("assistant", m)
	e.thought(&s, loop)
	switch parted := e.profile.History == dialect.ThinkingParts && len(s.thought) > 0; {
	case parted:
		e.partedThought(&s)
	case len(s.words) > 0 && (!e.profile.ContentParts || len(s.words) == 1) && allText(s.words):
		e.content([]llm.Part{llm.Text{Text: joinText(s.words, ""), Cache: lastCache(s.words)}})
	case len(s.words) > 0:
		e.content(s.words)
	case len(s.calls) == 0 && s.refusal == "" && s.audio == "" || e.profile.ShortIDs:
		e.textMember("content", "")
	default:
		e.Name("content")
		e.Null()
	}
	e.optionalText("refusal", s.refusal)
	if s.audio != "" {
		e.Name("audio")
		e.Open('{')
		e.textMember("id", s.audio)
		e.Close('}')
	}
	e.toolCalls(s.calls)
	e.Close('}')
}

func allText(parts []llm.Part) bool {
	for _, p := range parts {
		if _, ok := p.(llm.Text); !ok {
			return false
		}
	}
	return true
}

func lastCache(parts []llm.Part) *llm.Cache {
	return parts[len(parts)-1].(llm.Text).Cache
}

func (e *requestEncoder) toolCalls(calls []llm.ToolCall) {
	if len(calls) == 0 {
		return
	}
	e.Name("tool_calls")
	e.Open('[')
	for i := range calls {
		call := calls[i]
		call.ID, call.Arguments = e.callID(call.ID), argumentsText(&call)
		if e.wraps(call.Custom) {
			call.Custom, call.Arguments = false, dialect.WrapText(call.Arguments)
		}
		signed := e.r.Dialect == dialectName || e.profile.GoogleSigned && call.Signature.Vendor == llm.Google
		e.call(&call, -1, signed)
	}
	e.Close(']')
}
