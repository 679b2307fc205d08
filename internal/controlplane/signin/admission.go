package signin

import (
	"context"
	"slices"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/people"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// admission decides who a person of an identity provider is in its organisation.
type admission struct {
	tx       *store.Tx
	c        *route.Caller
	provider store.IdentityProvider
	person   person
	flow     flow
	removed  bool // a user that the person was is not a member any more
}

// askAnAdmin is the text for a person who proved who they are but does not belong to the
// organisation. It is the same for every reason.
const askAnAdmin = "You are signed in at your identity provider, but you are not a member here. Ask an administrator of your organisation to invite you, or, if you have an account here, sign in to it and link this one."

func outsider(reason string) *refusal { return &refusal{reason, askAnAdmin, nil} }

func failed(err error) *refusal { return &refusal{"internal", said, err} }

// user returns the user that the person is, and remembers it. Known subjects are the user
// that they were; see admit for others.
func (a *admission) user(ctx context.Context) (store.User, *refusal) {
	if refused := a.recheck(ctx); refused != nil {
		return store.User{}, refused
	}
	known, u, refused := a.findIdentity(ctx)
	exists := known.ID != ""
	switch {
	case refused != nil:
		return u, refused
	case a.flow.Purpose == toLink:
		return a.link(ctx, known, exists)
	case !exists:
		return a.admit(ctx)
	case known.Provider != a.provider.ID:
		return store.User{}, outsider("identity_of_another_provider")
	case u.Status != store.Active:
		return u, outsider("disabled")
	}
	u, err := a.follow(ctx, u)
	if err != nil {
		return u, failed(err)
	}
	known.Email, known.LastUsedAt = a.person.Email, a.c.Now
	if err := a.tx.UpdateIdentity(ctx, known); err != nil {
		return u, failed(err)
	}
	return u, nil
}

// recheck reads the identity provider again, which may have been disabled or changed while
// the person was there.
func (a *admission) recheck(ctx context.Context) *refusal {
	now, err := a.tx.AnyIdentityProvider(ctx, a.provider.ID)
	if err != nil && !apierr.IsNotFound(err) {
		return failed(err)
	}
	before := a.provider.Settings
	if err != nil || now.Settings.Issuer != before.Issuer || now.Settings.ClientID != before.ClientID {
		return &refusal{"provider_changed", said, nil}
	}
	a.provider = now
	return nil
}

// findIdentity returns the stored identity of the person and its user, or an identity without id.
// The identity of a user who was removed is forgotten: they are admitted like a new person,
// but only if they were added or invited again.
func (a *admission) findIdentity(ctx context.Context) (store.Identity, store.User, *refusal) {
	known, err := a.tx.Identity(ctx, a.provider.Organisation, a.person.Issuer, a.person.Subject)
	if apierr.IsNotFound(err) {
		return store.Identity{}, store.User{}, nil
	}
	if err != nil {
		return known, store.User{}, failed(err)
	}
	u, err := a.tx.User(ctx, a.provider.Organisation, known.UserID)
	if apierr.IsNotFound(err) {
		a.removed = true
		if err = a.tx.DeleteIdentity(ctx, known.Organisation, known.UserID, known.ID); err == nil {
			return store.Identity{}, store.User{}, nil
		}
	}
	if err != nil {
		return known, u, failed(err)
	}
	return known, u, nil
}

// link adds the identity to the user who began the flow, unless their session ended since:
// whoever stole one must not keep a way in.
func (a *admission) link(ctx context.Context, known store.Identity, exists bool) (store.User, *refusal) {
	s, err := a.tx.Session(ctx, a.flow.Session)
	if apierr.IsNotFound(err) || err == nil && (s.UserID != a.flow.UserID || !a.c.Now.Before(s.ExpiresAt)) {
		return store.User{}, outsider("session_ended")
	}
	if err != nil {
		return store.User{}, failed(err)
	}
	u, err := a.tx.User(ctx, a.provider.Organisation, a.flow.UserID)
	switch {
	case err != nil || u.Status != store.Active:
		return u, outsider("removed")
	case exists && known.UserID != u.ID:
		return u, &refusal{"linked_to_another", "This account of the identity provider is linked to another user. Remove it there first.", nil}
	case exists:
		return u, nil
	}
	return u, a.remember(ctx, u)
}

func (a *admission) remember(ctx context.Context, u store.User) *refusal {
	err := a.tx.CreateIdentity(ctx, store.Identity{
		ID: a.c.NewID(), Organisation: a.provider.Organisation, Provider: a.provider.ID, Issuer: a.person.Issuer, Subject: a.person.Subject,
		UserID: u.ID, Email: a.person.Email, CreatedAt: a.c.Now, LastUsedAt: a.c.Now,
	})
	if err != nil {
		return failed(err)
	}
	return nil
}

// proves reports whether the address of the person is theirs beyond doubt: the provider
// vouches for it, and its domain is one of the provider's and the organisation's.
func (a *admission) proves(ctx context.Context) (bool, *refusal) {
	p := &a.person
	if !p.Proved || p.Domain == "" || !slices.Contains(a.provider.Settings.Domains, p.Domain) {
		return false, nil
	}
	ok, err := a.tx.IsVerifiedDomain(ctx, a.provider.Organisation, p.Domain)
	if err != nil {
		return false, failed(err)
	}
	return ok, nil
}

// admit makes an unknown person a user: the one that has their address, the one that an invite
// waits for, or a new one.
func (a *admission) admit(ctx context.Context) (store.User, *refusal) {
	address, err := access.ParseEmail(a.person.Email)
	if err != nil {
		return store.User{}, outsider("no_email")
	}
	proved, refused := a.proves(ctx)
	if refused != nil {
		return store.User{}, refused
	}
	if !proved {
		return store.User{}, outsider("unproved_email")
	}
	u, err := a.tx.User(ctx, a.provider.Organisation, address)
	if apierr.IsNotFound(err) {
		return a.create(ctx, address)
	}
	if err != nil {
		return u, failed(err)
	}
	shared, err := a.tx.Shared(ctx, a.provider.Organisation, u.ID)
	if err != nil {
		return u, failed(err)
	}
	others, err := a.tx.Identities(ctx, a.provider.Organisation, u.ID)
	switch {
	case err != nil:
		return u, failed(err)
	case slices.ContainsFunc(others, func(i store.Identity) bool { return i.Issuer == a.person.Issuer }):
		return u, outsider("another_subject") // an address that the provider gave to somebody else
	case u.Role == "owner":
		return u, &refusal{"owner_must_link", "An owner's account is linked only by the owner: sign in to it, and link this one.", nil}
	case shared, u.Status != store.Active:
		return u, outsider("must_link")
	}
	if refused := a.remember(ctx, u); refused != nil {
		return u, refused
	}
	if u, err = a.follow(ctx, u); err != nil {
		return u, failed(err)
	}
	return u, nil
}

// create makes a new user, in the role of their invite if one waits for them.
func (a *admission) create(ctx context.Context, address string) (store.User, *refusal) {
	pending, _, err := a.tx.Invites(ctx, store.InviteQuery{
		Organisation: a.provider.Organisation, Email: address, Status: store.InvitePending, Now: a.c.Now,
	}, store.Page{Size: 1})
	if err != nil {
		return store.User{}, failed(err)
	}
	role := a.provider.Settings.Role
	if role == "" {
		role = "member"
	}
	o, err := a.tx.Organisation(ctx, a.provider.Organisation)
	switch {
	case err != nil:
		return store.User{}, failed(err)
	case len(pending) > 0:
		role = pending[0].Role
	case a.removed:
		return store.User{}, outsider("removed")
	case o.Settings.Directory.OrDefault().UsersOnly:
		return store.User{}, outsider("directory_only")
	case a.provider.Settings.NoProvisioning:
		return store.User{}, outsider("no_provisioning")
	}
	u := store.User{
		ID: a.c.NewID(), Email: address, FirstName: a.person.FirstName, LastName: a.person.LastName, Status: store.Active, Role: role,
		CreatedAt: a.c.Now, UpdatedAt: a.c.Now,
	}
	if _, _, err = a.tx.UserByEmail(ctx, address); err == nil { // of another organisation
		return u, outsider("address_in_use")
	}
	if apierr.IsNotFound(err) {
		err = a.tx.CreateUser(ctx, a.provider.Organisation, u)
	}
	if err == nil && len(pending) > 0 {
		err = people.AcceptInvite(ctx, a.tx, pending[0], u.ID, a.c.Now)
	}
	if err != nil {
		return u, failed(err)
	}
	return u, a.remember(ctx, u)
}

// follow takes over the person's name if the user has none, and their address if it
// changed and is proved. An address of a user of several organisations stays.
func (a *admission) follow(ctx context.Context, u store.User) (store.User, error) {
	before := u
	if u.FirstName == "" && u.LastName == "" {
		u.FirstName, u.LastName = a.person.FirstName, a.person.LastName
	}
	if address, err := access.ParseEmail(a.person.Email); err == nil && address != u.Email {
		proved, refused := a.proves(ctx)
		if refused != nil {
			return u, refused
		}
		shared, err := a.tx.Shared(ctx, a.provider.Organisation, u.ID)
		if err != nil {
			return u, err
		}
		_, _, err = a.tx.UserByEmail(ctx, address)
		if proved && !shared && u.Role != "owner" && apierr.IsNotFound(err) {
			u.Email = address
		}
	}
	if u.Email == before.Email && u.FirstName == before.FirstName && u.LastName == before.LastName {
		return u, nil
	}
	u.UpdatedAt = a.c.NextUpdateTime(u.UpdatedAt)
	return u, a.tx.SetProfile(ctx, u)
}
