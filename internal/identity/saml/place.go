package saml

import (
	"encoding/xml"
	"slices"
)

// part is an element of a signature.
type part struct {
	name     string
	reason   string // of a refusal
	children []string
	least    int
}

// parts are what the elements of a signature have: which children, each once, and at least
// how many of them.
var parts = []part{
	{"Signature", "signature", []string{"SignedInfo", "SignatureValue", "KeyInfo"}, 2},
	{"SignedInfo", "reference", []string{"CanonicalizationMethod", "SignatureMethod", "Reference"}, 3},
	{"Reference", "reference", []string{"Transforms", "DigestMethod", "DigestValue"}, 3},
	{"Transforms", "transform", []string{enveloped, canonical}, 2},
}

// place checks whether an element may be where it is.
func (s *scanner) place(t xml.StartElement) error {
	var parent frame
	if len(s.stack) > 0 {
		parent = s.stack[len(s.stack)-1]
	}
	switch t.Name {
	case xml.Name{Space: protocolSpace, Local: "Response"}, xml.Name{Space: protocolSpace, Local: "LogoutRequest"},
		xml.Name{Space: protocolSpace, Local: "LogoutResponse"}:
		if len(s.stack) > 0 {
			return refuse("wrapping", "the document has a %s inside", t.Name.Local)
		}
	case xml.Name{Space: assertionSpace, Local: "Assertion"}, xml.Name{Space: assertionSpace, Local: "EncryptedAssertion"}:
		return s.placeAssertion(t.Name.Local, parent)
	case xml.Name{Space: signatureSpace, Local: "Signature"}:
		return s.placeSignature(parent)
	case xml.Name{Space: signatureSpace, Local: "SignedInfo"}:
		if parent.name != (xml.Name{Space: signatureSpace, Local: "Signature"}) {
			return refuse("wrapping", "the document has a SignedInfo outside of a signature")
		}
	case xml.Name{Space: encryptionSpace, Local: "CipherReference"}:
		return refuse("encryption", "the document's encrypted data is elsewhere")
	}
	if parent.name.Space == signatureSpace {
		return s.placePart(t, &s.stack[len(s.stack)-1])
	}
	return nil
}

func (s *scanner) placeAssertion(name string, parent frame) error {
	switch {
	case len(s.stack) > 1, len(s.stack) == 1 && parent.name != xml.Name{Space: protocolSpace, Local: "Response"}:
		return refuse("wrapping", "the document has an assertion in its %.100s", parent.name.Local)
	case s.assertion.count > 0:
		return refuse("assertions", "the document has two assertions")
	}
	s.assertion.count++
	s.assertion.encrypted = name == "EncryptedAssertion"
	return nil
}

// placeSignature checks that a signature is of the root or of the assertion, and the only
// one.
func (s *scanner) placeSignature(parent frame) error {
	signed := &s.signed
	if len(s.stack) == 2 && parent.name == (xml.Name{Space: assertionSpace, Local: "Assertion"}) {
		signed = &s.assertion.signed
	} else if len(s.stack) != 1 {
		return refuse("wrapping", "the document has a signature in its %.100s", parent.name.Local)
	}
	if *signed {
		return refuse("signature", "the document has two signatures of one element")
	}
	*signed = true
	return nil
}

// placePart checks a child of an element of a signature.
func (s *scanner) placePart(t xml.StartElement, parent *frame) error {
	i := slices.IndexFunc(parts, func(e part) bool { return e.name == parent.name.Local })
	if i < 0 {
		return nil
	}
	e, name := parts[i], t.Name.Local
	if e.name == "Transforms" {
		name = attribute(t, "Algorithm")
	}
	switch {
	case t.Name.Space != signatureSpace, !slices.Contains(e.children, name), slices.Contains(parent.parts, name):
		return refuse(e.reason, "a %s has an unexpected %.100q", e.name, name)
	case name == "CanonicalizationMethod" && attribute(t, "Algorithm") != canonical:
		return refuse("transform", "the signature's canonicalisation is %.100q", attribute(t, "Algorithm"))
	case name == "SignatureMethod" && !slices.Contains(signatures, attribute(t, "Algorithm")),
		name == "DigestMethod" && !slices.Contains(digests, attribute(t, "Algorithm")):
		return refuse("algorithm", "the signature's algorithm is %.100q", attribute(t, "Algorithm"))
	case name == "Reference":
		owner := s.stack[len(s.stack)-3].id // of the element that the signature is in
		if owner == "" || attribute(t, "URI") != "#"+owner {
			return refuse("reference", "the signature is of another element than the one that it is in")
		}
	}
	parent.parts = append(parent.parts, name)
	return nil
}

func attribute(t xml.StartElement, name string) string {
	for _, a := range t.Attr {
		if a.Name.Space == "" && a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}
