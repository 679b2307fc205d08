package guarding

import (
	"bytes"
	"io"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/format/bodytext"
	"modelgate/internal/format/sse"
	"modelgate/internal/pipeline/exchange"
)

// guardBodyEvents wraps the server-sent events of an unknown API so that they are checked as they pass.
func (run *responseRun) guardBodyEvents(body io.Reader) error {
	return run.guardBody(&bodyEvents{bodyReader: sse.NewReader(body, run.guard.Bounds.MaxEvent), res: run.res}, false)
}

// guardBody wraps a body that is read as a stream: of JSON values, or of server-sent events.
func (run *responseRun) guardBody(from *bodyEvents, values bool) error {
	s, err := run.guardEvents(from, bodytext.AnyEvent, values)
	run.res.Edited()
	run.res.Body = &guardedBody{stream: s, run: run}
	if err != nil {
		return err
	}
	if e, ok := s.err.(*apierr.Error); ok && len(s.ready) == 0 {
		return e
	}
	return nil
}

// bodyReader reads a body event by event.
type bodyReader interface {
	Next() (sse.Event, error)
	More() bool
}

// bodyEvents reads a body as a stream.
type bodyEvents struct {
	bodyReader
	res *exchange.Response
}

func (*bodyEvents) Begun() bool      { return true }
func (*bodyEvents) Comments() []byte { return nil }
func (b *bodyEvents) Pause()         { b.res.Pause() }
func (b *bodyEvents) Resume()        { b.res.Resume() }

// Fail implements [exchange.Stream].
func (*bodyEvents) Fail(dst []byte, client dialect.ClientDialect, e *apierr.Error) []byte {
	return client.ErrorEvent(dst, e)
}

// guardedBody is the body of a guarded stream.
type guardedBody struct {
	stream *guardedStream
	run    *responseRun
	left   []byte
	err    error
}

// Read reads the events that may pass. A denial is the last event.
func (b *guardedBody) Read(p []byte) (int, error) {
	for len(b.left) == 0 {
		if b.err != nil {
			return 0, b.err
		}
		e, err := b.stream.Next()
		var refusal *apierr.Error
		switch {
		case err == nil:
			b.left = bytes.Clone(e.Raw)
		case isDenial(err, &refusal):
			if b.left, b.err = b.run.request.Client.ErrorEvent(nil, refusal), io.EOF; b.stream.values {
				b.left = append(b.run.request.Client.Error(refusal), '\n')
			}
		default:
			b.err = err
		}
	}
	n := copy(p, b.left)
	b.left = b.left[n:]
	return n, nil
}

func isDenial(err error, out **apierr.Error) bool {
	e, ok := err.(*apierr.Error)
	*out = e
	return ok && e.Kind == apierr.Denied
}
