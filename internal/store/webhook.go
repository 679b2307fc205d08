package store

import (
	"context"
	"slices"
	"time"

	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// States of a [WebhookEndpoint].
const (
	WebhookEnabled  = "enabled"
	WebhookDisabled = "disabled"
)

// WebhookEndpoint is an address of a workspace that receives events.
type WebhookEndpoint struct {
	ID           string
	Organisation string
	Workspace    string // id
	Name         string
	Description  string
	URL          string   // may contain a secret
	Types        []string // of the events that it receives; see [EventTypes]
	Format       string   // of a message; empty is the event itself
	Status       string
	Reason       string // why the gateway disabled it; empty if a user did

	Sealed        string    // the secret, sealed for the organisation
	Hint          string    // end of the secret
	Previous      string    // the secret before a rotation, sealed; empty for none
	PreviousUntil time.Time // until when it also signs

	CreatedBy string
	CreatedAt time.Time
	UpdatedAt time.Time
}

var webhookEndpointTable = table[WebhookEndpoint]{
	name: "webhook_endpoints", row: "webhook endpoint", order: "id DESC", fixed: "id organisation_id workspace_id created_by created_at",
	columns: func(e *WebhookEndpoint) []column {
		return []column{
			{"id", &e.ID}, {"organisation_id", &e.Organisation}, {"workspace_id", &e.Workspace}, {"name", &e.Name},
			{"description", &e.Description}, {"url", &e.URL}, {"event_types", array(&e.Types)}, {"format", &e.Format}, {"status", &e.Status},
			{"disabled_reason", &e.Reason}, {"sealed", &e.Sealed}, {"hint", &e.Hint}, {"previous", &e.Previous},
			{"previous_until", &e.PreviousUntil}, {"created_by", &e.CreatedBy}, {"created_at", &e.CreatedAt}, {"updated_at", &e.UpdatedAt},
		}
	},
}

// WebhookEndpoints returns a page of the endpoints of an organisation or one of its
// workspaces, newest first, and the number of all. After limits both to those older than
// the endpoint with this id; empty does not.
func (q Queries) WebhookEndpoints(ctx context.Context, organisation, workspace, after string,
	p Page) (list []WebhookEndpoint, total int, err error) {
	return webhookEndpointTable.page(ctx, q.Reader, p, `
		WHERE organisation_id = $1 AND ($2 = '' OR workspace_id = $2) AND ($3 = '' OR id < $3)`, organisation, workspace, after)
}

// WebhookEndpoint returns the endpoint with this id, of an organisation or one of its
// workspaces.
func (q Queries) WebhookEndpoint(ctx context.Context, organisation, workspace, id string) (WebhookEndpoint, error) {
	return webhookEndpointTable.one(ctx, q.Reader, `
		WHERE organisation_id = $1 AND ($2 = '' OR workspace_id = $2) AND id = $3`, organisation, workspace, id)
}

// CountWebhookEndpoints returns the number of endpoints of a workspace.
func (q Queries) CountWebhookEndpoints(ctx context.Context, workspace string) (int, error) {
	const text = `
		SELECT COUNT(*)
		FROM webhook_endpoints
		WHERE workspace_id = $1`
	return sqlrow.Count(ctx, q.Reader, text, workspace)
}

// endpointsFor returns the enabled endpoints of a workspace that receive a type of events.
func (q Queries) endpointsFor(ctx context.Context, organisation, workspace, typ string) ([]WebhookEndpoint, error) {
	list, err := webhookEndpointTable.list(ctx, q.Reader, `
		WHERE organisation_id = $1 AND workspace_id = $2 AND status = 'enabled'
		ORDER BY id`, organisation, workspace)
	return slices.DeleteFunc(list, func(e WebhookEndpoint) bool { return !slices.Contains(e.Types, typ) }), err
}

// CreateWebhookEndpoint stores an endpoint.
func (tx *Tx) CreateWebhookEndpoint(ctx context.Context, e WebhookEndpoint) error {
	return webhookEndpointTable.insert(ctx, tx, e)
}

// UpdateWebhookEndpoint stores the changed fields of an endpoint.
func (tx *Tx) UpdateWebhookEndpoint(ctx context.Context, e WebhookEndpoint) error {
	return webhookEndpointTable.update(ctx, tx, e)
}

// TurnOffWebhookEndpoint disables an endpoint for a reason, unless it is disabled.
func (tx *Tx) TurnOffWebhookEndpoint(ctx context.Context, id, reason string, now time.Time) error {
	const text = `
		UPDATE webhook_endpoints
		SET status = 'disabled', disabled_reason = $2, updated_at = $3
		WHERE id = $1 AND status = 'enabled'`
	return tx.exec(ctx, journal.Unpublished, "webhook endpoints", text, id, reason, millis(now))
}

// DeleteWebhookEndpoint deletes an endpoint with its deliveries, sent or not.
func (tx *Tx) DeleteWebhookEndpoint(ctx context.Context, id string) error {
	const (
		ofEndpoint = ` (
			SELECT id
			FROM webhook_deliveries
			WHERE endpoint_id = $1
		)`
		jobs       = `DELETE FROM jobs WHERE kind = 'webhook' AND subject_id IN` + ofEndpoint
		deliveries = `DELETE FROM webhook_deliveries WHERE endpoint_id = $1`
		endpoint   = `DELETE FROM webhook_endpoints WHERE id = $1`
	)
	if err := tx.exec(ctx, journal.Unpublished, "jobs", jobs, id); err != nil {
		return err
	}
	if err := tx.exec(ctx, journal.Unpublished, "webhook deliveries", deliveries, id); err != nil {
		return err
	}
	return tx.write(ctx, journal.Unpublished, "webhook endpoint", endpoint, id)
}
