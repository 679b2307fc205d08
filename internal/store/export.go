package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"modelgate/internal/storage/journal"
)

// States of an [Export]. Only a draft, an export that is not started, can be changed.
// An expired export has had a file.
const (
	ExportDraft   = "draft"
	ExportRunning = "in_progress"
	ExportDone    = "success"
	ExportFailed  = "failed"
	ExportStopped = "stopped"
	ExportExpired = "expired"
)

// Export is a requested part of the log, to be written to a file.
type Export struct {
	ID           string
	Organisation string
	Workspace    string // id
	Format       string // jsonl, csv or parquet
	Filters      json.RawMessage
	Requested    []string
	Status       string
	Failure      string // why it failed, without secrets
	Expected     *int64 // approximate number of rows; nil if they were not counted

	// Keys are the ids of the keys whose entries the creator could see when it was
	// started; nil is all of the workspace.
	Keys []string

	Rows, Bytes int64
	Fields      []string // fields of the file
	File        string   // name of the file, empty while there is none
	LinkKey     string   // signs addresses of the file; never shown
	Schedule    string   // id of the schedule that started it; empty for none

	UserID    string // user who created it; empty for a service key
	CreatedBy string
	CreatedAt time.Time
	UpdatedAt time.Time
	StartedAt time.Time // zero until started, like the following times
	EndedAt   time.Time
	ExpiresAt time.Time // when the file is deleted
}

var exportTable = table[Export]{
	name: "exports", row: "export", order: "id DESC",
	columns: func(e *Export) []column {
		return []column{
			{"id", &e.ID}, {"organisation_id", &e.Organisation}, {"workspace_id", &e.Workspace}, {"format", &e.Format},
			{"filters", nullable(&e.Filters)}, {"requested", nullable(&e.Requested)}, {"fields", nullable(&e.Fields)},
			{"visible_keys", nullable(&e.Keys)},
			{"status", &e.Status}, {"failure", &e.Failure}, {"expected", &e.Expected}, {"row_count", &e.Rows}, {"byte_count", &e.Bytes},
			{"file", &e.File}, {"link_key", &e.LinkKey}, {"user_id", &e.UserID}, {"created_by", &e.CreatedBy}, {"created_at", &e.CreatedAt},
			{"schedule_id", &e.Schedule},
			{"updated_at", &e.UpdatedAt}, {"started_at", &e.StartedAt}, {"ended_at", &e.EndedAt}, {"expires_at", &e.ExpiresAt},
			{"claimed_by", new(string)}, {"tries", new(int64)}, // written for nodes of earlier versions, which have no jobs
		}
	},
}

// ExportQuery filters exports. Empty fields filter nothing, except for Organisation.
type ExportQuery struct {
	Organisation string
	Workspace    string // id
	UserID       string // user who created them
	Archived     bool   // include exports of archived workspaces
	Schedule     string // id
}

// Exports returns a page of exports, newest first, and the number of all matches.
func (q Queries) Exports(ctx context.Context, x ExportQuery, p Page) (list []Export, total int, err error) {
	return exportTable.page(ctx, q.Reader, p, `
		WHERE organisation_id = $1 AND ($2 = '' OR workspace_id = $2) AND ($3 = '' OR user_id = $3)
			AND ($4 OR workspace_id IN (SELECT id FROM workspaces WHERE organisation_id = $1 AND status = 'active'))
			AND ($5 = '' OR schedule_id = $5)`,
		x.Organisation, x.Workspace, x.UserID, x.Archived, x.Schedule)
}

// Export returns the export with this id.
func (q Queries) Export(ctx context.Context, id string) (Export, error) {
	return exportTable.one(ctx, q.Reader, `
		WHERE id = $1`, id)
}

// CreateExport stores an export.
func (tx *Tx) CreateExport(ctx context.Context, e Export) error {
	return exportTable.insert(ctx, tx, e)
}

// UpdateExport stores what a request changes of an export: its parameters and its
// state. If the export is no longer in the state was, it is not found.
func (tx *Tx) UpdateExport(ctx context.Context, e Export, was string) error {
	const stmt = `
		UPDATE exports
		SET format = $2, filters = $3, requested = $4, visible_keys = $5, status = $6, expected = $7,
			updated_at = $8, started_at = $9, ended_at = $10
		WHERE id = $1 AND status = $11`
	return tx.write(ctx, journal.Unpublished, "export", stmt, e.ID, e.Format, text(e.Filters), text(e.Requested), text(e.Keys), e.Status,
		e.Expected,
		millis(e.UpdatedAt), millis(e.StartedAt), millis(e.EndedAt), was)
}

// The following methods are called by the nodes that write exports. They make no
// revision.

// AdoptExports queues jobs for started exports that have none: a node of an earlier
// version started them. They are due when its lease ends.
func (db *DB) AdoptExports(ctx context.Context, now time.Time) error {
	const text = `
		INSERT INTO jobs (id, kind, subject_id, organisation_id, workspace_id, state, node, token, renewals, tries, failure, progress,
			total, next_at, created_at)
		SELECT id, 'export', id, organisation_id, workspace_id, 'queued', '', 0, 0, 0, '', 0, expected, COALESCE(lease_until, started_at), $1
		FROM exports
		WHERE status = 'in_progress'
		ON CONFLICT DO NOTHING`
	_, err := db.touched(ctx, text, now.UnixMilli())
	return err
}

// ReportExport stores the progress of an export in progress, and keeps nodes of earlier
// versions from claiming it until then. If it is no longer in progress, it is not found.
func (tx *Tx) ReportExport(ctx context.Context, e Export, node string, until time.Time) error {
	const stmt = `
		UPDATE exports
		SET claimed_by = $2, lease_until = $3, row_count = $4, byte_count = $5, file = $6
		WHERE id = $1 AND status = 'in_progress'`
	return tx.write(ctx, journal.Unpublished, "export", stmt, e.ID, node, millis(until), e.Rows, e.Bytes, e.File)
}

// FinishExport stores that an export has its file. If it is no longer in progress, it is
// not found.
func (tx *Tx) FinishExport(ctx context.Context, e Export) error {
	const stmt = `
		UPDATE exports
		SET status = 'success', failure = '', row_count = $2, byte_count = $3, fields = $4, file = $5, link_key = $6,
			lease_until = NULL, ended_at = $7, updated_at = $7, expires_at = $8
		WHERE id = $1 AND status = 'in_progress'`
	return tx.write(ctx, journal.Unpublished, "export", stmt, e.ID, e.Rows, e.Bytes, text(e.Fields), e.File, e.LinkKey,
		millis(e.EndedAt), millis(e.ExpiresAt))
}

// OldExports returns some exports whose file must be deleted.
func (db *DB) OldExports(ctx context.Context, now time.Time) ([]Export, error) {
	list, err := exportTable.list(ctx, db.read, `
		WHERE status = 'success' AND expires_at < $1
		ORDER BY expires_at
		LIMIT 100`, now.UnixMilli())
	return list, db.ClientError(err)
}

// ExpireExport records that the file of an export was deleted.
func (db *DB) ExpireExport(ctx context.Context, id string, now time.Time) error {
	const text = `
		UPDATE exports
		SET status = 'expired', file = '', updated_at = $2
		WHERE id = $1 AND status = 'success'`
	_, err := db.touched(ctx, text, id, now.UnixMilli())
	return err
}

// touched runs a statement and reports whether it changed a row.
func (db *DB) touched(ctx context.Context, text string, args ...any) (bool, error) {
	if !db.ready.Load() {
		return false, unavailableError(nil)
	}
	n, err := db.write.Exec(ctx, text, args...)
	if err != nil {
		return false, db.ClientError(fmt.Errorf("writing an export: %w", err))
	}
	return n > 0, nil
}
