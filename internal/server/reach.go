package server

import (
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
	reach.OwnListeners = append(slices.Clone(reach.OwnListeners), s.apiAddr.Addr())
	if s.adminAddr != nil {
		reach.OwnListeners = append(reach.OwnListeners, s.adminAddr.Addr())
	}
	reach.DialTimeout = set.Timeouts.Connect.Or(10 * time.Second)
	return reach
}

// ownHosts returns the gateway's own addresses, which custom hosts must not name because
// requests would loop.
func (s *Server) ownHosts() []string {
	hosts := []string{s.apiAddr.Addr().String()}
	if s.adminAddr != nil {
		hosts = append(hosts, s.adminAddr.Addr().String())
	}
	return hosts
}
