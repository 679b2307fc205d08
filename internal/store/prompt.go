package store

import (
	"context"
	"encoding/json"
	"time"
)

// The kinds of a [Prompt].
const (
	KindPrompt  = "prompt"
	KindPartial = "partial"
)

// Prompt is a saved prompt, or a partial that prompts hold, without its texts:
// those are its versions'.
type Prompt struct {
	ID           string
	Kind         string // KindPrompt or KindPartial
	Organisation string
	Workspace    string // id
	Collection   string // id
	Slug         string // unique in the workspace
	Name         string
	Published    int64  // number of the version that counts where none is named
	Status       string // Active or Archived
	OwnerID      string
	UpdatedBy    string
	CreatedAt    time.Time
	UpdatedAt    time.Time

	Model string // of the published version; read only
}

// PromptVersion is one state of a prompt. Nothing but its label changes.
type PromptVersion struct {
	ID          string
	Prompt      string // id
	Number      int64  // from 1; given by the store
	Text        string // as package prompt has it
	Model       string // the one that Text names; may be empty
	Description string
	Metadata    json.RawMessage // object
	Label       string          // id; empty for none
	CreatedBy   string
	CreatedAt   time.Time
}

const promptColumns = `id, kind, organisation_id, workspace_id, collection_id, slug, name, published, status, owner_id, updated_by, created_at, updated_at`

const promptSelect = `
		SELECT p.id, p.kind, p.organisation_id, p.workspace_id, p.collection_id, p.slug, p.name, p.published, p.status,
			p.owner_id, p.updated_by, p.created_at, p.updated_at, COALESCE(v.model, '')
		FROM prompts p
		LEFT JOIN prompt_versions v ON v.prompt_id = p.id AND v.number = p.published`

func scanPrompt(r row) (p Prompt, err error) {
	err = r.Scan(&p.ID, &p.Kind, &p.Organisation, &p.Workspace, &p.Collection, &p.Slug, &p.Name, &p.Published, &p.Status,
		&p.OwnerID, &p.UpdatedBy, nullTime{&p.CreatedAt}, nullTime{&p.UpdatedAt}, &p.Model)
	return p, err
}

// PromptQuery says which active prompts to list. The zero value of a field
// filters nothing, but for Organisation and Kind.
type PromptQuery struct {
	Organisation string
	Kind         string
	Workspace    string // id
	Collection   string // id
	Search       string // part of the name, by case
}

// Prompts returns a page of prompts, the newest first, and how many match.
func (q Queries) Prompts(ctx context.Context, f PromptQuery, p Page) (list []Prompt, total int, err error) {
	const where = `
		WHERE p.organisation_id = $1 AND p.kind = $2 AND p.status = 'active' AND ($3 = '' OR p.workspace_id = $3)
			AND ($4 = '' OR p.collection_id = $4) AND ($5 = '' OR REPLACE(p.name, $5, '') <> p.name)`
	args := []any{f.Organisation, f.Kind, f.Workspace, f.Collection, f.Search}
	if total, err = count(ctx, q.q, `SELECT COUNT(*) FROM prompts p`+where, args...); err != nil {
		return nil, 0, err
	}
	limit, offset := p.limit()
	list, err = rows(ctx, q.q, "prompts", promptSelect+where+` ORDER BY p.id DESC LIMIT $6 OFFSET $7`, scanPrompt, append(args, limit, offset)...)
	return list, total, err
}

// Prompt returns the active prompt or partial with this id or slug. An empty
// workspace means any of the organisation.
func (q Queries) Prompt(ctx context.Context, kind, organisation, workspace, ref string) (Prompt, error) {
	const text = promptSelect + `
		WHERE p.kind = $1 AND p.organisation_id = $2 AND ($3 = '' OR p.workspace_id = $3) AND (p.id = $4 OR p.slug = $4) AND p.status = 'active'`
	return one(ctx, q.q, kind, text, scanPrompt, kind, organisation, workspace, ref)
}

// CreatePrompt stores a prompt and its first version, which is published.
func (q Queries) CreatePrompt(ctx context.Context, p Prompt, v PromptVersion) error {
	const text = `
		INSERT INTO prompts (` + promptColumns + `)
		VALUES ($1, $2, $3, $4, $5, $6, $7, 1, $8, $9, $10, $11, $12)`
	err := write(ctx, q.q, p.Kind, text, p.ID, p.Kind, p.Organisation, p.Workspace, p.Collection, p.Slug, p.Name, p.Status,
		p.OwnerID, p.UpdatedBy, millis(p.CreatedAt), millis(p.UpdatedAt))
	if err != nil {
		return err
	}
	_, err = q.AddPromptVersion(ctx, v)
	return err
}

// UpdatePrompt stores what may change of a prompt beside its versions.
func (q Queries) UpdatePrompt(ctx context.Context, p Prompt) error {
	const text = `
		UPDATE prompts
		SET collection_id = $2, name = $3, published = $4, status = $5, updated_by = $6, updated_at = $7
		WHERE id = $1`
	return write(ctx, q.q, p.Kind, text, p.ID, p.Collection, p.Name, p.Published, p.Status, p.UpdatedBy, millis(p.UpdatedAt))
}

const promptVersionColumns = `id, prompt_id, number, text, model, description, metadata, label_id, created_by, created_at`

func scanPromptVersion(r row) (v PromptVersion, err error) {
	err = r.Scan(&v.ID, &v.Prompt, &v.Number, &v.Text, &v.Model, &v.Description, jsonText{&v.Metadata}, &v.Label, &v.CreatedBy, nullTime{&v.CreatedAt})
	return v, err
}

// AddPromptVersion stores the next version of a prompt and returns its number.
func (q Queries) AddPromptVersion(ctx context.Context, v PromptVersion) (number int64, err error) {
	const text = `
		INSERT INTO prompt_versions (` + promptVersionColumns + `)
		SELECT $1, $2, COALESCE(MAX(number), 0) + 1, $3, $4, $5, $6, $7, $8, $9
		FROM prompt_versions
		WHERE prompt_id = $2
		RETURNING number`
	return one(ctx, q.q, "version", text, scanNumber, v.ID, v.Prompt, v.Text, v.Model, v.Description, orEmpty(v.Metadata, "{}"),
		v.Label, v.CreatedBy, millis(v.CreatedAt))
}

func scanNumber(r row) (n int64, err error) {
	err = r.Scan(&n)
	return n, err
}

// PromptVersions returns a page of a prompt's versions, the newest first.
func (q Queries) PromptVersions(ctx context.Context, prompt string, p Page) ([]PromptVersion, error) {
	const text = `
		SELECT ` + promptVersionColumns + `
		FROM prompt_versions
		WHERE prompt_id = $1
		ORDER BY number DESC
		LIMIT $2 OFFSET $3`
	limit, offset := p.limit()
	return rows(ctx, q.q, "versions", text, scanPromptVersion, prompt, limit, offset)
}

// PromptVersion returns a prompt's version with this number.
func (q Queries) PromptVersion(ctx context.Context, prompt string, number int64) (PromptVersion, error) {
	const text = `
		SELECT ` + promptVersionColumns + `
		FROM prompt_versions
		WHERE prompt_id = $1 AND number = $2`
	return one(ctx, q.q, "version", text, scanPromptVersion, prompt, number)
}

// PromptVersionByID returns a prompt's version with this id.
func (q Queries) PromptVersionByID(ctx context.Context, prompt, id string) (PromptVersion, error) {
	const text = `
		SELECT ` + promptVersionColumns + `
		FROM prompt_versions
		WHERE prompt_id = $1 AND id = $2`
	return one(ctx, q.q, "version", text, scanPromptVersion, prompt, id)
}

// LatestPromptVersion returns a prompt's version with the highest number.
func (q Queries) LatestPromptVersion(ctx context.Context, prompt string) (PromptVersion, error) {
	const text = `
		SELECT ` + promptVersionColumns + `
		FROM prompt_versions
		WHERE prompt_id = $1
		ORDER BY number DESC
		LIMIT 1`
	return one(ctx, q.q, "version", text, scanPromptVersion, prompt)
}

// LabelledPromptVersion returns a prompt's version with the label of this name.
func (q Queries) LabelledPromptVersion(ctx context.Context, prompt, label string) (PromptVersion, error) {
	const text = `
		SELECT v.id, v.prompt_id, v.number, v.text, v.model, v.description, v.metadata, v.label_id, v.created_by, v.created_at
		FROM prompt_versions v
		JOIN prompt_labels l ON l.id = v.label_id
		WHERE v.prompt_id = $1 AND l.name = $2`
	return one(ctx, q.q, "version", text, scanPromptVersion, prompt, label)
}

// LabelPromptVersion gives a version of a prompt a label, and takes it from the
// version that had it. An empty label takes the version's own away.
func (q Queries) LabelPromptVersion(ctx context.Context, prompt, version, label string) error {
	const (
		take = `
		UPDATE prompt_versions
		SET label_id = ''
		WHERE prompt_id = $1 AND label_id = $2`
		give = `
		UPDATE prompt_versions
		SET label_id = $3
		WHERE prompt_id = $1 AND id = $2`
	)
	if _, err := q.q.ExecContext(ctx, take, prompt, label); err != nil {
		return err
	}
	return write(ctx, q.q, "version", give, prompt, version, label)
}
