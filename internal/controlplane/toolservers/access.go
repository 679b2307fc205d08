package toolservers

import (
	"context"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

// UserAccess gives a user access to a server, or denies it.
type UserAccess struct {
	User    string `json:"user_id" minLength:"1" maxLength:"255"`
	Enabled bool   `json:"enabled"`
}

type userAccess struct {
	Users   []UserAccess `json:"user_access"`
	Default string       `json:"default_user_access" doc:"allow or deny, for users who are not listed"`
}

func getUserAccess(ctx context.Context, c *route.Caller, in *NamedServer) (*userAccess, error) {
	row, err := findServer(ctx, c, *in)
	if err != nil {
		return nil, err
	}
	list, err := c.DB().ToolUserAccess(ctx, row.ID)
	out := &userAccess{[]UserAccess{}, row.DefaultAccess}
	for _, a := range list {
		out.Users = append(out.Users, UserAccess{a.User, a.Enabled})
	}
	return out, err
}

type updateUserAccessInput struct {
	NamedServer
	Body struct {
		Users   route.Optional[[]UserAccess] `json:"user_access,omitempty" maxItems:"1000" doc:"Replaces all; null or empty for none"`
		Default string                       `json:"default_user_access,omitempty" enum:"allow,deny"`
	}
}

func updateUserAccess(ctx context.Context, c *route.Caller, in *updateUserAccessInput) (*route.Empty, error) {
	row, err := findServer(ctx, c, in.NamedServer)
	if err != nil {
		return nil, err
	}
	b := &in.Body
	return &route.Empty{}, c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.ToolServer(ctx, row.Organisation, row.Workspace, row.ID)
		if err := c.CheckIfMatch(now.UpdatedAt, now.UpdatedAt, err); err != nil {
			return err
		}
		if b.Default != "" {
			now.DefaultAccess = b.Default
		}
		if b.Users.Set {
			list, err := usersOf(ctx, tx, &now, b.Users.Value)
			if err != nil {
				return err
			}
			if err := tx.ReplaceToolUserAccess(ctx, row.ID, list); err != nil {
				return err
			}
		}
		now.UpdatedAt = c.NextUpdateTime(now.UpdatedAt)
		return tx.UpdateToolServer(ctx, now)
	})
}

// usersOf checks that users belong to the workspace of a server.
func usersOf(ctx context.Context, tx *store.Tx, s *store.ToolServer, given []UserAccess) ([]store.ToolUserAccess, error) {
	seen, list := make(map[string]bool, len(given)), make([]store.ToolUserAccess, 0, len(given))
	for _, a := range given {
		m, err := tx.Membership(ctx, s.Organisation, a.User)
		switch {
		case err != nil:
			return nil, err
		case m.RoleIn(s.Workspace) == "":
			return nil, route.Missing("user_access", "member of the workspace", a.User)
		case seen[a.User]:
			return nil, route.Invalid("user_access", "contains the user %.60q more than once", a.User)
		}
		seen[a.User] = true
		list = append(list, store.ToolUserAccess{Server: s.ID, User: a.User, Enabled: a.Enabled})
	}
	return list, nil
}
