package route

import (
	"context"

	"modelgate/internal/access"
	"modelgate/internal/apierr"
	"modelgate/internal/store"
)

// CheckRoutePermission is [Caller.CheckPermission] for the right of the route, for families that find the
// workspace by other ways than [Caller.InWorkspace], [Caller.VisibleWorkspace] and
// [Caller.Names], which check it themselves.
func (c *Caller) CheckRoutePermission(ctx context.Context, workspace string) error {
	return c.CheckPermission(ctx, workspace, c.route.Right())
}

// CheckPermission refuses what the role of a person in a workspace does not let them do.
// Callers that are no person, and rights that are empty, are never refused.
func (c *Caller) CheckPermission(ctx context.Context, workspace string, r access.Permission) error {
	return May(ctx, c.DB().Queries, c.Identity, workspace, r)
}

// May is [Caller.CheckPermission] for callers that come by other ways than a route.
func May(ctx context.Context, q store.Queries, id *access.Identity, workspace string, r access.Permission) error {
	if r == "" || !id.IsPerson() {
		return nil
	}
	m, err := q.Membership(ctx, id.Organisation, id.UserID)
	if err != nil {
		return err
	}
	return may(ctx, q, place{id.Organisation, workspace}, m.RoleIn(workspace), r)
}

// place is a workspace of an organisation, or the organisation itself.
type place struct{ organisation, workspace string }

// may returns an error unless somebody with a role has a permission in a place.
func may(ctx context.Context, q store.Queries, in place, role string, r access.Permission) error {
	switch {
	case r == "" || role == access.Admin:
		return nil
	case role == "":
		return apierr.New(apierr.Forbidden, "missing permission %s in this workspace", r).WithCode("AB03")
	}
	switches, err := q.RolePermissions(ctx, in.organisation, in.workspace)
	if err != nil || switches.Allows(role, r) {
		return err
	}
	return apierr.New(apierr.Forbidden, "%ss of this workspace do not have the right %s", role, r).WithCode("AB03")
}

// Visible returns the ids of the keys whose records a caller sees in a
// workspace: those of a person who does not see all of its data, which may be
// none. Nil sees the records of every key.
func Visible(ctx context.Context, q store.Queries, id *access.Identity, workspace string) ([]string, error) {
	err := May(ctx, q, id, workspace, access.ViewAllData)
	if err == nil || apierr.From(err).Kind != apierr.Forbidden {
		return nil, err
	}
	return q.KeyIDs(ctx, id.Organisation, workspace, id.UserID)
}
