package snapshot

import (
	"modelgate/internal/access"
	"modelgate/internal/apierr"
)

// Deployment is whom a gateway serves that belongs to one.
type Deployment struct {
	Organisation string
	Slug         string
	Workspaces   map[string]bool // ids; nil is all of the organisation
	Closed       bool            // it serves nobody: it was removed or set inactive
}

// CheckServed returns why the gateway does not serve who sends a request, or nil.
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
