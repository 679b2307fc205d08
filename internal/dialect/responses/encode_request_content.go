package responses

import (
	"strings"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// content writes the parts of a message or of a tool's output.
func (s *requestEncoder) content(role llm.Role, parts []llm.Part) {
	s.b.Open('[')
	for _, p := range parts {
		s.part(role, p)
	}
	s.b.Close(']')
}

func (s *requestEncoder) part(role llm.Role, p llm.Part) {
	switch part := p.(type) {
	case llm.Text:
		s.text(role, &part)
	case llm.Refusal:
		s.b.Open('{')
		s.b.Name("type")
		s.b.String("refusal")
		s.b.Name("refusal")
		s.b.String(part.Text)
		s.b.Close('}')
	case llm.Media:
		s.media(role, &part)
	case llm.Native:
		s.b.Raw(part.Raw)
	}
}

func (s *requestEncoder) text(role llm.Role, t *llm.Text) {
	s.b.Open('{')
	s.b.Name("type")
	if role == llm.Assistant {
		s.b.String("output_text")
	} else {
		s.b.String("input_text")
	}
	s.b.Name("text")
	s.b.String(t.Text)
	if role == llm.Assistant && len(t.Citations) > 0 {
		s.b.Name("annotations")
		s.b.Open('[')
		for i := range t.Citations {
			writeCitation(&s.b, &t.Citations[i])
		}
		s.b.Close(']')
	}
	s.cache(t.Cache)
	s.b.Close('}')
}

// cache writes a cache mark for a client of this dialect, and records it as
// dropped for others.
func (s *requestEncoder) cache(c *llm.Cache) {
	if c != nil && s.same {
		writeCacheControl(&s.b, c)
		return
	}
	s.tellCache(c)
}

func writeCacheControl(b *jsonedit.Builder, c *llm.Cache) {
	if c.TTL == "" {
		b.Name("prompt_cache_breakpoint")
		b.Open('{')
		b.Name("mode")
		b.String("explicit")
		b.Close('}')
		return
	}
	b.Name("cache_control")
	b.Open('{')
	b.Name("type")
	b.String("ephemeral")
	b.Name("ttl")
	b.String(c.TTL)
	b.Close('}')
}

// writeCitation writes an annotation: as received, or as a URL citation, or as
// a file citation by name.
func writeCitation(b *jsonedit.Builder, c *llm.Citation) {
	if c.Dialect == own && c.Raw != nil {
		b.Raw(c.Raw)
		return
	}
	b.Open('{')
	b.Name("type")
	if c.URL == "" {
		b.String("file_citation")
		b.Name("file_id")
		b.String("")
		b.Name("filename")
		b.String(c.Title)
		b.Name("index")
		b.Int(int64(c.Start))
		b.Close('}')
		return
	}
	b.String("url_citation")
	b.Name("start_index")
	b.Int(int64(c.Start))
	b.Name("end_index")
	b.Int(int64(c.End))
	b.Name("url")
	b.String(c.URL)
	b.Name("title")
	b.String(c.Title)
	b.Close('}')
}

func (s *requestEncoder) media(role llm.Role, m *llm.Media) {
	switch {
	case m.Parts != nil:
		s.document(role, m)
	case m.Text != "":
		text := m.Text
		if m.Name != "" {
			text = m.Name + "\n\n" + text
		}
		s.text(role, &llm.Text{Text: text, Cache: m.Cache})
	case m.URL != "" && !strings.HasPrefix(m.URL, "http"):
		s.unsupported(m.At, "it fetches files from https addresses alone")
	case m.Kind == llm.Image && !(s.same && m.Name != ""):
		s.image(m)
	case m.Kind == llm.Audio && s.same && m.Data != "" && m.Name == "":
		s.audio(m)
	case m.Kind == llm.Document || s.same: // a client of this dialect sent a file
		s.file(m)
	default:
		s.unsupported(m.At, "%s is not an input of this protocol", m.Kind)
	}
}

// document writes a document with parts as these parts, preceded by its title.
func (s *requestEncoder) document(role llm.Role, m *llm.Media) {
	if m.Name != "" {
		s.text(role, &llm.Text{Text: m.Name})
	}
	for _, p := range m.Parts {
		switch part := p.(type) {
		case llm.Text:
			s.text(role, &part)
		case llm.Media:
			if part.Parts == nil { // documents do not nest
				s.media(role, &part)
			}
		}
	}
}

func (s *requestEncoder) image(m *llm.Media) {
	s.b.Open('{')
	s.b.Name("type")
	s.b.String("input_image")
	switch {
	case m.Data != "":
		typ := m.Type
		if typ == "" {
			typ = "image/png"
		}
		s.b.Name("image_url")
		s.b.String("data:" + typ + ";base64," + m.Data)
	case m.URL != "":
		s.b.Name("image_url")
		s.b.String(m.URL)
	default:
		s.name("file_id", m.FileID)
	}
	s.name("detail", m.Detail)
	s.cache(m.Cache)
	s.b.Close('}')
}

func (s *requestEncoder) file(m *llm.Media) {
	s.b.Open('{')
	s.b.Name("type")
	s.b.String("input_file")
	switch {
	case m.Data != "":
		typ, name := m.Type, m.Name
		if typ == "" {
			typ = "application/pdf"
		}
		if name == "" {
			name = "document" + extension(typ) // the protocol requires a name for data
		}
		s.b.Name("filename")
		s.b.String(name)
		s.b.Name("file_data")
		s.b.String("data:" + typ + ";base64," + m.Data)
	case m.URL != "":
		s.b.Name("file_url")
		s.b.String(m.URL)
		s.name("filename", s.ownName(m))
	default:
		s.b.Name("file_id")
		s.b.String(m.FileID)
		s.name("filename", s.ownName(m))
	}
	if s.same {
		s.name("detail", m.Detail)
	}
	s.cache(m.Cache)
	s.b.Close('}')
}

// ownName returns the name of a file that must not be sent, for clients of this
// dialect: the protocol's own provider rejects a name next to a URL.
func (s *requestEncoder) ownName(m *llm.Media) string {
	if s.same {
		return m.Name
	}
	return ""
}

// extension returns the extension for a MIME type, limited to common types.
func extension(mime string) string {
	switch mime {
	case "application/pdf":
		return ".pdf"
	case "text/plain":
		return ".txt"
	case "text/csv":
		return ".csv"
	case "text/markdown":
		return ".md"
	case "text/html":
		return ".html"
	case "application/json":
		return ".json"
	}
	return ""
}

func (s *requestEncoder) audio(m *llm.Media) {
	s.b.Open('{')
	s.b.Name("type")
	s.b.String("input_audio")
	s.b.Name("input_audio")
	s.b.Open('{')
	s.b.Name("data")
	s.b.String(m.Data)
	s.b.Name("format")
	s.b.String(strings.TrimPrefix(m.Type, "audio/"))
	s.b.Close('}')
	s.b.Close('}')
}

// drawnItem writes an image generated by the model as the item that it was.
func (s *requestEncoder) drawnItem(m llm.Media) {
	s.b.Open('{')
	writeDrawing(&s.b, &m)
	s.extra(m.Extra)
	s.b.Close('}')
}

// writeDrawing writes the members of the item for an image.
func writeDrawing(b *jsonedit.Builder, m *llm.Media) {
	b.Name("type")
	b.String("image_generation_call")
	b.Name("status")
	b.String("completed")
	b.Name("output_format")
	b.String(strings.TrimPrefix(m.Type, "image/"))
	b.Name("result")
	b.String(m.Data)
}
