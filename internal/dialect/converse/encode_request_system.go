package converse

import (
	"cmp"

	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
)

// encodeSystem writes the system prompt, which combines all system messages of
// the conversation.
func (e *requestEncoder) encodeSystem() {
	var parts []llm.Part
	for _, m := range e.system {
		for _, p := range m.Parts {
			if !e.sends(p) {
				continue
			}
			switch p := p.(type) {
			case llm.Text, llm.Native:
				parts = append(parts, p)
			case llm.Media:
				e.refuse(dialect.Unsupported(cmp.Or(p.At, m.At), e.to, "its system prompt can contain only text"))
			}
		}
	}
	if e.plan.instruct && !e.model.NoSystem {
		parts = append(parts, llm.Text{Text: instruction(&e.r.Format)})
	}
	if len(parts) == 0 {
		return
	}
	e.b.Name("system")
	e.b.Open('[')
	for _, p := range parts {
		e.part(p)
	}
	e.b.Close(']')
}
