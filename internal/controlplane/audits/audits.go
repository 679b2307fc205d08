// Package audits implements the control plane's route of the audit log.
//
// It guarantees that an organisation reads its own events, newest first, and none of
// another organisation. Events are written by the route wrapper (package route), which
// masks secrets first.
package audits

import (
	"context"
	"net/http"
	"time"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// Add adds the route.
func Add(a *route.API) {
	route.Add(a, route.Route{Method: http.MethodGet, Path: "/audit-logs", Name: "list-audit-logs", Tag: "Audit log",
		Summary: "List audit events", Scopes: []access.Scope{"audit_logs.list"}},
		func(ctx context.Context, c *route.Caller, in *listInput) (*listed, error) { return list(ctx, a, c, in) })
}

type listInput struct {
	From         time.Time `query:"from" required:"true" doc:"A time such as 2026-11-30T12:00:00Z, or a span before now such as 7d"`
	To           time.Time `query:"to" required:"true" doc:"Later than from; now is the present"`
	Organisation string    `query:"organisation_id" maxLength:"255" doc:"The organisation of the key; any other is not found"`
	Workspace    string    `query:"workspace_id" maxLength:"255" doc:"Id or slug"`
	Method       string    `query:"method" enum:"POST,PUT,PATCH,DELETE,APPLY,CLI"`
	URI          string    `query:"uri" maxLength:"2048"`
	RequestID    string    `query:"request_id" maxLength:"64"`
	UserID       string    `query:"user_id" maxLength:"255" doc:"Id of a user or key"`
	UserType     string    `query:"user_type" enum:"user,api_key,system,operator,gateway"`
	Status       int       `query:"response_status_code" minimum:"100" maximum:"599"`
	ResourceType string    `query:"resource_type" maxLength:"64"`
	Action       string    `query:"action" maxLength:"64"`
	ClientIP     string    `query:"client_ip" maxLength:"64"`
	Page         int       `query:"current_page" minimum:"0" maximum:"1000000"`
	Size         int       `query:"page_size" minimum:"1" maximum:"100" default:"100"`
}

type record struct {
	Timestamp    route.Time `json:"timestamp"`
	Method       string     `json:"method"`
	URI          string     `json:"uri"`
	RequestID    string     `json:"request_id"`
	RequestBody  string     `json:"request_body" doc:"JSON without secrets"`
	QueryParams  string     `json:"query_params" doc:"JSON without secrets"`
	Headers      string     `json:"request_headers" doc:"JSON without secrets"`
	UserID       string     `json:"user_id"`
	UserName     *string    `json:"user_name" doc:"Present e-mail address of a user, or name of a key; null if it was deleted"`
	UserType     string     `json:"user_type"`
	Organisation string     `json:"organisation_id"`
	OrgName      *string    `json:"organisation_name"`
	Workspace    *string    `json:"workspace_id"`
	WorkName     *string    `json:"workspace_name"`
	Status       int        `json:"response_status_code"`
	ResourceType string     `json:"resource_type"`
	ResourceID   *string    `json:"resource_id"`
	ResourceName *string    `json:"resource_name" doc:"Present name; null if it was deleted or has none"`
	Action       string     `json:"action"`
	ClientIP     string     `json:"client_ip"`
	Host         *string    `json:"host" doc:"Host on which an operator ran a command; otherwise null"`
	Sequence     int64      `json:"sequence" doc:"Position in the organisation's chain, from 1"`
	Hash         string     `json:"hash" doc:"SHA-256 over the row and the hash before it"`
	Country      *string    `json:"country" doc:"Always null"`
}

type listed struct {
	Records []record `json:"records"`
	Total   int      `json:"total"`
	Object  string   `json:"object"`
	Data    []record `json:"data" doc:"The same as records"`
	route.PageInfo
}

// SetPage sets whether pages follow the one of this number and size.
func (l *listed) SetPage(number, size int) {
	l.Data = l.Records
	l.PageInfo.Set(number, size, l.Total)
}

func list(ctx context.Context, a *route.API, c *route.Caller, in *listInput) (*listed, error) {
	if !in.To.After(in.From) {
		return nil, route.Invalid("end_time", "must be later than start_time")
	}
	if err := c.CheckOrganisation(ctx, in.Organisation); err != nil {
		return nil, err
	}
	if err := in.resolve(ctx, a, c); err != nil {
		return nil, err
	}
	found, total, err := c.DB().Audits(ctx, store.AuditQuery{
		Organisation: c.Organisation, Workspace: in.Workspace, From: in.From, To: in.To,
		Method: in.Method, URI: in.URI, RequestID: in.RequestID, UserID: in.UserID, UserType: in.UserType, Status: in.Status,
		ResourceType: in.ResourceType, Action: in.Action, ClientIP: in.ClientIP,
	}, store.Page{Number: in.Page, Size: in.Size})
	if err != nil {
		return nil, err
	}
	names, err := c.DB().AuditNames(ctx, c.Organisation, found)
	if err != nil {
		return nil, err
	}
	out := &listed{Records: make([]record, len(found)), Total: total, Object: "list"}
	for i := range found {
		out.Records[i] = toResponse(&found[i], &names[i])
	}
	return out, nil
}

func toResponse(a *store.Audit, n *store.AuditNames) record {
	return record{
		Timestamp: route.Time(a.Time), Method: a.Method, URI: a.URI, RequestID: a.RequestID,
		RequestBody: a.RequestBody, QueryParams: a.QueryParams, Headers: a.RequestHeaders,
		UserID: a.UserID, UserName: route.OrNull(n.User), UserType: a.UserType,
		Organisation: a.Organisation, OrgName: route.OrNull(n.Organisation),
		Workspace: route.OrNull(a.Workspace), WorkName: route.OrNull(n.Workspace),
		Status: a.Status, ResourceType: a.ResourceType, ResourceID: route.OrNull(a.ResourceID), ResourceName: route.OrNull(n.Resource),
		Action: a.Action, ClientIP: a.ClientIP,
		Host: route.OrNull(a.Host), Sequence: a.Sequence, Hash: a.Hash,
	}
}
