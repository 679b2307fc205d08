package reqlog

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"modelgate/internal/model/catalog"
)

// AppendJSON appends e as the JSON object that clients read, without its bodies. Every
// name is present: unknown values are null, except attempts, decisions, params, limits, checks,
// unchecked and metadata, which are then empty. Metadata is sorted by key. Invalid UTF-8 becomes
// U+FFFD. Times are UTC with milliseconds, durations are numbers with up to three
// decimals.
func (e *Entry) AppendJSON(dst []byte) []byte {
	w := jsonWriter{dst: append(dst, '{')}
	w.name("id").quote(e.ID.String())
	w.name("created_at").quote(e.Time.UTC().Format("2006-01-02T15:04:05.000Z07:00"))
	e.writeTrace(&w)
	w.name("method").text(e.Method)
	w.name("path").text(e.Path)
	w.name("operation").text(string(e.Operation))
	w.name("stream").bool(e.Stream)
	e.writeTarget(&w)
	w.name("status").int(int64(e.Status))
	w.name("outcome").quote(e.Outcome().String())
	e.writeError(&w)
	e.writeAttempts(&w)
	e.writeDecisions(&w)
	e.writeParams(&w)
	e.writeLimits(&w)
	e.writeChecks(&w)
	e.writeUsage(&w)
	e.writeCost(&w)
	e.writeEstimates(&w)
	e.writeSaved(&w)
	w.name("finish_reason").text(e.Finish)
	e.writeTiming(&w)
	w.name("request_bytes").int(e.RequestBytes)
	w.name("response_bytes").int(e.ResponseBytes)
	e.writeMetadata(&w)
	w.name("user_agent").text(e.UserAgent)
	w.name("logging").quote(e.Level.String())
	return append(w.dst, '}')
}

// AppendJSONWithBodies is [Entry.AppendJSON] with the recorded bodies as request and
// response, null if there are none.
func (e *Entry) AppendJSONWithBodies(dst []byte) []byte {
	w := jsonWriter{dst: e.AppendJSON(dst)}
	w.dst = w.dst[:len(w.dst)-1]
	var b Bodies
	if e.Bodies != nil {
		b = *e.Bodies
	}
	w.name("request")
	b.Request.write(&w)
	w.name("response")
	b.Response.write(&w)
	return append(w.dst, '}')
}

// AppendJSON appends b in the form of [Entry.AppendJSONWithBodies].
func (b *Body) AppendJSON(dst []byte) []byte {
	w := jsonWriter{dst: dst}
	b.write(&w)
	return w.dst
}

// write writes a body. Its text is null if it was not recorded.
func (b *Body) write(w *jsonWriter) {
	if b.Size == 0 && b.Data == nil {
		w.null()
		return
	}
	w.open('{')
	w.name("content_type").text(b.Type)
	w.name("body")
	if b.Data == nil {
		w.null()
	} else {
		w.quote(string(b.Data))
	}
	w.name("size").int(b.Size)
	w.name("truncated").bool(b.Cut)
	w.close('}')
}

func (e *Entry) writeTrace(w *jsonWriter) {
	w.name("trace_id").text(e.TraceID)
	w.name("span_id").text(e.SpanID)
	w.name("parent_span_id").text(e.ParentSpanID)
	w.name("span_name").text(e.SpanName)
	w.name("organisation").text(e.Organisation)
	w.name("workspace").text(e.Workspace)
	w.name("api_key")
	if e.KeyID == "" {
		w.null()
		return
	}
	w.open('{')
	w.name("id").quote(e.KeyID)
	w.name("name").text(e.KeyName)
	w.close('}')
}

func (e *Entry) writeTarget(w *jsonWriter) {
	w.name("provider").text(e.Provider)
	w.name("provider_slug").text(e.Slug)
	w.name("model").text(e.Model)
	w.name("upstream_model").text(e.UpstreamModel)
	w.name("response_model").text(e.ResponseModel)
	w.name("option_index").text(e.OptionIndex)
	w.name("cache_status").text(e.CacheStatus)
	w.name("config").text(e.Config)
	w.name("prompt")
	if e.Prompt == (Prompt{}) {
		w.null()
		return
	}
	w.open('{')
	w.name("id").quote(e.Prompt.ID)
	w.name("slug").text(e.Prompt.Slug)
	w.name("version").int(e.Prompt.Version)
	w.close('}')
}

func (e *Entry) writeError(w *jsonWriter) {
	w.name("error")
	if e.ErrorSource == "" && e.ErrorCode == "" && e.ErrorMessage == "" {
		w.null()
		return
	}
	w.open('{')
	w.name("source").text(e.ErrorSource)
	w.name("code").text(e.ErrorCode)
	w.name("message").text(e.ErrorMessage)
	w.close('}')
}

func (e *Entry) writeAttempts(w *jsonWriter) {
	w.name("attempts").open('[')
	for i := range e.Attempts {
		a := &e.Attempts[i]
		w.comma().open('{')
		w.name("target").text(a.Target)
		w.name("provider").text(a.Provider)
		w.name("slug").text(a.Slug)
		w.name("status").intOrNull(int64(a.Status))
		w.name("error").text(a.Error)
		w.name("start_ms").ms(a.Start)
		w.name("took_ms").ms(a.Took)
		w.close('}')
	}
	w.close(']')
}

func (e *Entry) writeDecisions(w *jsonWriter) {
	w.name("decisions").open('[')
	for i := range e.Decisions {
		w.comma().open('{')
		w.name("path").text(e.Decisions[i].Path)
		w.name("text").text(e.Decisions[i].Text)
		w.close('}')
	}
	w.close(']')
}

func (e *Entry) writeParams(w *jsonWriter) {
	w.name("params").open('[')
	for _, p := range e.Params {
		w.comma().quote(p)
	}
	w.close(']')
}

func (e *Entry) writeUsage(w *jsonWriter) {
	w.name("usage")
	if !e.Usage.Known {
		w.null()
		return
	}
	w.open('{')
	w.name("prompt_tokens").int(e.Usage.Prompt())
	w.name("completion_tokens").int(e.Usage.Completion())
	w.name("total_tokens").int(e.Usage.Total())
	w.name("cached_tokens").int(e.Usage.CachedInput)
	w.name("cache_write_5m_tokens").int(e.Usage.CacheWrite5m)
	w.name("cache_write_1h_tokens").int(e.Usage.CacheWrite1h)
	w.name("reasoning_tokens").int(e.Usage.Reasoning)
	w.name("input_audio_tokens").int(e.Usage.InputAudio)
	w.name("output_audio_tokens").int(e.Usage.OutputAudio)
	w.close('}')
}

func (e *Entry) writeEstimates(w *jsonWriter) {
	w.name("usage_estimated").bool(e.Usage.Estimated)
	w.name("cost_estimated").bool(e.CostEstimated)
}

func (e *Entry) writeSaved(w *jsonWriter) {
	w.name("saved_cost").open('{')
	w.name("response_cache").cents(e.Saved.Response)
	w.name("prompt_cache").cents(e.Saved.Prompt)
	w.close('}')
}

func (e *Entry) writeCost(w *jsonWriter) {
	w.name("cost")
	if e.Priced {
		w.cents(e.Cost)
	} else {
		w.null()
	}
	w.name("price").text(e.Price)
}

func (e *Entry) writeTiming(w *jsonWriter) {
	w.name("timing").open('{')
	w.name("total_ms").ms(e.Total)
	w.name("upstream_ms").ms(e.Upstream)
	w.name("first_token_ms")
	if e.FirstToken == 0 {
		w.null()
	} else {
		w.ms(e.FirstToken)
	}
	w.name("overhead_us").int(e.Overhead.Microseconds())
	w.close('}')
}

func (e *Entry) writeMetadata(w *jsonWriter) {
	w.name("metadata").open('{')
	for _, k := range slices.Sorted(maps.Keys(e.Metadata)) {
		w.name(k).quote(e.Metadata[k])
	}
	w.close('}')
}

// jsonWriter appends JSON, including the commas between members.
type jsonWriter struct{ dst []byte }

// comma appends a comma unless a value begins here.
func (w *jsonWriter) comma() *jsonWriter {
	if last := w.dst[len(w.dst)-1]; last != '{' && last != '[' {
		w.dst = append(w.dst, ',')
	}
	return w
}

func (w *jsonWriter) name(s string) *jsonWriter {
	w.comma().quote(s)
	w.dst = append(w.dst, ':')
	return w
}

func (w *jsonWriter) open(c byte)  { w.dst = append(w.dst, c) }
func (w *jsonWriter) close(c byte) { w.dst = append(w.dst, c) }
func (w *jsonWriter) null()        { w.dst = append(w.dst, "null"...) }
func (w *jsonWriter) bool(v bool)  { w.dst = strconv.AppendBool(w.dst, v) }
func (w *jsonWriter) int(n int64)  { w.dst = strconv.AppendInt(w.dst, n, 10) }

func (w *jsonWriter) intOrNull(n int64) {
	if n == 0 {
		w.null()
		return
	}
	w.int(n)
}

// ms writes milliseconds with microsecond precision.
func (w *jsonWriter) ms(d time.Duration) {
	w.dst = strconv.AppendFloat(w.dst, float64(d.Microseconds())/1000, 'f', -1, 64)
}

// cents writes an amount in cents, exact to the nano-dollar, without using floats.
func (w *jsonWriter) cents(n catalog.NanoDollars) {
	const cent = 10_000_000
	if n < 0 {
		w.dst, n = append(w.dst, '-'), -n
	}
	w.int(int64(n / cent))
	if rest := int64(n % cent); rest > 0 {
		digits := strconv.AppendInt(nil, cent+rest, 10) // with leading zeros, after a one
		w.dst = append(append(w.dst, '.'), bytes.TrimRight(digits[1:], "0")...)
	}
}

// text writes a string, null if it is empty.
func (w *jsonWriter) text(s string) {
	if s == "" {
		w.null()
		return
	}
	w.quote(s)
}

func (w *jsonWriter) quote(s string) {
	w.dst = append(w.dst, '"')
	start := 0
	for i := 0; i < len(s); {
		r, size := rune(s[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(s[i:])
		}
		if !plain(r, size) {
			w.dst = append(w.dst, s[start:i]...)
			w.escape(r)
			start = i + size
		}
		i += size
	}
	w.dst = append(w.dst, s[start:]...)
	w.dst = append(w.dst, '"')
}

// plain reports whether a string may contain r, read from size bytes, without escaping.
func plain(r rune, size int) bool {
	return r >= ' ' && r != '"' && r != '\\' && (r != utf8.RuneError || size > 1)
}

func (w *jsonWriter) escape(r rune) {
	const hex = "0123456789abcdef"
	switch r {
	case '"', '\\':
		w.dst = append(w.dst, '\\', byte(r))
	case '\n':
		w.dst = append(w.dst, '\\', 'n')
	case '\t':
		w.dst = append(w.dst, '\\', 't')
	case utf8.RuneError:
		w.dst = utf8.AppendRune(w.dst, utf8.RuneError)
	default:
		w.dst = append(w.dst, '\\', 'u', '0', '0', hex[r>>4&0xf], hex[r&0xf])
	}
}
