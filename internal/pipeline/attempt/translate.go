package attempt

import (
	"bytes"
	"cmp"
	"io"
	"maps"
	"slices"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
	"modelgate/internal/pipeline/framing"
)

// translationTap is the tap of a translated response: it reads neutral events.
type translationTap struct {
	seen  dialect.ResponseInfo
	fault *llm.ProviderError // of seen.Failed
	open  map[int]bool       // choices that have begun; true until their finish reason
	lost  lostContent
	names dialect.SentNames
}

// Body implements dialect.Tap. It does nothing.
func (t *translationTap) Body([]byte) {}

// Event implements dialect.Tap. It does nothing.
func (t *translationTap) Event(sse.Event) {}

// Info returns what was seen so far.
func (t *translationTap) Info() *dialect.ResponseInfo { return &t.seen }

// readResponse reads a complete response.
func (t *translationTap) readResponse(r *llm.Response) {
	t.seen.Model, t.seen.Usage = r.Model, r.Usage
	t.seen.Begun, t.seen.Finished, t.seen.Terminated = true, true, true
	t.seen.Written = writtenSize(r)
	if len(r.Choices) > 0 {
		t.seen.Finish = cmp.Or(r.Choices[0].NativeFinishReason, string(r.Choices[0].Stop))
	}
}

// event reads one event of a stream.
func (t *translationTap) event(e *llm.Event) {
	s := &t.seen
	switch e.Kind {
	case llm.EventStart:
		s.Model = cmp.Or(s.Model, e.Model)
	case llm.EventPartStart:
		s.Begun = true
		t.choice(e.Choice, true)
		e.Opened = t.lost.carry(original(t.names, e.Opened))
	case llm.EventDelta:
		s.Begun = true
		s.Written += llm.TextSize(e.Text)
	case llm.EventFinish:
		if e.Choice == 0 {
			s.Finish = cmp.Or(e.NativeFinishReason, string(e.Stop))
		}
		t.choice(e.Choice, false)
	case llm.EventUsage:
		s.Usage = e.Usage
	case llm.EventError:
		t.fault = e.Fault
		if s.Failed = e.Fault.Message; s.Failed == "" {
			s.Failed = cmp.Or(e.Fault.Type, e.Fault.Code, "the provider reported an error without a message")
		}
	case llm.EventEnd:
		s.Finished, s.Terminated = true, true
	}
}

// choice records that a choice has begun or has its finish reason.
func (t *translationTap) choice(i int, open bool) {
	if known, ok := t.open[i]; ok && (known == open || open) {
		return
	}
	if t.open == nil {
		t.open = make(map[int]bool, 1)
	}
	t.open[i] = open
	t.seen.Finished = true
	for _, open := range t.open {
		t.seen.Finished = t.seen.Finished && !open
	}
}

// translation converts a provider's stream to the client's dialect: it reads
// frames of the provider and returns frames for the client as soon as they are
// ready.
type translation struct {
	translationTap
	src *streamMemory
	dec dialect.StreamDecoder
	enc dialect.StreamEncoder

	model string // the name that the client gets; empty means the provider's

	events []llm.Event // reused
	calls  openCalls
	ids    responseCalls
	out    []byte // what was returned last; reused
	early  []byte // what More read ahead; reused
	err    error  // the error that More found
	ended  bool
	learn  func(frame []byte) // is called with frames that begin thinking; may be nil
	begun  bool               // a frame for the client has been returned
	// metered makes Next return after each frame of the provider, with an empty
	// event if it gives the client nothing, and More read none: what has been read
	// is counted before more is.
	metered bool

	// forwards is true if the client gets the comments before the first event;
	// comment holds those that it has not received.
	forwards bool
	comment  []byte
}

// More reports whether a frame for the client is available without waiting. Not
// every frame of the provider produces one, so it reads the available ones.
func (t *translation) More() bool {
	for !t.metered && len(t.early) == 0 && len(t.comment) == 0 && t.err == nil && t.src.More() {
		t.early, t.err = t.step(t.early)
	}
	return len(t.early) > 0 || len(t.comment) > 0
}

// Next returns one or more frames for the client in one event.
func (t *translation) Next() (sse.Event, error) {
	for {
		t.out, t.early = t.early, t.out[:0]
		if err := t.err; len(t.out) == 0 && err != nil {
			t.err = nil
			return sse.Event{}, err
		}
		var err error
		if len(t.out) == 0 && len(t.comment) == 0 {
			t.out, err = t.step(t.out)
		}
		switch {
		case err != nil:
			return sse.Event{}, err
		case len(t.out) == 0 && len(t.comment) > 0:
			comment := t.comment
			t.comment = nil
			return sse.Event{Raw: comment}, nil
		case t.metered && len(t.out) == 0:
			return sse.Event{}, nil
		case len(t.out) > 0:
			t.begun = true
			return sse.Event{Raw: t.out, Data: t.out}, nil
		}
	}
}

// step appends the frames for one frame of the provider, or for its end.
func (t *translation) step(out []byte) ([]byte, error) {
	if t.seen.Failed != "" {
		return out, io.EOF // nothing follows an error
	}
	e, err := t.src.Next()
	switch {
	case err == io.EOF && !t.ended:
		t.ended = true
		events := t.dec.End(t.events[:0])
		out = t.write(out, t.withoutBrokenEnds(events))
		if s := &t.seen; s.Finished && !s.Terminated && s.Failed == "" { // only the terminator is missing
			out = t.write(out, append(t.events[:0], llm.Event{Kind: llm.EventEnd}))
		}
		return out, nil
	case err != nil:
		return out, err
	case e.Data == nil:
		if t.forwards && !t.begun && bytes.HasPrefix(e.Raw, []byte(":")) {
			t.comment = append(t.comment, e.Raw...)
		}
		return out, nil
	case truncatedJSON(e.Data) && string(e.Type) != "output": // whose data is text
		return out, framing.ErrUnreadableFrame
	}
	events := t.dec.Decode(t.events[:0], e)
	if t.learn != nil && beginsThinking(events) {
		t.learn(e.Data)
	}
	out = t.write(out, events)
	return out, t.src.grow(0, collectedSize(e.Data, t.events))
}

// withoutBrokenEnds removes the ends of parts in choices without a finish reason
// from the last events of a stream: no client may take such a part for a complete
// one.
func (t *translation) withoutBrokenEnds(events []llm.Event) []llm.Event {
	broken := map[int]bool{}
	for i := range events {
		switch e := &events[i]; e.Kind {
		case llm.EventEnd:
			return events
		case llm.EventPartEnd:
			if open, began := t.open[e.Choice]; open || !began {
				broken[e.Choice] = true
			}
		case llm.EventFinish:
			delete(broken, e.Choice)
		}
	}
	return slices.DeleteFunc(events, func(e llm.Event) bool { return e.Kind == llm.EventPartEnd && broken[e.Choice] })
}

// truncatedJSON reports whether a frame begins as JSON and is incomplete.
// Decoders skip what they cannot read, so its text would be lost silently.
func truncatedJSON(data []byte) bool {
	data = bytes.TrimSpace(data)
	return len(data) > 0 && data[0] == '{' && !framing.IsCompleteJSON(data)
}

func (t *translation) write(out []byte, events []llm.Event) []byte {
	t.events = events
	for i := range events {
		e := &events[i]
		if e.Kind == llm.EventFinish && e.Stop == llm.StopFailed {
			*e = llm.Event{Kind: llm.EventError, Fault: dialect.FinishError(e.NativeFinishReason)}
		}
		if t.seen.Failed != "" && e.Kind != llm.EventUsage {
			continue // nothing follows an error, but what was used counts
		}
		if t.event(e); e.Kind == llm.EventUsage && t.seen.Failed != "" {
			continue
		}
		switch {
		case e.Kind == llm.EventStart:
			e.Model = cmp.Or(t.model, e.Model)
		case e.Kind == llm.EventEnd:
			out = t.reasons(out)
		case e.Kind == llm.EventFinish && e.Stop == "" && e.NativeFinishReason == "":
			e.Stop = llm.StopEnd
		}
		out = t.encodeEvent(out, e)
	}
	return out
}

// reasons ends the choices of a complete response without a finish reason,
// since clients of most protocols wait for one.
func (t *translation) reasons(out []byte) []byte {
	choices := slices.Sorted(maps.Keys(t.open))
	if len(choices) == 0 {
		choices = []int{0}
	}
	for _, i := range choices {
		if open, began := t.open[i]; open || !began {
			out = t.encodeEvent(out, &llm.Event{Kind: llm.EventFinish, Choice: i, Stop: llm.StopEnd})
		}
	}
	return out
}

// cut appends the frames that end the stream as at a limit of output tokens, with
// the usage u. Nothing more is read.
func (t *translation) cut(dst []byte, u llm.Usage) []byte {
	choices := slices.Sorted(maps.Keys(t.open))
	if len(choices) == 0 {
		choices = []int{0}
	}
	for _, i := range choices {
		if open, began := t.open[i]; open || !began {
			dst = t.encodeEvent(dst, &llm.Event{Kind: llm.EventFinish, Choice: i, Stop: llm.StopLength})
		}
	}
	dst = t.encodeEvent(dst, &llm.Event{Kind: llm.EventUsage, Usage: u})
	return t.encodeEvent(dst, &llm.Event{Kind: llm.EventEnd})
}

// Fail appends the frames for a stream that broke off.
func (t *translation) Fail(dst []byte, _ dialect.ClientDialect, e *apierr.Error) []byte {
	fault := &llm.ProviderError{Gateway: true, Type: e.Type(), Code: e.CodeOrDefault(), Message: e.Message}
	return t.enc.Encode(dst, &llm.Event{Kind: llm.EventError, Fault: fault})
}

// lengthOf returns the approximate size of the body for r. Growing a buffer to
// it step by step would copy the body several times.
func lengthOf(r *llm.Response) int {
	n := textLength(r) + 1<<10
	return n + n/8 // for escapes
}

// textLength returns the number of bytes of content in r.
func textLength(r *llm.Response) (n int) {
	eachText(r, func(text string) { n += len(text) })
	return n
}

// writtenSize returns the size of the content in r, as of [llm.TextSize].
func writtenSize(r *llm.Response) (n int64) {
	eachText(r, func(text string) { n += llm.TextSize(text) })
	return n
}

// eachText calls f for every string of content in r.
func eachText(r *llm.Response, f func(text string)) {
	for _, c := range r.Choices {
		for _, p := range c.Parts {
			switch p := p.(type) {
			case llm.Text:
				f(p.Text)
			case llm.Thinking:
				f(p.Text)
				f(p.Signature.Value)
			case llm.ToolCall:
				f(p.Arguments)
			case llm.Media:
				f(p.Data)
			}
		}
	}
}
