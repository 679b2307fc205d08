package messages

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// EncodeResponse appends the body of a complete response. The protocol has one
// choice, so only the first is written.
func (Dialect) EncodeResponse(dst []byte, r *llm.Response, to dialect.ResponseTarget) []byte {
	var choice llm.Choice
	if len(r.Choices) > 0 {
		choice = r.Choices[0]
	}
	e := responseEncoder{Builder: jsonedit.Append(dst), to: to}
	e.Open('{')
	e.head(messageID(r.ID, r.Dialect == own, to), modelName(r.Model, to))
	e.Name("content")
	e.Open('[')
	for _, p := range choice.Parts {
		e.part(p)
	}
	e.Close(']')
	end := e.ending
	end.stop, end.said, end.text = choice.Stop, choice.NativeFinishReason, choice.StopText
	writeEnding(&e.Builder, &end)
	extra := choice.Extra
	if r.Dialect != own {
		extra = ownExtra(extra)
	}
	for _, m := range extra {
		if !strings.HasPrefix(m.Name, usagePrefix) {
			e.Key(m.Name)
			e.Raw(m.Value)
		}
	}
	e.Name("usage")
	writeUsage(&e.Builder, r.Usage, r.ServiceTier, extra)
	e.Close('}')
	return e.Bytes()
}

// responseNames are the additional members of responses of this dialect. Streams
// do not mark the dialect of additional members.
var responseNames = []string{"container", "stop_details", "context_management", "diagnostics"}

// ownExtra returns the additional members of a response that belong to this
// dialect.
func ownExtra(list []llm.Member) (extra []llm.Member) {
	for _, m := range list {
		if strings.HasPrefix(m.Name, usagePrefix) || slices.Contains(responseNames, m.Name) {
			extra = append(extra, m)
		}
	}
	return extra
}

// messageID returns the id of a response in the protocol's format.
func messageID(id string, isOwn bool, to dialect.ResponseTarget) string {
	switch {
	case id == "":
		return messagePrefix + to.ID
	case isOwn, strings.HasPrefix(id, messagePrefix):
		return id
	}
	for _, prefix := range [...]string{"chatcmpl-", "resp_"} {
		if rest, ok := strings.CutPrefix(id, prefix); ok && rest != "" {
			return messagePrefix + rest
		}
	}
	return messagePrefix + id
}

const messagePrefix = "msg_"

func modelName(name string, to dialect.ResponseTarget) string {
	if to.Request == nil {
		return name
	}
	return cmp.Or(name, to.Request.Model)
}

// responseEncoder writes the parts of a complete response.
type responseEncoder struct {
	jsonedit.Builder
	to     dialect.ResponseTarget
	ending ending
	calls  int
}

// head writes the members that begin a message.
func (e *responseEncoder) head(id, model string) {
	for _, m := range [...][2]string{{"id", id}, {"type", "message"}, {"role", "assistant"}, {"model", model}} {
		e.Name(m[0])
		e.String(m[1])
	}
}

func writeEnding(b *jsonedit.Builder, e *ending) {
	b.Name("stop_reason")
	b.String(e.word())
	b.Name("stop_sequence")
	if e.text == "" {
		b.Null()
	} else {
		b.String(e.text)
	}
}

// part writes a part as blocks. Parts that only another dialect has are left
// out.
func (e *responseEncoder) part(p llm.Part) {
	switch part := p.(type) {
	case llm.Text:
		openText(&e.Builder, part.Text)
		if len(part.Citations) > 0 || part.Signature.Value != "" {
			e.Name("citations")
			e.Open('[')
			for i := range part.Citations {
				writeCitation(&e.Builder, &part.Citations[i])
			}
			if part.Signature.Value != "" {
				writeTextSignature(&e.Builder, part.Signature)
			}
			e.Close(']')
		}
		e.Close('}')
	case llm.Refusal:
		e.ending.refused = true
		openText(&e.Builder, part.Text)
		e.Close('}')
	case llm.Thinking:
		if part.Redacted {
			writeRedacted(&e.Builder, part.Signature)
		} else {
			writeThinking(&e.Builder, part.Text, part.Signature)
		}
	case llm.ToolCall:
		if !part.Broken { // the protocol only has complete ones
			e.call(&part)
		}
	case llm.Media:
		if (Dialect{}).HoldsMedia(&part, e.to) {
			writeMedia(&e.Builder, &part)
		}
	case llm.Native:
		if part.Dialect == own {
			e.Raw(part.Raw)
		}
	}
}

// call writes a tool call, preceded by thinking with its signature if it has
// one.
func (e *responseEncoder) call(c *llm.ToolCall) {
	e.ending.called = true
	if c.Signature.Value != "" {
		writeThinking(&e.Builder, "", c.Signature)
	}
	openCall(&e.Builder, c, callID(c.ID, e.calls, e.to))
	e.calls++
	e.Name("input")
	v := valueOf([]byte(c.Arguments))
	switch {
	case c.Custom || v.Kind() != jsonedit.Object && strings.TrimSpace(c.Arguments) != "":
		e.Open('{') // the protocol only allows objects
		e.Name(customInput)
		e.String(c.Arguments)
		e.Close('}')
	case v.Kind() == jsonedit.Object:
		e.Raw(v.Raw())
	default:
		e.Raw(emptyObject)
	}
	e.Close('}')
}

// callID returns the id of a call, or a generated one if it has none.
func callID(id string, n int, to dialect.ResponseTarget) string {
	if id != "" {
		return id
	}
	return "toolu_" + to.ID + strconv.Itoa(n)
}

func openText(b *jsonedit.Builder, text string) {
	b.Open('{')
	b.Name("type")
	b.String("text")
	b.Name("text")
	b.String(text)
}

// openCall writes the start of a call, up to its input.
func openCall(b *jsonedit.Builder, c *llm.ToolCall, id string) {
	b.Open('{')
	b.Name("type")
	b.String("tool_use")
	b.Name("id")
	b.String(id)
	b.Name("name")
	b.String(c.Name)
	for _, m := range c.Extra {
		if slices.Contains(callNames, m.Name) {
			b.Key(m.Name)
			b.Raw(m.Value)
		}
	}
}

// callNames are the additional members of calls of this dialect.
var callNames = []string{"caller", "toolset_name"}

func writeThinking(b *jsonedit.Builder, text string, s llm.Signature) {
	b.Open('{')
	b.Name("type")
	b.String("thinking")
	b.Name("thinking")
	b.String(text)
	b.Name("signature")
	b.String(dialect.MarkSignature(vendor, s))
	b.Close('}')
}

func writeRedacted(b *jsonedit.Builder, s llm.Signature) {
	b.Open('{')
	b.Name("type")
	b.String("redacted_thinking")
	b.Name("data")
	b.String(dialect.MarkSignature(vendor, s))
	b.Close('}')
}

// writeCitation writes a citation as received, or as a citation of a web page.
func writeCitation(b *jsonedit.Builder, c *llm.Citation) {
	if c.Dialect == own && c.Raw != nil {
		b.Raw(c.Raw)
		return
	}
	b.Open('{')
	for _, m := range [...][2]string{
		{"type", "web_search_result_location"}, {"url", c.URL}, {"title", c.Title}, {"cited_text", c.Text}, {"encrypted_index", ""},
	} {
		b.Name(m[0])
		b.String(m[1])
	}
	b.Close('}')
}

// writeTextSignature writes the signature of a text as a citation of no
// document. Clients send citations back unchanged and print nothing for an
// index without a document. A block of its own would have to follow the text,
// since streams end with the signature, and agents print the last block.
func writeTextSignature(b *jsonedit.Builder, s llm.Signature) {
	b.Open('{')
	for _, m := range [...][2]string{{"type", "char_location"}, {"cited_text", ""}, {signatureTitle, dialect.MarkSignature(vendor, s)}} {
		b.Name(m[0])
		b.String(m[1])
	}
	b.Name("document_index")
	b.Int(-1)
	for _, name := range [...]string{"start_char_index", "end_char_index"} {
		b.Name(name)
		b.Int(0)
	}
	b.Close('}')
}

// signatureTitle is the member of a citation with the signature of its text.
const signatureTitle = "document_title"

// isTextSignature reports whether a citation holds the signature of its text.
func isTextSignature(citation jsonedit.Value) bool {
	title, _ := inside(citation, signatureTitle).Text()
	return dialect.IsMarkedSignature(title)
}

// HoldsMedia implements dialect.ClientDialect. The protocol has no media in responses, so
// this is an extension.
func (Dialect) HoldsMedia(m *llm.Media, to dialect.ResponseTarget) bool {
	return !to.Strict && (m.Kind == llm.Image || m.Kind == llm.Document) && (m.Data != "" || m.URL != "")
}

// writeMedia writes media in the format of requests.
func writeMedia(b *jsonedit.Builder, m *llm.Media) {
	b.Open('{')
	b.Name("type")
	b.String(string(m.Kind))
	b.Name("source")
	b.Open('{')
	members := [...][2]string{{"type", "base64"}, {"media_type", m.Type}, {"data", m.Data}}
	if m.Data == "" {
		members = [...][2]string{{"type", "url"}, {"media_type", m.Type}, {"url", m.URL}}
	}
	for _, member := range members {
		if member[1] != "" {
			b.Name(member[0])
			b.String(member[1])
		}
	}
	b.Close('}')
	b.Close('}')
}
