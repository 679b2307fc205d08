// Package secrets implements the control plane's routes for references to external
// secrets.
//
// It guarantees that the gateway's credentials for secret managers are stored sealed
// and shown only as masks, that they are not sent to another address than the one they
// were given for, and that a reference in use by an integration cannot be removed. It
// does not read secrets (see secretref), and no route shows them.
package secrets

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/secrets/secretref"
	"modelgate/internal/store"
)

// Routes are the routes of secret references.
type Routes struct {
	// References reads external secrets. Nil reads none from the host.
	References *secretref.Resolver
}

// Add adds the routes.
func (r Routes) Add(a *route.API) {
	k := service{a.Secrets, r.References}
	if k.resolver == nil {
		k.resolver = secretref.New(secretref.Options{})
	}
	f := route.Family{Path: "/secret-references", Tag: "Secret references", Scopes: []string{"secret_references"},
		Resource: "secret_reference", Versioned: true}
	const one = "/{reference}"
	route.Add(a, f.Route(http.MethodPost, "", "create-secret-reference", "create", "Create a secret reference"), k.create)
	route.Add(a, f.Route(http.MethodGet, "", "list-secret-references", "list", "List secret references"), list)
	route.Add(a, f.Route(http.MethodGet, one, "get-secret-reference", "read", "Read a secret reference"), get)
	route.Add(a, f.Route(http.MethodPut, one, "update-secret-reference", "update", "Change a secret reference"), k.update)
	route.Add(a, f.Route(http.MethodDelete, one, "delete-secret-reference", "delete", "Remove a secret reference that nothing uses"), remove)
	route.Add(a, f.Route(http.MethodPost, one+"/test", "test-secret-reference", "read",
		"Test whether the secret of a reference can be read"), k.test)
}

type createInput struct {
	Body struct {
		Name          string             `json:"name" minLength:"1" maxLength:"255"`
		Slug          string             `json:"slug,omitempty" minLength:"1" maxLength:"255" pattern:"^[a-zA-Z0-9_-]+$"`
		Description   string             `json:"description,omitempty" maxLength:"1024"`
		Manager       string             `json:"manager_type" enum:"environment,file,hashicorp_vault,cloud_a_secrets,cloud_c_vault"`
		Auth          map[string]*string `json:"auth_config,omitempty" maxProperties:"32" doc:"Credentials and address of the manager; type selects the method"`
		Path          string             `json:"secret_path" minLength:"1" maxLength:"1024"`
		Key           string             `json:"secret_key,omitempty" maxLength:"255" doc:"Key of a secret with several values"`
		AllWorkspaces *bool              `json:"allow_all_workspaces,omitempty" doc:"Defaults to true, or to false if workspaces are given"`
		Workspaces    []string           `json:"allowed_workspaces,omitempty" maxItems:"1000" doc:"Ids or slugs"`
		Providers     []string           `json:"allowed_providers,omitempty" maxItems:"200" doc:"Ids of the providers that it may be sent to; defaults to all"`
		Hosts         []string           `json:"allowed_hosts,omitempty" maxItems:"100" doc:"Hosts that it may be sent to in addition to the providers' own"`
		Tags          credentials.Tags   `json:"tags,omitempty"`
	}
}

type created struct {
	ID     string `json:"id"`
	Slug   string `json:"slug"`
	Object string `json:"object"`
}

func (k service) create(ctx context.Context, c *route.Caller, in *createInput) (*created, error) {
	b := &in.Body
	s := store.SecretReference{
		ID: c.NewID(), Organisation: c.Organisation, Slug: b.Slug, Name: b.Name, Description: b.Description, Manager: b.Manager,
		Path: b.Path, Key: b.Key, Tags: b.Tags, CreatedAt: c.Now, UpdatedAt: c.Now,
	}
	if s.Slug == "" {
		s.Slug = route.NewSlug("sr", b.Name)
	}
	c.SetAuditSubject("", s.ID)
	if err := b.Tags.Check("tags"); err != nil {
		return nil, err
	}
	var err error
	if s.Workspaces, s.AllWorkspaces, err = c.ChosenWorkspaces(ctx, "allowed_workspaces", b.AllWorkspaces, b.Workspaces); err != nil {
		return nil, err
	}
	if err := Limit(&s, b.Providers, b.Hosts); err != nil {
		return nil, err
	}
	if err := k.merge(ctx, &s, b.Auth); err != nil {
		return nil, err
	}
	if err := k.check(ctx, &s); err != nil {
		return nil, err
	}
	err = c.Change(ctx, func(tx *store.Tx) error { return tx.CreateSecretReference(ctx, s) })
	if e, ok := errors.AsType[*apierr.Error](err); ok && e.Kind == apierr.Conflict {
		return nil, apierr.New(apierr.Conflict, "secret reference slug %q already exists; choose another", s.Slug).WithParam("slug")
	}
	if err != nil {
		return nil, err
	}
	return &created{s.ID, s.Slug, "secret-reference"}, nil
}

type updateInput struct {
	Reference string `path:"reference" maxLength:"255" doc:"Id or slug"`
	Body      struct {
		Name          string                           `json:"name,omitempty" minLength:"1" maxLength:"255"`
		Description   *string                          `json:"description,omitempty" maxLength:"1024"`
		Auth          map[string]*string               `json:"auth_config,omitempty" maxProperties:"32" doc:"Fields to change; null removes a field, and a mask keeps the secret"`
		Path          string                           `json:"secret_path,omitempty" minLength:"1" maxLength:"1024"`
		Key           *string                          `json:"secret_key,omitempty" maxLength:"255"`
		AllWorkspaces *bool                            `json:"allow_all_workspaces,omitempty"`
		Workspaces    []string                         `json:"allowed_workspaces,omitempty" maxItems:"1000"`
		Providers     route.Optional[[]string]         `json:"allowed_providers,omitempty" maxItems:"200" doc:"null or an empty array for all"`
		Hosts         route.Optional[[]string]         `json:"allowed_hosts,omitempty" maxItems:"100" doc:"null or an empty array for the providers' own hosts only"`
		Tags          route.Optional[credentials.Tags] `json:"tags,omitempty"`
	}
}

func (k service) update(ctx context.Context, c *route.Caller, in *updateInput) (*route.Empty, error) {
	s, err := find(ctx, c, in.Reference)
	if err != nil {
		return nil, err
	}
	before, b := s.UpdatedAt, &in.Body
	s.Name, s.Path = cmp.Or(b.Name, s.Name), cmp.Or(b.Path, s.Path)
	if b.Description != nil {
		s.Description = *b.Description
	}
	if b.Key != nil {
		s.Key = *b.Key
	}
	s.Tags = b.Tags.Or(s.Tags)
	if err := b.Tags.Value.Check("tags"); err != nil {
		return nil, err
	}
	if b.AllWorkspaces != nil || len(b.Workspaces) > 0 {
		if s.Workspaces, s.AllWorkspaces, err = c.ChosenWorkspaces(ctx, "allowed_workspaces", b.AllWorkspaces, b.Workspaces); err != nil {
			return nil, err
		}
	}
	if err := Limit(&s, b.Providers.Or(s.Providers), b.Hosts.Or(s.Hosts)); err != nil {
		return nil, err
	}
	if err := k.place(ctx, &s, b.Auth, b.Path); err != nil {
		return nil, err
	}
	s.UpdatedAt = c.NextUpdateTime(before)
	err = c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.SecretReference(ctx, s.Organisation, s.ID)
		if err := c.CheckIfMatch(before, now.UpdatedAt, err); err != nil {
			return err
		}
		return tx.UpdateSecretReference(ctx, s)
	})
	return &route.Empty{}, err
}

// place changes the manager's credentials, address and path if the request sets them,
// and checks the reference again if they lead elsewhere.
func (k service) place(ctx context.Context, s *store.SecretReference, auth map[string]*string, path string) error {
	if len(auth) > 0 {
		if err := k.merge(ctx, s, auth); err != nil {
			return err
		}
	}
	if len(auth) == 0 && path == "" {
		return nil
	}
	return k.check(ctx, s)
}

func remove(ctx context.Context, c *route.Caller, in *oneInput) (*route.Empty, error) {
	s, err := find(ctx, c, in.Reference)
	if err != nil {
		return nil, err
	}
	return &route.Empty{}, Remove(ctx, c, s)
}

// Remove removes a secret reference that nothing uses.
func Remove(ctx context.Context, c *route.Caller, s store.SecretReference) error {
	return c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.SecretReference(ctx, s.Organisation, s.ID)
		if err := c.CheckIfMatch(s.UpdatedAt, now.UpdatedAt, err); err != nil {
			return err
		}
		n, err := tx.SecretReferenceUsers(ctx, s.Organisation, s.ID)
		if err != nil {
			return err
		}
		if n > 0 {
			return apierr.New(apierr.Invalid, "secret reference is in use by %d integrations or credentials of partners; remove it from their secret_mappings first", n).WithParam("reference")
		}
		return tx.DeleteSecretReference(ctx, s.ID)
	})
}

// Put stores s, which a file describes, instead of before; nil is a new reference.
func Put(ctx context.Context, c *route.Caller, before *store.SecretReference, s store.SecretReference) error {
	write := (*store.Tx).UpdateSecretReference
	if s.UpdatedAt = c.NextUpdateTime(s.UpdatedAt); before == nil {
		write, s.CreatedAt = (*store.Tx).CreateSecretReference, c.Now
	}
	return c.Change(ctx, func(tx *store.Tx) error { return write(tx, ctx, s) })
}
