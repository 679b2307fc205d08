package snapshot

import (
	"modelgate/internal/base/apierr"
	"modelgate/internal/identity/access"
)

// Deployment limits what a gateway that belongs to a deployment serves.
type Deployment struct {
	Organisation string
	Slug         string
	Workspaces   map[string]bool // ids; nil is all of the organisation
	Closed       bool            // serves no one, because the deployment was deleted or disabled
}

// CheckServed returns an error if the gateway does not serve the caller.
func (s *Snapshot) CheckServed(id *access.Identity) error {
	d := s.deployment
	switch {
	case d == nil:
		return nil
	case d.Closed:
		return notServed("the deployment %q that this gateway belongs to is not active", d.Slug)
	case id.Organisation != d.Organisation, d.Workspaces != nil && !d.Workspaces[id.Workspace]:
		return notServed("this gateway belongs to the deployment %q, which does not serve the workspace of this key", d.Slug)
	}
	return nil
}

func notServed(format string, args ...any) error {
	return apierr.New(apierr.Forbidden, format, args...).WithParam("x-gateway-api-key").WithCode("not_served")
}
