package guarding

import (
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/format/bodytext"
	"modelgate/internal/guardrail"
)

// noteEscapes notices whether the text, which has grown from a length, is JSON with escapes. An escape may
// be cut between events.
func (t *streamText) noteEscapes(from int) {
	raw := t.raw.String()
	if t.escaped || t.part.Kind != guardrail.ToolArguments && !bodytext.MayBeJSON(raw) {
		return
	}
	for i := max(from-1, 0); i < len(raw)-1; i++ {
		if raw[i] == '\\' && strings.IndexByte("/bfnrtu", raw[i+1]) >= 0 {
			t.escaped = true
			return
		}
	}
}

// readingsOf returns the readings of a text of a kind.
func readingsOf(text string, kind guardrail.Kind) []bodytext.Reading {
	if kind == guardrail.ToolArguments {
		return bodytext.Readings(text, bodytext.Arguments)
	}
	return bodytext.Readings(text, bodytext.Content)
}

// decodedParts returns the readings of a text as parts.
func decodedParts(part guardrail.Part, readings []bodytext.Reading) (parts []guardrail.Part) {
	for _, reading := range readings {
		part.Text, part.Decoded = reading.Text, true
		parts = append(parts, part)
	}
	return parts
}

// changedReading returns the text for the last of its readings that hooks changed, whose parts are
// at the beginning of parts; false if they changed none.
func changedReading(readings []bodytext.Reading, parts []guardrail.Part) (text string, changed bool) {
	for i, reading := range readings {
		if parts[i].Text != reading.Text {
			text, changed = reading.Unread(parts[i].Text), true
		}
	}
	return text, changed
}

// checkReadings runs the window hooks on the readings of a complete text, of which the
// beginning up to passed has been sent.
func (s *guardedStream) checkReadings(t *streamText, passed int) error {
	raw := t.raw.String()
	readings := readingsOf(raw, t.part.Kind)
	if len(readings) == 0 {
		return nil
	}
	out, err := s.askParts(decodedParts(t.part, readings), false)
	if err != nil || !out.Transformed {
		return err
	}
	text, changed := changedReading(readings, out.Parts)
	if !changed {
		return nil
	}
	rest, ok := strings.CutPrefix(text, t.visible(0, passed, raw[:passed]))
	if !ok {
		return apierr.New(apierr.Denied, "a guardrail changes text of the response that has been sent").WithCode("response_unchecked")
	}
	kept := 0
	for _, c := range t.changes {
		if c.from < passed {
			kept++
		}
	}
	t.changes = append(t.changes[:kept], textChange{passed, len(raw), rest})
	return nil
}

// changeComplete changes the complete texts to those of parts, which are those of
// [guardedStream.complete].
func (s *guardedStream) changeComplete(parts []guardrail.Part) {
	decoded := parts[len(s.order):]
	for i, t := range s.order {
		raw, text := t.visibleAll(), parts[i].Text
		readings := readingsOf(raw, t.part.Kind)
		if other, changed := changedReading(readings, decoded); changed {
			text = other
		}
		decoded = decoded[len(readings):]
		if text != raw {
			t.changes = []textChange{{0, t.raw.Len(), text}}
		}
	}
}
