package messages

import (
	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
	"modelgate/internal/llm"
)

func (d *requestDecoder) image(path string, f fields) llm.Part {
	m := llm.Media{
		Kind: llm.Image, At: path, Cache: d.cache(path+".cache_control", f.get("cache_control")),
		Extra: f.rest("type", "source", "cache_control"),
	}
	d.source(path+".source", f.get("source"), &m)
	return m
}

func (d *requestDecoder) document(path string, f fields) llm.Part {
	m := llm.Media{
		Kind: llm.Document, At: path, Cache: d.cache(path+".cache_control", f.get("cache_control")),
		Name: d.text(path+".title", f.get("title")), Context: d.text(path+".context", f.get("context")),
		Cite:  d.cites(path+".citations", f.get("citations")),
		Extra: f.rest("type", "source", "cache_control", "title", "context", "citations"),
	}
	d.source(path+".source", f.get("source"), &m)
	return m
}

// searchResult reads a source that the client found itself, as a document of
// texts: what it is called, and where it is from.
func (d *requestDecoder) searchResult(path string, f fields) llm.Part {
	return llm.Media{
		Kind: llm.Document, At: path, Cache: d.cache(path+".cache_control", f.get("cache_control")),
		Name: d.need(path+".title", f.get("title")), Context: d.need(path+".source", f.get("source")),
		Cite:  d.cites(path+".citations", f.get("citations")),
		Parts: d.content(path+".content", f.get("content"), inDocument),
		Extra: append(f.rest("type", "source", "cache_control", "title", "content", "citations"), searchResult),
	}
}

// searchResult marks a document that was a search result.
var searchResult = llm.Member{Name: "type", Value: []byte(`"search_result"`)}

func (d *requestDecoder) cites(path string, v jsonedit.Value) bool {
	if v.IsNull() {
		return false
	}
	return d.boolean(path+".enabled", d.object(path, v).get("enabled"))
}

// source reads where a medium comes from.
func (d *requestDecoder) source(path string, v jsonedit.Value, m *llm.Media) {
	if v.IsNull() {
		d.missing(path, "an object")
		return
	}
	f := d.object(path, v)
	switch kind := d.need(path+".type", f.get("type")); kind {
	case "base64":
		m.Type, m.Data = d.need(path+".media_type", f.get("media_type")), d.need(path+".data", f.get("data"))
		if err := dialect.CheckBase64(path+".data", m.Data); err != nil && d.err == nil {
			d.err = err
		}
	case "url":
		m.URL = d.need(path+".url", f.get("url"))
		if mime, data, ok := dialect.DataURL(m.URL); ok {
			m.URL, m.Type, m.Data = "", mime, data
		}
	case "file":
		m.FileID = d.need(path+".file_id", f.get("file_id"))
	case "text":
		m.Type, m.Text = d.text(path+".media_type", f.get("media_type")), d.need(path+".data", f.get("data"))
	case "content":
		m.Parts = d.content(path+".content", f.get("content"), inDocument)
	default:
		d.refuse(path+".type", dialect.CodeValue, `must be "base64", "url", "file", "text" or "content"`)
	}
	if m.Data == "" && m.URL == "" && m.FileID == "" && m.Text == "" && m.Parts == nil {
		d.refuse(path, dialect.CodeValue, "must not be empty")
	}
}
