package signin

import (
	"context"
	"errors"
	"net/url"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/oidc"
	"modelgate/internal/identity/saml"
	"modelgate/internal/store"
)

// Protocols have what is known of providers, by protocol. Of a nil one there are none.
type Protocols struct {
	OIDC *oidc.Cache
	SAML *saml.Cache
}

// protocol is a provider that is ready to be used in one request.
type protocol interface {
	// begin returns what a browser carries to the provider.
	begin(w flow) (*route.Form, error)
	// finish verifies what a browser brings back in a query or a form.
	finish(ctx context.Context, w flow, values url.Values) (*person, error)
	// end returns what a browser carries to the provider to end the session there, and
	// then returns to back; nil if the provider has no place for it. Token is that of the sign-in.
	end(token secret.String, back string) (*route.Form, error)
	// check tries what can be tried without a person.
	check(ctx context.Context) []step
}

// person is whom a provider says that somebody is, whatever its protocol.
type person struct {
	Issuer  string
	Subject string

	Email     string // as the provider writes it; may be empty
	Proved    bool   // the provider vouches that the address is the person's
	Domain    string // of the address, or that the person belongs to, in lower case
	FirstName string
	LastName  string

	Groups      []string
	GroupsKnown bool // false if the provider did not send all groups: then none may be taken away

	SignedIn time.Time // when the person proved who they are; zero if the provider does not say

	Session string        // the provider's name of its session; may be empty
	Ends    time.Time     // latest end of the session here; zero if the provider names none
	Token   secret.String // with which the session at the provider ends
	Authn   []string      // how the person authenticated: values of amr, acr or AuthnContextClassRef
}

// use returns p ready to be used.
func (f *family) use(ctx context.Context, c *route.Caller, p store.IdentityProvider) (protocol, error) {
	var sealed secret.String
	if p.Sealed != "" {
		if f.api.Secrets == nil {
			return nil, apierr.New(apierr.Unavailable, "secrets cannot be opened without a master key")
		}
		var err error
		if sealed, err = f.api.Secrets.Open(ctx, p.Organisation, p.Sealed); err != nil {
			return nil, err
		}
	}
	if p.Type == store.SAML {
		return f.useSAML(ctx, c, p, sealed)
	}
	return f.useOIDC(ctx, c, p, sealed)
}

// hasProtocol reports whether the gateway has the protocol of p.
func (f *family) hasProtocol(p store.IdentityProvider) bool {
	return p.Type == store.OIDC && f.OIDC != nil || p.Type == store.SAML && f.SAML != nil
}

// reasonOf returns the reason of a refusal of any protocol, "error" for other errors.
func reasonOf(err error) string {
	if r, ok := errors.AsType[*saml.Refusal](err); ok {
		return r.Reason
	}
	return oidc.ReasonOf(err)
}

// answer makes a browser carry a message to a provider.
func answer(m *route.Form) *route.Answer {
	if len(m.Fields) == 0 {
		return &route.Answer{Location: m.Address}
	}
	return &route.Answer{Form: m}
}

// useOIDC returns a provider with OpenID Connect.
func (f *family) useOIDC(ctx context.Context, c *route.Caller, p store.IdentityProvider, sealed secret.String) (protocol, error) {
	s := p.Settings
	provider, err := f.OIDC.Provider(ctx, oidc.Settings{
		Issuer: s.Issuer, ClientID: s.ClientID, Method: s.AuthMethod, Scopes: s.Scopes, Secret: sealed,
		GroupsClaim: s.GroupsClaim, RedirectURL: c.AbsoluteLink(pathOf(p.ID) + callbackPath),
		Allow: func(u *url.URL) error { return f.api.CheckEgress(p.Organisation, u) },
	})
	if err != nil {
		return nil, err
	}
	return oidcProvider{provider}, nil
}

type oidcProvider struct{ *oidc.Provider }

func (p oidcProvider) begin(w flow) (*route.Form, error) {
	return &route.Form{Address: p.StartURL(w.Flow, w.Purpose != "" || w.Confirm)}, nil
}

func (p oidcProvider) finish(ctx context.Context, w flow, values url.Values) (*person, error) {
	code, err := p.Callback(values, w.Flow)
	if err != nil {
		return nil, err
	}
	in, err := p.Finish(ctx, code, w.Flow)
	if err != nil {
		return nil, err
	}
	out := &person{
		Issuer: in.Issuer, Subject: in.Subject, Email: in.Email, Proved: in.Proved, Domain: in.Domain,
		FirstName: in.FirstName, LastName: in.LastName,
		Groups: in.Groups, GroupsKnown: in.GroupsKnown, SignedIn: in.SignedIn, Session: in.Session, Token: secret.New(in.IDToken),
		Authn: in.Methods,
	}
	if in.Class != "" {
		out.Authn = append(out.Authn, in.Class)
	}
	return out, nil
}

func (p oidcProvider) end(token secret.String, back string) (*route.Form, error) {
	if address := p.EndURL(token.Reveal(), back); address != "" {
		return &route.Form{Address: address}, nil
	}
	return nil, nil
}

func (p oidcProvider) check(ctx context.Context) []step {
	var steps []step
	for _, e := range p.Check(ctx) {
		s := step{Name: e.Step, Outcome: stepOK, Detail: e.Detail}
		switch {
		case e.Err != nil:
			s.Outcome, s.Detail = stepFailed, e.Err.Error()
		case e.Warn:
			s.Outcome = stepWarning
		}
		steps = append(steps, s)
	}
	return steps
}
