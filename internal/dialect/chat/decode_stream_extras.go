package chat

import (
	"bytes"
	"encoding/base64"
	"encoding/json"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// readImages reads generated images in OpenRouter's format.
// https://openrouter.ai/docs/features/multimodal/image-generation
func (c *choice) readImages(dst []llm.Event, i int, raw []byte) []llm.Event {
	if len(raw) <= 2 {
		return dst
	}
	v, err := jsonedit.ParseValue(raw)
	if err != nil {
		return dst
	}
	for e := range v.Elements() {
		if _, ok := e.Get("image_url"); ok {
			dst = c.completePart(dst, i, e)
		}
	}
	return dst
}

// readLogprobs reads log probabilities. They are emitted with the text of their
// tokens.
func (c *choice) readLogprobs(raw []byte) {
	if len(raw) == 0 || raw[0] != '{' {
		return
	}
	var list struct{ Content []wireLogprob }
	if json.Unmarshal(raw, &list) == nil {
		c.logprobs = append(c.logprobs, logprobsOf(list.Content)...)
	}
}

type wireLogprob struct {
	Token   string
	Logprob float64
	Bytes   []int
	Top     []wireLogprob `json:"top_logprobs"`
}

func logprobsOf(list []wireLogprob) []llm.Logprob {
	var out []llm.Logprob
	for _, p := range list {
		out = append(out, llm.Logprob{Token: p.Token, Logprob: p.Logprob, Bytes: p.Bytes, Top: logprobsOf(p.Top)})
	}
	return out
}

// readAnnotations reads citations, which refer to offsets in the content.
func (c *choice) readAnnotations(raw []byte) {
	v, err := jsonedit.ParseValue(raw)
	if err != nil {
		return
	}
	for e := range v.Elements() {
		inner, ok := e.Get("url_citation")
		if !ok {
			continue
		}
		word := func(name string) string { m, _ := inner.Get(name); text, _ := m.Text(); return text }
		place := func(name string) int { m, _ := inner.Get(name); n, _ := m.Int(); return int(n) }
		c.cites = append(c.cites, llm.Citation{
			URL: word("url"), Title: word("title"), Text: word("content"),
			Start: place("start_index"), End: place("end_index"),
			Raw: bytes.Clone(e.Raw()), Dialect: dialectName,
		})
	}
}

// emitCitations emits the citations that begin before an offset, with the open
// text part or a new one.
func (c *choice) emitCitations(dst []llm.Event, i, before int) []llm.Event {
	later := c.cites[:0]
	for _, cite := range c.cites {
		if cite.Start >= before {
			later = append(later, cite)
			continue
		}
		dst = c.ready(dst, i, textPart)
		cite.Start, cite.End = max(cite.Start-c.partAt, 0), max(cite.End-c.partAt, 0)
		dst = c.cite(dst, i, &cite)
	}
	c.cites = later
	return dst
}

func (c *choice) cite(dst []llm.Event, i int, cite *llm.Citation) []llm.Event {
	dst = c.ready(dst, i, textPart)
	c.cited = true
	return append(dst, llm.Event{Kind: llm.EventDelta, Choice: i, Part: c.open, Citation: cite})
}

// source emits the sources of the complete response with the first text part
// that has no citations.
func (c *choice) source(dst []llm.Event, i int) []llm.Event {
	if c.cited {
		return dst
	}
	for n := range c.d.sources {
		dst = append(dst, llm.Event{Kind: llm.EventDelta, Choice: i, Part: c.open, Citation: &c.d.sources[n]})
		c.cited = true
	}
	return dst
}

// readAudio collects audio. Each piece is base64 by itself.
// https://platform.openai.com/docs/guides/audio
func (c *choice) readAudio(raw []byte) {
	v, err := jsonedit.ParseValue(raw)
	if err != nil {
		return
	}
	if c.audio == nil {
		if data, ok := v.Get("data"); ok && len(data.Raw()) <= 2 {
			return // Snowflake sends an empty one with every response
		}
		c.audio = &spokenAudio{}
	}
	for key, m := range v.Fields() {
		switch name := key.String(); name {
		case "data":
			text, _ := m.Text()
			if b, err := base64.StdEncoding.DecodeString(text); err == nil {
				c.audio.data = append(c.audio.data, b...)
			}
		case "transcript":
			text, _ := m.Text()
			c.audio.transcript = append(c.audio.transcript, text...)
		default:
			if !repeated(c.audio.extra, name) && !m.IsNull() {
				c.audio.extra = append(c.audio.extra, llm.Member{Name: name, Value: bytes.Clone(m.Raw())})
			}
		}
	}
}

// sound returns the audio output in the requested format.
func (c *choice) sound() llm.Media {
	m := llm.Media{Kind: llm.Audio, Data: base64.StdEncoding.EncodeToString(c.audio.data), Extra: c.audio.extra}
	if len(c.audio.transcript) > 0 {
		m.Extra = append(m.Extra, llm.Member{Name: "transcript", Value: jsonedit.AppendString(nil, string(c.audio.transcript))})
	}
	if c.d.asked != nil {
		var speech struct{ Format string }
		if json.Unmarshal(c.d.asked.Speech, &speech) == nil && speech.Format != "" {
			m.Type = audioType(speech.Format)
		}
	}
	return m
}

// readSources reads the list of sources of a response. Perplexity repeats it
// with every chunk.
// https://docs.perplexity.ai/api-reference
func (d *streamDecoder) readSources(raw []byte, name string) {
	v, err := jsonedit.ParseValue(raw)
	if err != nil {
		return
	}
	if d.keepExtra && name == "citations" && !v.IsNull() {
		d.start.Extra = append(d.start.Extra, llm.Member{Name: name, Value: bytes.Clone(raw)})
	}
	if len(d.sources) > 0 && name == "citations" {
		return
	}
	var list []llm.Citation
	for e := range v.Elements() {
		if url, ok := e.Text(); ok {
			list = append(list, llm.Citation{URL: url})
		} else if url, ok := e.Get("url"); ok {
			text, _ := url.Text()
			title, _ := e.Get("title")
			name, _ := title.Text()
			list = append(list, llm.Citation{URL: text, Title: name})
		}
	}
	if len(list) > 0 {
		d.sources = list
	}
}

// faultOf reads an error inside a response.
func faultOf(raw []byte) *llm.ProviderError {
	f := &llm.ProviderError{Message: failure(raw), Raw: bytes.Clone(raw)}
	v, err := jsonedit.ParseValue(raw)
	if err != nil {
		f.Raw = nil
		return f
	}
	if inner, ok := v.Get("error"); ok && inner.Kind() == jsonedit.Object {
		v = inner
	}
	word := func(name string) string {
		m, _ := v.Get(name)
		if m.Kind() == jsonedit.Number {
			return string(m.Raw())
		}
		text, _ := m.Text()
		return text
	}
	f.Type, f.Code = word("type"), word("code")
	return f
}

// unquoted returns the value of a JSON string.
func unquoted(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), true
	}
	v, err := jsonedit.ParseValue(raw)
	if err != nil {
		return "", false
	}
	return v.Text()
}
