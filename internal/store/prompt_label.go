package store

import (
	"context"
	"fmt"
	"time"

	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// PromptLabel is a name for versions of prompts.
type PromptLabel struct {
	ID           string
	Organisation string // empty for a built-in label, which cannot be changed
	Workspace    string // id; empty for a label of the organisation
	Name         string
	Description  string
	Color        string
	CreatedAt    time.Time
	UpdatedAt    time.Time
}

var promptLabelTable = table[PromptLabel]{
	name: "prompt_labels", row: "label", order: "name, id", fixed: "id organisation_id workspace_id created_at",
	columns: func(l *PromptLabel) []column {
		return []column{
			{"id", &l.ID}, {"organisation_id", &l.Organisation}, {"workspace_id", &l.Workspace}, {"name", &l.Name},
			{"description", &l.Description}, {"color_code", &l.Color}, {"created_at", &l.CreatedAt}, {"updated_at", &l.UpdatedAt},
		}
	},
}

// seenLabels is the condition for labels visible from a workspace: its own, the
// organisation's and built-in ones. An empty workspace sees all of the organisation.
const seenLabels = `
		WHERE organisation_id IN ('', $1) AND ($2 = '' OR workspace_id IN ('', $2))`

// PromptLabels returns a page of the labels visible from a workspace, sorted by name,
// and the number of all. Search is a substring of the name.
func (q Queries) PromptLabels(ctx context.Context, organisation, workspace, search string,
	p Page) (list []PromptLabel, total int, err error) {
	return promptLabelTable.page(ctx, q.Reader, p, seenLabels+` AND ($3 = '' OR REPLACE(name, $3, '') <> name)`, organisation, workspace,
		search)
}

// PromptLabel returns the label with this id if it is visible from a workspace.
func (q Queries) PromptLabel(ctx context.Context, organisation, workspace, id string) (PromptLabel, error) {
	return promptLabelTable.one(ctx, q.Reader, seenLabels+` AND id = $3`, organisation, workspace, id)
}

// PromptLabelTaken reports whether a label other than id, visible from a workspace or,
// if workspace is empty, from any workspace of the organisation, has this name.
func (q Queries) PromptLabelTaken(ctx context.Context, organisation, workspace, name, id string) (bool, error) {
	n, err := sqlrow.Count(ctx, q.Reader, `SELECT COUNT(*) FROM prompt_labels`+seenLabels+` AND name = $3 AND id <> $4`, organisation,
		workspace, name, id)
	return n > 0, err
}

// AllPromptLabels returns the labels of all organisations.
func (q Queries) AllPromptLabels(ctx context.Context) ([]PromptLabel, error) {
	return promptLabelTable.list(ctx, q.Reader, "")
}

// CreatePromptLabel stores a label.
func (tx *Tx) CreatePromptLabel(ctx context.Context, l PromptLabel) error {
	return promptLabelTable.insert(ctx, tx, l)
}

// UpdatePromptLabel stores the changed fields of a label.
func (tx *Tx) UpdatePromptLabel(ctx context.Context, l PromptLabel) error {
	return promptLabelTable.update(ctx, tx, l)
}

// DeletePromptLabel deletes a label and removes it from the versions that have it.
func (tx *Tx) DeletePromptLabel(ctx context.Context, id string) error {
	const (
		take = `
		UPDATE prompt_versions
		SET label_id = ''
		WHERE label_id = $1`
		remove = `
		DELETE FROM prompt_labels
		WHERE id = $1`
	)
	if _, err := tx.change.Exec(ctx, journal.PromptVersions, take, id); err != nil {
		return fmt.Errorf("removing a label: %w", err)
	}
	return tx.write(ctx, journal.PromptLabels, "label", remove, id)
}
