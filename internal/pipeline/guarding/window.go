package guarding

import (
	"slices"
	"strings"

	"modelgate/api"
	"modelgate/internal/format/bodytext"
	"modelgate/internal/guardrail"
	"modelgate/internal/pipeline/exchange"
)

// checkWindows runs the window hooks on the text that has not passed.
func (s *guardedStream) checkWindows() error {
	if len(s.hooks.window) == 0 {
		for _, t := range s.order {
			t.safe = t.raw.Len()
		}
		return nil
	}
	for _, t := range s.order {
		if t.escaped && !s.ended { // an escape and what it decodes to may begin anywhere
			continue
		}
		passed := t.safe
		if t.raw.Len() > t.asked || s.ended && t.safe < t.raw.Len() {
			if err := s.checkWindow(t); err != nil {
				return err
			}
		}
		if t.escaped {
			if err := s.checkReadings(t, passed); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkWindow runs the hooks on what has not passed of one text, and finds out how
// much of it may pass.
func (s *guardedStream) checkWindow(t *streamText) error {
	raw := t.raw.String()
	window, passed := raw[t.base:], t.safe-t.base
	if !s.ended && s.remote() && len(raw)-t.asked < remoteStep && len(window) < maxWindow {
		return nil
	}
	t.asked = len(raw)
	out, err := s.ask(t, window, !s.ended)
	if err != nil {
		return err
	}
	cut := len(window)
	if !s.ended {
		cut = max(beforeSpan(spansOf(out), s.safeLength(t, window), len(window)), passed)
	}
	if cut == passed {
		return nil
	}
	if out.Transformed && cut < len(window) { // the matches in what may pass are complete
		if out, err = s.ask(t, window[:cut], true); err != nil {
			return err
		}
	}
	if changed := out.Parts[0].Text; out.Transformed && changed != window[:cut] {
		rest, ok := strings.CutPrefix(changed, window[:passed])
		if !ok { // what has passed cannot change any more
			if out, err = s.ask(t, window[passed:cut], true); err != nil {
				return err
			}
			rest = out.Parts[0].Text
		}
		t.changes = append(t.changes, textChange{t.safe, t.base + cut, rest})
	}
	t.safe = t.base + cut
	t.base = t.safe - wordLength(raw[t.base:t.safe])
	return nil
}

// ask runs the window hooks on a part of a text.
func (s *guardedStream) ask(t *streamText, window string, partial bool) (*guardrail.Outcome, error) {
	part := t.part
	part.Text = window
	parts := []guardrail.Part{part}
	if before := t.prev.end(maxWord); before != "" && t.base == 0 && window != "" {
		part.Text = before
		parts = guardrail.JoinParts([]guardrail.Part{part, parts[0]})
		parts[0], parts[1], parts[2].Joins = parts[1], parts[0], []int{1, 0}
	}
	return s.askParts(parts, partial)
}

// askParts runs the window hooks on parts.
func (s *guardedStream) askParts(parts []guardrail.Part, partial bool) (*guardrail.Outcome, error) {
	in := guardrail.Input{
		Event: guardrail.After, Request: s.run.requestFacts(), Status: s.run.res.Status,
		Parts: parts, Partial: partial,
	}
	in.Again = s.again
	out := guardrail.Run(s.run.ctx, s.hooks.window, &in, nil)
	for i := range out.Results {
		s.merge(s.hooks.window[i], &out.Results[i])
	}
	if out.Denied {
		results := s.windowResults() // with the text that an earlier window was merged with
		hideTexts(guardrail.After, results)
		return nil, denied(exchange.HookResults{Before: s.run.request.Checking.Passed, After: results})
	}
	return out, notRun(out)
}

// before returns the text that a new one continues for a reader: the last text of the same response
// that is prose. Choices of chat do not continue each other.
func (s *guardedStream) before(t *streamText) *streamText {
	r := s.run.request
	if t.part.Kind != guardrail.Text || r.Dialect == api.DialectChat || !isConversation(r) {
		return nil
	}
	for _, text := range slices.Backward(s.order) {
		if text.part.Kind == guardrail.Text {
			return text
		}
	}
	return nil
}

// end returns the last n bytes of a text and of those that it continues.
func (t *streamText) end(n int) string {
	if t == nil || n <= 0 {
		return ""
	}
	raw := t.raw.String()
	if len(raw) >= n {
		return strings.ToValidUTF8(raw[len(raw)-n:], "")
	}
	return t.prev.end(n-len(raw)) + raw
}

// remote reports whether a window hook asks something outside of this process.
func (s *guardedStream) remote() bool {
	return slices.ContainsFunc(s.hooks.window, (*guardrail.Hook).Remote)
}

// safeLength returns the length of the beginning of window in which no match can
// begin that needs more text.
func (s *guardedStream) safeLength(t *streamText, window string) int {
	safe := len(window)
	for _, h := range s.hooks.window {
		safe = min(safe, h.Hold(t.part.Kind, window))
	}
	return max(safe, len(window)-maxWindow)
}

// maxWord is the limit in bytes of the word that a window begins with.
const maxWord = 256

// wordLength returns the length of the word at the end of text, 0 if it is too
// long.
func wordLength(text string) int {
	for n := range min(maxWord, len(text)) {
		if !isWordByte(text[len(text)-1-n]) {
			return n
		}
	}
	if len(text) < maxWord {
		return len(text)
	}
	return 0
}

func isWordByte(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// spansOf returns the places that the checks of an outcome found.
func spansOf(out *guardrail.Outcome) (spans []guardrail.Span) {
	for _, h := range out.Results {
		for _, c := range h.Checks {
			for _, span := range c.Spans {
				if span.Part == 0 { // others repeat text that has been checked
					spans = append(spans, span)
				}
			}
		}
	}
	return spans
}

// beforeSpan moves a cut that is inside of a place to its beginning. A place that
// fills the window up to its limit is cut.
func beforeSpan(spans []guardrail.Span, cut, length int) int {
	for moved := true; moved; {
		moved = false
		for _, p := range spans {
			if p.From < cut && cut < p.To {
				if length > maxWindow && p.From == 0 {
					return p.To
				}
				cut, moved = p.From, true
			}
		}
	}
	return cut
}

// merge adds the result of a window to that of the stream so far.
func (s *guardedStream) merge(h *guardrail.Hook, r *guardrail.HookResult) {
	all := s.results[h]
	if all == nil {
		s.results[h] = r
		return
	}
	all.Merge(r)
}

func (s *guardedStream) windowResults() []guardrail.HookResult {
	var list []guardrail.HookResult
	for _, h := range s.hooks.window {
		if r := s.results[h]; r != nil {
			list = append(list, *r)
		}
	}
	return list
}

// transforms reports whether a hook may change the text of the stream.
func (s *guardedStream) transforms() bool {
	return slices.ContainsFunc(s.hooks.window, (*guardrail.Hook).Transforms) || slices.ContainsFunc(s.hooks.hold, (*guardrail.Hook).Transforms)
}

// visible returns what passes of the part of the text between from and to, which is
// value. A replacement passes where the replaced text begins.
func (t *streamText) visible(from, to int, value string) string {
	if len(t.changes) == 0 {
		return value
	}
	var b strings.Builder
	at := from
	for _, c := range t.changes {
		if c.to <= at || c.from >= to {
			continue
		}
		if c.from >= at {
			b.WriteString(value[at-from : c.from-from])
			b.WriteString(c.text)
		}
		at = min(c.to, to)
	}
	b.WriteString(value[at-from:])
	return b.String()
}

func (t *streamText) visibleAll() string { return t.visible(0, t.raw.Len(), t.raw.String()) }

// repeated returns what passes of a complete text that repeats earlier events.
func (s *guardedStream) repeated(value string, t bodytext.Text) string {
	if !s.transforms() {
		return value
	}
	if known, ok := s.replaced[value]; ok {
		return known
	}
	out := value
	for _, text := range s.order {
		if text.raw.String() == value && text.safe == len(value) {
			out = text.visible(0, len(value), value)
			s.replaced[value] = out
			return out
		}
	}
	hooks := slices.Concat(s.hooks.window, s.hooks.hold)
	part := partsOf(s.run.request, s.form, []bodytext.Text{t})[0]
	in := guardrail.Input{Event: guardrail.After, Request: s.run.requestFacts(), Status: s.run.res.Status, Parts: []guardrail.Part{part}}
	switch o := guardrail.Run(s.run.ctx, hooks, &in, nil); {
	case notRun(o) != nil:
		return "" // it could not be checked
	case len(o.Parts) == 1:
		out = o.Parts[0].Text
	}
	s.replaced[value] = out
	return out
}

// separate ends the last word of the text before one that does not continue it. No event
// has the line break.
func (t *streamText) separate(next bodytext.Text) {
	if next.Complete && t.raw.Len() > 0 {
		t.raw.WriteByte('\n')
	}
}
