package pipeline

import (
	"encoding/base64"
	"modelgate/internal/eventstream"
	"modelgate/internal/jsonedit"
	"modelgate/internal/sse"
)

// withData returns the event with other data.
func (s *guardedStream) withData(h *heldEvent, data []byte) sse.Event {
	e := h.event
	if h.wrapped {
		data = append(append([]byte(`{"bytes":"`), base64.StdEncoding.EncodeToString(data)...), `"}`...)
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
