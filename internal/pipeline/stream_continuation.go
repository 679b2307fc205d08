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
	f    *fallbackStrategy
	ctx  context.Context
	x    *Exchange
	rest []int // branches that are left
	res  *Response
	now  *Response // whose stream is read: res, or what goes on with it

	emitted []byte // text of the answer so far
	// blocked is true once the answer holds what can't be continued in words:
	// tool calls, several choices, or more text than is kept.
	blocked bool
}

// maxSaid bounds the text kept for a continuation, in bytes.
const maxSaid = 1 << 20

// continued makes a stream one that the branches in rest may go on with.
func (f *fallbackStrategy) continued(ctx context.Context, x *Exchange, res *Response, rest []int) {
	wanted := f.resumes && x.Operation == api.Chat && x.Doc != nil && len(rest) > 0
	_, able := x.Client.(dialect.StreamContinuer)
	if !wanted || !able || res == nil || res.Events == nil {
		return
	}
	r := &streamContinuation{f: f, ctx: ctx, x: x, rest: rest, res: res, now: res}
	s := res.Events
	s.resume = r
	s.part()
}

// record keeps what an event adds to the answer.
func (r *streamContinuation) record(c dialect.StreamContinuer, e sse.Event) {
	text, plain := c.Delta(e.Data)
	r.emitted = append(r.emitted, text...)
	r.blocked = r.blocked || !plain || len(r.emitted) > maxSaid
}

// next returns the next event of the stream, of a further branch's stream when
// this one breaks.
func (r *streamContinuation) next(s *Events) (sse.Event, error) {
	e, err := s.pull()
	c := r.x.Client.(dialect.StreamContinuer)
	if err == nil && s.tap.Info().Failed == "" {
		r.record(c, e)
		return e, nil
	}
	seen := s.tap.Info()
	if seen.Finished || seen.Terminated || r.ctx.Err() != nil {
		return e, err
	}
	r.now.release() // before another target is asked
	marker, ok := r.switchTarget(s, c)
	if !ok {
		return e, err
	}
	return marker, nil
}

// switchTarget opens the stream of a further branch in place of s. It returns a comment
// that tells where the stream goes on.
func (r *streamContinuation) switchTarget(s *Events, c dialect.StreamContinuer) (sse.Event, bool) {
	for len(r.rest) > 0 && !r.blocked {
		b := &r.f.branches[r.rest[0]]
		r.rest = r.rest[1:]
		next, joined, err := r.open(b, c)
		if err != nil || next.Events == nil || next.Status > 299 {
			r.x.recordDecision(b.path, "could not continue the broken stream")
			if next != nil {
				next.Close()
			}
			continue
		}
		r.x.recordDecision(b.path, "continues the stream that broke after %d bytes of text", len(r.emitted))
		r.take(s, next, joined)
		s.ahead = r.trimOverlap(s, c)
		return sse.Event{Raw: sse.AppendComment(nil, "continued by "+b.path)}, true
	}
	return sse.Event{}, false
}

// open asks a branch to continue. joined takes its attempts into the record.
func (r *streamContinuation) open(b *branch, c dialect.StreamContinuer) (next *Response, joined *Exchange, err error) {
	child := r.x.fork()
	child.Edits = append(child.Edits, c.Continue(r.x.Doc, string(r.emitted))...)
	next, err = b.Handle(r.ctx, child)
	e := r.x.Entry
	e.Attempts = append(e.Attempts, child.Entry.Attempts...)
	r.x.Decisions = append(r.x.Decisions, child.Decisions...)
	return next, child, err
}

// take puts the streams of next instead of those of s. Closing the answer
// closes both.
func (r *streamContinuation) take(s *Events, next *Response, child *Exchange) {
	n := next.Events
	s.reader, s.tap, s.hider, s.watch, s.fail = n.reader, n.tap, n.hider, n.watch, n.fail
	s.primed, s.first = n.primed, n.first
	r.res.translation = next.translation
	s.part()
	r.res.after = append(r.res.after, next.Close)
	r.now = next
	r.res.Tap, r.res.Target = next.Tap, next.Target
	r.x.UpstreamModel, r.x.Params = child.UpstreamModel, append(slices.Clip(r.x.Params), child.Params...)
	for _, n := range child.Notes {
		r.x.note(n)
	}
	e := r.x.Entry
	e.Provider, e.Slug, e.OptionIndex, e.Prompt = child.Entry.Provider, child.Entry.Slug, child.Entry.OptionIndex, child.Entry.Prompt
}

// overlap is how much of a continuation is held back to see whether it repeats
// the end of what was said, in bytes.
const overlap = 64

// trimOverlap reads the begin of a continuation and drops from it what repeats the
// end of what was said. The events returned go to the client first.
func (r *streamContinuation) trimOverlap(s *Events, c dialect.StreamContinuer) []sse.Event {
	var held []sse.Event
	var text []byte
	for len(text) < min(overlap, len(r.emitted)) {
		e, err := s.pull()
		if err != nil {
			break // told again by the next read
		}
		held = append(held, clone(e))
		added, plain := c.Delta(e.Data)
		text = append(text, added...)
		if s.tap.Info().Finished && !s.reader.More() || !plain {
			break
		}
	}
	repeated := repeats(r.emitted, text)
	for i := range held {
		if repeated > 0 {
			held[i], repeated = r.without(held[i], c, repeated)
		}
		r.record(c, held[i])
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
func (r *streamContinuation) without(e sse.Event, c dialect.StreamContinuer, n int) (sse.Event, int) {
	text, _ := c.Delta(e.Data)
	if len(text) == 0 {
		return e, n
	}
	cut := min(n, len(text))
	data, ok := c.WithDelta(e.Data, text[cut:])
	if !ok {
		return e, 0
	}
	return sse.Event{Raw: sse.AppendData(nil, data), Data: data}, n - cut
}

// part makes a translated stream give out frame by frame, the first event too.
func (s *Events) part() {
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
