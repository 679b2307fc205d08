package pipeline

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/format/sse"
	"modelgate/internal/guardrail"
)

// streamContinuation lets later branches of a fallback continue a broken
// stream: the next one gets the conversation with the text so far and is asked
// to continue it. It is an extension of the specification, enabled by
// stream_continuation in a config.
type streamContinuation struct {
	f       *fallbackStrategy
	ctx     context.Context
	request *Request
	trail   *Trail
	rest    []int // remaining branches
	res     *Response
	now     *Response         // whose stream is being read: res, or a continuation of it
	hooks   []*guardrail.Hook // check the stream, continuations included

	emitted []byte // text of the response so far
	// blocked is true once the response has something that cannot be continued
	// as text: tool calls, several choices, or too much text.
	blocked bool
}

// maxSaid is the limit in bytes of the text stored for a continuation.
const maxSaid = 1 << 20

// continuationOffer allows the branches in rest to continue the stream of a branch
// before them.
type continuationOffer struct {
	f       *fallbackStrategy
	ctx     context.Context
	request *Request
	rest    []int
}

// continuation returns the offer for the branch before those in rest, nil if none of
// them can continue a stream of the request.
func (f *fallbackStrategy) continuation(ctx context.Context, r *Request, rest []int) *continuationOffer {
	if !f.resumes || r.Operation != api.Chat || r.Doc == nil || len(rest) == 0 {
		return nil
	}
	if _, able := r.Client.(dialect.StreamContinuer); !able {
		return nil
	}
	return &continuationOffer{f, ctx, r, rest}
}

// allowContinuation allows the branches of the innermost offer to continue the stream of
// res. It must be called before anything of the stream is read.
func (t *Trail) allowContinuation(res *Response) {
	o := t.continuation
	if o == nil || res == nil {
		return
	}
	s, _ := res.Events.(*eventStream)
	if s == nil || s.resume != nil {
		return
	}
	s.resume = &streamContinuation{f: o.f, ctx: o.ctx, request: o.request, trail: t, rest: o.rest, res: res, now: res}
	s.part()
}

var errOtherGuardrails = errors.New("the target has other guardrails than the stream")

// passes reports whether the hooks of a stream are all that a target has which is to
// continue it. The target's own would not see the beginning.
func (c *streamContinuation) passes(hooks []*guardrail.Hook) bool {
	for _, h := range hooks {
		if !slices.Contains(c.hooks, h) {
			return false
		}
	}
	return true
}

// record stores the text that an event adds to the response.
func (c *streamContinuation) record(d dialect.StreamContinuer, e sse.Event) {
	text, plain := d.Delta(e.Data)
	c.emitted = append(c.emitted, text...)
	c.blocked = c.blocked || !plain || len(c.emitted) > maxSaid
}

// next returns the next event of the stream, or of another branch's stream if
// this one breaks.
func (c *streamContinuation) next(s *eventStream) (sse.Event, error) {
	e, err := s.pull()
	if c.now.Cut() {
		c.res.cut = c.now.cut
		return e, err
	}
	d := c.request.Client.(dialect.StreamContinuer)
	if err == nil && s.tap.Info().Failed == "" {
		c.record(d, e)
		return e, nil
	}
	seen := s.tap.Info()
	if seen.Finished || seen.Terminated || c.ctx.Err() != nil {
		return e, err
	}
	c.now.release() // released before another target is called
	marker, ok := c.switchTarget(s, d)
	if !ok {
		return e, err
	}
	return marker, nil
}

// switchTarget replaces s by the stream of another branch. It returns a comment
// that names the new target.
func (c *streamContinuation) switchTarget(s *eventStream, d dialect.StreamContinuer) (sse.Event, bool) {
	for len(c.rest) > 0 && !c.blocked {
		b := &c.f.branches[c.rest[0]]
		c.rest = c.rest[1:]
		next, joined, err := c.open(b, d)
		if err != nil || next.Events == nil || next.Status > 299 {
			why := ""
			if errors.Is(err, errOtherGuardrails) {
				why = ": " + errOtherGuardrails.Error()
			}
			c.trail.decide(b.path, "could not continue the broken stream%s", why)
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

// open asks a branch to continue. Its attempts count for the request; child has
// its parameter changes.
func (c *streamContinuation) open(b *branch, d dialect.StreamContinuer) (next *Response, child *Trail, err error) {
	r := *c.request
	r.continued = c
	r.Edits = append(slices.Clip(r.Edits), d.Continue(r.Doc, string(c.emitted))...)
	child = c.trail.child()
	next, err = b.Handle(c.ctx, &r, child)
	c.trail.join(child)
	return next, child, err
}

// take replaces the streams of s by those of next. Closing the response closes
// both.
func (c *streamContinuation) take(s *eventStream, next *Response, child *Trail) {
	n := next.source()
	s.reader, s.tap, s.hider, s.renamer, s.watch, s.fail = n.reader, n.tap, n.hider, n.renamer, n.watch, n.fail
	s.primed, s.first, s.meter = n.primed, n.first, n.meter
	c.res.translation, c.res.shared = next.translation, next.shared
	s.part()
	c.res.after = append(c.res.after, next.Close)
	c.now = next
	c.res.Tap, c.res.Attempt = next.Tap, next.Attempt
	if before := c.trail.Outcome; before != nil && child.Outcome != nil { // the response has the changes of both
		child.Outcome.Params = slices.Concat(before.Params, child.Outcome.Params)
	}
	c.trail.follow(child)
}

// overlap is the number of bytes of a continuation that are held back to find
// out whether they repeat the end of the text.
const overlap = 64

// trimOverlap reads the beginning of a continuation and removes what repeats
// the end of the text so far. It returns the events to send to the client
// first.
func (c *streamContinuation) trimOverlap(s *eventStream, d dialect.StreamContinuer) []sse.Event {
	var held []sse.Event
	var text []byte
	for len(text) < min(overlap, len(c.emitted)) {
		e, err := s.pull()
		if err != nil {
			break // returned again by the next read
		}
		held = append(held, e.Clone())
		added, plain := d.Delta(e.Data)
		text = append(text, added...)
		if s.tap.Info().Finished && !s.reader.More() || !plain {
			break
		}
	}
	repeated := repeats(c.emitted, text)
	for i := range held {
		if repeated > 0 {
			held[i], repeated = c.withoutPrefix(held[i], d, repeated)
		}
		c.record(d, held[i])
	}
	return held
}

// repeats returns the length of the longest prefix of text that is a suffix of
// said. Short matches are coincidence.
func repeats(said, text []byte) int {
	const chance = 8
	for n := min(len(said), len(text)); n >= min(chance, len(said)) && n > 0; n-- {
		if bytes.HasSuffix(said, text[:n]) {
			return n
		}
	}
	return 0
}

// withoutPrefix removes the first n bytes of text from an event.
func (c *streamContinuation) withoutPrefix(e sse.Event, d dialect.StreamContinuer, n int) (sse.Event, int) {
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

// part makes a translated stream return single frames, including the first
// event.
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
