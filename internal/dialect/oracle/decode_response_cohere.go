package oracle

import (
	"bytes"
	"cmp"
	"strconv"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
)

// cohereResponse reads a complete response in the COHERE format.
// https://docs.oracle.com/iaas/api/#/en/generative-ai-inference/20231130/datatypes/CohereChatResponse
func cohereResponse(chat jsonedit.Value, r *llm.Request) (llm.Choice, llm.Usage) {
	out := llm.Choice{NativeFinishReason: chat.TextOf("finishReason")}
	if s := chat.TextOf("text"); s != "" {
		out.Parts = append(out.Parts, llm.Text{Text: s})
	}
	calls := cohereCalls(chat, r)
	for _, c := range calls {
		out.Parts = append(out.Parts, c)
	}
	out.Stop = stopOf(out.NativeFinishReason, len(calls) > 0)
	usage, _ := chat.Get("usage")
	return out, usageOf(usage)
}

// cohereCalls reads tool calls. The format has no call ids: calls are numbered,
// continuing from those in the conversation.
func cohereCalls(v jsonedit.Value, r *llm.Request) (list []llm.ToolCall) {
	n := callsIn(r)
	calls, _ := v.Get("toolCalls")
	for c := range calls.Elements() {
		n++
		call := llm.ToolCall{ID: "call_" + strconv.Itoa(n), Name: c.TextOf("name"), Arguments: "{}"}
		if parameters, ok := c.Get("parameters"); ok && parameters.Kind() == jsonedit.Object {
			call.Arguments = string(parameters.Raw())
		}
		if r.IsCustom(call.Name) {
			call.Custom, call.Arguments = true, dialect.UnwrapText(call.Arguments)
		}
		list = append(list, call)
	}
	return list
}

func callsIn(r *llm.Request) (n int) {
	if r == nil {
		return 0
	}
	for i := range r.Messages {
		for _, p := range r.Messages[i].Parts {
			if _, ok := p.(llm.ToolCall); ok {
				n++
			}
		}
	}
	return n
}

// cohereDecoder reads one streamed response in the COHERE format: pieces of
// text, then an event with the finish reason that repeats the text and has the
// calls.
type cohereDecoder struct {
	r        *llm.Request
	model    string
	begun    bool
	open     bool // the text part is open
	parts    int
	calls    int  // number of calls
	ended    bool // nothing follows
	finished bool // the finish reason has been read
}

// Decode reads one event.
func (d *cohereDecoder) Decode(dst []llm.Event, frame sse.Event) []llm.Event {
	if d.ended {
		return dst
	}
	v, err := jsonedit.ParseValue(frame.Data)
	if err != nil || v.Kind() != jsonedit.Object {
		return dst
	}
	said := v.TextOf("finishReason")
	if message := v.TextOf("message"); message != "" || said == "ERROR" {
		d.ended = true
		words := cmp.Or(message, v.TextOf("errorMessage"), "the model failed")
		return append(dst,
			llm.Event{Kind: llm.EventError, Fault: &llm.ProviderError{Code: v.TextOf("code"), Message: words, Raw: bytes.Clone(v.Raw())}})
	}
	if !d.begun {
		d.begun = true
		dst = append(dst, llm.Event{Kind: llm.EventStart, Model: d.model})
	}
	if words := v.TextOf("text"); words != "" && (said == "" || !d.open && d.parts == 0) {
		dst = d.words(dst, words)
	}
	if d.calls == 0 { // otherwise the last event repeats them
		for _, c := range cohereCalls(v, d.r) {
			dst = d.call(d.close(dst), c)
		}
	}
	if usage, ok := v.Get("usage"); ok && usage.Kind() == jsonedit.Object {
		dst = append(dst, llm.Event{Kind: llm.EventUsage, Usage: usageOf(usage)})
	}
	if said != "" && !d.finished {
		d.finished = true
		dst = append(d.close(dst), llm.Event{Kind: llm.EventFinish, Stop: stopOf(said, d.calls > 0), NativeFinishReason: said})
	}
	return dst
}

func (d *cohereDecoder) words(dst []llm.Event, words string) []llm.Event {
	if !d.open {
		d.open = true
		d.parts++
		dst = append(dst, llm.Event{Kind: llm.EventPartStart, Part: d.parts - 1, Opened: llm.Text{}})
	}
	return append(dst, llm.Event{Kind: llm.EventDelta, Part: d.parts - 1, Text: words})
}

func (d *cohereDecoder) close(dst []llm.Event) []llm.Event {
	if d.open {
		d.open = false
		dst = append(dst, llm.Event{Kind: llm.EventPartEnd, Part: d.parts - 1})
	}
	return dst
}

func (d *cohereDecoder) call(dst []llm.Event, c llm.ToolCall) []llm.Event {
	arguments := c.Arguments
	c.Arguments = ""
	d.parts++
	d.calls++
	return append(dst, llm.Event{Kind: llm.EventPartStart, Part: d.parts - 1, Opened: c},
		llm.Event{Kind: llm.EventDelta, Part: d.parts - 1, Text: arguments}, llm.Event{Kind: llm.EventPartEnd, Part: d.parts - 1})
}

// End ends the open parts. The response is complete if its finish reason has
// been read.
func (d *cohereDecoder) End(dst []llm.Event) []llm.Event {
	if d.ended {
		return dst
	}
	d.ended = true
	dst = d.close(dst)
	if d.finished {
		dst = append(dst, llm.Event{Kind: llm.EventEnd})
	}
	return dst
}
