package server

import (
	"time"

	"modelgate/internal/provider/health"
)

// providerHealth returns what this process saw of a managed provider, and why requests
// cannot use it.
func (s *Server) providerHealth(workspace, slug string) (*health.Recent, error) {
	m, ok := s.holder.Load().Managed(workspace, slug)
	if !ok { // not published yet
		return nil, nil
	}
	if err := m.CheckUsable(time.Now()); err != nil {
		return nil, err
	}
	return m.Target.Health, nil
}
