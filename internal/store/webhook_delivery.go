package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// JobWebhook is the kind of jobs that send events to endpoints. The subject is the
// delivery.
const JobWebhook = "webhook"

// EventTypes are the types of events that endpoints may receive.
var EventTypes = []string{
	"batch.completed", "batch.failed", "batch.expired", "batch.cancelled",
	"response.completed", "response.failed", "response.cancelled", "response.incomplete",
	"fine_tuning.job.succeeded", "fine_tuning.job.failed", "fine_tuning.job.cancelled",
}

// Event is something that happened to an object of a workspace.
type Event struct {
	Organisation string
	Workspace    string // id
	Type         string // one of [EventTypes]
	Object       string // id, as clients know it; a type of event happens to an object once

	Time time.Time // when it is emitted; zero is now
}

// Payload is an event as receivers read it.
// https://platform.openai.com/docs/api-reference/webhook-events
type Payload struct {
	ID      string      `json:"id"`
	Object  string      `json:"object"`
	Type    string      `json:"type"`
	Created int64       `json:"created_at"` // seconds
	Data    PayloadData `json:"data"`
}

// PayloadData says what an event is about. Names are those at the time of the event.
type PayloadData struct {
	ID               string `json:"id"`
	Organisation     string `json:"organisation_id,omitempty"`
	OrganisationName string `json:"organisation_name,omitempty"`
	Workspace        string `json:"workspace_id,omitempty"`
	WorkspaceName    string `json:"workspace_name,omitempty"`
}

// Payload returns what receivers of the event read, with an id for the event.
func (q Queries) Payload(ctx context.Context, e *Event, id string) (json.RawMessage, error) {
	d := PayloadData{ID: e.Object, Organisation: e.Organisation, Workspace: e.Workspace}
	o, err := q.Organisation(ctx, e.Organisation)
	if err == nil {
		d.OrganisationName = o.Name
		var w Workspace
		w, err = q.Workspace(ctx, e.Organisation, e.Workspace)
		d.WorkspaceName = w.Name
	}
	if err != nil && !apierr.IsNotFound(err) {
		return nil, err
	}
	return json.Marshal(Payload{id, "event", e.Type, e.Time.Unix(), d})
}

// States of a [WebhookDelivery]. A failed one is not sent again unless somebody asks.
const (
	DeliveryPending = "pending"
	DeliveryDone    = "delivered"
	DeliveryFailed  = "failed"
)

// WebhookDelivery is an event on its way to an endpoint.
type WebhookDelivery struct {
	ID           string // identifies the message, over all attempts
	Endpoint     string // id
	Organisation string
	Workspace    string // id
	Event        string // id; the same for all endpoints
	Type         string // of the event
	Object       string // id
	Payload      json.RawMessage

	State      string
	Attempts   int64
	StatusCode int64     // of the last response; zero for none
	Failure    string    // of the last attempt, without secrets
	NextAt     time.Time // of the next attempt; zero for none
	CreatedAt  time.Time
	TriedAt    time.Time // of the last attempt
	EndedAt    time.Time
}

var webhookDeliveryTable = table[WebhookDelivery]{
	name: "webhook_deliveries", row: "webhook delivery", order: "id DESC",
	columns: func(d *WebhookDelivery) []column {
		return []column{
			{"id", &d.ID}, {"endpoint_id", &d.Endpoint}, {"organisation_id", &d.Organisation}, {"workspace_id", &d.Workspace},
			{"event_id", &d.Event}, {"event_type", &d.Type}, {"object_id", &d.Object}, {"payload", object(&d.Payload)}, {"state", &d.State},
			{"attempts", &d.Attempts}, {"status_code", &d.StatusCode}, {"failure", &d.Failure}, {"next_at", &d.NextAt},
			{"created_at", &d.CreatedAt}, {"tried_at", &d.TriedAt}, {"ended_at", &d.EndedAt},
		}
	},
}

// NewWebhookID returns a new id with a prefix, such as we_.
func NewWebhookID(prefix string, now time.Time) string {
	return prefix + strings.ReplaceAll(reqlog.NewID(now).String(), "-", "")
}

// EmitEvent stores a delivery of an event, and the job that sends it, for each enabled
// endpoint of the workspace that receives its type. An event that an endpoint has got
// before, by its type and object, is not sent to it again.
func (tx *Tx) EmitEvent(ctx context.Context, e Event) error {
	if !slices.Contains(EventTypes, e.Type) || e.Workspace == "" || e.Object == "" {
		return fmt.Errorf("emitting an event: the type %q, the workspace %q or the object %q is invalid", e.Type, e.Workspace, e.Object)
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	list, err := tx.endpointsFor(ctx, e.Organisation, e.Workspace, e.Type)
	if err != nil || len(list) == 0 {
		return err
	}
	id := NewWebhookID("evt_", e.Time)
	payload, err := tx.Payload(ctx, &e, id)
	if err != nil {
		return fmt.Errorf("emitting an event: %w", err)
	}
	for i := range list {
		d := WebhookDelivery{
			ID: NewWebhookID("msg_", e.Time), Endpoint: list[i].ID, Organisation: e.Organisation, Workspace: e.Workspace,
			Event: id, Type: e.Type, Object: e.Object, Payload: payload, State: DeliveryPending, NextAt: e.Time, CreatedAt: e.Time,
		}
		if err := tx.addDelivery(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// addDelivery stores a delivery and its job, unless the endpoint has got the event.
func (tx *Tx) addDelivery(ctx context.Context, d WebhookDelivery) error {
	text := webhookDeliveryTable.insertion() + ` ON CONFLICT (endpoint_id, event_type, object_id) DO NOTHING`
	n, err := tx.change.Exec(ctx, journal.Unpublished, text, values(webhookDeliveryTable.columns(&d))...)
	if err != nil {
		return fmt.Errorf("writing a webhook delivery: %w", err)
	}
	if n == 0 {
		return nil
	}
	return tx.AddJob(ctx, Job{
		ID: reqlog.NewID(d.CreatedAt).String(), Kind: JobWebhook, Subject: d.ID, Organisation: d.Organisation, Workspace: d.Workspace,
		NextAt: d.NextAt, CreatedAt: d.CreatedAt,
	})
}

// WebhookDeliveryQuery filters the deliveries of an endpoint. Empty fields filter nothing,
// except for Endpoint.
type WebhookDeliveryQuery struct {
	Endpoint    string
	State, Type string
}

// WebhookDeliveries returns a page of deliveries, newest first, and the number of all
// matches.
func (q Queries) WebhookDeliveries(ctx context.Context, x WebhookDeliveryQuery, p Page) (list []WebhookDelivery, total int, err error) {
	return webhookDeliveryTable.page(ctx, q.Reader, p, `
		WHERE endpoint_id = $1 AND ($2 = '' OR state = $2) AND ($3 = '' OR event_type = $3)`, x.Endpoint, x.State, x.Type)
}

// WebhookDelivery returns the delivery with this id.
func (q Queries) WebhookDelivery(ctx context.Context, id string) (WebhookDelivery, error) {
	return webhookDeliveryTable.one(ctx, q.Reader, `
		WHERE id = $1`, id)
}

// RecordWebhookAttempt stores the result of an attempt; the state follows that of the job.
// Status is zero if there was no response. If the delivery was deleted, it is not found.
func (tx *Tx) RecordWebhookAttempt(ctx context.Context, id string, status int, failure string, now time.Time) error {
	const text = `
		UPDATE webhook_deliveries
		SET attempts = attempts + 1, status_code = $2, failure = $3, tried_at = $4
		WHERE id = $1`
	return tx.write(ctx, journal.Unpublished, "webhook delivery", text, id, status, failure, millis(now))
}

// followWebhook writes the state of its job to a delivery.
func followWebhook(ctx context.Context, tx *Tx, j *Job) error {
	const text = `
		UPDATE webhook_deliveries
		SET state = $2, failure = $3, next_at = $4, ended_at = $5
		WHERE id = $1`
	state, failure := "", j.Failure
	switch j.State {
	case JobQueued:
		state = DeliveryPending
	case JobDone:
		state, failure = DeliveryDone, ""
	case JobFailed, JobDead:
		state = DeliveryFailed
	case JobCancelled:
		state, failure = DeliveryFailed, "it was cancelled"
	default: // the attempt is in progress
		return nil
	}
	return tx.exec(ctx, journal.Unpublished, "webhook deliveries", text, j.Subject, state, failure, millis(j.NextAt), millis(j.EndedAt))
}

// prunedAtOnce is the number of deliveries that are deleted in one transaction, for which
// other changes wait.
const prunedAtOnce = 500

// PruneWebhookDeliveries deletes deliveries from before a time, except for those that are
// still to be sent, and returns their number. It makes no revision.
func (db *DB) PruneWebhookDeliveries(ctx context.Context, before time.Time) (pruned int, err error) {
	const (
		old = `
		SELECT id
		FROM webhook_deliveries
		WHERE created_at < $1 AND state <> 'pending'
		ORDER BY created_at
		LIMIT $2`
		deliveries = `DELETE FROM webhook_deliveries WHERE id IN `
		jobs       = `DELETE FROM jobs WHERE kind = 'webhook' AND subject_id IN `
	)
	if !db.ready.Load() {
		return 0, unavailableError(nil)
	}
	for {
		ids, err := sqlrow.List(ctx, db.read, "webhook deliveries", old, func(r sqlrow.Scanner) (id string, err error) {
			return id, r.Scan(&id)
		}, before.UnixMilli(), prunedAtOnce)
		if err != nil || len(ids) == 0 {
			return pruned, db.ClientError(err)
		}
		in := placeholders(0, len(ids))
		err = db.transact(ctx, func(tx *Tx) error {
			if err := tx.exec(ctx, journal.Unpublished, "jobs", jobs+in, toArgs(ids)...); err != nil {
				return err
			}
			return tx.exec(ctx, journal.Unpublished, "webhook deliveries", deliveries+in, toArgs(ids)...)
		})
		if err != nil {
			return pruned, db.ClientError(err)
		}
		pruned += len(ids)
	}
}
