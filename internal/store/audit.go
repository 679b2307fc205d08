package store

import (
	"context"
	"fmt"
	"time"
)

// Audit is one thing that somebody did or tried to do. Texts hold no secrets:
// the control plane has masked them.
type Audit struct {
	ID             string // time-ordered UUID
	Organisation   string
	Workspace      string // id, empty for what concerns the organisation
	Time           time.Time
	Method         string
	URI            string // path alone
	QueryParams    string // JSON
	RequestHeaders string // JSON
	RequestBody    string // JSON
	RequestID      string
	UserID         string // of the user, or the id of the key
	UserType       string // user or api_key
	Status         int
	ResourceType   string
	ResourceID     string
	Action         string
	ClientIP       string
}

// AddAudit notes something that changed nothing, such as a refusal.
func (db *DB) AddAudit(ctx context.Context, a *Audit) error {
	return db.Explain(Queries{db.write}.addAudit(ctx, a))
}

func (q Queries) addAudit(ctx context.Context, a *Audit) error {
	const insert = `
		INSERT INTO audit_logs (id, organisation_id, workspace_id, created_at, method, uri, query_params, request_headers, request_body,
			request_id, user_id, user_type, response_status_code, resource_type, resource_id, action, client_ip)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)`
	_, err := q.q.ExecContext(ctx, insert, a.ID, a.Organisation, a.Workspace, a.Time.UnixMilli(), a.Method, a.URI, a.QueryParams,
		a.RequestHeaders, a.RequestBody, a.RequestID, a.UserID, a.UserType, a.Status, a.ResourceType, a.ResourceID, a.Action, a.ClientIP)
	if err != nil {
		return fmt.Errorf("writing the audit log: %w", err)
	}
	return nil
}
