package replicate

import (
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
)

// NewDecoder returns a decoder for the events of one prediction.
func (Dialect) NewDecoder(_ *llm.Request, to dialect.RequestTarget) dialect.StreamDecoder {
	return &streamDecoder{model: to.Model}
}

// streamDecoder reads the events of one prediction: output, whose data is text;
// error; and done, whose data has the reason, and the usage if the prediction
// is included.
type streamDecoder struct {
	model       string
	begun, over bool
}

// Decode reads one event.
func (d *streamDecoder) Decode(dst []llm.Event, frame sse.Event) []llm.Event {
	if d.over {
		return dst
	}
	switch string(frame.Type) {
	case "output":
		dst = d.begin(dst)
		return append(dst, llm.Event{Kind: llm.EventDelta, Text: string(frame.Data)})
	case "error":
		return d.fail(dst, dialect.ErrorMessage(frame.Data))
	case "done":
		v, _ := jsonedit.ParseValue(frame.Data)
		if reason := v.TextOf("reason"); reason != "" {
			return d.fail(dst, reason)
		}
		dst = append(d.begin(dst), llm.Event{Kind: llm.EventPartEnd},
			llm.Event{Kind: llm.EventFinish, Stop: llm.StopEnd, NativeFinishReason: "succeeded"})
		if u := usageOf(v); u.Known || u.Invalid {
			dst = append(dst, llm.Event{Kind: llm.EventUsage, Usage: u})
		}
		d.over = true
		return append(dst, llm.Event{Kind: llm.EventEnd})
	}
	return dst
}

func (d *streamDecoder) begin(dst []llm.Event) []llm.Event {
	if d.begun {
		return dst
	}
	d.begun = true
	return append(dst, llm.Event{Kind: llm.EventStart, Model: d.model}, llm.Event{Kind: llm.EventPartStart, Opened: llm.Text{}})
}

func (d *streamDecoder) fail(dst []llm.Event, words string) []llm.Event {
	d.over = true
	if words == "" {
		words = "the prediction failed"
	}
	return append(dst, llm.Event{Kind: llm.EventError, Fault: &llm.ProviderError{Message: words}})
}

// End ends the open part. Without done the response is not complete.
func (d *streamDecoder) End(dst []llm.Event) []llm.Event {
	if d.begun && !d.over {
		d.over = true
		dst = append(dst, llm.Event{Kind: llm.EventPartEnd})
	}
	return dst
}
