package dialect

import (
	"strings"

	"modelgate/internal/model/llm"
)

// signatureMark begins a signature that replaces another vendor's.
const signatureMark = "mg1."

// Unsigned marks content in responses of a dialect whose own vendor signs, if
// another vendor's model made it. Clients send back what they receive; the mark
// shows that the content is not the vendor's own, which rejects its own content
// without a signature.
const Unsigned = signatureMark + "none.-"

// MarkSignature returns s in the form of a dialect whose vendor is own:
// unchanged if it is of that vendor, otherwise marked with its vendor. A
// missing signature is the empty string.
func MarkSignature(own llm.Vendor, s llm.Signature) string {
	if s.Vendor == own || s.Value == "" {
		return s.Value
	}
	return signatureMark + string(s.Vendor) + "." + s.Value
}

// ReadSignature undoes MarkSignature. It returns no signature for Unsigned.
func ReadSignature(own llm.Vendor, text string) llm.Signature {
	if text == "" || text == Unsigned {
		return llm.Signature{}
	}
	if marked, ok := strings.CutPrefix(text, signatureMark); ok {
		if vendor, value, ok := strings.Cut(marked, "."); ok && value != "" {
			return llm.Signature{Vendor: llm.Vendor(vendor), Value: value}
		}
	}
	return llm.Signature{Vendor: own, Value: text}
}
