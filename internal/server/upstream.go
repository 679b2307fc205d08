package server

import (
	"context"
	"crypto/x509"
	"net"
	"slices"
	"time"

	"modelgate/internal/settings"
	"modelgate/internal/upstream"
)

// upstreamOptions returns how upstream connections are made, from the settings and the options.
func (s *Server) upstreamOptions(set *settings.Settings) upstream.Options {
	o := s.Upstream
	o.TrustedHosts = slices.Concat(o.TrustedHosts, s.TrustedHosts, set.Upstream.TrustedHosts)
	o.TrustLoopback = o.TrustLoopback || s.TrustLoopback
	o.OwnHosts = slices.Concat(o.OwnHosts, s.ownHosts())
	o.OwnListeners = append(slices.Clone(o.OwnListeners), s.ownListeners()...)
	if o.RootCAs == nil {
		o.RootCAs = authorities(&set.Upstream)
	}
	o.DialTimeout = set.Timeouts.Connect.Or(10 * time.Second)
	return o
}

// authorities returns the authorities of the settings, nil for the system's. A file that has
// changed since it was checked and cannot be read any more trusts nobody.
func authorities(set *settings.Upstream) *x509.CertPool {
	pool, err := set.Authorities()
	if err != nil {
		return x509.NewCertPool()
	}
	return pool
}

// ownListeners returns the addresses that this process listens on.
func (s *Server) ownListeners() (list []net.Addr) {
	for _, l := range []net.Listener{s.apiAddr, s.adminAddr} {
		if l != nil {
			list = append(list, l.Addr())
		}
	}
	return list
}

// dial connects to an address of the settings, except to the gateway itself.
func (s *Server) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return upstream.DialOther(ctx, s.ownListeners(), network, addr)
}

// ownHosts returns the gateway's own addresses, which custom hosts must not name because
// requests would loop.
func (s *Server) ownHosts() []string {
	var hosts []string
	for _, a := range s.ownListeners() {
		hosts = append(hosts, a.String())
	}
	return hosts
}
