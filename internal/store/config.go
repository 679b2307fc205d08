package store

import (
	"context"
	"time"
)

// Config is a saved routing config, without its text: the text is that of its
// current version.
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

// ConfigVersion is one text that a config had. Versions never change.
type ConfigVersion struct {
	ID        string
	Config    string // id
	Number    int64  // from 1
	Text      string // JSON with masks for its credentials
	Sealed    string // [ConfigSecrets.Text], sealed for the organisation; empty for none
	CreatedBy string
	CreatedAt time.Time
}

const configColumns = `id, organisation_id, workspace_id, slug, name, is_default, version_id, status, owner_id, updated_by, created_at, updated_at`

func scanConfig(r row) (c Config, err error) {
	err = r.Scan(&c.ID, &c.Organisation, &c.Workspace, &c.Slug, &c.Name, &c.IsDefault, &c.VersionID, &c.Status,
		&c.OwnerID, &c.UpdatedBy, nullTime{&c.CreatedAt}, nullTime{&c.UpdatedAt})
	return c, err
}

// Configs returns a page of a workspace's configs, the newest first, and how
// many there are. An empty workspace means all of the organisation.
func (q Queries) Configs(ctx context.Context, organisation, workspace string, p Page) (list []Config, total int, err error) {
	const where = `
		FROM configs
		WHERE organisation_id = $1 AND ($2 = '' OR workspace_id = $2) AND status = 'active'`
	limit, offset := p.limit()
	list, err = rows(ctx, q.q, "configs", `SELECT `+configColumns+where+` ORDER BY id DESC LIMIT $3 OFFSET $4`,
		scanConfig, organisation, workspace, limit, offset)
	if err != nil {
		return nil, 0, err
	}
	total, err = count(ctx, q.q, `SELECT COUNT(*)`+where, organisation, workspace)
	return list, total, err
}

// Config returns the active config with this id or slug. An empty workspace
// means any of the organisation.
func (q Queries) Config(ctx context.Context, organisation, workspace, ref string) (Config, error) {
	const text = `
		SELECT ` + configColumns + `
		FROM configs
		WHERE organisation_id = $1 AND ($2 = '' OR workspace_id = $2) AND (id = $3 OR slug = $3) AND status = 'active'`
	return one(ctx, q.q, "config", text, scanConfig, organisation, workspace, ref)
}

// ConfigIDs returns the ids of the active configs with this slug. An empty
// workspace means all of the organisation.
func (q Queries) ConfigIDs(ctx context.Context, organisation, workspace, slug string) ([]string, error) {
	const text = `
		SELECT id
		FROM configs
		WHERE organisation_id = $1 AND ($2 = '' OR workspace_id = $2) AND slug = $3 AND status = 'active'`
	scan := func(r row) (id string, err error) { return id, r.Scan(&id) }
	return rows(ctx, q.q, "configs", text, scan, organisation, workspace, slug)
}

// ConfigVersion returns a version by its id.
func (q Queries) ConfigVersion(ctx context.Context, id string) (ConfigVersion, error) {
	const text = `
		SELECT ` + versionColumns + `
		FROM config_versions
		WHERE id = $1`
	return one(ctx, q.q, "version", text, scanConfigVersion, id)
}

// ConfigVersions returns every version of a config, the newest first.
func (q Queries) ConfigVersions(ctx context.Context, config string) ([]ConfigVersion, error) {
	const text = `
		SELECT ` + versionColumns + `
		FROM config_versions
		WHERE config_id = $1
		ORDER BY number DESC`
	return rows(ctx, q.q, "versions", text, scanConfigVersion, config)
}

const versionColumns = `id, config_id, number, text, sealed, created_by, created_at`

func scanConfigVersion(r row) (v ConfigVersion, err error) {
	err = r.Scan(&v.ID, &v.Config, &v.Number, &v.Text, &v.Sealed, &v.CreatedBy, nullTime{&v.CreatedAt})
	return v, err
}

// CreateConfig stores a config and its first version.
func (q Queries) CreateConfig(ctx context.Context, c Config, v ConfigVersion) error {
	const text = `
		INSERT INTO configs (` + configColumns + `)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`
	err := write(ctx, q.q, "config", text, c.ID, c.Organisation, c.Workspace, c.Slug, c.Name, c.IsDefault, c.VersionID, c.Status,
		c.OwnerID, c.UpdatedBy, millis(c.CreatedAt), millis(c.UpdatedAt))
	if err != nil {
		return err
	}
	return q.addConfigVersion(ctx, v)
}

// UpdateConfig stores what may change of a config, and its new version unless v
// is nil. The version's number is given here.
func (q Queries) UpdateConfig(ctx context.Context, c Config, v *ConfigVersion) error {
	const text = `
		UPDATE configs
		SET name = $2, is_default = $3, version_id = $4, status = $5, updated_by = $6, updated_at = $7
		WHERE id = $1`
	if err := write(ctx, q.q, "config", text, c.ID, c.Name, c.IsDefault, c.VersionID, c.Status, c.UpdatedBy, millis(c.UpdatedAt)); err != nil || v == nil {
		return err
	}
	return q.addConfigVersion(ctx, *v)
}

func (q Queries) addConfigVersion(ctx context.Context, v ConfigVersion) error {
	const text = `
		INSERT INTO config_versions (` + versionColumns + `)
		SELECT $1, $2, COALESCE(MAX(number), 0) + 1, $3, $4, $5, $6
		FROM config_versions
		WHERE config_id = $2`
	return write(ctx, q.q, "version", text, v.ID, v.Config, v.Text, v.Sealed, v.CreatedBy, millis(v.CreatedAt))
}
