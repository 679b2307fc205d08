package server

import (
	"context"
	"errors"
	"time"

	"modelgate/internal/identity/access"
	"modelgate/internal/snapshot"
	"modelgate/internal/store"
	"modelgate/internal/store/publication"
)

// ownDeployment returns the deployment as which the gateway authenticates, nil if it
// does not. It must exist at the start; if it is deleted later, the gateway serves no
// one.
func (s *Server) ownDeployment(p *publication.State) (*store.GatewayDeployment, error) {
	if s.DeploymentSecret.Empty() {
		return nil, nil
	}
	hash := access.HashKey(s.DeploymentSecret.Reveal())
	for i := range p.Deployments {
		if known, err := access.ParseHash(p.Deployments[i].ClientHash); err == nil && known.Equal(hash) {
			return &p.Deployments[i], nil
		}
	}
	return nil, errors.New("MODELGATE_DEPLOYMENT_SECRET does not belong to a deployment; set it to the client_auth that was shown when the deployment was created")
}

// deploymentLimits returns the workspaces that the snapshot of a state serves.
func (s *Server) deploymentLimits(p *publication.State) *snapshot.Deployment {
	d, err := s.ownDeployment(p)
	switch {
	case err != nil:
		return &snapshot.Deployment{Closed: true}
	case d == nil:
		return nil
	}
	out := &snapshot.Deployment{Organisation: d.Organisation, Slug: d.Slug, Closed: d.Status != store.Active}
	if !d.AllWorkspaces {
		out.Workspaces = make(map[string]bool, len(d.Workspaces))
		for _, id := range d.Workspaces {
			out.Workspaces[id] = true
		}
	}
	return out
}

// touchDeployment records that a gateway of the deployment is running.
func (s *Server) touchDeployment(ctx context.Context, now time.Time) {
	d, err := s.ownDeployment(s.current().stored)
	if d == nil || err != nil || !s.store.Ready() {
		return
	}
	if err := s.store.TouchDeployment(ctx, d.ID, now); err != nil {
		s.Logger.Warn("marking the deployment as seen failed", "err", err.Error())
	}
}
