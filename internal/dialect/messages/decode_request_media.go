package messages

import (
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

func (d *requestDecoder) image(path string, f fields) llm.Part {
	m := llm.Media{
		Kind: llm.Image, At: path, Cache: d.cacheOf(path, f),
		Extra: f.unknown("type", "source", "cache_control"),
	}
	d.source(path+".source", f.get("source"), &m)
	return m
}

func (d *requestDecoder) document(path string, f fields) llm.Part {
	m := llm.Media{
		Kind: llm.Document, At: path, Cache: d.cacheOf(path, f),
		Name: d.textOf(path, "title", f), Context: d.textOf(path, "context", f),
		Cite:  d.cites(path+".citations", f.get("citations")),
		Extra: f.unknown("type", "source", "cache_control", "title", "context", "citations"),
	}
	d.source(path+".source", f.get("source"), &m)
	return m
}

// searchResult reads a search result of the client as a document with its title
// and source.
func (d *requestDecoder) searchResult(path string, f fields) llm.Part {
	return llm.Media{
		Kind: llm.Document, At: path, Cache: d.cacheOf(path, f),
		Name: d.needed(path, "title", f), Context: d.needed(path, "source", f),
		Cite:  d.cites(path+".citations", f.get("citations")),
		Parts: d.content(path+".content", f.get("content"), inDocument),
		Extra: append(f.unknown("type", "source", "cache_control", "title", "content", "citations"), searchResult),
	}
}

// searchResult marks a document that was a search result.
var searchResult = llm.Member{Name: "type", Value: []byte(`"search_result"`)}

func (d *requestDecoder) cites(path string, v jsonedit.Value) bool {
	if v.IsNull() {
		return false
	}
	return d.Flag(path+".enabled", d.object(path, v).get("enabled"))
}

// source reads the location of media.
func (d *requestDecoder) source(path string, v jsonedit.Value, m *llm.Media) {
	if v.IsNull() {
		d.RefuseMissing(path, "an object")
		return
	}
	f := d.object(path, v)
	switch kind := d.needed(path, "type", f); kind {
	case "base64":
		m.Type, m.Data = d.needed(path, "media_type", f), d.Base64(path+".data", d.needed(path, "data", f))
	case "url":
		m.URL = d.needed(path, "url", f)
		if mime, data, ok := dialect.ParseDataURL(m.URL); ok {
			m.URL, m.Type, m.Data = "", mime, d.Base64(path+".url", data)
		}
	case "file":
		m.FileID = d.needed(path, "file_id", f)
	case "text":
		m.Type, m.Text = d.textOf(path, "media_type", f), d.needed(path, "data", f)
	case "content":
		m.Parts = d.content(path+".content", f.get("content"), inDocument)
	default:
		d.Refuse(path+".type", dialect.CodeValue, `must be "base64", "url", "file", "text" or "content"`)
	}
	d.lose(path, f, "type", "media_type", "data", "url", "file_id", "content")
	if m.Data == "" && m.URL == "" && m.FileID == "" && m.Text == "" && m.Parts == nil {
		d.Refuse(path, dialect.CodeValue, "must not be empty")
	}
}
