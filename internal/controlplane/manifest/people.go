package manifest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"modelgate/internal/controlplane/directory"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/controlplane/signin"
	"modelgate/internal/identity/access"
	"modelgate/internal/identity/saml"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

// identityRoutes check identity providers, and remove them with the roles that they gave.
var identityRoutes = signin.Routes{Assign: directory.Assign}

var identityKind = kind[settings.IdentityProvider, store.IdentityProvider]{
	section: "identity_providers", name: "identity_provider",
	entries: func(s *settings.Settings) *[]settings.IdentityProvider { return &s.IdentityProviders },
	rows:    func(s *state) []store.IdentityProvider { return s.identities },
	key:     func(v *settings.IdentityProvider) entryID { return entryID{name: v.Slug} },
	rowKey:  func(_ *state, v *store.IdentityProvider) entryID { return entryID{name: v.Slug} },
	read:    (*reader).identity, put: (*plan).identity,
	keep: keepIdentity,
	drop: func(p *plan, row store.IdentityProvider) step {
		return func(ctx context.Context, c *route.Caller) error { return identityRoutes.Remove(ctx, p.api, c, row) }
	},
}

// keepIdentity sets in want what the file leaves out or writes in another way than have.
func keepIdentity(_ *plan, want, have *settings.IdentityProvider) {
	orElse(&want.Secret, have.Secret)
	if want.Type != store.SAML {
		return
	}
	orElse(&want.Issuer, have.Issuer)
	if m, err := saml.ParseMetadata([]byte(want.Metadata)); err == nil && m.Text() == have.Metadata {
		want.Metadata = have.Metadata
	}
}

// identity checks an entry as the route does that creates identity providers: both have the
// same names.
func (p *plan) identity(path string, want *settings.IdentityProvider, old *store.IdentityProvider, _ []string) (step, error) {
	given := *want
	if given.Secret != "" {
		var err error
		if given.Secret, err = p.opened(path+".client_secret", given.Secret, true); err != nil {
			return nil, err
		}
	}
	var e signin.Entry
	if err := checkShape[signin.Entry](settings.Object(text(given))); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text(given), &e); err != nil {
		return nil, err
	}
	row := rowOr(old, store.IdentityProvider{Organisation: p.state.organisation.ID, Slug: want.Slug, Type: want.Type})
	if row.Type != want.Type {
		return nil, p.file.ErrorAt(path+".type", errors.New("the type of an identity provider cannot be changed; give it another slug"))
	}
	if err := identityRoutes.Fill(p.ctx, p.api, &row, e); err != nil {
		return nil, err
	}
	return putRow(signin.Put, old, row), nil
}

// identity converts a row, whose settings have the names of the file.
func (r *reader) identity(row *store.IdentityProvider) (v settings.IdentityProvider, ok bool, err error) {
	if err := json.Unmarshal(text(row.Settings), &v); err != nil {
		return v, false, err
	}
	v.Slug, v.Name, v.Type, v.Status = row.Slug, row.Name, row.Type, row.Status
	if row.Type == store.SAML { // the gateway's key stays where it is
		if v.MetadataURL != "" {
			v.Metadata = "" // is read at the address
		}
		return v, true, nil
	}
	held, err := r.open(row.Sealed)
	if err == nil && !held.Empty() {
		v.Secret = r.render("identity_provider "+row.Slug+" client_secret", held)
	}
	return v, err == nil, err
}

var domainKind = kind[settings.Domain, store.Domain]{
	section: "domains", name: "domain",
	entries: func(s *settings.Settings) *[]settings.Domain { return &s.Domains },
	rows:    func(s *state) []store.Domain { return s.domains },
	key:     func(v *settings.Domain) entryID { return entryID{name: v.Name} },
	rowKey:  func(_ *state, v *store.Domain) entryID { return entryID{name: v.Name} },
	read: func(_ *reader, row *store.Domain) (settings.Domain, bool, error) {
		return settings.Domain{Name: row.Name}, true, nil
	},
	put: func(_ *plan, _ string, want *settings.Domain, _ *store.Domain, _ []string) (step, error) {
		return func(ctx context.Context, c *route.Caller) error { return signin.PutDomain(ctx, c, want.Name) }, nil
	},
	drop: func(_ *plan, row store.Domain) step { return dropRow(signin.RemoveDomain, row) },
}

var mappingKind = kind[settings.DirectoryMapping, store.DirectoryMapping]{
	section: "directory_mappings", name: "directory_mapping",
	entries: func(s *settings.Settings) *[]settings.DirectoryMapping { return &s.DirectoryMappings },
	rows:    func(s *state) []store.DirectoryMapping { return s.mappings },
	key:     func(v *settings.DirectoryMapping) entryID { return entryID{v.Workspace, strings.ToLower(v.Group)} },
	rowKey: func(s *state, v *store.DirectoryMapping) entryID {
		return entryID{s.slugs[v.Workspace], strings.ToLower(v.GroupName)}
	},
	read: func(r *reader, row *store.DirectoryMapping) (settings.DirectoryMapping, bool, error) {
		slug, placed := r.workspaces[row.Workspace]
		return settings.DirectoryMapping{Group: row.GroupName, Workspace: slug, Role: row.Role}, placed, nil
	},
	keep: func(_ *plan, want, have *settings.DirectoryMapping) { want.Group = have.Group },
	put: func(p *plan, path string, want *settings.DirectoryMapping, old *store.DirectoryMapping, _ []string) (step, error) {
		id, err := p.workspaceID(path+".workspace", want.Workspace)
		if err == nil && want.Group == "" {
			err = p.file.ErrorAt(path+".scim_group", errors.New("must not be blank"))
		}
		return func(ctx context.Context, c *route.Caller) error {
			return directory.PutMapping(ctx, c, old, directory.Mapping{Workspace: id, Group: want.Group, Role: want.Role})
		}, err
	},
	drop: func(_ *plan, row store.DirectoryMapping) step { return dropRow(directory.RemoveMapping, row) },
}

// normalisePeople normalises objects of signing in and of directories.
func (p *plan) normalisePeople() {
	f := p.file
	for i := range f.IdentityProviders {
		v := &f.IdentityProviders[i]
		orElse(&v.Name, v.Slug)
		orElse(&v.Type, store.OIDC)
		orElse(&v.Status, store.Active)
		v.Domains = domainNames(v.Domains)
	}
	for i := range f.Domains {
		f.Domains[i].Name = domainNames([]string{f.Domains[i].Name})[0]
	}
	for i := range f.DirectoryMappings {
		v := &f.DirectoryMappings[i]
		v.Group = strings.TrimSpace(v.Group)
	}
}

// domainNames returns names of domains in their stored form, each once. The change itself
// reports those that are not names.
func domainNames(named []string) (list []string) {
	for _, name := range named {
		if parsed, err := access.ParseDomain(name); err == nil {
			name = parsed
		}
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// readPeople reads the rows of signing in and of directories. Mappings made by the name of a
// group follow it, and are not in files.
func (s *state) readPeople(ctx context.Context, q store.Queries) (err error) {
	id := s.organisation.ID
	if s.identities, _, err = q.IdentityProviders(ctx, id, store.Page{}); err != nil {
		return err
	}
	if s.domains, _, err = q.Domains(ctx, id, store.Page{}); err != nil {
		return err
	}
	s.mappings, _, err = q.DirectoryMappings(ctx, store.MappingQuery{Organisation: id}, store.Page{})
	s.mappings = slices.DeleteFunc(s.mappings, func(m store.DirectoryMapping) bool { return m.ByName })
	return err
}
