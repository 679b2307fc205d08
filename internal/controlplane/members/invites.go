package members

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// inviteLife is how long an invite is valid.
const inviteLife = 48 * time.Hour

// linkPath is the path at which an invite is accepted, relative to the gateway's
// address.
const linkPath = "/accept-invite?token="

// Place is a workspace that an invited user joins, and their role there.
type Place struct {
	ID   string `json:"id" minLength:"1" maxLength:"255" doc:"Id or slug"`
	Role string `json:"role" enum:"admin,manager,member"`
}

// KeyDetails requests a key for the user who accepts the invite. It is stored; no key
// is created yet.
type KeyDetails struct {
	Scopes []string `json:"scopes" nullable:"false" minItems:"1" maxItems:"200"`
}

type inviteInput struct {
	Body struct {
		Email      string      `json:"email" minLength:"3" maxLength:"320"`
		Role       string      `json:"role" enum:"admin,member"`
		Workspaces []Place     `json:"workspaces" maxItems:"1000"`
		Key        *KeyDetails `json:"workspace_api_key_details,omitempty" doc:"Stored only: this version creates no key"`
	}
}

type invited struct {
	ID   string `json:"id"`
	Link string `json:"invite_link" doc:"Absolute if public_url is set, otherwise relative to the gateway's address; shown only once"`
}

func invite(ctx context.Context, c *route.Caller, in *inviteInput) (*invited, error) {
	if err := checkInvites(ctx, c); err != nil {
		return nil, err
	}
	b := &in.Body
	address, err := email(b.Email)
	if err != nil {
		return nil, err
	}
	i := store.Invite{ID: c.NewID(), Organisation: c.Organisation, Email: address, Role: b.Role,
		Status: store.InvitePending, InvitedBy: c.Actor(), CreatedAt: c.Now}
	if i.Workspaces, err = places(ctx, c, b.Workspaces); err != nil {
		return nil, err
	}
	roles := make([]string, len(b.Workspaces))
	for n, p := range b.Workspaces {
		roles[n] = p.Role
	}
	if err := c.CheckRole(b.Role, roles...); err != nil {
		return nil, err
	}
	if err := checkFresh(c, b.Role); err != nil {
		return nil, err
	}
	if i.KeyDetails, err = keyDetails(c, b.Key); err != nil {
		return nil, err
	}
	token := renew(&i, c.Now)
	c.SetAuditSubject("", i.ID)
	err = c.Change(ctx, func(tx *store.Tx) error {
		if _, err := tx.User(ctx, c.Organisation, address); err == nil {
			return apierr.New(apierr.Conflict, "%s already belongs to the organisation", address).WithParam("email")
		}
		return tx.CreateInvite(ctx, i)
	})
	if e, ok := errors.AsType[*apierr.Error](err); ok && e.Kind == apierr.Conflict && e.Param == "" {
		err = apierr.New(apierr.Conflict, "an invite for %s is pending; cancel it or send it again", address).WithParam("email")
	}
	if err != nil {
		return nil, err
	}
	return &invited{i.ID, c.Link(linkPath + token.Reveal())}, nil
}

// checkInvites returns an error if only the directory of the organisation may add users.
func checkInvites(ctx context.Context, c *route.Caller) error {
	o, err := c.DB().Organisation(ctx, c.Organisation)
	if err == nil && o.Settings.Directory.OrDefault().UsersOnly {
		err = apierr.New(apierr.Forbidden, "users of this organisation are added by its directory only (directory.users_only); add the user there").WithCode("AB03")
	}
	return err
}

// renew gives an invite a new token and a new expiry.
func renew(i *store.Invite, now time.Time) secret.String {
	token := access.NewLinkToken()
	i.TokenHash, i.ExpiresAt = access.HashKey(token.Reveal()).String(), now.Add(inviteLife)
	return token
}

// email returns an e-mail address in stored form.
func email(text string) (string, error) {
	address, err := access.ParseEmail(text)
	if err != nil {
		return "", route.Invalid("email", "%v", err)
	}
	return address, nil
}

// places returns the workspaces of an invite, by id.
func places(ctx context.Context, c *route.Caller, list []Place) (json.RawMessage, error) {
	out := make([]Place, len(list))
	for i, p := range list {
		w, err := c.ActiveWorkspace(ctx, "workspaces", p.ID)
		if err != nil {
			return nil, err
		}
		out[i] = Place{w.ID, p.Role}
	}
	return json.Marshal(out)
}

func keyDetails(c *route.Caller, k *KeyDetails) (json.RawMessage, error) {
	if k == nil {
		return json.RawMessage("null"), nil
	}
	for _, text := range k.Scopes {
		scope, err := access.ParseScope(text)
		if err == nil && scope == access.ScopeAll {
			err = errors.New("the scope * is allowed only for installation keys")
		}
		if err == nil {
			err = scope.CheckHolder(access.WorkspaceUser)
		}
		if err != nil {
			return nil, route.Invalid("workspace_api_key_details.scopes", "%v", err)
		}
		if scope.CheckHolder(c.Type) == nil && !c.Allows(scope) {
			return nil, apierr.New(apierr.Forbidden, "you cannot grant the scope %q because you do not have it",
				string(scope)).WithParam("workspace_api_key_details.scopes").WithCode("AB03")
		}
	}
	return json.Marshal(k)
}

type inviteItem struct {
	Object     string     `json:"object"`
	ID         string     `json:"id"`
	Email      string     `json:"email"`
	Role       string     `json:"role"`
	Workspaces route.JSON `json:"workspaces"`
	CreatedAt  route.Time `json:"created_at"`
	ExpiresAt  route.Time `json:"expires_at"`
	AcceptedAt route.Time `json:"accepted_at"`
	Status     string     `json:"status"`
	InvitedBy  string     `json:"invited_by"`
}

func toInviteItem(i store.Invite, now time.Time) inviteItem {
	return inviteItem{
		"invite", i.ID, i.Email, i.Role, route.JSON(i.Workspaces), route.Time(i.CreatedAt), route.Time(i.ExpiresAt),
		route.Time(i.AcceptedAt), i.StatusAt(now), i.InvitedBy,
	}
}

type invitesInput struct {
	route.Paging
	Role   string `query:"role" enum:"admin,member"`
	Email  string `query:"email" maxLength:"320"`
	Status string `query:"status" enum:"pending,cancelled,accepted,expired"`
}

func listInvites(ctx context.Context, c *route.Caller, in *invitesInput) (*route.List[inviteItem], error) {
	q := store.InviteQuery{Organisation: c.Organisation, Role: in.Role, Email: access.UserName(in.Email), Status: in.Status, Now: c.Now}
	found, total, err := c.DB().Invites(ctx, q, in.Rows())
	return route.Listing(found, total, err, func(i store.Invite) inviteItem { return toInviteItem(i, c.Now) })
}

type inviteRef struct {
	Invite string `path:"invite" maxLength:"255"`
}

func getInvite(ctx context.Context, c *route.Caller, in *inviteRef) (*inviteItem, error) {
	i, err := findInvite(ctx, c, in.Invite)
	return route.ItemOf(i, err, func(i store.Invite) inviteItem { return toInviteItem(i, c.Now) })
}

func findInvite(ctx context.Context, c *route.Caller, id string) (store.Invite, error) {
	i, err := c.DB().Invite(ctx, c.Organisation, id)
	return i, c.CheckFound("", i.ID, err, route.NotFound("invite", "invite", id))
}

// open returns an invite that was neither accepted nor cancelled.
func open(ctx context.Context, c *route.Caller, id string) (store.Invite, error) {
	i, err := findInvite(ctx, c, id)
	if err == nil && (i.Status == store.InviteAccepted || i.Status == store.InviteCancelled) {
		err = apierr.New(apierr.Conflict, "the invite is already %s", i.Status)
	}
	return i, err
}

func cancelInvite(ctx context.Context, c *route.Caller, in *inviteRef) (*route.Empty, error) {
	i, err := open(ctx, c, in.Invite)
	if err != nil {
		return nil, err
	}
	i.Status = store.InviteCancelled
	err = c.Change(ctx, func(tx *store.Tx) error { return tx.UpdateInvite(ctx, i) })
	return &route.Empty{}, err
}

type resent struct {
	Link string `json:"inviteLink" doc:"Relative to the gateway's address; the previous link is no longer valid"`
}

// checkLinkAccess returns an error if the caller could not have created the invite and may not
// read its link.
func checkLinkAccess(c *route.Caller, i store.Invite) error {
	var list []Place
	var key *KeyDetails
	if err := errors.Join(json.Unmarshal(i.Workspaces, &list), json.Unmarshal(i.KeyDetails, &key)); err != nil {
		return err
	}
	roles := make([]string, len(list))
	for n, p := range list {
		roles[n] = p.Role
	}
	if err := c.CheckRole(i.Role, roles...); err != nil {
		return err
	}
	_, err := keyDetails(c, key)
	return err
}

func resendInvite(ctx context.Context, c *route.Caller, in *inviteRef) (*resent, error) {
	i, err := open(ctx, c, in.Invite)
	if err != nil {
		return nil, err
	}
	if err := checkInvites(ctx, c); err != nil {
		return nil, err
	}
	if err := checkLinkAccess(c, i); err != nil {
		return nil, err
	}
	if err := checkFresh(c, i.Role); err != nil {
		return nil, err
	}
	i.Status = store.InvitePending
	token := renew(&i, c.Now)
	if err := c.Change(ctx, func(tx *store.Tx) error { return tx.UpdateInvite(ctx, i) }); err != nil {
		return nil, err
	}
	return &resent{c.Link(linkPath + token.Reveal())}, nil
}
