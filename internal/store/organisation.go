package store

import (
	"context"
	"time"
)

// Ids of the rows that every new database has.
const (
	DefaultOrganisation = "00000000-0000-7000-8000-000000000001"
	DefaultWorkspace    = "00000000-0000-7000-8000-000000000002"
)

// Organisation owns workspaces, users and credentials. Organisations cannot see each
// other's objects.
type Organisation struct {
	ID        string
	Slug      string
	Name      string
	OwnerID   string // user; empty until claimed
	Settings  OrganisationSettings
	DataKey   string // wrapped by the master key; empty until first use
	Status    string // active
	CreatedAt time.Time
	UpdatedAt time.Time
}

var organisationTable = table[Organisation]{
	name: "organisations", row: "organisation", fixed: "id slug status created_at",
	columns: func(o *Organisation) []column {
		return []column{
			{"id", &o.ID}, {"slug", &o.Slug}, {"name", &o.Name}, {"owner_id", &o.OwnerID}, {"settings", object(&o.Settings)},
			{"data_key", &o.DataKey}, {"status", &o.Status}, {"created_at", &o.CreatedAt}, {"updated_at", &o.UpdatedAt},
		}
	},
}

// Organisation returns the organisation with this id or slug.
func (q Queries) Organisation(ctx context.Context, ref string) (Organisation, error) {
	return organisationTable.one(ctx, q.Reader, `
		WHERE id = $1 OR slug = $1`, ref)
}

// Organisations returns all organisations, oldest first.
func (q Queries) Organisations(ctx context.Context) ([]Organisation, error) {
	return organisationTable.list(ctx, q.Reader, `
		ORDER BY id`)
}

// CreateOrganisation stores an organisation with its first workspace, which always has
// the same name, and the workspace's prompt collection. A slug in use is a conflict.
func (tx *Tx) CreateOrganisation(ctx context.Context, o Organisation, w Workspace, c PromptCollection) error {
	if err := organisationTable.insert(ctx, tx, o); err != nil {
		return err
	}
	w.Organisation, w.IsDefault = o.ID, true
	if err := tx.CreateWorkspace(ctx, w); err != nil {
		return err
	}
	return tx.CreateDefaultPromptCollection(ctx, w, c)
}

// UpdateOrganisation stores the name, owner, settings and data key of an organisation.
func (tx *Tx) UpdateOrganisation(ctx context.Context, o Organisation) error {
	return organisationTable.update(ctx, tx, o)
}
