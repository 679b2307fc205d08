package members

import (
	"context"

	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

// Entry is what a file says about a user.
type Entry struct {
	User        store.User
	HasAccount  bool              // in the installation, not necessarily in the organisation
	Roles       map[string]string // that change, by workspace id; an empty one leaves the workspace
	UsageLimits *limits.BudgetInput
	RateLimits  limits.Rates
	Tools       []string
}

// Put stores the user that a file describes instead of before; nil is a user who is new in
// the organisation.
func Put(ctx context.Context, c *route.Caller, before *store.User, e *Entry) error {
	u := e.User
	u.UpdatedAt = c.NextUpdateTime(u.UpdatedAt)
	return c.Change(ctx, func(tx *store.Tx) error {
		if err := e.join(ctx, c, tx, before); err != nil {
			return err
		}
		for workspace, role := range e.Roles {
			var err error
			if role == "" {
				err = tx.RemoveWorkspaceMember(ctx, workspace, u.ID, c.Now)
			} else {
				err = tx.SetWorkspaceMember(ctx, workspace, u.ID, role, c.Now)
			}
			if err != nil {
				return err
			}
		}
		if before != nil && before.Role != u.Role { // after the workspaces, because who leaves one loses their keys there
			if err := tx.SetUserRole(ctx, c.Organisation, u.ID, u.Role, c.Now); err != nil {
				return err
			}
		}
		if err := tx.UpdateUser(ctx, u); err != nil {
			return err
		}
		b := &updateBody{UsageLimits: route.SetOrNull(e.UsageLimits), RateLimits: route.Set(e.RateLimits), Tools: route.Set(e.Tools)}
		return changeLimits(ctx, c, tx, store.User{ID: u.ID}, b)
	})
}

// join adds the user to the organisation unless they belong to it.
func (e *Entry) join(ctx context.Context, c *route.Caller, tx *store.Tx, before *store.User) error {
	u := e.User
	u.CreatedAt, u.UpdatedAt = c.Now, c.Now
	switch {
	case before != nil:
		return nil
	case e.HasAccount:
		return tx.JoinOrganisation(ctx, c.Organisation, u)
	}
	return tx.CreateUser(ctx, c.Organisation, u)
}
