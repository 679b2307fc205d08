// Package members implements the control plane's routes for the users of an
// organisation, their roles and invites.
//
// It guarantees that the owner cannot be removed, that a removed user loses all access,
// and that the secret of an invite link is shown only to the caller who created it and
// stored as a hash. It does not accept invites (see sessions) or manage roles in
// workspaces (see workspaces).
package members

import (
	"context"
	"net/http"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// Add adds the routes of users and invites.
func Add(a *route.API) {
	f := route.Family{Path: "/admin/users", Tag: "Users", Scopes: []string{"organisation_users"}, Resource: "user"}
	invites := f
	f.Versioned = true
	route.Add(a, f.Route(http.MethodGet, "", "list-users", "list", "List the users of the organisation"), list)
	route.Add(a, invites.Route(http.MethodPost, "/invites", "create-invite", "create", "Invite a user; the link is shown only once"), invite)
	route.Add(a, invites.Route(http.MethodGet, "/invites", "list-invites", "list", "List invites"), listInvites)
	route.Add(a, invites.Route(http.MethodGet, "/invites/{invite}", "get-invite", "read", "Read an invite"), getInvite)
	route.Add(a, invites.Route(http.MethodDelete, "/invites/{invite}", "cancel-invite", "delete", "Cancel an invite"), cancelInvite)
	route.Add(a, invites.Route(http.MethodPost, "/invites/{invite}/resend", "resend-invite", "create",
		"Create a new link for an invite"), resendInvite)
	route.Add(a, f.Route(http.MethodGet, "/{user}", "get-user", "read", "Read a user"), get)
	route.Add(a, f.Route(http.MethodPut, "/{user}", "update-user", "update", "Change the role and the limits of a user"), update)
	route.Add(a, route.Fresh(f.Route(http.MethodPost, "/{user}/link", "create-password-link", "create",
		"Create a link for a user without a password to set one")), link)
	route.Add(a, route.Fresh(f.Route(http.MethodPost, "/{user}/password-reset", "reset-password", "update",
		"Create a link for a user to replace their password")), reset)
	route.Add(a, f.Route(http.MethodDelete, "/{user}", "remove-user", "delete", "Remove a user from the organisation"), remove)
}

type item struct {
	Object     string     `json:"object"`
	ID         string     `json:"id"`
	FirstName  string     `json:"first_name"`
	LastName   string     `json:"last_name"`
	Role       string     `json:"role"`
	Email      string     `json:"email"`
	CreatedAt  route.Time `json:"created_at"`
	UpdatedAt  route.Time `json:"last_updated_at"`
	Workspaces []string   `json:"workspace_ids"`

	UsageLimits *limits.BudgetResponse `json:"usage_limits"`
	RateLimits  limits.Rates           `json:"rate_limits"`
	Tools       []string               `json:"tools" nullable:"true" doc:"What the user may use of MCP servers, as patterns; null for all, empty for nothing"`
}

func toResponse(ctx context.Context, c *route.Caller, u store.User) (item, error) {
	m, err := c.DB().Membership(ctx, c.Organisation, u.ID)
	if err != nil {
		return item{}, err
	}
	out := item{
		Object: "user", ID: u.ID, FirstName: u.FirstName, LastName: u.LastName, Role: u.Role, Email: u.Email,
		CreatedAt: route.Time(u.CreatedAt), UpdatedAt: route.Time(u.UpdatedAt), Workspaces: []string{},
	}
	out.Tools = u.Tools
	out.UsageLimits, out.RateLimits, err = limitsOf(ctx, c, u)
	for id := range m.Workspaces {
		out.Workspaces = append(out.Workspaces, id)
	}
	return out, err
}

type listInput struct {
	route.Paging
	Role  string `query:"role" enum:"owner,admin,member"`
	Email string `query:"email" maxLength:"320"`
}

func list(ctx context.Context, c *route.Caller, in *listInput) (*route.List[item], error) {
	found, total, err := c.DB().Users(ctx, c.Organisation, in.Role, access.UserName(in.Email), in.Rows())
	if err != nil {
		return nil, err
	}
	return route.ConvertList(found, total, func(u store.User) (item, error) { return toResponse(ctx, c, u) })
}

type oneInput struct {
	User string `path:"user" maxLength:"255"`
}

func get(ctx context.Context, c *route.Caller, in *oneInput) (*item, error) {
	u, err := find(ctx, c, in.User)
	if err != nil {
		return nil, err
	}
	out, err := toResponse(ctx, c, u)
	return &out, err
}

func find(ctx context.Context, c *route.Caller, id string) (store.User, error) {
	u, err := c.DB().User(ctx, c.Organisation, access.UserName(id))
	return u, c.CheckFound("", u.ID, err, route.NotFound("user", "user", id))
}

type updateInput struct {
	User string `path:"user" maxLength:"255"`
	Body updateBody
}

type updateBody struct {
	Role        string                             `json:"role,omitempty" enum:"admin,member" doc:"Required unless the request changes limits"`
	RateLimits  route.Optional[limits.Rates]       `json:"rate_limits,omitempty" maxItems:"11" doc:"Limits of requests and tokens in fixed windows, and of requests at a time; null or empty for none"`
	UsageLimits route.Optional[limits.BudgetInput] `json:"usage_limits,omitempty"`
	Tools       route.Optional[[]string]           `json:"tools,omitempty" maxItems:"500" maxLength:"512" doc:"What the user may use of MCP servers, as patterns; null for all, empty for nothing"`
	ResetUsage  bool                               `json:"reset_usage,omitempty" doc:"Resets the usage"`
}

func update(ctx context.Context, c *route.Caller, in *updateInput) (*route.Empty, error) {
	u, err := find(ctx, c, in.User)
	if err != nil {
		return nil, err
	}
	b := &in.Body
	if err := b.checkRole(c, &u); err != nil {
		return nil, err
	}
	if err := checkFresh(c, b.Role); err != nil {
		return nil, err
	}
	if b.ResetUsage {
		if err := c.AwaitSpending(ctx); err != nil {
			return nil, err
		}
	}
	err = change(ctx, c, u, func(tx *store.Tx) error {
		if b.changesLimits() {
			if err := changeLimits(ctx, c, tx, u, b); err != nil {
				return err
			}
		}
		if b.Role == "" {
			return nil
		}
		return tx.SetUserRole(ctx, c.Organisation, u.ID, b.Role, c.NextUpdateTime(u.UpdatedAt))
	})
	return &route.Empty{}, err
}

// checkFresh returns an error for a caller who makes an admin, which can do what needs a recent
// sign-in, without one.
func checkFresh(c *route.Caller, role string) error {
	if role != "admin" {
		return nil
	}
	return c.CheckFresh()
}

// checkRole returns an error if the caller may not give u the requested role.
func (b *updateBody) checkRole(c *route.Caller, u *store.User) error {
	switch {
	case b.Role == "" && b.changesLimits():
		return nil
	case b.Role == "":
		return route.Invalid("role", "is required unless the request changes limits")
	case u.Role == "owner":
		return route.Invalid("role", "of the owner cannot be changed")
	case u.Role == b.Role:
		return route.Invalid("role", "is already %s", u.Role)
	}
	return c.CheckRole(b.Role)
}

func remove(ctx context.Context, c *route.Caller, in *oneInput) (*route.Empty, error) {
	u, err := find(ctx, c, in.User)
	switch {
	case err != nil:
		return nil, err
	case u.Role == "owner":
		return nil, apierr.New(apierr.Invalid, "the owner of the organisation cannot be removed").WithParam("user")
	}
	return &route.Empty{}, Remove(ctx, c, u)
}

// Remove removes a user from the organisation.
func Remove(ctx context.Context, c *route.Caller, u store.User) error {
	return change(ctx, c, u, func(tx *store.Tx) error { return tx.RemoveUser(ctx, c.Organisation, u.ID, c.Now) })
}

// change runs f unless the user was changed after the request read them.
func change(ctx context.Context, c *route.Caller, read store.User, f func(*store.Tx) error) error {
	return c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.User(ctx, c.Organisation, read.ID)
		if err := c.CheckIfMatch(read.UpdatedAt, now.UpdatedAt, err); err != nil {
			return err
		}
		return f(tx)
	})
}
