package chat

import (
	"encoding/json"
	"slices"
	"unicode/utf8"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// writer writes the elements that requests, responses and chunks have in
// common.
type writer struct{ jsonedit.Builder }

func (w *writer) textMember(name, value string) {
	w.Name(name)
	w.String(value)
}

func (w *writer) intMember(name string, n int64) {
	w.Name(name)
	w.Int(n)
}

func (w *writer) rawMember(name string, value json.RawMessage) {
	w.Name(name)
	w.Raw(value)
}

// extra writes additional members, each name once, except for those named.
func (w *writer) extra(list []llm.Member, but ...string) {
	if len(list) == 0 {
		return
	}
	written := make(map[string]bool, len(list))
	for _, m := range list {
		if len(m.Value) == 0 || written[m.Name] || slices.Contains(but, m.Name) {
			continue
		}
		written[m.Name] = true
		w.Key(m.Name)
		w.Raw(m.Value)
	}
}

func repeated(list []llm.Member, name string) bool {
	for _, m := range list {
		if m.Name == name {
			return true
		}
	}
	return false
}

// usage writes the counters in this dialect: cached and cache-written tokens
// are part of the prompt, thinking is part of the completion. Strict leaves out
// counters that only other dialects have.
// https://platform.openai.com/docs/api-reference/chat/object#chat/object-usage
func (w *writer) usage(u *llm.Usage, strict bool) {
	written := u.CacheWrite5m + u.CacheWrite1h
	w.Open('{')
	w.intMember("prompt_tokens", u.Prompt())
	w.intMember("completion_tokens", u.Completion())
	w.intMember("total_tokens", u.Total())
	w.Name("prompt_tokens_details")
	w.Open('{')
	w.intMember("cached_tokens", u.CachedInput)
	w.intMember("audio_tokens", u.InputAudio)
	if written > 0 {
		w.intMember("cache_write_tokens", written)
	}
	w.Close('}')
	w.Name("completion_tokens_details")
	w.Open('{')
	w.intMember("reasoning_tokens", u.Reasoning)
	w.intMember("audio_tokens", u.OutputAudio)
	w.intMember("accepted_prediction_tokens", 0)
	w.intMember("rejected_prediction_tokens", 0)
	w.Close('}')
	if !strict && u.CachedInput+written > 0 {
		w.cacheUsage(u, written)
	}
	w.Close('}')
}

// cacheUsage writes the counters of caches in the format of the messages
// dialect.
func (w *writer) cacheUsage(u *llm.Usage, written int64) {
	w.intMember("cache_read_input_tokens", u.CachedInput)
	w.intMember("cache_creation_input_tokens", written)
	w.Name("cache_creation")
	w.Open('{')
	w.intMember("ephemeral_5m_input_tokens", u.CacheWrite5m)
	w.intMember("ephemeral_1h_input_tokens", u.CacheWrite1h)
	w.Close('}')
}

// logprobs writes the value of a choice's logprobs.
func (w *writer) logprobs(list []llm.Logprob) {
	if len(list) == 0 {
		w.Null()
		return
	}
	w.Open('{')
	w.Name("content")
	w.tokens(list, true)
	w.Name("refusal")
	w.Null()
	w.Close('}')
}

func (w *writer) tokens(list []llm.Logprob, top bool) {
	w.Open('[')
	for i := range list {
		p := &list[i]
		w.Open('{')
		w.textMember("token", p.Token)
		w.Name("logprob")
		w.Float(p.Logprob)
		w.Name("bytes")
		if p.Bytes == nil {
			w.Null()
		} else {
			w.Open('[')
			for _, b := range p.Bytes {
				w.Int(int64(b))
			}
			w.Close(']')
		}
		if top {
			w.Name("top_logprobs")
			w.tokens(p.Top, false)
		}
		w.Close('}')
	}
	w.Close(']')
}

// annotation writes a citation. offset is the start of its part in the content.
func (w *writer) annotation(c *llm.Citation, offset int) {
	w.Open('{')
	w.textMember("type", "url_citation")
	w.Name("url_citation")
	w.Open('{')
	w.intMember("start_index", int64(c.Start+offset))
	w.intMember("end_index", int64(c.End+offset))
	w.textMember("url", c.URL)
	w.textMember("title", c.Title)
	if c.Text != "" {
		w.textMember("content", c.Text)
	}
	w.Close('}')
	w.Close('}')
}

// call writes a tool call; a negative index is left out. Signatures are written
// if signed is true.
func (w *writer) call(c *llm.ToolCall, index int, signed bool) {
	w.Open('{')
	if index >= 0 {
		w.intMember("index", int64(index))
	}
	w.textMember("id", c.ID)
	if c.Custom {
		w.textMember("type", "custom")
		w.Name("custom")
		w.Open('{')
		w.textMember("name", c.Name)
		w.textMember("input", c.Arguments)
	} else {
		w.textMember("type", "function")
		w.Name("function")
		w.Open('{')
		w.textMember("name", c.Name)
		w.textMember("arguments", c.Arguments)
	}
	w.Close('}')
	if signed && c.Signature.Value != "" {
		w.Name("extra_content")
		w.google(c.Signature)
	}
	w.Close('}')
}

// google writes a signature in the format of Google's endpoint for this
// dialect.
func (w *writer) google(s llm.Signature) {
	w.Open('{')
	w.Name("google")
	w.Open('{')
	w.textMember("thought_signature", dialect.MarkSignature(llm.Google, s))
	w.Close('}')
	w.Close('}')
}

// argumentsText returns the arguments of a complete call: for a function never
// the empty string.
func argumentsText(c *llm.ToolCall) string {
	if c.Arguments == "" && !c.Custom && !c.Broken {
		return "{}"
	}
	return c.Arguments
}

// block writes a part as an element of content_blocks, without its braces: the
// type as in requests, and its members.
func (w *writer) block(p llm.Part) {
	switch part := p.(type) {
	case llm.Text:
		w.textBlock(&part)
	case llm.Thinking:
		w.thinkingBlock(&part)
	case llm.Media:
		w.media(&part)
	case llm.Native:
		w.nativeBlock(&part)
	}
}

func (w *writer) textBlock(part *llm.Text) {
	w.textMember("type", "text")
	w.textMember("text", part.Text)
	if part.Signature.Value != "" {
		w.textMember("thought_signature", dialect.MarkSignature(llm.Google, part.Signature))
	}
	w.citations(part.Citations)
}

// citations writes citations of the messages dialect as received.
func (w *writer) citations(list []llm.Citation) {
	open := false
	for i := range list {
		if list[i].Dialect != "messages" || len(list[i].Raw) == 0 {
			continue
		}
		if !open {
			w.Name("citations")
			w.Open('[')
			open = true
		}
		w.Raw(list[i].Raw)
	}
	if open {
		w.Close(']')
	}
}

func (w *writer) thinkingBlock(part *llm.Thinking) {
	sign := dialect.MarkSignature(llm.Anthropic, part.Signature)
	if part.Redacted {
		w.textMember("type", "redacted_thinking")
		w.textMember("data", sign)
		return
	}
	w.textMember("type", "thinking")
	w.textMember("thinking", part.Text)
	if sign != "" {
		w.textMember("signature", sign)
	}
}

// nativeBlock writes a native part of another dialect as received, with its
// type.
func (w *writer) nativeBlock(part *llm.Native) {
	v, err := jsonedit.ParseValue(part.Raw)
	if err != nil || v.Kind() != jsonedit.Object {
		w.textMember("type", part.Type)
		return
	}
	if _, ok := v.Get("type"); !ok {
		w.textMember("type", part.Type)
	}
	for key, value := range v.Fields() {
		w.Key(key.String())
		w.Raw(value.Raw())
	}
}

// media writes a media part without its braces: the type, and an object of the
// same name.
func (w *writer) media(m *llm.Media) {
	switch {
	case m.FileID != "" || m.Kind == llm.Document:
		w.file(m, "file_url")
	case m.Kind == llm.Audio && m.Data != "":
		w.textMember("type", "input_audio")
		w.Name("input_audio")
		w.Open('{')
		w.textMember("data", m.Data)
		w.textMember("format", audioFormat(m.Type))
		w.Close('}')
	default:
		w.address(m, string(m.Kind)+"_url")
	}
}

func (w *writer) address(m *llm.Media, word string) {
	w.textMember("type", word)
	w.Name(word)
	w.Open('{')
	w.textMember("url", mediaURL(m))
	if m.Detail != "" {
		w.textMember("detail", m.Detail)
	}
	w.Close('}')
}

// file writes a file. Its URL, if it has one, goes into the named member.
func (w *writer) file(m *llm.Media, address string) {
	w.textMember("type", "file")
	w.Name("file")
	w.Open('{')
	switch {
	case m.FileID != "":
		w.textMember("file_id", m.FileID)
	case m.URL != "":
		w.textMember(address, m.URL)
	default:
		w.textMember("file_data", mediaURL(m))
	}
	if m.Name != "" {
		w.textMember("filename", m.Name)
	}
	w.Close('}')
}

// mediaURL returns the URL of m, or its data as a data: URL.
func mediaURL(m *llm.Media) string {
	if m.Data == "" {
		return m.URL
	}
	mime := m.Type
	if mime == "" {
		mime = defaultTypes[m.Kind]
	}
	return "data:" + mime + ";base64," + m.Data
}

var defaultTypes = map[llm.MediaKind]string{
	llm.Image: "image/png", llm.Document: "application/pdf", llm.Audio: "audio/wav", llm.Video: "video/mp4",
}

// isAudioOutput reports whether p is audio output, which has its own place in a
// message.
func isAudioOutput(p llm.Part) bool {
	m, ok := p.(llm.Media)
	return ok && m.Kind == llm.Audio
}

// audio writes the audio output. Providers other than the vendor keep none for later turns,
// so it expires at once.
// https://platform.openai.com/docs/api-reference/chat/object#chat-object-choices-message-audio
func (w *writer) audio(m *llm.Media, to *dialect.ResponseTarget) {
	w.Open('{')
	if !repeated(m.Extra, "id") {
		w.textMember("id", "audio_"+to.ID)
	}
	if !repeated(m.Extra, "expires_at") {
		w.intMember("expires_at", to.Created)
	}
	w.textMember("data", m.Data)
	if !repeated(m.Extra, "transcript") {
		w.textMember("transcript", "")
	}
	w.extra(m.Extra, "data")
	w.Close('}')
}

func runes(s string) int { return utf8.RuneCountInString(s) }
