package responses

import (
	"strconv"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// output is the output of a response as items of the protocol.
type output struct {
	to    dialect.ResponseTarget
	items []*item
	// joins is the message item that further content is added to, or nil.
	joins *item
}

// item is one item of the output.
type item struct {
	kind  kind
	index int
	id    string
	done  bool
	// broken is true for a call that the provider did not finish.
	broken bool
	left   bool // no further content is added to it
	open   int  // number of open parts

	content []*content // of a message

	text      []byte // a summary, or the arguments of a call
	sectioned bool   // the summary has a part
	sign      llm.Signature
	redacted  bool

	call  llm.ToolCall
	space *namespace
	media *llm.Media
	raw   []byte // of an item that is written as received
}

// content is one part of a message.
type content struct {
	index    int
	refusal  bool
	text     []byte
	cites    []llm.Citation
	logprobs []llm.Logprob
	place    []byte // the members of a delta that identify its part
	open     bool
}

// begin adds an item for a part, or for text the part of a message. It returns
// nil if the protocol has no place for the part.
func (a *output) begin(p llm.Part) (*item, *content) {
	switch part := p.(type) {
	case llm.Text:
		return a.addContent(false)
	case llm.Refusal:
		return a.addContent(true)
	case llm.Thinking:
		it := a.add(kindThinking, "rs_")
		it.redacted = part.Redacted
		if part.ID != "" {
			it.id = part.ID
		}
		return it, nil
	case llm.ToolCall:
		return a.calls(&part), nil
	case llm.Media:
		if !(Dialect{}).HoldsMedia(&part, a.to) {
			return nil, nil
		}
		it := a.add(kindOther, "ig_")
		it.media = &part
		if id, err := jsonedit.ParseValue(memberOf(part.Extra, "id")); err == nil {
			if text, ok := id.Text(); ok {
				it.id = text
			}
		}
		return it, nil
	case llm.Native:
		if part.Dialect != own || strings.HasPrefix(part.Type, partMark) {
			return nil, nil
		}
		it := a.add(kindOther, "it_")
		it.raw = part.Raw
		return it, nil
	}
	return nil, nil
}

// HoldsMedia implements dialect.ClientDialect: images are those of the tool that draws.
func (Dialect) HoldsMedia(m *llm.Media, _ dialect.ResponseTarget) bool {
	return m.Kind == llm.Image && m.Data != ""
}

// addContent adds a part to the last message item, or to a new one.
func (a *output) addContent(refusal bool) (*item, *content) {
	it := a.joins
	if it == nil {
		it = a.add(kindMessage, "msg_")
		a.joins = it
	}
	c := &content{index: len(it.content), refusal: refusal, open: true}
	it.content = append(it.content, c)
	it.open++
	return it, c
}

func (a *output) calls(c *llm.ToolCall) *item {
	k, prefix := kindCall, "fc_"
	if c.Custom {
		k, prefix = kindCustom, "ctc_"
	}
	it := a.add(k, prefix)
	it.call = *c
	it.space = spaceOfTool(a.to.Request, c.Name)
	if it.call.ID == "" {
		it.call.ID = "call_" + a.id(it.index)
	}
	return it
}

// add appends an item. Later text begins another message.
func (a *output) add(k kind, prefix string) *item {
	if a.joins != nil {
		a.joins.left = true
		a.joins = nil
	}
	it := &item{kind: k, index: len(a.items), open: 1}
	if k == kindMessage {
		it.open = 0
	}
	it.id = prefix + a.id(it.index)
	a.items = append(a.items, it)
	return it
}

// id returns an item id built from the response's id and the item's number.
func (a *output) id(index int) string {
	n := strconv.FormatInt(int64(index), 16)
	return a.to.ID + strings.Repeat("0", max(0, 4-len(n))) + n
}

// addSignature adds an item with a call's signature, which has no place in the
// call itself.
func (a *output) addSignature(s llm.Signature) *item {
	it := a.add(kindThinking, "rs_")
	it.sign, it.open = s, 0
	return it
}

// addTextSignature adds an item with the signature of the text before it, which
// has no place in the text itself. It is marked as redacted, which tells it from
// the signature of a call.
func (a *output) addTextSignature(s llm.Signature) *item {
	it := a.addSignature(s)
	it.redacted, it.done = true, true
	return it
}

// write writes the item. The status of an item in progress is in_progress.
func (it *item) write(b *jsonedit.Builder, status string) {
	if it.raw != nil {
		b.Raw(it.raw)
		return
	}
	b.Open('{')
	b.Name("id")
	b.String(it.id)
	switch {
	case it.media != nil:
		writeDrawing(b, it.media)
		for _, m := range it.media.Extra {
			if m.Name != "id" {
				b.Key(m.Name)
				b.Raw(m.Value)
			}
		}
		b.Close('}')
		return
	case it.kind == kindMessage:
		it.writeMessage(b)
	case it.kind == kindThinking:
		it.writeThinking(b)
	default:
		it.writeCall(b)
	}
	b.Name("status")
	b.String(status)
	b.Close('}')
}

func (it *item) writeMessage(b *jsonedit.Builder) {
	b.Name("type")
	b.String("message")
	b.Name("role")
	b.String("assistant")
	b.Name("content")
	b.Open('[')
	for _, c := range it.content {
		c.write(b)
	}
	b.Close(']')
}

func (c *content) write(b *jsonedit.Builder) {
	b.Open('{')
	b.Name("type")
	if c.refusal {
		b.String("refusal")
		b.Name("refusal")
		writeBytes(b, c.text)
		b.Close('}')
		return
	}
	b.String("output_text")
	b.Name("annotations")
	b.Open('[')
	for i := range c.cites {
		writeCitation(b, &c.cites[i])
	}
	b.Close(']')
	b.Name("logprobs")
	writeLogprobs(b, c.logprobs)
	b.Name("text")
	writeBytes(b, c.text)
	b.Close('}')
}

func writeBytes(b *jsonedit.Builder, text []byte) { b.String(string(text)) }

func (it *item) writeThinking(b *jsonedit.Builder) {
	b.Name("type")
	b.String("reasoning")
	b.Name("summary")
	b.Open('[')
	if len(it.text) > 0 {
		writeSummary(b, it.text)
	}
	b.Close(']')
	switch {
	case it.sign.Value != "":
		b.Name("encrypted_content")
		b.String(encrypted(it.sign, it.redacted))
	case it.done: // for Clean, when the item comes back
		b.Name("encrypted_content")
		b.String(dialect.Unsigned)
	}
}

func writeSummary(b *jsonedit.Builder, text []byte) {
	b.Open('{')
	b.Name("type")
	b.String("summary_text")
	b.Name("text")
	writeBytes(b, text)
	b.Close('}')
}

// encrypted returns a signature in the form of encrypted_content.
func encrypted(s llm.Signature, redacted bool) string {
	if redacted && s.Vendor != llm.OpenAI {
		s.Value = redactedMark + s.Value
	}
	return dialect.MarkSignature(llm.OpenAI, s)
}

func (it *item) writeCall(b *jsonedit.Builder) {
	b.Name("type")
	b.String(it.word())
	b.Name("call_id")
	b.String(it.call.ID)
	b.Name("name")
	if it.space != nil {
		b.String(it.space.tool)
		b.Name("namespace")
		b.String(it.space.name)
	} else {
		b.String(it.call.Name)
	}
	b.Name(argumentsOf(it.kind == kindCustom))
	writeBytes(b, it.arguments())
}

// arguments returns the arguments of a call. A complete function call without
// arguments gets an empty object.
func (it *item) arguments() []byte {
	if len(it.text) == 0 && it.kind == kindCall && it.done {
		return []byte("{}")
	}
	return it.text
}

func (it *item) isCall() bool { return it.kind == kindCall || it.kind == kindCustom }

func (it *item) word() string {
	if it.kind == kindCustom {
		return "custom_tool_call"
	}
	return "function_call"
}

func writeLogprobs(b *jsonedit.Builder, list []llm.Logprob) {
	b.Open('[')
	for i := range list {
		b.Open('{')
		writeToken(b, &list[i])
		b.Name("top_logprobs")
		b.Open('[')
		for j := range list[i].Top {
			b.Open('{')
			writeToken(b, &list[i].Top[j])
			b.Close('}')
		}
		b.Close(']')
		b.Close('}')
	}
	b.Close(']')
}

func writeToken(b *jsonedit.Builder, p *llm.Logprob) {
	b.Name("token")
	b.String(p.Token)
	b.Name("logprob")
	b.Float(p.Logprob)
	b.Name("bytes")
	b.Open('[')
	if p.Bytes != nil {
		for _, n := range p.Bytes {
			b.Int(int64(n))
		}
	} else {
		for i := range len(p.Token) {
			b.Int(int64(p.Token[i]))
		}
	}
	b.Close(']')
}
