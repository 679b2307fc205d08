package store

import (
	"context"
	"time"
)

// What there is from the start, in every database.
const (
	DefaultOrganisation = "00000000-0000-7000-8000-000000000001"
	DefaultWorkspace    = "00000000-0000-7000-8000-000000000002"
)

// Organisation is who owns workspaces, people and credentials. One sees nothing
// of another.
type Organisation struct {
	ID        string
	Slug      string
	Name      string
	OwnerID   string // user; empty until somebody claimed it
	Settings  OrganisationSettings
	DataKey   string // wrapped by the master key; empty until it is needed
	Status    string // active
	CreatedAt time.Time
	UpdatedAt time.Time
}

const organisationColumns = `id, slug, name, owner_id, settings, data_key, status, created_at, updated_at`

func scanOrganisation(r row) (o Organisation, err error) {
	err = r.Scan(&o.ID, &o.Slug, &o.Name, &o.OwnerID, jsonText{&o.Settings}, &o.DataKey, &o.Status, nullTime{&o.CreatedAt}, nullTime{&o.UpdatedAt})
	return o, err
}

// Organisation returns the organisation with this id or slug.
func (q Queries) Organisation(ctx context.Context, ref string) (Organisation, error) {
	const text = `
		SELECT ` + organisationColumns + `
		FROM organisations
		WHERE id = $1 OR slug = $1`
	return one(ctx, q.q, "organisation", text, scanOrganisation, ref)
}

// Organisations returns all organisations, the oldest first.
func (q Queries) Organisations(ctx context.Context) ([]Organisation, error) {
	const text = `
		SELECT ` + organisationColumns + `
		FROM organisations
		ORDER BY id`
	return rows(ctx, q.q, "organisations", text, scanOrganisation)
}

// CreateOrganisation stores an organisation with its first workspace, which has
// the same name for everybody, and a collection for prompts in it. A slug that is
// taken is a conflict.
func (q Queries) CreateOrganisation(ctx context.Context, o Organisation, w Workspace, c PromptCollection) error {
	const query = `
		INSERT INTO organisations (` + organisationColumns + `)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`
	err := write(ctx, q.q, "organisation", query, o.ID, o.Slug, o.Name, o.OwnerID, text(o.Settings), o.DataKey, o.Status, millis(o.CreatedAt), millis(o.UpdatedAt))
	if err != nil {
		return err
	}
	w.Organisation, w.IsDefault = o.ID, true
	if err := q.CreateWorkspace(ctx, w); err != nil {
		return err
	}
	return q.CreateDefaultPromptCollection(ctx, w, c)
}

// UpdateOrganisation stores what may change of an organisation: its name, owner,
// settings and data key.
func (q Queries) UpdateOrganisation(ctx context.Context, o Organisation) error {
	const query = `
		UPDATE organisations
		SET name = $2, owner_id = $3, settings = $4, data_key = $5, updated_at = $6
		WHERE id = $1`
	return write(ctx, q.q, "organisation", query, o.ID, o.Name, o.OwnerID, text(o.Settings), o.DataKey, millis(o.UpdatedAt))
}
