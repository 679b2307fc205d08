package pipeline

import (
	"bytes"
	"context"
	"slices"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/sse"
)

// streamContinuation lets the branches after the one that answers go on with a stream that
// broke: the next one gets the conversation with what was said so far and is
// asked to continue it. It is an extension of the specification, off unless a
// config asks with stream_continuation.
type streamContinuation struct {
	f       *fallbackStrategy
	ctx     context.Context
	request *Request
	trail   *Trail
	rest    []int // branches that are left
	res     *Response
	now     *Response // whose stream is read: res, or what goes on with it

	emitted []byte // text of the answer so far
	// blocked is true once the answer holds what can't be continued in words:
	// tool calls, several choices, or more text than is kept.
	blocked bool
}

// maxSaid bounds the text kept for a continuation, in bytes.
const maxSaid = 1 << 20

// continued makes a stream one that the branches in rest may go on with.
func (f *fallbackStrategy) continued(ctx context.Context, r *Request, t *Trail, res *Response, rest []int) {
	wanted := f.resumes && r.Operation == api.Chat && r.Doc != nil && len(rest) > 0
	_, able := r.Client.(dialect.StreamContinuer)
	if !wanted || !able || res == nil {
		return
	}
	s, ok := res.Events.(*eventStream)
	if !ok {
		return
	}
	s.resume = &streamContinuation{f: f, ctx: ctx, request: r, trail: t, rest: rest, res: res, now: res}
	s.part()
}

// record keeps what an event adds to the answer.
func (c *streamContinuation) record(d dialect.StreamContinuer, e sse.Event) {
	text, plain := d.Delta(e.Data)
	c.emitted = append(c.emitted, text...)
	c.blocked = c.blocked || !plain || len(c.emitted) > maxSaid
}

// next returns the next event of the stream, of a further branch's stream when
// this one breaks.
func (c *streamContinuation) next(s *eventStream) (sse.Event, error) {
	e, err := s.pull()
	d := c.request.Client.(dialect.StreamContinuer)
	if err == nil && s.tap.Info().Failed == "" {
		c.record(d, e)
		return e, nil
	}
	seen := s.tap.Info()
	if seen.Finished || seen.Terminated || c.ctx.Err() != nil {
		return e, err
	}
	c.now.release() // before another target is asked
	marker, ok := c.switchTarget(s, d)
	if !ok {
		return e, err
	}
	return marker, nil
}

// switchTarget opens the stream of a further branch in place of s. It returns a comment
// that tells where the stream goes on.
func (c *streamContinuation) switchTarget(s *eventStream, d dialect.StreamContinuer) (sse.Event, bool) {
	for len(c.rest) > 0 && !c.blocked {
		b := &c.f.branches[c.rest[0]]
		c.rest = c.rest[1:]
		next, joined, err := c.open(b, d)
		if err != nil || next.Events == nil || next.Status > 299 {
			c.trail.decide(b.path, "could not continue the broken stream")
			if next != nil {
				next.Close()
			}
			continue
		}
		c.trail.decide(b.path, "continues the stream that broke after %d bytes of text", len(c.emitted))
		c.take(s, next, joined)
		s.ahead = c.trimOverlap(s, d)
		return sse.Event{Raw: sse.AppendComment(nil, "continued by "+b.path)}, true
	}
	return sse.Event{}, false
}

// open asks a branch to continue. Its attempts are those of the request too; the
// child has what it adapted.
func (c *streamContinuation) open(b *branch, d dialect.StreamContinuer) (next *Response, child *Trail, err error) {
	r := *c.request
	r.Edits = append(slices.Clip(r.Edits), d.Continue(r.Doc, string(c.emitted))...)
	child = c.trail.child()
	next, err = b.Handle(c.ctx, &r, child)
	c.trail.Join(child)
	return next, child, err
}

// take puts the streams of next instead of those of s. Closing the response closes
// both.
func (c *streamContinuation) take(s *eventStream, next *Response, child *Trail) {
	n := next.Events.(*eventStream)
	s.reader, s.tap, s.hider, s.watch, s.fail = n.reader, n.tap, n.hider, n.watch, n.fail
	s.primed, s.first = n.primed, n.first
	c.res.translation = next.translation
	s.part()
	c.res.after = append(c.res.after, next.Close)
	c.now = next
	c.res.Tap, c.res.Attempt = next.Tap, next.Attempt
	if before := c.trail.Outcome; before != nil && child.Outcome != nil { // the response has what both adapted
		child.Outcome.Params = slices.Concat(before.Params, child.Outcome.Params)
	}
	c.trail.follow(child)
}

// overlap is how much of a continuation is held back to see whether it repeats
// the end of what was said, in bytes.
const overlap = 64

// trimOverlap reads the begin of a continuation and drops from it what repeats the
// end of what was said. The events returned go to the client first.
func (c *streamContinuation) trimOverlap(s *eventStream, d dialect.StreamContinuer) []sse.Event {
	var held []sse.Event
	var text []byte
	for len(text) < min(overlap, len(c.emitted)) {
		e, err := s.pull()
		if err != nil {
			break // told again by the next read
		}
		held = append(held, clone(e))
		added, plain := d.Delta(e.Data)
		text = append(text, added...)
		if s.tap.Info().Finished && !s.reader.More() || !plain {
			break
		}
	}
	repeated := repeats(c.emitted, text)
	for i := range held {
		if repeated > 0 {
			held[i], repeated = c.without(held[i], d, repeated)
		}
		c.record(d, held[i])
	}
	return held
}

// repeats returns how many bytes at the begin of text are at the end of
// said. Short matches are chance.
func repeats(said, text []byte) int {
	const chance = 8
	for n := min(len(said), len(text)); n >= min(chance, len(said)) && n > 0; n-- {
		if bytes.HasSuffix(said, text[:n]) {
			return n
		}
	}
	return 0
}

// without takes the first n bytes of text out of an event.
func (c *streamContinuation) without(e sse.Event, d dialect.StreamContinuer, n int) (sse.Event, int) {
	text, _ := d.Delta(e.Data)
	if len(text) == 0 {
		return e, n
	}
	cut := min(n, len(text))
	data, ok := d.WithDelta(e.Data, text[cut:])
	if !ok {
		return e, 0
	}
	return sse.Event{Raw: sse.AppendData(nil, data), Data: data}, n - cut
}

// part makes a translated stream give out frame by frame, the first event too.
func (s *eventStream) part() {
	switch r := s.reader.(type) {
	case *replay:
		var list replay
		for _, e := range *r {
			list = append(list, split(e.Raw)...)
		}
		*r = list
	case *translation:
		r.parted = true
		if frames := split(s.first.Raw); s.primed && len(frames) > 0 {
			s.first = frames[0]
			r.queue = append(frames[1:], r.queue...)
		}
	}
}

func clone(e sse.Event) sse.Event {
	e.Raw, e.Data = slices.Clone(e.Raw), slices.Clone(e.Data)
	return e
}
