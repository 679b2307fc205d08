package cohere

import (
	"cmp"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// image writes an image. An image that Cohere's models cannot read is an error.
// https://docs.cohere.com/docs/image-inputs
func (e *requestEncoder) image(m *llm.Media) error {
	path := cmp.Or(m.At, "messages")
	e.changes.DropCache(m.Cache)
	url := m.URL
	switch {
	case m.Kind != llm.Image:
		return dialect.Unsupported(path, e.to, "%s", m.Kind)
	case m.Data != "":
		url = "data:" + cmp.Or(m.Type, "image/png") + ";base64," + m.Data
	case url == "":
		return dialect.Unsupported(path, e.to, "an image that was uploaded elsewhere")
	case !strings.HasPrefix(url, "http"):
		return dialect.Unsupported(path, e.to, "an image that is not at an https address")
	}
	e.Open('{')
	e.Name("type")
	e.String("image_url")
	e.Name("image_url")
	e.Open('{')
	e.Name("url")
	e.String(url)
	switch m.Detail {
	case "low", "high", "auto":
		e.Name("detail")
		e.String(m.Detail)
	case "":
	default:
		e.changes.DropNamed("detail")
	}
	e.Close('}')
	e.Close('}')
	return nil
}

// document moves a text document to the list of documents. It returns false for
// other parts.
// https://docs.cohere.com/docs/retrieval-augmented-generation-rag
func (e *requestEncoder) document(p llm.Part) (bool, error) {
	m, ok := p.(llm.Media)
	if !ok || m.Kind != llm.Document {
		return false, nil
	}
	text, err := dialect.DocumentText(&m, cmp.Or(m.At, "messages"), e.to)
	if err != nil {
		return false, err
	}
	e.changes.DropCache(m.Cache)
	b := jsonedit.Append(nil)
	b.Open('{')
	appendData(&b, &m, text)
	b.Close('}')
	e.documents = append(e.documents, b.Bytes())
	e.changes.Adapt(llm.FieldParts, dialect.DocumentsSeparate)
	return true, nil
}

// appendData writes the data member of a document.
func appendData(b *jsonedit.Builder, m *llm.Media, text string) {
	b.Name("data")
	b.Open('{')
	b.Name("text")
	b.String(text)
	if m.Name != "" {
		b.Name("title")
		b.String(m.Name)
	}
	if m.Context != "" {
		b.Name("context")
		b.String(m.Context)
	}
	b.Close('}')
}

// result writes a tool result as a message.
func (e *requestEncoder) result(t *llm.ToolResult) error {
	e.changes.DropCache(t.Cache)
	e.Open('{')
	e.Name("role")
	e.String("tool")
	e.Name("tool_call_id")
	e.String(t.ID)
	e.Name("content")
	text, ok := onlyText(t.Parts)
	if t.Failed {
		e.changes.AdaptNamed("failed tool results", dialect.DescribedAsText)
	}
	if ok || len(t.Parts) == 0 {
		e.changes.DropCache(text.Cache)
		e.String(toolResultText(t, text.Text))
	} else if err := e.resultBlocks(t); err != nil {
		return err
	}
	e.Close('}')
	return nil
}

// resultBlocks writes each part of a result as a document, which the model can
// cite.
func (e *requestEncoder) resultBlocks(t *llm.ToolResult) error {
	e.Open('[')
	first := true
	for _, p := range t.Parts {
		m, isMedia := p.(llm.Media)
		if isMedia && m.Kind != llm.Document {
			return dialect.Unsupported(cmp.Or(m.At, cmp.Or(t.At, "messages")), e.to, "%s in the result of a tool", m.Kind)
		}
		if native, ok := p.(llm.Native); ok {
			if native.Dialect == name {
				e.Raw(native.Raw)
			}
			continue
		}
		e.Open('{')
		e.Name("type")
		e.String("document")
		e.Name("document")
		e.Open('{')
		if err := e.piece(t, p, first); err != nil {
			return err
		}
		first = false
		e.Close('}')
		e.Close('}')
	}
	e.Close(']')
	return nil
}

// piece writes the data of a document for a part of a result.
func (e *requestEncoder) piece(t *llm.ToolResult, p llm.Part, first bool) error {
	if m, ok := p.(llm.Media); ok {
		text, err := dialect.DocumentText(&m, cmp.Or(m.At, "messages"), e.to)
		if err == nil {
			appendData(&e.Builder, &m, text)
		}
		return err
	}
	text, _ := p.(llm.Text)
	e.changes.DropCache(text.Cache)
	e.Name("data")
	if first {
		e.String(toolResultText(t, text.Text))
	} else {
		e.String(text.Text)
	}
	return nil
}

// toolResultText returns the text of a result, with a prefix if it is an error.
func toolResultText(t *llm.ToolResult, text string) string {
	if t.Failed {
		return "Error: " + text
	}
	return text
}
