package oidc

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

// Limits of requests to a provider.
const (
	requestTime = 10 * time.Second
	maxResponse = 1 << 20          // bytes
	pause       = 10 * time.Second // minimum time between two requests for the keys
)

// document is a provider as its discovery document describes it.
type document struct {
	provider *oidc.Provider
	client   *http.Client // limits and guards all requests to the provider

	Keys        string   `json:"jwks_uri"`
	Authorize   string   `json:"authorization_endpoint"`
	Token       string   `json:"token_endpoint"`
	UserInfo    string   `json:"userinfo_endpoint"`
	EndSession  string   `json:"end_session_endpoint"`
	NamesItself bool     `json:"authorization_response_iss_parameter_supported"`
	Scopes      []string `json:"scopes_supported"`
	Methods     []string `json:"token_endpoint_auth_methods_supported"`
	Logout      bool     `json:"backchannel_logout_supported"`
}

// discover reads the discovery document of an issuer.
func (c *Cache) discover(ctx context.Context, issuer string) (*document, error) {
	d := &document{client: c.httpClient()}
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, d.client), issuer)
	if mismatch, ok := errors.AsType[*oidc.IssuerMismatchError](err); ok {
		return nil, refuse("issuer", "the discovery document is of the issuer %.200q, not %.200q; copy it exactly, with or without the slash at its end",
			mismatch.Discovered, mismatch.Provided)
	}
	if err == nil {
		err = provider.Claims(d)
	}
	if err != nil {
		return nil, refuse("discovery", "reading the discovery document of %s failed: %s", issuer, short(err))
	}
	d.provider = provider
	for _, e := range []struct{ name, address string }{
		{"authorization_endpoint", d.Authorize}, {"token_endpoint", d.Token}, {"jwks_uri", d.Keys},
	} {
		if u, err := url.Parse(e.address); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			return nil, refuse("discovery", "the discovery document has no usable %s", e.name)
		}
	}
	return d, nil
}

// short returns the text of an error without what a server may have sent at length.
func short(err error) string {
	text := strings.ToValidUTF8(err.Error(), "")
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	return text
}

// httpClient returns a client for one provider: it sends guarded requests, follows no
// redirects, and limits time and size of responses.
func (c *Cache) httpClient() *http.Client {
	return &http.Client{
		Transport:     &transport{client: c.client, now: c.now},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       requestTime,
	}
}

// transport sends requests to one provider. A GET is answered from memory within the pause
// after the last one to the same address, so that tokens with unknown keys cause no
// storm of requests.
type transport struct {
	client Doer
	now    func() time.Time

	mu   sync.Mutex
	last answer // guarded by mu
}

type answer struct {
	address string
	at      time.Time
	status  int
	header  http.Header
	body    []byte
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	cached := r.Method == http.MethodGet && r.Header.Get("Authorization") == ""
	if cached {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.last.address == r.URL.String() && t.now().Sub(t.last.at) < pause {
			return t.last.response(r), nil
		}
	}
	res, err := t.client.Do(r, true)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxResponse+1))
	if err == nil && len(body) > maxResponse {
		err = fmt.Errorf("the response of %s is larger than %d bytes", r.URL.Host, maxResponse)
	}
	if err != nil {
		return nil, err
	}
	a := answer{r.URL.String(), t.now(), res.StatusCode, res.Header, body}
	if cached {
		t.last = a
	}
	return a.response(r), nil
}

func (a *answer) response(r *http.Request) *http.Response {
	return &http.Response{
		Status: fmt.Sprintf("%d %s", a.status, cmp.Or(http.StatusText(a.status), "unknown")), StatusCode: a.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: a.header.Clone(), ContentLength: int64(len(a.body)),
		Body: io.NopCloser(bytes.NewReader(a.body)), Request: r,
	}
}
