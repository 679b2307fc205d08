package store

import (
	"context"
	"time"
)

// PromptCollection is a folder of prompts, which may be in another.
type PromptCollection struct {
	ID           string
	Organisation string
	Workspace    string // id
	Parent       string // id; empty at the top
	Slug         string // unique in the workspace
	Name         string
	IsDefault    bool   // where prompts go that name none
	Status       string // Active or Archived
	CreatedAt    time.Time
	UpdatedAt    time.Time

	Children, Prompts int64 // that are active; read only
}

const promptCollectionColumns = `id, organisation_id, workspace_id, parent_id, slug, name, is_default, status, created_at, updated_at`

const promptCollectionSelect = `
		SELECT c.id, c.organisation_id, c.workspace_id, c.parent_id, c.slug, c.name, c.is_default, c.status, c.created_at, c.updated_at,
			(SELECT COUNT(*) FROM prompt_collections i WHERE i.parent_id = c.id AND i.status = 'active'),
			(SELECT COUNT(*) FROM prompts p WHERE p.collection_id = c.id AND p.status = 'active')`

func scanPromptCollection(r row) (c PromptCollection, err error) {
	err = r.Scan(&c.ID, &c.Organisation, &c.Workspace, &c.Parent, &c.Slug, &c.Name, &c.IsDefault, &c.Status,
		nullTime{&c.CreatedAt}, nullTime{&c.UpdatedAt}, &c.Children, &c.Prompts)
	return c, err
}

// PromptCollections returns a page of a workspace's collections, the oldest
// first, and how many there are. An empty workspace means all of the
// organisation; search is a part of the name.
func (q Queries) PromptCollections(ctx context.Context, organisation, workspace, search string, p Page) (list []PromptCollection, total int, err error) {
	const where = `
		FROM prompt_collections c
		WHERE c.organisation_id = $1 AND ($2 = '' OR c.workspace_id = $2) AND c.status = 'active' AND ($3 = '' OR REPLACE(c.name, $3, '') <> c.name)`
	if total, err = count(ctx, q.q, `SELECT COUNT(*)`+where, organisation, workspace, search); err != nil {
		return nil, 0, err
	}
	limit, offset := p.limit()
	list, err = rows(ctx, q.q, "collections", promptCollectionSelect+where+` ORDER BY c.id LIMIT $4 OFFSET $5`,
		scanPromptCollection, organisation, workspace, search, limit, offset)
	return list, total, err
}

// PromptCollection returns the active collection with this id or slug. An empty
// workspace means any of the organisation.
func (q Queries) PromptCollection(ctx context.Context, organisation, workspace, ref string) (PromptCollection, error) {
	const text = promptCollectionSelect + `
		FROM prompt_collections c
		WHERE c.organisation_id = $1 AND ($2 = '' OR c.workspace_id = $2) AND (c.id = $3 OR c.slug = $3) AND c.status = 'active'`
	return one(ctx, q.q, "collection", text, scanPromptCollection, organisation, workspace, ref)
}

// DefaultPromptCollection returns the collection where prompts of a workspace
// go that name none.
func (q Queries) DefaultPromptCollection(ctx context.Context, workspace string) (PromptCollection, error) {
	const text = promptCollectionSelect + `
		FROM prompt_collections c
		WHERE c.workspace_id = $1 AND c.is_default`
	return one(ctx, q.q, "collection", text, scanPromptCollection, workspace)
}

// CreateDefaultPromptCollection stores c, of which the id, the slug and the time
// are given, as the default collection of a workspace that has none.
func (q Queries) CreateDefaultPromptCollection(ctx context.Context, w Workspace, c PromptCollection) error {
	c.Organisation, c.Workspace, c.Name, c.IsDefault, c.Status, c.UpdatedAt = w.Organisation, w.ID, "Default", true, Active, c.CreatedAt
	return q.CreatePromptCollection(ctx, c)
}

// CreatePromptCollection stores a collection.
func (q Queries) CreatePromptCollection(ctx context.Context, c PromptCollection) error {
	const text = `
		INSERT INTO prompt_collections (` + promptCollectionColumns + `)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`
	return write(ctx, q.q, "collection", text, c.ID, c.Organisation, c.Workspace, c.Parent, c.Slug, c.Name, c.IsDefault, c.Status,
		millis(c.CreatedAt), millis(c.UpdatedAt))
}

// UpdatePromptCollection stores what may change of a collection.
func (q Queries) UpdatePromptCollection(ctx context.Context, c PromptCollection) error {
	const text = `
		UPDATE prompt_collections
		SET slug = $2, name = $3, status = $4, updated_at = $5
		WHERE id = $1`
	return write(ctx, q.q, "collection", text, c.ID, c.Slug, c.Name, c.Status, millis(c.UpdatedAt))
}
