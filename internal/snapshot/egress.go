package snapshot

import (
	"modelgate/internal/base/egress"
	"modelgate/internal/identity/access"
)

// Egress returns the egress policies for the requests of id, nil for none.
func (s *Snapshot) Egress(id *access.Identity) *egress.Policies {
	organisation, workspace := s.egress[id.Organisation], s.egress[id.Workspace]
	if organisation == nil && workspace == nil && len(id.Egress) == 0 {
		return nil
	}
	return &egress.Policies{Organisation: organisation, Workspace: workspace, Key: id.Egress}
}
