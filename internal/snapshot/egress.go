package snapshot

import (
	"modelgate/internal/access"
	"modelgate/internal/egress"
)

// Egress returns the egress policies for the requests of id.
func (s *Snapshot) Egress(id *access.Identity) *egress.Policies {
	return &egress.Policies{Organisation: s.egress[id.Organisation], Workspace: s.egress[id.Workspace], Key: id.Egress}
}
