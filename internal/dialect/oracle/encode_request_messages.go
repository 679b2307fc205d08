package oracle

import (
	"cmp"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
)

func (e *requestEncoder) writeMessages() error {
	e.Name("messages")
	e.Open('[')
	for i := range e.r.Messages {
		m := &e.r.Messages[i]
		var err error
		if m.Role == llm.Assistant {
			err = e.assistant(m)
		} else {
			err = e.message(m)
		}
		if err != nil {
			return err
		}
	}
	e.Close(']')
	return nil
}

// message writes a system or user message. Tool results are messages of their
// own and split it at their position.
func (e *requestEncoder) message(m *llm.Message) error {
	open, wrote := false, false
	end := func() {
		if open {
			e.Close(']')
			e.end(m)
			open = false
		}
	}
	begin := func() {
		if !open {
			open, wrote = true, true
			e.begin(m)
		}
	}
	for _, p := range m.Parts {
		switch p := p.(type) {
		case llm.ToolResult:
			end()
			wrote = true
			if err := e.result(&p); err != nil {
				return err
			}
		case llm.Text, llm.Refusal, llm.Media:
			begin()
			if err := e.block(p); err != nil {
				return err
			}
		}
	}
	if !wrote {
		begin()
		e.text("")
	}
	end()
	return nil
}

func (e *requestEncoder) begin(m *llm.Message) {
	e.Open('{')
	switch m.Role {
	case llm.System, llm.Developer:
		e.word("role", "SYSTEM")
	default:
		e.word("role", "USER")
	}
	e.Name("content")
	e.Open('[')
}

func (e *requestEncoder) end(m *llm.Message) {
	if m.Name != "" {
		e.word("name", m.Name)
	}
	e.Close('}')
}

// assistant writes a turn of the model. Its thinking is not sent back.
func (e *requestEncoder) assistant(m *llm.Message) error {
	var calls []*llm.ToolCall
	var refusal strings.Builder
	e.Open('{')
	e.word("role", "ASSISTANT")
	e.Name("content")
	e.Open('[')
	for _, p := range m.Parts {
		switch p := p.(type) {
		case llm.ToolCall:
			calls = append(calls, &p)
		case llm.Refusal:
			refusal.WriteString(p.Text)
		case llm.Text:
			if err := e.block(p); err != nil {
				return err
			}
		case llm.Thinking:
			e.changes.LeaveOutThinking()
		}
	}
	e.Close(']')
	if refusal.Len() > 0 {
		e.word("refusal", refusal.String())
	}
	if len(calls) > 0 {
		e.Name("toolCalls")
		e.Open('[')
		for _, c := range calls {
			e.call(c)
		}
		e.Close(']')
	}
	e.end(m)
	return nil
}

// result writes a tool result as a message.
func (e *requestEncoder) result(t *llm.ToolResult) error {
	e.changes.DropCache(t.Cache)
	e.Open('{')
	e.word("role", "TOOL")
	e.word("toolCallId", t.ID)
	e.Name("content")
	e.Open('[')
	if t.Failed {
		e.changes.AdaptNamed("failed tool results", dialect.DescribedAsText)
		e.text("Error:")
	}
	for _, p := range t.Parts {
		if m, ok := p.(llm.Media); ok && m.Kind != llm.Document {
			return dialect.Unsupported(cmp.Or(m.At, "messages"), e.to, "%s in the result of a tool", m.Kind)
		}
		if err := e.block(p); err != nil {
			return err
		}
	}
	e.Close(']')
	e.Close('}')
	return nil
}

func (e *requestEncoder) block(p llm.Part) error {
	switch p := p.(type) {
	case llm.Text:
		e.changes.DropCache(p.Cache)
		e.text(p.Text)
	case llm.Refusal:
		e.text(p.Text)
	case llm.Media:
		return e.medium(&p)
	}
	return nil
}

func (e *requestEncoder) text(text string) {
	e.Open('{')
	e.word("type", "TEXT")
	e.word("text", text)
	e.Close('}')
}

// kinds maps media to the type of content and the name of its member.
var kinds = map[llm.MediaKind][2]string{
	llm.Image: {"IMAGE", "imageUrl"}, llm.Audio: {"AUDIO", "audioUrl"}, llm.Video: {"VIDEO", "videoUrl"},
	llm.Document: {"DOCUMENT", "documentUrl"},
}

// medium writes media by URL, or as a data: URL.
func (e *requestEncoder) medium(m *llm.Media) error {
	path := cmp.Or(m.At, "messages")
	e.changes.DropCache(m.Cache)
	url := m.URL
	switch {
	case m.Text != "" || m.Parts != nil:
		return e.documentText(m, path)
	case m.Data != "" && m.Type == "":
		return dialect.Invalid(path, dialect.CodeMissing, "needs the type of its data")
	case m.Data != "":
		url = "data:" + m.Type + ";base64," + m.Data
	case !strings.HasPrefix(url, "http"):
		return dialect.Unsupported(path, e.to, "%s that is neither data nor at an https address", m.Kind)
	}
	words, ok := kinds[m.Kind]
	if !ok {
		return dialect.Unsupported(path, e.to, "%s", m.Kind)
	}
	e.Open('{')
	e.word("type", words[0])
	e.Name(words[1])
	e.Open('{')
	e.word("url", url)
	switch m.Detail {
	case "auto", "high", "low":
		e.word("detail", strings.ToUpper(m.Detail))
	case "":
	default:
		e.changes.DropNamed("detail")
	}
	e.Close('}')
	e.Close('}')
	return nil
}

// documentText writes a text document as text.
func (e *requestEncoder) documentText(m *llm.Media, path string) error {
	lines := []string{m.Text}
	if m.Text == "" {
		lines = nil
	}
	for _, p := range m.Parts {
		text, ok := p.(llm.Text)
		if !ok {
			return dialect.Unsupported(path, e.to, "documents with anything but text")
		}
		lines = append(lines, text.Text)
	}
	if m.Name != "" {
		lines = append([]string{m.Name + ":"}, lines...)
	}
	e.text(strings.Join(lines, "\n"))
	e.changes.Adapt(llm.FieldParts, dialect.DocumentsAsText)
	return nil
}
