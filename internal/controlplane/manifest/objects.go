package manifest

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/deployments"
	"modelgate/internal/controlplane/guardrails"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/controlplane/secrets"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

var guardrailKind = kind[settings.Guardrail, store.Guardrail]{
	section: "guardrails", name: "guardrail",
	entries: func(s *settings.Settings) *[]settings.Guardrail { return &s.Guardrails },
	rows:    func(s *state) []store.Guardrail { return s.guardrails },
	key:     func(g *settings.Guardrail) entryID { return entryID{name: g.Slug} },
	rowKey:  func(_ *state, g *store.Guardrail) entryID { return entryID{name: g.Slug} },
	read:    (*reader).guardrail, put: (*plan).guardrail,
	drop: func(_ *plan, row store.Guardrail) step {
		after := row
		after.Status = store.Archived
		return putRow(guardrails.Put, &row, after)
	},
}

func (p *plan) guardrail(path string, want *settings.Guardrail, old *store.Guardrail, changed []string) (step, error) {
	row := rowOr(old, store.Guardrail{ID: p.names.guardrails[want.Slug], Organisation: p.state.organisation.ID,
		Slug: want.Slug})
	place, err := p.place(path, want.Workspace)
	if err != nil {
		return nil, err
	}
	if old != nil && row.Workspace != place {
		return nil, p.file.ErrorAt(path+".workspace", errors.New("the workspace of a guardrail cannot be changed; give it another slug there"))
	}
	if err := checkGuardrail(want); err != nil {
		return nil, err
	}
	row.Workspace, row.Name, row.Status = place, want.Name, store.Active
	if changed == nil || has(changed, "checks", "actions") {
		row.Checks, row.Actions = text(want.Checks), json.RawMessage(orEmpty(want.Actions, "{}"))
	}
	if err := guardrails.Validate(p.ctx, p.DB.Queries, p.Guardrails, &row); err != nil {
		return nil, err
	}
	return putRow(guardrails.Put, old, row), nil
}

// place returns the id of a workspace, empty for the organisation.
func (p *plan) place(path, slug string) (string, error) {
	if slug == "" {
		return "", nil
	}
	return p.workspaceID(path+".workspace", slug)
}

var referenceKind = kind[settings.SecretReference, store.SecretReference]{
	section: "secret_references", name: "secret_reference",
	entries: func(s *settings.Settings) *[]settings.SecretReference { return &s.SecretReferences },
	rows:    func(s *state) []store.SecretReference { return s.references },
	key:     func(r *settings.SecretReference) entryID { return entryID{name: r.Slug} },
	rowKey:  func(_ *state, r *store.SecretReference) entryID { return entryID{name: r.Slug} },
	read:    (*reader).reference, put: (*plan).reference,
	keep: func(_ *plan, want, have *settings.SecretReference) {
		want.Auth = withStoredSecrets(want.Auth, have.Auth, secrets.Hidden(have.Manager))
	},
	drop: func(_ *plan, row store.SecretReference) step {
		return func(ctx context.Context, c *route.Caller) error {
			n, err := c.DB().SecretReferenceUsers(ctx, row.Organisation, row.ID)
			if err == nil && n > 0 {
				err = apierr.New(apierr.Conflict, "it is used by %d integrations or credentials of partners; remove those first", n)
			}
			if err != nil {
				return err
			}
			return secrets.Remove(ctx, c, row)
		}
	},
}

// withStoredSecrets returns given plus the secrets of have that are not given.
func withStoredSecrets(given, have map[string]string, hidden []string) map[string]string {
	out := make(map[string]string, len(given))
	maps.Copy(out, given)
	for _, name := range hidden {
		if v, ok := have[name]; ok && given[name] == "" {
			out[name] = v
		}
	}
	return filled(out)
}

func (p *plan) reference(path string, want *settings.SecretReference, old *store.SecretReference, changed []string) (step, error) {
	row := rowOr(old, store.SecretReference{ID: p.names.references[want.Slug], Organisation: p.state.organisation.ID,
		Slug: want.Slug})
	if old != nil && row.Manager != want.Manager {
		return nil, p.file.ErrorAt(path+".manager_type", errors.New("the manager of a reference cannot be changed; give it another slug"))
	}
	row.Name, row.Description, row.Manager, row.Path, row.Key, row.Tags = want.Name, want.Description,
		want.Manager, want.Path, want.Key, want.Tags
	var err error
	if row.Workspaces, row.AllWorkspaces, err = p.workspaceIDs(path+".allowed_workspaces", want.Workspaces); err != nil {
		return nil, err
	}
	if err := secrets.Limit(&row, want.Providers, want.Hosts); err != nil {
		return nil, err
	}
	if old == nil || has(changed, "auth_config") {
		fields, err := p.authFields(path, want, row.Auth)
		if err != nil {
			return nil, err
		}
		if err := secrets.Apply(p.ctx, p.sealer, &row, fields); err != nil {
			return nil, err
		}
	}
	if p.request != nil { // the operator may refer to everything that the gateway can read
		if err := secrets.Check(p.ctx, p.sealer, p.request.References, &row); err != nil {
			return nil, err
		}
	}
	return putRow(secrets.Put, old, row), nil
}

// authFields returns the changes from the fields of a stored reference to those of the
// file.
func (p *plan) authFields(path string, want *settings.SecretReference, before map[string]string) (map[string]*string, error) {
	fields, hidden := make(map[string]*string), secrets.Hidden(want.Manager)
	for name := range before {
		if !slices.Contains(hidden, name) {
			fields[name] = nil
		}
	}
	for name, v := range want.Auth {
		switch sealed := secret.IsSealed(v); {
		case slices.Contains(hidden, name) != sealed:
			return nil, p.file.ErrorAt(path+".auth_config."+name, secretSpellingError(sealed))
		case sealed:
			opened, err := p.Box.Open(v)
			if err != nil {
				return nil, err
			}
			v = opened.Reveal()
		}
		fields[name] = &v
	}
	return fields, nil
}

// secretSpellingError returns the error for a credential in plain text, or for a sealed
// field that is not a credential.
func secretSpellingError(sealed bool) error {
	if sealed {
		return errors.New("this is not a credential; write it in plain text")
	}
	return errors.New("plaintext credentials are not allowed; use ${NAME} for an environment variable or the output of `modelgate seal`")
}

var deploymentKind = kind[settings.Deployment, store.GatewayDeployment]{
	section: "deployments", name: "deployment",
	entries: func(s *settings.Settings) *[]settings.Deployment { return &s.Deployments },
	rows:    func(s *state) []store.GatewayDeployment { return s.deployments },
	key:     func(d *settings.Deployment) entryID { return entryID{name: d.Slug} },
	rowKey:  func(_ *state, d *store.GatewayDeployment) entryID { return entryID{name: d.Slug} },
	read:    (*reader).deployment, put: (*plan).deployment,
	drop: func(_ *plan, row store.GatewayDeployment) step { return dropRow(deployments.Remove, row) },
}

func (p *plan) deployment(path string, want *settings.Deployment, old *store.GatewayDeployment, _ []string) (step, error) {
	row := rowOr(old, store.GatewayDeployment{Organisation: p.state.organisation.ID, Slug: want.Slug})
	var err error
	if row.Workspaces, row.AllWorkspaces, err = p.workspaceIDs(path+".workspaces", want.Workspaces); err != nil {
		return nil, err
	}
	auth := orEmpty(want.AuthSettings, "{}")
	if err := checkShape[deployments.Auth](auth); err != nil {
		return nil, err
	}
	if row.Status = store.Active; want.Inactive {
		row.Status = "inactive"
	}
	row.Name, row.Type, row.ClientHash = want.Name, want.Type, want.ClientSHA256
	row.Config, row.AuthSettings = json.RawMessage(orEmpty(want.Config, "{}")), json.RawMessage(auth)
	return putRow(deployments.Put, old, row), nil
}

func (r *reader) guardrail(g *store.Guardrail) (v settings.Guardrail, ok bool, err error) {
	slug, placed := r.place(g.Workspace)
	if g.Status != store.Active || !placed {
		return v, false, nil
	}
	v = settings.Guardrail{Slug: g.Slug, Workspace: slug, Name: g.Name, Actions: object(g.Actions)}
	err = json.Unmarshal(g.Checks, &v.Checks)
	return v, true, err
}

func (r *reader) reference(s *store.SecretReference) (v settings.SecretReference, ok bool, err error) {
	v = settings.SecretReference{
		Slug: s.Slug, Name: s.Name, Description: s.Description, Manager: s.Manager, Auth: filled(maps.Clone(s.Auth)),
		Path: s.Path, Key: s.Key, Tags: filled(s.Tags), Workspaces: r.slugs(s.AllWorkspaces, s.Workspaces),
		Providers: append([]string(nil), s.Providers...), Hosts: append([]string(nil), s.Hosts...),
	}
	opened, err := r.open(s.Sealed)
	held := make(map[string]string)
	if err == nil && !opened.Empty() && json.Unmarshal([]byte(opened.Reveal()), &held) != nil { // the error would quote it
		err = errors.New("the sealed value is not JSON")
	}
	if err != nil {
		return v, false, err
	}
	for _, name := range slices.Sorted(maps.Keys(held)) {
		v.Auth[name] = r.render("secret_reference "+s.Slug+" auth_config "+name, secret.New(held[name]))
	}
	if r.how == None {
		withoutSecrets(s.Manager, v.Auth)
	}
	return v, true, nil
}

// withoutSecrets removes the fields that authenticate the gateway to a secret manager.
func withoutSecrets(manager string, auth map[string]string) {
	for _, name := range secrets.Hidden(manager) {
		delete(auth, name)
	}
}

func (r *reader) deployment(d *store.GatewayDeployment) (settings.Deployment, bool, error) {
	return settings.Deployment{
		Slug: d.Slug, Name: d.Name, Type: d.Type, Inactive: d.Status != store.Active, Config: object(d.Config),
		Workspaces: r.slugs(d.AllWorkspaces, d.Workspaces), AuthSettings: object(d.AuthSettings), ClientSHA256: d.ClientHash,
	}, true, nil
}
