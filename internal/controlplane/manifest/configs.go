package manifest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"modelgate/config"
	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/secret"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

func (r *reader) listConfigs(out *settings.Settings) error {
	out.Configs = []settings.Config{}
	for i := range r.state.configs {
		c := &r.state.configs[i]
		slug, placed := r.workspaces[c.Workspace]
		if c.Status != store.Active || !placed {
			continue
		}
		text, err := r.config(c)
		if err != nil {
			return fmt.Errorf("config %s: %w", c.Slug, err)
		}
		out.Configs = append(out.Configs, settings.Config{Slug: c.Slug, Workspace: slug, Name: c.Name, Default: c.IsDefault, Config: text})
	}
	slices.SortFunc(out.Configs, func(a, b settings.Config) int {
		return cmp.Or(cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.Slug, b.Slug))
	})
	return nil
}

// config returns the text of a config with its credentials as the file has them.
func (r *reader) config(c *store.ConfigText) (settings.Object, error) {
	opened, err := r.open(c.Sealed)
	if err != nil {
		return nil, err
	}
	held, err := store.ParseConfigSecrets(opened)
	if err != nil {
		return nil, err
	}
	return config.ReplaceCredentials([]byte(c.Text), func(found config.Credential) (string, error) {
		v, ok := held[found.Path]
		if !ok {
			return settings.KeptCredential, nil
		}
		return r.render(settings.ConfigPlace(c.Slug, found.Path), v), nil
	})
}

// resolveConfigs seals what looks like a credential in a config by its name and
// is written plainly, so that it can be compared with what is stored.
func (m *Manifest) resolveConfigs(file *settings.Settings) error {
	for i := range file.Configs {
		c := &file.Configs[i]
		text, err := config.ReplaceCredentials(c.Config, func(found config.Credential) (string, error) {
			v := found.Value.Reveal()
			switch {
			case v == settings.KeptCredential || secret.IsSealed(v):
				return v, nil
			case m.Box == nil:
				return "", fmt.Errorf("%s: %w", found.Path, errNoBox)
			}
			return m.Box.SealDeterministic(settings.ConfigPlace(c.Slug, found.Path), secret.New(v)), nil
		})
		if err != nil {
			return file.ErrorAt(fmt.Sprintf("configs[%d].config", i), err)
		}
		c.Config = text
	}
	return nil
}

// keepCredentials puts the credentials of have where want says that they stay as
// they are stored.
func keepCredentials(want, have *settings.Config) {
	list, err := config.Credentials(have.Config)
	if err != nil {
		return // put reports it
	}
	held := make(map[string]config.Credential, len(list))
	for _, c := range list {
		held[c.Path] = c
	}
	text, err := config.ReplaceCredentials(want.Config, func(c config.Credential) (string, error) {
		if was := held[c.Path]; c.Value.Reveal() == settings.KeptCredential && was.Destination == c.Destination {
			return was.Value.Reveal(), nil
		}
		return c.Value.Reveal(), nil
	})
	if err == nil {
		want.Config = text
	}
}

// storedConfig returns a config of the file as it is stored.
func (p *plan) storedConfig(want *settings.Config, before credentials.StoredConfig) (credentials.StoredConfig, error) {
	text, err := config.ReplaceCredentials(want.Config, func(c config.Credential) (string, error) {
		v := c.Value.Reveal()
		if !secret.IsSealed(v) {
			return v, nil
		}
		if p.Box == nil {
			return "", errors.New("its credentials are sealed and there is no master key")
		}
		opened, err := p.Box.Open(v)
		return opened.Reveal(), err
	})
	if err != nil {
		return credentials.StoredConfig{}, err
	}
	return p.keeper.SealConfig(p.ctx, p.state.organisation.ID, text, before)
}

func (p *plan) configs() error {
	rows := make(map[[2]string]store.ConfigText)
	for _, c := range p.state.configs {
		rows[[2]string{c.Workspace, c.Slug}] = c
	}
	return compare(p, family[settings.Config]{
		section: "configs", kind: "config", want: p.file.Configs, have: p.have.Configs, spared: p.keepsUnlisted(p.file.Configs != nil),
		name: func(c *settings.Config) string { return c.Workspace + "/" + c.Slug },
		keep: keepCredentials,
		put: func(path string, want *settings.Config, changed []string) (step, error) {
			workspace, err := p.workspaceID(path+".workspace", want.Workspace)
			if err != nil {
				return nil, err
			}
			before, known := rows[[2]string{workspace, want.Slug}]
			row := before.Config
			if !known {
				row = store.Config{ID: newID(), Organisation: p.state.organisation.ID, Workspace: workspace, Slug: want.Slug, OwnerID: actor, CreatedAt: p.now}
			}
			row.Name, row.IsDefault, row.Status, row.UpdatedBy, row.UpdatedAt = want.Name, want.Default, store.Active, actor, p.now
			var version *store.ConfigVersion
			if changed == nil || has(changed, "config") {
				stored, err := p.storedConfig(want, credentials.StoredConfig{Text: before.Text, Sealed: before.Sealed})
				if err != nil {
					return nil, p.fault(path+".config", err)
				}
				row.VersionID = newID()
				version = &store.ConfigVersion{ID: row.VersionID, Config: row.ID, Text: stored.Text, Sealed: stored.Sealed, CreatedBy: actor, CreatedAt: p.now}
			}
			return func(ctx context.Context, tx *store.Tx) error {
				if known {
					return tx.UpdateConfig(ctx, row, version)
				}
				return tx.CreateConfig(ctx, row, *version)
			}, nil
		},
		drop: func(have *settings.Config) step {
			row := rows[[2]string{p.stored(have.Workspace), have.Slug}].Config
			row.Status, row.UpdatedBy, row.UpdatedAt = store.Archived, actor, p.now
			return func(ctx context.Context, tx *store.Tx) error { return tx.UpdateConfig(ctx, row, nil) }
		},
	})
}
