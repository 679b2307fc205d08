package server

import (
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/identity/access"
	"modelgate/internal/snapshot"
	"modelgate/internal/store"
	"modelgate/internal/store/publication"
)

// openWorkloads opens the signing secrets of workload identities. Keys of one whose secret
// cannot be opened are refused; everything else is still published.
func (s *Server) openWorkloads(open secretOpener, list []store.WorkloadIdentity) []snapshot.Workload {
	out := make([]snapshot.Workload, 0, len(list))
	for _, w := range list {
		signing, err := open.ring.OpenWith(w.Organisation, open.keys[w.Organisation], w.Sealed)
		if err != nil {
			s.Logger.Error("the signing secret of a workload identity cannot be opened; revoke its keys to replace it", "workload_identity", w.Slug, "err", err.Error())
			continue
		}
		out = append(out, snapshot.Workload{ID: w.ID, Slug: w.Slug, Key: w.Key, Signing: signing})
	}
	return out
}

// issueWorkloadKey returns a short-lived key that this node accepts at once.
func (s *Server) issueWorkloadKey(g access.WorkloadGrant, now time.Time) (secret.String, *access.Identity, error) {
	return s.holder.Load().WorkloadKey(g, now)
}

// openGrants opens the signing secrets of grants. Access tokens of one whose secret cannot be
// opened are refused.
func (s *Server) openGrants(open secretOpener, list []publication.Grant) []snapshot.Grant {
	out := make([]snapshot.Grant, 0, len(list))
	for _, g := range list {
		organisation := g.Identity.Organisation
		signing, err := open.ring.OpenWith(organisation, open.keys[organisation], g.Sealed)
		if err != nil {
			s.Logger.Error("the signing secret of a client's grant cannot be opened; revoke the grant",
				"grant", g.Identity.KeyID, "err", err.Error())
			continue
		}
		out = append(out, snapshot.Grant{Identity: g.Identity, Resource: g.Resource, Signing: signing})
	}
	return out
}
