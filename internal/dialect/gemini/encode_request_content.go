package gemini

import (
	"slices"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// The roles of contents.
const (
	roleUser  = "user"
	roleModel = "model"
)

// turn is one content as it is built.
type turn struct {
	role    string
	results []result
	parts   [][]byte
	extra   []llm.Member

	pending llm.Signature // for the next part
	calls   int
	signed  bool // the first call has a signature made by the model itself
}

// result is a functionResponse and the number of the call that it belongs to.
type result struct {
	call int
	part []byte
}

// conversation writes systemInstruction and contents.
func (w *requestEncoder) conversation() {
	system := &turn{role: "system"}
	var turns []*turn
	for i := range w.r.Messages {
		m := &w.r.Messages[i]
		t := system
		if m.Role != llm.System && m.Role != llm.Developer {
			turns = w.turnFor(turns, m)
			t = turns[len(turns)-1]
		} else if len(turns) > 0 && !w.own {
			w.changes.AdaptNamed(m.At, "systemInstruction")
		}
		w.message(t, m)
	}
	for _, t := range turns {
		t.flush()
	}
	system.flush()
	if len(system.parts) > 0 && !w.own && (w.model.NoSystem || len(turns) == 0) {
		turns = asUser(turns, system)
		w.changes.AdaptNamed("system", dialect.AsUserText)
		system = &turn{}
	}
	if len(system.parts) > 0 {
		w.b.Name("systemInstruction")
		w.turn(system)
	}
	w.b.Name("contents")
	w.b.Open('[')
	for _, t := range turns {
		if len(t.parts) > 0 { // a content without parts is rejected
			w.turn(t)
		}
	}
	w.b.Close(']')
}

// asUser moves the system prompt to the start of the user's text.
func asUser(turns []*turn, system *turn) []*turn {
	if len(turns) == 0 || turns[0].role != roleUser {
		turns = slices.Insert(turns, 0, &turn{role: roleUser})
	}
	turns[0].parts = append(system.parts, turns[0].parts...)
	return turns
}

// turnFor returns the turns with a turn for m at the end; consecutive turns of
// a role are merged.
func (w *requestEncoder) turnFor(turns []*turn, m *llm.Message) []*turn {
	role := roleUser
	if m.Role == llm.Assistant {
		role = roleModel
	}
	if n := len(turns); n > 0 && !w.own && turns[n-1].role == role {
		return turns
	}
	return append(turns, &turn{role: role})
}

func (w *requestEncoder) turn(t *turn) {
	w.b.Open('{')
	if t.role != "system" {
		text(&w.b, "role", t.role)
	}
	w.b.Name("parts")
	w.b.Open('[')
	for _, p := range t.parts {
		w.b.Raw(p)
	}
	w.b.Close(']')
	for _, m := range t.extra {
		w.b.Key(m.Name)
		w.b.Raw(m.Value)
	}
	w.b.Close('}')
}

// flush ends a turn. Results come first and in the order of their calls, since
// that identifies parallel calls that have no ids.
func (t *turn) flush() {
	if t.pending.Value != "" {
		t.sign()
	}
	if len(t.results) == 0 {
		return
	}
	slices.SortStableFunc(t.results, func(a, b result) int { return a.call - b.call })
	all := make([][]byte, 0, len(t.results)+len(t.parts))
	for _, r := range t.results {
		all = append(all, r.part)
	}
	t.parts = append(all, t.parts...)
}

// sign writes the pending signature with an empty part.
func (t *turn) sign() {
	var b jsonedit.Builder
	b.Open('{')
	text(&b, "text", "")
	text(&b, "thoughtSignature", t.pending.Value)
	b.Close('}')
	t.pending = llm.Signature{}
	t.parts = append(t.parts, b.Bytes())
}

func (w *requestEncoder) message(t *turn, m *llm.Message) {
	if w.own {
		t.extra = append(t.extra, m.Extra...)
	}
	for _, p := range m.Parts {
		w.part(t, p)
	}
}

// part writes one part of a turn.
func (w *requestEncoder) part(t *turn, p llm.Part) {
	switch p := p.(type) {
	case llm.Text:
		w.words(t, p.Text, false, p.Signature, p.Text == "" && !w.own)
	case llm.Refusal:
		w.words(t, p.Text, false, llm.Signature{}, p.Text == "")
	case llm.Thinking:
		w.thought(t, p)
	case llm.Media:
		w.mediaPart(t, p)
	case llm.ToolCall:
		w.call(t, p)
	case llm.ToolResult:
		w.result(t, p)
	case llm.Native:
		t.parts = append(t.parts, p.Raw)
	}
}

// google returns the value of a signature that the provider's models made.
func google(s llm.Signature) string {
	if s.Vendor == llm.Google {
		return s.Value
	}
	return ""
}

// take returns the signature of a part: its own, or the pending one.
func (t *turn) take(s llm.Signature) string {
	value := google(s)
	if value != "" && t.pending.Value != "" {
		t.sign()
	}
	if value == "" {
		value = t.pending.Value
	}
	t.pending = llm.Signature{}
	return value
}

// words writes text or thinking. If empty is true, it writes nothing without a
// signature.
func (w *requestEncoder) words(t *turn, words string, thought bool, s llm.Signature, empty bool) {
	if empty && google(s) == "" {
		return
	}
	value := t.take(s)
	b := jsonedit.Append(nil)
	b.Open('{')
	text(&b, "text", words)
	if thought {
		b.Name("thought")
		b.Bool(true)
	}
	if value != "" {
		text(&b, "thoughtSignature", value)
	}
	b.Close('}')
	t.parts = append(t.parts, b.Bytes())
}

// thought writes thinking signed by the provider's models. An empty thinking
// part passes its signature on to the next part. For clients of this dialect,
// only thinking of other vendors is left out.
func (w *requestEncoder) thought(t *turn, p llm.Thinking) {
	switch {
	case p.Signature.Value != "" && p.Signature.Vendor != llm.Google, google(p.Signature) == "" && (!w.own || p.Redacted):
		w.changes.LeaveOutThinking()
	case p.Text == "" && google(p.Signature) != "":
		if t.pending.Value != "" {
			t.sign()
		}
		t.pending = p.Signature
	default:
		w.words(t, p.Text, true, p.Signature, false)
	}
}

// dummySignature is accepted by the provider for a call without a signature,
// made by another model.
// https://ai.google.dev/gemini-api/docs/thought-signatures#faqs
const dummySignature = "skip_thought_signature_validator"

func (w *requestEncoder) call(t *turn, c llm.ToolCall) {
	number := w.count
	w.count++
	w.calls[c.ID] = sentCall{c.Name, number}
	signature := t.take(c.Signature)
	switch {
	case signature != "":
		t.signed = t.signed || t.calls == 0
	case !w.own && w.model.SignedCalls && !t.signed:
		signature = dummySignature
	}
	t.calls++
	b := jsonedit.Append(nil)
	b.Open('{')
	b.Name("functionCall")
	b.Open('{')
	w.id(&b, c.ID, number)
	text(&b, "name", c.Name)
	b.Name("args")
	appendArguments(&b, c.Arguments, c.Custom)
	if w.own {
		for _, m := range c.Extra {
			b.Key(m.Name)
			b.Raw(m.Value)
		}
	}
	b.Close('}')
	if signature != "" {
		text(&b, "thoughtSignature", signature)
	}
	b.Close('}')
	t.parts = append(t.parts, b.Bytes())
}

// id writes the id of a call. Vertex AI has none. An id made up because the
// client sent none is left out.
func (w *requestEncoder) id(b *jsonedit.Builder, id string, number int) {
	if id == "" || w.vertex && !w.own || w.own && id == numberedID(number) {
		return
	}
	text(b, "id", id)
}

// appendArguments writes the arguments of a call, which are an object. Text
// input is wrapped in one.
func appendArguments(b *jsonedit.Builder, arguments string, custom bool) {
	if !custom {
		if strings.TrimSpace(arguments) == "" {
			b.Raw([]byte("{}"))
			return
		}
		if isObject(arguments) {
			b.Raw([]byte(arguments))
			return
		}
	}
	b.Open('{')
	text(b, customInput, arguments)
	b.Close('}')
}
