package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"modelgate/internal/access"
	"modelgate/internal/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

// join makes an invited person one of the organisation and of the workspaces
// that the invite names. A workspace that was archived meanwhile is left out.
func join(ctx context.Context, tx *store.Tx, c *route.Caller, i *store.Invite, u store.User) error {
	if err := tx.CreateUser(ctx, i.Organisation, u); err != nil {
		return err
	}
	var places []struct{ ID, Role string }
	if err := json.Unmarshal(i.Workspaces, &places); err != nil {
		return err
	}
	for _, p := range places {
		w, err := tx.Workspace(ctx, i.Organisation, p.ID)
		if err != nil {
			return err
		}
		if w.Status != store.Active {
			continue
		}
		if err := tx.SetWorkspaceMember(ctx, w.ID, u.ID, p.Role, c.Now); err != nil {
			return err
		}
	}
	i.Status, i.AcceptedAt = store.InviteAccepted, c.Now
	return tx.UpdateInvite(ctx, *i)
}

// Identify returns who a session's token stands for at now. It is for the
// server, which shows it every token of that form.
func Identify(ctx context.Context, db *store.DB, token string, now time.Time) (*access.Identity, error) {
	ended := apierr.New(apierr.Unauthenticated, "the session is not known or has ended; sign in again")
	hash := access.HashKey(token)
	s, err := db.Session(ctx, hash.String())
	if e, ok := errors.AsType[*apierr.Error](err); ok && e.Kind == apierr.NotFound || err == nil && !now.Before(s.ExpiresAt) {
		return nil, ended
	}
	if err != nil {
		return nil, err
	}
	m, err := db.Membership(ctx, s.Organisation, s.UserID)
	if err != nil {
		return nil, err
	}
	if m.Role == "" {
		return nil, ended
	}
	return &access.Identity{
		KeyID: s.UserID, Type: access.Session, UserID: s.UserID, Name: "session", Hash: hash, Organisation: s.Organisation,
		Scopes: access.RoleScopes(m.Role), ExpiresAt: s.ExpiresAt,
	}, nil
}

type self struct {
	Type         access.KeyType `json:"type"`
	UserID       *string        `json:"user_id"`
	KeyID        *string        `json:"key_id"`
	Name         string         `json:"name"`
	Organisation string         `json:"organisation_id"`
	Workspace    *string        `json:"workspace_id"`
	Role         *string        `json:"role" doc:"In the organisation; null for keys of services"`
	Scopes       []access.Scope `json:"scopes"`
	ExpiresAt    route.Time     `json:"expires_at"`
}

func me(ctx context.Context, c *route.Caller, _ *struct{}) (*self, error) {
	out := &self{
		Type: c.Type, UserID: known(c.UserID), KeyID: known(c.KeyID), Name: c.Name, Organisation: c.Organisation,
		Workspace: known(c.Workspace), Scopes: c.Scopes, ExpiresAt: route.Time(c.ExpiresAt),
	}
	if c.Type == access.Session {
		out.KeyID = nil
	}
	if c.UserID == "" {
		return out, nil
	}
	m, err := c.DB().Membership(ctx, c.Organisation, c.UserID)
	out.Role = known(m.Role)
	return out, err
}

func known(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

type introspectInput struct {
	Body struct {
		Token string `json:"token" minLength:"1" maxLength:"8192"`
		Hint  string `json:"token_type_hint,omitempty" maxLength:"64"`
	}
}

// introspected is what RFC 7662, section 2.2, says of a token. An inactive one
// says nothing else.
type introspected struct {
	Active    bool   `json:"active"`
	Scope     string `json:"scope,omitempty"`
	ClientID  string `json:"client_id,omitempty"`
	Username  string `json:"username,omitempty"`
	Email     string `json:"email,omitempty"`
	Subject   string `json:"sub,omitempty"`
	ExpiresAt int64  `json:"exp,omitempty" doc:"Unix seconds; absent for what does not end"`
	IssuedAt  int64  `json:"iat,omitempty"`
	TokenType string `json:"token_type,omitempty"`
}

// introspect tells of tokens of the caller's organisation alone.
func introspect(ctx context.Context, c *route.Caller, in *introspectInput) (*introspected, error) {
	if access.IsSessionToken(in.Body.Token) {
		id, err := Identify(ctx, c.DB(), in.Body.Token, c.Now)
		if err != nil || id.Organisation != c.Organisation {
			return &introspected{}, unless(err)
		}
		return tell(ctx, c, id, "session", 0)
	}
	hash := access.HashKey(in.Body.Token)
	k, err := c.DB().KeyByHash(ctx, hash.String())
	if missing(err) {
		id, err := c.Token(in.Body.Token)
		if err != nil {
			return &introspected{}, unless(err)
		}
		return tell(ctx, c, id, "jwt", 0)
	}
	if err != nil {
		return nil, err
	}
	replaced := k.Hash != hash && !c.Now.Before(k.TransitionEndsAt)
	if k.Organisation != c.Organisation || k.StatusAt(c.Now) != store.KeyActive || replaced {
		return &introspected{}, nil
	}
	return tell(ctx, c, k.Identity(), "api_key", k.CreatedAt.Unix())
}

func missing(err error) bool {
	e, ok := errors.AsType[*apierr.Error](err)
	return ok && e.Kind == apierr.NotFound
}

// unless keeps errors that are not the token's.
func unless(err error) error {
	if e, ok := errors.AsType[*apierr.Error](err); ok && (e.Kind == apierr.NotFound || e.Kind == apierr.Unauthenticated || e.Kind == apierr.Forbidden) {
		return nil
	}
	return err
}

func tell(ctx context.Context, c *route.Caller, id *access.Identity, kind string, issued int64) (*introspected, error) {
	words := make([]string, len(id.Scopes))
	for i, s := range id.Scopes {
		words[i] = string(s)
	}
	out := &introspected{Active: true, Scope: strings.Join(words, " "), ClientID: id.KeyID, Subject: id.KeyID, IssuedAt: issued, TokenType: kind}
	if !id.ExpiresAt.IsZero() {
		out.ExpiresAt = id.ExpiresAt.Unix()
	}
	if id.Claims != nil { // of a person whom the store does not know
		out.claimed(id.Claims)
		return out, nil
	}
	if id.UserID == "" {
		return out, nil
	}
	u, err := c.DB().User(ctx, c.Organisation, id.UserID)
	if err != nil {
		return &introspected{}, unless(err)
	}
	out.Subject, out.Email, out.Username = u.ID, u.Email, u.Email
	return out, nil
}

// claimed adds what a token says of its person.
func (i *introspected) claimed(c *access.Claims) {
	if !c.IssuedAt.IsZero() {
		i.IssuedAt = c.IssuedAt.Unix()
	}
	if c.User == "" {
		return
	}
	i.Subject, i.Username = c.User, c.User
	if strings.Contains(c.User, "@") {
		i.Email = c.User
	}
}
