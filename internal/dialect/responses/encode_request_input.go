package responses

import (
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// writeMessages writes the leading system message as instructions and the others
// as items.
func (s *requestEncoder) writeMessages() {
	list := s.r.Messages
	if text, ok := instructions(s.r); ok && (s.same || len(list) > 1) { // the input must not be empty
		s.b.Name("instructions")
		s.b.String(text)
		s.tellCache(list[0].Parts[0].(llm.Text).Cache)
		list = list[1:]
	}
	s.b.Name("input")
	if text, ok := s.lone(list); ok {
		s.b.String(text)
		return
	}
	s.b.Open('[')
	for i := range list {
		s.message(&list[i])
	}
	s.b.Close(']')
}

// instructions returns the text of a leading system message that can be sent as
// instructions. One that a client of this dialect sent as an item stays an
// item.
func instructions(r *llm.Request) (string, bool) {
	if len(r.Messages) == 0 {
		return "", false
	}
	m := &r.Messages[0]
	if m.Role != llm.System || m.Name != "" || len(m.Extra) > 0 || len(m.Parts) != 1 {
		return "", false
	}
	if r.Dialect == own && m.At != "instructions" && m.At != "" {
		return "", false
	}
	t, ok := m.Parts[0].(llm.Text)
	return t.Text, ok && (t.Cache == nil || r.Dialect != own)
}

// lone returns the text of a conversation with a single text message, which
// needs no items.
func (s *requestEncoder) lone(list []llm.Message) (string, bool) {
	if len(list) != 1 || list[0].Role != llm.User || len(list[0].Parts) != 1 || len(list[0].Extra) > 0 {
		return "", false
	}
	t, ok := list[0].Parts[0].(llm.Text)
	return t.Text, ok && t.Cache == nil
}

// message writes the items of a message: content between calls, results and
// thinking becomes items of its own.
func (s *requestEncoder) message(m *llm.Message) {
	extra := m.Extra
	if !s.same {
		extra = nil
	}
	var run []llm.Part
	flush := func() {
		if len(run) > 0 {
			s.messageItem(m.Role, run, extra)
			run, extra = nil, nil
		}
	}
	if len(m.Parts) == 0 {
		s.messageItem(m.Role, nil, extra)
	}
	for i, p := range m.Parts {
		if i > 0 && halves(m.Parts[i-1], p) {
			continue
		}
		media, ok := p.(llm.Media)
		switch shown := ok && m.Role == llm.Assistant; {
		case shown && media.Kind == llm.Image && media.Data != "":
			flush()
			s.drawnItem(media)
		case isContent(p):
			run = append(run, p)
		default:
			flush()
			s.item(p, m.Parts[i+1:])
		}
	}
	flush()
}

// isContent reports whether a part is written inside a message item.
func isContent(p llm.Part) bool {
	switch part := p.(type) {
	case llm.Text, llm.Refusal, llm.Media:
		return true
	case llm.Native:
		return strings.HasPrefix(part.Type, partMark)
	}
	return false
}

// item writes a part that is an item of its own.
func (s *requestEncoder) item(p llm.Part, rest []llm.Part) {
	switch part := p.(type) {
	case llm.Native:
		s.b.Raw(part.Raw)
	case llm.Thinking:
		s.thinking(&part, rest)
	case llm.ToolCall:
		s.call(&part)
	case llm.ToolResult:
		s.result(&part)
	}
}

// thinking writes thinking if the provider's models can read it: they signed
// it, or a client of this dialect refers to it. If rest begins with the other
// half of the item, both are written as one.
func (s *requestEncoder) thinking(t *llm.Thinking, rest []llm.Part) {
	summary, content := t.Text, ""
	if s.same && !t.Summary { // others cannot tell, and the vendor rejects text that it encrypted
		summary, content = "", t.Text
	}
	sign := t.Signature
	if len(rest) > 0 && halves(*t, rest[0]) {
		half := rest[0].(llm.Thinking)
		content, sign = half.Text, half.Signature
	}
	signed := sign.Value != "" && sign.Vendor == vendorOf(s.to)
	if !signed && !(s.same && sign.Value == "") {
		s.changes.LeaveOutThinking()
		return
	}
	s.b.Open('{')
	s.b.Name("type")
	s.b.String("reasoning")
	s.name("id", t.ID)
	s.b.Name("summary")
	writeTexts(&s.b, "summary_text", summary)
	if content != "" {
		s.b.Name("content")
		writeTexts(&s.b, "reasoning_text", content)
	}
	if signed {
		s.b.Name("encrypted_content")
		s.b.String(sign.Value)
	}
	s.b.Close('}')
}

// halves reports whether two parts are the summary and the text of one item.
func halves(a, b llm.Part) bool {
	first, ok := a.(llm.Thinking)
	second, both := b.(llm.Thinking)
	return ok && both && first.ID != "" && first.ID == second.ID && first.Summary && !second.Summary && first.Signature.Value == ""
}

// writeTexts writes an array of one text part, or an empty one.
func writeTexts(b *jsonedit.Builder, typ, text string) {
	b.Open('[')
	if text != "" {
		b.Open('{')
		b.Name("type")
		b.String(typ)
		b.Name("text")
		b.String(text)
		b.Close('}')
	}
	b.Close(']')
}

func (s *requestEncoder) call(c *llm.ToolCall) {
	s.tellCache(c.Cache)
	s.b.Open('{')
	s.b.Name("type")
	if c.Custom {
		s.b.String("custom_tool_call")
	} else {
		s.b.String("function_call")
	}
	s.b.Name("call_id")
	s.b.String(dialect.ShortCallID.Fit(c.ID))
	s.b.Name("name")
	space := (*namespace)(nil)
	if s.same {
		space = spaceOf(c.Extra)
	}
	if space != nil {
		s.b.String(space.tool)
		s.name("namespace", space.name)
	} else {
		s.b.String(c.Name)
	}
	switch {
	case c.Custom:
		s.b.Name("input")
		s.b.String(c.Arguments)
	case c.Arguments == "":
		s.b.Name("arguments")
		s.b.String("{}")
	default:
		s.b.Name("arguments")
		s.b.String(c.Arguments)
	}
	s.extra(c.Extra)
	s.b.Close('}')
}

// extra writes the additional members of an item for a client of this dialect.
func (s *requestEncoder) extra(list []llm.Member) {
	if !s.same {
		return
	}
	for _, m := range list {
		if m.Name != spaceMember {
			s.b.Key(m.Name)
			s.b.Raw(m.Value)
		}
	}
}

// result writes a tool result. The protocol cannot mark a failure, so the text
// states it.
func (s *requestEncoder) result(r *llm.ToolResult) {
	s.tellCache(r.Cache)
	s.b.Open('{')
	s.b.Name("type")
	if r.Custom {
		s.b.String("custom_tool_call_output")
	} else {
		s.b.String("function_call_output")
	}
	s.b.Name("call_id")
	s.b.String(dialect.ShortCallID.Fit(r.ID))
	s.b.Name("output")
	parts := r.Parts
	if r.Failed {
		parts = append([]llm.Part{llm.Text{Text: "Error: "}}, parts...)
	}
	if text, ok := allText(parts); ok && (len(parts) < 2 || r.Failed) {
		s.b.String(text)
	} else {
		s.content(llm.User, parts)
	}
	s.extra(r.Extra)
	s.b.Close('}')
}

// allText returns the text of parts if all of them are text.
func allText(parts []llm.Part) (string, bool) {
	var b strings.Builder
	for _, p := range parts {
		t, ok := p.(llm.Text)
		if !ok || t.Cache != nil || len(t.Citations) > 0 {
			return "", false
		}
		b.WriteString(t.Text)
	}
	return b.String(), true
}

// messageItem writes parts as a message.
func (s *requestEncoder) messageItem(role llm.Role, parts []llm.Part, extra []llm.Member) {
	s.b.Open('{')
	s.b.Name("type")
	s.b.String("message")
	s.b.Name("role")
	s.b.String(string(role))
	s.b.Name("content")
	if text, ok := allText(parts); ok && len(parts) == 1 {
		s.b.String(text)
	} else {
		s.content(role, parts)
	}
	s.extra(extra)
	s.b.Close('}')
}

// tellCache records a cache mark as dropped: the protocol's own provider caches
// automatically.
func (s *requestEncoder) tellCache(c *llm.Cache) {
	if c != nil && !s.same {
		s.changes.Drop(llm.FieldCache)
	}
}

// unsupported rejects a part that cannot be sent.
func (s *requestEncoder) unsupported(at, format string, args ...any) {
	if at == "" {
		at = s.r.NameOf(llm.FieldParts)
	}
	s.fail(dialect.Unsupported(at, s.to, format, args...))
}
