package workspaces

import (
	"context"
	"net/http"
	"slices"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// ranks are the roles in a workspace, lowest first.
var ranks = []string{access.Member, access.Manager, access.Admin}

func addMembers(a *route.API) {
	const path = "/workspaces/{workspace}/users"
	f := route.Family{Path: "/admin" + path, Also: path, Tag: "Workspaces", Scopes: []string{"workspace_users"},
		Resource: "workspace_user", Versioned: true}
	route.Add(a, f.Route(http.MethodPost, "", "add-workspace-users", "create", "Add users to a workspace"), addUsers)
	route.Add(a, f.Route(http.MethodGet, "", "list-workspace-users", "list", "List the members of a workspace"), listUsers)
	route.Add(a, f.Route(http.MethodGet, "/{user}", "get-workspace-user", "read", "Read a member"), getUser)
	route.Add(a, f.Route(http.MethodPut, "/{user}", "update-workspace-user", "update", "Change the role of a member"), updateUser)
	route.Add(a, f.Route(http.MethodDelete, "/{user}", "remove-workspace-user", "delete", "Remove a member from a workspace"), removeUser)
}

type memberItem struct {
	ID        string     `json:"id"`
	FirstName string     `json:"first_name"`
	LastName  string     `json:"last_name"`
	OrgRole   string     `json:"org_role"`
	Role      string     `json:"role"`
	Origin    string     `json:"origin" enum:"manual,group" doc:"Who set the role: an administrator, or groups of a directory or identity provider"`
	Email     string     `json:"email"`
	Status    string     `json:"status"`
	Workspace string     `json:"workspace_id"`
	CreatedAt route.Time `json:"created_at"`
	UpdatedAt route.Time `json:"last_updated_at"`
	Object    string     `json:"object"`
}

func toMemberItem(m store.WorkspaceMember) memberItem {
	return memberItem{
		ID: m.UserID, FirstName: m.FirstName, LastName: m.LastName, OrgRole: m.OrgRole, Role: m.Role, Origin: m.Origin,
		Email: m.Email, Status: m.Status, Workspace: m.Workspace,
		CreatedAt: route.Time(m.CreatedAt), UpdatedAt: route.Time(m.UpdatedAt), Object: "workspace-user",
	}
}

// Member names a user and their role.
type Member struct {
	ID   string `json:"id" minLength:"1" maxLength:"320" doc:"Id or e-mail address"`
	Role string `json:"role" enum:"admin,manager,member"`
}

type addInput struct {
	Workspace string `path:"workspace" maxLength:"255" doc:"Id or slug"`
	Body      struct {
		Users []Member `json:"users" nullable:"false" minItems:"1" maxItems:"1000"`
	}
}

func addUsers(ctx context.Context, c *route.Caller, in *addInput) (*route.Empty, error) {
	w, err := active(ctx, c, in.Workspace)
	if err != nil {
		return nil, err
	}
	own, err := rank(ctx, c, w)
	if err != nil {
		return nil, err
	}
	people := make([]store.User, len(in.Body.Users))
	for i, m := range in.Body.Users {
		if people[i], err = person(ctx, c, "users", m.ID); err != nil {
			return nil, err
		}
		if err := checkRoleGrant(own, m.Role); err != nil {
			return nil, err
		}
	}
	err = c.Change(ctx, func(tx *store.Tx) error {
		for i, u := range people {
			if err := checkRank(ctx, tx.Queries, own, w.ID, u.ID); err != nil {
				return err
			}
			if err := tx.SetWorkspaceMember(ctx, w.ID, u.ID, in.Body.Users[i].Role, c.Now); err != nil {
				return err
			}
		}
		return nil
	})
	return &route.Empty{}, err
}

// active returns the workspace that a path names unless it is archived.
func active(ctx context.Context, c *route.Caller, ref string) (store.Workspace, error) {
	w, err := find(ctx, c, ref)
	if err == nil && w.Status != store.Active {
		err = apierr.New(apierr.Conflict, "the workspace %q is archived", w.Slug)
	}
	return w, err
}

// rank returns the index of the caller's role in ranks. A service key ranks like the
// user who created it, or like a member if it lacks scopes of the higher roles.
func rank(ctx context.Context, c *route.Caller, w store.Workspace) (int, error) {
	if !c.IsPerson() {
		own := min(int(c.KeyRank()-access.RankMember), len(ranks)-1)
		if c.CheckRole("", access.Admin) != nil {
			own = 0
		}
		return own, nil
	}
	m, err := c.DB().Membership(ctx, c.Organisation, c.UserID)
	return slices.Index(ranks, m.RoleIn(w.ID)), err
}

// checkRoleGrant returns an error for a role above the caller's own.
func checkRoleGrant(own int, role string) error {
	if slices.Index(ranks, role) <= own {
		return nil
	}
	return apierr.New(apierr.Forbidden, "you cannot assign the role %q, which is above your own", role).WithParam("role").WithCode("AB03")
}

// checkRank returns an error if a user's role is above the caller's own.
func checkRank(ctx context.Context, q store.Queries, own int, workspace, user string) error {
	m, err := q.WorkspaceMember(ctx, workspace, user)
	if apierr.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if slices.Index(ranks, m.Role) > own {
		return apierr.New(apierr.Forbidden, "a %s of the workspace is above your own role", m.Role).WithCode("AB03")
	}
	return nil
}

type usersInput struct {
	Workspace string `path:"workspace" maxLength:"255" doc:"Id or slug"`
	route.Paging
	Role  string `query:"role" enum:"admin,manager,member"`
	Email string `query:"email" maxLength:"320"`
}

func listUsers(ctx context.Context, c *route.Caller, in *usersInput) (*route.List[memberItem], error) {
	w, err := find(ctx, c, in.Workspace)
	if err != nil {
		return nil, err
	}
	found, total, err := c.DB().WorkspaceMembers(ctx, w.ID, in.Role, access.UserName(in.Email), in.Rows())
	return route.Listing(found, total, err, toMemberItem)
}

type userInput struct {
	Workspace string `path:"workspace" maxLength:"255" doc:"Id or slug"`
	User      string `path:"user" maxLength:"255"`
}

func getUser(ctx context.Context, c *route.Caller, in *userInput) (*memberItem, error) {
	w, err := find(ctx, c, in.Workspace)
	if err != nil {
		return nil, err
	}
	m, err := memberOf(ctx, c, w, in.User)
	return route.ItemOf(m, err, toMemberItem)
}

func memberOf(ctx context.Context, c *route.Caller, w store.Workspace, user string) (store.WorkspaceMember, error) {
	m, err := c.DB().WorkspaceMember(ctx, w.ID, user)
	return m, c.CheckFound(w.ID, user, err, apierr.New(apierr.NotFound, "member %.60q not found in the workspace %q",
		user, w.Slug).WithParam("user"))
}

type roleInput struct {
	Workspace string `path:"workspace" maxLength:"255" doc:"Id or slug"`
	User      string `path:"user" maxLength:"255"`
	Body      struct {
		Role string `json:"role" enum:"admin,manager,member"`
	}
}

func updateUser(ctx context.Context, c *route.Caller, in *roleInput) (*route.Empty, error) {
	err := onMember(ctx, c, in.Workspace, in.User, func(tx *store.Tx, w store.Workspace, own int) error {
		if err := checkRoleGrant(own, in.Body.Role); err != nil {
			return err
		}
		if err := checkOrigin(ctx, tx, w, in.User, in.Body.Role); err != nil {
			return err
		}
		return tx.SetWorkspaceMember(ctx, w.ID, in.User, in.Body.Role, c.Now)
	})
	return &route.Empty{}, err
}

func removeUser(ctx context.Context, c *route.Caller, in *userInput) (*route.Empty, error) {
	err := onMember(ctx, c, in.Workspace, in.User, func(tx *store.Tx, w store.Workspace, _ int) error {
		if err := checkOrigin(ctx, tx, w, in.User, ""); err != nil {
			return err
		}
		return tx.RemoveWorkspaceMember(ctx, w.ID, in.User, c.Now)
	})
	return &route.Empty{}, err
}

// checkOrigin returns an error if groups give a member a higher role than a request would leave
// them; an empty one is none.
func checkOrigin(ctx context.Context, tx *store.Tx, w store.Workspace, user, role string) error {
	m, err := tx.WorkspaceMember(ctx, w.ID, user)
	if err == nil && m.Origin == store.OriginGroup && store.HigherRole(role, m.Role) != role {
		err = apierr.New(apierr.Conflict, "groups give this member the role %s; change their groups or the mapping", m.Role)
	}
	return err
}

// onMember runs f in a transaction for a member who does not rank above the caller.
func onMember(ctx context.Context, c *route.Caller, workspace, user string, f func(tx *store.Tx, w store.Workspace, own int) error) error {
	w, err := active(ctx, c, workspace)
	if err != nil {
		return err
	}
	if _, err := memberOf(ctx, c, w, user); err != nil {
		return err
	}
	own, err := rank(ctx, c, w)
	if err != nil {
		return err
	}
	return c.Change(ctx, func(tx *store.Tx) error {
		if err := checkRank(ctx, tx.Queries, own, w.ID, user); err != nil {
			return err
		}
		now, err := tx.WorkspaceMember(ctx, w.ID, user)
		if err := c.CheckIfMatch(now.UpdatedAt, now.UpdatedAt, err); err != nil {
			return err
		}
		return f(tx, w, own)
	})
}
