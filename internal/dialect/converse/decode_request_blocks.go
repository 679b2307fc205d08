package converse

import (
	"encoding/base64"
	"strconv"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// block appends the parts of a request's content block.
func (d *requestDecoder) block(parts []llm.Part, path string, v jsonedit.Value) []llm.Part {
	kind, inner := only(v)
	path += "." + kind
	switch kind {
	case "":
		d.Refuse(strings.TrimSuffix(path, "."), dialect.CodeType, "must be an object with one member, which says what it is")
	case "text":
		return append(parts, llm.Text{Text: d.Text(path, inner)})
	case "cachePoint":
		d.LoseUnknown(path, inner, "type", "ttl")
		if setCache(parts, &llm.Cache{TTL: inner.TextOf("ttl")}) {
			return parts
		}
	case "image", "document", "video", "audio":
		return append(parts, d.media(path, llm.MediaKind(kind), inner))
	case "toolUse":
		return append(parts, d.toolUse(path, inner))
	case "toolResult":
		return append(parts, d.toolResult(path, inner))
	case "reasoningContent":
		if p, ok := reasoning(inner, own); ok {
			text, _ := inner.Get("reasoningText")
			d.LoseUnknown(path, inner, "reasoningText", "redactedContent", "redactedReasoning")
			d.LoseUnknown(path+".reasoningText", text, "text", "signature")
			return append(parts, p)
		}
	case "citationsContent":
		p := cited(inner)
		if p.Text != "" {
			return append(parts, p)
		}
		if n := len(parts); n > 0 {
			if text, ok := parts[n-1].(llm.Text); ok { // as EncodeResponse writes it
				text.Citations = append(text.Citations, p.Citations...)
				parts[n-1] = text
				return parts
			}
		}
	}
	return append(parts, llm.Native{Dialect: name, Type: kind, Raw: v.Raw(), At: path, Parts: d.describe(kind, path, inner)})
}

// describe returns a block that only this dialect has in parts that every
// dialect has, nil if it says nothing to a model.
func (d *requestDecoder) describe(kind, path string, v jsonedit.Value) []llm.Part {
	switch kind {
	case "guardContent":
		if text, ok := v.Get("text"); ok {
			return []llm.Part{llm.Text{Text: text.TextOf("text")}}
		}
		if image, ok := v.Get("image"); ok {
			return []llm.Part{d.media(path+".image", llm.Image, image)}
		}
	case "searchResult":
		m := llm.Media{Kind: llm.Document, Type: "text/plain", Name: v.TextOf("title"), Context: v.TextOf("source"),
			Text: texts(v, "content"), At: path}
		citations, _ := v.Get("citations")
		on, _ := citations.Get("enabled")
		m.Cite, _ = on.Bool()
		return []llm.Part{m}
	}
	return nil
}

// texts joins the text of the blocks in the named list.
func texts(v jsonedit.Value, name string) string {
	var all strings.Builder
	list, _ := v.Get(name)
	for e := range list.Elements() {
		all.WriteString(e.TextOf("text"))
	}
	return all.String()
}

// setCache marks the last part for caching. It returns false if that part
// cannot be marked.
func setCache(parts []llm.Part, c *llm.Cache) bool {
	if len(parts) == 0 {
		return false
	}
	last := &parts[len(parts)-1]
	switch p := (*last).(type) {
	case llm.Text:
		if p.Cache == nil {
			p.Cache = c
			*last = p
			return true
		}
	case llm.Media:
		if p.Cache == nil {
			p.Cache = c
			*last = p
			return true
		}
	case llm.ToolCall:
		if p.Cache == nil {
			p.Cache = c
			*last = p
			return true
		}
	case llm.ToolResult:
		if p.Cache == nil {
			p.Cache = c
			*last = p
			return true
		}
	}
	return false
}

func (d *requestDecoder) media(path string, kind llm.MediaKind, v jsonedit.Value) llm.Media {
	m := llm.Media{Kind: kind, At: path}
	d.object(path, v, func(key, path string, v jsonedit.Value) {
		switch key {
		case "format":
			word := d.Text(path, v)
			if m.Type = typeOf(kind, word); m.Type == "" {
				d.Refuse(path, dialect.CodeValue, "is not a supported %s format", kind)
			}
		case "name":
			m.Name = d.Text(path, v)
		case "context":
			m.Context = d.Text(path, v)
		case "citations":
			on, _ := v.Get("enabled")
			m.Cite, _ = on.Bool()
			d.LoseUnknown(path, v, "enabled")
		case "source":
			d.source(path, v, &m)
		default:
			m.Extra = append(m.Extra, llm.Member{Name: key, Value: v.Raw()})
		}
	})
	if m.Data == "" && m.URL == "" && m.Text == "" && m.Parts == nil {
		d.Refuse(path+".source", dialect.CodeMissing, "is required: send bytes or s3Location")
	}
	return m
}

func (d *requestDecoder) source(path string, v jsonedit.Value, m *llm.Media) {
	kind, inner := only(v)
	path += "." + kind
	switch kind {
	case "bytes":
		m.Data = d.Base64(path, d.Text(path, inner))
	case "s3Location":
		d.object(path, inner, func(key, path string, v jsonedit.Value) {
			if key == "uri" {
				m.URL = d.NonEmptyText(path, v)
				return
			}
			m.Extra = append(m.Extra, llm.Member{Name: key, Value: v.Raw()})
		})
	case "text":
		m.Text = d.NonEmptyText(path, inner)
	case "content":
		for path, e := range d.Elements(path, inner) {
			if key, text := only(e); key == "text" {
				m.Parts = append(m.Parts, llm.Text{Text: d.Text(path, text)})
			}
		}
	}
}

func (d *requestDecoder) toolUse(path string, v jsonedit.Value) llm.Part {
	if v.TextOf("type") == serverToolUse {
		input, _ := v.Get("input")
		return llm.Native{
			Dialect: name, Type: "toolUse", Raw: wrap("toolUse", v.Raw()), At: path,
			Parts: dialect.Described("call of "+v.TextOf("name"), dialect.ReadableText(input)),
		}
	}
	id, _ := v.Get("toolUseId")
	called, _ := v.Get("name")
	c := llm.ToolCall{ID: d.NonEmptyText(path+".toolUseId", id), Name: d.NonEmptyText(path+".name", called), At: path}
	d.LoseUnknown(path, v, "toolUseId", "name", "input")
	if input, ok := v.Get("input"); ok {
		c.Arguments = dialect.Arguments(input)
	}
	if d.calls == nil {
		d.calls = map[string]bool{}
	}
	d.calls[c.ID] = true
	return c
}

// jsonParts is the member of a result that lists which of its parts were JSON.
const jsonParts = "json"

func (d *requestDecoder) toolResult(path string, v jsonedit.Value) llm.Part {
	if _, ok := v.Get("type"); ok {
		content, _ := v.Get("content")
		return llm.Native{
			Dialect: name, Type: "toolResult", Raw: wrap("toolResult", v.Raw()), At: path,
			Parts: dialect.Described("result of a tool", dialect.ReadableText(content)),
		}
	}
	r := llm.ToolResult{At: path}
	id, _ := v.Get("toolUseId")
	r.ID = d.NonEmptyText(path+".toolUseId", id)
	if !d.calls[r.ID] {
		d.Refuse(path+".toolUseId", dialect.CodeValue, "belongs to no toolUse of an earlier message")
	}
	r.Failed = v.TextOf("status") == "error"
	d.LoseUnknown(path, v, "toolUseId", "status", "content")
	var stood []byte
	content, _ := v.Get("content")
	for path, e := range d.Elements(path+".content", content) {
		if kind, inner := only(e); kind == "json" {
			// JSON becomes text for other dialects; its position is kept to
			// restore it.
			stood = strconv.AppendInt(append(stood, ','), int64(len(r.Parts)), 10)
			r.Parts = append(r.Parts, llm.Text{Text: string(inner.Raw())})
			continue
		}
		r.Parts = d.block(r.Parts, path, e)
	}
	if stood != nil {
		stood[0] = '['
		r.Extra = []llm.Member{{Name: jsonParts, Value: append(stood, ']')}}
	}
	return r
}

// reasoning reads a reasoningContent of a request or a response. Some responses
// use the older key redactedReasoning.
func reasoning(v jsonedit.Value, vendor llm.Vendor) (llm.Part, bool) {
	if text, ok := v.Get("reasoningText"); ok {
		return llm.Thinking{Text: text.TextOf("text"), Signature: dialect.ReadSignature(vendor, text.TextOf("signature"))}, true
	}
	data := v.TextOf("redactedContent")
	if data == "" {
		inner, _ := v.Get("redactedReasoning")
		data = inner.TextOf("data")
	}
	return llm.Thinking{Redacted: true, Signature: readRedacted(vendor, data)}, data != ""
}

// readRedacted reads redacted content, which is base64: a marked signature is
// encoded again there.
func readRedacted(vendor llm.Vendor, data string) llm.Signature {
	if plain, err := base64.StdEncoding.DecodeString(data); err == nil {
		if s := dialect.ReadSignature(vendor, string(plain)); s.Value != string(plain) {
			return s
		}
	}
	return llm.Signature{Vendor: vendor, Value: data}
}

// unsign moves the signature of empty thinking of another vendor to the next
// call, as written by [markCall], or that of redacted thinking to the text before
// it.
func unsign(parts []llm.Part) []llm.Part {
	out := parts[:0]
	for i, p := range parts {
		if t, ok := p.(llm.Thinking); ok && t.Redacted && t.Signature.Vendor == llm.Google && len(out) > 0 {
			if text, ok := out[len(out)-1].(llm.Text); ok {
				text.Signature = t.Signature
				out[len(out)-1] = text
				continue
			}
		}
		if t, ok := p.(llm.Thinking); ok && t.Text == "" && !t.Redacted && t.Signature.Vendor == llm.Google && i+1 < len(parts) {
			if call, ok := parts[i+1].(llm.ToolCall); ok {
				call.Signature = t.Signature
				parts[i+1] = call
				continue
			}
		}
		out = append(out, p)
	}
	return out
}

// cited reads a citationsContent.
func cited(v jsonedit.Value) (p llm.Text) {
	content, _ := v.Get("content")
	for e := range content.Elements() {
		p.Text += e.TextOf("text")
	}
	citations, _ := v.Get("citations")
	for e := range citations.Elements() {
		p.Citations = append(p.Citations, citation(e))
	}
	return p
}

// citation reads a source. Its location refers to the document rather than the
// text, and stays in Raw.
func citation(v jsonedit.Value) llm.Citation {
	c := llm.Citation{Title: v.TextOf("title"), Raw: append([]byte(nil), v.Raw()...), Dialect: name}
	location, _ := v.Get("location")
	web, _ := location.Get("web")
	c.URL = web.TextOf("url")
	content, _ := v.Get("sourceContent")
	for e := range content.Elements() {
		c.Text += e.TextOf("text")
	}
	return c
}
