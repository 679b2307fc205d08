package sessions

import (
	"context"
	"encoding/json"

	"modelgate/internal/controlplane/people"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

type self struct {
	Type         access.KeyType `json:"type"`
	UserID       *string        `json:"user_id"`
	KeyID        *string        `json:"key_id"`
	Name         string         `json:"name"`
	Organisation string         `json:"organisation_id"`
	Workspace    *string        `json:"workspace_id"`
	Role         *string        `json:"role" doc:"Role in the organisation; null for service keys"`
	Scopes       []access.Scope `json:"scopes"`
	ExpiresAt    route.Time     `json:"expires_at"`
	Pending      string         `json:"pending,omitempty" enum:"second_factor,enrolment" doc:"What a pending session waits for; absent for others"`
	Methods      []string       `json:"methods,omitempty" doc:"Second factors with which a pending session can be completed"`
	Factors      bool           `json:"second_factor" doc:"Whether you have a second factor"`
	FreshUntil   *route.Time    `json:"fresh_until,omitempty" doc:"Until when a session may call routes that need a sign-in of the last 10 minutes; absent for keys"`
	*profile
}

// profile is what a user is shown of themselves.
type profile struct {
	Email        string           `json:"email"`
	FirstName    string           `json:"first_name"`
	LastName     string           `json:"last_name"`
	Organisation organisationName `json:"organisation"`
	Workspaces   []ownWorkspace   `json:"workspaces" doc:"Active ones that the user may use; at most 1,000"`
}

type organisationName struct {
	ID   string `json:"id"`
	Slug string `json:"slug"`
	Name string `json:"name"`
}

type ownWorkspace struct {
	ID     string              `json:"id"`
	Slug   string              `json:"slug"`
	Name   string              `json:"name"`
	Role   string              `json:"role" enum:"admin,manager,member"`
	Rights []access.Permission `json:"rights" doc:"What the role allows there"`
}

// maxOwnWorkspaces is the limit of workspaces in a profile.
const maxOwnWorkspaces = 1000

func me(ctx context.Context, c *route.Caller, _ *struct{}) (*self, error) {
	out := &self{
		Type: c.Type, UserID: optionalText(c.UserID), KeyID: optionalText(c.KeyID), Name: c.Name, Organisation: c.Organisation,
		Workspace: optionalText(c.Workspace), Scopes: c.Scopes, ExpiresAt: route.Time(c.ExpiresAt),
	}
	if c.UserID == "" {
		return out, nil
	}
	if c.Type == access.Session || c.Type == access.PendingSession {
		out.KeyID = nil
		has, err := people.FactorsOf(ctx, c.DB(), c.Organisation, c.UserID)
		if err != nil {
			return nil, err
		}
		out.Factors, out.Methods = has.Count() > 0, has.Methods()
	}
	if c.Type == access.PendingSession { // nothing of the organisation
		out.Pending = c.Pending
		return out, nil
	}
	out.Methods = nil
	if c.Type == access.Session {
		until := route.Time(c.ProvedAt.Add(route.FreshTime))
		out.FreshUntil = &until
	}
	m, err := c.DB().Membership(ctx, c.Organisation, c.UserID)
	if err != nil || m.Role == "" {
		return out, err
	}
	out.Role = optionalText(m.Role)
	out.profile, err = profileOf(ctx, c, m)
	return out, err
}

func profileOf(ctx context.Context, c *route.Caller, m store.Membership) (*profile, error) {
	u, err := c.DB().User(ctx, c.Organisation, c.UserID)
	if err != nil {
		return nil, err
	}
	o, err := c.DB().Organisation(ctx, c.Organisation)
	if err != nil {
		return nil, err
	}
	p := &profile{
		Email: u.Email, FirstName: u.FirstName, LastName: u.LastName, Organisation: organisationName{o.ID, o.Slug, o.Name},
		Workspaces: []ownWorkspace{},
	}
	query := store.WorkspaceQuery{Organisation: o.ID, ID: c.Workspace, Statuses: []string{store.Active}}
	if m.Role == "member" {
		query.Member = c.UserID
	}
	all, _, err := c.DB().Workspaces(ctx, query, store.Page{Size: maxOwnWorkspaces})
	if err != nil {
		return nil, err
	}
	for _, w := range all {
		var own access.RolePermissions
		if err := json.Unmarshal(w.SecuritySettings, &own); err != nil {
			return nil, err
		}
		role, switches := m.RoleIn(w.ID), o.Settings.Security.WithOverrides(own, o.Settings.Overridable)
		p.Workspaces = append(p.Workspaces, ownWorkspace{w.ID, w.Slug, w.Name, role, switches.Allowed(role)})
	}
	return p, nil
}

func optionalText(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
