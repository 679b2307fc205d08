package guarding

import (
	"encoding/base64"

	"modelgate/internal/format/bodytext"
	"modelgate/internal/format/eventstream"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
)

// find finds the text in the data of an event, and returns the form in which it was found.
// Data that is not a JSON object may be text, in streams of every API.
func (s *guardedStream) find(h *heldEvent) bodytext.Form {
	data := h.event.Data
	if s.binary {
		data, h.wrapped = unwrapMessage(data)
	}
	if len(data) > 0 && data[0] == '{' {
		h.body = bodytext.Find(data, s.form)
		s.run.log.notCovered(h.body.Uncovered...)
	}
	if s.binary || len(data) == 0 || len(h.body.Texts) > 0 || string(data) == "[DONE]" {
		return s.form
	}
	if _, err := jsonedit.ParseValue(data); err != nil {
		data, h.plain = jsonedit.AppendString(nil, string(data)), true
	}
	if data[0] != '{' {
		h.body = bodytext.Find(data, bodytext.AnyEvent)
	}
	return bodytext.AnyEvent
}

// withData returns the event with other data.
func (s *guardedStream) withData(h *heldEvent, data []byte) sse.Event {
	e := h.event
	if h.plain {
		data, _ = plainText.encode(data) // the body is a JSON string
	}
	if h.wrapped {
		data = append(append([]byte(`{"bytes":"`), base64.StdEncoding.EncodeToString(data)...), `"}`...)
	}
	if s.values {
		return withValue(e, data)
	}
	if s.binary {
		return sse.Event{Raw: eventstream.AppendWith(nil, e.Raw, data), Type: e.Type, Data: data}
	}
	return sse.Event{Raw: sse.AppendEvent(nil, string(e.Type), data), Type: e.Type, Data: data}
}

// unwrapMessage returns the data inside of a message of InvokeModel, or the data of
// any other message.
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_PayloadPart.html
func unwrapMessage(data []byte) (inner []byte, wrapped bool) {
	v, err := jsonedit.ParseValue(data)
	if err != nil {
		return data, false
	}
	part, _ := v.Get("bytes")
	text, ok := part.Text()
	if !ok {
		return data, false
	}
	inner, err = base64.StdEncoding.DecodeString(text)
	if err != nil {
		return data, false
	}
	return inner, true
}
