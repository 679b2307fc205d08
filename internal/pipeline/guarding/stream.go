package guarding

import (
	"slices"
	"strings"

	"modelgate/config"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/format/bodytext"
	"modelgate/internal/format/sse"
	"modelgate/internal/guardrail"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/pipeline/framing"
)

// Limits of the text of a stream that hooks hold back, in bytes.
const (
	// maxWindow is the limit of text whose hooks wait for the end of a match. A
	// longer match is cut there.
	maxWindow = 8 << 10
	// remoteStep is the amount of new text for which hooks outside of this process
	// are asked.
	remoteStep = 400
	// maxHeldStream is the limit of a stream that is held back completely, and of the
	// text that is kept of any stream, where each text counts for textSize more.
	maxHeldStream = 8 << 20
	textSize      = 1 << 10
)

// streamHooks are the hooks of a stream by what they may hold back.
type streamHooks struct {
	window  []*guardrail.Hook // check the text as it passes
	hold    []*guardrail.Hook // check the complete text before any of it passes
	observe []*guardrail.Hook // check the complete text after it has passed
}

// sortHooks divides hooks by their mode; see [guardrail.Hook.StreamMode].
func sortHooks(hooks []*guardrail.Hook) (s streamHooks) {
	for _, h := range hooks {
		switch h.StreamMode() {
		case config.StreamHold:
			s.hold = append(s.hold, h)
		case config.StreamWindow:
			s.window = append(s.window, h)
		default:
			s.observe = append(s.observe, h)
		}
	}
	return s
}

// guardedStream is a stream whose text is checked. It holds events back until
// their text is safe.
type guardedStream struct {
	exchange.Stream
	run    *responseRun
	hooks  streamHooks
	again  bool // the hooks have run on the stream before others changed it
	form   bodytext.Form
	binary bool // events are messages of an AWS event stream
	values bool // events are JSON values after each other
	joined bool // an event of the stream may hold several

	queue       []heldEvent // in the order of the provider
	ready       []sse.Event // to be returned
	sentEvents  int64       // number of events with data that were returned
	texts       map[string]*streamText
	order       []*streamText
	queuedBytes int               // bytes in queue
	textBytes   int               // bytes of texts, with textSize for each
	ended       bool              // all text has arrived
	recorded    bool              // the results of the window hooks are in the response
	err         error             // returned when ready is empty
	replaced    map[string]string // complete texts by what replaces them

	results map[*guardrail.Hook]*guardrail.HookResult // of window hooks so far
}

// heldEvent is an event with the text that it adds.
type heldEvent struct {
	event sse.Event
	body  bodytext.Body
	spans []textSpan // of body.Texts
	// wrapped is true if the data is that of another protocol, in base64.
	wrapped bool
	// plain is true if the data is text, which body has as a JSON string.
	plain bool
}

// textSpan is a part of a text of the stream.
type textSpan struct {
	text     *streamText // nil for text that repeats other text
	from, to int
}

// streamText is one text of a stream, as far as it has arrived.
type streamText struct {
	part guardrail.Part
	raw  strings.Builder
	// prev is the text that this one continues for a reader, such as that of the content block
	// before; nil for none.
	prev *streamText
	// safe is the length of the beginning that may pass, and asked the length at
	// the last run of the hooks. Windows begin at base, the beginning of the word
	// that safe is in, so that hooks see complete words.
	base, safe, asked int
	// escaped is true for JSON with escapes, of which nothing passes until it is complete.
	escaped bool
	// changes are the parts of raw that are replaced, in order.
	changes []textChange
}

type textChange struct {
	from, to int
	text     string
}

// prime checks the beginning of the stream: all of it if it is held back,
// otherwise until some of its text, or 64 events without any, may pass. An error
// means that nothing of it may pass.
func (s *guardedStream) prime() error {
	if !s.Begun() && len(s.hooks.hold) == 0 {
		return nil // comments are due before the first event
	}
	for !s.ended && s.err == nil {
		if len(s.hooks.hold) == 0 && (len(s.ready) >= 64 || slices.ContainsFunc(s.order, func(t *streamText) bool { return t.safe > 0 })) {
			break
		}
		s.pull()
	}
	if e, ok := s.err.(*apierr.Error); ok && e.Kind == apierr.Denied {
		return e
	}
	return nil
}

// Next implements [exchange.Stream].
func (s *guardedStream) Next() (sse.Event, error) {
	for len(s.ready) == 0 {
		if s.err != nil {
			return sse.Event{}, s.err
		}
		s.pull()
	}
	e := s.ready[0]
	s.ready = s.ready[1:]
	if len(e.Data) > 0 {
		s.sentEvents++
	}
	return e, nil
}

// Fail implements [exchange.Stream]. A denial ends the stream after what the client has seen: what
// was read and held back is not in the count.
func (s *guardedStream) Fail(dst []byte, client dialect.ClientDialect, e *apierr.Error) []byte {
	if e.Kind != apierr.Denied {
		return s.Stream.Fail(dst, client, e)
	}
	if numbered, ok := client.(dialect.NumberedErrors); ok {
		return numbered.NumberedErrorEvent(dst, e, s.sentEvents)
	}
	return client.ErrorEvent(dst, e)
}

// More implements [exchange.Stream].
func (s *guardedStream) More() bool {
	return len(s.ready) > 0 || s.err == nil && s.Stream.More()
}

// pull reads the next event and moves to ready what may pass.
func (s *guardedStream) pull() {
	e, err := s.Stream.Next()
	switch {
	case err != nil:
		s.end(err)
		return
	}
	for _, frame := range s.frames(e) {
		s.add(frame)
	}
	if s.queuedBytes > maxHeldStream || s.textBytes > maxHeldStream && s.acts() {
		s.deny(apierr.New(apierr.Denied, "the response is larger than %d bytes, so it could not be checked by guardrails", maxHeldStream).WithCode("response_unchecked"))
		return
	}
	if s.Stream.More() && len(s.queue) < 64 { // one run for all that has arrived
		return
	}
	if len(s.hooks.hold) > 0 {
		return
	}
	if err := s.checkWindows(); err != nil {
		s.deny(err)
		return
	}
	s.release()
}

// acts reports whether a hook may still deny or change the stream.
func (s *guardedStream) acts() bool { return len(s.hooks.window)+len(s.hooks.hold) > 0 }

// frames returns the frames of an event, which may hold several if the stream is
// translated. They are copies.
func (s *guardedStream) frames(e sse.Event) []sse.Event {
	switch {
	case s.joined && s.binary:
		return framing.SplitMessages(e.Raw)
	case s.joined:
		return framing.Split(e.Raw)
	}
	return []sse.Event{e.Clone()}
}

// add adds an event to the queue.
func (s *guardedStream) add(e sse.Event) {
	h := heldEvent{event: e}
	form := s.find(&h)
	if s.textBytes > maxHeldStream && len(h.body.Texts) > 0 {
		s.run.log.notCovered("text beyond 8 MB")
		h.body = bodytext.Body{}
	}
	for i, t := range h.body.Texts {
		if t.Repeats {
			h.spans = append(h.spans, textSpan{})
			continue
		}
		text := s.texts[t.Key]
		if text == nil {
			text = &streamText{part: partsOf(s.run.request, form, h.body.Texts[i:i+1])[0]}
			text.part.Index = len(s.order)
			text.prev = s.before(text)
			s.texts[t.Key] = text
			s.textBytes += textSize
			s.order = append(s.order, text)
		}
		text.separate(t)
		from := text.raw.Len()
		text.raw.WriteString(t.Value)
		text.noteEscapes(from)
		s.textBytes += len(t.Value)
		h.spans = append(h.spans, textSpan{text, from, text.raw.Len()})
	}
	s.queuedBytes += len(e.Raw)
	s.queue = append(s.queue, h)
}

// release moves the events whose text may pass to ready.
func (s *guardedStream) release() {
	n := 0
	for _, h := range s.queue {
		if slices.ContainsFunc(h.spans, func(p textSpan) bool { return p.text != nil && p.to > p.text.safe }) {
			break
		}
		s.ready = append(s.ready, s.rewrite(&h))
		s.queuedBytes -= len(h.event.Raw)
		n++
	}
	s.queue = s.queue[n:]
}

// rewrite returns the event with the text that may pass.
func (s *guardedStream) rewrite(h *heldEvent) sse.Event {
	values := make([]string, len(h.spans))
	changed := false
	for i, p := range h.spans {
		values[i] = h.body.Texts[i].Value
		switch {
		case p.text == nil:
			values[i] = s.repeated(values[i], h.body.Texts[i])
		default:
			values[i] = p.text.visible(p.from, p.to, values[i])
		}
		changed = changed || values[i] != h.body.Texts[i].Value
	}
	switch {
	case changed:
		return s.withData(h, h.body.Replace(nil, values))
	case s.transforms():
		if data, ok := h.body.WithoutLogprobs(nil); ok {
			return s.withData(h, data)
		}
	}
	return h.event
}

// end checks what is left when the stream has ended with err.
func (s *guardedStream) end(err error) {
	s.ended = true
	if failure := s.checkEnd(); failure != nil {
		s.deny(failure)
		return
	}
	for _, t := range s.order {
		t.safe = t.raw.Len()
	}
	s.release()
	s.err = err
	s.finish()
}

// checkEnd checks the rest of the windows and the complete texts.
func (s *guardedStream) checkEnd() error {
	if err := s.checkWindows(); err != nil {
		return err
	}
	if len(s.hooks.window) > 0 {
		s.record()
	}
	if len(s.hooks.hold) > 0 {
		in := s.complete()
		out, err := s.run.runHooks(s.hooks.hold, in)
		s.addResults(out.Results)
		if err != nil {
			return err
		}
		if out.Transformed && len(out.Parts) == len(in.Parts) {
			s.changeComplete(out.Parts)
		}
	}
	return nil
}

// finish runs the hooks that observe.
func (s *guardedStream) finish() {
	if len(s.hooks.observe) == 0 {
		return
	}
	s.run.observe(s.hooks.observe, s.complete())
}

// complete returns the complete texts as they pass, and then their readings.
func (s *guardedStream) complete() (in guardrail.Input) {
	var decoded []guardrail.Part
	for _, t := range s.order {
		part := t.part
		part.Text = t.visibleAll()
		in.Parts = append(in.Parts, part)
		decoded = append(decoded, decodedParts(part, readingsOf(part.Text, part.Kind))...)
	}
	in.Parts = append(in.Parts, decoded...)
	if isConversation(s.run.request) {
		in.Parts = guardrail.JoinParts(in.Parts)
	}
	in.Event, in.Status, in.Request = guardrail.After, s.run.res.Status, s.run.requestFacts()
	return in
}

// deny ends the stream with err. Nothing that is held back passes.
func (s *guardedStream) deny(err error) {
	if len(s.hooks.window) > 0 && !s.recorded {
		s.record()
	}
	s.queue, s.queuedBytes, s.ended, s.err = nil, 0, true, err
}

// record records the results of the window hooks.
func (s *guardedStream) record() {
	s.recorded = true
	s.addResults(s.windowResults())
}
