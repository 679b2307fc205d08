package dialect

import (
	"encoding/base64"
	"io"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/format/grammar"
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

// StandardBase64 returns base64 data in one line, in the standard alphabet and with padding,
// the only form that all providers take. Most data already is, and is returned as it is.
func StandardBase64(data string) string {
	if strings.ContainsAny(data, "-_\r\n\t ") {
		data = oneLine.Replace(data)
	}
	if n := len(data) % 4; n > 1 {
		data += "=="[:4-n]
	}
	return data
}

// oneLine turns the URL-safe alphabet into the standard one, and removes the line breaks that
// many programs put after 76 characters.
// https://www.rfc-editor.org/rfc/rfc2045#section-6.8
var oneLine = strings.NewReplacer("-", "+", "_", "/", "\r", "", "\n", "", "\t", "", " ", "")

// ParseBase64 returns the base64 data at path as [StandardBase64] does, or an error if it is
// none.
func ParseBase64(path, data string) (string, *apierr.Error) {
	data = StandardBase64(data)
	if data == "" {
		return "", Invalid(path, CodeValue, "must be base64, and is empty")
	}
	if _, err := io.Copy(io.Discard, base64.NewDecoder(base64.StdEncoding, strings.NewReader(data))); err != nil {
		return "", Invalid(path, CodeValue, "must be base64: %v", err)
	}
	return data, nil
}
