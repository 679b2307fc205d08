package server

import (
	"context"
	"net"
	"slices"
	"time"

	"modelgate/internal/settings"
	"modelgate/internal/upstream"
)

// reach returns how upstream connections are made, from the settings and the options.
func (s *Server) reach(set *settings.Settings) upstream.Options {
	reach := s.Upstream
	reach.TrustedHosts = slices.Concat(reach.TrustedHosts, s.TrustedHosts, set.Upstream.TrustedHosts)
	reach.TrustLoopback = reach.TrustLoopback || s.TrustLoopback
	reach.OwnHosts = slices.Concat(reach.OwnHosts, s.ownHosts())
	reach.OwnListeners = append(slices.Clone(reach.OwnListeners), s.ownListeners()...)
	reach.DialTimeout = set.Timeouts.Connect.Or(10 * time.Second)
	return reach
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
