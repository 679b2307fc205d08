package server

import (
	"modelgate/internal/base/egress"
	"modelgate/internal/controlplane/webhooks"
	"modelgate/internal/identity/access"
)

// openWebhooks creates the sender of webhooks, whose jobs start with Run.
func (s *Server) openWebhooks() {
	s.webhooks = webhooks.New(webhooks.Options{
		DB: s.store, Client: s.engine.Client, Secrets: s.ring, Logger: s.Logger,
		Egress: s.egressPolicies,
		Count:  func(outcome string) { s.metrics.webhooksSent.WithLabelValues(outcome).Inc() },
	})
}

// egressPolicies returns the egress policies of what a workspace or, if it is empty, an
// organisation sends itself; nil for none.
func (s *Server) egressPolicies(organisation, workspace string) *egress.Policies {
	return s.holder.Load().Egress(&access.Identity{Organisation: organisation, Workspace: workspace})
}
