package publication

import (
	"context"

	"modelgate/internal/sqlrow"
)

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
	known := make(map[string]Config, len(l.state.Configs)) // by version, which never changes
	if l.before != nil {
		for _, c := range l.before.Configs {
			known[c.Version] = c
		}
	}
	if err := l.addConfigTexts(ctx, known); err != nil {
		return err
	}
	for i := range l.state.Configs {
		c := &l.state.Configs[i]
		c.Text, c.Sealed = known[c.Version].Text, known[c.Version].Sealed
	}
	return nil
}

// addConfigTexts adds the text of each unknown version: one by one when
// they are few, as after a change, or all at once.
func (l *loader) addConfigTexts(ctx context.Context, known map[string]Config) error {
	const few = 20
	const all = `
		SELECT v.id, v.text, v.sealed
		FROM config_versions v
		JOIN configs c ON c.version_id = v.id
		WHERE c.status = 'active'`
	var missing []string
	for _, c := range l.state.Configs {
		if _, ok := known[c.Version]; !ok {
			missing = append(missing, c.Version)
		}
	}
	if len(missing) > few {
		_, err := sqlrow.List(ctx, l.q.Reader, "config texts", all, func(r sqlrow.Scanner) (c Config, err error) {
			err = r.Scan(&c.Version, &c.Text, &c.Sealed)
			known[c.Version] = c
			return c, err
		})
		return err
	}
	for _, id := range missing {
		v, err := l.q.ConfigVersion(ctx, id)
		if err != nil {
			return err
		}
		known[id] = Config{Text: v.Text, Sealed: v.Sealed}
	}
	return nil
}
