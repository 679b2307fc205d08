package settings

import (
	"errors"

	"modelgate/internal/base/clientaddr"
)

// Listener configures how clients reach the API.
type Listener struct {
	TrustedProxies []string `json:"trusted_proxies,omitempty" maxItems:"100" doc:"Addresses and CIDRs of proxies that report the client's address"`
	ClientHeader   string   `json:"client_header,omitempty" enum:",X-Forwarded-For,Forwarded" doc:"Header with the client's address; defaults to X-Forwarded-For"`
	ProxyProtocol  bool     `json:"proxy_protocol,omitempty" doc:"Requires connections of trusted proxies to begin with a PROXY header, version 1 or 2"`

	TLS TLS `json:"tls,omitzero"`

	policy *clientaddr.Policy
}

// TLS configures encryption. It is disabled if the files are empty. The gateway reads
// the files again when they change.
type TLS struct {
	Certificate string `json:"certificate,omitempty" doc:"File with the certificate and its chain, in PEM"`
	Key         string `json:"key,omitempty" doc:"File with the certificate's key, in PEM"`

	ClientCA   string `json:"client_ca,omitempty" doc:"File with the authorities that sign clients' certificates, in PEM"`
	ClientAuth string `json:"client_auth,omitempty" enum:",request,require" doc:"request verifies a client's certificate if there is one, require also rejects clients without one"`
}

// Enabled reports whether connections are encrypted.
func (t TLS) Enabled() bool { return t.Certificate != "" }

func (t TLS) check() *fault {
	switch {
	case (t.Certificate == "") != (t.Key == ""):
		return at(errors.New("certificate and key must be set together"), "listener.tls")
	case t.ClientCA+t.ClientAuth != "" && !t.Enabled():
		return at(errors.New("client certificates require TLS; set certificate and key too"), "listener.tls")
	case (t.ClientCA == "") != (t.ClientAuth == ""):
		return at(errors.New("client_ca and client_auth must be set together"), "listener.tls")
	}
	return nil
}

// Policy returns which reports of the client's address are trusted. Nil trusts none.
func (l *Listener) Policy() *clientaddr.Policy { return l.policy }

func (l *Listener) check() *fault {
	for i, proxy := range l.TrustedProxies {
		if _, err := clientaddr.New([]string{proxy}, ""); err != nil {
			return at(err, "listener.trusted_proxies[%d]", i)
		}
	}
	policy, err := clientaddr.New(l.TrustedProxies, l.ClientHeader)
	if err != nil {
		return at(err, "listener.client_header")
	}
	if l.ProxyProtocol && len(l.TrustedProxies) == 0 {
		return at(errors.New("requires listener.trusted_proxies; a PROXY header is read only from trusted proxies"), "listener.proxy_protocol")
	}
	l.policy = policy
	return l.TLS.check()
}
