package dialect

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// FindError returns the error inside the body of a response with a success status, as a body
// that is one, in whatever protocol it is written; nil if there is none. It is not for bodies
// of the responses protocol without an error, whose member error is null.
func FindError(body []byte) []byte {
	v, err := jsonedit.ParseValue(body)
	if err == nil && v.Kind() == jsonedit.Array { // of Google
		for first := range v.Elements() {
			v = first
			break
		}
		body = v.Raw()
	}
	if err != nil || v.Kind() != jsonedit.Object {
		return nil
	}
	empty := false
	for key, field := range v.Fields() {
		switch {
		case key.Is("error") && isError(field):
			return body
		case key.Is("choices"):
			empty = string(field.Raw()) == "[]"
			for choice := range field.Elements() {
				if e, ok := choice.Get("error"); ok && isError(e) { // OpenRouter
					return slices.Concat([]byte(`{"error":`), e.Raw(), []byte("}"))
				}
			}
		case key.Is("type"), key.Is("object"):
			if word, _ := field.TextBytes(); string(word) == "error" {
				return body
			}
		case key.Is("__type"): // of AWS
			return body
		}
	}
	if isFailure(v) {
		return body
	}
	if empty {
		return []byte(`{"error":{"message":"the response has no choices","type":"upstream_error"}}`)
	}
	return nil
}

// IsFailure reports whether an object that is not a response has the message of an error.
func IsFailure(data []byte) bool {
	v, err := jsonedit.ParseValue(data)
	return err == nil && isFailure(v)
}

// isFailure reports whether an object has the message of an error in one of the members in
// which providers report one. MiniMax has both in every response.
// https://platform.minimax.io/docs/api-reference/text-openai-api
func isFailure(v jsonedit.Value) bool {
	if list, _ := v.Get("choices"); list.Kind() == jsonedit.Array && string(list.Raw()) != "[]" {
		return false
	}
	if base, ok := v.Get("base_resp"); ok {
		code, _ := base.Get("status_code")
		n, ok := code.Int()
		return ok && n != 0
	}
	for _, name := range [...]string{"message", "detail", "msg", "errors", "error_msg", "fault"} {
		if m, ok := v.Get(name); ok && name != "message" || m.Kind() == jsonedit.String {
			return findMessage(m, 4) != ""
		}
	}
	return false
}

// NoContent is the failure of a response that has nothing of one.
const NoContent = "the response has neither content nor a finish reason"

// NoContentError returns the error of such a response.
func NoContentError() *llm.ProviderError {
	return &llm.ProviderError{Type: "upstream_error", Message: NoContent}
}

func isError(v jsonedit.Value) bool {
	return v.Kind() == jsonedit.Object || v.Kind() == jsonedit.String && len(v.Raw()) > 2
}

// ErrorBody returns f as the body of an error.
func ErrorBody(f *llm.ProviderError) []byte {
	if jsonedit.KindOf(f.Raw) == jsonedit.Object {
		return f.Raw
	}
	body := []byte(`{"error":{"message":`)
	body = jsonedit.AppendString(body, f.Message)
	body = append(body, `,"type":`...)
	body = jsonedit.AppendString(body, cmp.Or(f.Type, "upstream_error"))
	if f.Code != "" {
		body = append(body, `,"code":`...)
		body = jsonedit.AppendString(body, f.Code)
	}
	return append(body, "}}"...)
}

// FinishError returns the error of a response that ended with a finish reason that means
// that it failed; see [llm.StopFailed].
func FinishError(reason string) *llm.ProviderError {
	return &llm.ProviderError{Type: "upstream_error", Code: reason, Message: "the response ended with the finish reason " +
		strconv.Quote(reason) + ": it failed"}
}

// ErrorStatus returns the status for an error that a provider reports in a response that has a
// success status: the one in the body, or else that of its kind, which the body names or
// which is the name of the event or exception with it.
func ErrorStatus(name string, body []byte) int {
	words := []string{name}
	if v, err := jsonedit.ParseValue(body); err == nil {
		for _, inside := range [...]string{"", "error", "response", "base_resp"} {
			at := v
			if inside != "" {
				at, _ = v.Get(inside)
			}
			if inside == "response" { // of the responses protocol
				at, _ = at.Get("error")
			}
			for _, member := range [...]string{"code", "status", "status_code", "type", "__type"} {
				field, _ := at.Get(member)
				if n, ok := statusIn(field); ok {
					return n
				}
				if n, _ := field.Int(); inside == "base_resp" && minimaxStatuses[n] != 0 {
					return minimaxStatuses[n]
				}
				if text, ok := field.Text(); ok {
					words = append(words, text)
				}
			}
		}
	}
	for _, word := range words {
		if status := statusOf(word); status != 0 {
			return status
		}
	}
	return http.StatusBadGateway
}

// minimaxStatuses are the statuses of MiniMax's codes of errors.
// https://platform.minimax.io/docs/api-reference/errorcode
var minimaxStatuses = map[int64]int{
	1001: http.StatusGatewayTimeout, 1002: http.StatusTooManyRequests, 1004: http.StatusUnauthorized, 1008: http.StatusPaymentRequired,
	1013: http.StatusInternalServerError, 1026: http.StatusBadRequest, 1027: http.StatusBadRequest, 1039: http.StatusTooManyRequests,
	2013: http.StatusBadRequest,
}

// statusIn returns a member that is the status of an error: a number, or one as text.
func statusIn(v jsonedit.Value) (int, bool) {
	n, ok := v.Int()
	if text, isText := v.TextBytes(); isText {
		var err error
		n, err = strconv.ParseInt(string(text), 10, 32)
		ok = err == nil
	}
	return int(n), ok && 400 <= n && n <= 599
}

// statuses are the statuses of kinds of errors, by a part of their names without case and
// signs. The first that fits counts.
// https://platform.openai.com/docs/guides/error-codes
// https://docs.claude.com/en/api/errors
// https://cloud.google.com/apis/design/errors#handling_errors
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html
var statuses = []struct {
	part   string
	status int
}{
	{"quota", http.StatusTooManyRequests}, {"ratelimit", http.StatusTooManyRequests}, {"toomanyrequests", http.StatusTooManyRequests},
	{"throttl", http.StatusTooManyRequests}, {"resourceexhausted", http.StatusTooManyRequests},
	{"overload", 529}, {"unavailable", http.StatusServiceUnavailable}, {"notready", http.StatusServiceUnavailable},
	{"capacity", http.StatusServiceUnavailable},
	{"insufficientsystemresource", http.StatusServiceUnavailable},
	{"timeout", http.StatusGatewayTimeout}, {"deadlineexceeded", http.StatusGatewayTimeout},
	{"apikey", http.StatusUnauthorized}, {"unauthenticated", http.StatusUnauthorized}, {"authentication", http.StatusUnauthorized},
	{"unauthorized", http.StatusUnauthorized}, {"unrecognizedclient", http.StatusUnauthorized},
	{"permission", http.StatusForbidden}, {"accessdenied", http.StatusForbidden}, {"forbidden", http.StatusForbidden},
	{"notfound", http.StatusNotFound}, {"toolarge", http.StatusRequestEntityTooLarge}, {"billing", http.StatusPaymentRequired},
	{"paymentrequired", http.StatusPaymentRequired},
	{"contextlength", http.StatusBadRequest}, {"invalid", http.StatusBadRequest}, {"validation", http.StatusBadRequest},
	{"badrequest", http.StatusBadRequest}, {"unprocessable", http.StatusUnprocessableEntity},
	{"internal", http.StatusInternalServerError}, {"servererror", http.StatusInternalServerError},
	{"apierror", http.StatusInternalServerError},
}

// statusOf returns the status of a kind of error, zero if it is unknown.
func statusOf(word string) int {
	plain := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' {
			return r
		}
		return -1
	}, strings.ToLower(word))
	for _, s := range statuses {
		if strings.Contains(plain, s.part) {
			return s.status
		}
	}
	return 0
}
