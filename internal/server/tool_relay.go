package server

import (
	"modelgate/internal/dataplane"
	"modelgate/internal/dataplane/tools"
	"modelgate/internal/dataplane/tools/peer"
)

// tools returns what serves tool servers.
func (s *Server) tools() dataplane.Tools {
	if s.Options.Tools != nil {
		return s.Options.Tools
	}
	return tools.New(tools.Options{
		Peers:   peer.New(peer.Options{Client: s.engine.Client, Bodies: s.engine.Bounds.Pool, Logger: s.Logger}),
		Box:     s.box,
		Logger:  s.Logger,
		Version: s.Version,

		PublicURL: s.publicURL,
	})
}
