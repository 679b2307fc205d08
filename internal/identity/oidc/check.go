package oidc

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// Finding is what a check found.
type Finding struct {
	Step   string
	Detail string
	Warn   bool  // works, but not as it should
	Err    error // why the step failed; nil if it did not
}

// Check tries what can be tried without a person: the keys, the clocks, the request that
// begins a flow, and the client's authentication with a code that does not exist.
func (p *Provider) Check(ctx context.Context) []Finding {
	ctx, cancel := context.WithTimeout(ctx, 3*requestTime)
	defer cancel()
	list := []Finding{{Step: "discovery", Detail: "the document of " + p.set.Issuer + " was read"}}
	clock, keys := p.checkKeys(ctx)
	list = append(list, keys, clock, p.checkStart(ctx), p.checkClient(ctx))
	if !p.doc.Logout {
		list = append(list, Finding{Step: "backchannel_logout", Warn: true,
			Detail: "the provider does not announce back-channel logout: a session that ends there goes on here until it expires"})
	}
	return list
}

// checkKeys reads the keys, and compares the clocks by the response.
func (p *Provider) checkKeys(ctx context.Context) (clock, keys Finding) {
	clock = Finding{Step: "clock", Warn: true, Detail: "the provider's responses do not show its time"}
	keys = Finding{Step: "keys", Detail: "the provider's keys were read"}
	res, err := p.get(ctx, p.doc.Keys)
	if err != nil {
		keys.Err = refuse("keys", "reading the keys at %s failed: %s", p.doc.Keys, short(err))
		return clock, keys
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		keys.Err = refuse("keys", "reading the keys at %s failed: the status is %d", p.doc.Keys, res.StatusCode)
	}
	at, err := http.ParseTime(res.Header.Get("Date"))
	if err != nil {
		return clock, keys
	}
	off := p.now().Sub(at).Abs()
	clock = Finding{Step: "clock", Detail: "the clocks agree"}
	if off > skew {
		clock.Err = refuse("clock", "the provider's clock says %s, this one %s; tokens may be off by %s at most", stamp(at), stamp(p.now()), skew)
	} else if off > skew/4 {
		clock.Warn, clock.Detail = true, "the clocks differ by "+off.Round(time.Second).String()
	}
	return clock, keys
}

func (p *Provider) get(ctx context.Context, address string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err == nil {
		err = p.set.checkAllowed(address)
	}
	if err != nil {
		return nil, err
	}
	return p.doc.client.Do(r)
}

// checkStart asks for a sign-in as a browser does, without one.
func (p *Provider) checkStart(ctx context.Context) Finding {
	f := Finding{Step: "authorization", Detail: "the provider accepts the client and the redirect address"}
	res, err := p.get(ctx, p.StartURL(NewFlow(), false))
	if err != nil {
		f.Err = refuse("authorization", "the request to %s failed: %s", p.doc.Authorize, short(err))
		return f
	}
	defer res.Body.Close()
	back, _ := res.Location()
	switch {
	case res.StatusCode >= http.StatusBadRequest:
		f.Err = refuse("authorization", "the provider returned %d: enter the redirect address %s there, and compare the client_id",
			res.StatusCode, p.set.RedirectURL)
	case back != nil && back.Query().Get("error") != "":
		f.Err = refuse("authorization", "the provider refused the request: %.100q: %.300q",
			back.Query().Get("error"), back.Query().Get("error_description"))
	}
	return f
}

// checkClient asks for tokens with a code that does not exist. A provider that knows the
// client says that the code is wrong.
func (p *Provider) checkClient(ctx context.Context) Finding {
	f := Finding{Step: "client", Detail: "the provider accepts the client's authentication"}
	_, err := p.Finish(oidc.ClientContext(ctx, p.doc.client), rand.Text(), NewFlow())
	e, ok := errors.AsType[*Refusal](err)
	if !ok {
		return f
	}
	cause, ok := errors.AsType[*oauth2.RetrieveError](e)
	switch {
	case !ok:
		f.Err = e
	case cause.ErrorCode == "invalid_client", cause.ErrorCode == "unauthorized_client", cause.Response.StatusCode == http.StatusUnauthorized:
		f.Err = refuse("client", "the provider refused the client: compare client_id, client_secret and token_endpoint_auth_method, one of %q there", p.doc.Methods)
	case cause.ErrorCode != "invalid_grant":
		f.Warn, f.Detail = true, "the provider answered "+e.Error()
	}
	return f
}
