package samltest

import (
	"crypto/x509"

	"github.com/beevik/etree"
	"github.com/crewjam/saml/xmlenc"
)

// Encrypt returns a change of a response that encrypts its assertion for a certificate. CBC is
// the mode without authentication.
func Encrypt(cert *x509.Certificate, cbc bool) func(response *etree.Element) {
	return func(response *etree.Element) {
		assertion := assertionOf(response)
		e := xmlenc.OAEP()
		e.BlockCipher = xmlenc.AES256GCM
		if cbc {
			e.BlockCipher = xmlenc.AES256CBC
		}
		data, err := e.Encrypt(cert, []byte(textOf(assertion)), nil)
		if err != nil {
			panic(err)
		}
		data.CreateAttr("Type", "http://www.w3.org/2001/04/xmlenc#Element")
		response.RemoveChild(assertion)
		around := response.CreateElement("saml:EncryptedAssertion")
		around.CreateAttr("xmlns:saml", assertionSpace)
		around.AddChild(data)
	}
}

// ForgeInside returns a change of a response that, before next, replaces the assertion by an
// unsigned one of an attacker.
func ForgeInside(next func(response *etree.Element)) func(response *etree.Element) {
	return func(response *etree.Element) {
		signed := assertionOf(response)
		forged := forge(signed)
		response.RemoveChild(signed)
		response.AddChild(forged)
		next(response)
	}
}

// CommentInside returns a change of a response that, before next, splits the subject with a
// comment.
func CommentInside(next func(response *etree.Element)) func(response *etree.Element) {
	return func(response *etree.Element) {
		name := response.FindElement("./Assertion/Subject/NameID")
		text := name.Text()
		name.SetText(text[:3])
		name.CreateComment("")
		name.CreateText(text[3:])
		next(response)
	}
}
