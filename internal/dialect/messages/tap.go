package messages

import (
	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
)

// NewTap returns a tap for one response to op.
func (Dialect) NewTap(op api.Operation) dialect.Tap { return &tap{op: op} }

// tap reads a response in a single pass. Once content has arrived, further
// content events are recognised by their name and not parsed.
type tap struct {
	op      api.Operation
	seen    dialect.ResponseInfo
	counts  counts
	answers bool // the response has the members of a message, or an error
}

// Info returns what was read so far.
func (t *tap) Info() *dialect.ResponseInfo {
	t.seen.Usage = t.counts.usage()
	return &t.seen
}

// Body reads a complete response: a message, or a token count.
func (t *tap) Body(b []byte) {
	v, err := jsonedit.ParseValue(b)
	if err != nil || v.Kind() != jsonedit.Object {
		return
	}
	for k, value := range v.Fields() {
		switch {
		case k.Is("content"):
			t.answers = true
			t.seen.Written += llm.TextSize(value.Raw())
			for range value.Elements() {
				t.seen.Begun = true
				break
			}
		case k.Is("input_tokens"): // of a token count, which uses none itself
			t.seen.Begun, t.seen.Finished = true, true
		case k.Is("error"):
			t.fail(value)
		default:
			t.member(k, value)
		}
	}
	t.answers = t.answers || dialect.IsFailure(b)
	t.failWithoutContent()
}

func (t *tap) failWithoutContent() {
	if t.answers && t.op == api.Messages && t.seen.Failed == "" && !t.seen.Begun && !t.seen.Finished {
		t.seen.Failed = dialect.NoContent
	}
}

// member reads a member of a message that streams have too.
func (t *tap) member(k jsonedit.Key, v jsonedit.Value) {
	switch {
	case k.Is("model"):
		if text, ok := v.Text(); ok && t.seen.Model == "" {
			t.seen.Model = text
		}
	case k.Is("stop_reason"):
		if text, ok := v.Text(); ok && text != "" {
			t.seen.Finish, t.seen.Finished = text, true
		}
	case k.Is("usage"):
		t.usage(v)
	}
}

// usage reads counters and how the response was served: the tier, or a speed
// with its own price.
// https://docs.claude.com/en/api/service-tiers
// https://docs.claude.com/en/docs/build-with-claude/fast-mode
func (t *tap) usage(v jsonedit.Value) {
	t.counts.read(v)
	if word, ok := inside(v, "service_tier").TextBytes(); ok {
		t.seen.SetTier(word)
	}
	if speed, ok := inside(v, "speed").TextBytes(); ok && string(speed) == "fast" {
		t.seen.Tier = "fast"
	}
}

func (t *tap) fail(v jsonedit.Value) {
	if v.IsNull() || t.seen.Failed != "" {
		return
	}
	if t.seen.Failed = dialect.ErrorMessage(v.Raw()); t.seen.Failed == "" {
		t.seen.Failed = "the provider reported an error without a message"
	}
}

// Event reads one event of a streamed response.
func (t *tap) Event(ev sse.Event) {
	if t.seen.Begun && silent(ev.Type) || len(ev.Data) == 0 {
		t.seen.Written += max(llm.TextSize(ev.Data)-deltaFrame, 0)
		return
	}
	v, err := jsonedit.ParseValue(ev.Data)
	if err != nil {
		return
	}
	var e event
	e.read(v)
	t.seen.Blank = t.op == api.Messages && !t.answers && string(e.kind) == "ping"
	switch string(e.kind) {
	case "message_start":
		t.answers = true
		t.members(e.message)
	case "content_block_start":
		t.begin(e.block)
	case "content_block_delta":
		t.begun(e.delta)
	case "message_delta":
		t.members(e.delta)
		t.usage(e.usage)
	case "message_stop":
		t.seen.Terminated, t.answers = true, true
		t.failWithoutContent()
	case "error":
		t.fail(e.err)
	}
}

// deltaFrame is the size of a content_block_delta without its text.
// Events without text are no larger than that.
var deltaFrame = llm.TextSize(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""}}`)

// silent reports whether events of that name have nothing to record.
func silent(name []byte) bool {
	switch string(name) {
	case "content_block_delta", "content_block_stop", "ping":
		return true
	}
	return false
}

func (t *tap) members(v jsonedit.Value) {
	for k, value := range v.Fields() {
		t.member(k, value)
	}
}

// begin reads the start of a block. Text follows in deltas; other content is in
// the start event. A fallback block names the model that continues.
func (t *tap) begin(block jsonedit.Value) {
	kind, _ := inside(block, "type").Text()
	switch kind {
	case "text", "thinking":
		t.begun(block)
	case "fallback":
		if model, ok := inside(inside(block, "to"), "model").Text(); ok {
			t.seen.Model = model
		}
	default:
		t.seen.Begun = t.seen.Begun || kind != ""
	}
}

// begun counts text. Content begins with the first.
func (t *tap) begun(v jsonedit.Value) {
	for k, value := range v.Fields() {
		if k.Is("type") {
			continue
		}
		text, ok := value.TextBytes()
		t.seen.Written += llm.TextSize(text)
		t.seen.Begun = t.seen.Begun || ok && len(text) > 0 || value.Kind() == jsonedit.Object
	}
}
