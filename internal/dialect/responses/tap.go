package responses

import (
	"bytes"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
)

// NewTap returns a tap for one response to op.
func (Dialect) NewTap(op api.Operation) dialect.Tap { return &tap{op: op} }

// tap reads responses of this dialect. It reads only the type of most events.
type tap struct {
	op     api.Operation
	seen   dialect.ResponseInfo
	doc    jsonedit.Doc
	events int64 // so far; they are numbered from 0
}

var _ dialect.NumberingTap = (*tap)(nil)

// ErrorEvent implements dialect.NumberingTap.
func (t *tap) ErrorEvent(dst []byte, e *apierr.Error) []byte {
	return Dialect{}.NumberedErrorEvent(dst, e, t.events)
}

// Info returns what was read so far.
func (t *tap) Info() *dialect.ResponseInfo { return &t.seen }

// Body reads a complete response.
func (t *tap) Body(b []byte) {
	if t.doc.Scan(b) != nil {
		return
	}
	if e, ok := t.doc.Find("error"); ok && !e.IsNull() {
		t.fail(e)
	}
	if o, ok := t.doc.Find("object"); ok && string(o.Raw()) == `"error"` { // vLLM
		t.failEvent(b)
	}
	t.response(func(name string) jsonedit.Value { v, _ := t.doc.Find(name); return v })
	if v, ok := t.doc.Find("output"); ok {
		t.seen.Written = llm.TextSize(v.Raw())
		for range v.Elements() {
			t.seen.Begun = true
			break
		}
	}
	if t.op == api.Responses && !t.seen.Begun && dialect.IsFailure(b) {
		t.failEvent(b)
	}
	t.doc.Reset()
}

// Event reads one event of a streamed response.
func (t *tap) Event(e sse.Event) {
	if len(e.Data) > 0 {
		t.events++
	}
	if t.skips(e.Type) {
		t.seen.Written += deltaSize(e.Data)
		return
	}
	if len(e.Data) == 0 || t.doc.Scan(e.Data) != nil {
		return
	}
	defer t.doc.Reset()
	typ := ""
	if v, ok := t.doc.Find("type"); ok {
		typ, _ = v.Text()
	}
	switch typ {
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		t.inner()
		t.seen.Finished, t.seen.Terminated = true, true
	case "response.created":
		t.inner()
	case "error":
		t.failEvent(e.Data)
	case "":
		v, ok := t.doc.Find("error")
		if ok && !v.IsNull() || t.op == api.Responses && t.events == 1 && dialect.IsFailure(e.Data) {
			t.failEvent(e.Data)
		}
	default:
		if o, ok := t.doc.Find("object"); ok && string(o.Raw()) == `"error"` { // vLLM
			t.failEvent(e.Data)
		}
		t.seen.Begun = t.seen.Begun || brings(typ)
		t.seen.Written += deltaSize(e.Data)
	}
}

// deltaSize returns the size of the string in an event's member delta, zero
// if it has none.
func deltaSize(data []byte) int64 {
	_, text, ok := bytes.Cut(data, []byte(`"delta":`))
	if text = bytes.TrimLeft(text, " "); !ok || len(text) == 0 || text[0] != '"' {
		return 0
	}
	text = text[1:]
	for i := 0; ; i++ {
		n := bytes.IndexByte(text[i:], '"')
		if n < 0 {
			return 0
		}
		if i += n; i == 0 || text[i-1] != '\\' {
			return llm.TextSize(text[:i])
		}
	}
}

// skips reports whether an event of this type has nothing new.
func (t *tap) skips(typ []byte) bool {
	if !t.seen.Begun {
		return false
	}
	return bytes.HasPrefix(typ, deltaPrefix) || bytes.HasSuffix(typ, deltaSuffix)
}

var (
	deltaPrefix = []byte("response.output_")
	deltaSuffix = []byte(".delta")
)

// brings reports whether an event of this type has content of the response.
func brings(typ string) bool {
	return strings.HasSuffix(typ, ".delta") || strings.HasPrefix(typ, "response.output_item.") ||
		strings.HasPrefix(typ, "response.content_part.")
}

func (t *tap) failEvent(data []byte) {
	if t.seen.Failed == "" {
		t.seen.Failed = failure(data)
	}
}

func (t *tap) fail(e jsonedit.Value) {
	if t.seen.Failed == "" {
		t.seen.Failed = failure(e.Raw())
	}
}

// failure returns the message of an error value, or of an event that is one.
func failure(b []byte) string {
	if text := dialect.ErrorMessage(b); text != "" {
		return text
	}
	return "the provider reported an error without a message"
}

// inner reads the response inside an event.
func (t *tap) inner() {
	v, ok := t.doc.Find("response")
	if !ok {
		return
	}
	r := fields{}
	r.read(v)
	if r.failed.Kind() == jsonedit.Object {
		t.fail(r.failed)
	}
	t.take(&r)
}

func (t *tap) response(find func(string) jsonedit.Value) {
	t.take(&fields{
		model: find("model"), status: find("status"), incomplete: find("incomplete_details"), usage: find("usage"), tier: find("service_tier"),
	})
	t.seen.Finished = t.seen.Finish != ""
}

// fields holds the members of a response that are recorded.
type fields struct {
	model, status, incomplete, usage, failed, tier jsonedit.Value
}

func (f *fields) read(v jsonedit.Value) {
	for key, m := range v.Fields() {
		switch {
		case key.Is("model"):
			f.model = m
		case key.Is("status"):
			f.status = m
		case key.Is("incomplete_details"):
			f.incomplete = m
		case key.Is("usage"):
			f.usage = m
		case key.Is("service_tier"):
			f.tier = m
		case key.Is("error"):
			f.failed = m
		}
	}
}

func (t *tap) take(f *fields) {
	if model, ok := f.model.Text(); ok && t.seen.Model == "" {
		t.seen.Model = model
	}
	if word, ok := f.tier.TextBytes(); ok {
		t.seen.SetTier(word)
	}
	t.seen.Usage = t.seen.Usage.Larger(readUsage(f.usage))
	switch status, _ := f.status.Text(); status {
	case "", "in_progress", "queued":
	case "incomplete":
		t.seen.Finish = status
		if v, ok := f.incomplete.Get("reason"); ok {
			if reason, _ := v.Text(); reason != "" {
				t.seen.Finish = reason
			}
		}
	case "failed":
		t.seen.Finish = status
		if t.seen.Failed == "" { // it says only that
			t.seen.Failed = failure(nil)
		}
	default:
		t.seen.Finish = status
	}
}
