package server

import (
	"modelgate/internal/dataplane/tools"
	"modelgate/internal/dataplane/tools/peer"
)

// toolRelay returns what serves tool servers.
func (s *Server) toolRelay() *tools.Relay {
	return tools.New(tools.Options{
		Peers:   peer.New(peer.Options{Client: s.engine.Client, Bodies: s.engine.Bounds.Pool, Logger: s.Logger}),
		Box:     s.box,
		Logger:  s.Logger,
		Version: s.Version,

		PublicURL: s.publicURL,
	})
}
