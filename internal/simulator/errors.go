package simulator

import (
	"encoding/json"
	"net/http"
	"strconv"
)

const (
	invalidRequest = "invalid_request_error"
	serverError    = "server_error"
)

// A providerError is the body of an error. Empty param and code become null.
type providerError struct {
	kind, param, code, message string
}

var (
	badKey = providerError{kind: invalidRequest,
		code: "invalid_api_key", message: "the API key is missing or wrong; send the key the simulator was started with"}
	twoKeys = providerError{kind: invalidRequest, code: "InvalidArgument",
		message: "the address is signed and there is a credential as well; send only one of them"}
	tooLarge = providerError{kind: invalidRequest,
		code: "request_too_large", message: "the body is larger than the simulator reads; raise its limit or send less"}
	tooLong = providerError{kind: invalidRequest, param: "messages", code: "context_length_exceeded",
		message: "this model's maximum context length is 8192 tokens, and the messages are longer; shorten them"}
	filtered = providerError{kind: invalidRequest,
		param: "prompt", code: "content_filter", message: "the request was stopped by the content filter; change the prompt"}
	unknownModel = providerError{kind: invalidRequest,
		code: "model_not_found", message: "the model does not exist or you have no access to it"}
	prefilled = providerError{kind: invalidRequest,
		param: "messages", message: "this model takes no prefill: the last message must not be the assistant's"}
	noFile    = providerError{kind: invalidRequest, param: "id", code: "file_not_found", message: "there is no such file; upload it first"}
	noContent = providerError{kind: invalidRequest,
		param: "id", code: "file_too_large", message: "the file was larger than the simulator keeps; only its size and sum are known"}
	midStream = providerError{kind: serverError, message: "the server had an error while it was answering; try again"}
	// https://platform.openai.com/docs/api-reference/chat/create#chat_create-stream_options
	optionsWithoutStream = providerError{kind: invalidRequest,
		param: "stream_options", message: "the parameter stream_options is only allowed when stream is enabled"}
)

// missing returns the error for a missing parameter.
func missing(param string) providerError {
	return providerError{kind: invalidRequest, param: param, code: "missing_required_parameter", message: "you must provide the parameter " +
		param}
}

// mistyped returns the error for a parameter of another type.
func mistyped(param, want string) providerError {
	return providerError{kind: invalidRequest, param: param, code: "invalid_type", message: "the parameter " + param + " must be " + want}
}

// unreadable returns the error for invalid JSON, with its position.
func unreadable(s *scanner) providerError {
	return providerError{kind: invalidRequest, message: "the body is not valid JSON: mend it at byte " + strconv.Itoa(s.wrong)}
}

func (e *providerError) append(dst []byte) []byte {
	quoted := func(text string) []byte {
		if text == "" {
			return []byte("null")
		}
		b, _ := json.Marshal(text) // a string always marshals
		return b
	}
	dst = append(dst, `{"error":{"message":`...)
	dst = append(dst, quoted(e.message)...)
	dst = append(dst, `,"type":`...)
	dst = append(dst, quoted(e.kind)...)
	dst = append(dst, `,"param":`...)
	dst = append(dst, quoted(e.param)...)
	dst = append(dst, `,"code":`...)
	dst = append(dst, quoted(e.code)...)
	return append(dst, `}}`...)
}

// refuse sends an error response. Faults of the body apply to it as well.
func (x *exchange) refuse(status int, e providerError) {
	kind := typeJSON
	if x.protocol != nil {
		x.out = x.protocol.fail(x, x.out[:0], status, e)
		if x.protocol.errorType != nil {
			kind = x.protocol.errorType
		}
	} else {
		x.out = e.append(x.out[:0])
	}
	x.sendBody(status, kind, x.out)
}

// statusError returns the error for a status that the plan sets.
func statusError(status int) providerError {
	switch {
	case status == http.StatusUnauthorized:
		return badKey
	case status == http.StatusTooManyRequests:
		return providerError{kind: "requests", code: "rate_limit_exceeded", message: "rate limit reached; try again later"}
	case status == http.StatusNotFound:
		return unknownModel
	case status == http.StatusServiceUnavailable || status == 529:
		return providerError{kind: serverError, code: "overloaded", message: "the engine is overloaded; try again later"}
	case status >= 500:
		return providerError{kind: serverError, message: "the server had an error while processing the request"}
	default:
		return providerError{kind: invalidRequest, message: "the request was refused with status " + strconv.Itoa(status)}
	}
}
