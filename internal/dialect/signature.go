package dialect

import (
	"strings"

	"modelgate/internal/llm"
)

// signatureMark begins a signature that stands instead of another vendor's.
const signatureMark = "mg1."

// Unsigned is in answers where a dialect's own vendor signs and another
// didn't. Clients send back what they were given: what bears it is known as not
// that vendor's, which refuses its own words without a signature.
const Unsigned = signatureMark + "none.-"

// MarkSignature returns s as a dialect whose own vendor is own carries it: as
// it is when it is of that vendor, else marked with the vendor whose models
// understand it. No signature is the empty text.
func MarkSignature(own llm.Vendor, s llm.Signature) string {
	if s.Vendor == own || s.Value == "" {
		return s.Value
	}
	return signatureMark + string(s.Vendor) + "." + s.Value
}

// ReadSignature undoes MarkSignature, and reads Unsigned as no signature.
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
