package messages

import (
	"slices"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// NewEncoder returns an encoder for one streamed response.
func (Dialect) NewEncoder(to dialect.ResponseTarget) dialect.StreamEncoder {
	return &streamEncoder{to: to}
}

// streamEncoder writes one stream. The protocol has one open block at a time,
// so parallel parts are written one after another: the first as it arrives,
// each other one after the parts before it have ended. Only text does not wait for
// thinking, whose rest is written after it.
type streamEncoder struct {
	to    dialect.ResponseTarget
	parts []*pending // in order; the first is being written
	first int        // number of parts[0]
	index int        // of the next block
	calls int
	aside map[int]*pending // thinking that text has overtaken, by number

	started, ended bool
	ending         ending
	usage          llm.Usage
	tier           string
	extra          []llm.Member
}

// Encode appends the frames for an event.
func (e *streamEncoder) Encode(dst []byte, ev *llm.Event) []byte {
	if e.ended || ev.Choice > 0 { // the protocol has one choice
		return dst
	}
	switch ev.Kind {
	case llm.EventStart:
		return e.start(dst, ev)
	case llm.EventPartStart:
		return e.partStart(e.begin(dst), ev)
	case llm.EventDelta:
		return e.delta(dst, ev)
	case llm.EventPartEnd:
		return e.partEnd(dst, ev.Part)
	case llm.EventFinish:
		e.ending.stop, e.ending.said, e.ending.text = ev.Stop, ev.NativeFinishReason, ev.StopText
		e.extra = append(e.extra, ownExtra(ev.Extra)...)
	case llm.EventUsage:
		e.usage = ev.Usage
	case llm.EventError:
		return e.failed(dst, ev.Fault)
	case llm.EventEnd:
		return e.end(e.begin(dst))
	}
	return dst
}

// begin writes the start of the stream unless it has been sent.
func (e *streamEncoder) begin(dst []byte) []byte {
	if e.started {
		return dst
	}
	return e.start(dst, &llm.Event{})
}

func (e *streamEncoder) start(dst []byte, ev *llm.Event) []byte {
	if e.started {
		return dst
	}
	e.started, e.tier = true, ev.ServiceTier
	e.extra = ownExtra(ev.Extra)
	b := openEvent(dst, "message_start")
	b.Name("message")
	b.Open('{')
	head := responseEncoder{Builder: b}
	head.head(messageID(ev.ID, false, e.to), modelName(ev.Model, e.to))
	b = head.Builder
	b.Name("content")
	b.Raw([]byte("[]"))
	b.Name("stop_reason")
	b.Null()
	b.Name("stop_sequence")
	b.Null()
	b.Name("usage")
	writeUsage(&b, e.usage, e.tier, nil)
	b.Close('}')
	dst = closeEvent(&b)
	b = openEvent(dst, "ping")
	return closeEvent(&b)
}

// end writes the end of the stream.
func (e *streamEncoder) end(dst []byte) []byte {
	for len(e.parts) > 0 {
		dst = e.next(dst)
	}
	dst = e.writeAside(dst, true)
	e.ended = true
	b := openEvent(dst, "message_delta")
	b.Name("delta")
	b.Open('{')
	writeEnding(&b, &e.ending)
	for _, m := range e.extra {
		if m.Name != "context_management" && slices.Contains(responseNames, m.Name) {
			b.Key(m.Name)
			b.Raw(m.Value)
		}
	}
	b.Close('}')
	b.Name("usage")
	writeUsage(&b, e.usage, "", e.extra)
	if edits := member(e.extra, "context_management"); edits != nil {
		b.Name("context_management")
		b.Raw(edits)
	}
	dst = closeEvent(&b)
	b = openEvent(dst, "message_stop")
	return closeEvent(&b)
}

// failed writes a provider's error, after the end of the open block. The block of
// a call gets no end: clients would run the call.
func (e *streamEncoder) failed(dst []byte, f *llm.ProviderError) []byte {
	e.ended = true
	if len(e.parts) > 0 && e.parts[0].open {
		if _, call := e.parts[0].part.(llm.ToolCall); !call {
			dst = e.writeAside(e.blockStop(dst), true)
		}
	}
	if f == nil {
		f = &llm.ProviderError{}
	}
	message := f.Message
	if message == "" {
		message = "the provider reported an error without a message"
	}
	dst = append(dst, "event: error\ndata: "...)
	b := jsonedit.AppendLine(dst)
	openFailure(&b, faultWord(f), message)
	b.Name("source")
	b.String(f.Source())
	b.Close('}')
	b.Name("provider")
	b.String(e.to.Provider)
	b.Close('}')
	return append(b.Bytes(), "\n\n"...)
}

// faultWord returns the protocol's type for an error inside a provider's
// stream, in any dialect.
func faultWord(f *llm.ProviderError) string {
	for _, said := range [...]string{f.Type, f.Code} {
		if word, ok := faultWords[said]; ok {
			return word
		}
	}
	return "api_error"
}

var faultWords = map[string]string{
	"invalid_request_error": "invalid_request_error", "INVALID_ARGUMENT": "invalid_request_error",
	"validationException": "invalid_request_error",
	"ValidationException": "invalid_request_error", "context_length_exceeded": "invalid_request_error", "400": "invalid_request_error",
	"authentication_error": "authentication_error", "invalid_api_key": "authentication_error", "UNAUTHENTICATED": "authentication_error",
	"401":              "authentication_error",
	"permission_error": "permission_error", "PERMISSION_DENIED": "permission_error", "403": "permission_error",
	"billing_error": "billing_error", "insufficient_quota": "billing_error",
	"not_found_error": "not_found_error", "NOT_FOUND": "not_found_error", "404": "not_found_error",
	"request_too_large": "request_too_large", "413": "request_too_large",
	"rate_limit_error": "rate_limit_error", "rate_limit_exceeded": "rate_limit_error", "RESOURCE_EXHAUSTED": "rate_limit_error",
	"throttlingException": "rate_limit_error", "ThrottlingException": "rate_limit_error", "429": "rate_limit_error",
	"timeout_error": "timeout_error", "DEADLINE_EXCEEDED": "timeout_error", "modelTimeoutException": "timeout_error", "504": "timeout_error",
	"overloaded_error": "overloaded_error", "UNAVAILABLE": "overloaded_error", "serviceUnavailableException": "overloaded_error",
	"503": "overloaded_error", "529": "overloaded_error",
}

// openEvent begins an event and the object in its data, with its type.
func openEvent(dst []byte, name string) jsonedit.Builder {
	dst = append(dst, "event: "...)
	dst = append(dst, name...)
	dst = append(dst, "\ndata: "...)
	b := jsonedit.AppendLine(dst)
	b.Open('{')
	b.Name("type")
	b.String(name)
	return b
}

func closeEvent(b *jsonedit.Builder) []byte {
	b.Close('}')
	return append(b.Bytes(), "\n\n"...)
}
