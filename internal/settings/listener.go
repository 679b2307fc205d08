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

	policy *clientaddr.Policy
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
	return nil
}
