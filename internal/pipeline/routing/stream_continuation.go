package routing

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/format/sse"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/pipeline/framing"
)

// streamContinuation lets later branches of a fallback continue a broken
// stream: the next one gets the conversation with the text so far and is asked
// to continue it. It is an extension of the specification, enabled by
// stream_continuation in a config.
type streamContinuation struct {
	exchange.Stream      // which is being read: that of the first target, or of one that continues it
	joined          bool // an event of it may hold several

	offer *continuationOffer
	trail *exchange.Trail
	rest  []int // remaining branches
	res   *exchange.Response
	now   *exchange.Response // whose stream is being read: res, or a continuation of it
	queue []sse.Event        // events that were joined
	ahead []sse.Event        // the beginning of a continuation, without what it repeats

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
	request *exchange.Request
	client  dialect.StreamContinuer // of the request
	rest    []int
}

// continuation returns the offer for the branch before those in rest, nil if none of
// them can continue a stream of the request.
func (f *fallbackStrategy) continuation(ctx context.Context, r *exchange.Request, rest []int) exchange.Continuer {
	if !f.resumes || r.Operation != api.Chat || r.Received.Doc == nil || len(rest) == 0 || r.Checking.Continued != nil {
		return nil
	}
	client, able := r.Client.(dialect.StreamContinuer)
	if !able {
		return nil
	}
	return &continuationOffer{f, ctx, r, client, rest}
}

// Continue implements [exchange.Continuer].
func (o *continuationOffer) Continue(t *exchange.Trail, res *exchange.Response) {
	res.Events = &streamContinuation{Stream: res.Events, joined: res.Joined, offer: o, trail: t, rest: o.rest, res: res, now: res}
	res.Joined, res.Continued = false, new(exchange.Continuation)
}

// Next returns the next event of the stream, or of another branch's stream if this
// one breaks.
func (c *streamContinuation) Next() (sse.Event, error) {
	if len(c.ahead) > 0 {
		e := c.ahead[0]
		c.ahead = c.ahead[1:]
		return e, nil
	}
	e, err := c.pull()
	if c.now.Cut() {
		return e, err
	}
	seen := c.now.Tap.Info()
	if err == nil && seen.Failed == "" {
		c.record(e)
		return e, nil
	}
	if seen.Finished || seen.Terminated || c.offer.ctx.Err() != nil {
		return e, err
	}
	c.now.Release() // released before another target is called
	marker, ok := c.switchTarget()
	if !ok {
		return e, err
	}
	return marker, nil
}

// pull returns the next event of the stream that is being read, on its own: text is
// continued after the last event that the client has.
func (c *streamContinuation) pull() (sse.Event, error) {
	for len(c.queue) == 0 {
		e, err := c.Stream.Next()
		if err != nil || !c.joined {
			return e, err
		}
		c.queue = framing.Split(e.Raw)
	}
	e := c.queue[0]
	c.queue = c.queue[1:]
	return e, nil
}

// More implements [exchange.Stream].
func (c *streamContinuation) More() bool { return len(c.ahead) > 0 || c.arrived() }

// arrived reports whether pull has another event without waiting.
func (c *streamContinuation) arrived() bool {
	return len(c.queue) > 0 || !c.joined && c.Stream.More()
}

// record stores the text that an event adds to the response.
func (c *streamContinuation) record(e sse.Event) {
	text, plain := c.offer.client.Delta(e.Data)
	c.emitted = append(c.emitted, text...)
	c.blocked = c.blocked || !plain || len(c.emitted) > maxSaid
}

// switchTarget reads the stream of another branch from now on. It returns a comment
// that names the new target.
func (c *streamContinuation) switchTarget() (sse.Event, bool) {
	for len(c.rest) > 0 && !c.blocked {
		b := &c.offer.f.branches[c.rest[0]]
		c.rest = c.rest[1:]
		next, joined, err := c.open(b)
		if err != nil || next.Events == nil || next.Status > 299 {
			why := ""
			if errors.Is(err, exchange.ErrOtherGuardrails) {
				why = ": " + exchange.ErrOtherGuardrails.Error()
			}
			c.trail.Decide(b.path, "could not continue the broken stream%s", why)
			if next != nil {
				next.Close()
			}
			continue
		}
		c.trail.Decide(b.path, "continues the stream that broke after %d bytes of text", len(c.emitted))
		c.take(next, joined)
		c.ahead = c.trimOverlap()
		return sse.Event{Raw: sse.AppendComment(nil, "continued by "+b.path)}, true
	}
	return sse.Event{}, false
}

// open asks a branch to continue. Its attempts count for the request; child has
// its parameter changes.
func (c *streamContinuation) open(b *Branch) (next *exchange.Response, child *exchange.Trail, err error) {
	o := c.offer
	r := *o.request
	r.Checking.Continued = c.res.Continued
	r.Edits = append(slices.Clip(r.Edits), o.client.Continue(r.Received.Doc, string(c.emitted))...)
	child = c.trail.Child()
	next, err = b.Handle(o.ctx, &r, child)
	c.trail.Join(child)
	return next, child, err
}

// take reads the stream of next from now on. Closing the response closes both.
func (c *streamContinuation) take(next *exchange.Response, child *exchange.Trail) {
	c.Stream, c.joined, c.queue, c.now = next.Events, next.Joined, nil, next
	c.res.After = append(c.res.After, next.Close)
	c.res.Source, c.res.Tap, c.res.Attempt = next.Source, next.Tap, next.Attempt
	if before := c.trail.Outcome; before != nil && child.Outcome != nil { // the response has the changes of both
		child.Outcome.Params = slices.Concat(before.Params, child.Outcome.Params)
	}
	c.trail.Follow(child)
}

// overlap is the number of bytes of a continuation that are held back to find
// out whether they repeat the end of the text.
const overlap = 64

// trimOverlap reads the beginning of a continuation and removes what repeats
// the end of the text so far. It returns the events to send to the client
// first.
func (c *streamContinuation) trimOverlap() []sse.Event {
	var held []sse.Event
	var text []byte
	for len(text) < min(overlap, len(c.emitted)) {
		e, err := c.pull()
		if err != nil {
			break // returned again by the next read
		}
		held = append(held, e.Clone())
		added, plain := c.offer.client.Delta(e.Data)
		text = append(text, added...)
		if c.now.Tap.Info().Finished && !c.arrived() || !plain {
			break
		}
	}
	repeated := repeats(c.emitted, text)
	for i := range held {
		if repeated > 0 {
			held[i], repeated = c.withoutPrefix(held[i], repeated)
		}
		c.record(held[i])
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
func (c *streamContinuation) withoutPrefix(e sse.Event, n int) (sse.Event, int) {
	text, _ := c.offer.client.Delta(e.Data)
	if len(text) == 0 {
		return e, n
	}
	cut := min(n, len(text))
	data, ok := c.offer.client.WithDelta(e.Data, text[cut:])
	if !ok {
		return e, 0
	}
	return sse.Event{Raw: sse.AppendData(nil, data), Data: data}, n - cut
}
