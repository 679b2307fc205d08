package converse

import (
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// EncodeResponse appends the body of a complete response. The protocol has one
// choice, so only the first is written.
func (Dialect) EncodeResponse(dst []byte, r *llm.Response, to dialect.ResponseTarget) []byte {
	var c llm.Choice
	if len(r.Choices) > 0 {
		c = r.Choices[0]
	}
	b := jsonedit.Append(dst)
	b.Open('{')
	b.Name("output")
	b.Open('{')
	b.Name("message")
	b.Open('{')
	b.Name("role")
	b.String("assistant")
	b.Name("content")
	b.Open('[')
	for _, p := range c.Parts {
		appendPart(&b, p, to)
	}
	b.Close(']')
	b.Close('}')
	b.Close('}')
	b.Name("stopReason")
	b.String(reason(c.Stop, c.NativeFinishReason))
	appendUsage(&b, r.Usage)
	appendMetrics(&b, c.Extra)
	appendExtra(&b, c.Extra, "trace", "performanceConfig")
	appendFields(&b, c.Extra, c.StopText, to)
	if r.ServiceTier != "" {
		b.Name("serviceTier")
		b.Raw(wrap("type", jsonedit.AppendString(nil, r.ServiceTier)))
	}
	b.Close('}')
	return b.Bytes()
}

// appendPart appends a part of a response as a content block.
func appendPart(b *jsonedit.Builder, p llm.Part, to dialect.ResponseTarget) {
	switch p := p.(type) {
	case llm.Text:
		switch {
		case len(p.Citations) > 0 && cites(to.Request):
			appendCited(b, &p)
		case len(p.Citations) > 0: // in a block after the text, where every client finds the text
			b.Raw(wrap("text", jsonedit.AppendString(nil, p.Text)))
			appendCited(b, &llm.Text{Citations: p.Citations})
		default:
			b.Raw(wrap("text", jsonedit.AppendString(nil, p.Text)))
		}
		if p.Signature.Value != "" { // it has no place in the text itself; [unsign] reads it
			b.Raw(reasoningBlock(&llm.Thinking{Redacted: true, Signature: p.Signature}, own))
		}
	case llm.Refusal:
		b.Raw(wrap("text", jsonedit.AppendString(nil, p.Text)))
	case llm.Thinking:
		if p.Signature.Value == "" {
			p.Signature = llm.Signature{Vendor: own, Value: dialect.Unsigned}
		}
		b.Raw(reasoningBlock(&p, own))
	case llm.ToolCall:
		if p.Broken { // the protocol only has complete ones
			return
		}
		if mark := markCall(&p); mark != nil {
			b.Raw(reasoningBlock(mark, own))
		}
		b.Open('{')
		b.Name("toolUse")
		b.Open('{')
		b.Name("toolUseId")
		b.String(p.ID)
		b.Name("name")
		b.String(p.Name)
		b.Name("input")
		b.Raw(inputOf(&p))
		b.Close('}')
		b.Close('}')
	case llm.Media:
		if (Dialect{}).HoldsMedia(&p, to) {
			b.Raw(wrap("image", imageBlock(wordOf(llm.Image, p.Type), p.Data)))
		}
	case llm.Native:
		if p.Dialect == name {
			b.Raw(p.Raw)
		}
	}
}

// HoldsMedia implements dialect.ClientDialect.
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ContentBlock.html
func (Dialect) HoldsMedia(m *llm.Media, _ dialect.ResponseTarget) bool {
	return m.Kind == llm.Image && m.Data != "" && wordOf(llm.Image, m.Type) != ""
}

// imageBlock returns {"format":…,"source":{"bytes":…}}.
func imageBlock(format, data string) []byte {
	var b jsonedit.Builder
	b.Open('{')
	b.Name("format")
	b.String(format)
	b.Name("source")
	b.Raw(wrap("bytes", jsonedit.AppendString(nil, data)))
	b.Close('}')
	return b.Bytes()
}

// markCall returns empty thinking with the signature of the call after it, for
// which the protocol has no place; nil if the call has none. [unsign] reads it.
func markCall(p *llm.ToolCall) *llm.Thinking {
	if p.Signature.Value == "" {
		return nil
	}
	return &llm.Thinking{Signature: p.Signature}
}

// cites reports whether the client requested citations. Other clients do not expect
// text inside of citations.
func cites(r *llm.Request) bool {
	if r == nil {
		return false
	}
	for i := range r.Tools {
		if r.Tools[i].Server == llm.WebSearch {
			return true
		}
	}
	for i := range r.Messages {
		for _, p := range r.Messages[i].Parts {
			switch p := p.(type) {
			case llm.Media:
				if p.Cite {
					return true
				}
			case llm.Native:
				if p.Type == "searchResult" {
					return true
				}
			}
		}
	}
	return false
}

func appendCited(b *jsonedit.Builder, p *llm.Text) {
	b.Open('{')
	b.Name("citationsContent")
	b.Open('{')
	b.Name("content")
	b.Open('[')
	if p.Text != "" {
		b.Raw(wrap("text", jsonedit.AppendString(nil, p.Text)))
	}
	b.Close(']')
	b.Name("citations")
	b.Open('[')
	for i := range p.Citations {
		appendCitation(b, &p.Citations[i])
	}
	b.Close(']')
	b.Close('}')
	b.Close('}')
}

func appendCitation(b *jsonedit.Builder, c *llm.Citation) {
	if c.Dialect == name && c.Raw != nil {
		b.Raw(c.Raw)
		return
	}
	b.Open('{')
	if c.Title != "" {
		b.Name("title")
		b.String(c.Title)
	}
	if c.Text != "" {
		b.Name("sourceContent")
		b.Open('[')
		b.Raw(wrap("text", jsonedit.AppendString(nil, c.Text)))
		b.Close(']')
	}
	if c.URL != "" {
		b.Name("location")
		b.Raw(wrap("web", wrap("url", jsonedit.AppendString(nil, c.URL))))
	}
	b.Close('}')
}

// reason returns the protocol's stop reason, or said if that is one of the
// protocol's.
func reason(stop llm.StopReason, said string) string {
	if stops[said] == stop && said != "refusal" && said != "pause_turn" && said != "" {
		return said
	}
	switch stop {
	case llm.StopSequence:
		return "stop_sequence"
	case llm.StopLength, llm.StopOther: // the nearest that is not a clean end
		return "max_tokens"
	case llm.StopContext:
		return "model_context_window_exceeded"
	case llm.StopTool:
		return "tool_use"
	case llm.StopFilter, llm.StopRefusal:
		return "content_filtered"
	}
	return "end_turn"
}

// appendUsage writes token counters. The input excludes cached tokens, the
// total includes them.
func appendUsage(b *jsonedit.Builder, u llm.Usage) {
	if !u.Known {
		return
	}
	b.Name("usage")
	b.Open('{')
	b.Name("inputTokens")
	b.Int(u.Input + u.InputAudio)
	b.Name("outputTokens")
	b.Int(u.Completion())
	b.Name("totalTokens")
	b.Int(u.Total())
	if u.CachedInput > 0 {
		b.Name("cacheReadInputTokens")
		b.Int(u.CachedInput)
	}
	if writes := u.CacheWrite5m + u.CacheWrite1h; writes > 0 {
		b.Name("cacheWriteInputTokens")
		b.Int(writes)
		appendWrites(b, u)
	}
	b.Close('}')
}

func appendWrites(b *jsonedit.Builder, u llm.Usage) {
	b.Name("cacheDetails")
	b.Open('[')
	for _, w := range [...]struct {
		ttl string
		n   int64
	}{{"1h", u.CacheWrite1h}, {"5m", u.CacheWrite5m}} {
		if w.n > 0 {
			b.Open('{')
			b.Name("ttl")
			b.String(w.ttl)
			b.Name("inputTokens")
			b.Int(w.n)
			b.Close('}')
		}
	}
	b.Close(']')
}

// appendMetrics writes the provider's latency. The member is required; it is
// zero if unknown.
func appendMetrics(b *jsonedit.Builder, extra []llm.Member) {
	for _, m := range extra {
		if m.Name == "metrics" {
			appendExtra(b, extra, "metrics")
			return
		}
	}
	b.Name("metrics")
	b.Raw([]byte(`{"latencyMs":0}`))
}

func appendExtra(b *jsonedit.Builder, extra []llm.Member, names ...string) {
	for _, name := range names {
		for _, m := range extra {
			if m.Name == name {
				b.Name(name)
				b.Raw(m.Value)
				break
			}
		}
	}
}

// appendFields writes the fields of the model's own response that the client
// requested: as received, or the stop sequence at the requested path.
func appendFields(b *jsonedit.Builder, extra []llm.Member, stopText string, to dialect.ResponseTarget) {
	const name = "additionalModelResponseFields"
	for _, m := range extra {
		if m.Name == name {
			appendExtra(b, extra, name)
			return
		}
	}
	if to.Request == nil || stopText == "" {
		return
	}
	value := wrap("stop_sequence", jsonedit.AppendString(nil, stopText))
	switch paths := string(to.Request.Parameter(responsePaths)); {
	case strings.Contains(paths, `"/delta/stop_sequence"`):
		value = wrap("delta", value)
	case !strings.Contains(paths, `"/stop_sequence"`):
		return
	}
	b.Name(name)
	b.Raw(value)
}
