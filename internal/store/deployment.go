package store

import (
	"context"
	"encoding/json"
	"time"
)

// The types of a [GatewayDeployment].
const (
	Production    = "production"
	NonProduction = "non-production"
)

// GatewayDeployment is a gateway of an organisation, or several that act as one.
type GatewayDeployment struct {
	ID            string
	Organisation  string
	Slug          string // unique in the organisation
	Name          string
	Type          string          // Production or NonProduction
	Config        json.RawMessage // object
	AllWorkspaces bool
	Workspaces    []string        // ids, unless AllWorkspaces
	AuthSettings  json.RawMessage // object
	ClientHash    string          // SHA-256 of the secret it identifies itself by
	Status        string          // active or inactive
	LastSeenAt    time.Time       // zero until it was seen
	CreatedAt     time.Time
	UpdatedAt     time.Time
}

const deploymentColumns = `id, organisation_id, slug, name, type, config, allow_all_workspaces, workspaces, auth_settings,
			client_hash, status, last_seen_at, created_at, updated_at`

func scanDeployment(r row) (d GatewayDeployment, err error) {
	err = r.Scan(&d.ID, &d.Organisation, &d.Slug, &d.Name, &d.Type, jsonText{&d.Config}, &d.AllWorkspaces, jsonText{&d.Workspaces},
		jsonText{&d.AuthSettings}, &d.ClientHash, &d.Status, nullTime{&d.LastSeenAt}, nullTime{&d.CreatedAt}, nullTime{&d.UpdatedAt})
	return d, err
}

// Deployments returns a page of an organisation's deployments, the newest first,
// and how many there are. An empty type means both.
func (q Queries) Deployments(ctx context.Context, organisation, typ string, p Page) (list []GatewayDeployment, total int, err error) {
	const where = `
		FROM deployments
		WHERE organisation_id = $1 AND ($2 = '' OR type = $2)`
	if total, err = count(ctx, q.q, `SELECT COUNT(*)`+where, organisation, typ); err != nil {
		return nil, 0, err
	}
	limit, offset := p.limit()
	list, err = rows(ctx, q.q, "deployments", `SELECT `+deploymentColumns+where+` ORDER BY id DESC LIMIT $3 OFFSET $4`,
		scanDeployment, organisation, typ, limit, offset)
	return list, total, err
}

// Deployment returns the deployment with this id or slug.
func (q Queries) Deployment(ctx context.Context, organisation, ref string) (GatewayDeployment, error) {
	const text = `
		SELECT ` + deploymentColumns + `
		FROM deployments
		WHERE organisation_id = $1 AND (id = $2 OR slug = $2)`
	return one(ctx, q.q, "deployment", text, scanDeployment, organisation, ref)
}

// CreateDeployment stores a deployment. A slug that is taken is a conflict.
func (q Queries) CreateDeployment(ctx context.Context, d GatewayDeployment) error {
	const text = `
		INSERT INTO deployments (` + deploymentColumns + `)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`
	return write(ctx, q.q, "deployment", text, d.values()...)
}

// UpdateDeployment stores d instead of the deployment with its id.
func (q Queries) UpdateDeployment(ctx context.Context, d GatewayDeployment) error {
	const stmt = `
		UPDATE deployments
		SET organisation_id = $2, slug = $3, name = $4, type = $5, config = $6, allow_all_workspaces = $7, workspaces = $8,
			auth_settings = $9, client_hash = $10, status = $11, last_seen_at = $12, created_at = $13, updated_at = $14
		WHERE id = $1`
	return write(ctx, q.q, "deployment", stmt, d.values()...)
}

// TouchDeployment notes when a gateway of a deployment was last seen. It is no
// change of the control plane and makes no revision.
func (db *DB) TouchDeployment(ctx context.Context, id string, now time.Time) error {
	const text = `
		UPDATE deployments
		SET last_seen_at = $2
		WHERE id = $1`
	return db.ClientError(exec(ctx, db.write, "deployments", text, id, millis(now)))
}

// DeleteDeployment removes a deployment for good.
func (q Queries) DeleteDeployment(ctx context.Context, id string) error {
	const text = `
		DELETE FROM deployments
		WHERE id = $1`
	return write(ctx, q.q, "deployment", text, id)
}

// values are those of deploymentColumns, in their order.
func (d GatewayDeployment) values() []any {
	if d.Workspaces == nil {
		d.Workspaces = []string{}
	}
	return []any{d.ID, d.Organisation, d.Slug, d.Name, d.Type, orEmpty(d.Config, "{}"), d.AllWorkspaces, text(d.Workspaces),
		orEmpty(d.AuthSettings, "{}"), d.ClientHash, d.Status, millis(d.LastSeenAt), millis(d.CreatedAt), millis(d.UpdatedAt)}
}
