package store

import (
	"context"
	"fmt"
	"time"

	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// Audit is an event of the audit log: something a user, key or operator did or tried to
// do. Its texts contain no secrets, which the control plane has masked.
type Audit struct {
	ID             string // time-ordered UUID
	Organisation   string
	Workspace      string // id, empty for an event of the organisation
	Time           time.Time
	Method         string
	URI            string // path only
	QueryParams    string // JSON
	RequestHeaders string // JSON
	RequestBody    string // JSON
	RequestID      string
	UserID         string // id of the user or key
	UserType       string // user, api_key, system or operator
	Status         int
	ResourceType   string
	ResourceID     string
	Action         string
	ClientIP       string
	Host           string // host of an operator's command

	// Sequence counts the events of the organisation from 1, and Hash is a digest of
	// the row and the previous hash. Both are set when the row is added.
	Sequence int64
	Hash     string

	// Alert is stored with the event. Nil sends none.
	Alert *Alert
}

// AddAudit records an event that changed nothing, such as a refusal.
func (db *DB) AddAudit(ctx context.Context, a *Audit) error {
	if db.mute {
		return nil
	}
	return db.ClientError(db.transact(ctx, func(tx *Tx) error { return tx.addAudit(ctx, a) }))
}

// Note records an event in tx, unless the audit log is disabled, and its alert.
func (tx *Tx) Note(ctx context.Context, a *Audit) error {
	if a.Alert != nil {
		if err := tx.addAlert(ctx, a); err != nil {
			return err
		}
	}
	if tx.mute {
		return nil
	}
	return tx.addAudit(ctx, a)
}

// addAudit appends a row to the chain of its organisation. Concurrent transactions
// wait, so that rows have the order in which they are committed.
func (tx *Tx) addAudit(ctx context.Context, a *Audit) error {
	const (
		next = `
		INSERT INTO audit_heads (organisation_id, sequence, hash)
		VALUES ($1, 1, '')
		ON CONFLICT (organisation_id) DO UPDATE SET sequence = audit_heads.sequence + 1
		RETURNING sequence, hash`
		insert = `
		INSERT INTO audit_logs (` + auditColumns + `)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)`
		head = `
		UPDATE audit_heads
		SET hash = $2
		WHERE organisation_id = $1`
	)
	var before string
	if err := tx.Reader.QueryRowContext(ctx, next, a.Organisation).Scan(&a.Sequence, &before); err != nil {
		return fmt.Errorf("writing the audit log: %w", err)
	}
	a.Hash = a.hashAfter(before)
	_, err := tx.change.Exec(ctx, journal.Unpublished, insert, a.ID, a.Organisation, a.Workspace, a.Time.UnixMilli(), a.Method, a.URI,
		a.QueryParams, a.RequestHeaders, a.RequestBody, a.RequestID, a.UserID, a.UserType, a.Status, a.ResourceType, a.ResourceID,
		a.Action, a.ClientIP, a.Host, a.Sequence, a.Hash)
	if err == nil {
		_, err = tx.change.Exec(ctx, journal.Unpublished, head, a.Organisation, a.Hash)
	}
	if err != nil {
		return fmt.Errorf("writing the audit log: %w", err)
	}
	return nil
}

const auditColumns = `id, organisation_id, workspace_id, created_at, method, uri, query_params, request_headers, request_body,
			request_id, user_id, user_type, response_status_code, resource_type, resource_id, action, client_ip, host, sequence, hash`

// AuditQuery filters audit events. All filters must match; the zero value of a field
// filters nothing, except for Organisation and the times.
type AuditQuery struct {
	Organisation string
	From, To     time.Time // From is inclusive, To is exclusive

	Workspace    string
	Method       string
	URI          string
	RequestID    string
	UserID       string
	UserType     string
	Status       int
	ResourceType string
	Action       string
	ClientIP     string
}

// Audits returns a page of audit events, newest first, and the number of all matches.
func (q Queries) Audits(ctx context.Context, a AuditQuery, p Page) (list []Audit, total int, err error) {
	const where = `
		FROM audit_logs
		WHERE organisation_id = $1 AND created_at >= $2 AND created_at < $3
			AND ($4 = '' OR workspace_id = $4) AND ($5 = '' OR method = $5) AND ($6 = '' OR uri = $6)
			AND ($7 = '' OR request_id = $7) AND ($8 = '' OR user_id = $8) AND ($9 = '' OR user_type = $9)
			AND ($10 = 0 OR response_status_code = $10) AND ($11 = '' OR resource_type = $11)
			AND ($12 = '' OR action = $12) AND ($13 = '' OR client_ip = $13)`
	const columns = `SELECT ` + auditColumns
	args := []any{a.Organisation, a.From.UnixMilli(), a.To.UnixMilli(), a.Workspace, a.Method, a.URI, a.RequestID,
		a.UserID, a.UserType, int64(a.Status), a.ResourceType, a.Action, a.ClientIP}
	if total, err = sqlrow.Count(ctx, q.Reader, `SELECT COUNT(*)`+where, args...); err != nil {
		return nil, 0, err
	}
	limit, offset := p.limit()
	list, err = sqlrow.List(ctx, q.Reader, "the audit log", columns+where+` ORDER BY created_at DESC, id DESC LIMIT $14 OFFSET $15`,
		scanAudit, append(args, limit, offset)...)
	return list, total, err
}

// AuditHas reports whether the audit log of an organisation has an event with a value in
// a column, one of user_id, resource_type and action.
func (q Queries) AuditHas(ctx context.Context, organisation, column, value string) (bool, error) {
	const text = `
		SELECT COUNT(*)
		FROM (
			SELECT 1
			FROM audit_logs
			WHERE organisation_id = $1
				AND ($2 <> 'user_id' OR user_id = $3)
				AND ($2 <> 'resource_type' OR resource_type = $3)
				AND ($2 <> 'action' OR action = $3)
			LIMIT 1
		) AS found`
	n, err := sqlrow.Count(ctx, q.Reader, text, organisation, column, value)
	return n > 0, err
}

func scanAudit(r sqlrow.Scanner) (a Audit, err error) {
	err = r.Scan(&a.ID, &a.Organisation, &a.Workspace, sqlrow.Time(&a.Time), &a.Method, &a.URI, &a.QueryParams, &a.RequestHeaders,
		&a.RequestBody, &a.RequestID, &a.UserID, &a.UserType, &a.Status, &a.ResourceType, &a.ResourceID, &a.Action, &a.ClientIP,
		&a.Host, &a.Sequence, &a.Hash)
	return a, err
}
