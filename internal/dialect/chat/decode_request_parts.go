package chat

import (
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// content reads a string or an array of parts.
func (d *reader) content(path string, v jsonedit.Value) []llm.Part {
	switch v.Kind() {
	case jsonedit.Null:
		return nil
	case jsonedit.String:
		if text := d.Text(path, v); text != "" {
			return []llm.Part{llm.Text{Text: text}}
		}
		return nil
	}
	var parts []llm.Part
	for path, e := range d.Elements(path, v) {
		parts = append(parts, d.part(path, e))
	}
	return parts
}

// part reads one part of content or of content_blocks.
func (d *reader) part(path string, v jsonedit.Value) llm.Part {
	if text, ok := v.Text(); ok {
		return llm.Text{Text: text}
	}
	d.object(path, v)
	typ, _ := v.Get("type")
	inner := func(name string) jsonedit.Value { m, _ := v.Get(name); return m }
	switch word := d.Text(path+".type", typ); word {
	case "text", "":
		return d.words(path, v)
	case "image_url":
		return d.byURL(path, word, llm.Image, v)
	case "video_url":
		return d.byURL(path, word, llm.Video, v)
	case "audio_url":
		return d.byURL(path, word, llm.Audio, v)
	case "file_url", "document_url":
		return d.byURL(path, word, llm.Document, v)
	case "input_audio":
		d.LoseUnknown(path, v, "type", "input_audio")
		return d.audio(path, inner("input_audio"))
	case "file":
		d.LoseUnknown(path, v, "type", "file", "cache_control")
		return d.file(path, inner("file"), inner("cache_control"))
	case "refusal":
		d.LoseUnknown(path, v, "type", "refusal")
		return llm.Refusal{Text: d.Text(path+".refusal", inner("refusal"))}
	case "thinking":
		return d.thinkingBlock(path, v)
	case "redacted_thinking":
		data := d.Text(path+".data", inner("data"))
		return llm.Thinking{Redacted: true, Signature: dialect.ReadSignature(llm.Anthropic, data)}
	default:
		return native(path, word, v)
	}
}

// native returns a part that only one dialect has. Blocks of the messages
// dialect, and content for guardrails of the converse dialect, are sent to
// targets of these dialects.
func native(path, word string, v jsonedit.Value) llm.Native {
	if messagesBlock(word) {
		return dialect.MessagesBlock(word, v, path)
	}
	if word == "guard_content" || word == "guardContent" {
		return llm.Native{Dialect: "converse", Type: "guard_content", Raw: v.Raw(), At: path, Parts: guarded(v, word, path)}
	}
	return llm.Native{Dialect: dialectName, Type: word, Raw: v.Raw(), At: path}
}

// guarded reads content that a guardrail of Bedrock checks.
func guarded(v jsonedit.Value, word, path string) []llm.Part {
	inner, ok := v.Get(word)
	if !ok {
		text, _ := v.Get("text")
		words, _ := text.Text()
		return []llm.Part{llm.Text{Text: words}}
	}
	text, _ := inner.Get("text")
	words, _ := text.Get("text")
	if said, ok := words.Text(); ok {
		return []llm.Part{llm.Text{Text: said}}
	}
	image, _ := inner.Get("image")
	format, _ := image.Get("format")
	source, _ := image.Get("source")
	data, _ := source.Get("bytes")
	kind, _ := format.Text()
	bytes, ok := data.Text()
	if !ok {
		return nil
	}
	return []llm.Part{llm.Media{Kind: llm.Image, Type: "image/" + kind, Data: bytes, At: path}}
}

// messagesBlock reports whether word is a block type of the messages dialect
// that clients of this dialect may send.
func messagesBlock(word string) bool {
	switch word {
	case "server_tool_use", "document", "search_result", "image", "tool_use", "tool_result",
		"mcp_tool_use", "container_upload", "compaction", "tool_reference":
		return true
	}
	return strings.HasSuffix(word, "_tool_result")
}

func (d *reader) words(path string, v jsonedit.Value) llm.Text {
	var text llm.Text
	for key, m := range v.Fields() {
		switch key.String() {
		case "text":
			text.Text = d.Text(path+".text", m)
		case "cache_control", "prompt_cache_breakpoint": // OpenAI's own
			text.Cache = d.cache(path+"."+key.String(), m)
		case "thought_signature":
			text.Signature = dialect.ReadSignature(llm.Google, d.Text(path+".thought_signature", m))
		case "citations":
			for c := range m.Elements() {
				text.Citations = append(text.Citations, messagesCitation(c))
			}
		case "type":
		default:
			d.Lose(path, key.String(), m)
		}
	}
	return text
}

// messagesCitation reads a citation in the format of the messages dialect.
func messagesCitation(v jsonedit.Value) llm.Citation {
	word := func(name string) string { m, _ := v.Get(name); text, _ := m.Text(); return text }
	return llm.Citation{URL: word("url"), Title: word("title"), Text: word("cited_text"), Raw: v.Raw(), Dialect: "messages"}
}

// thinkingBlock reads thinking. Mistral wraps its text in parts.
// https://docs.mistral.ai/capabilities/reasoning
func (d *reader) thinkingBlock(path string, v jsonedit.Value) llm.Thinking {
	inner, _ := v.Get("thinking")
	sign, _ := v.Get("signature")
	d.LoseUnknown(path, v, "type", "thinking", "signature", "closed")
	return llm.Thinking{
		Text:      textOf(inner),
		Signature: dialect.ReadSignature(llm.Anthropic, d.Text(path+".signature", sign)),
	}
}

// textOf joins the text of a string or of the parts that have text.
func textOf(v jsonedit.Value) string {
	if text, ok := v.Text(); ok {
		return text
	}
	var all strings.Builder
	for e := range v.Elements() {
		text, _ := e.Text()
		if m, ok := e.Get("text"); ok {
			text, _ = m.Text()
		}
		all.WriteString(text)
	}
	return all.String()
}

// byURL reads media given by a URL or a data: URL. The URL is a string or is
// wrapped in an object.
func (d *reader) byURL(path, word string, kind llm.MediaKind, v jsonedit.Value) llm.Media {
	m := llm.Media{Kind: kind, At: path}
	inner, _ := v.Get(word)
	url := inner
	if inner.Kind() == jsonedit.Object {
		url = jsonedit.Value{}
		for key, value := range inner.Fields() {
			switch name := key.String(); name {
			case "url":
				url = value
			case "detail":
				m.Detail = d.Text(path+"."+word+".detail", value)
			case "mime_type":
				m.Type = d.Text(path+"."+word+".mime_type", value)
			default:
				m.Extra = append(m.Extra, llm.Member{Name: name, Value: value.Raw()})
			}
		}
	}
	for _, name := range [...]string{"file_name", "document_name", "filename"} {
		if value, ok := v.Get(name); ok {
			m.Name = d.Text(path+"."+name, value)
		}
	}
	if c, ok := v.Get("cache_control"); ok {
		m.Cache = d.cache(path+".cache_control", c)
	}
	d.LoseUnknown(path, v, "type", word, "file_name", "document_name", "filename", "cache_control")
	d.place(path+"."+word+".url", &m, d.NonEmptyText(path+"."+word+".url", url))
	return m
}

// place sets the URL of m, or its data if the URL is a data: URL.
func (d *reader) place(path string, m *llm.Media, url string) {
	if len(url) >= 5 && strings.EqualFold(url[:5], "data:") {
		mime, data, ok := dialect.ParseDataURL(url)
		if !ok {
			d.Refuse(path, dialect.CodeValue, "must be a data: URL with base64")
			return
		}
		m.Type, m.Data, m.Kind = mime, d.Base64(path, data), dialect.MediaKindOf(mime)
		return
	}
	scheme, _, ok := strings.Cut(url, "://")
	switch strings.ToLower(scheme) {
	case "http", "https", "gs", "s3":
	default:
		ok = false
	}
	if !ok {
		d.Refuse(path, dialect.CodeValue, "must be an address that begins with https:, http:, gs:, s3: or data:")
		return
	}
	m.URL = url
	mime := m.Type
	if mime == "" {
		mime = dialect.TypeByName(url)
	}
	if mime != "" {
		m.Kind = dialect.MediaKindOf(mime)
	}
}

// audio reads input_audio, which is a string at Mistral.
func (d *reader) audio(path string, v jsonedit.Value) llm.Media {
	m := llm.Media{Kind: llm.Audio, At: path}
	path += ".input_audio"
	data, format := v, jsonedit.Value{}
	if v.Kind() != jsonedit.String {
		d.object(path, v)
		data, _ = v.Get("data")
		format, _ = v.Get("format")
		d.LoseUnknown(path, v, "data", "format")
	}
	m.Data = d.NonEmptyText(path+".data", data)
	if mime, inner, ok := dialect.ParseDataURL(m.Data); ok {
		m.Type, m.Data = mime, inner
	}
	m.Data = d.Base64(path+".data", m.Data)
	if word := d.Text(path+".format", format); word != "" {
		m.Type = audioType(word)
	}
	return m
}

func audioType(format string) string {
	switch format {
	case "pcm16":
		return "audio/pcm"
	case "x-aac":
		return "audio/aac"
	case "x-m4a":
		return "audio/m4a"
	case "opus":
		return "audio/ogg"
	}
	return "audio/" + format
}

// audioFormat returns the format for a MIME type. It is the inverse of
// audioType and accepts aliases.
func audioFormat(mime string) string {
	switch mime {
	case "audio/mpeg", "audio/mpga":
		return "mp3"
	case "audio/x-wav", "audio/wave", "audio/vnd.wave":
		return "wav"
	case "audio/pcm":
		return "pcm16"
	case "audio/ogg":
		return "opus"
	}
	return strings.TrimPrefix(mime, "audio/")
}

// file reads a file, whose data is a data: URL or plain base64.
func (d *reader) file(path string, v, cache jsonedit.Value) llm.Media {
	m := llm.Media{Kind: llm.Document, At: path, Cache: d.cache(path+".cache_control", cache)}
	path += ".file"
	var data, url jsonedit.Value
	for key, value := range d.fields(path, v) {
		switch name := key.String(); {
		case value.IsNull():
		case name == "file_data":
			data = value
		case name == "file_url":
			url = value
		case name == "file_id":
			m.FileID = d.Text(path+".file_id", value)
		case name == "filename" || name == "file_name":
			m.Name = d.Text(path+"."+name, value)
		case name == "mime_type":
			m.Type = d.Text(path+".mime_type", value)
		default:
			m.Extra = append(m.Extra, llm.Member{Name: name, Value: value.Raw()})
		}
	}
	switch {
	case !data.IsNull():
		d.fileData(path+".file_data", &m, d.Text(path+".file_data", data))
	case !url.IsNull():
		d.place(path+".file_url", &m, d.Text(path+".file_url", url))
	case m.FileID == "":
		d.Refuse(path, dialect.CodeMissing, "needs file_data, file_id or file_url")
	}
	return m
}

func (d *reader) fileData(path string, m *llm.Media, data string) {
	if strings.Contains(data[:min(len(data), 9)], ":") {
		d.place(path, m, data)
		return
	}
	data = d.Base64(path, data)
	if m.Type == "" {
		m.Type = dialect.TypeByName(m.Name)
	}
	if m.Type == "" {
		m.Type = "application/pdf"
	}
	m.Data, m.Kind = data, dialect.MediaKindOf(m.Type)
}
