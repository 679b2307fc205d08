package server

import (
	"cmp"
	"net"
	"strings"
)

// publicURL returns the configured prefix of links, empty if there is none.
func (s *Server) publicURL() string {
	set := s.current().settings
	if set == nil {
		return s.PublicURL
	}
	return cmp.Or(s.PublicURL, set.PublicURL)
}

// publicPath returns the path of the public address, empty if it has none.
func (s *Server) publicPath() string {
	_, host, _ := strings.Cut(s.publicURL(), "://")
	if i := strings.IndexByte(host, '/'); i >= 0 {
		return host[i:]
	}
	return ""
}

// listenURL returns the address of the API on this host.
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

// URL returns the address shown to users: the configured public address, otherwise the
// API's address on this host.
func (s *Server) URL() string { return cmp.Or(s.publicURL(), s.listenURL()) }

// LinksAreLocal reports whether other hosts can reach the API while links point at this
// host because no public address is configured.
func (s *Server) LinksAreLocal() bool {
	host, _, err := net.SplitHostPort(s.apiAddr.Addr().String())
	return s.publicURL() == "" && err == nil && !net.ParseIP(host).IsLoopback()
}
