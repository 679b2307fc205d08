package outbox

import (
	"modelgate/internal/store"
)

// auditEvent is a row of the audit log in the form that is sent.
type auditEvent struct {
	ID           string `json:"id"`
	Sequence     int64  `json:"sequence"`
	Hash         string `json:"hash"`
	Time         string `json:"timestamp"`
	Organisation string `json:"organisation_id"`
	Workspace    string `json:"workspace_id,omitempty"`
	Action       string `json:"action"`
	ResourceType string `json:"resource_type"`
	ResourceID   string `json:"resource_id,omitempty"`
	UserID       string `json:"user_id"`

	// Names are those at the time of sending, and empty if they are unknown.
	OrganisationName string `json:"organisation_name,omitempty"`
	WorkspaceName    string `json:"workspace_name,omitempty"`
	ResourceName     string `json:"resource_name,omitempty"`
	UserName         string `json:"user_name,omitempty"`

	UserType  string `json:"user_type"`
	ClientIP  string `json:"client_ip,omitempty"`
	Host      string `json:"host,omitempty"`
	Method    string `json:"method"`
	URI       string `json:"uri"`
	Status    int    `json:"response_status_code"`
	RequestID string `json:"request_id"`
	Query     string `json:"query_params"`
	Headers   string `json:"request_headers"`
	Body      string `json:"request_body"`
}

func eventOf(a *store.Audit, n store.AuditNames) auditEvent {
	return auditEvent{
		ID: a.ID, Sequence: a.Sequence, Hash: a.Hash, Time: a.Time.UTC().Format("2006-01-02T15:04:05.000Z"), Organisation: a.Organisation,
		Workspace: a.Workspace, Action: a.Action, ResourceType: a.ResourceType, ResourceID: a.ResourceID, UserID: a.UserID, UserType: a.UserType,
		OrganisationName: n.Organisation, WorkspaceName: n.Workspace, ResourceName: n.Resource, UserName: n.User,
		ClientIP: a.ClientIP, Host: a.Host, Method: a.Method, URI: a.URI, Status: a.Status, RequestID: a.RequestID,
		Query: a.QueryParams, Headers: a.RequestHeaders, Body: a.RequestBody,
	}
}
