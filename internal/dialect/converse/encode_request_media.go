package converse

import (
	"cmp"
	"encoding/base64"
	"strconv"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
)

// media writes an image, a document, audio or video.
func (e *requestEncoder) media(p *llm.Media) {
	word, ok := e.formatOf(p)
	if !ok {
		return
	}
	e.b.Open('{')
	e.b.Name(string(p.Kind))
	e.b.Open('{')
	e.b.Name("format")
	e.b.String(word)
	if p.Kind == llm.Document {
		e.documentHead(p)
	}
	e.b.Name("source")
	e.source(p)
	if e.own {
		for _, m := range p.Extra {
			if m.Name != bucketOwner {
				e.b.Key(m.Name)
				e.b.Raw(m.Value)
			}
		}
	}
	e.b.Close('}')
	e.b.Close('}')
}

// formatOf returns the protocol's format name for p. It rejects media that
// cannot be sent.
func (e *requestEncoder) formatOf(p *llm.Media) (string, bool) {
	path := cmp.Or(p.At, e.r.NameOf(llm.FieldParts))
	switch {
	case p.FileID != "":
		e.refuse(dialect.Unsupported(path, e.to, "it has no uploaded files; send the content as base64"))
		return "", false
	case p.URL != "" && !strings.HasPrefix(p.URL, "s3://"):
		e.refuse(dialect.Unsupported(path, e.to, "it reads no address but s3://; send the content as base64"))
		return "", false
	case p.Kind == llm.Audio && !e.own && !e.model.Audio:
		e.refuse(dialect.Unsupported(path, e.to, "the model does not accept audio"))
		return "", false
	case p.Text != "" || p.Parts != nil:
		if word := wordOf(p.Kind, p.Type); word != "" {
			return word, true
		}
		return "txt", true
	}
	mime := p.Type
	if mime == "" {
		mime = dialect.TypeByName(cmp.Or(p.URL, p.Name))
	}
	if mime == "" && p.Kind == llm.Document {
		mime = "application/pdf"
	}
	mime, _, _ = strings.Cut(strings.ToLower(mime), ";")
	word := wordOf(p.Kind, strings.TrimSpace(mime))
	if word == "" && p.Kind == llm.Document && strings.HasPrefix(mime, "text/") {
		word = "txt"
	}
	if word == "" {
		e.refuse(dialect.Unsupported(path, e.to, "%ss of type %.80q; it takes %s", p.Kind, mime, words(p.Kind)))
	}
	return word, word != ""
}

// words returns the list of format names of a kind.
func words(kind llm.MediaKind) string {
	var list []string
	for _, f := range formats[kind] {
		if len(list) == 0 || list[len(list)-1] != f.word {
			list = append(list, f.word)
		}
	}
	return strings.Join(list, ", ")
}

func (e *requestEncoder) documentHead(p *llm.Media) {
	e.b.Name("name")
	e.b.String(e.docs.name(p.Name))
	if p.Context != "" {
		e.b.Name("context")
		e.b.String(p.Context)
	}
	if p.Cite {
		e.b.Name("citations")
		e.b.Open('{')
		e.b.Name("enabled")
		e.b.Bool(true)
		e.b.Close('}')
	}
}

const bucketOwner = "bucketOwner"

func (e *requestEncoder) source(p *llm.Media) {
	e.b.Open('{')
	defer e.b.Close('}')
	switch {
	case p.URL != "":
		e.b.Name("s3Location")
		e.b.Open('{')
		e.b.Name("uri")
		e.b.String(p.URL)
		for _, m := range p.Extra {
			if m.Name == bucketOwner {
				e.b.Name(bucketOwner)
				e.b.Raw(m.Value)
				e.changes.Carry(p.At, bucketOwner)
			}
		}
		e.b.Close('}')
	case p.Data != "":
		e.b.Name("bytes")
		e.b.String(p.Data)
	case p.Parts != nil && e.model.claude():
		e.b.Name("content")
		e.b.Open('[')
		for _, part := range p.Parts {
			if t, ok := part.(llm.Text); ok {
				e.textBlock(t.Text)
			}
		}
		e.b.Close(']')
	case p.Text != "" && e.model.claude():
		e.b.Name("text")
		e.b.String(p.Text)
	default:
		e.b.Name("bytes")
		e.b.String(base64.StdEncoding.EncodeToString([]byte(textOf(p))))
	}
}

func textOf(p *llm.Media) string {
	var text strings.Builder
	text.WriteString(p.Text)
	for _, part := range p.Parts {
		if t, ok := part.(llm.Text); ok {
			text.WriteString(t.Text)
		}
	}
	return text.String()
}

// documents gives each document of a request a unique name in the characters
// that the protocol allows.
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_DocumentBlock.html
type documents struct {
	taken map[string]int // number of documents that asked for a name
	last  string
}

const maxDocumentName = 200

func (d *documents) name(wanted string) string {
	if d.taken == nil {
		d.taken = map[string]int{}
	}
	base := documentName(wanted)
	name := base
	for d.taken[name] > 0 {
		d.taken[base]++
		suffix := " (" + strconv.Itoa(d.taken[base]) + ")"
		name = base[:min(len(base), maxDocumentName-len(suffix))] + suffix
	}
	d.taken[name] = 1
	d.last = name
	return name
}

// documentName returns the letters, digits, single spaces, hyphens, parentheses
// and brackets of s.
func documentName(s string) string {
	var out []byte
	for _, ch := range []byte(s) {
		ok := ch != '_' && plain(ch) || strings.IndexByte("()[]", ch) >= 0
		switch {
		case ok:
			out = append(out, ch)
		case len(out) > 0 && out[len(out)-1] != ' ':
			out = append(out, ' ')
		}
	}
	name := strings.TrimSpace(string(out[:min(len(out), maxDocumentName)]))
	if name == "" {
		return "document"
	}
	return name
}
