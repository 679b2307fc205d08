package converse

import (
	"bytes"
	"cmp"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
)

// NewTap returns a tap for one response.
func (Dialect) NewTap(api.Operation) dialect.Tap { return &tap{} }

// tap reads responses that pass through. Responses of this dialect do not name
// their model.
type tap struct {
	seen     dialect.ResponseInfo
	metadata bool // the event was read
}

// Info returns what was read so far.
func (t *tap) Info() *dialect.ResponseInfo { return &t.seen }

// Body reads a complete response.
func (t *tap) Body(b []byte) {
	v, err := jsonedit.ParseValue(b)
	if err != nil {
		return
	}
	output, ok := v.Get("output")
	if _, counts := v.Get("inputTokens"); !ok && !counts { // counts uses no tokens itself
		t.fail(b)
		return
	}
	t.seen.Finish = v.TextOf("stopReason")
	t.seen.Begun, t.seen.Finished = output.Kind() == jsonedit.Object, t.seen.Finish != ""
	t.seen.Written = llm.TextSize(output.Raw())
	t.usage(v)
	if ok && !t.seen.Begun && !t.seen.Finished {
		t.seen.Failed = dialect.NoContent
	}
}

// Event reads one message of a streamed response. Text messages, the majority,
// are not parsed.
func (t *tap) Event(e sse.Event) {
	switch string(e.Type) {
	case "contentBlockDelta":
		t.seen.Begun = true
		t.seen.Written += textSize(e.Data)
	case "contentBlockStart":
		t.seen.Begun = true
	case "messageStop":
		if v, err := jsonedit.ParseValue(e.Data); err == nil {
			t.seen.Finish = v.TextOf("stopReason")
		}
		t.seen.Finished, t.seen.Terminated = true, t.metadata
	case "metadata":
		if v, err := jsonedit.ParseValue(e.Data); err == nil {
			t.usage(v)
		}
		t.metadata = true
		t.seen.Terminated = t.seen.Finished // some proxies send messageStop last
	case "messageStart", "contentBlockStop", "":
	default:
		if isFault(e.Type) {
			t.fail(e.Data)
		}
	}
}

// textSize returns the approximate size of the text in a
// contentBlockDelta. Its padding follows in the member p.
func textSize(data []byte) int64 {
	_, delta, _ := bytes.Cut(data, []byte(`"delta":{`))
	if i := bytes.LastIndex(delta, []byte(`},"p":"`)); i >= 0 {
		delta = delta[:i]
	}
	return max(llm.TextSize(delta)-textFrame, 0)
}

// textFrame is the size of the member of a text in a delta without the text.
var textFrame = llm.TextSize(`"text":""`)

func (t *tap) fail(b []byte) {
	if t.seen.Failed == "" {
		t.seen.Failed = cmp.Or(dialect.ErrorMessage(b), "the provider reported an error without a message")
	}
}

func (t *tap) usage(v jsonedit.Value) {
	if member, ok := v.Get("usage"); ok {
		t.seen.Usage = t.seen.Usage.Larger(usageOf(member))
	}
	if tier, ok := v.Get("serviceTier"); ok {
		kind, _ := tier.Get("type")
		if word, ok := kind.TextBytes(); ok {
			t.seen.SetTier(word)
		}
	}
}
