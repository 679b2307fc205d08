package store

import (
	"context"
	"encoding/json"
	"time"

	"modelgate/internal/storage/journal"
)

// Types of a [GatewayDeployment].
const (
	Production    = "production"
	NonProduction = "non-production"
)

// GatewayDeployment is a gateway of an organisation, or several with one identity.
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
	ClientHash    string          // SHA-256 of the secret with which it authenticates
	Status        string          // active or inactive
	LastSeenAt    time.Time       // zero if never seen
	CreatedAt     time.Time
	UpdatedAt     time.Time
}

var deploymentTable = table[GatewayDeployment]{
	name: "deployments", row: "deployment", order: "id DESC", fixed: "id",
	columns: func(d *GatewayDeployment) []column {
		return []column{
			{"id", &d.ID}, {"organisation_id", &d.Organisation}, {"slug", &d.Slug}, {"name", &d.Name}, {"type", &d.Type},
			{"config", object(&d.Config)}, {"allow_all_workspaces", &d.AllWorkspaces}, {"workspaces", array(&d.Workspaces)},
			{"auth_settings", object(&d.AuthSettings)}, {"client_hash", &d.ClientHash}, {"status", &d.Status},
			{"last_seen_at", &d.LastSeenAt}, {"created_at", &d.CreatedAt}, {"updated_at", &d.UpdatedAt},
		}
	},
}

// Deployments returns a page of an organisation's deployments, newest first, and the
// number of all. An empty type means both.
func (q Queries) Deployments(ctx context.Context, organisation, typ string, p Page) (list []GatewayDeployment, total int, err error) {
	return deploymentTable.page(ctx, q.Reader, p, `
		WHERE organisation_id = $1 AND ($2 = '' OR type = $2)`, organisation, typ)
}

// Deployment returns the deployment with this id or slug.
func (q Queries) Deployment(ctx context.Context, organisation, ref string) (GatewayDeployment, error) {
	return deploymentTable.one(ctx, q.Reader, `
		WHERE organisation_id = $1 AND (id = $2 OR slug = $2)`, organisation, ref)
}

// AllDeployments returns the deployments of all organisations.
func (q Queries) AllDeployments(ctx context.Context) ([]GatewayDeployment, error) {
	return deploymentTable.list(ctx, q.Reader, `
		ORDER BY id`)
}

// CreateDeployment stores a deployment. A slug in use is a conflict.
func (tx *Tx) CreateDeployment(ctx context.Context, d GatewayDeployment) error {
	return deploymentTable.insert(ctx, tx, d)
}

// UpdateDeployment replaces the deployment with d's id.
func (tx *Tx) UpdateDeployment(ctx context.Context, d GatewayDeployment) error {
	return deploymentTable.update(ctx, tx, d)
}

// TouchDeployment records when a gateway of a deployment was last seen. It makes no
// revision.
func (db *DB) TouchDeployment(ctx context.Context, id string, now time.Time) error {
	const text = `
		UPDATE deployments
		SET last_seen_at = $2
		WHERE id = $1`
	return db.ClientError(db.exec(ctx, "deployments", text, id, millis(now)))
}

// DeleteDeployment deletes a deployment.
func (tx *Tx) DeleteDeployment(ctx context.Context, id string) error {
	const text = `
		DELETE FROM deployments
		WHERE id = $1`
	return tx.write(ctx, journal.Unpublished, "deployment", text, id)
}
