package converse

import (
	"cmp"
	"encoding/base64"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// turn is a message as sent: consecutive messages of one role are merged.
type turn struct {
	role  string
	parts []llm.Part
}

// turns returns the turns of the conversation without parts that the protocol
// cannot express.
func (e *requestEncoder) turns() (list []turn) {
	for _, m := range e.messages {
		role := "user"
		if m.Role == llm.Assistant {
			role = "assistant"
		}
		for _, p := range m.Parts {
			if !e.sends(p) {
				continue
			}
			if n := len(list); n == 0 || list[n-1].role != role {
				list = append(list, turn{role: role})
			}
			last := &list[len(list)-1]
			last.parts = append(last.parts, p)
		}
	}
	if len(list) > 0 && list[0].role == "assistant" && !e.own {
		list = append([]turn{{role: "user", parts: []llm.Part{e.changes.BeginWithUser()}}}, list...)
	}
	if n := len(list); n > 0 && list[n-1].role == "assistant" {
		trimPrefill(&list[n-1])
	}
	return list
}

// trimPrefill removes trailing white space from the text that the model
// continues, which Claude rejects.
func trimPrefill(t *turn) {
	last := len(t.parts) - 1
	if text, ok := t.parts[last].(llm.Text); ok {
		text.Text = strings.TrimRight(text.Text, " \t\r\n")
		t.parts[last] = text
	}
}

// sends reports whether a part is sent. Converse rejects a blank string. Thinking
// is sent to models of the vendor that signed it; other models would read it as
// text.
func (e *requestEncoder) sends(p llm.Part) bool {
	switch p := p.(type) {
	case llm.Text:
		return !blank(p.Text) || e.own && p.Text != ""
	case llm.Refusal:
		return !blank(p.Text)
	case llm.Thinking:
		readable := e.model.accepts(p)
		if !readable {
			e.changes.LeaveOutThinking()
		}
		return readable
	}
	return p != nil
}

func (e *requestEncoder) encodeMessages() {
	list := e.turns()
	e.b.Name("messages")
	e.b.Open('[')
	for i := range list {
		e.b.Open('{')
		e.b.Name("role")
		e.b.String(list[i].role)
		e.b.Name("content")
		e.b.Open('[')
		e.turn(&list[i])
		if i == len(list)-1 {
			e.cacheAll(&list[i])
		}
		e.b.Close(']')
		e.b.Close('}')
	}
	e.b.Close(']')
}

// turn writes the blocks of a message. A message with a document also needs
// text.
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_DocumentBlock.html
func (e *requestEncoder) turn(t *turn) {
	document, text := "", false
	for _, p := range t.parts {
		e.part(p)
		switch p := p.(type) {
		case llm.Text, llm.Refusal:
			text = true
		case llm.Media:
			if p.Kind == llm.Document {
				document = e.docs.last
			}
		}
	}
	if document != "" && !text {
		e.textBlock(document)
	}
}

// cacheAll writes a cache point at the end of the prompt if the request asks to
// cache all of it.
func (e *requestEncoder) cacheAll(last *turn) {
	switch {
	case e.r.Cache == nil:
	case !e.model.caches():
		e.changes.Drop(llm.FieldCache)
	default:
		e.changes.Adapt(llm.FieldCache, dialect.CachePoint)
		if cacheOf(last.parts[len(last.parts)-1]) == nil {
			e.cachePoint(e.r.Cache)
		}
	}
}

func cacheOf(p llm.Part) *llm.Cache {
	switch p := p.(type) {
	case llm.Text:
		return p.Cache
	case llm.Media:
		return p.Cache
	case llm.ToolCall:
		return p.Cache
	case llm.ToolResult:
		if p.Cache == nil && len(p.Parts) > 0 {
			return cacheOf(p.Parts[len(p.Parts)-1])
		}
		return p.Cache
	}
	return nil
}

// part writes a part, and its cache point if it has one.
func (e *requestEncoder) part(p llm.Part) {
	switch p := p.(type) {
	case llm.Text:
		e.text(&p)
	case llm.Refusal:
		e.textBlock(p.Text)
	case llm.Thinking:
		e.b.Raw(reasoningBlock(&p, e.model.signs()))
	case llm.Media:
		e.media(&p)
	case llm.ToolCall:
		e.call(&p)
	case llm.ToolResult:
		e.result(&p)
	case llm.Native:
		e.native(&p)
	}
	switch c := cacheOf(p); {
	case c == nil:
	case e.own:
		e.cachePoint(c)
	case e.model.caches():
		if m, ok := p.(llm.Media); ok && m.Kind != llm.Image {
			e.textBlock("\n") // a cache point directly after a document or video is rejected
		}
		e.cachePoint(c)
	default:
		e.changes.Drop(llm.FieldCache)
	}
}

func (e *requestEncoder) textBlock(s string) {
	e.b.Open('{')
	e.b.Name("text")
	e.b.String(s)
	e.b.Close('}')
}

// text writes text, with its citations if they are of this dialect.
func (e *requestEncoder) text(p *llm.Text) {
	if len(p.Citations) == 0 || !e.model.claude() {
		e.textBlock(p.Text)
		return
	}
	for _, c := range p.Citations {
		if c.Dialect != name {
			e.textBlock(p.Text)
			return
		}
	}
	appendCited(&e.b, p)
}

func (e *requestEncoder) cachePoint(c *llm.Cache) {
	e.b.Open('{')
	e.b.Name("cachePoint")
	e.b.Open('{')
	e.b.Name("type")
	e.b.String("default")
	switch {
	case c.TTL == "":
	case e.own || e.model.claude():
		e.b.Name("ttl")
		e.b.String(c.TTL)
	default:
		e.changes.Adapt(llm.FieldCache, dialect.ProvidersLifetime)
	}
	e.b.Close('}')
	e.b.Close('}')
}

func (e *requestEncoder) call(p *llm.ToolCall) {
	e.b.Open('{')
	e.b.Name("toolUse")
	e.b.Open('{')
	e.b.Name("toolUseId")
	e.b.String(e.model.callIDs().Fit(p.ID))
	e.b.Name("name")
	e.b.String(wireName(p.Name))
	e.b.Name("input")
	e.b.Raw(inputOf(p))
	e.b.Close('}')
	e.b.Close('}')
}

// inputOf returns the input of a call, which must be an object.
func inputOf(p *llm.ToolCall) []byte {
	if p.Custom {
		return wrap("input", jsonedit.AppendString(nil, p.Arguments))
	}
	if blank(p.Arguments) {
		return []byte("{}")
	}
	v, err := jsonedit.ParseValue([]byte(p.Arguments))
	switch {
	case err != nil:
		return wrap("rawInvalidInput", jsonedit.AppendString(nil, p.Arguments))
	case v.Kind() != jsonedit.Object:
		return wrap("rawInvalidInput", v.Raw())
	}
	return v.Raw()
}

func (e *requestEncoder) result(p *llm.ToolResult) {
	e.b.Open('{')
	e.b.Name("toolResult")
	e.b.Open('{')
	e.b.Name("toolUseId")
	e.b.String(e.model.callIDs().Fit(p.ID))
	e.b.Name("content")
	e.b.Open('[')
	asJSON := e.asJSON(p)
	for i, part := range p.Parts {
		e.resultPart(part, asJSON[int64(i)])
	}
	e.b.Close(']')
	if p.Failed {
		e.b.Name("status")
		e.b.String("error")
	}
	e.b.Close('}')
	e.b.Close('}')
}

func (e *requestEncoder) resultPart(part llm.Part, asJSON bool) {
	switch part := part.(type) {
	case llm.Text:
		switch {
		case asJSON:
			e.b.Raw(wrap("json", []byte(part.Text)))
		case !blank(part.Text) || e.own && part.Text != "":
			e.textBlock(part.Text)
		}
	case llm.Media:
		e.media(&part)
	case llm.Native:
		e.b.Raw(part.Raw)
	}
}

// asJSON returns the indexes of a result's parts that were JSON.
func (e *requestEncoder) asJSON(p *llm.ToolResult) map[int64]bool {
	if !e.own || len(p.Extra) == 0 || p.Extra[0].Name != jsonParts {
		return nil
	}
	list, _ := jsonedit.ParseValue(p.Extra[0].Value) // it was written by DecodeRequest
	at := map[int64]bool{}
	for n := range list.Elements() {
		i, _ := n.Int()
		at[i] = true
	}
	return at
}

// native writes a block of this dialect, or guarded text as clients of the chat
// dialect send it.
func (e *requestEncoder) native(p *llm.Native) {
	if p.Type != "guard_content" {
		e.b.Raw(p.Raw)
		return
	}
	v, _ := jsonedit.ParseValue(p.Raw) // no member exists if it is not JSON
	for _, member := range [...]string{"guardContent", "guard_content"} {
		if inner, ok := v.Get(member); ok && inner.Kind() == jsonedit.Object {
			e.b.Raw(wrap("guardContent", inner.Raw()))
			return
		}
	}
	e.textBlock(cmp.Or(v.TextOf("text"), "-"))
}

// reasoningBlock returns thinking as a content block of a request or response.
// Signatures of the vendor raw are not marked.
func reasoningBlock(p *llm.Thinking, raw llm.Vendor) []byte {
	var b jsonedit.Builder
	b.Open('{')
	b.Name("reasoningContent")
	b.Open('{')
	if p.Redacted {
		b.Name("redactedContent")
		b.String(redactedData(p.Signature, raw))
	} else {
		b.Name("reasoningText")
		b.Open('{')
		b.Name("text")
		b.String(p.Text)
		if p.Signature.Value != "" {
			b.Name("signature")
			b.String(dialect.MarkSignature(raw, p.Signature))
		}
		b.Close('}')
	}
	b.Close('}')
	b.Close('}')
	return b.Bytes()
}

// redactedData returns base64, since clients decode the field.
func redactedData(s llm.Signature, raw llm.Vendor) string {
	if s.Vendor == raw {
		return s.Value
	}
	return base64.StdEncoding.EncodeToString([]byte(dialect.MarkSignature(raw, s)))
}
