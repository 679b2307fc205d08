package tools

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"

	"modelgate/internal/format/jsonedit"
)

// paramHeader is a property of a tool's arguments that a header repeats.
type paramHeader struct {
	name string   // in canonical form, with its prefix
	path []string // of the property in the arguments
}

// checkParams compares the headers that repeat arguments with those that the client sends.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#server-behavior-for-custom-headers
func (r *relay) checkParams() *rpcError {
	if r.definition == nil {
		return nil
	}
	arguments, _ := r.request.msg.params.Find("arguments")
	for _, h := range r.definition.headers {
		want, has := h.value(arguments)
		sent := r.request.http.Header.Values(h.name)
		if !has && len(sent) == 0 {
			continue
		}
		if !has || len(sent) != 1 {
			return newError(codeHeaderMismatch, "the header "+h.name+" must repeat its argument, and be absent without it")
		}
		if got, ok := decodeHeader(sent[0]); !ok || got != want && !sameInteger(got, want) {
			return newError(codeHeaderMismatch, "the header "+h.name+" and its argument differ")
		}
	}
	return nil
}

// sameInteger reports whether two texts are the same integer.
func sameInteger(a, b string) bool {
	x, err := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	return err == nil && err2 == nil && x == y && x == float64(int64(x))
}

// value returns what the header repeats, and false if there is nothing.
func (h *paramHeader) value(arguments jsonedit.Value) (string, bool) {
	v := arguments
	for _, name := range h.path {
		var ok bool
		if v, ok = v.Get(name); !ok {
			return "", false
		}
	}
	if text, ok := v.Text(); ok {
		return text, true
	}
	if v.Kind() == jsonedit.Number || v.Kind() == jsonedit.Bool {
		return string(v.Raw()), true
	}
	return "", false
}

// paramHeaders returns the headers that repeat arguments as the server gets them, and those
// of the client that the tool's definition does not have.
func (r *relay) paramHeaders() http.Header {
	var out http.Header
	set := func(name string, values ...string) {
		if out == nil {
			out = make(http.Header)
		}
		out[name] = values
	}
	for name, values := range r.request.http.Header {
		if strings.HasPrefix(name, headerParam) && !r.request.tools.HoldsKey(values) {
			set(name, values...)
		}
	}
	if r.definition == nil || len(r.definition.headers) == 0 {
		return out
	}
	arguments, _ := r.request.msg.params.Find("arguments")
	if r.call != nil {
		if v, err := jsonedit.ParseValue(r.call.Arguments()); err == nil {
			arguments = v
		}
	}
	for _, h := range r.definition.headers {
		if text, has := h.value(arguments); has {
			set(h.name, encodeHeader(text))
		} else if out != nil {
			delete(out, h.name)
		}
	}
	return out
}

// encodeHeader returns a text as a header that repeats a part of the body has it.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#value-encoding
func encodeHeader(text string) string {
	plain := text == strings.TrimSpace(text) && !(strings.HasPrefix(text, encodedBegin) && strings.HasSuffix(text, encodedEnd))
	for _, c := range []byte(text) {
		plain = plain && c >= 0x20 && c <= 0x7e
	}
	if plain {
		return text
	}
	return encodedBegin + base64.StdEncoding.EncodeToString([]byte(text)) + encodedEnd
}
