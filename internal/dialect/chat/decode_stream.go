package chat

import (
	"bytes"
	"slices"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
)

// NewDecoder returns a decoder for one streamed response. Many providers leave
// out the terminator: the response is also complete if every choice has a
// finish reason and the bytes end. With the terminator, only choices that call
// tools need a finish reason.
func (Dialect) NewDecoder(r *llm.Request, to dialect.RequestTarget) dialect.StreamDecoder {
	d := newDecoder(r)
	d.noReason = to.Chat != nil && to.Chat.NoReason
	return d
}

func newDecoder(r *llm.Request) *streamDecoder {
	d := &streamDecoder{asked: r, keepExtra: true}
	d.found = d.few[:0]
	return d
}

// streamDecoder reads chunks. It is lenient, since providers of this dialect
// leave fields out, send them empty or null, or name them differently.
type streamDecoder struct {
	asked *llm.Request
	// noReason is true if calls with complete arguments need no finish reason.
	noReason bool

	start     llm.Event
	keepExtra bool // until the first chunk with content
	started   bool
	ended     bool
	counts    counts
	usage     llm.Usage // as last received
	choices   []*choice
	sources   []llm.Citation // of the complete response, as Perplexity sends them

	found []chunkChoice // of the chunk being read
	few   [2]chunkChoice
	fault *llm.ProviderError
}

// Decode appends the events of one chunk.
func (d *streamDecoder) Decode(dst []llm.Event, frame sse.Event) []llm.Event {
	if d.ended || frame.Data == nil {
		return dst
	}
	if len(frame.Data) < 16 && string(bytes.TrimSpace(frame.Data)) == "[DONE]" {
		return d.terminate(dst)
	}
	if string(frame.Type) == "error" {
		d.fault = faultOf(frame.Data)
		return d.fail(dst)
	}
	return d.read(dst, frame.Data)
}

// End implements dialect.StreamDecoder.
func (d *streamDecoder) End(dst []llm.Event) []llm.Event {
	if d.ended || !d.started {
		d.ended = true
		return dst
	}
	finished := len(d.choices) > 0
	for _, c := range d.choices {
		finished = finished && c != nil && c.stopped
	}
	if finished {
		return d.terminate(dst)
	}
	for i, c := range d.choices {
		if c != nil {
			dst = c.close(dst, i)
		}
	}
	d.ended = true
	return dst
}

// terminate ends the response, which the provider has declared complete, unless
// a choice broke off.
func (d *streamDecoder) terminate(dst []llm.Event) []llm.Event {
	if d.ended {
		return dst
	}
	if !slices.ContainsFunc(d.choices, (*choice).hasBegun) {
		d.fault = dialect.NoContentError()
		return d.fail(dst)
	}
	dst = d.begin(dst)
	d.ended = true
	if slices.ContainsFunc(d.choices, (*choice).brokeOff) {
		return dst
	}
	for i, c := range d.choices {
		if c != nil {
			dst = c.finish(dst, i)
		}
	}
	return append(dst, llm.Event{Kind: llm.EventEnd})
}

func (d *streamDecoder) fail(dst []llm.Event) []llm.Event {
	d.ended = true
	return append(dst, llm.Event{Kind: llm.EventError, Fault: d.fault})
}

// begin appends the start before anything else.
func (d *streamDecoder) begin(dst []llm.Event) []llm.Event {
	if d.started {
		return dst
	}
	d.started, d.keepExtra = true, false
	d.start.Kind = llm.EventStart
	return append(dst, d.start)
}

// chunkChoice holds the undecoded members of a choice in one chunk.
type chunkChoice struct {
	index                          int64
	delta, logprobs, reason, usage []byte
	fault                          []byte
	extra                          []llm.Member
}

// read reads one JSON object: a chunk, or a complete response.
func (d *streamDecoder) read(dst []llm.Event, b []byte) []llm.Event {
	c := jsonedit.NewCursor(b)
	if !c.Enter('{') {
		return dst
	}
	d.found = d.found[:0]
	for key, ok := c.Field(); ok; key, ok = c.Field() {
		d.member(c, key)
	}
	if d.fault != nil {
		return d.fail(dst)
	}
	if len(d.found) == 0 && !d.started { // as Azure, which reports on the prompt before the response begins
		if dialect.IsFailure(b) {
			d.fault = faultOf(b)
			return d.fail(dst)
		}
		return dst
	}
	dst = d.begin(dst)
	for i := range d.found {
		dst = d.choice(dst, &d.found[i])
		if d.fault != nil {
			return d.fail(dst)
		}
	}
	if usage := d.counts.usage(true); usage != d.usage {
		d.usage = usage
		dst = append(dst, llm.Event{Kind: llm.EventUsage, Usage: usage})
	}
	return dst
}

func (d *streamDecoder) member(c *jsonedit.Cursor, name []byte) {
	switch string(name) {
	case "choices":
		d.readChoices(c)
	case "id":
		d.head(&d.start.ID, c)
	case "model":
		d.head(&d.start.Model, c)
	case "service_tier":
		d.head(&d.start.ServiceTier, c)
	case "system_fingerprint":
		d.head(&d.start.Fingerprint, c)
	case "created":
		if n, ok := readCount(c); ok && d.start.Created == 0 {
			d.start.Created = seconds(n)
		}
	case "usage":
		d.readUsage(c.Raw())
	case "x_groq": // has the usage of streams
		inner := jsonedit.NewCursor(c.Raw())
		if inner.Enter('{') {
			for key, ok := inner.Field(); ok; key, ok = inner.Field() {
				d.inner(inner, key)
			}
		}
	case "error":
		if raw := c.Raw(); jsonedit.KindOf(raw) != jsonedit.Null && d.fault == nil {
			d.fault = faultOf(raw)
		}
	case "citations":
		d.readSources(c.Raw(), "citations")
	case "object":
		if string(c.Raw()) == `"error"` && d.fault == nil { // vLLM, inside streams
			d.fault = faultOf(c.Bytes())
		}
	case "obfuscation", "p":
		c.Skip() // padding
	default:
		d.other(c, string(name))
	}
}

// seconds converts timestamps that some providers send in milliseconds or
// smaller units.
func seconds(n int64) int64 {
	if n > 1e11 {
		return n / 1000
	}
	return n
}

func (d *streamDecoder) inner(c *jsonedit.Cursor, name []byte) {
	switch string(name) {
	case "usage":
		d.readUsage(c.Raw())
	case "error":
		if raw := c.Raw(); jsonedit.KindOf(raw) != jsonedit.Null && d.fault == nil {
			d.fault = faultOf(raw)
		}
	default:
		c.Skip()
	}
}

// head reads a string member of the response head. Values after the start event
// are ignored.
func (d *streamDecoder) head(into *string, c *jsonedit.Cursor) {
	raw := c.Raw()
	if !d.started && *into == "" {
		*into, _ = unquoted(raw)
	}
}

// other keeps a member that only this dialect has.
func (d *streamDecoder) other(c *jsonedit.Cursor, name string) {
	raw := c.Raw()
	if d.keepExtra && jsonedit.KindOf(raw) != jsonedit.Null && valid(raw) {
		d.start.Extra = append(d.start.Extra, llm.Member{Name: name, Value: bytes.Clone(raw)})
	}
	if name == "search_results" {
		d.readSources(raw, name)
	}
}

func valid(raw []byte) bool {
	_, err := jsonedit.ParseValue(raw)
	return err == nil
}

func (d *streamDecoder) readUsage(raw []byte) {
	d.counts.read(jsonedit.NewCursor(raw))
}

func (d *streamDecoder) readChoices(c *jsonedit.Cursor) {
	if !c.Enter('[') {
		c.Skip()
		return
	}
	for n := int64(0); c.Element(); n++ {
		if !c.Enter('{') {
			c.Skip()
			continue
		}
		found := chunkChoice{index: n}
		for key, ok := c.Field(); ok; key, ok = c.Field() {
			found.member(c, key)
		}
		if !c.Failed() && found.index < maxChoices && len(d.found) < maxChoices {
			d.found = append(d.found, found)
		}
	}
}

func (f *chunkChoice) member(c *jsonedit.Cursor, name []byte) {
	switch string(name) {
	case "index":
		if n, ok := readCount(c); ok {
			f.index = n
		}
	case "delta":
		f.delta = c.Raw()
	case "message":
		if raw := c.Raw(); f.delta == nil { // Perplexity repeats the complete message next to the delta
			f.delta = raw
		}
	case "finish_reason":
		f.reason = c.Raw()
	case "logprobs":
		f.logprobs = c.Raw()
	case "usage": // Moonshot
		f.usage = c.Raw()
	case "error": // OpenRouter
		f.fault = c.Raw()
	default:
		if raw := c.Raw(); !c.Failed() && jsonedit.KindOf(raw) != jsonedit.Null {
			f.extra = append(f.extra, llm.Member{Name: string(name), Value: raw})
		}
	}
}

// choice decodes what a chunk adds to a choice.
func (d *streamDecoder) choice(dst []llm.Event, f *chunkChoice) []llm.Event {
	i := int(f.index)
	for len(d.choices) <= i {
		d.choices = append(d.choices, nil)
	}
	if d.choices[i] == nil {
		d.choices[i] = &choice{d: d, open: noPart}
	}
	c := d.choices[i]
	d.readUsage(f.usage)
	if jsonedit.KindOf(f.fault) == jsonedit.Object && d.fault == nil {
		d.fault = faultOf(f.fault)
		return dst
	}
	if c.finished {
		return dst
	}
	dst = c.delta(dst, i, f)
	for _, m := range f.extra {
		c.keep(m)
	}
	word, ok := unquoted(f.reason)
	if !ok || word == "" { // some send an empty one with every chunk
		return dst
	}
	c.said, c.stopped = word, true
	if c.complete() {
		return c.finish(dst, i)
	}
	return dst
}
