package messages

import (
	"errors"
	"slices"
	"unicode/utf8"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

var errNoMessage = errors.New("the body is not a message of the messages dialect")

// DecodeResponse reads a complete response to r.
func (Dialect) DecodeResponse(body []byte, r *llm.Request, to dialect.RequestTarget) (*llm.Response, error) {
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return nil, err
	}
	f := fieldsOf(v)
	content := f.get("content")
	if kind := f.word("type"); kind != "" && kind != "message" || content.Kind() != jsonedit.Array {
		return nil, errNoMessage
	}
	blocks := newBlockReader(r, to)
	choice := llm.Choice{NativeFinishReason: f.word("stop_reason"), StopText: f.word("stop_sequence")}
	var held heldSignatures
	for e := range content.Elements() {
		choice.Parts = held.join(choice.Parts, blocks.block(e))
	}
	choice.Parts = held.flush(choice.Parts)
	choice.Stop = blocks.stop(stopOf(choice.NativeFinishReason))
	choice.Extra = usageExtra(f.unknown(messageNames...), f.get("usage"))
	var c counts
	c.read(f.get("usage"))
	return &llm.Response{
		Dialect: own, ID: f.word("id"), Model: f.word("model"), Choices: []llm.Choice{choice},
		Usage: c.usage(), ServiceTier: fieldsOf(f.get("usage")).word("service_tier"),
	}, nil
}

// messageNames are the members of a message that have a place in the neutral
// response. The others belong to its only choice.
var messageNames = []string{"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"}

// blockReader reads the content blocks of the response to one request.
type blockReader struct {
	emulated bool         // the content is the arguments of a forced tool
	asked    *llm.Request // may be nil
	called   bool         // has a tool call other than the forced tool's
	forced   bool         // has a call of the forced tool
}

func newBlockReader(r *llm.Request, to dialect.RequestTarget) blockReader {
	return blockReader{emulated: emulates(r, to), asked: r}
}

// stop returns the stop reason. A call of the forced tool is a normal end.
func (p *blockReader) stop(stop llm.StopReason) llm.StopReason {
	if stop == llm.StopTool && p.forced && !p.called {
		return llm.StopEnd
	}
	return stop
}

// block reads a complete block. A block that cannot be read is kept unchanged.
func (p *blockReader) block(v jsonedit.Value) llm.Part {
	f := fieldsOf(v)
	switch kind := f.word("type"); kind {
	case "text":
		list, sign := citationsOf(f.get("citations"))
		setSpan(list, utf8.RuneCountInString(f.word("text")))
		return llm.Text{Text: f.word("text"), Citations: list, Signature: sign}
	case "thinking":
		return llm.Thinking{Text: f.word("thinking"), Signature: dialect.ReadSignature(vendor, f.word("signature"))}
	case "redacted_thinking":
		return llm.Thinking{Redacted: true, Signature: dialect.ReadSignature(vendor, f.word("data"))}
	case "tool_use":
		return p.call(f, string(f.get("input").Raw()))
	case "":
		return nil
	default:
		return dialect.TextOfUnknown(llm.Native{Dialect: own, Type: kind, Raw: slices.Clone(v.Raw())})
	}
}

// call returns the part for a complete tool_use.
func (p *blockReader) call(f fields, arguments string) llm.Part {
	name := f.word("name")
	if p.emulated && name == outputTool {
		p.forced = true
		return llm.Text{Text: arguments}
	}
	p.called = true
	call := llm.ToolCall{ID: f.word("id"), Name: name, Arguments: arguments, Extra: cloned(f.unknown("type", "id", "name", "input"))}
	if p.asked.IsCustom(name) {
		call.Custom, call.Arguments = true, dialect.UnwrapText(arguments)
	}
	return call
}

// cloned returns copies of members, without views.
func cloned(list []llm.Member) []llm.Member {
	for i := range list {
		list[i].Value = slices.Clone(list[i].Value)
	}
	return list
}
