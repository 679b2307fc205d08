package guarding

import (
	"bufio"
	"bytes"
	"io"
	"slices"
	"strings"

	"modelgate/internal/format/bodytext"
	"modelgate/internal/format/sse"
)

// isValues reports whether a media type is one of JSON values after each other.
func isValues(media string) bool {
	return media == "application/json-seq" || strings.HasSuffix(media, "+json-seq") ||
		media == "application/stream+json" || media == "application/x-json-stream" ||
		rowTypes[media] && strings.Contains(media, "json") || strings.HasSuffix(media, "ndjson")
}

// valueReader reads JSON values that follow each other as events, whose data are the values. Other
// lines are events too.
type valueReader struct {
	src *bufio.Reader
	max int // bytes of a value
	raw []byte
	err error
}

func newValueReader(src io.Reader, most int) *valueReader {
	return &valueReader{src: bufio.NewReaderSize(src, 32<<10), max: most}
}

// Next returns the next value with what separates it from the others.
func (r *valueReader) Next() (sse.Event, error) {
	if r.err != nil {
		return sse.Event{}, r.err
	}
	r.raw = r.raw[:0]
	var s bodytext.Sequence
	for text := false; ; {
		c, err := r.src.ReadByte()
		if err != nil {
			if r.err = err; len(r.raw) > 0 && err == io.EOF {
				return r.event(), nil
			}
			return sse.Event{}, err
		}
		if r.raw = append(r.raw, c); len(r.raw) > r.max {
			r.err = sse.ErrTooLarge
			return sse.Event{}, r.err
		}
		if text { // up to its end of line
			if c == '\n' {
				return r.event(), nil
			}
			continue
		}
		done, ok := s.Next(c)
		if text = !ok; done {
			r.addLineEnd()
			return r.event(), nil
		}
	}
}

// addLineEnd adds the end of the line to a value: clients wait for it.
func (r *valueReader) addLineEnd() {
	for _, c := range [...]byte{'\r', '\n'} {
		if next, err := r.src.Peek(1); err == nil && next[0] == c {
			r.src.Discard(1)
			r.raw = append(r.raw, c)
		}
	}
}

func (r *valueReader) event() sse.Event {
	return sse.Event{Raw: r.raw, Data: bytes.Trim(r.raw, " \t\r\n\x1e")}
}

// More reports whether the next event may be available without waiting.
func (r *valueReader) More() bool { return r.err == nil && r.src.Buffered() > 0 }

// guardValues wraps a body of JSON values so that they are checked as they pass.
func (run *responseRun) guardValues(body io.Reader) error {
	return run.guardBody(&bodyEvents{bodyReader: newValueReader(body, run.guard.Bounds.MaxEvent), res: run.res}, true)
}

// withValue returns an event of a sequence of values with another value.
func withValue(e sse.Event, data []byte) sse.Event {
	at := bytes.Index(e.Raw, e.Data)
	return sse.Event{Raw: slices.Concat(e.Raw[:at], data, e.Raw[at+len(e.Data):]), Data: data}
}
