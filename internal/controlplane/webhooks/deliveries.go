package webhooks

import (
	"context"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
	"modelgate/internal/store/jobs"
)

// Delivery is an event on its way to an endpoint, in a response.
type Delivery struct {
	ID        string     `json:"id" doc:"webhook-id of all its attempts"`
	Object    string     `json:"object"`
	Endpoint  string     `json:"webhook_endpoint_id"`
	Event     string     `json:"event_id"`
	Type      string     `json:"event_type"`
	ObjectID  string     `json:"object_id" doc:"Id of what the event is about"`
	State     string     `json:"state" enum:"pending,delivered,failed"`
	Attempts  int64      `json:"attempts"`
	Status    *int64     `json:"last_status_code" doc:"Null if the last attempt had no response"`
	Error     *string    `json:"last_error" doc:"Why the last attempt failed"`
	NextAt    route.Time `json:"next_try_at" doc:"Null if none follows"`
	CreatedAt route.Time `json:"created_at"`
	TriedAt   route.Time `json:"last_tried_at"`
	EndedAt   route.Time `json:"ended_at"`
}

// DeliveryWithPayload is a delivery with what the endpoint receives.
type DeliveryWithPayload struct {
	Delivery
	Payload route.JSON `json:"payload"`
}

func toDelivery(d store.WebhookDelivery) Delivery {
	out := Delivery{
		ID: d.ID, Object: "webhook_delivery", Endpoint: d.Endpoint, Event: d.Event, Type: d.Type, ObjectID: d.Object, State: d.State,
		Attempts: d.Attempts, Error: route.OrNull(d.Failure), NextAt: route.Time(d.NextAt), CreatedAt: route.Time(d.CreatedAt),
		TriedAt: route.Time(d.TriedAt), EndedAt: route.Time(d.EndedAt),
	}
	if d.StatusCode != 0 {
		out.Status = &d.StatusCode
	}
	return out
}

func withPayload(d store.WebhookDelivery) DeliveryWithPayload {
	return DeliveryWithPayload{toDelivery(d), route.JSON(d.Payload)}
}

type deliveriesInput struct {
	Named
	State string `query:"state" enum:"pending,delivered,failed"`
	Type  string `query:"type" maxLength:"64" doc:"Of the event"`
	route.Paging
}

func deliveries(ctx context.Context, c *route.Caller, in *deliveriesInput) (*route.List[Delivery], error) {
	e, err := find(ctx, c, in.Named)
	if err != nil {
		return nil, err
	}
	q := store.WebhookDeliveryQuery{Endpoint: e.ID, State: in.State, Type: in.Type}
	found, total, err := c.DB().WebhookDeliveries(ctx, q, in.Rows())
	return route.Listing(found, total, err, toDelivery)
}

// NamedDelivery identifies a delivery in a request; see [Named].
type NamedDelivery struct {
	Named
	Delivery string `path:"delivery" maxLength:"64"`
}

func getDelivery(ctx context.Context, c *route.Caller, in *NamedDelivery) (*DeliveryWithPayload, error) {
	_, d, err := findDelivery(ctx, c, in)
	return route.ItemOf(d, err, withPayload)
}

// findDelivery returns the delivery that a request names and its endpoint, if the caller
// may see them.
func findDelivery(ctx context.Context, c *route.Caller, in *NamedDelivery) (e store.WebhookEndpoint, d store.WebhookDelivery, err error) {
	e, err = find(ctx, c, in.Named)
	if err != nil {
		return e, d, err
	}
	d, err = c.DB().WebhookDelivery(ctx, in.Delivery)
	none := route.NotFound("delivery", "delivery", in.Delivery)
	if err == nil && d.Endpoint != e.ID {
		return e, store.WebhookDelivery{}, none
	}
	return e, d, c.CheckFound(e.Workspace, d.ID, err, none)
}

// retry queues a failed delivery again, with all its attempts.
func (f family) retry(ctx context.Context, c *route.Caller, in *NamedDelivery) (*Delivery, error) {
	e, d, err := findDelivery(ctx, c, in)
	if err != nil {
		return nil, err
	}
	c.SetAuditAction("retry", d.ID)
	switch {
	case e.Status != store.WebhookEnabled:
		return nil, apierr.New(apierr.Conflict, "the webhook endpoint is disabled; enable it first")
	case d.State != store.DeliveryFailed:
		return nil, apierr.New(apierr.Conflict, "the delivery is in the state %s; only a failed one can be retried", d.State).
			WithParam("delivery")
	}
	err = c.Change(ctx, func(tx *store.Tx) error {
		err := jobs.Change(ctx, tx,
			func() (store.Job, error) { return tx.JobOf(ctx, store.JobWebhook, d.ID) },
			func(j store.Job) (store.Job, error) { return jobs.Requeue(j, c.Now) })
		if err != nil {
			return err
		}
		d, err = tx.WebhookDelivery(ctx, d.ID)
		return err
	})
	if err == nil && f.Queued != nil {
		f.Queued()
	}
	return route.ItemOf(d, err, toDelivery)
}
