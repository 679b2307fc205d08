package chat

import (
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
	"modelgate/internal/model/modeldata"
)

// thought writes thinking next to the content.
func (e *requestEncoder) thought(s *assistantParts, loop bool) {
	switch e.profile.History {
	case dialect.ThinkingText:
		always := modeldata.DeepSeek.Of(e.to.KnownModel()).KeepsThinking
		if all := textOfThinking(s.thought); always || loop && all != "" {
			e.textMember("reasoning_content", all)
		} else if len(s.thought) > 0 {
			e.changes.LeaveOutThinking()
		}
	case dialect.ThinkingAsSeen:
		all := textOfThinking(s.thought)
		if e.to.ThinkingMember != "" && all != "" && (loop || len(s.calls) > 0 || e.to.AllThinking) {
			e.textMember(e.to.ThinkingMember, all)
		} else if len(s.thought) > 0 {
			e.changes.LeaveOutThinking()
		}
	case dialect.ThinkingDetails:
		e.details(s.thought)
	case 0:
		if len(s.thought) > 0 {
			e.changes.LeaveOutThinking()
		}
	}
}

// textOfThinking returns the text of thinking, which is cut anywhere.
func textOfThinking(list []llm.Thinking) string {
	var all strings.Builder
	for _, t := range list {
		all.WriteString(t.Text)
	}
	return all.String()
}

// details writes thinking in OpenRouter's format. Only thinking signed by the
// vendor of the model is useful there.
func (e *requestEncoder) details(list []llm.Thinking) {
	vendor, open, index := vendorOf(e.to.KnownModel()), false, int64(0)
	for i := range list {
		t := &list[i]
		usable := t.Signature.Value != "" && t.Signature.Vendor == vendor
		if !usable && (t.Redacted || t.Text == "" || vendor == llm.Anthropic) {
			e.changes.LeaveOutThinking()
			continue
		}
		if !open {
			e.Name("reasoning_details")
			e.Open('[')
			open = true
		}
		e.detail(t, usable, vendor, index)
		index++
	}
	if open {
		e.Close(']')
	}
}

func (e *requestEncoder) detail(t *llm.Thinking, usable bool, vendor llm.Vendor, index int64) {
	write := func(kind, name, text, signature string) {
		e.Open('{')
		e.textMember("type", "reasoning."+kind)
		e.textMember(name, text)
		e.optionalText("signature", signature)
		e.optionalText("id", t.ID)
		e.textMember("format", vendorFormat(vendor))
		e.intMember("index", index)
		e.Close('}')
	}
	value := ""
	if usable {
		value = t.Signature.Value
	}
	switch {
	case t.Redacted:
		write("encrypted", "data", value, "")
	case t.Summary || vendor == llm.OpenAI:
		if t.Text != "" {
			write("summary", "summary", t.Text, "")
		}
		if value != "" {
			write("encrypted", "data", value, "")
		}
	default:
		write("text", "text", t.Text, value)
	}
}

// partedThought writes thinking and text as parts, in Mistral's format.
// https://docs.mistral.ai/capabilities/reasoning
func (e *requestEncoder) partedThought(s *assistantParts) {
	e.Name("content")
	e.Open('[')
	for _, t := range s.thought {
		if t.Text == "" {
			e.changes.LeaveOutThinking()
			continue
		}
		e.Open('{')
		e.textMember("type", "thinking")
		e.Name("thinking")
		e.parts([]llm.Part{llm.Text{Text: t.Text}})
		e.Name("closed")
		e.Bool(true)
		e.Close('}')
	}
	for _, p := range s.words {
		e.part(p)
	}
	e.Close(']')
}
