package gemini

import (
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/llm"
)

// redactedMark begins the value of a signature that is thinking which only its
// vendor can read: the protocol has no other place to say so, and a value of
// Google's, which is base64, never begins so.
const redactedMark = "redacted."

// marked is the text of a signature, of thinking that is redacted or not.
func marked(s llm.Signature, redacted bool) string {
	if redacted && s.Value != "" {
		s.Value = redactedMark + s.Value
	}
	return dialect.MarkSignature(llm.Google, s)
}

// unredacted undoes marked.
func unredacted(s llm.Signature) (bool, llm.Signature) {
	value, redacted := strings.CutPrefix(s.Value, redactedMark)
	s.Value = value
	return redacted, s
}
