package gemini

import (
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// candidateFields are the additional members of a candidate. Additional members
// of other dialects are left out.
var candidateFields = map[string]bool{
	"groundingMetadata": true, "groundingAttributions": true, "safetyRatings": true, "citationMetadata": true,
	"urlContextMetadata": true, "urlRetrievalMetadata": true, "avgLogprobs": true, "finishMessage": true, "tokenCount": true,
}

// responseFields are the additional members of a response.
var responseFields = map[string]bool{"createTime": true, "promptFeedback": true, "modelStatus": true}

// EncodeResponse appends the body of a complete response.
func (Dialect) EncodeResponse(dst []byte, r *llm.Response, to dialect.ResponseTarget) []byte {
	b := jsonedit.Append(dst)
	b.Open('{')
	if !blocked(r) {
		b.Name("candidates")
		b.Open('[')
		for i := range r.Choices {
			appendCandidate(&b, i, &r.Choices[i], r.Dialect == own)
		}
		b.Close(']')
	}
	usage := r.Usage
	if usage.Known {
		appendUsage(&b, usage)
	}
	appendHead(&b, r.ID, r.Model, to)
	for _, m := range r.Extra {
		if r.Dialect == own || responseFields[m.Name] {
			b.Key(m.Name)
			b.Raw(m.Value)
		}
	}
	b.Close('}')
	return b.Bytes()
}

// blocked reports whether the provider blocked the prompt, which the protocol
// represents by a response without candidates.
func blocked(r *llm.Response) bool {
	if len(r.Choices) != 1 || len(r.Choices[0].Parts) > 0 || r.Choices[0].Stop != llm.StopFilter {
		return false
	}
	for _, m := range r.Extra {
		if v, err := jsonedit.ParseValue(m.Value); m.Name == "promptFeedback" && err == nil {
			reason, _ := v.Get("blockReason")
			said, _ := reason.Text()
			return said == r.Choices[0].NativeFinishReason
		}
	}
	return false
}

// appendHead writes the id and the model of a response.
func appendHead(b *jsonedit.Builder, id, model string, to dialect.ResponseTarget) {
	if model == "" && to.Request != nil {
		model = to.Request.Model
	}
	text(b, "modelVersion", model)
	if id == "" {
		id = to.ID
	}
	text(b, "responseId", id)
}

func appendCandidate(b *jsonedit.Builder, i int, c *llm.Choice, all bool) {
	b.Open('{')
	var p parts
	p.open(b)
	for _, part := range c.Parts {
		p.write(b, part)
	}
	p.close(b)
	if c.Stop != "" || c.NativeFinishReason != "" {
		text(b, "finishReason", reasonOf(c.Stop, c.NativeFinishReason))
	}
	appendBroken(b, p.broken)
	number(b, "index", int64(i))
	appendLogprobs(b, c.Logprobs)
	grounded := false
	for _, m := range c.Extra {
		if all || candidateFields[m.Name] {
			grounded = grounded || m.Name == "groundingMetadata"
			b.Key(m.Name)
			b.Raw(m.Value)
		}
	}
	if last, ok := cited(c.Parts); ok && !grounded {
		appendGrounding(b, last.Citations, last.Text)
	}
	b.Close('}')
}

// appendBroken says that the response ended inside a call, if it did.
// https://ai.google.dev/api/generate-content#candidate
func appendBroken(b *jsonedit.Builder, name string) {
	if name != "" {
		text(b, "finishMessage", "The response ended inside the arguments of a call of "+name+".")
	}
}

// cited returns the last text with sources.
func cited(parts []llm.Part) (last llm.Text, ok bool) {
	for _, p := range parts {
		if t, isText := p.(llm.Text); isText && len(t.Citations) > 0 {
			last, ok = t, true
		}
	}
	return last, ok
}

func appendLogprobs(b *jsonedit.Builder, list []llm.Logprob) {
	if len(list) == 0 {
		return
	}
	b.Name("logprobsResult")
	b.Open('{')
	b.Name("chosenCandidates")
	b.Open('[')
	tops := false
	for i := range list {
		appendLogprob(b, &list[i])
		tops = tops || len(list[i].Top) > 0
	}
	b.Close(']')
	if tops {
		b.Name("topCandidates")
		b.Open('[')
		for i := range list {
			b.Open('{')
			b.Name("candidates")
			b.Open('[')
			for n := range list[i].Top {
				appendLogprob(b, &list[i].Top[n])
			}
			b.Close(']')
			b.Close('}')
		}
		b.Close(']')
	}
	b.Close('}')
}

func appendLogprob(b *jsonedit.Builder, p *llm.Logprob) {
	b.Open('{')
	text(b, "token", p.Token)
	b.Name("logProbability")
	b.Float(p.Logprob)
	b.Close('}')
}

// parts writes the content of a candidate. The signature of an empty thinking
// part is held back for the next part.
type parts struct {
	n       int
	pending string
	called  bool
	broken  string // name of a call that broke off
}

func (p *parts) open(b *jsonedit.Builder) {
	b.Name("content")
	b.Open('{')
	b.Name("parts")
	b.Open('[')
}

// close ends the content. Clients expect at least one part.
func (p *parts) close(b *jsonedit.Builder) {
	if p.pending != "" || p.n == 0 {
		p.words(b, "", false, "")
	}
	b.Close(']')
	text(b, "role", roleModel)
	b.Close('}')
}

// write writes one part.
func (p *parts) write(b *jsonedit.Builder, part llm.Part) {
	switch part := part.(type) {
	case llm.Text:
		p.words(b, part.Text, false, marked(part.Signature, false))
	case llm.Refusal:
		p.words(b, part.Text, false, "")
	case llm.Thinking:
		sign := marked(part.Signature, part.Redacted)
		if part.Text == "" && part.Signature.Vendor == llm.Google && !part.Redacted {
			p.flush(b)
			p.pending = sign
			return
		}
		p.words(b, part.Text, true, sign)
	case llm.ToolCall:
		if part.Broken { // the protocol only has complete ones
			p.broken = part.Name
			return
		}
		p.call(b, part)
	case llm.Media:
		p.media(b, part)
	case llm.Native:
		if part.Dialect == own {
			p.flush(b)
			b.Raw(part.Raw)
			p.n++
		}
	}
}

// flush writes a held-back signature with an empty part.
func (p *parts) flush(b *jsonedit.Builder) {
	if p.pending != "" {
		p.words(b, "", false, "")
	}
}

// signature writes the signature of the open part: its own, or the one held
// back.
func (p *parts) signature(b *jsonedit.Builder, sign string) {
	if sign == "" {
		sign, p.pending = p.pending, ""
	}
	if sign != "" {
		text(b, "thoughtSignature", sign)
	}
	b.Close('}')
	p.n++
}

func (p *parts) words(b *jsonedit.Builder, words string, thought bool, sign string) {
	if sign != "" {
		p.flush(b)
	}
	b.Open('{')
	text(b, "text", words)
	if thought {
		b.Name("thought")
		b.Bool(true)
	}
	p.signature(b, sign)
}

func (p *parts) call(b *jsonedit.Builder, c llm.ToolCall) {
	sign := marked(c.Signature, false)
	if sign != "" {
		p.flush(b)
	} else if p.pending == "" && !p.called {
		sign = unsigned // for the first only, as Google's models do
	}
	p.called = true
	b.Open('{')
	b.Name("functionCall")
	b.Open('{')
	if c.ID != "" {
		text(b, "id", c.ID)
	}
	text(b, "name", c.Name)
	b.Name("args")
	appendArguments(b, c.Arguments, c.Custom)
	b.Close('}')
	p.signature(b, sign)
}

// HoldsMedia implements dialect.ClientDialect.
func (Dialect) HoldsMedia(m *llm.Media, _ dialect.ResponseTarget) bool {
	return m.Data != "" || m.URL != "" || m.Text != ""
}

func (p *parts) media(b *jsonedit.Builder, m llm.Media) {
	switch {
	case m.Text != "":
		p.words(b, document(m), false, "")
		return
	case m.Data == "" && m.URL == "":
		return
	}
	b.Open('{')
	appendMedia(b, m, m.Type, m.URL)
	for _, e := range m.Extra {
		if e.Name == "thought" || partFields[e.Name] {
			b.Key(e.Name)
			b.Raw(e.Value)
		}
	}
	p.signature(b, "")
}
