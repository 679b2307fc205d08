package gemini

import (
	"errors"

	"modelgate/internal/dialect"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
)

// DecodeResponse reads a complete response, which has the form of a stream with
// one frame.
func (Dialect) DecodeResponse(body []byte, r *llm.Request, to dialect.RequestTarget) (*llm.Response, error) {
	d := newDecoder(r, to)
	d.complete = true
	var all dialect.Assembler
	events := d.End(d.Decode(nil, sse.Event{Data: body}))
	for i := range events {
		all.Add(&events[i])
	}
	res, fault, _ := all.Response()
	switch {
	case fault != nil:
		return nil, errors.New("the response is an error: " + fault.Message)
	case len(res.Choices) == 0:
		return nil, errors.New("the response has no candidates")
	}
	res.Dialect = own
	return res, nil
}
