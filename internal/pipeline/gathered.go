package pipeline

import (
	"io"

	"modelgate/internal/dialect"
	"modelgate/internal/llm"
)

// collectStream reads a stream that the client wants whole. The memory that it takes
// counts as that of a body.
func (a *Attempt) collectStream(out *Response, src *streamMemory) error {
	dec := a.wire.codec.NewDecoder(a.wire.request, a.wire.target)
	var all dialect.Assembler
	var tap translationTap
	var events []llm.Event
	for size := 0; ; {
		e, err := src.Next()
		size += len(e.Data)
		switch {
		case err == nil && truncatedJSON(e.Data):
			err = errUnreadableFrame
		case size > maxTranslated:
			return a.unreadable("a stream that is too large to be translated")
		}
		if err != nil && err != io.EOF {
			return a.failure(out.Raw.Request, err)
		}
		if err == io.EOF {
			events = dec.End(events[:0])
		} else if events = events[:0]; e.Data != nil {
			events = dec.Decode(events, e)
		}
		out.watch.eventReceived()
		for i := range events {
			tap.event(&events[i])
			all.Add(&events[i])
		}
		if full := src.grow(0, collectedSize(e.Data, events)); full != nil {
			return full
		}
		if err == io.EOF || tap.seen.Failed != "" {
			break
		}
	}
	r, _, _ := all.Response()
	return a.gatheredAll(out, r, &tap.seen)
}

// gatheredAll gives the client what was gathered, where it is whole.
func (a *Attempt) gatheredAll(out *Response, r *llm.Response, seen *dialect.ResponseInfo) error {
	switch {
	case seen.Failed != "":
		return a.unreadable("an error: " + seen.Failed)
	case !seen.Finished:
		return a.unreadable("a stream that ended before its finish reason")
	}
	out.jsonHead()
	return a.encodeComplete(out, r)
}
