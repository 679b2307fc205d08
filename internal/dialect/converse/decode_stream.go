package converse

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
)

// NewDecoder returns a decoder for one streamed response.
func (Dialect) NewDecoder(r *llm.Request, to dialect.RequestTarget) dialect.StreamDecoder {
	return &streamDecoder{responseState: newResponseState(r, to), blocks: map[int64]*block{}}
}

// streamDecoder reads one streamed response. Text blocks begin with their first
// delta; only other blocks have a start event.
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStreamOutput.html
type streamDecoder struct {
	responseState
	blocks map[int64]*block
	last   *block // the block used last
	parts  int    // number of parts begun

	held []llm.Text // text next to a forced tool, see withoutPreface

	started, stopped, ended bool
	finish, usage           llm.Event
}

// Decode appends the events of a message.
func (d *streamDecoder) Decode(dst []llm.Event, frame sse.Event) []llm.Event {
	if d.ended || len(frame.Type) == 0 {
		return dst
	}
	v, err := jsonedit.ParseValue(frame.Data)
	switch string(frame.Type) {
	case "contentBlockDelta":
		if err == nil {
			return d.delta(dst, v)
		}
	case "messageStart":
		return d.start(dst)
	case "contentBlockStart":
		if err == nil {
			return d.open(d.start(dst), v)
		}
	case "contentBlockStop":
		if err == nil {
			return d.stopBlock(dst, d.blockIndex(v))
		}
	case "messageStop":
		return d.messageStop(d.start(dst), v)
	case "metadata":
		return d.metadata(d.start(dst), v)
	default:
		if isFault(frame.Type) {
			return d.fault(dst, frame)
		}
	}
	return dst
}

// End ends the open parts. A response with a stop reason is complete even if
// its metadata did not arrive.
func (d *streamDecoder) End(dst []llm.Event) []llm.Event {
	if d.ended {
		return dst
	}
	if d.stopped {
		return d.complete(dst)
	}
	return d.closeAll(dst)
}

func (d *streamDecoder) start(dst []llm.Event) []llm.Event {
	if d.started {
		return dst
	}
	d.started = true
	return append(dst, llm.Event{Kind: llm.EventStart})
}

// blockIndex returns the index of an event's block: of the last one if the event has
// none that can be read.
func (d *streamDecoder) blockIndex(v jsonedit.Value) int64 {
	m, _ := v.Get("contentBlockIndex")
	n, ok := m.Int()
	if !ok && d.last != nil {
		return d.last.index
	}
	return n
}

func (d *streamDecoder) delta(dst []llm.Event, v jsonedit.Value) []llm.Event {
	inner, ok := v.Get("delta")
	if !ok || d.stopped {
		return dst
	}
	dst = d.start(dst)
	index := d.blockIndex(v)
	kind, m := oneOf(inner, "text", "toolUse", "reasoningContent", "citation", "toolResult", "image")
	switch kind {
	case "text":
		text, _ := m.Text()
		return d.text(dst, index, text)
	case "toolUse":
		input, _ := m.Get("input")
		text, _ := input.Text()
		return d.arguments(dst, index, text)
	case "reasoningContent":
		return d.reasoning(dst, index, m)
	case "citation":
		return d.citation(dst, index, m)
	case "toolResult":
		if b := d.blocks[index]; b != nil && b.kind == blockNative {
			for e := range m.Elements() {
				b.add(e.Raw())
			}
		}
	case "image":
		if b := d.blocks[index]; b != nil && b.kind == blockImage {
			source, _ := m.Get("source")
			b.body = append(b.body, source.TextOf("bytes")...)
		}
	}
	return dst
}

func (d *streamDecoder) text(dst []llm.Event, index int64, text string) []llm.Event {
	if text == "" {
		return dst
	}
	kind := blockText
	if d.plan.alone {
		kind = blockHeld
	}
	b, dst := d.at(dst, index, kind, llm.Text{})
	if kind == blockHeld {
		b.body = append(b.body, text...)
		return dst
	}
	return append(dst, llm.Event{Kind: llm.EventDelta, Part: b.part, Text: text})
}

// at returns the open block with that index and kind. If the open block has
// another kind, it ends and a new block begins with the part opened.
func (d *streamDecoder) at(dst []llm.Event, index int64, kind blockType, opened llm.Part) (*block, []llm.Event) {
	b := d.last
	if b == nil || b.index != index {
		b = d.blocks[index]
	}
	if b != nil && b.kind == kind {
		d.last = b
		return b, dst
	}
	if b != nil {
		dst = d.stopBlock(dst, index)
	}
	return d.begin(dst, &block{index: index, kind: kind}, opened)
}

// begin opens a block, and its part unless the part is emitted at the end.
func (d *streamDecoder) begin(dst []llm.Event, b *block, opened llm.Part) (*block, []llm.Event) {
	d.blocks[b.index], d.last = b, b
	if b.kind < blockHeld {
		b.part = d.parts
		d.parts++
		dst = append(dst, llm.Event{Kind: llm.EventPartStart, Part: b.part, Opened: opened})
	}
	return b, dst
}

func (d *streamDecoder) arguments(dst []llm.Event, index int64, text string) []llm.Event {
	b := d.blocks[index]
	if b == nil || text == "" {
		return dst
	}
	switch b.kind {
	case blockCall, blockJSON:
		return append(dst, llm.Event{Kind: llm.EventDelta, Part: b.part, Text: text})
	case blockCustom, blockNative:
		b.body = append(b.body, text...)
	}
	return dst
}

func (d *streamDecoder) reasoning(dst []llm.Event, index int64, v jsonedit.Value) []llm.Event {
	if data := v.TextOf("redactedContent"); data != "" {
		opened := llm.Thinking{Redacted: true, Signature: readRedacted(d.vendor, data)}
		if d.blocks[index] != nil {
			dst = d.stopBlock(dst, index)
		}
		_, dst = d.begin(dst, &block{index: index, kind: blockThinking}, opened)
		return dst
	}
	text, signature := v.TextOf("text"), v.TextOf("signature")
	if text == "" && signature == "" {
		return dst
	}
	b, dst := d.at(dst, index, blockThinking, llm.Thinking{})
	e := llm.Event{Kind: llm.EventDelta, Part: b.part, Text: text}
	switch {
	case signature == "":
	case b.vendor == "":
		e.Signature = dialect.ReadSignature(d.vendor, signature)
		b.vendor = e.Signature.Vendor
	default:
		e.Signature = llm.Signature{Vendor: b.vendor, Value: signature}
	}
	return append(dst, e)
}

func (d *streamDecoder) citation(dst []llm.Event, index int64, v jsonedit.Value) []llm.Event {
	if d.plan.alone {
		return dst
	}
	b, dst := d.at(dst, index, blockText, llm.Text{})
	c := citation(v)
	return append(dst, llm.Event{Kind: llm.EventDelta, Part: b.part, Citation: &c})
}

// open opens a block that has a start event.
func (d *streamDecoder) open(dst []llm.Event, v jsonedit.Value) []llm.Event {
	start, _ := v.Get("start")
	kind, inner := oneOf(start, "toolUse", "toolResult", "image")
	if kind == "" || d.stopped {
		return dst
	}
	b := &block{index: d.blockIndex(v)}
	dst = d.stopBlock(dst, b.index)
	var opened llm.Part
	switch called := inner.TextOf("name"); {
	case kind == "image":
		b.kind, b.head = blockImage, []byte(inner.TextOf("format"))
	case kind != "toolUse" || inner.TextOf("type") == serverToolUse:
		b.kind, b.native, b.head = blockNative, kind, bytes.Clone(inner.Raw())
	case d.standsForText(called):
		b.kind, opened = blockJSON, llm.Text{}
		d.json, d.held = true, nil
	default:
		d.calls = true
		b.opened = d.openedCall(called, inner.TextOf("toolUseId"))
		b.kind, opened = blockCall, b.opened
		if b.opened.Custom {
			b.kind = blockCustom
		}
	}
	_, dst = d.begin(dst, b, opened)
	return dst
}

func (d *streamDecoder) stopBlock(dst []llm.Event, index int64) []llm.Event {
	b := d.blocks[index]
	if b == nil {
		return dst
	}
	delete(d.blocks, index)
	if d.last == b {
		d.last = nil
	}
	switch b.kind {
	case blockHeld:
		if !d.json {
			d.held = append(d.held, llm.Text{Text: string(b.body)})
		}
		return dst
	case blockCustom:
		b.opened.Arguments = dialect.UnwrapText(string(b.body))
		return d.part(dst, b.opened)
	case blockNative:
		return d.part(dst, dialect.TextOfUnknown(llm.Native{Dialect: name, Type: b.native, Raw: b.raw()}))
	case blockImage:
		if len(b.body) == 0 {
			return dst
		}
		return d.part(dst, llm.Media{Kind: llm.Image, Type: typeOf(llm.Image, string(b.head)), Data: string(b.body)})
	}
	return append(dst, llm.Event{Kind: llm.EventPartEnd, Part: b.part})
}

// part emits a complete part.
func (d *streamDecoder) part(dst []llm.Event, p llm.Part) []llm.Event {
	e := llm.Event{Kind: llm.EventPartStart, Part: d.parts, Opened: p}
	d.parts++
	return append(dst, e, llm.Event{Kind: llm.EventPartEnd, Part: e.Part})
}

// closeAll ends the open blocks in the order in which they began.
func (d *streamDecoder) closeAll(dst []llm.Event) []llm.Event {
	open := slices.SortedFunc(maps.Values(d.blocks), func(a, b *block) int {
		return cmp.Or(cmp.Compare(a.part, b.part), cmp.Compare(a.index, b.index))
	})
	for _, b := range open {
		dst = d.stopBlock(dst, b.index)
	}
	for _, text := range d.held {
		dst = d.part(dst, text)
	}
	d.held = nil
	return dst
}

// messageStop holds back the stop reason until the metadata, which follows
// immediately.
func (d *streamDecoder) messageStop(dst []llm.Event, v jsonedit.Value) []llm.Event {
	said := v.TextOf("stopReason")
	if d.calls && said == "" {
		d.ended = true // broke off
		return dst
	}
	dst = d.closeAll(dst)
	d.stopped = true
	d.finish = llm.Event{Kind: llm.EventFinish, Stop: d.stop(said), NativeFinishReason: said, StopText: stopText(v), Extra: extraOf(nil, v)}
	return dst
}

func (d *streamDecoder) metadata(dst []llm.Event, v jsonedit.Value) []llm.Event {
	if usage, ok := v.Get("usage"); ok {
		d.usage = llm.Event{Kind: llm.EventUsage, Usage: usageOf(usage)}
	}
	tier, _ := v.Get("serviceTier")
	d.finish.ServiceTier = tier.TextOf("type")
	d.finish.Extra = extraOf(d.finish.Extra, v)
	switch {
	case d.stopped:
		return d.complete(dst)
	case d.usage.Kind != 0:
		dst = append(dst, d.usage)
	}
	return dst
}

// complete ends the response.
func (d *streamDecoder) complete(dst []llm.Event) []llm.Event {
	d.ended = true
	dst = append(dst, d.finish)
	if d.usage.Kind != 0 {
		dst = append(dst, d.usage)
	}
	return append(dst, llm.Event{Kind: llm.EventEnd})
}

// isFault reports whether a type is an exception or an error code; event types
// begin with a small letter.
func isFault(t []byte) bool {
	return strings.HasSuffix(string(t), "Exception") || t[0] >= 'A' && t[0] <= 'Z'
}

func (d *streamDecoder) fault(dst []llm.Event, frame sse.Event) []llm.Event {
	d.ended = true
	return append(dst, llm.Event{Kind: llm.EventError, Fault: &llm.ProviderError{
		Type: string(frame.Type), Message: dialect.ErrorMessage(frame.Data), Raw: bytes.Clone(frame.Data),
	}})
}
