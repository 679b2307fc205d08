package store

import (
	"context"
	"encoding/json"
	"time"

	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// Kinds of a [Prompt].
const (
	KindPrompt  = "prompt"
	KindPartial = "partial"
)

// Prompt is a saved prompt, or a partial that prompts include, without its texts, which
// are in its versions.
type Prompt struct {
	ID           string
	Kind         string // KindPrompt or KindPartial
	Organisation string
	Workspace    string // id
	Collection   string // id
	Slug         string // unique in the workspace
	Name         string
	Published    int64  // number of the version used when none is named
	Status       string // Active or Archived
	OwnerID      string
	UpdatedBy    string
	CreatedAt    time.Time
	UpdatedAt    time.Time

	Model string // of the published version; read only
}

// PromptVersion is a version of a prompt. Only its label can change.
type PromptVersion struct {
	ID          string
	Prompt      string // id
	Number      int64  // from 1; given by the store
	Text        string // see package prompt
	Model       string // model named in Text; may be empty
	Description string
	Metadata    json.RawMessage // object
	Label       string          // id; empty for none
	CreatedBy   string
	CreatedAt   time.Time
}

var promptTable = table[Prompt]{
	name: "prompts", row: "prompt", order: "id DESC", fixed: "id kind organisation_id workspace_id slug owner_id created_at",
	columns: func(p *Prompt) []column {
		return []column{
			{"id", &p.ID}, {"kind", &p.Kind}, {"organisation_id", &p.Organisation}, {"workspace_id", &p.Workspace}, {"collection_id", &p.Collection},
			{"slug", &p.Slug}, {"name", &p.Name}, {"published", &p.Published}, {"status", &p.Status}, {"owner_id", &p.OwnerID},
			{"updated_by", &p.UpdatedBy}, {"created_at", &p.CreatedAt}, {"updated_at", &p.UpdatedAt},
		}
	},
	derived: func(p *Prompt) []column {
		return []column{{`COALESCE((SELECT v.model FROM prompt_versions v WHERE v.prompt_id = prompts.id AND v.number = prompts.published), '')`,
			&p.Model}}
	},
}

// PromptQuery filters active prompts. The zero value of a field filters nothing, except
// for Organisation and Kind.
type PromptQuery struct {
	Organisation string
	Kind         string
	Workspace    string // id
	Collection   string // id
	Search       string // substring of the name, case-sensitive
}

// Prompts returns a page of prompts, newest first, and the number of all matches.
func (q Queries) Prompts(ctx context.Context, f PromptQuery, p Page) (list []Prompt, total int, err error) {
	return promptTable.page(ctx, q.Reader, p, `
		WHERE organisation_id = $1 AND kind = $2 AND `+p.state(`status = 'active'`)+` AND ($3 = '' OR workspace_id = $3)
			AND ($4 = '' OR collection_id = $4) AND ($5 = '' OR REPLACE(name, $5, '') <> name)`,
		f.Organisation, f.Kind, f.Workspace, f.Collection, f.Search)
}

// Prompt returns the active prompt or partial with this id or slug. An empty
// workspace means any of the organisation.
func (q Queries) Prompt(ctx context.Context, kind, organisation, workspace, ref string) (Prompt, error) {
	return promptTable.of(kind).one(ctx, q.Reader, `
		WHERE kind = $1 AND organisation_id = $2 AND ($3 = '' OR workspace_id = $3) AND (id = $4 OR slug = $4) AND status = 'active'`,
		kind, organisation, workspace, ref)
}

// ActivePrompts returns the active prompts and partials of all active workspaces.
func (q Queries) ActivePrompts(ctx context.Context) ([]Prompt, error) {
	return promptTable.list(ctx, q.Reader, `
		WHERE status = 'active' AND workspace_id IN (SELECT id FROM workspaces WHERE status = 'active')
		ORDER BY id`)
}

// PromptExists reports whether there is or was a prompt with this slug and, unless it is zero, this
// version. An empty organisation means any, and an empty workspace any of the organisation.
func (q Queries) PromptExists(ctx context.Context, organisation, workspace, slug string, version int64) (bool, error) {
	const text = `
		SELECT COUNT(*)
		FROM prompts
		WHERE ($1 = '' OR organisation_id = $1) AND ($2 = '' OR workspace_id = $2) AND kind = $3 AND slug = $4
			AND (CAST($5 AS BIGINT) = 0 OR id IN (SELECT prompt_id FROM prompt_versions WHERE number = CAST($5 AS BIGINT)))`
	n, err := sqlrow.Count(ctx, q.Reader, text, organisation, workspace, KindPrompt, slug, version)
	return n > 0, err
}

// CreatePrompt stores a prompt and its first version, which is published.
func (tx *Tx) CreatePrompt(ctx context.Context, p Prompt, v PromptVersion) error {
	p.Published = 1
	if err := promptTable.of(p.Kind).insert(ctx, tx, p); err != nil {
		return err
	}
	_, err := tx.AddPromptVersion(ctx, v)
	return err
}

// UpdatePrompt stores the changed fields of a prompt, except its versions.
func (tx *Tx) UpdatePrompt(ctx context.Context, p Prompt) error {
	return promptTable.of(p.Kind).update(ctx, tx, p)
}

var promptVersionTable = table[PromptVersion]{
	name: "prompt_versions", row: "version", order: "number DESC",
	columns: func(v *PromptVersion) []column {
		return []column{
			{"id", &v.ID}, {"prompt_id", &v.Prompt}, {"number", &v.Number}, {"text", &v.Text}, {"model", &v.Model},
			{"description", &v.Description}, {"metadata", object(&v.Metadata)}, {"label_id", &v.Label},
			{"created_by", &v.CreatedBy}, {"created_at", &v.CreatedAt},
		}
	},
}

// AddPromptVersion stores the next version of a prompt and returns its number.
func (tx *Tx) AddPromptVersion(ctx context.Context, v PromptVersion) (number int64, err error) {
	const text = `
		INSERT INTO prompt_versions (id, prompt_id, number, text, model, description, metadata, label_id, created_by, created_at)
		SELECT $1, $2, COALESCE(MAX(number), 0) + 1, $3, $4, $5, $6, $7, $8, $9
		FROM prompt_versions
		WHERE prompt_id = $2
		RETURNING number`
	if err := tx.change.Record(journal.PromptVersions); err != nil {
		return 0, err
	}
	return sqlrow.One(ctx, tx.Reader, "version", text, scanNumber, v.ID, v.Prompt, v.Text, v.Model, v.Description, orEmpty(v.Metadata, "{}"),
		v.Label, v.CreatedBy, millis(v.CreatedAt))
}

func scanNumber(r sqlrow.Scanner) (n int64, err error) {
	err = r.Scan(&n)
	return n, err
}

// PromptVersions returns a page of a prompt's versions, newest first, and the number of all.
func (q Queries) PromptVersions(ctx context.Context, prompt string, p Page) (list []PromptVersion, total int, err error) {
	return promptVersionTable.page(ctx, q.Reader, p, `
		WHERE prompt_id = $1`, prompt)
}

// PromptVersion returns the version of a prompt with this number.
func (q Queries) PromptVersion(ctx context.Context, prompt string, number int64) (PromptVersion, error) {
	return promptVersionTable.one(ctx, q.Reader, `
		WHERE prompt_id = $1 AND number = $2`, prompt, number)
}

// PromptVersionByID returns the version of a prompt with this id.
func (q Queries) PromptVersionByID(ctx context.Context, prompt, id string) (PromptVersion, error) {
	return promptVersionTable.one(ctx, q.Reader, `
		WHERE prompt_id = $1 AND id = $2`, prompt, id)
}

// ActivePromptVersions returns the ids, numbers and labels of the versions of all active
// prompts and partials, sorted by prompt and number.
func (q Queries) ActivePromptVersions(ctx context.Context) ([]PromptVersion, error) {
	return promptVersionTable.limitTo("id", "prompt_id", "number", "label_id").list(ctx, q.Reader, `
		WHERE prompt_id IN (SELECT id FROM prompts WHERE status = 'active')
		ORDER BY prompt_id, number`)
}

// PromptVersionsByID returns the versions with these ids, in no order.
func (q Queries) PromptVersionsByID(ctx context.Context, ids []string) ([]PromptVersion, error) {
	return promptVersionTable.byID(ctx, q.Reader, ids)
}

// LatestPromptVersion returns the version of a prompt with the highest number.
func (q Queries) LatestPromptVersion(ctx context.Context, prompt string) (PromptVersion, error) {
	return promptVersionTable.one(ctx, q.Reader, `
		WHERE prompt_id = $1
		ORDER BY number DESC
		LIMIT 1`, prompt)
}

// LabelledPromptVersion returns the version of a prompt with the label of this name.
func (q Queries) LabelledPromptVersion(ctx context.Context, prompt, label string) (PromptVersion, error) {
	return promptVersionTable.one(ctx, q.Reader, `
		WHERE prompt_id = $1 AND label_id IN (SELECT id FROM prompt_labels WHERE name = $2)`, prompt, label)
}

// LabelPromptVersion sets the label of a version and removes it from the version that
// had it. An empty label removes the version's label.
func (tx *Tx) LabelPromptVersion(ctx context.Context, prompt, version, label string) error {
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
	if _, err := tx.change.Exec(ctx, journal.PromptVersions, take, prompt, label); err != nil {
		return err
	}
	return tx.write(ctx, journal.PromptVersions, "version", give, prompt, version, label)
}
