package sessions

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/people"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/identity/jwt"
	"modelgate/internal/store"
)

// join adds an invited user to the organisation and to the workspaces of the invite,
// and returns the user as stored; see [people.AcceptInvite].
func join(ctx context.Context, tx *store.Tx, c *route.Caller, i *store.Invite, u store.User) (store.User, error) {
	u, _, err := addToOrganisation(ctx, tx, i.Organisation, u)
	if err != nil {
		return u, err
	}
	return u, people.AcceptInvite(ctx, tx, *i, u.ID, c.Now)
}

// addToOrganisation adds u to an organisation. An existing user without a password, for
// example from a file, gets u's password and keeps their id; adopted is then true. Any
// other account with u's e-mail address is a conflict, because a link must not give
// access to it; see [linkConflict].
func addToOrganisation(ctx context.Context, tx *store.Tx, organisation string, u store.User) (entered store.User, adopted bool, err error) {
	there, err := tx.User(ctx, organisation, u.Email)
	if apierr.IsNotFound(err) || err == nil && there.PasswordHash != "" {
		return u, false, tx.CreateUser(ctx, organisation, u)
	}
	if err != nil {
		return u, false, err
	}
	if there.Role == "owner" && u.Role != "owner" { // an invite cannot make an owner
		return u, false, apierr.New(apierr.Conflict, "an invite makes no owner")
	}
	if _, err := tx.DirectoryUser(ctx, organisation, there.ID); !apierr.IsNotFound(err) {
		// Groups may have given them more than the invite, whose link somebody else may have.
		return u, false, cmp.Or(err, error(apierr.New(apierr.Conflict, "the directory added the user, who signs in as it says")))
	}
	u.ID, u.FirstName, u.LastName = there.ID, cmp.Or(u.FirstName, there.FirstName), cmp.Or(u.LastName, there.LastName)
	err = tx.SetFirstPassword(ctx, organisation, u)
	if apierr.IsNotFound(err) {
		err = apierr.New(apierr.Conflict, "the account is disabled, or belongs to another organisation too")
	}
	return u, true, err
}

// linkConflict replaces each conflict with an account by one error, so that whoever holds a
// link learns neither what kind of account has the address nor in which organisation.
func linkConflict(err error, email string) error {
	if e, ok := errors.AsType[*apierr.Error](err); ok && e.Kind == apierr.Conflict {
		return apierr.New(apierr.Conflict, "%s cannot be added through this link; sign in if you have an account, or ask the operator of the gateway", email).WithCause(err)
	}
	return err
}

type passwordInput struct {
	Body struct {
		Profile
		Token  string         `json:"token" minLength:"1" maxLength:"255" doc:"Token of the link"`
		Cookie *people.Cookie `json:"cookie,omitempty" doc:"Returns the token as a cookie instead of in the body"`
	}
}

const linkSpent = "this link is unknown, used or expired; ask for another"

// set sets a user's password with the token of a link: their first password, or a
// replacement that ends all of their sessions.
func (f *family) set(ctx context.Context, c *route.Caller, in *passwordInput) (*people.NewSession, error) {
	b, link := &in.Body, access.HashKey(in.Body.Token).String()
	hash, err := f.hash(ctx, c, b.Password, func() error {
		l, err := c.DB().PasswordLink(ctx, link, c.Now)
		if err == nil {
			return checkPasswords(ctx, c, l.Organisation)
		}
		return linkInvalidError(err, linkSpent)
	})
	if err != nil {
		return nil, err
	}
	var out *people.NewSession
	err = c.Change(ctx, func(tx *store.Tx) error {
		l, err := tx.ConsumePasswordLink(ctx, link, c.Now)
		if err == nil {
			c.SetAuditOrganisation(l.Organisation)
			err = byLink(ctx, tx, l, b.user(c, "", hash, ""))
		}
		if err != nil {
			return linkInvalidError(err, linkSpent)
		}
		out, err = f.begin(ctx, c, tx, l.UserID, l.Organisation)
		if l.Resets {
			c.SetAuditAction("password_reset", l.UserID)
		}
		return err
	})
	return showSession(c, out, b.Cookie, err)
}

// byLink stores the password of u, and the name with a first password, unless the state
// for which the link was created has changed.
func byLink(ctx context.Context, tx *store.Tx, l store.PasswordLink, u store.User) error {
	there, err := tx.User(ctx, l.Organisation, l.UserID)
	if err == nil && there.Role == "owner" && !l.Resets {
		err = apierr.New(apierr.NotFound, "the owner cannot use a password link")
	}
	if err != nil {
		return err
	}
	if !l.Resets {
		u.ID, u.FirstName, u.LastName = there.ID, cmp.Or(u.FirstName, there.FirstName), cmp.Or(u.LastName, there.LastName)
		return tx.SetFirstPassword(ctx, l.Organisation, u)
	}
	shared, err := tx.Shared(ctx, l.Organisation, l.UserID)
	if err == nil && shared && !l.ByOperator {
		err = apierr.New(apierr.NotFound, "the user belongs to another organisation too")
	}
	if err != nil {
		return err
	}
	return tx.ReplacePassword(ctx, store.PasswordChange{User: there.ID, Before: there.PasswordHash, After: u.PasswordHash, Now: u.UpdatedAt})
}

// Identify returns the identity of a session's token and records that the session is in
// use. The server calls it for every token of that form.
func Identify(ctx context.Context, db *store.DB, use Use) (*access.Identity, error) {
	s, id, err := identify(ctx, db.Queries, use)
	if err != nil {
		return nil, err
	}
	// Writing rarely keeps requests from waiting for the database. If writes fail, the
	// session may expire early but never late.
	if use.Now.Sub(s.LastUsedAt) >= use.Lifetimes.Touch() {
		err = db.TouchSession(ctx, s.Hash, use.Address, use.Now)
	}
	if err != nil && use.Logger != nil {
		use.Logger.Warn("storing the use of a session failed", "session", s.ID, "err", err.Error())
	}
	return id, nil
}

// Use describes a use of a session's token.
type Use struct {
	Token     string
	Address   string // of the client
	Now       time.Time
	Lifetimes Lifetimes
	Logger    *slog.Logger // nil is silent
}

func identify(ctx context.Context, q store.Queries, use Use) (store.Session, *access.Identity, error) {
	ended := apierr.New(apierr.Unauthenticated, "the session is invalid or expired; sign in again")
	hash := access.HashKey(use.Token)
	s, err := q.Session(ctx, hash.String())
	if apierr.IsNotFound(err) || err == nil && !use.Now.Before(ends(&s, use.Lifetimes)) {
		return s, nil, ended
	}
	if err != nil {
		return s, nil, err
	}
	m, err := q.Membership(ctx, s.Organisation, s.UserID)
	if err != nil {
		return s, nil, err
	}
	if m.Role == "" {
		return s, nil, ended
	}
	id := &access.Identity{
		KeyID: s.UserID, Type: access.Session, UserID: s.UserID, Name: "session", Hash: hash, Organisation: s.Organisation,
		Scopes: access.RoleScopes(m.Role), ExpiresAt: ends(&s, use.Lifetimes), ProvedAt: s.ProvedAt,
	}
	if s.ProvedAt.IsZero() {
		id.ProvedAt = s.CreatedAt
	}
	if s.Pending != "" {
		id.Type, id.Pending, id.Scopes = access.PendingSession, s.Pending, nil
	}
	return s, id, nil
}

type introspectInput struct {
	Body struct {
		Token string `json:"token" minLength:"1" maxLength:"8192"`
		Hint  string `json:"token_type_hint,omitempty" maxLength:"64"`
	}
}

// introspected is the response of RFC 7662, section 2.2. An inactive token has no other
// fields.
type introspected struct {
	Active    bool   `json:"active"`
	Scope     string `json:"scope,omitempty"`
	ClientID  string `json:"client_id,omitempty"`
	Username  string `json:"username,omitempty"`
	Email     string `json:"email,omitempty"`
	Subject   string `json:"sub,omitempty"`
	ExpiresAt int64  `json:"exp,omitempty" doc:"Unix seconds; absent if it does not expire"`
	IssuedAt  int64  `json:"iat,omitempty"`
	TokenType string `json:"token_type,omitempty"`
}

// introspect describes tokens of the caller's organisation only.
func (f *family) introspect(ctx context.Context, c *route.Caller, in *introspectInput) (*introspected, error) {
	if access.IsSessionToken(in.Body.Token) {
		_, id, err := identify(ctx, c.DB(), Use{Token: in.Body.Token, Now: c.Now, Lifetimes: f.deps.lifetimes()})
		if err != nil || id.Organisation != c.Organisation || id.Type != access.Session {
			return &introspected{}, unless(err)
		}
		return describeToken(ctx, c, id, "session", 0)
	}
	hash := access.HashKey(in.Body.Token)
	k, err := c.DB().KeyByHash(ctx, hash.String())
	if apierr.IsNotFound(err) {
		id, err := f.deps.verify(c, in.Body.Token)
		if err != nil {
			return &introspected{}, unless(err)
		}
		if id.Workload != "" {
			return describeToken(ctx, c, id, "api_key", 0)
		}
		return describeToken(ctx, c, id, "jwt", 0)
	}
	if err != nil {
		return nil, err
	}
	replaced := k.Hash != hash && !c.Now.Before(k.TransitionEndsAt)
	if k.Organisation != c.Organisation || hasEnded(&k, c.Now) || replaced {
		return &introspected{}, nil
	}
	own := k.Identity()
	for _, id := range k.Origin.Lineage { // revoked with the keys it descends from, and limited by them
		maker, err := c.DB().Key(ctx, k.Organisation, id)
		if apierr.IsNotFound(err) || err == nil && hasEnded(&maker, c.Now) {
			return &introspected{}, nil
		}
		if err != nil {
			return nil, err
		}
		own = own.Under(maker.Identity())
	}
	return describeToken(ctx, c, own, "api_key", k.CreatedAt.Unix())
}

// hasEnded reports whether a key is valid no longer. A key whose budget is spent still is:
// requests with it are refused until the next reset, as with any other limit.
func hasEnded(k *store.Key, now time.Time) bool {
	status := k.StatusAt(now)
	return status != store.KeyActive && status != store.KeyExhausted
}

// unless returns errors that do not mean that the token is invalid.
func unless(err error) error {
	if e, ok := errors.AsType[*apierr.Error](err); ok &&
		(e.Kind == apierr.NotFound || e.Kind == apierr.Unauthenticated || e.Kind == apierr.Forbidden) {
		return nil
	}
	return err
}

// verify returns the identity that a JSON Web Token of the caller's organisation proves.
// A token of another organisation is not found.
func (r *Routes) verify(c *route.Caller, token string) (*access.Identity, error) {
	none := apierr.New(apierr.NotFound, "token not found")
	if r.Verify == nil {
		return nil, none
	}
	id, err := r.Verify(token)
	if refused, ok := errors.AsType[*jwt.RejectedError](err); ok && refused.Organisation != c.Organisation {
		return nil, none
	}
	if err == nil && id.Organisation != c.Organisation {
		return nil, none
	}
	return id, err
}

func describeToken(ctx context.Context, c *route.Caller, id *access.Identity, kind string, issued int64) (*introspected, error) {
	words := make([]string, len(id.Scopes))
	for i, s := range id.Scopes {
		words[i] = string(s)
	}
	out := &introspected{Active: true, Scope: strings.Join(words, " "), ClientID: id.KeyID, Subject: id.KeyID,
		IssuedAt: issued, TokenType: kind}
	if !id.ExpiresAt.IsZero() {
		out.ExpiresAt = id.ExpiresAt.Unix()
	}
	if id.Claims != nil { // of a user that is not in the store
		out.claimed(id.Claims)
		return out, nil
	}
	if id.UserID == "" {
		return out, nil
	}
	u, err := c.DB().User(ctx, c.Organisation, id.UserID)
	if err != nil || u.Status != store.Active {
		return &introspected{}, unless(err)
	}
	out.Subject, out.Email, out.Username = u.ID, u.Email, u.Email
	return out, nil
}

// claimed adds the claims about the token's user.
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
