package saml

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
)

// Limits of a document.
const (
	maxDocument   = 256 << 10 // bytes, inflated
	maxDepth      = 64
	maxElements   = 5000 // about 2,000 groups
	maxAttributes = 64   // of one element, with namespace declarations
)

// Namespaces.
const (
	assertionSpace  = "urn:oasis:names:tc:SAML:2.0:assertion"
	protocolSpace   = "urn:oasis:names:tc:SAML:2.0:protocol"
	metadataSpace   = "urn:oasis:names:tc:SAML:2.0:metadata"
	signatureSpace  = "http://www.w3.org/2000/09/xmldsig#"
	encryptionSpace = "http://www.w3.org/2001/04/xmlenc#"
	xmlSpace        = "http://www.w3.org/XML/1998/namespace"
)

// spaces are the namespaces of the names that decide what a document means. An element with
// such a name is refused in another namespace, since some parsers ignore those.
var spaces = map[string]string{
	"Response": protocolSpace, "Assertion": assertionSpace, "EncryptedAssertion": assertionSpace, "NameID": assertionSpace,
	"LogoutRequest": protocolSpace, "LogoutResponse": protocolSpace, "Signature": signatureSpace, "SignedInfo": signatureSpace,
}

// Algorithms of signatures. Those with SHA-1 and those with a shared key are left out.
const (
	enveloped = "http://www.w3.org/2000/09/xmldsig#enveloped-signature"
	canonical = "http://www.w3.org/2001/10/xml-exc-c14n#"
)

var (
	digests = []string{
		"http://www.w3.org/2001/04/xmlenc#sha256", "http://www.w3.org/2001/04/xmldsig-more#sha384", "http://www.w3.org/2001/04/xmlenc#sha512",
	}
	signatures = []string{
		"http://www.w3.org/2001/04/xmldsig-more#rsa-sha256", "http://www.w3.org/2001/04/xmldsig-more#rsa-sha384",
		"http://www.w3.org/2001/04/xmldsig-more#rsa-sha512", "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha256",
		"http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha384", "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha512",
	}
)

// outline is what a scan finds in a document, none of which is verified.
type outline struct {
	root      xml.Name
	attrs     map[string]string // of the root, without a namespace
	signed    bool              // the root has a signature
	assertion assertionOutline
}

type assertionOutline struct {
	count     int // of assertions, encrypted or not
	encrypted bool
	signed    bool
}

// scanner reads a document once, from start to end, and refuses what could be read otherwise
// than it is verified.
type scanner struct {
	outline
	roots    []xml.Name // allowed as root
	stack    []frame
	ids      map[string]bool
	elements int
}

// frame is an open element.
type frame struct {
	name     xml.Name
	id       string
	prefixes []binding // declared by the element
	parts    []string  // names of children, of an element of a signature
}

type binding struct{ prefix, space string }

// scan checks the form of a document whose root is one of roots.
func scan(text []byte, roots ...xml.Name) (*outline, error) {
	if len(text) > maxDocument {
		return nil, refuse("size", "the document has more than %d bytes", maxDocument)
	}
	s := &scanner{roots: roots, ids: make(map[string]bool)}
	d := xml.NewDecoder(bytes.NewReader(text))
	for first := true; ; first = false {
		t, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = s.token(t, first)
		} else {
			err = refuse("xml", "the document is not well-formed: %s", short(err))
		}
		if err != nil {
			return nil, err
		}
	}
	if s.root.Local == "" {
		return nil, refuse("xml", "the document is empty")
	}
	return &s.outline, nil
}

func short(err error) string {
	text := strings.ToValidUTF8(err.Error(), "")
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	return text
}

func (s *scanner) token(t xml.Token, first bool) error {
	switch t := t.(type) {
	case xml.Directive:
		return refuse("doctype", "the document has a document type or entities")
	case xml.Comment:
		if !s.isMetadata() {
			return refuse("comment", "the document has a comment")
		}
	case xml.ProcInst:
		if (!first || t.Target != "xml") && !s.isMetadata() {
			return refuse("instruction", "the document has a processing instruction")
		}
	case xml.CharData:
		if len(s.stack) == 0 && len(bytes.TrimSpace(t)) > 0 {
			return refuse("xml", "the document has text outside its root")
		}
	case xml.StartElement:
		return s.start(t)
	case xml.EndElement:
		return s.end()
	}
	return nil
}

// isMetadata reports whether the document is metadata, which an administrator vouches for: it
// may have comments, and signatures that nobody verifies.
func (s *scanner) isMetadata() bool { return s.roots[0].Space == metadataSpace }

// start checks an element and its attributes.
func (s *scanner) start(t xml.StartElement) error {
	s.elements++
	switch {
	case len(s.stack) >= maxDepth:
		return refuse("depth", "the document is nested deeper than %d", maxDepth)
	case s.elements > maxElements:
		return refuse("elements", "the document has more than %d elements", maxElements)
	case len(t.Attr) > maxAttributes:
		return refuse("attributes", "an element has more than %d attributes", maxAttributes)
	case len(s.stack) == 0 && s.root.Local != "":
		return refuse("xml", "the document has two roots")
	case len(s.stack) == 0 && !slices.Contains(s.roots, t.Name):
		return refuse("structure", "the document is another one: its root is %.100q", t.Name.Local)
	}
	f := frame{name: t.Name}
	if err := s.checkAttributes(t, &f); err != nil {
		return err
	}
	if err := s.checkNamespaces(t, &f); err != nil {
		return err
	}
	if len(s.stack) == 0 {
		s.root, s.attrs = t.Name, make(map[string]string, len(t.Attr))
		for _, a := range t.Attr {
			if a.Name.Space == "" {
				s.attrs[a.Name.Local] = a.Value
			}
		}
	}
	if !s.isMetadata() {
		if err := s.place(t); err != nil {
			return err
		}
	}
	s.stack = append(s.stack, f)
	return nil
}

// checkAttributes checks the attributes of an element, and remembers its id and namespaces.
func (s *scanner) checkAttributes(t xml.StartElement, f *frame) error {
	for i, a := range t.Attr {
		if slices.ContainsFunc(t.Attr[:i], func(b xml.Attr) bool { return a.Name == b.Name }) {
			return refuse("attributes", "an element has the attribute %.100q twice", a.Name.Local)
		}
		switch {
		case a.Name.Space == "xmlns", a.Name.Space == "" && a.Name.Local == "xmlns":
			prefix := a.Name.Local
			if a.Name.Space == "" {
				prefix = ""
			}
			f.prefixes = append(f.prefixes, binding{prefix, a.Value})
		case (a.Name.Space == xmlSpace || a.Name.Space == "xml") && a.Name.Local != "lang":
			return refuse("base", "the document has an attribute xml:%.100s", a.Name.Local)
		case strings.EqualFold(a.Name.Local, "ID"):
			if a.Name.Space != "" {
				return refuse("attributes", "the document has an id in a namespace")
			}
			if f.id != "" || s.ids[a.Value] {
				return refuse("duplicate_id", "the document has an id twice")
			}
			s.ids[a.Value], f.id = true, a.Value
		}
	}
	return nil
}

// checkNamespaces checks what an element's prefixes stand for: a prefix has one meaning in the
// document, apart from the empty one, which elements of usual providers declare again.
func (s *scanner) checkNamespaces(t xml.StartElement, f *frame) error {
	for _, b := range f.prefixes {
		if b.prefix != "" && (b.prefix == "xml" || b.prefix == "xmlns" || b.space == "") || b.space != "" && !strings.Contains(b.space, ":") {
			return refuse("namespace", "the document declares the prefix %.100q for %.100q", b.prefix, b.space)
		}
		for i := range s.stack {
			for _, outer := range s.stack[i].prefixes {
				if b.prefix != "" && outer.prefix == b.prefix && outer.space != b.space {
					return refuse("namespace", "the document gives the prefix %.100q another meaning", b.prefix)
				}
			}
		}
	}
	if want := spaces[t.Name.Local]; want != "" && t.Name.Space != want && !s.isMetadata() {
		return refuse("namespace", "the document has a %s of the namespace %.100q", t.Name.Local, t.Name.Space)
	}
	return nil
}

// end closes an element. One of a signature must be complete.
func (s *scanner) end() error {
	f := s.stack[len(s.stack)-1]
	s.stack = s.stack[:len(s.stack)-1]
	if f.name.Space != signatureSpace || s.isMetadata() {
		return nil
	}
	for _, e := range parts {
		if e.name == f.name.Local && len(f.parts) < e.least {
			return refuse(e.reason, "a %s is incomplete", e.name)
		}
	}
	return nil
}
