package settings

import (
	"errors"

	"modelgate/internal/clientaddr"
)

// Listener is how clients reach the API.
type Listener struct {
	TrustedProxies []string `json:"trusted_proxies,omitempty" maxItems:"100" doc:"Addresses and CIDRs of proxies that report the client's address"`
	ClientHeader   string   `json:"client_header,omitempty" enum:",X-Forwarded-For,Forwarded" doc:"The header in which they report it; X-Forwarded-For when absent"`
	ProxyProtocol  bool     `json:"proxy_protocol,omitempty" doc:"Their connections begin with a PROXY header, version 1 or 2"`

	TLS TLS `json:"tls,omitzero"`

	policy *clientaddr.Policy
}

// TLS is how connections are encrypted. Empty files mean that they are not. The
// gateway reads the files again when they change.
type TLS struct {
	Certificate string `json:"certificate,omitempty" doc:"File with the certificate and its chain, in PEM"`
	Key         string `json:"key,omitempty" doc:"File with the certificate's key, in PEM"`

	ClientCA   string `json:"client_ca,omitempty" doc:"File with the authorities that sign clients' certificates, in PEM"`
	ClientAuth string `json:"client_auth,omitempty" enum:",request,require" doc:"request checks a certificate that a client has, require refuses clients without one"`
}

// Enabled reports whether connections are encrypted.
func (t TLS) Enabled() bool { return t.Certificate != "" }

func (t TLS) check() *fault {
	switch {
	case (t.Certificate == "") != (t.Key == ""):
		return at(errors.New("a certificate needs its key, and a key its certificate; name both files"), "listener.tls")
	case t.ClientCA+t.ClientAuth != "" && !t.Enabled():
		return at(errors.New("client certificates need TLS; name the certificate and key of the gateway too"), "listener.tls")
	case (t.ClientCA == "") != (t.ClientAuth == ""):
		return at(errors.New("client_ca and client_auth belong together; name the file of authorities, and request or require"), "listener.tls")
	}
	return nil
}

// Policy returns whose reports of the client's address are believed. Nil
// believes nobody.
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
		return at(errors.New("needs listener.trusted_proxies: a PROXY header is read from trusted proxies only"), "listener.proxy_protocol")
	}
	l.policy = policy
	return l.TLS.check()
}
