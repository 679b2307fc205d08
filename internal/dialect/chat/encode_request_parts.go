package chat

import (
	"cmp"
	"strings"

	"modelgate/internal/model/llm"
)

// content writes the parts of a message; a single text is written as a string.
func (e *requestEncoder) content(parts []llm.Part) {
	e.Name("content")
	if len(parts) == 0 {
		e.String("")
		return
	}
	if text, ok := parts[0].(llm.Text); ok && len(parts) == 1 && (text.Cache == nil || !e.profile.Cache && e.r.Dialect != dialectName) {
		if text.Cache != nil {
			e.changes.Drop(llm.FieldCache)
		}
		e.String(text.Text)
		return
	}
	e.parts(parts)
}

func (e *requestEncoder) parts(parts []llm.Part) {
	e.Open('[')
	for _, p := range parts {
		e.part(p)
	}
	e.Close(']')
}

func (e *requestEncoder) part(p llm.Part) {
	switch part := p.(type) {
	case llm.Text:
		e.Open('{')
		e.textMember("type", "text")
		e.textMember("text", part.Text)
		e.mark(part.Cache)
		e.Close('}')
	case llm.Media:
		e.mediaPart(&part)
	case llm.Refusal:
		e.Open('{')
		e.textMember("type", "refusal")
		e.textMember("refusal", part.Text)
		e.Close('}')
	case llm.Native:
		e.Raw(part.Raw)
	}
}

// mediaPart writes media. Media that the provider does not support are an
// error.
func (e *requestEncoder) mediaPart(m *llm.Media) {
	switch {
	case m.Text != "":
		e.part(llm.Text{Text: titled(m, m.Text), Cache: m.Cache})
		return
	case m.Parts != nil:
		e.flat(m)
		return
	}
	if why := e.mediaProblem(m); why != "" {
		e.refuse(cmp.Or(m.At, e.r.NameOf(llm.FieldParts)), "%s", why)
	}
	e.Open('{')
	word := e.profile.URLParts[m.Kind]
	switch {
	case word != "" && e.profile.DataAsURL: // Mistral has no object around the URL
		e.textMember("type", word)
		e.textMember(word, mediaURL(m))
		e.optionalText("document_name", m.Name)
	case word != "" && m.URL != "":
		e.address(m, word)
	case m.Kind == llm.Document && m.URL != "" && e.profile.DataAsURL: // OpenRouter accepts URLs in the data field
		e.file(&llm.Media{Name: cmp.Or(m.Name, "document"), URL: m.URL}, "file_data")
	case m.Kind == llm.Document && m.Data != "" && m.Name == "" && e.r.Dialect != dialectName: // the vendor requires a name
		named := *m
		named.Name = "document"
		e.media(&named)
	default:
		e.media(m)
	}
	e.mark(m.Cache)
	e.Close('}')
}

// mediaProblem returns why the provider does not support m, or an empty string
// if it does.
func (e *requestEncoder) mediaProblem(m *llm.Media) string {
	same := e.r.Dialect == dialectName
	switch {
	case strings.HasPrefix(m.URL, "gs:") || strings.HasPrefix(m.URL, "s3:"):
		return "media in a cloud's storage; send an https: address or base64"
	case m.FileID != "" && !same && !e.profile.Vendor:
		return "a file of another provider; send its content"
	case m.Kind == llm.Audio && m.URL != "" && !same:
		return "audio by address; send base64"
	case m.Kind == llm.Video && e.profile.Vendor && !same:
		return "video"
	case m.Kind == llm.Document && m.URL != "" && e.profile.URLParts[m.Kind] == "" && !e.profile.DataAsURL && !same:
		return "a document by address; send base64"
	}
	return ""
}

func titled(m *llm.Media, text string) string {
	if m.Name == "" {
		return text
	}
	return m.Name + "\n\n" + text
}

// flat writes the parts of a document one after another.
func (e *requestEncoder) flat(m *llm.Media) {
	if m.Name != "" {
		e.part(llm.Text{Text: m.Name})
	}
	for _, p := range m.Parts {
		if inner, ok := p.(llm.Media); ok && inner.Parts != nil {
			continue // documents do not nest
		}
		e.part(p)
	}
}
