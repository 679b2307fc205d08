package caching

import (
	"bytes"
	"io"
	"slices"
	"strings"

	"modelgate/api"
	"modelgate/internal/cache/respcache"
	"modelgate/internal/dialect"
	"modelgate/internal/format/contentcoding"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/pipeline/framing"
)

// finishFields are the fields of finish reasons in all dialects, and
// completeFinish the reasons of complete responses. A response with any other
// reason is not stored: it was cut, filtered, or ends in a call.
var (
	finishFields   = [...]string{`"finish_reason"`, `"stop_reason"`, `"finishReason"`, `"stopReason"`, `"done_reason"`}
	completeFinish = [...]string{"stop", "end_turn", "stop_sequence", "STOP", "COMPLETE", "completed", "eos", "eos_token", "end"}
)

// callMarks occur in responses that call a tool, of the client or of the
// provider. Text cannot contain them, since its quotes are escaped.
var callMarks = [...]string{`"tool_calls"`, `"tool_call"`, `"tool_use"`, `"toolUse"`, `"functionCall"`,
	`"function_call"`, `"server_tool_use"`, `"mcp_tool_use"`, `"executableCode"`}

// callFinish are the finish reasons of responses that end in a call.
var callFinish = [...]string{"tool_calls", "tool_use", "function_call", "TOOL_CALL"}

// filterMarks occur in responses that a provider filtered or refused.
var filterMarks = [...]string{`"refusal"`, `"blockReason"`, `"incomplete_details"`}

// storable reports whether the response in e, of which info was read, may be
// stored: it is complete, was not filtered and has no error. calls allows
// calls of tools.
func storable(r *exchange.Request, e *respcache.Entry, info *dialect.ResponseInfo, calls bool) bool {
	if e.Status < 200 || e.Status > 299 || info.Failed != "" {
		return false
	}
	body := e.Body
	if e.Form == respcache.Raw {
		if !framing.MayHoldText(e.ContentType) {
			return r.Operation == api.AudioSpeech && len(body) > 0
		}
		plain, ok := decoded(e)
		if !ok || !framing.IsEvents(e.ContentType) && !framing.IsCompleteJSON(plain) {
			return false
		}
		body = plain
	}
	if !calls && holdsCall(body) || holdsError(body) {
		return false
	}
	for _, mark := range filterMarks {
		for v := range valuesOf(body, mark) {
			if !isNothing(v) {
				return false
			}
		}
	}
	for v := range valuesOf(body, `"filtered"`) {
		if v == "true" {
			return false
		}
	}
	return finishedWell(r, e, body, info, calls)
}

// finishedWell reports whether every choice has the finish reason of a complete
// response, if the operation has finish reasons.
func finishedWell(r *exchange.Request, e *respcache.Entry, body []byte, info *dialect.ResponseInfo, calls bool) bool {
	ends := 0
	for _, field := range finishFields {
		for v := range valuesOf(body, field) {
			reason := strings.Trim(v, `"`)
			switch {
			case isNothing(v):
			case slices.Contains(completeFinish[:], reason), calls && slices.Contains(callFinish[:], reason):
				ends++
			default:
				return false
			}
		}
	}
	if r.Operation == api.Proxy {
		return ends > 0 || !framing.IsEvents(e.ContentType) || bytes.Contains(body, []byte(`"response.completed"`))
	}
	if r.Operation != api.Completions && r.Operation != r.Dialect.ConversationOperation() {
		return true
	}
	return info.Finished && (ends > 0 || slices.Contains(completeFinish[:], info.Finish))
}

func isNothing(v string) bool { return v == "null" || v == `""` || v == "[]" || v == "{}" }

// holdsCall reports whether a response has a call of a tool.
func holdsCall(body []byte) bool {
	for _, mark := range callMarks {
		for v := range valuesOf(body, mark) {
			if !isNothing(v) {
				return true
			}
		}
		if isTypeOf(body, mark) {
			return true
		}
	}
	for rest := body; ; { // items of the responses dialect: web_search_call, mcp_call …
		i := bytes.Index(rest, []byte(`_call"`))
		if i < 0 {
			return false
		}
		if from := bytes.LastIndexByte(rest[:i], '"'); from >= 0 && isTypeOf(rest[:i+len(`_call"`)], string(rest[from:i+len(`_call"`)])) {
			return true
		}
		rest = rest[i+len(`_call"`):]
	}
}

// isTypeOf reports whether an object in body has the type word, a JSON string.
func isTypeOf(body []byte, word string) bool {
	for rest := body; ; {
		i := bytes.Index(rest, []byte(word))
		if i < 0 {
			return false
		}
		before := bytes.TrimRight(rest[:i], " \t\r\n")
		if before, ok := bytes.CutSuffix(before, []byte(":")); ok && bytes.HasSuffix(bytes.TrimRight(before, " \t\r\n"), []byte(`"type"`)) {
			return true
		}
		rest = rest[i+len(word):]
	}
}

// holdsError reports whether a response has an error despite its status.
func holdsError(body []byte) bool {
	for v := range valuesOf(body, `"error"`) {
		if !isNothing(v) {
			return true
		}
	}
	return false
}

// valuesOf iterates over the values of the fields with this name, a JSON string,
// at any depth of JSON documents in b: scalars as they are, and for others their
// first two bytes without spaces, which tell whether they are empty.
func valuesOf(b []byte, name string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for rest := b; ; {
			i := bytes.Index(rest, []byte(name))
			if i < 0 {
				return
			}
			rest = rest[i+len(name):]
			after := bytes.TrimLeft(rest, " \t\r\n")
			after, ok := bytes.CutPrefix(after, []byte(":"))
			if !ok {
				continue
			}
			if !yield(scalar(bytes.TrimLeft(after, " \t\r\n"))) {
				return
			}
		}
	}
}

// scalar returns the value that b begins with; see valuesOf.
func scalar(b []byte) string {
	switch {
	case len(b) == 0:
		return ""
	case b[0] == '"':
		return string(b[:stringEnd(b, 0)])
	case b[0] == '[' || b[0] == '{':
		if next := bytes.TrimLeft(b[1:], " \t\r\n"); len(next) > 0 {
			return string([]byte{b[0], next[0]})
		}
		return string(b[:1])
	}
	if i := bytes.IndexAny(b, ",}] \t\r\n"); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// maxInspected is the limit in bytes of a compressed response after
// decompression that is inspected. A longer one is not stored.
const maxInspected = 16 << 20

// decoded returns the body without its content coding.
func decoded(e *respcache.Entry) ([]byte, bool) {
	if contentcoding.IsIdentity(e.Encoding) {
		return e.Body, true
	}
	src, err := contentcoding.NewReader(e.Encoding, bytes.NewReader(e.Body), maxInspected)
	if err != nil {
		return nil, false
	}
	defer src.Close()
	plain, err := io.ReadAll(src)
	return plain, err == nil
}
