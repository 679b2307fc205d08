// Package auth signs requests and fetches tokens for the providers that take
// more than a key in a header.
//
// It promises that a token is fetched once however many requests wait for it,
// that it is renewed before it ends, and that no credential shows in an error.
// The identity of the machine (metadata services, token files, environment) is
// lent to managed providers alone and never to a client that asks for it in its
// own options. Which provider wants which is data of the provider table; where
// a token endpoint may be is checked by the [Doer].
package auth

import (
	"context"
	"errors"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"

	"modelgate/internal/apierr"
	"modelgate/internal/provider"
	"modelgate/internal/secret"
	"modelgate/internal/sigv4"
)

// Doer sends requests to token endpoints, following no redirect. A guarded
// request is for an address that a credential names, and goes only where a
// client may send requests to. upstream.Client is one.
type Doer interface {
	Do(req *http.Request, guarded bool) (*http.Response, error)
}

// Options are what a [Signer] needs. Nil functions mean those of the system.
type Options struct {
	Client   Doer // nil: nothing can be fetched, signing alone works
	Now      func() time.Time
	Getenv   func(name string) string
	ReadFile func(name string) ([]byte, error)

	// ReadListed reads a file that the credential of a tenant names, if the
	// operator lets tenants read it. Nil reads none.
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

// Sign authenticates req, which provider.NewRequest built for t, in the way
// that the row names in Auth.By; it does nothing where that is empty. Body is
// what the request sends; nil stands for no body, or for one that
// req.GetBody opens again. A request is signed again for each attempt, and
// nothing of it may change afterwards.
//
// Errors are *apierr.Error without any credential, except for those of a context
// that ended.
func (s *Signer) Sign(ctx context.Context, t *provider.Target, req *http.Request, body []byte) error {
	switch t.Auth.Method {
	case provider.MethodAWS:
		return s.aws(ctx, t, req, body)
	case provider.MethodGCP:
		return s.gcp(ctx, t, req)
	case provider.MethodEntra:
		return s.entra(ctx, t, req)
	case provider.MethodOCI:
		return s.oci(t, req, body)
	}
	return nil
}

// keyAlone is for a target without a credential that would be fetched or
// signed with: the key, which is in its place already, must do. A custom host
// may do without any.
func keyAlone(t *provider.Target) error {
	if t.Guarded || t.Auth.Header != "" && !t.Key.Empty() {
		return nil
	}
	return apierr.New(apierr.Invalid, "no credential for the provider %q; give a key or one of the options %s", t.ID, optionNames(t)).
		WithParam("authorization").WithCode("missing_credential")
}

func optionNames(t *provider.Target) string {
	names := make([]string, len(t.Auth.KeyAlternatives))
	for i, n := range t.Auth.KeyAlternatives {
		names[i] = t.OptionPrefix + n
	}
	return strings.Join(names, ", ")
}

// checkMachineIdentity says whether t may act in the name of the machine that the gateway runs
// on. Where it goes to an address that people chose it may not, unless they are
// the machine's operator.
func checkMachineIdentity(t *provider.Target) error {
	why := ""
	switch {
	case t.Slug == "":
		why = "is for provider entries; send a credential of your own, or name an entry @slug"
	case t.Lending == provider.MachineIdentityNone:
		why = "is for entries of modelgate.yaml; secrets.own_identity there lends it to those that are kept by the API"
	case t.Lending == provider.LendOwn && !t.OwnAddress():
		why = "is not sent to an account or a host that an integration of a workspace names; make it an integration of the organisation, or use another credential"
	case t.Lending != provider.MachineIdentityAll && t.Guarded:
		why = "is not sent to an address that an entry chooses; keep the entry in modelgate.yaml, or use another credential"
	default:
		return nil
	}
	return apierr.New(apierr.Forbidden, "provider %q: the identity of the gateway's machine %s", t.ID, why).WithCode("machine_identity_refused")
}

// checkTokenAddress refuses to send what is the machine's to a token address that
// is not the one of the cloud, unless t is the operator's own: within the cloud's
// domain there are hosts that keep what they are sent for anybody.
func checkTokenAddress(t *provider.Target, address, field string, form *regexp.Regexp) error {
	if t.Lending != provider.MachineIdentityAll && !form.MatchString(address) {
		return malformed(t, "has a "+field+" other than that of Google Cloud, where the machine's identity is not sent")
	}
	return nil
}

func missing(t *provider.Target, option string) error {
	return invalid(t, option, "is needed for this way of authentication")
}

func invalid(t *provider.Target, option, what string) error {
	return apierr.New(apierr.Invalid, "provider %q: the option %q %s", t.ID, t.OptionPrefix+option, what).WithParam(option)
}

// setBearer sends token as a bearer token, and no other credential beside it.
func setBearer(req *http.Request, t *provider.Target, token secret.String) {
	drop(req.Header, t.Auth.Header, "Authorization")
	req.Header["Authorization"] = []string{"Bearer " + token.Reveal()}
}

// drop removes headers however they are spelled: what a client forwards keeps
// its spelling.
func drop(h http.Header, names ...string) {
	for _, name := range names {
		for other := range h {
			if strings.EqualFold(other, name) {
				delete(h, other)
			}
		}
	}
}
