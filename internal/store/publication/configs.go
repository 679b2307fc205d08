package publication

import (
	"context"

	"modelgate/internal/storage/sqlrow"
)

// readConfigs reads the configs that are active, with all their versions. Texts that were
// read before are taken from there.
func (l *loader) readConfigs(ctx context.Context) (err error) {
	const text = `
		SELECT c.organisation_id, c.workspace_id, c.id, c.slug, c.version_id
		FROM configs c
		JOIN workspaces w ON w.id = c.workspace_id
		WHERE c.status = 'active' AND w.status = 'active'
		ORDER BY c.id`
	l.state.Configs, err = sqlrow.List(ctx, l.q.Reader, "configs", text, func(r sqlrow.Scanner) (c Config, err error) {
		err = r.Scan(&c.Organisation, &c.Workspace, &c.ID, &c.Slug, &c.Version)
		return c, err
	})
	if err != nil {
		return err
	}
	if err := l.addConfigVersions(ctx); err != nil {
		return err
	}
	return l.addConfigTexts(ctx)
}

// addConfigVersions adds the versions of the configs, without their texts.
func (l *loader) addConfigVersions(ctx context.Context) error {
	const text = `
		SELECT v.config_id, v.id, v.number
		FROM config_versions v
		JOIN configs c ON c.id = v.config_id
		WHERE c.status = 'active'
		ORDER BY v.config_id, v.number`
	byID := make(map[string]*Config, len(l.state.Configs))
	for i := range l.state.Configs {
		byID[l.state.Configs[i].ID] = &l.state.Configs[i]
	}
	_, err := sqlrow.List(ctx, l.q.Reader, "versions of configs", text, func(r sqlrow.Scanner) (none struct{}, err error) {
		var id string
		var v ConfigVersion
		err = r.Scan(&id, &v.ID, &v.Number)
		if c := byID[id]; c != nil {
			c.Versions = append(c.Versions, v)
		}
		return none, err
	})
	return err
}

// addConfigTexts adds the text of each version: those of before, and of the others one by
// one when they are few, as after a change, or all at once.
func (l *loader) addConfigTexts(ctx context.Context) error {
	const few = 20
	const all = `
		SELECT v.id, v.text, v.sealed
		FROM config_versions v
		JOIN configs c ON c.id = v.config_id
		WHERE c.status = 'active'`
	known := l.before.configVersions()
	var missing []string
	for i := range l.state.Configs {
		for _, v := range l.state.Configs[i].Versions {
			if _, ok := known[v.ID]; !ok {
				missing = append(missing, v.ID)
			}
		}
	}
	if len(missing) > few {
		_, err := sqlrow.List(ctx, l.q.Reader, "config texts", all, func(r sqlrow.Scanner) (v ConfigVersion, err error) {
			err = r.Scan(&v.ID, &v.Text, &v.Sealed)
			known[v.ID] = v
			return v, err
		})
		if err != nil {
			return err
		}
		missing = nil
	}
	for _, id := range missing {
		v, err := l.q.ConfigVersion(ctx, id)
		if err != nil {
			return err
		}
		known[id] = ConfigVersion{Text: v.Text, Sealed: v.Sealed}
	}
	for i := range l.state.Configs {
		l.state.Configs[i].setTexts(known)
	}
	return nil
}

// configVersions returns the versions of all configs by id. A nil state has none.
func (s *State) configVersions() map[string]ConfigVersion {
	known := make(map[string]ConfigVersion)
	if s == nil {
		return known
	}
	for i := range s.Configs {
		for _, v := range s.Configs[i].Versions {
			known[v.ID] = v
		}
	}
	return known
}

// setTexts sets the text of each version from known, and the current one's also as that of
// the config.
func (c *Config) setTexts(known map[string]ConfigVersion) {
	for i := range c.Versions {
		v := &c.Versions[i]
		v.Text, v.Sealed = known[v.ID].Text, known[v.ID].Sealed
		if v.ID == c.Version {
			c.Text, c.Sealed = v.Text, v.Sealed
		}
	}
}
