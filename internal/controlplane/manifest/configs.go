package manifest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"modelgate/config"
	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/configs"
	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

// config returns a config with its credentials in the file's form.
func (r *reader) config(c *store.ConfigText) (v settings.Config, ok bool, err error) {
	slug, placed := r.workspaces[c.Workspace]
	if c.Status != store.Active || !placed {
		return v, false, nil
	}
	v = settings.Config{Slug: c.Slug, Workspace: slug, Name: c.Name, Default: c.IsDefault}
	opened, err := r.open(c.Sealed)
	if err != nil {
		return v, false, err
	}
	held, err := store.ParseConfigSecrets(opened)
	if err != nil {
		return v, false, err
	}
	v.Config, err = config.ReplaceCredentials([]byte(c.Text), func(found config.Credential) (string, error) {
		v, ok := held[found.Path]
		if !ok {
			return settings.KeptCredential, nil
		}
		return r.render(settings.ConfigPlace(c.Slug, found.Path), v), nil
	})
	return v, true, err
}

// resolveConfigs seals credentials that a config contains in plain text, which can then
// be compared with stored ones.
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

// keepCredentials copies the credentials of have to the places where want keeps the
// stored ones.
func keepCredentials(want, have *settings.Config) {
	list, err := config.Credentials(have.Config)
	if err != nil {
		return // reported by put
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

// storedConfig returns a config of the file in stored form.
func (p *plan) storedConfig(want *settings.Config, before credentials.StoredConfig) (credentials.StoredConfig, error) {
	text, err := config.ReplaceCredentials(want.Config, func(c config.Credential) (string, error) {
		v := c.Value.Reveal()
		if !secret.IsSealed(v) {
			return v, nil
		}
		if p.Box == nil {
			return "", errors.New("its credentials are sealed and no master key is configured")
		}
		opened, err := p.Box.Open(v)
		return opened.Reveal(), err
	})
	if err != nil {
		return credentials.StoredConfig{}, err
	}
	return p.keeper.SealConfig(p.ctx, p.state.organisation.ID, text, before)
}

var configKind = kind[settings.Config, store.ConfigText]{
	section: "configs", name: "config",
	entries: func(s *settings.Settings) *[]settings.Config { return &s.Configs },
	rows:    func(s *state) []store.ConfigText { return s.configs },
	key:     func(c *settings.Config) entryID { return entryID{c.Workspace, c.Slug} },
	rowKey:  func(s *state, c *store.ConfigText) entryID { return entryID{s.slugs[c.Workspace], c.Slug} },
	read:    (*reader).config, put: (*plan).config,
	keep: func(_ *plan, want, have *settings.Config) { keepCredentials(want, have) },
	drop: func(_ *plan, c store.ConfigText) step {
		c.Status = store.Archived
		return func(ctx context.Context, by *route.Caller) error { return configs.Put(ctx, by, c.Config, nil) }
	},
}

// registerConfigs registers the configs that keys may name.
func (p *plan) registerConfigs() {
	current := make(map[[2]string]int64, len(p.state.configs))
	for i := range p.state.configs {
		c := &p.state.configs[i]
		current[[2]string{p.state.slugs[c.Workspace], c.Slug}] = c.Number
	}
	list := p.file.Configs
	if p.keepsUnlisted(list != nil) {
		list = slices.Concat(p.have.Configs, list)
	}
	for _, c := range list {
		at := [2]string{c.Workspace, c.Slug}
		p.names.configs[at] = current[at]
	}
}

// checkConfig returns an error if a config that a key names, as pc-x or pc-x@3, or this
// version of it, does not exist.
func (p *plan) checkConfig(path, workspace, ref string) error {
	name, version, err := route.SplitVersion("config", ref)
	if err != nil {
		return p.file.ErrorAt(path, err)
	}
	newest, ok := p.names.configs[[2]string{workspace, name}]
	switch {
	case !ok:
		return p.missing(path, "config", name)
	case version > newest && newest == 0:
		return p.file.ErrorAt(path, fmt.Errorf("config %q has no versions yet; name it without one", name))
	case version > newest:
		return p.file.ErrorAt(path, route.MissingVersion(path, fmt.Sprintf("config %q", name), version, newest))
	}
	return nil
}

func (p *plan) config(path string, want *settings.Config, old *store.ConfigText, changed []string) (step, error) {
	workspace, err := p.workspaceID(path+".workspace", want.Workspace)
	if err != nil {
		return nil, err
	}
	if p.isDeclared(func(d route.Declared) bool {
		return slices.ContainsFunc(d.Configs, func(v store.ConfigText) bool { return v.Workspace == workspace && v.Slug == want.Slug })
	}) {
		return nil, errDeclared
	}
	stored := rowOr(old, store.ConfigText{Config: store.Config{Organisation: p.state.organisation.ID, Workspace: workspace, Slug: want.Slug}})
	row := stored.Config
	row.Name, row.IsDefault, row.Status = want.Name, want.Default, store.Active
	var next *credentials.StoredConfig
	if changed == nil || has(changed, "config") {
		sealed, err := p.storedConfig(want, credentials.StoredConfig{Text: stored.Text, Sealed: stored.Sealed})
		if err != nil {
			return nil, p.fault(path+".config", err)
		}
		next = &sealed
	}
	return func(ctx context.Context, c *route.Caller) error { return configs.Put(ctx, c, row, next) }, nil
}
