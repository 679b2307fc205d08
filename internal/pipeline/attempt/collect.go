package attempt

import (
	"io"

	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/pipeline/framing"
)

// collect reads a stream for a client that wants a complete response. Its
// memory counts as body memory. It returns nil if the stream reports an error, which it sets
// in out.
func (a *attempt) collect(out *exchange.Response, src *streamMemory, dec dialect.StreamDecoder) (*llm.Response, error) {
	var all dialect.Assembler
	var tap translationTap
	var events []llm.Event
	for size := 0; ; {
		e, err := src.Next()
		size += len(e.Data)
		switch {
		case err == nil && truncatedJSON(e.Data):
			err = framing.ErrUnreadableFrame
		case size > exchange.MaxTranslated:
			return nil, a.unreadable("a stream that is too large to be translated")
		}
		if err != nil && err != io.EOF {
			return nil, a.failure(out.Raw.Request, err)
		}
		if err == io.EOF {
			events = dec.End(events[:0])
		} else if events = events[:0]; e.Data != nil {
			events = dec.Decode(events, e)
		}
		a.plan.timers.eventReceived()
		for i := range events {
			tap.event(&events[i])
			all.Add(&events[i])
		}
		if full := src.grow(0, collectedSize(e.Data, events)); full != nil {
			return nil, full
		}
		if err == io.EOF || tap.seen.Failed != "" {
			break
		}
	}
	switch {
	case tap.seen.Failed != "":
		out.Tap = &tap
		a.setFault(out, tap.fault)
		return nil, nil
	case !tap.seen.Finished:
		return nil, a.unreadable("a stream that ended before its finish reason")
	}
	r, _, _ := all.Response()
	return r, nil
}
