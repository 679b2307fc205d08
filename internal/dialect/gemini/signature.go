package gemini

import (
	"encoding/base64"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
)

// redactedMark begins the signature of redacted thinking, which only its vendor
// can read. The protocol has no other place to mark it. Google's own signatures
// are base64 and never begin with it.
const redactedMark = "redacted."

// marked returns the signature of thinking, redacted or not, in base64, since
// clients decode the field.
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

// unsigned is sent with calls of other models, which Google rejects unmarked.
var unsigned = base64.StdEncoding.EncodeToString([]byte(dialect.Unsigned))

// plain returns a marked signature of another vendor without its base64, and
// any other signature unchanged. Some clients use the URL-safe alphabet.
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

// markBegins is the start of a marked signature in base64.
var markBegins = base64.RawStdEncoding.EncodeToString([]byte("mg1"))

// unredacted undoes marked.
func unredacted(s llm.Signature) (bool, llm.Signature) {
	value, redacted := strings.CutPrefix(s.Value, redactedMark)
	s.Value = value
	return redacted, s
}
