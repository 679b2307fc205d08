package ollama

import (
	"cmp"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

func (e *requestEncoder) writeMessages() error {
	e.Name("messages")
	e.Open('[')
	for i := range e.r.Messages {
		m := &e.r.Messages[i]
		if err := e.message(m); err != nil {
			return err
		}
	}
	e.Close(']')
	return nil
}

// message writes a message. Tool results are messages of their own and split it
// at their position.
func (e *requestEncoder) message(m *llm.Message) error {
	now := turn{role: "user"}
	switch m.Role {
	case llm.System, llm.Developer:
		now.role = "system"
	case llm.Assistant:
		now.role = "assistant"
	}
	wrote := false
	for _, p := range m.Parts {
		result, ok := p.(llm.ToolResult)
		if !ok {
			if err := e.gather(&now, p); err != nil {
				return err
			}
			continue
		}
		if !now.empty() {
			e.write(&now)
			now = turn{role: now.role}
		}
		if err := e.result(&result); err != nil {
			return err
		}
		wrote = true
	}
	if !wrote || !now.empty() {
		e.write(&now)
	}
	return nil
}

// turn is one message of Ollama's protocol: a text, a thinking text, and a list
// of images.
type turn struct {
	role     string
	texts    []string
	thoughts []string
	images   []string
	calls    []*llm.ToolCall
	result   *llm.ToolResult // of a tool message
}

func (t *turn) empty() bool {
	return len(t.texts)+len(t.thoughts)+len(t.images)+len(t.calls) == 0
}

// gather adds a part to a message.
func (e *requestEncoder) gather(t *turn, p llm.Part) error {
	switch p := p.(type) {
	case llm.Text:
		e.changes.DropCache(p.Cache)
		t.texts = append(t.texts, p.Text)
	case llm.Refusal:
		t.texts = append(t.texts, p.Text)
	case llm.Thinking:
		if p.Text != "" && t.role == "assistant" {
			t.thoughts = append(t.thoughts, p.Text)
		} else {
			e.changes.LeaveOutThinking()
		}
	case llm.ToolCall:
		e.changes.DropCache(p.Cache)
		e.names[p.ID] = p.Name
		t.calls = append(t.calls, &p)
	case llm.Media:
		e.changes.DropCache(p.Cache)
		return e.medium(t, &p)
	}
	return nil
}

// medium adds an image, or a document as text. Other media are an error.
// https://docs.ollama.com/capabilities/vision
func (e *requestEncoder) medium(t *turn, m *llm.Media) error {
	path := cmp.Or(m.At, "messages")
	switch {
	case m.Kind == llm.Document:
		text, err := dialect.DocumentText(m, path, e.to)
		if err != nil {
			return err
		}
		if m.Name != "" {
			text = m.Name + ":\n" + text
		}
		t.texts = append(t.texts, text)
		e.changes.Adapt(llm.FieldParts, dialect.DocumentsAsText)
		return nil
	case m.Kind != llm.Image:
		return dialect.Unsupported(path, e.to, "%s", m.Kind)
	case m.Data == "":
		return dialect.Unsupported(path, e.to, "an image that is not given as base64")
	}
	if m.Detail != "" && m.Detail != "auto" {
		e.changes.DropNamed("detail")
	}
	t.images = append(t.images, m.Data)
	return nil
}

// result writes a tool result as a message.
func (e *requestEncoder) result(r *llm.ToolResult) error {
	e.changes.DropCache(r.Cache)
	t := turn{role: "tool", result: r}
	for _, p := range r.Parts {
		if err := e.gather(&t, p); err != nil {
			return err
		}
	}
	if r.Failed {
		e.changes.AdaptNamed("failed tool results", dialect.DescribedAsText)
		t.texts = append([]string{"Error:"}, t.texts...)
	}
	e.write(&t)
	return nil
}

// write writes a message.
func (e *requestEncoder) write(t *turn) {
	e.Open('{')
	e.Name("role")
	e.String(t.role)
	e.Name("content")
	between := "\n"
	if t.role == "assistant" {
		between = "" // its text may be cut anywhere
	}
	e.String(strings.Join(t.texts, between))
	if len(t.thoughts) > 0 {
		e.Name("thinking")
		e.String(strings.Join(t.thoughts, "\n"))
	}
	if len(t.images) > 0 {
		e.Name("images")
		e.Open('[')
		for _, data := range t.images {
			e.String(data)
		}
		e.Close(']')
	}
	if len(t.calls) > 0 {
		e.Name("tool_calls")
		e.Open('[')
		for i, c := range t.calls {
			e.call(int64(i), c)
		}
		e.Close(']')
	}
	if t.result != nil {
		e.Name("tool_name")
		e.String(cmp.Or(t.result.Name, e.names[t.result.ID]))
		e.Name("tool_call_id")
		e.String(t.result.ID)
	}
	e.Close('}')
}

// call writes a tool call, whose arguments are an object.
func (e *requestEncoder) call(index int64, c *llm.ToolCall) {
	e.Open('{')
	e.Name("id")
	e.String(c.ID)
	e.Name("function")
	e.Open('{')
	e.Name("index")
	e.Int(index)
	e.Name("name")
	e.String(c.Name)
	e.Name("arguments")
	v, err := jsonedit.ParseValue([]byte(c.Arguments))
	switch {
	case c.Arguments == "" && !c.Custom:
		e.Raw([]byte("{}"))
	case !c.Custom && err == nil && v.Kind() == jsonedit.Object:
		e.Raw(v.Raw())
	default: // of a custom tool
		e.Open('{')
		e.Name("input")
		e.String(c.Arguments)
		e.Close('}')
	}
	e.Close('}')
	e.Close('}')
}
