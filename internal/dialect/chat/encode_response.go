package chat

import (
	"cmp"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// EncodeResponse appends the body of a complete response. With strict
// compliance it holds only what the vendor's clients know, and content_blocks
// only for media, which have no other place. Without it, thinking and members
// added by the provider are included.
func (Dialect) EncodeResponse(dst []byte, r *llm.Response, to dialect.ResponseTarget) []byte {
	w := writer{jsonedit.Append(dst)}
	h := headOf(&to, r.ID, r.Model, r.Created)
	w.Open('{')
	w.textMember("id", h.id)
	w.textMember("object", "chat.completion")
	w.intMember("created", h.created)
	w.textMember("model", h.model)
	w.Name("choices")
	w.Open('[')
	for i := range r.Choices {
		w.choice(i, &r.Choices[i], &to)
	}
	w.Close(']')
	if r.Usage.Known {
		w.Name("usage")
		w.usage(&r.Usage, to.Strict)
	}
	w.marks(r.ServiceTier, r.Fingerprint)
	if !to.Strict {
		w.extra(r.Extra, "id", "object", "created", "model", "choices", "usage", "service_tier", "system_fingerprint")
	}
	w.Close('}')
	return w.Bytes()
}

// HoldsMedia implements dialect.ClientDialect: audio has its own member, and other media
// are in content_blocks.
func (Dialect) HoldsMedia(*llm.Media, dialect.ResponseTarget) bool { return true }

// head holds the top-level members of every response and chunk.
type head struct {
	id, model string
	created   int64
}

func headOf(to *dialect.ResponseTarget, id, model string, created int64) head {
	h := head{cmp.Or(id, "chatcmpl-"+to.ID), model, cmp.Or(created, to.Created)}
	if model == "" && to.Request != nil {
		h.model = to.Request.Model
	}
	return h
}

func (w *writer) marks(tier, fingerprint string) {
	if tier != "" {
		w.textMember("service_tier", tier)
	}
	if fingerprint != "" {
		w.textMember("system_fingerprint", fingerprint)
	}
}

func (w *writer) choice(i int, c *llm.Choice, to *dialect.ResponseTarget) {
	m := gather(c.Parts)
	m.said.legacy = legacy(to.Request)
	w.Open('{')
	w.intMember("index", int64(i))
	w.Name("message")
	w.message(&m, c.Parts, to)
	w.Name("logprobs")
	w.logprobs(c.Logprobs)
	w.textMember("finish_reason", finishReason(c.Stop, m.said))
	if !to.Strict {
		w.native(c.NativeFinishReason, c.StopText)
		w.extra(c.Extra, "index", "message", "logprobs", "finish_reason", "native_finish_reason", "stop_reason")
	}
	w.Close('}')
}

// native writes the provider's own finish reason.
func (w *writer) native(said, stopText string) {
	if said != "" {
		w.textMember("native_finish_reason", said)
	}
	if stopText != "" {
		w.textMember("stop_reason", stopText)
	}
}

// messageParts holds the parts of a choice by their place in a message.
type messageParts struct {
	content, refusal, thought strings.Builder
	calls                     []llm.ToolCall
	audio                     *llm.Media
	spoke, media              bool
	said                      finishState
}

func gather(parts []llm.Part) (g messageParts) {
	for _, p := range parts {
		switch part := p.(type) {
		case llm.Text:
			g.content.WriteString(part.Text)
			g.spoke = true
		case llm.Thinking:
			g.thought.WriteString(part.Text)
		case llm.Refusal:
			g.refusal.WriteString(part.Text)
			g.said.refusal = true
		case llm.ToolCall:
			part.Arguments = argumentsText(&part)
			g.calls = append(g.calls, part)
			g.said.calls = true
		case llm.Media:
			if isAudioOutput(part) {
				g.audio = &part
			} else {
				g.media = true
			}
		}
	}
	return g
}

func (w *writer) message(g *messageParts, parts []llm.Part, to *dialect.ResponseTarget) {
	w.Open('{')
	w.textMember("role", "assistant")
	w.Name("content")
	if !g.spoke && (g.said.calls || g.said.refusal || g.audio != nil) {
		w.Null()
	} else {
		w.String(g.content.String())
	}
	w.Name("refusal")
	if g.said.refusal {
		w.String(g.refusal.String())
	} else {
		w.Null()
	}
	if !to.Strict && g.thought.Len() > 0 {
		w.textMember("reasoning_content", g.thought.String())
	}
	w.annotations(parts)
	if g.audio != nil {
		w.Name("audio")
		w.audio(g.audio, to)
	}
	w.calls(g, to)
	w.blocks(parts, g, to.Strict)
	w.Close('}')
}

// calls writes tool calls. A client that sent functions gets the first as a
// function_call; this format has no further ones.
func (w *writer) calls(g *messageParts, to *dialect.ResponseTarget) {
	calls := g.calls
	if len(calls) == 0 {
		return
	}
	if g.said.legacy {
		w.Name("function_call")
		w.Open('{')
		w.textMember("name", calls[0].Name)
		w.textMember("arguments", calls[0].Arguments)
		w.Close('}')
		if calls = calls[1:]; len(calls) == 0 {
			return
		}
	}
	w.Name("tool_calls")
	w.Open('[')
	for i := range calls {
		w.call(&calls[i], -1, !to.Strict)
	}
	w.Close(']')
}

func (w *writer) annotations(parts []llm.Part) {
	open, offset := false, 0
	for _, p := range parts {
		text, ok := p.(llm.Text)
		if !ok {
			continue
		}
		for i := range text.Citations {
			if text.Citations[i].URL == "" {
				continue
			}
			if !open {
				w.Name("annotations")
				w.Open('[')
				open = true
			}
			w.annotation(&text.Citations[i], offset)
		}
		offset += runes(text.Text)
	}
	if open {
		w.Close(']')
	}
}

// blocks writes content_blocks: the parts that do not fit elsewhere without
// loss, or only media with strict compliance.
func (w *writer) blocks(parts []llm.Part, g *messageParts, strict bool) {
	if strict && !g.media {
		return
	}
	open := false
	for _, p := range parts {
		if !blocked(p, strict) {
			continue
		}
		if !open {
			w.Name("content_blocks")
			w.Open('[')
			open = true
		}
		w.Open('{')
		w.block(p)
		w.Close('}')
	}
	if open {
		w.Close(']')
	}
}

// blocked reports whether a part is written to content_blocks.
func blocked(p llm.Part, strict bool) bool {
	switch p.(type) {
	case llm.Text, llm.Thinking, llm.Native:
		return !strict
	case llm.Media:
		return !isAudioOutput(p)
	}
	return false
}
