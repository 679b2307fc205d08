package messages

import (
	"bytes"
	"encoding/base64"
	"slices"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/format/eventstream"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
)

// Invoke is the dialect for clients of Bedrock's InvokeModel: the model and
// streaming are set in the path, and each stream event is in a binary message.
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InvokeModelWithResponseStream.html
type Invoke struct {
	Dialect
	// Outer is the dialect of Bedrock's other operations, which defines errors.
	Outer dialect.ClientDialect
}

var _ dialect.ClientDialect = Invoke{}

// Headers returns nil: beta features are in the body.
func (Invoke) Headers() []string { return nil }

// ContentType returns the type of binary event streams.
func (Invoke) ContentType() string { return eventstream.ContentType }

// ModelField returns the field of the inner dialect. Bedrock itself never
// repeats the requested id, so clients do not rely on it.
func (Invoke) ModelField() dialect.ModelField {
	f := modelField
	f.Default = api.ModelServed
	return f
}

// Terminator returns nil: the last event is the end.
func (Invoke) Terminator() []byte { return nil }

// Check accepts every body: DecodeRequest and Bedrock check them.
func (Invoke) Check(api.Operation, *jsonedit.Doc) *apierr.Error { return nil }

// Error returns the body of e for a response that has not begun.
func (i Invoke) Error(e *apierr.Error) []byte { return i.Outer.Error(e) }

// ErrorEvent appends e as an exception, which ends the stream.
func (i Invoke) ErrorEvent(dst []byte, e *apierr.Error) []byte { return i.Outer.ErrorEvent(dst, e) }

// ProviderError appends the response to a provider's error.
func (i Invoke) ProviderError(dst, body []byte, provider string, status int) []byte {
	return i.Outer.ProviderError(dst, body, provider, status)
}

// DecodeRequest reads a client's request, which must be one of the dialect.
func (Invoke) DecodeRequest(body []byte) (*llm.Request, error) {
	var doc jsonedit.Doc
	if err := doc.Scan(body); err != nil {
		return nil, dialect.Invalid("body", dialect.CodeType, "%v", err)
	}
	if err := invokeBody.CheckInOrder(&doc).Error(": "); err != nil {
		return nil, err
	}
	r, err := Dialect{}.DecodeRequest(body)
	if err == nil { // of the InvokeModel body
		r.Extra = slices.DeleteFunc(r.Extra, func(m llm.Member) bool { return m.Name == "anthropic_version" })
	}
	return r, err
}

// NewTap returns a tap for one response to op.
func (i Invoke) NewTap(op api.Operation) dialect.Tap {
	return &chunkTap{Tap: i.Dialect.NewTap(op), outer: i.Outer.NewTap(op)}
}

// chunkTap passes the events inside binary messages to the dialect's tap, and
// exceptions to the outer dialect's.
type chunkTap struct {
	dialect.Tap
	outer dialect.Tap
	data  []byte // reused
}

// Event reads one message of a streamed response.
func (t *chunkTap) Event(e sse.Event) {
	inner, wrapped := unwrapChunk(e, &t.data)
	switch {
	case !wrapped:
		t.outer.Event(e)
	case inner.Data != nil:
		t.Tap.Event(inner)
	}
}

// unwrapChunk returns the event inside a binary message, empty if it is
// unreadable. It returns false if the message has none. The memory of data is
// reused.
func unwrapChunk(e sse.Event, data *[]byte) (inner sse.Event, wrapped bool) {
	v, err := jsonedit.ParseValue(e.Data)
	if err != nil {
		return inner, true
	}
	part, ok := v.Get("bytes")
	if !ok {
		return inner, false
	}
	text, _ := part.TextBytes()
	if *data, err = base64.StdEncoding.AppendDecode((*data)[:0], text); err != nil {
		return inner, true
	}
	if v, err = jsonedit.ParseValue(*data); err != nil {
		return inner, true
	}
	kind, _ := v.Get("type")
	typ, _ := kind.TextBytes()
	return sse.Event{Type: typ, Data: *data}, true
}

// NewCutter returns a cutter for one response.
func (Invoke) NewCutter(*jsonedit.Doc) dialect.StreamCutter { return new(chunkCutter) }

// chunkCutter ends streams of binary messages.
type chunkCutter struct {
	cutter
	data []byte // reused
}

// Read reads a message that the client receives.
func (c *chunkCutter) Read(e sse.Event) int {
	if inner, ok := unwrapChunk(e, &c.data); ok {
		c.cutter.Read(inner)
	}
	return 0
}

// Cut appends the messages that end the stream.
func (c *chunkCutter) Cut(dst []byte, u llm.Usage) []byte {
	e := chunkEncoder{frames: c.cutter.Cut(nil, u)}
	e.inner.ended, e.inner.usage = true, u
	return e.wrap(dst)
}

// Info returns what was read so far.
func (t *chunkTap) Info() *dialect.ResponseInfo {
	seen := t.Tap.Info()
	if seen.Failed == "" {
		seen.Failed = t.outer.Info().Failed
	}
	return seen
}

// NewEncoder returns an encoder for one streamed response.
func (i Invoke) NewEncoder(to dialect.ResponseTarget) dialect.StreamEncoder {
	return &chunkEncoder{inner: streamEncoder{to: to}, outer: i.Outer}
}

// chunkEncoder wraps the events of the dialect in binary messages.
type chunkEncoder struct {
	inner  streamEncoder
	outer  dialect.ClientDialect
	frames []byte // reused
	failed bool
}

// Encode appends the messages for an event.
func (c *chunkEncoder) Encode(dst []byte, ev *llm.Event) []byte {
	if c.failed {
		return dst
	}
	if ev.Kind == llm.EventError {
		c.failed = true
		return c.outer.ErrorEvent(dst, apierr.New(apierr.UpstreamFailed, "%s", ev.Fault.Message))
	}
	c.frames = c.inner.Encode(c.frames[:0], ev)
	return c.wrap(dst)
}

// wrap appends the messages for the frames.
func (c *chunkEncoder) wrap(dst []byte) []byte {
	for frame := range bytes.SplitSeq(c.frames, []byte("\n\n")) {
		if _, data, ok := bytes.Cut(frame, []byte("\ndata: ")); ok {
			dst = c.chunk(dst, data)
		}
	}
	return dst
}

// metrics is the member of the last event with the usage.
const metrics = "amazon-bedrock-invocationMetrics"

// chunk appends one event of the dialect as a message.
func (c *chunkEncoder) chunk(dst, data []byte) []byte {
	if c.inner.ended {
		var doc jsonedit.Doc
		if doc.Scan(data) == nil {
			if kind, _ := doc.Find("type"); string(kind.Raw()) == `"message_stop"` {
				data = doc.Apply(nil, jsonedit.Edit{Name: metrics, Value: metricsOf(&c.inner.usage)})
			}
		}
	}
	b := jsonedit.Append(nil)
	b.Open('{')
	b.Name("bytes")
	b.String(base64.StdEncoding.EncodeToString(data))
	b.Close('}')
	return eventstream.Append(dst, []eventstream.Header{
		{Name: ":event-type", Text: "chunk"},
		{Name: ":content-type", Text: "application/json"},
		{Name: ":message-type", Text: "event"},
	}, b.Bytes())
}

func metricsOf(u *llm.Usage) []byte {
	b := jsonedit.Append(nil)
	b.Open('{')
	b.Name("inputTokenCount")
	b.Int(u.Input)
	b.Name("outputTokenCount")
	b.Int(u.Output)
	b.Close('}')
	return b.Bytes()
}
