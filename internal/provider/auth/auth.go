// Package auth signs requests and fetches tokens for providers that need more
// than a key in a header.
//
// It guarantees that a token is fetched once however many requests wait for it,
// that it is renewed before it expires, and that no credential appears in an
// error. The identity of the machine (metadata services, token files,
// environment) is available only to managed providers, never to a client that
// asks for it in its own options. The method of each provider is data of the
// provider table; the addresses of token endpoints are checked by the [Doer].
package auth

import (
	"context"
	"errors"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/base/sigv4"
	"modelgate/internal/provider"
)

// Doer sends requests to token endpoints and does not follow redirects. A
// guarded request is for an address from a credential; it is sent only where
// clients may send requests. upstream.Client is a Doer.
type Doer interface {
	Do(req *http.Request, guarded bool) (*http.Response, error)
}

// Options holds what a [Signer] needs. Nil functions mean those of the system.
type Options struct {
	Client   Doer // nil: tokens cannot be fetched, requests can be signed
	Now      func() time.Time
	Getenv   func(name string) string
	ReadFile func(name string) ([]byte, error)

	// ReadListed reads a file named in a tenant's credential, if the operator
	// allows tenants to read it. Nil reads none.
	ReadListed func(name string) ([]byte, error)
}

// Signer authenticates requests. It is safe for concurrent use.
type Signer struct {
	Options
	tokens cache[secret.String]
	keys   cache[sigv4.Keys]
}

// New returns a signer with empty caches.
func New(o Options) *Signer {
	if o.Client == nil {
		o.Client = noClient{}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.ReadFile == nil {
		o.ReadFile = os.ReadFile
	}
	return &Signer{Options: o, tokens: cache[secret.String]{now: o.Now}, keys: cache[sigv4.Keys]{now: o.Now}}
}

type noClient struct{}

func (noClient) Do(*http.Request, bool) (*http.Response, error) {
	return nil, errors.New("there is no client for token endpoints")
}

// Sign authenticates req, which provider.NewRequest built for t, with the
// method in Auth.By of the provider definition. It does nothing if that is
// empty. Body is the request body; nil means none, or a body that req.GetBody
// opens again. Sign is called for each attempt, and the request must not be
// changed afterwards.
//
// Errors are *apierr.Error and contain no credential, except for errors of a
// context that ended.
func (s *Signer) Sign(ctx context.Context, t *provider.Target, req *http.Request, body []byte) error {
	switch t.Auth.Method {
	case provider.MethodAWS:
		return s.signAWS(ctx, t, req, body)
	case provider.MethodGCP:
		return s.signGCP(ctx, t, req)
	case provider.MethodEntra:
		return s.signEntra(ctx, t, req)
	case provider.MethodOCI:
		return s.signOCI(t, req, body)
	}
	return nil
}

// checkKey returns an error if a target without a credential to fetch or sign
// with has no key either. A custom host needs none.
func checkKey(t *provider.Target) error {
	if t.Guarded || t.Auth.Header != "" && !t.Key.Empty() {
		return nil
	}
	return apierr.New(apierr.Invalid, "no credential for the provider %q; set a key or one of the options %s", t.ID, optionNames(t)).
		WithParam("authorization").WithCode("missing_credential")
}

func optionNames(t *provider.Target) string {
	names := make([]string, len(t.Auth.KeyAlternatives))
	for i, n := range t.Auth.KeyAlternatives {
		names[i] = t.OptionPrefix + n
	}
	return strings.Join(names, ", ")
}

// checkMachineIdentity returns an error if t may not use the identity of the
// gateway's machine. Only the operator's own providers may use it with an
// address that they choose.
func checkMachineIdentity(t *provider.Target) error {
	why := ""
	switch {
	case t.Slug == "":
		why = "is only for managed providers; send a credential of your own, or name a managed provider as @slug"
	case t.Lending == provider.MachineIdentityNone:
		why = "is only for providers in modelgate.yaml; secrets.own_identity there allows it for providers stored through the API"
	case t.Lending == provider.LendOwn && !t.OwnAddress():
		why = "is not sent to an account or a host that an integration of a workspace names; make it an integration of the organisation, or use another credential"
	case t.Lending != provider.MachineIdentityAll && t.Guarded:
		why = "is not sent to an address that a stored provider chooses; define the provider in modelgate.yaml, or use another credential"
	default:
		return nil
	}
	return apierr.New(apierr.Forbidden, "provider %q: the identity of the gateway's machine %s", t.ID,
		why).WithCode("machine_identity_refused")
}

// checkTokenAddress returns an error if the machine's token would be sent to an
// address other than the cloud's token endpoint, except for the operator's own
// providers: within the cloud's domain there are hosts that store requests for
// any customer.
func checkTokenAddress(t *provider.Target, address, field string, form *regexp.Regexp) error {
	if t.Lending != provider.MachineIdentityAll && !form.MatchString(address) {
		return credentialError(t, "has a "+field+" other than that of Google Cloud, where the machine's identity is not sent")
	}
	return nil
}

func missing(t *provider.Target, option string) error {
	return invalid(t, option, "is required for this authentication method")
}

func invalid(t *provider.Target, option, what string) error {
	return apierr.New(apierr.Invalid, "provider %q: the option %q %s", t.ID, t.OptionPrefix+option, what).WithParam(option)
}

// setBearer sets token as the bearer token and removes any other credential.
func setBearer(req *http.Request, t *provider.Target, token secret.String) {
	drop(req.Header, t.Auth.Header, "Authorization")
	req.Header["Authorization"] = []string{"Bearer " + token.Reveal()}
}

// drop removes headers in any spelling: forwarded client headers keep theirs.
func drop(h http.Header, names ...string) {
	for _, name := range names {
		for other := range h {
			if strings.EqualFold(other, name) {
				delete(h, other)
			}
		}
	}
}
