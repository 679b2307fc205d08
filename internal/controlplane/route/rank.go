package route

import (
	"context"

	"modelgate/internal/access"
	"modelgate/internal/apierr"
	"modelgate/internal/store"
)

// Rank is [Rank] of the caller.
func (c *Caller) Rank(ctx context.Context, q store.Queries, workspace string) (access.Rank, error) {
	return Rank(ctx, q, c.Identity, workspace)
}

// Rank returns the rank of id in a workspace, or in the organisation when it is
// empty: a person's by their role, a key's by its type and who made it, and the
// lower of both for a person's key.
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

// CheckRole refuses to make somebody a person with a role in the organisation and
// in workspaces when the caller could not do what that role can: a key whose
// scopes are few gives no role that has them all.
func (c *Caller) CheckRole(role string, workspaces ...string) error {
	if c.IsPerson() {
		return nil // roles decide
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
			return apierr.New(apierr.Forbidden, "the role %q can do more than this key, which lacks the scope %q", role, string(s)).WithParam("role").WithCode("AB03")
		}
	}
	return nil
}
