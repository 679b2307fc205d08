package store

import (
	"context"
	"time"

	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// Config is a saved routing config without its text, which is in its current version.
type Config struct {
	ID           string
	Organisation string
	Workspace    string // id
	Slug         string // unique in the workspace
	Name         string
	IsDefault    bool
	VersionID    string
	Status       string // Active or Archived
	OwnerID      string
	UpdatedBy    string
	CreatedAt    time.Time
	UpdatedAt    time.Time
}

// ConfigVersion is a version of a config. Versions never change.
type ConfigVersion struct {
	ID        string
	Config    string // id
	Number    int64  // from 1
	Text      string // JSON, credentials masked
	Sealed    string // [ConfigSecrets.Text], sealed for the organisation; empty for none
	CreatedBy string
	CreatedAt time.Time
}

var configTable = table[Config]{
	name: "configs", row: "config", order: "id DESC", fixed: "id organisation_id workspace_id slug owner_id created_at",
	columns: func(c *Config) []column {
		return []column{
			{"id", &c.ID}, {"organisation_id", &c.Organisation}, {"workspace_id", &c.Workspace}, {"slug", &c.Slug}, {"name", &c.Name},
			{"is_default", &c.IsDefault}, {"version_id", &c.VersionID}, {"status", &c.Status}, {"owner_id", &c.OwnerID},
			{"updated_by", &c.UpdatedBy}, {"created_at", &c.CreatedAt}, {"updated_at", &c.UpdatedAt},
		}
	},
}

// Configs returns a page of a workspace's configs, newest first, and the number of all.
// An empty workspace means all of the organisation.
func (q Queries) Configs(ctx context.Context, organisation, workspace string, p Page) (list []Config, total int, err error) {
	return configTable.page(ctx, q.Reader, p, `
		WHERE organisation_id = $1 AND ($2 = '' OR workspace_id = $2) AND `+p.state(`status = 'active'`), organisation, workspace)
}

// ActiveConfigs returns the active configs of all active workspaces.
func (q Queries) ActiveConfigs(ctx context.Context) ([]Config, error) {
	return configTable.list(ctx, q.Reader, `
		WHERE status = 'active' AND workspace_id IN (SELECT id FROM workspaces WHERE status = 'active')
		ORDER BY id`)
}

// Config returns the active config with this id or slug. An empty workspace means any
// of the organisation.
func (q Queries) Config(ctx context.Context, organisation, workspace, ref string) (Config, error) {
	return configTable.one(ctx, q.Reader, `
		WHERE organisation_id = $1 AND ($2 = '' OR workspace_id = $2) AND (id = $3 OR slug = $3) AND status = 'active'`,
		organisation, workspace, ref)
}

// ConfigIDs returns the ids of the active configs with this slug. An empty
// workspace means all of the organisation.
func (q Queries) ConfigIDs(ctx context.Context, organisation, workspace, slug string) ([]string, error) {
	const text = `
		SELECT id
		FROM configs
		WHERE organisation_id = $1 AND ($2 = '' OR workspace_id = $2) AND slug = $3 AND status = 'active'`
	return sqlrow.List(ctx, q.Reader, "configs", text, scanID, organisation, workspace, slug)
}

// AnyConfigIDs returns the ids of the configs with this id or slug, including archived
// ones. An empty organisation means all, and an empty workspace all of the organisation.
func (q Queries) AnyConfigIDs(ctx context.Context, organisation, workspace, ref string) ([]string, error) {
	const text = `
		SELECT id
		FROM configs
		WHERE ($1 = '' OR organisation_id = $1) AND ($2 = '' OR workspace_id = $2) AND (id = $3 OR slug = $3)`
	return sqlrow.List(ctx, q.Reader, "configs", text, scanID, organisation, workspace, ref)
}

// ConfigVersion returns a version by its id.
func (q Queries) ConfigVersion(ctx context.Context, id string) (ConfigVersion, error) {
	return configVersionTable.one(ctx, q.Reader, `
		WHERE id = $1`, id)
}

// ActiveConfigVersions returns the ids and numbers of the versions of all active configs,
// sorted by config and number.
func (q Queries) ActiveConfigVersions(ctx context.Context) ([]ConfigVersion, error) {
	return configVersionTable.limitTo("id", "config_id", "number").list(ctx, q.Reader, `
		WHERE config_id IN (SELECT id FROM configs WHERE status = 'active')
		ORDER BY config_id, number`)
}

// ConfigVersionsByID returns the versions with these ids, in no order.
func (q Queries) ConfigVersionsByID(ctx context.Context, ids []string) ([]ConfigVersion, error) {
	return configVersionTable.byID(ctx, q.Reader, ids)
}

// ConfigVersionNumber returns the version of a config with this number.
func (q Queries) ConfigVersionNumber(ctx context.Context, config string, number int64) (ConfigVersion, error) {
	return configVersionTable.one(ctx, q.Reader, `
		WHERE config_id = $1 AND number = $2`, config, number)
}

// ConfigVersions returns all versions of a config, newest first.
func (q Queries) ConfigVersions(ctx context.Context, config string) ([]ConfigVersion, error) {
	return configVersionTable.list(ctx, q.Reader, `
		WHERE config_id = $1
		ORDER BY number DESC`, config)
}

var configVersionTable = table[ConfigVersion]{
	name: "config_versions", row: "version",
	columns: func(v *ConfigVersion) []column {
		return []column{
			{"id", &v.ID}, {"config_id", &v.Config}, {"number", &v.Number}, {"text", &v.Text}, {"sealed", &v.Sealed},
			{"created_by", &v.CreatedBy}, {"created_at", &v.CreatedAt},
		}
	},
}

// CreateConfig stores a config and its first version.
func (tx *Tx) CreateConfig(ctx context.Context, c Config, v ConfigVersion) error {
	if err := configTable.insert(ctx, tx, c); err != nil {
		return err
	}
	return tx.addConfigVersion(ctx, v)
}

// UpdateConfig stores the changed fields of a config and, unless v is nil, its new
// version, to which it assigns the next number.
func (tx *Tx) UpdateConfig(ctx context.Context, c Config, v *ConfigVersion) error {
	if err := configTable.update(ctx, tx, c); err != nil || v == nil {
		return err
	}
	return tx.addConfigVersion(ctx, *v)
}

func (tx *Tx) addConfigVersion(ctx context.Context, v ConfigVersion) error {
	const text = `
		INSERT INTO config_versions (id, config_id, number, text, sealed, created_by, created_at)
		SELECT $1, $2, COALESCE(MAX(number), 0) + 1, $3, $4, $5, $6
		FROM config_versions
		WHERE config_id = $2`
	return tx.write(ctx, journal.ConfigVersions, "version", text, v.ID, v.Config, v.Text, v.Sealed, v.CreatedBy, millis(v.CreatedAt))
}
