package reqlog

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"time"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/catalog"
)

// AppendJSON appends e as the JSON object that clients read, without its bodies. Every
// name is present: unknown values are null, except attempts, decisions, params, limits, checks,
// unchecked and metadata, which are then empty. Metadata is sorted by key. Invalid UTF-8 becomes
// U+FFFD. Times are UTC with milliseconds, durations are numbers with up to three
// decimals.
func (e *Entry) AppendJSON(dst []byte) []byte {
	w := jsonedit.Append(dst)
	w.Open('{')
	e.write(&w)
	w.Close('}')
	return w.Bytes()
}

// AppendJSONWithBodies is [Entry.AppendJSON] with the recorded bodies as request and
// response, null if there are none.
func (e *Entry) AppendJSONWithBodies(dst []byte) []byte {
	var b Bodies
	if e.Bodies != nil {
		b = *e.Bodies
	}
	w := jsonedit.Append(dst)
	w.Open('{')
	e.write(&w)
	w.Name("request")
	b.Request.write(&w)
	w.Name("response")
	b.Response.write(&w)
	w.Close('}')
	return w.Bytes()
}

// AppendJSON appends b in the form of [Entry.AppendJSONWithBodies].
func (b *Body) AppendJSON(dst []byte) []byte {
	w := jsonedit.Append(dst)
	b.write(&w)
	return w.Bytes()
}

// write writes the members of an entry without its bodies.
func (e *Entry) write(w *jsonedit.Builder) {
	writeString(w, "id", e.ID.String())
	writeString(w, "created_at", e.Time.UTC().Format("2006-01-02T15:04:05.000Z07:00"))
	e.writeTrace(w)
	writeText(w, "method", e.Method)
	writeText(w, "path", e.Path)
	writeText(w, "operation", string(e.Operation))
	writeBool(w, "stream", e.Stream)
	e.writeTarget(w)
	writeInt(w, "status", int64(e.Status))
	writeString(w, "outcome", e.Outcome().String())
	e.writeError(w)
	e.writeAttempts(w)
	e.writeDecisions(w)
	e.writeParams(w)
	e.writeLimits(w)
	e.writeChecks(w)
	e.writeUsage(w)
	e.writeCost(w)
	e.writeEstimates(w)
	e.writeSaved(w)
	writeText(w, "finish_reason", e.Finish)
	e.writeTiming(w)
	writeInt(w, "request_bytes", e.RequestBytes)
	writeInt(w, "response_bytes", e.ResponseBytes)
	e.writeMetadata(w)
	writeText(w, "user_agent", e.UserAgent)
	writeString(w, "logging", e.Level.String())
}

// write writes a body. Its text is null if it was not recorded.
func (b *Body) write(w *jsonedit.Builder) {
	if b.Size == 0 && b.Data == nil {
		w.Null()
		return
	}
	w.Open('{')
	writeText(w, "content_type", b.Type)
	w.Name("body")
	if b.Data == nil {
		w.Null()
	} else {
		w.String(string(b.Data))
	}
	writeInt(w, "size", b.Size)
	writeBool(w, "truncated", b.Cut)
	w.Close('}')
}

func (e *Entry) writeTrace(w *jsonedit.Builder) {
	writeText(w, "trace_id", e.TraceID)
	writeText(w, "span_id", e.SpanID)
	writeText(w, "parent_span_id", e.ParentSpanID)
	writeText(w, "span_name", e.SpanName)
	writeText(w, "organisation", e.Organisation)
	writeText(w, "workspace", e.Workspace)
	w.Name("api_key")
	if e.KeyID == "" {
		w.Null()
		return
	}
	w.Open('{')
	writeString(w, "id", e.KeyID)
	writeText(w, "name", e.KeyName)
	w.Close('}')
}

func (e *Entry) writeTarget(w *jsonedit.Builder) {
	writeText(w, "provider", e.Provider)
	writeText(w, "provider_slug", e.Slug)
	writeText(w, "model", e.Model)
	writeText(w, "upstream_model", e.UpstreamModel)
	writeText(w, "response_model", e.ResponseModel)
	writeText(w, "option_index", e.OptionIndex)
	writeText(w, "target_name", e.TargetName)
	writeText(w, "cache_status", e.CacheStatus)
	writeText(w, "config", e.Config)
	if e.ConfigVersion > 0 {
		writeInt(w, "config_version", e.ConfigVersion)
	} else {
		writeNull(w, "config_version")
	}
	w.Name("prompt")
	if e.Prompt == (Prompt{}) {
		w.Null()
		return
	}
	w.Open('{')
	writeString(w, "id", e.Prompt.ID)
	writeText(w, "slug", e.Prompt.Slug)
	writeInt(w, "version", e.Prompt.Version)
	w.Close('}')
}

func (e *Entry) writeError(w *jsonedit.Builder) {
	w.Name("error")
	if e.ErrorSource == "" && e.ErrorCode == "" && e.ErrorMessage == "" {
		w.Null()
		return
	}
	w.Open('{')
	writeText(w, "source", e.ErrorSource)
	writeText(w, "code", e.ErrorCode)
	writeText(w, "message", e.ErrorMessage)
	w.Close('}')
}

func (e *Entry) writeAttempts(w *jsonedit.Builder) {
	w.Name("attempts")
	w.Open('[')
	for i := range e.Attempts {
		a := &e.Attempts[i]
		w.Open('{')
		writeText(w, "target", a.Target)
		writeText(w, "provider", a.Provider)
		writeText(w, "slug", a.Slug)
		if a.Status != 0 {
			writeInt(w, "status", int64(a.Status))
		} else {
			writeNull(w, "status")
		}
		writeText(w, "error", a.Error)
		writeMillis(w, "start_ms", a.Start)
		writeMillis(w, "took_ms", a.Took)
		w.Close('}')
	}
	w.Close(']')
}

func (e *Entry) writeDecisions(w *jsonedit.Builder) {
	w.Name("decisions")
	w.Open('[')
	for i := range e.Decisions {
		w.Open('{')
		writeText(w, "path", e.Decisions[i].Path)
		writeText(w, "text", e.Decisions[i].Text)
		w.Close('}')
	}
	w.Close(']')
}

func (e *Entry) writeParams(w *jsonedit.Builder) {
	w.Name("params")
	w.Open('[')
	for _, p := range e.Params {
		w.String(p)
	}
	w.Close(']')
}

func (e *Entry) writeUsage(w *jsonedit.Builder) {
	w.Name("usage")
	if !e.Usage.Known {
		w.Null()
		return
	}
	w.Open('{')
	writeInt(w, "prompt_tokens", e.Usage.Prompt())
	writeInt(w, "completion_tokens", e.Usage.Completion())
	writeInt(w, "total_tokens", e.Usage.Total())
	writeInt(w, "cached_tokens", e.Usage.CachedInput)
	writeInt(w, "cache_write_5m_tokens", e.Usage.CacheWrite5m)
	writeInt(w, "cache_write_1h_tokens", e.Usage.CacheWrite1h)
	writeInt(w, "reasoning_tokens", e.Usage.Reasoning)
	writeInt(w, "input_audio_tokens", e.Usage.InputAudio)
	writeInt(w, "output_audio_tokens", e.Usage.OutputAudio)
	w.Close('}')
}

func (e *Entry) writeEstimates(w *jsonedit.Builder) {
	writeBool(w, "usage_estimated", e.Usage.Estimated)
	writeBool(w, "cost_estimated", e.CostEstimated)
}

func (e *Entry) writeSaved(w *jsonedit.Builder) {
	w.Name("saved_cost")
	w.Open('{')
	writeCents(w, "response_cache", e.Saved.Response)
	writeCents(w, "prompt_cache", e.Saved.Prompt)
	writeInt(w, "response_cache_nano_usd", int64(e.Saved.Response))
	writeInt(w, "prompt_cache_nano_usd", int64(e.Saved.Prompt))
	w.Close('}')
}

func (e *Entry) writeCost(w *jsonedit.Builder) {
	if e.Priced {
		writeCents(w, "cost", e.Cost)
		writeInt(w, "cost_nano_usd", int64(e.Cost))
	} else {
		writeNull(w, "cost")
		writeNull(w, "cost_nano_usd")
	}
	writeText(w, "price", e.Price)
}

func (e *Entry) writeTiming(w *jsonedit.Builder) {
	w.Name("timing")
	w.Open('{')
	writeMillis(w, "total_ms", e.Total)
	writeMillis(w, "upstream_ms", e.Upstream)
	if e.FirstToken == 0 {
		writeNull(w, "first_token_ms")
	} else {
		writeMillis(w, "first_token_ms", e.FirstToken)
	}
	writeInt(w, "overhead_us", e.Overhead.Microseconds())
	w.Close('}')
}

func (e *Entry) writeMetadata(w *jsonedit.Builder) {
	w.Name("metadata")
	w.Open('{')
	for _, k := range slices.Sorted(maps.Keys(e.Metadata)) {
		w.Key(k)
		w.String(e.Metadata[k])
	}
	w.Close('}')
}

// writeText writes a member that is a string, null if it is empty.
func writeText(w *jsonedit.Builder, name, s string) {
	if s == "" {
		writeNull(w, name)
	} else {
		writeString(w, name, s)
	}
}

func writeNull(w *jsonedit.Builder, name string) {
	w.Name(name)
	w.Null()
}

func writeString(w *jsonedit.Builder, name, s string) {
	w.Name(name)
	w.String(s)
}

func writeInt(w *jsonedit.Builder, name string, n int64) {
	w.Name(name)
	w.Int(n)
}

func writeBool(w *jsonedit.Builder, name string, v bool) {
	w.Name(name)
	w.Bool(v)
}

// writeMillis writes milliseconds with microsecond precision.
func writeMillis(w *jsonedit.Builder, name string, d time.Duration) {
	w.Name(name)
	w.Float(float64(d.Microseconds()) / 1000)
}

// writeCents writes an amount in cents, exact to the nano-dollar, without using floats.
func writeCents(w *jsonedit.Builder, name string, n catalog.NanoDollars) {
	const cent = 10_000_000
	text := make([]byte, 0, 24)
	if n < 0 {
		text, n = append(text, '-'), -n
	}
	text = strconv.AppendInt(text, int64(n/cent), 10)
	if rest := int64(n % cent); rest > 0 {
		digits := strconv.AppendInt(nil, cent+rest, 10) // with leading zeros, after a one
		text = append(append(text, '.'), bytes.TrimRight(digits[1:], "0")...)
	}
	w.Name(name)
	w.Raw(text)
}
