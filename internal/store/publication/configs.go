package publication

import (
	"context"

	"modelgate/internal/store"
)

// Config is a saved config that is active.
type Config struct {
	Row      store.Config
	Versions []store.ConfigVersion // all of them, by number
}

// Current returns the version that requests use if they name none.
func (c *Config) Current() (v store.ConfigVersion) {
	for _, v := range c.Versions {
		if v.ID == c.Row.VersionID {
			return v
		}
	}
	return v
}

// readConfigs reads the configs that are active, with all their versions. Versions that
// were read before are taken from there.
func (l *loader) readConfigs(ctx context.Context) error {
	rows, err := l.q.ActiveConfigs(ctx)
	if err != nil {
		return err
	}
	versions, err := l.q.ActiveConfigVersions(ctx)
	if err != nil {
		return err
	}
	l.state.Configs = make([]Config, len(rows))
	byID := make(map[string]*Config, len(rows))
	for i, row := range rows {
		l.state.Configs[i].Row = row
		byID[row.ID] = &l.state.Configs[i]
	}
	known := l.before.configVersions()
	var missing []string
	for _, v := range versions {
		if _, ok := known[v.ID]; !ok && byID[v.Config] != nil {
			missing = append(missing, v.ID)
		}
	}
	list, err := l.q.ConfigVersionsByID(ctx, missing)
	for _, v := range list {
		known[v.ID] = v
	}
	for _, v := range versions {
		if c := byID[v.Config]; c != nil {
			c.Versions = append(c.Versions, known[v.ID])
		}
	}
	return err
}

// configVersions returns the versions of all configs by id. A nil state has none.
func (s *State) configVersions() map[string]store.ConfigVersion {
	known := make(map[string]store.ConfigVersion)
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
