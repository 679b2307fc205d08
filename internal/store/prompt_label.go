package store

import (
	"context"
	"fmt"
	"time"
)

// PromptLabel is a name that versions of prompts are called by.
type PromptLabel struct {
	ID           string
	Organisation string // empty for one that everybody has and nobody changes
	Workspace    string // id; empty for one of the whole organisation
	Name         string
	Description  string
	Color        string
	CreatedAt    time.Time
	UpdatedAt    time.Time
}

const promptLabelColumns = `id, organisation_id, workspace_id, name, description, color_code, created_at, updated_at`

func scanPromptLabel(r row) (l PromptLabel, err error) {
	err = r.Scan(&l.ID, &l.Organisation, &l.Workspace, &l.Name, &l.Description, &l.Color, nullTime{&l.CreatedAt}, nullTime{&l.UpdatedAt})
	return l, err
}

// seenLabels are the labels that are seen from a workspace: its own, the
// organisation's and everybody's. An empty workspace sees all of the
// organisation.
const seenLabels = `
		FROM prompt_labels
		WHERE organisation_id IN ('', $1) AND ($2 = '' OR workspace_id IN ('', $2))`

// PromptLabels returns a page of the labels that are seen from a workspace, by
// name, and how many there are. Search is a part of the name.
func (q Queries) PromptLabels(ctx context.Context, organisation, workspace, search string, p Page) (list []PromptLabel, total int, err error) {
	const where = seenLabels + ` AND ($3 = '' OR REPLACE(name, $3, '') <> name)`
	if total, err = count(ctx, q.q, `SELECT COUNT(*)`+where, organisation, workspace, search); err != nil {
		return nil, 0, err
	}
	limit, offset := p.limit()
	list, err = rows(ctx, q.q, "labels", `SELECT `+promptLabelColumns+where+` ORDER BY name, id LIMIT $4 OFFSET $5`,
		scanPromptLabel, organisation, workspace, search, limit, offset)
	return list, total, err
}

// PromptLabel returns the label with this id that is seen from a workspace.
func (q Queries) PromptLabel(ctx context.Context, organisation, workspace, id string) (PromptLabel, error) {
	return one(ctx, q.q, "label", `SELECT `+promptLabelColumns+seenLabels+` AND id = $3`, scanPromptLabel, organisation, workspace, id)
}

// PromptLabelTaken reports whether another label than id that is seen from a
// workspace, or from any of the organisation's when it is empty, has this name.
func (q Queries) PromptLabelTaken(ctx context.Context, organisation, workspace, name, id string) (bool, error) {
	n, err := count(ctx, q.q, `SELECT COUNT(*)`+seenLabels+` AND name = $3 AND id <> $4`, organisation, workspace, name, id)
	return n > 0, err
}

// CreatePromptLabel stores a label.
func (q Queries) CreatePromptLabel(ctx context.Context, l PromptLabel) error {
	const text = `
		INSERT INTO prompt_labels (` + promptLabelColumns + `)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`
	return write(ctx, q.q, "label", text, l.ID, l.Organisation, l.Workspace, l.Name, l.Description, l.Color, millis(l.CreatedAt), millis(l.UpdatedAt))
}

// UpdatePromptLabel stores what may change of a label.
func (q Queries) UpdatePromptLabel(ctx context.Context, l PromptLabel) error {
	const text = `
		UPDATE prompt_labels
		SET name = $2, description = $3, color_code = $4, updated_at = $5
		WHERE id = $1`
	return write(ctx, q.q, "label", text, l.ID, l.Name, l.Description, l.Color, millis(l.UpdatedAt))
}

// DeletePromptLabel removes a label, and takes it from the versions that have it.
func (q Queries) DeletePromptLabel(ctx context.Context, id string) error {
	const (
		take = `
		UPDATE prompt_versions
		SET label_id = ''
		WHERE label_id = $1`
		remove = `
		DELETE FROM prompt_labels
		WHERE id = $1`
	)
	if _, err := q.q.ExecContext(ctx, take, id); err != nil {
		return fmt.Errorf("taking a label away: %w", err)
	}
	return write(ctx, q.q, "label", remove, id)
}
