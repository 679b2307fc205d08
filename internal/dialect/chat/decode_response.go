package chat

import (
	"errors"
	"fmt"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// DecodeResponse reads a complete response, as a stream of one chunk.
func (Dialect) DecodeResponse(body []byte, r *llm.Request, to dialect.RequestTarget) (*llm.Response, error) {
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return nil, fmt.Errorf("reading a response of the chat dialect: %w", err)
	}
	choices, ok := v.Get("choices")
	if e, failed := v.Get("error"); failed && !e.IsNull() {
		return nil, errors.New(failure(e.Raw()))
	}
	if !ok || choices.Kind() != jsonedit.Array {
		return nil, errors.New("a response of the chat dialect must have choices")
	}
	d := newDecoder(r)
	d.noReason = true // the body is complete
	events := d.terminate(d.read(nil, body))
	var all dialect.Assembler
	for i := range events {
		all.Add(&events[i])
	}
	out, fault, complete := all.Response()
	switch {
	case fault != nil:
		return nil, errors.New(fault.Message)
	case !complete:
		return nil, errors.New("the response ended inside the arguments of a tool call, without a finish reason")
	}
	out.Dialect = dialectName
	return out, nil
}
