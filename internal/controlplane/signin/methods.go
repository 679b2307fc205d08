package signin

import (
	"context"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/people"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

type methodsInput struct {
	Organisation string `query:"organisation" maxLength:"255" doc:"Slug; default is the installation's first organisation"`
}

type startItem struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Start string `json:"start" doc:"Where browsers begin; takes the parameter next, a path to return to"`
}

type methods struct {
	Object   string      `json:"object"`
	Claimed  bool        `json:"claimed" doc:"Whether the installation has an owner"`
	Password bool        `json:"password" doc:"Whether passwords are accepted"`
	SSO      []startItem `json:"sso"`
}

// methods lists how to sign in. An unknown organisation looks like one without identity
// providers.
func (f *family) methods(ctx context.Context, c *route.Caller, in *methodsInput) (*methods, error) {
	out := &methods{Object: "sign_in_methods", Password: true, SSO: []startItem{}}
	first, err := c.DB().Organisation(ctx, store.DefaultOrganisation)
	if err != nil {
		return nil, err
	}
	out.Claimed = first.OwnerID != ""
	o := first
	if in.Organisation != "" {
		o, err = c.DB().Organisation(ctx, in.Organisation)
		if apierr.IsNotFound(err) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
	}
	out.Password = !o.Settings.NoPasswords
	found, _, err := c.DB().IdentityProviders(ctx, o.ID, store.Page{Size: maxProviders})
	for _, p := range found {
		if p.Status == store.Active {
			out.SSO = append(out.SSO, startItem{p.ID, p.Name, c.Link(pathOf(p.ID))})
		}
	}
	return out, err
}

// checkSession returns an error unless the caller uses a session.
func checkSession(c *route.Caller) error {
	if c.Type == access.Session {
		return nil
	}
	return apierr.New(apierr.Forbidden, "a session is required; keys cannot be used here").WithCode("AB03")
}

type identityItem struct {
	ID         string     `json:"id"`
	Object     string     `json:"object"`
	Provider   string     `json:"provider_id"`
	Issuer     string     `json:"issuer"`
	Subject    string     `json:"subject"`
	Email      string     `json:"email" doc:"At the last sign-in"`
	CreatedAt  route.Time `json:"created_at"`
	LastUsedAt route.Time `json:"last_used_at"`
}

type identitiesInput struct{ route.LongPaging }

func listIdentities(ctx context.Context, c *route.Caller, in *identitiesInput) (*route.List[identityItem], error) {
	if err := checkSession(c); err != nil {
		return nil, err
	}
	found, err := c.DB().Identities(ctx, c.Organisation, c.UserID)
	return route.PageOf(found, in.LongPaging, err, func(i store.Identity) identityItem {
		return identityItem{i.ID, "identity", i.Provider, i.Issuer, i.Subject, i.Email, route.Time(i.CreatedAt), route.Time(i.LastUsedAt)}
	})
}

type identityInput struct {
	Identity string `path:"identity" maxLength:"255"`
}

// removeIdentity removes an account of the caller, with the roles that its provider gave.
func (f *family) removeIdentity(ctx context.Context, c *route.Caller, in *identityInput) (*route.Empty, error) {
	if err := checkSession(c); err != nil {
		return nil, err
	}
	c.SetAuditAction("identity_unlink", in.Identity)
	err := c.Change(ctx, func(tx *store.Tx) error {
		own, err := tx.Identities(ctx, c.Organisation, c.UserID)
		if err != nil {
			return err
		}
		for _, i := range own {
			if i.ID != in.Identity {
				continue
			}
			p, err := tx.IdentityProvider(ctx, c.Organisation, i.Provider)
			if err != nil {
				return err
			}
			if err := f.assign(ctx, tx, groupsOf(p, c.UserID, nil, c.Now)); err != nil {
				return err
			}
		}
		if err := tx.DeleteIdentity(ctx, c.Organisation, c.UserID, in.Identity); err != nil {
			return err
		}
		return people.CheckWayIn(ctx, tx, c.Organisation)
	})
	if apierr.IsNotFound(err) {
		err = route.NotFound("identity", "identity", in.Identity)
	}
	return &route.Empty{}, err
}
