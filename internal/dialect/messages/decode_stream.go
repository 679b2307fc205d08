package messages

import (
	"slices"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
)

// NewDecoder returns a decoder for one streamed response to r.
func (Dialect) NewDecoder(r *llm.Request, to dialect.RequestTarget) dialect.StreamDecoder {
	return &streamDecoder{blockReader: newBlockReader(r, to)}
}

// streamDecoder reads one stream. The protocol sends one block after another,
// but the decoder does not depend on it.
type streamDecoder struct {
	blockReader
	counts counts
	extra  []llm.Member
	open   []*openBlock
	next   int           // number of the next part
	held   *llm.Thinking // may be the signature of the next call

	started, finished, ended bool
}

// Decode appends the events of a frame.
func (d *streamDecoder) Decode(dst []llm.Event, frame sse.Event) []llm.Event {
	if d.ended || len(frame.Data) == 0 {
		return dst
	}
	v, err := jsonedit.ParseValue(frame.Data)
	if err != nil {
		return dst
	}
	var e event
	e.read(v)
	switch {
	case string(e.kind) == "content_block_delta":
		return d.delta(dst, &e)
	case string(e.kind) == "message_start":
		return d.start(dst, e.message)
	case string(e.kind) == "content_block_start":
		return d.blockStart(d.begin(dst), &e)
	case string(e.kind) == "content_block_stop":
		return d.blockStop(dst, e.index)
	case string(e.kind) == "message_delta":
		return d.messageDelta(d.begin(dst), &e, v)
	case string(e.kind) == "message_stop":
		return d.stopped(d.begin(dst))
	case string(e.kind) == "error":
		return d.failed(dst, e.err)
	}
	return dst
}

// End ends the open parts. The response is complete only if the protocol's own
// end has been read. A call that broke off gets no end, and no empty arguments.
func (d *streamDecoder) End(dst []llm.Event) []llm.Event {
	if d.ended || !d.started {
		return dst
	}
	d.open = slices.DeleteFunc(d.open, (*openBlock).isCall)
	return d.closeAll(dst)
}

// event holds the undecoded members of a stream event.
type event struct {
	kind                              []byte
	index                             int64
	message, block, delta, usage, err jsonedit.Value
}

func (e *event) read(v jsonedit.Value) {
	for k, value := range v.Fields() {
		switch {
		case k.Is("type"):
			e.kind, _ = value.TextBytes()
		case k.Is("index"):
			e.index, _ = value.Int()
		case k.Is("delta"):
			e.delta = value
		case k.Is("content_block"):
			e.block = value
		case k.Is("message"):
			e.message = value
		case k.Is("usage"):
			e.usage = value
		case k.Is("error"):
			e.err = value
		}
	}
}

// begin appends the start event unless it has been sent.
func (d *streamDecoder) begin(dst []llm.Event) []llm.Event {
	if d.started {
		return dst
	}
	d.started = true
	return append(dst, llm.Event{Kind: llm.EventStart})
}

// start reads message_start. A second one is ignored.
func (d *streamDecoder) start(dst []llm.Event, message jsonedit.Value) []llm.Event {
	f := fieldsOf(message)
	usage := f.get("usage")
	d.counts.read(usage)
	d.extra = usageExtra(d.extra, usage)
	for _, m := range f.unknown(messageNames...) {
		d.extra = setMember(d.extra, m.Name, slices.Clone(m.Value))
	}
	if d.started {
		return dst
	}
	d.started = true
	dst = append(dst, llm.Event{
		Kind: llm.EventStart, ID: f.word("id"), Model: f.word("model"), ServiceTier: fieldsOf(usage).word("service_tier"),
	})
	return d.usage(dst)
}

func (d *streamDecoder) usage(dst []llm.Event) []llm.Event {
	if d.counts.counter == (dialect.Counter{}) {
		return dst
	}
	return append(dst, llm.Event{Kind: llm.EventUsage, Usage: d.counts.usage()})
}

// messageDelta reads the stop reason and the usage.
func (d *streamDecoder) messageDelta(dst []llm.Event, e *event, v jsonedit.Value) []llm.Event {
	d.counts.read(e.usage)
	d.extra = usageExtra(d.extra, e.usage)
	f := fieldsOf(e.delta)
	for _, m := range append(f.unknown("stop_reason", "stop_sequence"), fieldsOf(v).unknown("type", "delta", "usage")...) {
		d.extra = setMember(d.extra, m.Name, slices.Clone(m.Value))
	}
	dst = d.usage(dst)
	if said := f.word("stop_reason"); said != "" {
		dst = d.finish(dst, said, f.word("stop_sequence"))
	}
	return dst
}

func (d *streamDecoder) finish(dst []llm.Event, said, text string) []llm.Event {
	if d.finished {
		return dst
	}
	dst = d.closeAll(dst)
	d.finished = true
	return append(dst, llm.Event{
		Kind: llm.EventFinish, Stop: d.blockReader.stop(stopOf(said)), NativeFinishReason: said, StopText: text, Extra: d.extra,
	})
}

// stopped reads the end of the response. With calls and without a finish reason
// it broke off.
func (d *streamDecoder) stopped(dst []llm.Event) []llm.Event {
	d.ended = true
	if d.called && !d.finished {
		return dst
	}
	if !d.finished && d.next == 0 && d.held == nil && len(d.open) == 0 {
		return append(dst, llm.Event{Kind: llm.EventError, Fault: dialect.NoContentError()})
	}
	dst = d.finish(dst, "", "")
	return append(dst, llm.Event{Kind: llm.EventEnd})
}

// failed reads an error inside the stream.
// https://docs.claude.com/en/docs/build-with-claude/streaming#error-events
func (d *streamDecoder) failed(dst []llm.Event, err jsonedit.Value) []llm.Event {
	d.ended = true
	f := fieldsOf(err)
	return append(dst, llm.Event{Kind: llm.EventError, Fault: &llm.ProviderError{
		Type: f.word("type"), Message: f.word("message"), Raw: slices.Clone(err.Raw()),
	}})
}

func (d *streamDecoder) closeAll(dst []llm.Event) []llm.Event {
	for len(d.open) > 0 {
		dst = d.close(dst, 0)
	}
	return d.flush(dst)
}

// flush emits a held-back signature that no call followed.
func (d *streamDecoder) flush(dst []llm.Event) []llm.Event {
	if d.held == nil {
		return dst
	}
	part := *d.held
	d.held = nil
	return d.emitPart(dst, part)
}

// emitPart emits a complete part.
func (d *streamDecoder) emitPart(dst []llm.Event, p llm.Part) []llm.Event {
	n := d.next
	d.next++
	return append(dst, llm.Event{Kind: llm.EventPartStart, Part: n, Opened: p}, llm.Event{Kind: llm.EventPartEnd, Part: n})
}
