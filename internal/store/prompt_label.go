package store

import (
	"context"
	"fmt"
	"time"

	"modelgate/internal/journal"
	"modelgate/internal/sqlrow"
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

var promptLabelTable = table[PromptLabel]{
	name: "prompt_labels", row: "label", order: "name, id", fixed: "id organisation_id workspace_id created_at",
	columns: func(l *PromptLabel) []column {
		return []column{
			{"id", &l.ID}, {"organisation_id", &l.Organisation}, {"workspace_id", &l.Workspace}, {"name", &l.Name},
			{"description", &l.Description}, {"color_code", &l.Color}, {"created_at", &l.CreatedAt}, {"updated_at", &l.UpdatedAt},
		}
	},
}

// seenLabels are the labels that are seen from a workspace: its own, the
// organisation's and everybody's. An empty workspace sees all of the
// organisation.
const seenLabels = `
		WHERE organisation_id IN ('', $1) AND ($2 = '' OR workspace_id IN ('', $2))`

// PromptLabels returns a page of the labels that are seen from a workspace, by
// name, and how many there are. Search is a part of the name.
func (q Queries) PromptLabels(ctx context.Context, organisation, workspace, search string, p Page) (list []PromptLabel, total int, err error) {
	return promptLabelTable.page(ctx, q.Reader, p, seenLabels+` AND ($3 = '' OR REPLACE(name, $3, '') <> name)`, organisation, workspace, search)
}

// PromptLabel returns the label with this id that is seen from a workspace.
func (q Queries) PromptLabel(ctx context.Context, organisation, workspace, id string) (PromptLabel, error) {
	return promptLabelTable.one(ctx, q.Reader, seenLabels+` AND id = $3`, organisation, workspace, id)
}

// PromptLabelTaken reports whether another label than id that is seen from a
// workspace, or from any of the organisation's when it is empty, has this name.
func (q Queries) PromptLabelTaken(ctx context.Context, organisation, workspace, name, id string) (bool, error) {
	n, err := sqlrow.Count(ctx, q.Reader, `SELECT COUNT(*) FROM prompt_labels`+seenLabels+` AND name = $3 AND id <> $4`, organisation, workspace, name, id)
	return n > 0, err
}

// CreatePromptLabel stores a label.
func (tx *Tx) CreatePromptLabel(ctx context.Context, l PromptLabel) error {
	return promptLabelTable.insert(ctx, tx, l)
}

// UpdatePromptLabel stores what may change of a label.
func (tx *Tx) UpdatePromptLabel(ctx context.Context, l PromptLabel) error {
	return promptLabelTable.update(ctx, tx, l)
}

// DeletePromptLabel removes a label, and takes it from the versions that have it.
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
		return fmt.Errorf("taking a label away: %w", err)
	}
	return tx.write(ctx, journal.PromptLabels, "label", remove, id)
}
