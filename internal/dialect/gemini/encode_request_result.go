package gemini

import (
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// result writes a tool result.
func (w *requestEncoder) result(t *turn, r llm.ToolResult) {
	call, ok := w.callOf(r)
	if !ok {
		return
	}
	outcome := w.outcome(r)
	b := jsonedit.Append(nil)
	b.Open('{')
	b.Name("functionResponse")
	b.Open('{')
	w.id(&b, r.ID, call.number)
	text(&b, "name", call.name)
	if outcome.spoken || !w.own {
		b.Name("response")
		appendOutcome(&b, outcome.words, r.Failed)
	}
	if len(outcome.inside) > 0 {
		b.Name("parts")
		b.Open('[')
		for _, p := range outcome.inside {
			b.Raw(p)
		}
		b.Close(']')
	}
	if w.own {
		for _, m := range r.Extra {
			b.Key(m.Name)
			b.Raw(m.Value)
		}
	}
	b.Close('}')
	b.Close('}')
	if w.own {
		t.parts = append(t.parts, b.Bytes())
		return
	}
	t.results = append(t.results, result{call.number, b.Bytes()})
	t.parts = append(t.parts, outcome.beside...)
}

// callOf returns the call that a result belongs to. The provider requires its
// name again.
func (w *requestEncoder) callOf(r llm.ToolResult) (sentCall, bool) {
	call, ok := w.calls[r.ID]
	if r.Name != "" {
		call.name, ok = r.Name, true
	}
	if !ok && w.err == nil {
		w.err = dialect.Invalid(r.At, dialect.CodeValue, "belongs to no tool call before it: send the call %.100q with the turn of the assistant",
			r.ID)
	}
	return call, ok
}

// outcome holds the parts of a tool result by their place.
type outcome struct {
	words          string
	spoken         bool
	inside, beside [][]byte
}

// outcome sorts the parts of a result: text is the response, inlineData goes
// inside it for later models, and everything else goes next to it.
// https://ai.google.dev/gemini-api/docs/function-calling#multimodal
func (w *requestEncoder) outcome(r llm.ToolResult) (o outcome) {
	var words []string
	for _, p := range r.Parts {
		switch p := p.(type) {
		case llm.Text:
			words = append(words, p.Text)
		case llm.Refusal:
			words = append(words, p.Text)
		case llm.Native:
			o.inside = append(o.inside, p.Raw)
		case llm.Media:
			if p.Text != "" {
				words = append(words, document(p))
				continue
			}
			t := &turn{}
			w.mediaPart(t, p)
			if w.own || w.model.SignedCalls && p.Data != "" {
				o.inside = append(o.inside, t.parts...)
				continue
			}
			o.beside = append(o.beside, t.parts...)
		}
	}
	o.spoken = len(words) > 0
	o.words = strings.Join(words, "\n")
	if o.words == "" && !w.own {
		o.words = "(no output)"
		if len(o.inside) > 0 || len(o.beside) > 0 {
			o.words = "(see the attached files)"
		}
	}
	return o
}

// appendOutcome writes the text of a result as an object.
func appendOutcome(b *jsonedit.Builder, words string, failed bool) {
	if !failed && isObject(words) {
		b.Raw([]byte(words))
		return
	}
	b.Open('{')
	name := "output"
	if failed {
		name = "error"
	}
	text(b, name, words)
	b.Close('}')
}
