package responses

import (
	"strconv"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
	"modelgate/internal/llm"
)

// answer is an answer as items of the protocol, while it grows.
type answer struct {
	to    dialect.ResponseTarget
	items []*item
	// joins is the message item that further content joins, nil when there is
	// none.
	joins *item
}

// item is one item of the output.
type item struct {
	kind  kind
	index int
	id    string
	done  bool
	left  bool // no further content joins it
	open  int  // how many of its parts are open

	content []*content // of a message

	text      []byte // a summary, or what a call gives the tool
	sectioned bool   // the summary's part was begun
	sign      llm.Signature
	redacted  bool

	call  llm.ToolCall
	space *namespace
	media *llm.Media
	raw   []byte // of an item that stands as it came
}

// content is one part of a message.
type content struct {
	index    int
	refusal  bool
	text     []byte
	cites    []llm.Citation
	logprobs []llm.Logprob
	place    []byte // the members of a delta that say what it is of
	open     bool
}

// begin makes the place for a part: an item, and for text the part of a message.
// It is nil when the protocol has no place for it.
func (a *answer) begin(p llm.Part) (*item, *content) {
	switch part := p.(type) {
	case llm.Text:
		return a.said(false)
	case llm.Refusal:
		return a.said(true)
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
		if part.Kind != llm.Image || part.Data == "" {
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

// said makes a part of a message: the last item when it is one.
func (a *answer) said(refusal bool) (*item, *content) {
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

func (a *answer) calls(c *llm.ToolCall) *item {
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

// add appends an item. Text that follows begins another message.
func (a *answer) add(k kind, prefix string) *item {
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

// id is the answer's id with the number of an item.
func (a *answer) id(index int) string {
	n := strconv.FormatInt(int64(index), 16)
	return a.to.ID + strings.Repeat("0", max(0, 4-len(n))) + n
}

// signed makes the item that carries a call's signature, which has no place on
// the call itself.
func (a *answer) signed(s llm.Signature) *item {
	it := a.add(kindThinking, "rs_")
	it.sign, it.open = s, 0
	return it
}

// write writes the item unchanged: in progress without status of an end.
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
		writeDrawn(b, it.media)
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
	if it.sign.Value != "" {
		b.Name("encrypted_content")
		b.String(encrypted(it.sign, it.redacted))
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

// encrypted is a signature as encrypted_content.
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

// arguments is what the call gives the tool. A function without arguments is
// given an empty object once the call is whole.
func (it *item) arguments() []byte {
	if len(it.text) == 0 && it.kind == kindCall && it.done {
		return []byte("{}")
	}
	return it.text
}

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
