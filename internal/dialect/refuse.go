package dialect

import (
	"encoding/base64"
	"io"
	"strings"

	"modelgate/internal/apierr"
	"modelgate/internal/grammar"
)

// Codes of errors found before anything is sent.
const (
	CodeMissing     = grammar.CodeMissing
	CodeType        = grammar.CodeType
	CodeValue       = grammar.CodeValue
	CodeUnsupported = "unsupported_parameter"
)

// Invalid returns an error about the element of a request at path, for example
// messages[2].content[0].
func Invalid(path, code, format string, args ...any) *apierr.Error {
	return apierr.New(apierr.Invalid, path+": "+format, args...).WithParam(path).WithCode(code)
}

// Unsupported returns an error about the element at path, which the target does
// not support.
func Unsupported(path string, to RequestTarget, format string, args ...any) *apierr.Error {
	args = append([]any{to.Provider, to.Model}, args...)
	return Invalid(path, CodeUnsupported, "provider %q does not support this with model %.100q: "+format, args...)
}

// StandardBase64 returns base64 data in the standard alphabet with padding. Most
// data already is, and is returned as it is.
func StandardBase64(data string) string {
	if strings.ContainsAny(data, "-_") {
		data = urlSafe.Replace(data)
	}
	if n := (len(data) - strings.Count(data, "\n") - strings.Count(data, "\r")) % 4; n > 1 {
		data += "=="[:4-n]
	}
	return data
}

var urlSafe = strings.NewReplacer("-", "+", "_", "/")

// CheckBase64 returns an error if the data at path is not base64.
func CheckBase64(path, data string) *apierr.Error {
	encoding := base64.StdEncoding
	if strings.ContainsAny(data, "-_") {
		encoding = base64.URLEncoding
	}
	if len(data)%4 != 0 {
		encoding = encoding.WithPadding(base64.NoPadding)
	}
	if data == "" {
		return Invalid(path, CodeValue, "must be base64, and is empty")
	}
	if _, err := io.Copy(io.Discard, base64.NewDecoder(encoding, strings.NewReader(data))); err != nil {
		return Invalid(path, CodeValue, "must be base64: %v", err)
	}
	return nil
}
