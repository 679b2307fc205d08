// Package saml signs people in at an identity provider with SAML 2.0: it asks for a sign-in,
// verifies the response, and has single logout in both directions.
//
// It guarantees that an assertion is signed by this provider in an algorithm that is still
// safe, is for this gateway, this connection and the flow of this browser, is accepted once,
// and that nothing is read that was not verified: a document with a second assertion, a
// signature of another element, a comment, a document type or an unexpected transform is
// refused before its signature is looked at, because those are how documents are read
// otherwise than they were verified. It does not decide who may sign in, and sends no
// requests; whoever uses it stores what was accepted.
//
// https://docs.oasis-open.org/security/saml/v2.0/saml-profiles-2.0-os.pdf
package saml

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	crewjam "github.com/crewjam/saml"
	dsig "github.com/russellhaering/goxmldsig"
)

// Settings are how an organisation's identity provider is used.
type Settings struct {
	EntityID string // of the gateway, for this provider alone
	ACS      string // where the provider sends browsers with a response
	Logout   string // where the provider sends browsers with a logout request or its response

	Provider *Metadata
	Keys     []Key // of the gateway: the first signs, all decrypt. At least one
	Names    Names // of attributes

	// AllowSignedResponse accepts an assertion without a signature of its own in a signed
	// response.
	AllowSignedResponse bool

	// AllowUnasked accepts responses that no flow asked for.
	AllowUnasked bool
}

// Names are the names of the attributes with what the gateway reads. Empty ones are those
// that usual providers use.
type Names struct {
	Email     string
	FirstName string
	LastName  string
	Groups    string
}

// Spend records that a message with this id was accepted, until it is no longer valid by
// itself. It returns [ErrReplayed] if it was recorded before, by any node.
type Spend func(ctx context.Context, id string, ends time.Time) error

// ErrReplayed is the error of a message that was accepted before.
var ErrReplayed = crewjam.ErrAssertionReplayed

// Refusal is why a message was refused.
type Refusal struct {
	Reason string // a short constant for logs, such as audience
	Err    error  // says more to administrators; contains nothing of the message but names
}

// Error implements error.
func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Err }

func refuse(reason, format string, args ...any) *Refusal {
	return &Refusal{reason, fmt.Errorf(format, args...)}
}

// ReasonOf returns the reason of a refusal, "error" for other errors.
func ReasonOf(err error) string {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r.Reason
	}
	return "error"
}

// skew is how much the clocks of the provider and of the gateway may differ.
const skew = time.Minute

// Provider is an identity provider that can be used. It is safe for concurrent use.
type Provider struct {
	set Settings
	now func() time.Time
}

// New returns the identity provider with these settings. Now is the clock; nil is time.Now.
func New(set Settings, now func() time.Time) *Provider {
	if now == nil {
		now = time.Now
	}
	return &Provider{set, now}
}

// Message is a message that a browser carries to the provider: by a redirect to Address, or
// if Fields is not empty, by a form that is sent there.
type Message struct {
	Address string
	Fields  map[string]string
}

// service returns the library's service provider for one message.
func (p *Provider) service() (*crewjam.ServiceProvider, error) {
	acs, err := url.Parse(p.set.ACS)
	if err != nil {
		return nil, err
	}
	logout, err := url.Parse(p.set.Logout)
	if err != nil {
		return nil, err
	}
	if len(p.set.Keys) == 0 {
		return nil, refuse("keys", "the gateway has no key for this provider; rotate its key")
	}
	own := p.set.Keys[0]
	sp := &crewjam.ServiceProvider{
		EntityID: p.set.EntityID, AcsURL: *acs, SloURL: *logout, Key: own.private, Certificate: own.Certificate,
		IDPMetadata: p.set.Provider.entity, SignatureMethod: dsig.RSASHA256SignatureMethod, AuthnNameIDFormat: crewjam.UnspecifiedNameIDFormat,
		AssertionConsumerServiceBindings: []string{crewjam.HTTPPostBinding},
		LogoutBindings:                   []string{crewjam.HTTPRedirectBinding, crewjam.HTTPPostBinding},
		RejectSHA1Signatures:             true,
		RejectUnknownConditions:          true,
		RejectExpiredIDPMetadata:         true,
		RequireSignedResponseForCBC:      true,
		RequireStandardArtifacts:         true,
		LimitRelayStateLength:            true,
		MetadataOmitValidUntil:           true,
		Clock:                            dsig.NewFakeClockAt(p.now()),
	}
	for _, k := range p.set.Keys[1:] {
		sp.DecryptionKeys = append(sp.DecryptionKeys, k.private)
	}
	return sp, nil
}

// Start returns the request for a sign-in. State comes back with the response, and id names
// the request in it. Fresh asks the provider to authenticate the person again.
func (p *Provider) Start(state, id string, fresh bool) (*Message, error) {
	sp, err := p.service()
	if err != nil {
		return nil, err
	}
	if fresh {
		sp.ForceAuthn = &fresh
	}
	binding, address := crewjam.HTTPRedirectBinding, sp.GetSSOBindingLocation(crewjam.HTTPRedirectBinding)
	if address == "" {
		binding, address = crewjam.HTTPPostBinding, sp.GetSSOBindingLocation(crewjam.HTTPPostBinding)
	}
	request, err := sp.MakeAuthenticationRequest(address, binding, crewjam.HTTPPostBinding)
	if err != nil {
		return nil, refuse("metadata", "the request cannot be made: %w", err)
	}
	request.ID = id
	if binding == crewjam.HTTPRedirectBinding {
		to, err := request.Redirect(state, sp)
		if err != nil {
			return nil, err
		}
		return &Message{Address: to.String()}, nil
	}
	request.Signature = nil
	if err := sp.SignAuthnRequest(request); err != nil {
		return nil, err
	}
	return form(address, "SAMLRequest", request.Element(), state)
}

// FlowID returns the id of a request for a flow with this random value: an XML id begins with
// no digit.
func FlowID(random string) string { return "id-" + random }
