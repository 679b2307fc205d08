package samltest

import (
	"fmt"
	"strings"

	"github.com/beevik/etree"
)

// Attack is a response that must be refused.
type Attack struct {
	Name   string
	Reason string // of the refusal
	change func(p *Provider, r *Response)
}

// Document returns the response of an attack that is otherwise r.
func (a Attack) Document(p *Provider, r Response) string {
	a.change(p, &r)
	return p.Document(r)
}

// evil is the subject of an attacker.
const evil = "admin@example.com"

// forge returns a copy of a signed assertion with another subject, its own id and no
// signature.
func forge(assertion *etree.Element) *etree.Element {
	out := assertion.Copy()
	out.CreateAttr("ID", "forged")
	out.FindElement("./Subject/NameID").SetText(evil)
	if s := out.FindElement("./Signature"); s != nil {
		out.RemoveChild(s)
	}
	return out
}

// unsigned returns a copy without its own signature.
func unsigned(el *etree.Element) *etree.Element {
	out := el.Copy()
	if s := out.FindElement("./Signature"); s != nil {
		out.RemoveChild(s)
	}
	return out
}

func assertionOf(response *etree.Element) *etree.Element { return response.FindElement("./Assertion") }

// wrap changes a response whose assertion is signed.
func wrap(change func(response, signed, forged *etree.Element)) func(*Provider, *Response) {
	return func(_ *Provider, r *Response) {
		r.AfterSign = func(response *etree.Element) {
			signed := assertionOf(response)
			change(response, signed, forge(signed))
		}
	}
}

// info changes what is signed of the assertion's signature.
func info(change func(signedInfo *etree.Element)) func(*Provider, *Response) {
	return func(_ *Provider, r *Response) { r.Assertion.Edit = change }
}

// raw replaces a text in the document, once it is signed.
func raw(before, after string) func(*Provider, *Response) {
	return func(_ *Provider, r *Response) {
		r.Raw = func(text string) string {
			if !strings.Contains(text, before) {
				panic("the response has no " + before)
			}
			return strings.Replace(text, before, after, 1)
		}
	}
}

func inside(parent string, space string) func(*Provider, *Response) {
	return wrap(func(response, signed, forged *etree.Element) {
		response.RemoveChild(signed)
		prefix, _, _ := strings.Cut(parent, ":")
		around := response.CreateElement(parent)
		around.CreateAttr("xmlns:"+prefix, space)
		around.AddChild(signed)
		response.AddChild(forged)
	})
}

// wrapResponse replaces a signed response by what change makes of it.
func wrapResponse(change func(original *etree.Element) string) func(*Provider, *Response) {
	return func(_ *Provider, r *Response) {
		r.SignResponse = true
		r.Raw = func(text string) string { return change(parse(text)) }
	}
}

// Attacks returns all attacks.
func Attacks() []Attack {
	list := append(wrapping(), signatures()...)
	return append(list, documents()...)
}

func wrapping() []Attack {
	object := func(signature, inside *etree.Element) {
		o := signature.CreateElement("ds:Object")
		o.AddChild(inside)
	}
	return []Attack{
		{"xsw1", "reference", wrapResponse(func(original *etree.Element) string {
			forged := original.Copy()
			forged.CreateAttr("ID", "forged")
			forged.FindElement("./Assertion/Subject/NameID").SetText(evil)
			object(forged.FindElement("./Signature"), unsigned(original))
			return textOf(forged)
		})},
		{"xsw2", "wrapping", wrapResponse(func(original *etree.Element) string {
			forged := unsigned(original)
			forged.CreateAttr("ID", "forged")
			forged.FindElement("./Assertion/Subject/NameID").SetText(evil)
			forged.AddChild(unsigned(original))
			forged.AddChild(original.FindElement("./Signature").Copy())
			return textOf(forged)
		})},
		{"xsw3", "assertions", wrap(func(response, signed, forged *etree.Element) { response.InsertChildAt(signed.Index(), forged) })},
		{"xsw4", "wrapping", wrap(func(response, signed, forged *etree.Element) {
			response.RemoveChild(signed)
			forged.AddChild(signed)
			response.AddChild(forged)
		})},
		{"xsw5", "reference", wrap(func(response, signed, forged *etree.Element) {
			signature := signed.FindElement("./Signature")
			forged.InsertChildAt(1, signature.Copy())
			response.RemoveChild(signed)
			response.AddChild(forged)
			response.AddChild(unsigned(signed))
		})},
		{"xsw6", "reference", wrap(func(response, signed, forged *etree.Element) {
			signature := signed.FindElement("./Signature").Copy()
			object(signature, unsigned(signed))
			forged.InsertChildAt(1, signature)
			response.RemoveChild(signed)
			response.AddChild(forged)
		})},
		{"xsw7", "wrapping", wrap(func(response, signed, forged *etree.Element) {
			e := etree.NewElement("samlp:Extensions")
			e.AddChild(forged)
			response.InsertChildAt(signed.Index(), e)
		})},
		{"xsw8", "signature", wrap(func(response, signed, forged *etree.Element) {
			object(signed.FindElement("./Signature"), forged)
		})},
		{"two_assertions", "assertions", func(p *Provider, r *Response) {
			r.AfterSign = func(response *etree.Element) {
				second := unsigned(assertionOf(response))
				second.CreateAttr("ID", "second")
				p.Sign(second, Signing{})
				response.AddChild(second)
			}
		}},
		{"two_responses", "wrapping", wrapResponse(func(original *etree.Element) string {
			second := original.Copy()
			second.CreateAttr("ID", "second")
			second.RemoveChild(second.FindElement("./Assertion"))
			original.AddChild(second)
			return textOf(original)
		})},
		{"in_extensions", "wrapping", inside("samlp:Extensions", protocolSpace)},
		{"in_object", "wrapping", inside("ds:Object", signatureSpace)},
		{"in_advice", "wrapping", wrap(func(_, signed, forged *etree.Element) {
			signed.CreateElement("saml:Advice").AddChild(forged)
		})},
		{"another_namespace", "namespace", wrap(func(response, _, _ *etree.Element) {
			response.AddChild(parse(`<e:Assertion xmlns:e="urn:e"><e:NameID>` + evil + `</e:NameID></e:Assertion>`))
		})},
		{"duplicate_ids", "duplicate_id", wrap(func(response, signed, _ *etree.Element) {
			response.CreateAttr("ID", signed.SelectAttrValue("ID", ""))
		})},
		{"duplicate_ids_of_other_spelling", "duplicate_id", wrap(func(response, signed, _ *etree.Element) {
			response.FindElement("./Status").CreateAttr("id", signed.SelectAttrValue("ID", ""))
		})},
		{"id_in_namespace", "attributes", wrap(func(response, signed, _ *etree.Element) {
			response.CreateAttr("samlp:ID", "other")
		})},
		{"attribute_twice", "attributes", raw(`Version="2.0"`, `Version="2.0" Version="1.1"`)},
	}
}

func signatures() []Attack {
	reference := func(s *etree.Element) *etree.Element { return s.FindElement("./Reference") }
	return []Attack{
		{"unsigned", "unsigned_assertion", func(_ *Provider, r *Response) { r.Assertion.Omit = true }},
		{"response_signed_alone", "unsigned_assertion", func(_ *Provider, r *Response) { r.Assertion.Omit, r.SignResponse = true, true }},
		{"sha1", "algorithm", func(_ *Provider, r *Response) { r.Assertion.SHA1 = true }},
		{"digest_sha1", "algorithm", info(func(s *etree.Element) {
			reference(s).FindElement("./DigestMethod").CreateAttr("Algorithm", signatureSpace+"sha1")
		})},
		{"hmac", "algorithm", info(func(s *etree.Element) {
			s.FindElement("./SignatureMethod").CreateAttr("Algorithm", "http://www.w3.org/2001/04/xmldsig-more#hmac-sha256")
		})},
		{"empty_reference", "reference", info(func(s *etree.Element) { reference(s).CreateAttr("URI", "") })},
		{"no_reference", "reference", info(func(s *etree.Element) { s.RemoveChild(reference(s)) })},
		{"reference_without_uri", "reference", info(func(s *etree.Element) { reference(s).RemoveAttr("URI") })},
		{"other_reference", "reference", info(func(s *etree.Element) { reference(s).CreateAttr("URI", "#other") })},
		{"xpointer_reference", "reference", info(func(s *etree.Element) {
			reference(s).CreateAttr("URI", "#xpointer(id('"+strings.TrimPrefix(reference(s).SelectAttrValue("URI", ""), "#")+"'))")
		})},
		{"two_references", "reference", info(func(s *etree.Element) { s.AddChild(reference(s).Copy()) })},
		{"two_signed_infos", "signature", wrap(func(_, signed, _ *etree.Element) {
			s := signed.FindElement("./Signature")
			s.InsertChildAt(0, s.FindElement("./SignedInfo").Copy())
		})},
		{"two_signatures", "signature", wrap(func(_, signed, _ *etree.Element) { signed.AddChild(signed.FindElement("./Signature").Copy()) })},
		{"no_value", "signature", wrap(func(_, signed, _ *etree.Element) {
			s := signed.FindElement("./Signature")
			s.RemoveChild(s.FindElement("./SignatureValue"))
		})},
		{"xslt", "transform", transform("http://www.w3.org/TR/1999/REC-xslt-19991116")},
		{"xpath", "transform", transform("http://www.w3.org/2002/06/xmldsig-filter2")},
		{"base64_transform", "transform", transform(signatureSpace + "base64")},
		{"no_transforms", "transform", info(func(s *etree.Element) {
			t := s.FindElement("./Reference/Transforms")
			for _, e := range t.ChildElements() {
				t.RemoveChild(e)
			}
		})},
		{"with_comments", "transform", info(func(s *etree.Element) {
			s.FindElements("./Reference/Transforms/Transform")[1].CreateAttr("Algorithm", "http://www.w3.org/2001/10/xml-exc-c14n#WithComments")
		})},
		{"signed_info_with_comments", "transform", info(func(s *etree.Element) {
			s.FindElement("./CanonicalizationMethod").CreateAttr("Algorithm", "http://www.w3.org/2001/10/xml-exc-c14n#WithComments")
		})},
		{"inclusive", "transform", info(func(s *etree.Element) {
			s.FindElement("./CanonicalizationMethod").CreateAttr("Algorithm", "http://www.w3.org/TR/2001/REC-xml-c14n-20010315")
		})},
		{"changed_subject", "signature", raw(">subject-1<", ">"+evil+"<")},
		{"changed_time", "signature", raw("SessionIndex=", `SessionNotOnOrAfter="2099-01-01T00:00:00Z" SessionIndex=`)},
	}
}

func transform(algorithm string) func(*Provider, *Response) {
	return info(func(s *etree.Element) {
		t := s.FindElement("./Reference/Transforms").CreateElement("ds:Transform")
		t.CreateAttr("Algorithm", algorithm)
	})
}

func documents() []Attack {
	front := func(prefix string) func(*Provider, *Response) {
		return func(_ *Provider, r *Response) { r.Raw = func(text string) string { return prefix + text } }
	}
	return []Attack{
		{"comment", "comment", func(_ *Provider, r *Response) {
			r.NameID = "admin@example.com.evil.example"
			r.Raw = func(text string) string {
				return strings.Replace(text, "example.com.evil", "example.com<!-- -->.evil", 1)
			}
		}},
		{"comment_in_audience", "comment", raw("</saml:Audience>", "<!-- --></saml:Audience>")},
		{"instruction", "instruction", raw(">subject-1<", ">sub<?x y?>ject-1<")},
		{"doctype", "doctype", front(`<!DOCTYPE Response>`)},
		{"entities", "doctype", func(_ *Provider, r *Response) {
			r.Raw = func(text string) string {
				return `<!DOCTYPE r [<!ENTITY name "` + evil + `">]>` + strings.Replace(text, ">subject-1<", ">&name;<", 1)
			}
		}},
		{"external_entity", "doctype", front(`<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]>`)},
		{"unknown_entity", "xml", raw(">subject-1<", ">&name;<")},
		{"namespace_redefined", "namespace", wrap(func(_, signed, _ *etree.Element) {
			signed.FindElement("./Subject").CreateAttr("xmlns:saml", "urn:another")
		})},
		{"relative_namespace", "namespace", wrap(func(response, _, _ *etree.Element) { response.CreateAttr("xmlns:x", "1") })},
		{"empty_namespace", "namespace", wrap(func(response, _, _ *etree.Element) { response.CreateAttr("xmlns:x", "") })},
		{"xml_base", "base", wrap(func(_, signed, _ *etree.Element) { signed.CreateAttr("xml:base", "https://example.net") })},
		{"xml_id", "base", wrap(func(_, signed, _ *etree.Element) { signed.CreateAttr("xml:id", "another") })},
		{"another_encoding", "xml", front(`<?xml version="1.0" encoding="UTF-16"?>`)},
		{"two_roots", "xml", func(_ *Provider, r *Response) { r.Raw = func(text string) string { return text + text } }},
		{"text_behind", "xml", func(_ *Provider, r *Response) { r.Raw = func(text string) string { return text + "more" } }},
		{"cut", "xml", func(_ *Provider, r *Response) { r.Raw = func(text string) string { return text[:len(text)/2] } }},
		{"deep", "depth", func(_ *Provider, r *Response) {
			r.Raw = func(string) string { return nested(1000) }
		}},
		{"many_attributes", "attributes", func(_ *Provider, r *Response) {
			var more strings.Builder
			for i := range 10_000 {
				fmt.Fprintf(&more, ` a%d=""`, i)
			}
			raw(` Version="2.0"`, ` Version="2.0"`+more.String())(nil, r)
		}},
		{"many_elements", "elements", func(_ *Provider, r *Response) {
			raw("<samlp:Status>", "<samlp:Status>"+strings.Repeat("<x/>", 10_000))(nil, r)
		}},
		{"large", "size", raw("<samlp:Status>", "<samlp:Status>"+strings.Repeat(" ", 256<<10))},
	}
}

func nested(depth int) string {
	return `<samlp:Response xmlns:samlp="` + protocolSpace + `">` + strings.Repeat("<a>", depth) + strings.Repeat("</a>", depth) +
		`</samlp:Response>`
}
