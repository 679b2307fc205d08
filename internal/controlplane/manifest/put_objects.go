package manifest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/controlplane/secrets"
	"modelgate/internal/secret"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

func (p *plan) guardrails() error {
	rows := make(map[string]store.Guardrail)
	for _, g := range p.state.guardrails {
		rows[g.Slug] = g
	}
	return compare(p, family[settings.Guardrail]{
		section: "guardrails", kind: "guardrail", want: p.file.Guardrails, have: p.have.Guardrails, spared: p.keepsUnlisted(p.file.Guardrails != nil),
		name: func(g *settings.Guardrail) string { return g.Slug },
		put: func(path string, want *settings.Guardrail, changed []string) (step, error) {
			row, known := rows[want.Slug]
			if !known {
				row = store.Guardrail{ID: p.names.guardrails[want.Slug], Organisation: p.state.organisation.ID, Slug: want.Slug, OwnerID: actor, CreatedAt: p.now}
			}
			place, err := p.place(path, want.Workspace)
			if err != nil {
				return nil, err
			}
			if known && row.Workspace != place {
				return nil, p.file.ErrorAt(path+".workspace", errors.New("a guardrail does not move to another workspace; give it another slug there"))
			}
			if err := checkGuardrail(want); err != nil {
				return nil, p.file.ErrorAt(path, err)
			}
			if changed == nil || has(changed, "checks", "actions") {
				row.VersionID = newID()
			}
			row.Workspace, row.Name, row.Status, row.UpdatedBy, row.UpdatedAt = place, want.Name, store.Active, actor, p.now
			row.Checks, row.Actions = text(want.Checks), json.RawMessage(orEmpty(want.Actions, "{}"))
			return func(ctx context.Context, tx *store.Tx) error {
				if known {
					return tx.UpdateGuardrail(ctx, row)
				}
				return tx.CreateGuardrail(ctx, row)
			}, nil
		},
		drop: func(have *settings.Guardrail) step {
			row := rows[have.Slug]
			row.Status, row.UpdatedBy, row.UpdatedAt = store.Archived, actor, p.now
			return func(ctx context.Context, tx *store.Tx) error { return tx.UpdateGuardrail(ctx, row) }
		},
	})
}

// place returns the id of a workspace, empty for the organisation.
func (p *plan) place(path, slug string) (string, error) {
	if slug == "" {
		return "", nil
	}
	return p.workspaceID(path+".workspace", slug)
}

func (p *plan) references() error {
	rows := make(map[string]store.SecretReference)
	for _, r := range p.state.references {
		rows[r.Slug] = r
	}
	return compare(p, family[settings.SecretReference]{
		section: "secret_references", kind: "secret_reference", want: p.file.SecretReferences, have: p.have.SecretReferences,
		spared: p.keepsUnlisted(p.file.SecretReferences != nil),
		name:   func(r *settings.SecretReference) string { return r.Slug },
		keep: func(want, have *settings.SecretReference) {
			want.Auth = withStoredSecrets(want.Auth, have.Auth, secrets.Hidden(have.Manager))
		},
		put: func(path string, want *settings.SecretReference, changed []string) (step, error) {
			return p.reference(path, want, rows[want.Slug], changed)
		},
		drop: func(have *settings.SecretReference) step {
			row := rows[have.Slug]
			return func(ctx context.Context, tx *store.Tx) error {
				n, err := tx.SecretReferenceUsers(ctx, row.Organisation, row.ID)
				if err != nil {
					return err
				}
				if n > 0 {
					return fmt.Errorf("%d integrations use it", n)
				}
				return tx.DeleteSecretReference(ctx, row.ID)
			}
		},
	})
}

// withStoredSecrets returns fields with those of have that are secrets and not given.
func withStoredSecrets(given, have map[string]string, hidden []string) map[string]string {
	out := make(map[string]string, len(given))
	for name, v := range given {
		out[name] = v
	}
	for _, name := range hidden {
		if v, ok := have[name]; ok && given[name] == "" {
			out[name] = v
		}
	}
	return filled(out)
}

func (p *plan) reference(path string, want *settings.SecretReference, row store.SecretReference, changed []string) (step, error) {
	known := row.ID != ""
	if !known {
		row = store.SecretReference{ID: p.names.references[want.Slug], Organisation: p.state.organisation.ID, Slug: want.Slug, CreatedAt: p.now}
	}
	if known && row.Manager != want.Manager {
		return nil, p.file.ErrorAt(path+".manager_type", errors.New("a reference does not change its manager; give it another slug"))
	}
	row.Name, row.Description, row.Manager, row.Path, row.Key, row.Tags = want.Name, want.Description, want.Manager, want.Path, want.Key, want.Tags
	row.UpdatedAt = p.now
	var err error
	if row.Workspaces, row.AllWorkspaces, err = p.workspaceIDs(path+".allowed_workspaces", want.Workspaces); err != nil {
		return nil, err
	}
	if err := secrets.Limit(&row, want.Providers, want.Hosts); err != nil {
		return nil, p.fault(path, err)
	}
	if !known || has(changed, "auth_config") {
		fields, err := p.authFields(path, want, row.Auth)
		if err != nil {
			return nil, err
		}
		if err := secrets.Apply(p.ctx, p.sealer, &row, fields); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context, tx *store.Tx) error {
		if known {
			return tx.UpdateSecretReference(ctx, row)
		}
		return tx.CreateSecretReference(ctx, row)
	}, nil
}

// authFields returns the fields of a reference as a change of those it has.
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

// secretSpellingError says that a field is a credential and should not be written plainly, or
// the other way round.
func secretSpellingError(sealed bool) error {
	if sealed {
		return errors.New("this is no credential; write it plainly")
	}
	return errors.New("plaintext credentials are not allowed; use ${NAME} for an environment variable or the output of `modelgate seal`")
}

// stored returns the id of an active workspace that is stored, whether it stays
// or not.
func (p *plan) stored(slug string) string {
	for _, w := range p.state.workspaces {
		if w.Slug == slug && w.Status == store.Active {
			return w.ID
		}
	}
	return ""
}

func (p *plan) deployments() error {
	rows := make(map[string]store.GatewayDeployment)
	for _, d := range p.state.deployments {
		rows[d.Slug] = d
	}
	return compare(p, family[settings.Deployment]{
		section: "deployments", kind: "deployment", want: p.file.Deployments, have: p.have.Deployments, spared: p.keepsUnlisted(p.file.Deployments != nil),
		name: func(d *settings.Deployment) string { return d.Slug },
		put: func(path string, want *settings.Deployment, _ []string) (step, error) {
			row, known := rows[want.Slug]
			if !known {
				row = store.GatewayDeployment{ID: newID(), Organisation: p.state.organisation.ID, Slug: want.Slug, CreatedAt: p.now}
			}
			var err error
			if row.Workspaces, row.AllWorkspaces, err = p.workspaceIDs(path+".workspaces", want.Workspaces); err != nil {
				return nil, err
			}
			if row.AuthSettings, err = authSettings(want.AuthSettings); err != nil {
				return nil, err
			}
			if err := route.CheckExposed("config", want.Config); err != nil {
				return nil, p.file.ErrorAt(path, err)
			}
			if row.Status = store.Active; want.Inactive {
				row.Status = "inactive"
			}
			row.Name, row.Type, row.ClientHash, row.UpdatedAt = want.Name, want.Type, want.ClientSHA256, p.now
			row.Config = json.RawMessage(orEmpty(want.Config, "{}"))
			return func(ctx context.Context, tx *store.Tx) error {
				if known {
					return tx.UpdateDeployment(ctx, row)
				}
				return tx.CreateDeployment(ctx, row)
			}, nil
		},
		drop: func(have *settings.Deployment) step {
			return func(ctx context.Context, tx *store.Tx) error { return tx.DeleteDeployment(ctx, rows[have.Slug].ID) }
		},
	})
}
