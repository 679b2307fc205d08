package server

import (
	"modelgate/internal/dataplane"
	"modelgate/internal/dataplane/tools"
	"modelgate/internal/dataplane/tools/peer"
)

// toolsOr returns what serves tool servers: what the options have, or else the relay.
func (s *Server) toolsOr(relay *tools.Relay) dataplane.Tools {
	if s.Options.Tools != nil {
		return s.Options.Tools
	}
	return relay
}

// toolRelay returns what relays messages to tool servers.
func (s *Server) toolRelay() *tools.Relay {
	return tools.New(tools.Options{
		Peers:   peer.New(peer.Options{Client: s.engine.Client, Bodies: s.engine.Bounds.Pool, Logger: s.Logger}),
		Box:     s.box,
		Logger:  s.Logger,
		Version: s.Version,

		PublicURL: s.publicURL,
	})
}
