package route

import (
	"context"

	"modelgate/internal/base/apierr"
	"modelgate/internal/identity/access"
)

// Ownership says whose an integration is: the organisation's, which workspaces have if it is given
// to them, or that of one workspace.
type Ownership struct {
	Workspace string // id of its only workspace; empty for the organisation
	// OrganisationWide and OfWorkspace are what the scopes for the two begin with, such as
	// workspace_integrations and a dot.
	OrganisationWide, OfWorkspace string
	// Has reports whether a workspace has it.
	Has func(ctx context.Context, workspace string) (bool, error)
	// None is the error for a caller who must not know of it.
	None error
}

// CheckOwnership returns an error unless the caller may use verb on an integration. One of the
// organisation can be read from every workspace that has it; elsewhere it does not exist. Limit is
// the workspace that the caller sees; empty for all.
func (c *Caller) CheckOwnership(ctx context.Context, o *Ownership, limit, verb string) error {
	owner := o.OrganisationWide
	if o.Workspace != "" {
		owner = o.OfWorkspace
	}
	may := func(owner string) bool { return c.Allows(access.Scope(owner + verb)) }
	if limit != "" && (o.Workspace != "" || !may(owner)) {
		has, err := o.Has(ctx, limit)
		if err != nil {
			return err
		}
		if !has && o.Workspace != limit {
			return o.None
		}
	}
	if readable := limit != "" && verb == "read" && may(o.OfWorkspace); !may(owner) && !readable {
		return MissingScope(owner + verb)
	}
	return nil
}

// MissingScope returns the error for a caller who lacks a scope.
func MissingScope(scope string) error {
	return apierr.New(apierr.Forbidden, "this key or session lacks the scope %q", scope).WithCode("AB03")
}
