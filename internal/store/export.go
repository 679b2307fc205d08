package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
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
			{"updated_at", &e.UpdatedAt}, {"started_at", &e.StartedAt}, {"ended_at", &e.EndedAt}, {"expires_at", &e.ExpiresAt},
			{"claimed_by", new(string)}, {"tries", new(int64)}, // initially empty; changed by the nodes that write exports
		}
	},
}

// ExportQuery filters exports. Empty fields filter nothing, except for Organisation.
type ExportQuery struct {
	Organisation string
	Workspace    string // id
	UserID       string // user who created them
	Archived     bool   // include exports of archived workspaces
}

// Exports returns a page of exports, newest first, and the number of all matches.
func (q Queries) Exports(ctx context.Context, x ExportQuery, p Page) (list []Export, total int, err error) {
	return exportTable.page(ctx, q.Reader, p, `
		WHERE organisation_id = $1 AND ($2 = '' OR workspace_id = $2) AND ($3 = '' OR user_id = $3)
			AND ($4 OR workspace_id IN (SELECT id FROM workspaces WHERE organisation_id = $1 AND status = 'active'))`,
		x.Organisation, x.Workspace, x.UserID, x.Archived)
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

// ExportLease is a node's hold on an export that it writes.
type ExportLease struct {
	Export
	Node string
}

// ClaimExport leases a started export that no node holds to a node for the duration of
// lease; ok is false if there is none. Everything that an earlier node wrote is void.
func (db *DB) ClaimExport(ctx context.Context, node string, now time.Time, lease time.Duration) (c ExportLease, ok bool, err error) {
	const text = `
		UPDATE exports
		SET claimed_by = $1, lease_until = $2, tries = tries + 1
		WHERE status = 'in_progress' AND (lease_until IS NULL OR lease_until < $3)
			AND id = (
				SELECT id
				FROM exports
				WHERE status = 'in_progress' AND (lease_until IS NULL OR lease_until < $3)
				ORDER BY started_at, id
				LIMIT 1)
		RETURNING `
	if waiting, err := db.exportsWait(ctx, now); err != nil || !waiting {
		return c, false, err
	}
	if err := db.failAbandonedExports(ctx, now); err != nil {
		return c, false, err
	}
	list, err := sqlrow.List(ctx, db.write, "exports", text+exportTable.names(), exportTable.scanner(), node, millis(now.Add(lease)),
		now.UnixMilli())
	if err != nil || len(list) == 0 {
		return c, false, db.ClientError(err)
	}
	return ExportLease{list[0], node}, true, nil
}

// exportsWait reports, without writing, whether there is an export to claim.
func (db *DB) exportsWait(ctx context.Context, now time.Time) (bool, error) {
	const text = `
		SELECT COUNT(*)
		FROM exports
		WHERE status = 'in_progress' AND (lease_until IS NULL OR lease_until < $1)`
	if !db.ready.Load() {
		return false, nil
	}
	n, err := sqlrow.Count(ctx, db.read, text, now.UnixMilli())
	return n > 0, db.ClientError(err)
}

const maxExportTries = 5 // of nodes that began an export and did not finish

// failAbandonedExports marks exports as failed that several nodes began without
// finishing.
func (db *DB) failAbandonedExports(ctx context.Context, now time.Time) error {
	const text = `
		UPDATE exports
		SET status = 'failed', failure = 'it was begun several times and the gateway ended each time', ended_at = $1, updated_at = $1
		WHERE status = 'in_progress' AND lease_until < $1 AND tries >= $2`
	if _, err := db.write.Exec(ctx, text, now.UnixMilli(), int64(maxExportTries)); err != nil {
		return db.ClientError(fmt.Errorf("failing abandoned exports: %w", err))
	}
	return nil
}

// RenewExportLease extends a node's lease and stores the progress. It reports false if
// the node has lost the lease because a user has stopped the export or another node has
// claimed it.
func (db *DB) RenewExportLease(ctx context.Context, c ExportLease, now time.Time, lease time.Duration) (held bool, err error) {
	const text = `
		UPDATE exports
		SET lease_until = $3, row_count = $4, byte_count = $5, file = $6
		WHERE id = $1 AND claimed_by = $2 AND status = 'in_progress'`
	return db.touched(ctx, text, c.ID, c.Node, millis(now.Add(lease)), c.Rows, c.Bytes, c.File)
}

// ReleaseExport ends a node's lease, so that another node can begin the export again.
func (db *DB) ReleaseExport(ctx context.Context, c ExportLease) error {
	const text = `
		UPDATE exports
		SET claimed_by = '', lease_until = NULL, tries = tries - 1, row_count = 0, byte_count = 0
		WHERE id = $1 AND claimed_by = $2 AND status = 'in_progress'`
	_, err := db.touched(ctx, text, c.ID, c.Node)
	return err
}

// FinishExport stores how an export ended. It reports false if the node had lost the
// lease.
func (db *DB) FinishExport(ctx context.Context, c ExportLease) (held bool, err error) {
	const stmt = `
		UPDATE exports
		SET status = $3, failure = $4, row_count = $5, byte_count = $6, fields = $7, file = $8, link_key = $9,
			lease_until = NULL, ended_at = $10, updated_at = $10, expires_at = $11
		WHERE id = $1 AND claimed_by = $2 AND status = 'in_progress'`
	return db.touched(ctx, stmt, c.ID, c.Node, c.Status, c.Failure, c.Rows, c.Bytes, text(c.Fields), c.File, c.LinkKey,
		millis(c.EndedAt), millis(c.ExpiresAt))
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
