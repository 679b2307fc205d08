package guardrail

import (
	"encoding/json"
	"slices"
	"time"

	"modelgate/internal/format/jsonedit"
)

// AppendResults appends the JSON of the results of a request and its response, the
// value of hook_results.
func AppendResults(dst []byte, before, after []HookResult) []byte {
	const usual = 512 // bytes of a result with one check
	b := jsonedit.Append(slices.Grow(dst, usual*(len(before)+len(after)+1)))
	b.Open('{')
	for _, list := range [...]struct {
		name    string
		results []HookResult
	}{{"before_request_hooks", before}, {"after_request_hooks", after}} {
		b.Name(list.name)
		b.Open('[')
		for i := range list.results {
			list.results[i].write(&b)
		}
		b.Close(']')
	}
	b.Close('}')
	return b.Bytes()
}

func (r *HookResult) write(b *jsonedit.Builder) {
	b.Open('{')
	writeBool(b, "verdict", r.Verdict)
	writeString(b, "id", r.ID)
	writeString(b, "type", r.Type)
	writeBool(b, "transformed", r.Transformed)
	b.Name("checks")
	b.Open('[')
	for i := range r.Checks {
		r.Checks[i].write(b)
	}
	b.Close(']')
	b.Name("feedback")
	r.Feedback.write(b)
	writeInt(b, "execution_time", r.ExecutionTime)
	writeBool(b, "async", r.Async)
	writeTime(b, "created_at", r.CreatedAt)
	writeBool(b, "deny", r.Deny)
	if r.Skipped {
		writeBool(b, "skipped", true)
	}
	if r.VersionID != "" {
		writeString(b, "guardrail_version_id", r.VersionID)
	}
	b.Close('}')
}

func (c *CheckResult) write(b *jsonedit.Builder) {
	b.Open('{')
	writeString(b, "id", c.ID)
	writeBool(b, "verdict", c.Verdict)
	b.Name("data")
	c.Data.write(b)
	if c.Error != nil {
		b.Name("error")
		b.Open('{')
		writeString(b, "name", c.Error.Name)
		writeString(b, "message", c.Error.Message)
		b.Close('}')
	}
	writeInt(b, "execution_time", c.ExecutionTime)
	writeBool(b, "transformed", c.Transformed)
	writeTime(b, "created_at", c.CreatedAt)
	b.Name("log")
	b.Raw(c.Log)
	writeBool(b, "fail_on_error", c.FailOnError)
	b.Close('}')
}

func (d *Data) write(b *jsonedit.Builder) {
	if d == nil {
		b.Null()
		return
	}
	b.Open('{')
	writeBool(b, "verdict", d.Verdict)
	writeBool(b, "not", d.Not)
	if d.Explanation != "" {
		writeString(b, "explanation", d.Explanation)
	}
	if d.TextExcerpt != "" {
		writeString(b, "textExcerpt", d.TextExcerpt)
	}
	if len(d.More) > 0 {
		if more, err := json.Marshal(d.More); err == nil { // always, by its contract
			b.Raw(more[1 : len(more)-1])
		}
	}
	b.Close('}')
}

func (f *FeedbackResult) write(b *jsonedit.Builder) {
	if f == nil {
		b.Null()
		return
	}
	b.Open('{')
	b.Name("value")
	b.Float(f.Value)
	b.Name("weight")
	b.Float(f.Weight)
	b.Name("metadata")
	metadata, _ := json.Marshal(f.Metadata) // values of JSON
	b.Raw(metadata)
	b.Close('}')
}

func writeBool(b *jsonedit.Builder, name string, v bool) {
	b.Name(name)
	b.Bool(v)
}

func writeInt(b *jsonedit.Builder, name string, n int64) {
	b.Name(name)
	b.Int(n)
}

func writeString(b *jsonedit.Builder, name, s string) {
	b.Name(name)
	b.String(s)
}

// writeTime writes a time as RFC 3339 says, with nanoseconds.
func writeTime(b *jsonedit.Builder, name string, t time.Time) {
	var text [48]byte
	b.Name(name)
	b.Raw(append(t.AppendFormat(append(text[:0], '"'), time.RFC3339Nano), '"'))
}
