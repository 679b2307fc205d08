package ollama

import (
	"bytes"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
)

// streamDecoder reads one streamed response: lines of JSON, the last of which
// has done set.
// https://docs.ollama.com/api/streaming
type streamDecoder struct {
	caller
	begun, ended bool
	next         int // number of the next part

	open    int // number of the open part, -1 if none is open
	thought bool
}

// NewDecoder returns a decoder for one streamed response. Each line of JSON is
// a frame.
func (Dialect) NewDecoder(r *llm.Request, _ dialect.RequestTarget) dialect.StreamDecoder {
	return newDecoder(r)
}

func newDecoder(r *llm.Request) *streamDecoder {
	return &streamDecoder{caller: caller{asked: r}, open: -1}
}

// Decode reads one line.
func (d *streamDecoder) Decode(dst []llm.Event, frame sse.Event) []llm.Event {
	if d.ended {
		return dst
	}
	v, err := jsonedit.ParseValue(frame.Data)
	if err != nil || v.Kind() != jsonedit.Object {
		return dst
	}
	l := lineOf(v)
	if l.failed {
		d.ended = true
		return append(dst,
			llm.Event{Kind: llm.EventError, Fault: &llm.ProviderError{Message: dialect.ErrorMessage(v.Raw()), Raw: bytes.Clone(v.Raw())}})
	}
	if !l.done && l.message.Kind() != jsonedit.Object {
		return dst
	}
	return d.add(dst, v, l)
}

// add reads a line with a message or the end.
func (d *streamDecoder) add(dst []llm.Event, v jsonedit.Value, l line) []llm.Event {
	if !d.begun {
		d.begun = true
		dst = append(dst, llm.Event{Kind: llm.EventStart, Model: v.TextOf("model"), Created: created(v)})
	}
	dst = d.message(dst, l.message, l.logprobs)
	if l.done {
		return d.finish(dst, v)
	}
	return dst
}

// line holds the members of a line that are always read.
type line struct {
	message      jsonedit.Value
	logprobs     []llm.Logprob
	done, failed bool
}

// lineOf reads a line in one pass.
func lineOf(v jsonedit.Value) (l line) {
	for key, member := range v.Fields() {
		switch string(key.Raw()) {
		case `"message"`:
			l.message = member
		case `"done"`:
			l.done, _ = member.Bool()
		case `"error"`:
			l.failed = !member.IsNull()
		case `"logprobs"`:
			l.logprobs = logprobsOf(member)
		}
	}
	return l
}

func (d *streamDecoder) message(dst []llm.Event, v jsonedit.Value, logprobs []llm.Logprob) []llm.Event {
	var thinking, content, calls jsonedit.Value
	for key, member := range v.Fields() {
		switch string(key.Raw()) {
		case `"thinking"`:
			thinking = member
		case `"content"`:
			content = member
		case `"tool_calls"`:
			calls = member
		}
	}
	s, _ := thinking.Text()
	dst = d.addText(dst, s, true, nil)
	s, _ = content.Text()
	dst = d.addText(dst, s, false, logprobs)
	for c := range calls.Elements() {
		dst = d.addCall(dst, c)
	}
	return dst
}

// End ends the open part. Without done the response is not complete.
func (d *streamDecoder) End(dst []llm.Event) []llm.Event {
	if d.ended {
		return dst
	}
	d.ended = true
	return d.close(dst)
}

func (d *streamDecoder) close(dst []llm.Event) []llm.Event {
	if d.open < 0 {
		return dst
	}
	dst = append(dst, llm.Event{Kind: llm.EventPartEnd, Part: d.open})
	d.open = -1
	return dst
}

// addText adds text to the open thinking or text part, or begins one.
func (d *streamDecoder) addText(dst []llm.Event, words string, thought bool, logprobs []llm.Logprob) []llm.Event {
	if words == "" {
		return dst
	}
	if d.open < 0 || d.thought != thought {
		dst = d.close(dst)
		var part llm.Part = llm.Text{}
		if thought {
			part = llm.Thinking{}
		}
		dst = d.begin(dst, part)
		d.open, d.thought = d.next-1, thought
	}
	return append(dst, llm.Event{Kind: llm.EventDelta, Part: d.open, Text: words, Logprobs: logprobs})
}

func (d *streamDecoder) begin(dst []llm.Event, part llm.Part) []llm.Event {
	d.next++
	return append(dst, llm.Event{Kind: llm.EventPartStart, Part: d.next - 1, Opened: part})
}

// addCall adds a call, which arrives in one piece.
func (d *streamDecoder) addCall(dst []llm.Event, v jsonedit.Value) []llm.Event {
	call := d.call(v)
	arguments := call.Arguments
	call.Arguments = ""
	dst = d.begin(d.close(dst), call)
	if arguments != "" {
		dst = append(dst, llm.Event{Kind: llm.EventDelta, Part: d.next - 1, Text: arguments})
	}
	return append(dst, llm.Event{Kind: llm.EventPartEnd, Part: d.next - 1})
}

func (d *streamDecoder) finish(dst []llm.Event, v jsonedit.Value) []llm.Event {
	dst = d.close(dst)
	d.ended = true
	said := v.TextOf("done_reason")
	return append(dst,
		llm.Event{Kind: llm.EventFinish, Stop: stopOf(said, d.calls > 0), NativeFinishReason: said},
		llm.Event{Kind: llm.EventUsage, Usage: usageOf(v)},
		llm.Event{Kind: llm.EventEnd})
}
