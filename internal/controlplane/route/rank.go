package route

import (
	"context"

	"modelgate/internal/base/apierr"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// Rank is [Rank] of the caller.
func (c *Caller) Rank(ctx context.Context, q store.Queries, workspace string) (access.Rank, error) {
	return Rank(ctx, q, c.Identity, workspace)
}

// Rank returns the rank of id in a workspace, or in the organisation if workspace is
// empty. Users rank by role, keys by type and creator, and user keys by the lower of
// both.
func Rank(ctx context.Context, q store.Queries, id *access.Identity, workspace string) (access.Rank, error) {
	if !id.IsPerson() {
		return id.KeyRank(), nil
	}
	m, err := q.Membership(ctx, id.Organisation, id.UserID)
	if err != nil {
		return access.RankNone, err
	}
	rank := access.RoleRank(m.RoleIn(workspace))
	if m.Role == "owner" || m.Role == "admin" {
		rank = access.RankOrganisation
	}
	if id.Rank != access.RankNone {
		rank = min(rank, id.Rank)
	}
	return rank, nil
}

// CheckRole returns an error if the caller may not give a user a role in the
// organisation and in workspaces because the role could do more than the caller: a key
// with few scopes must not create an admin.
func (c *Caller) CheckRole(role string, workspaces ...string) error {
	if c.IsPerson() {
		return nil // sessions are checked by role
	}
	if role == "owner" || role == "admin" {
		return c.checkScopes(role, access.Scopes(access.OrganisationService))
	}
	for _, role := range workspaces {
		if access.RoleRank(role) <= access.RankMember {
			continue
		}
		if err := c.checkScopes(role, access.Scopes(access.WorkspaceService)); err != nil {
			return err
		}
	}
	return nil
}

func (c *Caller) checkScopes(role string, scopes []access.Scope) error {
	for _, s := range scopes {
		if s.CheckHolder(c.Type) == nil && !c.Allows(s) {
			return apierr.New(apierr.Forbidden, "the role %q exceeds the permissions of this key, which lacks the scope %q",
				role, string(s)).WithParam("role").WithCode("AB03")
		}
	}
	return nil
}
