package saml

import (
	"context"
	"crypto/x509"
	"encoding/xml"
	"errors"
	"strings"
	"time"

	"github.com/beevik/etree"
	crewjam "github.com/crewjam/saml"
	dsig "github.com/russellhaering/goxmldsig"
)

// verifier verifies the signatures of one message. It implements
// crewjam.SignedElementVerifier.
type verifier struct {
	certificates []*x509.Certificate
	now          time.Time
	verified     []string // names of the elements with a valid signature
}

// VerifySignature implements crewjam.SignatureVerifier.
func (v *verifier) VerifySignature(c *dsig.ValidationContext, el *etree.Element) error {
	_, err := v.VerifySignedElement(c, el)
	return err
}

// VerifySignedElement returns the element that is read: made from the bytes whose digest was
// verified. An assertion that was encrypted has its first scan here.
func (v *verifier) VerifySignedElement(c *dsig.ValidationContext, el *etree.Element) (*etree.Element, error) {
	if el.Tag == "Assertion" {
		text, err := textOf(el)
		if err != nil {
			return nil, refuse("xml", "the assertion cannot be read")
		}
		if _, err := scan(text, xml.Name{Space: assertionSpace, Local: "Assertion"}); err != nil {
			return nil, err
		}
	}
	var last error
	valid := false
	for _, cert := range v.certificates {
		if v.now.Before(cert.NotBefore) || v.now.After(cert.NotAfter) {
			continue
		}
		valid = true
		one := dsig.NewDefaultValidationContext(&dsig.MemoryX509CertificateStore{Roots: []*x509.Certificate{cert}})
		one.IdAttribute, one.Clock = c.IdAttribute, c.Clock
		signed, err := one.Validate(el)
		if err == nil {
			v.verified = append(v.verified, el.Tag)
			return signed, nil
		}
		if last == nil || !strings.Contains(err.Error(), untrusted) {
			last = err
		}
	}
	switch {
	case !valid:
		return nil, refuse("certificate", "all certificates of the provider have expired; enter its metadata again")
	case strings.Contains(last.Error(), untrusted):
		return nil, refuse("key", "the signature is by a key that is not in the provider's metadata")
	}
	return nil, refuse("signature", "the signature is not valid: %s", short(last))
}

// untrusted is in the error of a signature by another certificate.
const untrusted = "Could not verify certificate against trusted certs"

func textOf(el *etree.Element) ([]byte, error) {
	doc := etree.NewDocument()
	doc.SetRoot(el.Copy())
	return doc.WriteToBytes()
}

// replays implements crewjam.AssertionReplayCache for one message.
type replays struct {
	ctx   context.Context
	spend Spend
}

// Consume implements crewjam.AssertionReplayCache.
func (r replays) Consume(id string, ends time.Time) error { return r.spend(r.ctx, id, ends) }

// reasons are the reasons of the library's errors, in the order in which they are looked for.
var reasons = []struct {
	err    error
	reason string
}{
	{crewjam.ErrAssertionReplayed, "replayed"},
	{crewjam.ErrRequestIDMismatch, "in_response_to"},
	{crewjam.ErrAudienceMismatch, "audience"},
	{crewjam.ErrIssuerMismatch, "issuer"},
	{crewjam.ErrDestinationMismatch, "recipient"},
	{crewjam.ErrNotYetValid, "not_before"},
	{crewjam.ErrDecryptionFailed, "decryption"},
	{crewjam.ErrMissingElement, "incomplete"},
	{crewjam.ErrInvalidSignature, "signature"},
	{crewjam.ErrExpired, "expired"},
	{crewjam.ErrUnsupported, "unsupported"},
	{crewjam.ErrMalformedMessage, "xml"},
}

// refusal returns why the library refused a message.
func refusal(err error) error {
	cause := err
	if e, ok := errors.AsType[*crewjam.InvalidResponseError](err); ok && e.PrivateErr != nil {
		cause = e.PrivateErr
	}
	if r, ok := errors.AsType[*Refusal](cause); ok {
		return r
	}
	if status, ok := errors.AsType[crewjam.ErrBadStatus](cause); ok {
		return refuse("provider", "the provider refused: %.300q", status.Status)
	}
	if errors.Is(cause, crewjam.ErrExpired) && errors.Is(cause, crewjam.ErrInvalidSignature) {
		return refuse("metadata", "the provider's metadata has expired; enter it again, or set metadata_url")
	}
	for _, r := range reasons {
		if errors.Is(cause, r.err) {
			return &Refusal{r.reason, errors.New(short(cause))}
		}
	}
	if strings.Contains(cause.Error(), "signature element not present") {
		return refuse("unsigned", "the message is not signed")
	}
	if strings.Contains(cause.Error(), "cannot validate signature") { // of a redirect
		return &Refusal{"signature", errors.New(short(cause))}
	}
	return &Refusal{"error", errors.New(short(cause))}
}
