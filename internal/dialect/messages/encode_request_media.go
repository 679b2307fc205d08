package messages

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
)

// media writes an image or a document; models accept neither audio nor video.
func (e *requestEncoder) media(m *llm.Media) {
	if string(member(m.Extra, searchResult.Name)) == string(searchResult.Value) && e.own {
		e.found(m)
		return
	}
	kind := m.Kind
	switch {
	case kind == llm.Audio || kind == llm.Video:
		e.fail(dialect.Unsupported(m.At, e.to, "it does not accept %s", kind))
	case dialect.MediaKindOf(m.Type) == llm.Image:
		kind = llm.Image
	}
	e.Open('{')
	e.text("type", string(kind))
	e.Name("source")
	e.source(m, kind)
	if kind == llm.Document {
		e.text("title", m.Name)
		e.text("context", m.Context)
		if m.Cite {
			e.citing()
		}
	}
	if e.own {
		e.members(m.Extra)
	}
	e.cache(m.Cache)
	e.Close('}')
}

func (e *requestEncoder) citing() {
	e.Name("citations")
	e.Open('{')
	e.Name("enabled")
	e.Bool(true)
	e.Close('}')
}

// found writes a search result of the client as received.
func (e *requestEncoder) found(m *llm.Media) {
	e.Open('{')
	e.Name("source")
	e.String(m.Context)
	e.Name("title")
	e.String(m.Name)
	e.Name("content")
	e.content(m.Parts)
	if m.Cite {
		e.citing()
	}
	e.members(m.Extra) // the type is among them
	e.cache(m.Cache)
	e.Close('}')
}

// source writes the location of media.
func (e *requestEncoder) source(m *llm.Media, kind llm.MediaKind) {
	e.Open('{')
	switch {
	case m.Parts != nil:
		e.text("type", "content")
		e.Name("content")
		e.content(e.sendable(&llm.Message{Parts: m.Parts}))
	case m.FileID != "":
		e.file(m)
	case m.URL != "":
		e.address(m)
	case m.Text != "":
		e.text("type", "text")
		e.text("media_type", "text/plain")
		e.text("data", m.Text)
	default:
		e.data(m, kind)
	}
	e.Close('}')
}

func (e *requestEncoder) file(m *llm.Media) {
	if e.profile.DataOnly {
		e.fail(dialect.Unsupported(m.At, e.to, "it does not accept uploaded files: send the data"))
	}
	e.text("type", "file")
	e.text("file_id", m.FileID)
	e.need("files-api-2025-04-14")
}

func (e *requestEncoder) address(m *llm.Media) {
	web := strings.HasPrefix(m.URL, "https:") || strings.HasPrefix(m.URL, "http:")
	if e.profile.DataOnly || !web && !e.own {
		e.fail(dialect.Unsupported(m.At, e.to, "it does not accept this kind of URL: send the data"))
	}
	e.text("type", "url")
	e.text("url", m.URL)
}

// data writes base64 data: images of four types, PDF and text.
// https://docs.claude.com/en/docs/build-with-claude/vision
// https://docs.claude.com/en/docs/build-with-claude/pdf-support
func (e *requestEncoder) data(m *llm.Media, kind llm.MediaKind) {
	mime := m.Type
	switch {
	case mime == "" && kind == llm.Document:
		mime = "application/pdf"
	case mime == "" && kind == llm.Image:
		mime = "image/png"
	case mime == "image/jpg":
		mime = "image/jpeg"
	}
	if text, ok := e.plainText(m, mime); ok {
		e.text("type", "text")
		e.text("media_type", "text/plain")
		e.Name("data")
		e.String(text)
		return
	}
	if !e.own && !dataTypes[mime] {
		e.fail(dialect.Unsupported(m.At, e.to, "it does not accept data of type %.60q", mime))
	}
	e.text("type", "base64")
	e.text("media_type", mime)
	e.text("data", m.Data)
}

var dataTypes = map[string]bool{
	"image/jpeg": true, "image/png": true, "image/gif": true, "image/webp": true, "application/pdf": true,
}

// plainText returns the text of data with a text MIME type.
func (e *requestEncoder) plainText(m *llm.Media, mime string) (string, bool) {
	mime, _, _ = strings.Cut(mime, ";")
	if e.own || !strings.HasPrefix(mime, "text/") && mime != "application/json" && mime != "application/xml" {
		return "", false
	}
	b, err := base64.StdEncoding.DecodeString(m.Data)
	return string(b), err == nil && utf8.Valid(b)
}
