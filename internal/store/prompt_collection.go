package store

import (
	"context"
	"time"
)

// PromptCollection is a folder of prompts, possibly within another.
type PromptCollection struct {
	ID           string
	Organisation string
	Workspace    string // id
	Parent       string // id; empty at the top
	Slug         string // unique in the workspace
	Name         string
	IsDefault    bool   // collection of prompts that name none
	Status       string // Active or Archived
	CreatedAt    time.Time
	UpdatedAt    time.Time

	Children, Prompts int64 // number of active ones; read-only
}

var promptCollectionTable = table[PromptCollection]{
	name: "prompt_collections", row: "collection", order: "id", fixed: "id organisation_id workspace_id parent_id is_default created_at",
	columns: func(c *PromptCollection) []column {
		return []column{
			{"id", &c.ID}, {"organisation_id", &c.Organisation}, {"workspace_id", &c.Workspace}, {"parent_id", &c.Parent}, {"slug", &c.Slug},
			{"name", &c.Name}, {"is_default", &c.IsDefault}, {"status", &c.Status}, {"created_at", &c.CreatedAt}, {"updated_at", &c.UpdatedAt},
		}
	},
	derived: func(c *PromptCollection) []column {
		return []column{
			{`(SELECT COUNT(*) FROM prompt_collections i WHERE i.parent_id = prompt_collections.id AND i.status = 'active')`, &c.Children},
			{`(SELECT COUNT(*) FROM prompts p WHERE p.collection_id = prompt_collections.id AND p.status = 'active')`, &c.Prompts},
		}
	},
}

// PromptCollections returns a page of a workspace's collections, oldest first, and the
// number of all. An empty workspace means all of the organisation; search is a
// substring of the name.
func (q Queries) PromptCollections(ctx context.Context, organisation, workspace, search string,
	p Page) (list []PromptCollection, total int, err error) {
	return promptCollectionTable.page(ctx, q.Reader, p, `
		WHERE organisation_id = $1 AND ($2 = '' OR workspace_id = $2) AND `+p.state(`status = 'active'`)+`
			AND ($3 = '' OR REPLACE(name, $3, '') <> name)`,
		organisation, workspace, search)
}

// PromptCollection returns the active collection with this id or slug. An empty
// workspace means any of the organisation.
func (q Queries) PromptCollection(ctx context.Context, organisation, workspace, ref string) (PromptCollection, error) {
	return promptCollectionTable.one(ctx, q.Reader, `
		WHERE organisation_id = $1 AND ($2 = '' OR workspace_id = $2) AND (id = $3 OR slug = $3) AND status = 'active'`,
		organisation, workspace, ref)
}

// DefaultPromptCollection returns the collection of a workspace's prompts that name
// none.
func (q Queries) DefaultPromptCollection(ctx context.Context, workspace string) (PromptCollection, error) {
	return promptCollectionTable.one(ctx, q.Reader, `
		WHERE workspace_id = $1 AND is_default`, workspace)
}

// CreateDefaultPromptCollection stores c, whose id, slug and time must be set, as the
// default collection of a workspace without one.
func (tx *Tx) CreateDefaultPromptCollection(ctx context.Context, w Workspace, c PromptCollection) error {
	c.Organisation, c.Workspace, c.Name, c.IsDefault, c.Status, c.UpdatedAt = w.Organisation, w.ID, "Default", true, Active, c.CreatedAt
	return tx.CreatePromptCollection(ctx, c)
}

// CreatePromptCollection stores a collection.
func (tx *Tx) CreatePromptCollection(ctx context.Context, c PromptCollection) error {
	return promptCollectionTable.insert(ctx, tx, c)
}

// UpdatePromptCollection stores the changed fields of a collection.
func (tx *Tx) UpdatePromptCollection(ctx context.Context, c PromptCollection) error {
	return promptCollectionTable.update(ctx, tx, c)
}
