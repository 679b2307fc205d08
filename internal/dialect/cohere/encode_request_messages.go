package cohere

import (
	"strings"

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
			err = e.messageText(m)
		}
		if err != nil {
			return err
		}
	}
	e.Close(']')
	return nil
}

// messageText writes a system or user message. Tool results are messages of
// their own and split it at their position.
func (e *requestEncoder) messageText(m *llm.Message) error {
	role := "user"
	if m.Role == llm.System || m.Role == llm.Developer {
		role = "system"
	}
	var held []llm.Part
	wrote := false
	flush := func() error {
		if len(held) == 0 {
			return nil
		}
		wrote = true
		err := e.plain(role, held)
		held = nil
		return err
	}
	for _, p := range m.Parts {
		if result, ok := p.(llm.ToolResult); ok {
			if err := flush(); err != nil {
				return err
			}
			if err := e.result(&result); err != nil {
				return err
			}
			wrote = true
			continue
		}
		moved, err := e.document(p)
		if err != nil {
			return err
		}
		if !moved && carries(p) {
			held = append(held, p)
		}
	}
	if !wrote && len(held) == 0 {
		held = []llm.Part{llm.Text{}}
	}
	return flush()
}

// carries reports whether a part can be in a system or user message.
func carries(p llm.Part) bool {
	switch p.(type) {
	case llm.Thinking, llm.ToolCall:
		return false
	}
	return true
}

// plain writes a message with text and images.
func (e *requestEncoder) plain(role string, parts []llm.Part) error {
	e.Open('{')
	e.Name("role")
	e.String(role)
	e.Name("content")
	if text, ok := onlyText(parts); ok {
		e.changes.DropCache(text.Cache)
		e.String(text.Text)
		e.Close('}')
		return nil
	}
	e.Open('[')
	for _, p := range parts {
		if err := e.block(p); err != nil {
			return err
		}
	}
	e.Close(']')
	e.Close('}')
	return nil
}

func onlyText(parts []llm.Part) (llm.Text, bool) {
	if len(parts) != 1 {
		return llm.Text{}, false
	}
	text, ok := parts[0].(llm.Text)
	return text, ok
}

// block writes a content block.
func (e *requestEncoder) block(p llm.Part) error {
	switch p := p.(type) {
	case llm.Text:
		e.changes.DropCache(p.Cache)
		e.text("text", p.Text)
	case llm.Refusal:
		e.text("text", p.Text)
	case llm.Thinking:
		e.text("thinking", p.Text)
	case llm.Media:
		return e.image(&p)
	}
	return nil
}

// text writes a block whose type is also the name of the member with its text.
func (e *requestEncoder) text(kind, text string) {
	e.Open('{')
	e.Name("type")
	e.String(kind)
	e.Name(kind)
	e.String(text)
	e.Close('}')
}

// assistant writes a turn of the model. Text and thinking before tool calls
// become the plan, as Cohere's models write it.
// https://docs.cohere.com/docs/tool-use-overview
func (e *requestEncoder) assistant(m *llm.Message) error {
	var content, calls []llm.Part
	for _, p := range m.Parts {
		switch p := p.(type) {
		case llm.ToolCall:
			calls = append(calls, p)
		case llm.Thinking:
			if p.Text != "" {
				content = append(content, p)
			} else {
				e.changes.LeaveOutThinking()
			}
		case llm.Text, llm.Refusal:
			content = append(content, p)
		}
	}
	if len(calls) > 0 {
		e.calling(content, calls)
		return nil
	}
	if len(content) == 0 {
		content = []llm.Part{llm.Text{}}
	}
	return e.plain("assistant", content)
}

func (e *requestEncoder) calling(content, calls []llm.Part) {
	e.Open('{')
	e.Name("role")
	e.String("assistant")
	if plan := e.planBefore(content); plan != "" {
		e.Name("tool_plan")
		e.String(plan)
	}
	e.Name("tool_calls")
	e.Open('[')
	for _, p := range calls {
		call := p.(llm.ToolCall)
		e.call(&call)
	}
	e.Close(']')
	e.Close('}')
}

// planBefore returns the thinking and text before tool calls.
func (e *requestEncoder) planBefore(content []llm.Part) string {
	var lines []string
	said := false // the last line is text, which may be cut anywhere
	for _, p := range content {
		switch p := p.(type) {
		case llm.Thinking:
			lines, said = append(lines, p.Text), false
		case llm.Text:
			e.changes.DropCache(p.Cache)
			if p.Text != "" {
				if said {
					lines[len(lines)-1] += p.Text
				} else {
					lines = append(lines, p.Text)
				}
				said = true
				e.changes.AdaptNamed("text next to tool calls", "tool_plan")
			}
		case llm.Refusal:
			lines, said = append(lines, p.Text), false
		}
	}
	return strings.Join(lines, "\n")
}
