package server

import (
	"context"

	"modelgate/internal/base/egress"
	"modelgate/internal/dataplane"
	"modelgate/internal/dataplane/tools"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/settings"
)

// toolsOr returns what serves tool servers: what the options have, or else the relay.
func (s *Server) toolsOr(relay *tools.Relay) dataplane.Tools {
	if s.Options.Tools != nil {
		return s.Options.Tools
	}
	return relay
}

// toolRelay returns what relays messages to tool servers.
func (s *Server) toolRelay(set *settings.Settings, credentials *toolCredentials) *tools.Relay {
	s.toolPeers = peer.New(peer.Options{Client: s.engine.Client, Bodies: s.engine.Bounds.Pool, Logger: s.Logger,
		Commands: toolCommands(set.Tools.Commands)})
	return tools.New(tools.Options{
		Peers:        s.toolPeers,
		Credentials:  credentials,
		Stored:       s.storedItems,
		Origins:      set.Tools.Origins,
		Box:          s.box,
		Logger:       s.Logger,
		Version:      s.Version,
		PlainNames:   set.Tools.Prefix == "needed",
		OldTransport: set.Tools.SSE,
		SearchAbove:  set.Tools.SearchAbove,

		PublicURL: s.publicURL,
	})
}

// probeTools asks a tool server or an agent for what it is and offers, if the egress policies of its workspace
// allow its address now. An empty user is the gateway itself.
func (s *Server) probeTools(ctx context.Context, t *toolserver.Server, user string) (*toolserver.Found, error) {
	if t.URL != nil {
		if err := s.egressPolicies(t.Organisation, t.Workspace).Check(egress.Request{Managed: true, Host: t.URL}); err != nil {
			return nil, err
		}
	}
	if t.Transport == toolserver.A2A {
		return s.agents.Probe(ctx, t)
	}
	return s.toolServers.Probe(ctx, t, user)
}

// probeAsGateway calls probeTools without a user.
func (s *Server) probeAsGateway(ctx context.Context, t *toolserver.Server) (*toolserver.Found, error) {
	return s.probeTools(ctx, t, "")
}

// toolCommands returns the programs that tool servers may be.
func toolCommands(from map[string]settings.ToolCommand) map[string]peer.Command {
	out := make(map[string]peer.Command, len(from))
	for name, c := range from {
		out[name] = peer.Command{Path: c.Path, Args: c.Args, Env: c.Environment(), Dir: c.Dir, MaxProcesses: c.MaxProcesses}
	}
	return out
}
