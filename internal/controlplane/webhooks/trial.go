package webhooks

import (
	"context"
	"slices"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/webhook"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

type testInput struct {
	Named
	Body struct {
		Type string `json:"event_type" maxLength:"64" doc:"See GET /webhook_event_types; the endpoint need not receive it otherwise"`
	}
}

// TestResult is the result of sending a sample event.
type TestResult struct {
	Object   string  `json:"object"`
	Endpoint string  `json:"webhook_endpoint_id"`
	Type     string  `json:"event_type"`
	Success  bool    `json:"success" doc:"Whether there was a response; see status_code"`
	Status   *int    `json:"status_code" doc:"Null without a response"`
	Error    *string `json:"error" doc:"Why the event counts as not received"`
}

// test sends a sample event once, also to a disabled endpoint. It is not among the
// deliveries.
func (f family) test(ctx context.Context, c *route.Caller, in *testInput) (*TestResult, error) {
	e, err := find(ctx, c, in.Named)
	if err != nil {
		return nil, err
	}
	c.SetAuditAction("test", e.ID)
	if !slices.Contains(store.EventTypes, in.Body.Type) {
		return nil, route.Invalid("event_type", "is not a type of events; GET /webhook_event_types lists them")
	}
	if f.Sender == nil {
		return nil, apierr.New(apierr.Unavailable, "this gateway does not send webhooks")
	}
	sample := store.Event{Organisation: e.Organisation, Workspace: e.Workspace, Type: in.Body.Type, Object: "sample", Time: c.Now}
	body, err := c.DB().Payload(ctx, &sample, store.NewWebhookID("evt_", c.Now))
	if err != nil {
		return nil, err
	}
	status, _, failed := f.Sender.send(ctx, &e, webhook.Message{ID: store.NewWebhookID("msg_", c.Now), Body: body})
	if failed != nil && apierr.From(failed).Kind == apierr.Internal {
		return nil, failed
	}
	out := &TestResult{Object: "webhook_endpoint.test", Endpoint: e.ID, Type: in.Body.Type, Success: status != 0}
	if status != 0 {
		out.Status = &status
	}
	if failed != nil {
		out.Error = route.OrNull(apierr.From(failed).Message)
	}
	return out, nil
}
