package route

import (
	"context"
	"maps"
	"slices"

	"modelgate/internal/base/apierr"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// CheckRoutePermission is [Caller.CheckPermission] for the route's permission. It is
// for families that find the workspace without [Caller.InWorkspace],
// [Caller.VisibleWorkspace] and [Caller.WorkspaceFilter], which check it themselves.
func (c *Caller) CheckRoutePermission(ctx context.Context, workspace string) error {
	return c.CheckPermission(ctx, workspace, c.route.right())
}

// CheckPermission returns an error if the user's role in a workspace lacks the
// permission r. It returns nil for callers that are not users, and for an empty
// permission.
func (c *Caller) CheckPermission(ctx context.Context, workspace string, r access.Permission) error {
	return CheckPermission(ctx, c.DB(), c.Identity, workspace, r)
}

// CheckPermission is [Caller.CheckPermission] for callers outside a route.
func CheckPermission(ctx context.Context, q store.Queries, id *access.Identity, workspace string, r access.Permission) error {
	if r == "" || !id.IsPerson() {
		return nil
	}
	m, err := q.Membership(ctx, id.Organisation, id.UserID)
	if err != nil {
		return err
	}
	return checkPermission(ctx, q, place{id.Organisation, workspace}, m.RoleIn(workspace), r)
}

// IdentityIn returns the caller's identity in a workspace, with the permissions that the
// user's role lacks there, as keys of users have them; see [access.Identity.May]. It is a
// copy.
func (c *Caller) IdentityIn(ctx context.Context, workspace string) (*access.Identity, error) {
	id := *c.Identity
	if id.Workspace = workspace; !id.IsPerson() {
		return &id, nil
	}
	m, err := c.DB().Membership(ctx, id.Organisation, id.UserID)
	if err != nil {
		return nil, err
	}
	permissions, err := c.DB().RolePermissions(ctx, id.Organisation, workspace)
	id.Denied = permissions.Denied(m.RoleIn(workspace))
	return &id, err
}

// place is a workspace of an organisation, or the organisation itself.
type place struct{ organisation, workspace string }

// checkPermission returns an error unless a role has a permission in a place.
func checkPermission(ctx context.Context, q store.Queries, in place, role string, r access.Permission) error {
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
	return apierr.New(apierr.Forbidden, "the role %s of this workspace lacks the permission %s", role, r).WithCode("AB03")
}

// Visible returns the ids of the keys whose log entries the caller may see in a
// workspace, for a user who may not see all of its data; there may be none. Nil means
// all keys.
func Visible(ctx context.Context, q store.Queries, id *access.Identity, workspace string) ([]string, error) {
	err := CheckPermission(ctx, q, id, workspace, access.ViewAllData)
	if err == nil || apierr.From(err).Kind != apierr.Forbidden {
		return nil, err
	}
	return q.KeyIDs(ctx, id.Organisation, workspace, id.UserID)
}

// CheckPermissions returns an error for a permission of roles that does not exist. Field is
// the name of given in the request.
func CheckPermissions(field string, given access.RolePermissions) error {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, known := access.SectionOf(name); !known {
			return Invalid(field+"."+name, "is not a setting")
		}
	}
	return nil
}
