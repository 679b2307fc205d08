package gemini

import (
	"encoding/base64"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/llm"
)

// redactedMark begins the value of a signature that is thinking which only its
// vendor can read: the protocol has no other place to say so, and a value of
// Google's, which is base64, never begins so.
const redactedMark = "redacted."

// marked is the text of a signature, of thinking that is redacted or not. It is
// base64, as clients demand of the field: they decode it.
func marked(s llm.Signature, redacted bool) string {
	if redacted && s.Value != "" {
		s.Value = redactedMark + s.Value
	}
	text := dialect.MarkSignature(llm.Google, s)
	if dialect.IsMarkedSignature(text) {
		return base64.StdEncoding.EncodeToString([]byte(text))
	}
	return text
}

// unsigned is on calls of other models, which Google refuses as they are.
var unsigned = base64.StdEncoding.EncodeToString([]byte(dialect.Unsigned))

// plain returns the text that a signature of another vendor was before it became
// base64, and any other as it is. Some clients write base64 for addresses.
func plain(text string) string {
	if !strings.HasPrefix(text, markBegins) {
		return text
	}
	standard := strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(text), "=")
	if b, err := base64.RawStdEncoding.DecodeString(standard); err == nil && dialect.IsMarkedSignature(string(b)) {
		return string(b)
	}
	return text
}

// markBegins is how the base64 of a marked signature begins.
var markBegins = base64.RawStdEncoding.EncodeToString([]byte("mg1"))

// unredacted undoes marked.
func unredacted(s llm.Signature) (bool, llm.Signature) {
	value, redacted := strings.CutPrefix(s.Value, redactedMark)
	s.Value = value
	return redacted, s
}
