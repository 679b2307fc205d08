package server

import (
	"cmp"
	"net"
)

// publicURL returns the configured address that links begin with, empty when
// there is none.
func (s *Server) publicURL() string {
	set := s.current().settings
	if set == nil {
		return s.PublicURL
	}
	return cmp.Or(s.PublicURL, set.PublicURL)
}

// listenURL returns the address of the API on this machine.
func (s *Server) listenURL() string {
	address := s.apiAddr.Addr().String()
	if host, port, err := net.SplitHostPort(address); err == nil && net.ParseIP(host).IsUnspecified() {
		address = net.JoinHostPort("127.0.0.1", port)
	}
	return s.scheme() + address
}

// Root returns the address that the API listens on, with its scheme.
func (s *Server) Root() string { return s.scheme() + s.Addr().String() }

func (s *Server) scheme() string {
	if s.certificates != nil {
		return "https://"
	}
	return "http://"
}

// URL returns the address that people are shown: the configured public address,
// else that of the API on this machine.
func (s *Server) URL() string { return cmp.Or(s.publicURL(), s.listenURL()) }

// LinksAreLocal reports whether the API can be reached from other machines while
// links point at this one, because no public address is configured.
func (s *Server) LinksAreLocal() bool {
	host, _, err := net.SplitHostPort(s.apiAddr.Addr().String())
	return s.publicURL() == "" && err == nil && !net.ParseIP(host).IsLoopback()
}
