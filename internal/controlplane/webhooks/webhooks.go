// Package webhooks implements the control plane's routes of webhook endpoints and their
// deliveries, and sends the deliveries.
//
// It guarantees that an event is sent until its endpoint has received it or a day of
// attempts is over, over restarts and by any node; after a crash it may be sent again,
// with the same id. Requests go only to addresses that the rules of the gateway and the
// egress policies allow. A secret is shown once and stored sealed. It does not decide
// which events there are: whatever ends emits one with [store.Tx.EmitEvent]. How messages
// are signed is in [modelgate/internal/base/webhook].
package webhooks

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/base/webhook"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
	"modelgate/internal/upstream"
)

// maxEndpoints is the limit of endpoints of a workspace.
const maxEndpoints = 20

// Routes are the routes of webhooks.
type Routes struct {
	// Sender sends test events and decides about addresses. If nil, there are no tests,
	// and only public hosts are allowed.
	Sender *Sender

	// Queued is called when a delivery was queued again. If nil, nodes find it by looking.
	Queued func()
}

// family has the routes with what all families have.
type family struct {
	Routes
	api *route.API
}

// Add adds the routes. Paths and objects of endpoints are those of OpenAI's API, whose
// client libraries call them.
// https://platform.openai.com/docs/api-reference/webhook-endpoints
func (r Routes) Add(a *route.API) {
	const one, delivery = "/{endpoint}", "/{endpoint}/deliveries/{delivery}"
	f := family{r, a}
	e := route.Family{Path: "/webhook_endpoints", Tag: "Webhooks", Scopes: []string{"webhooks"}, Resource: "webhook_endpoint", Versioned: true}
	route.Add(a, e.Route(http.MethodPost, "", "create-webhook-endpoint", "create",
		"Create a webhook endpoint; its secret is shown only once"), f.create)
	route.Add(a, e.Route(http.MethodGet, "", "list-webhook-endpoints", "list", "List webhook endpoints"), list)
	route.Add(a, e.Route(http.MethodGet, one, "get-webhook-endpoint", "read", "Read a webhook endpoint"), get)
	route.Add(a, e.Route(http.MethodPut, one, "update-webhook-endpoint", "update", "Change a webhook endpoint"), f.update)
	route.Add(a, e.Route(http.MethodPost, one, "modify-webhook-endpoint", "update",
		"Change a webhook endpoint, as OpenAI's clients do"), f.update)
	route.Add(a, e.Route(http.MethodDelete, one, "delete-webhook-endpoint", "delete", "Delete a webhook endpoint with its deliveries"), remove)
	route.Add(a, e.Route(http.MethodPost, one+"/rotate_secret", "rotate-webhook-secret", "update",
		"Replace the secret of a webhook endpoint; the new one is shown only once"), f.rotate)
	route.Add(a, e.Route(http.MethodPost, one+"/test", "test-webhook-endpoint", "update", "Send a sample event to a webhook endpoint"), f.test)
	route.Add(a, e.Route(http.MethodGet, one+"/deliveries", "list-webhook-deliveries", "list",
		"List what was sent to a webhook endpoint"), deliveries)
	route.Add(a, e.Route(http.MethodGet, delivery, "get-webhook-delivery", "read", "Read a delivery with its payload"), getDelivery)
	route.Add(a, e.Route(http.MethodPost, delivery+"/retry", "retry-webhook-delivery", "update", "Send a failed delivery again"), f.retry)
	t := route.Family{Path: "/webhook_event_types", Tag: "Webhooks", Scopes: []string{"webhooks"}}
	route.Add(a, t.Route(http.MethodGet, "", "list-webhook-event-types", "list", "List the types of events"), eventTypes)
}

// Item is an endpoint in a response. Times in seconds are those of OpenAI's API.
type Item struct {
	ID           string     `json:"id"`
	Object       string     `json:"object"`
	Organisation string     `json:"organisation_id"`
	Workspace    string     `json:"workspace_id"`
	Name         string     `json:"name"`
	Description  string     `json:"description"`
	URL          string     `json:"url"`
	Types        []string   `json:"event_types"`
	Format       string     `json:"format" enum:"event,slack,teams"`
	Status       string     `json:"status" enum:"enabled,disabled"`
	Reason       *string    `json:"disabled_reason" doc:"Why the gateway disabled it; null if a user did"`
	Hint         string     `json:"signing_secret_hint" doc:"End of the secret"`
	RotationEnds route.Time `json:"rotation_ends_at" doc:"Until when the previous secret also signs; null without one"`
	CreatedBy    string     `json:"created_by"`
	CreatedAt    int64      `json:"created_at" doc:"Unix time in seconds"`
	ChangedAt    int64      `json:"updated_at" doc:"Unix time in seconds"`
	UpdatedAt    route.Time `json:"last_updated_at"`
}

// formatEvent is the format of an endpoint that receives events as they are.
const formatEvent = "event"

// setFormat sets the format of an endpoint, which the route has checked; empty changes nothing.
func setFormat(e *store.WebhookEndpoint, format string) {
	if format != "" {
		e.Format = strings.TrimPrefix(format, formatEvent)
	}
}

// Created is an endpoint with its secret.
type Created struct {
	Item
	Secret string `json:"signing_secret" doc:"Shown only once"`
}

func toResponse(e store.WebhookEndpoint) Item {
	return Item{
		ID: e.ID, Object: "webhook_endpoint", Organisation: e.Organisation, Workspace: e.Workspace, Name: e.Name, Description: e.Description,
		URL: e.URL, Types: append([]string{}, e.Types...), Format: cmp.Or(e.Format, formatEvent), Status: e.Status,
		Reason: route.OrNull(e.Reason), Hint: e.Hint,
		RotationEnds: route.Time(e.PreviousUntil), CreatedBy: e.CreatedBy, CreatedAt: e.CreatedAt.Unix(), ChangedAt: e.UpdatedAt.Unix(),
		UpdatedAt: route.Time(e.UpdatedAt),
	}
}

type createInput struct {
	Body struct {
		Name        string   `json:"name" minLength:"1" maxLength:"255"`
		URL         string   `json:"url" minLength:"1" maxLength:"2048" doc:"Where events are posted; https, unless the host is in upstream.trusted_hosts"`
		Types       []string `json:"event_types" nullable:"false" minItems:"1" maxItems:"100" doc:"See GET /webhook_event_types"`
		Description string   `json:"description,omitempty" maxLength:"1024"`
		Format      string   `json:"format,omitempty" enum:"event,slack,teams" default:"event" doc:"Form of what is posted: the signed event, or a message for a channel of Slack or Teams"`
		Status      string   `json:"status,omitempty" enum:"enabled,disabled" default:"enabled"`
		Workspace   string   `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug; required for organisation keys"`
	}
}

func (f family) create(ctx context.Context, c *route.Caller, in *createInput) (*Created, error) {
	b := &in.Body
	w, err := c.InWorkspace(ctx, b.Workspace)
	if err != nil {
		return nil, err
	}
	e := store.WebhookEndpoint{
		ID: store.NewWebhookID("we_", c.Now), Organisation: w.Organisation, Workspace: w.ID, Name: b.Name, Description: b.Description,
		Status: store.WebhookEnabled, CreatedBy: c.Actor(), CreatedAt: c.Now, UpdatedAt: c.Now,
	}
	if b.Status != "" {
		e.Status = b.Status
	}
	setFormat(&e, b.Format)
	if err := f.setURL(&e, b.URL); err != nil {
		return nil, err
	}
	if err := setTypes(&e, b.Types); err != nil {
		return nil, err
	}
	s, err := f.setSecret(ctx, &e)
	if err != nil {
		return nil, err
	}
	c.SetAuditSubject(w.ID, e.ID)
	err = c.Change(ctx, func(tx *store.Tx) error {
		n, err := tx.CountWebhookEndpoints(ctx, w.ID)
		if err == nil && n >= maxEndpoints {
			err = apierr.New(apierr.Conflict, "a workspace can have %d webhook endpoints; delete one first", maxEndpoints).WithParam("workspace_id")
		}
		if err != nil {
			return err
		}
		return tx.CreateWebhookEndpoint(ctx, e)
	})
	if err != nil {
		return nil, err
	}
	return &Created{toResponse(e), s.Reveal()}, nil
}

// setURL checks the address of an endpoint and sets it.
func (f family) setURL(e *store.WebhookEndpoint, raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
		return route.Invalid("url", "must be an https address, such as https://example.com/webhook")
	case u.User != nil:
		return route.Invalid("url", "must not contain a user or a password")
	case u.Fragment != "" || strings.Contains(raw, "#"):
		return route.Invalid("url", "must not have a fragment")
	}
	check := f.api.CheckHost
	if check == nil {
		check = upstream.New(upstream.Options{}).CheckHost
	}
	base := *u
	base.RawQuery, base.ForceQuery = "", false // a custom host has none, but a webhook may
	if _, err := check(base.String()); err != nil {
		return route.Invalid("url", "is not allowed: %s", err.Error())
	}
	if err := f.Sender.checkDestination(e.Organisation, e.Workspace, u); err != nil {
		return route.Invalid("url", "is not allowed: %s", err.Error())
	}
	e.URL = u.String()
	return nil
}

// setTypes sets the types of events that an endpoint receives, each once.
func setTypes(e *store.WebhookEndpoint, types []string) error {
	e.Types = nil
	for _, t := range types {
		if !slices.Contains(store.EventTypes, t) {
			return route.Invalid("event_types", "contains %.60q, which is not sent; use some of: %s", t, strings.Join(store.EventTypes, ", "))
		}
		if !slices.Contains(e.Types, t) {
			e.Types = append(e.Types, t)
		}
	}
	return nil
}

// hintLength is the number of characters of a secret that are shown.
const hintLength = 4

// setSecret gives an endpoint a new secret.
func (f family) setSecret(ctx context.Context, e *store.WebhookEndpoint) (secret.String, error) {
	if f.api.Secrets == nil {
		return secret.String{}, apierr.New(apierr.Unavailable, "this gateway has no master key to store secrets with; set MODELGATE_MASTER_KEY")
	}
	s := webhook.NewSecret()
	sealed, err := f.api.Secrets.Seal(ctx, e.Organisation, s)
	if err != nil {
		return secret.String{}, err
	}
	text := s.Reveal()
	e.Sealed, e.Hint = sealed, "…"+text[len(text)-hintLength:]
	return s, nil
}

type listInput struct {
	Workspace string `query:"workspace_id" maxLength:"255" doc:"Id or slug"`
	After     string `query:"after" maxLength:"64" doc:"Id of the last endpoint of the previous page, instead of current_page"`
	route.Paging
}

func list(ctx context.Context, c *route.Caller, in *listInput) (*route.List[Item], error) {
	workspace, err := c.VisibleWorkspace(ctx, in.Workspace)
	if err != nil {
		return nil, err
	}
	found, total, err := c.DB().WebhookEndpoints(ctx, c.Organisation, workspace, in.After, in.Rows())
	return route.Listing(found, total, err, toResponse)
}

// Named identifies an endpoint in a request. It is exported because the OpenAPI generator
// does not see embedded unexported fields.
type Named struct {
	Endpoint  string `path:"endpoint" maxLength:"64"`
	Workspace string `query:"workspace_id" maxLength:"255" doc:"Id or slug"`
}

func get(ctx context.Context, c *route.Caller, in *Named) (*Item, error) {
	e, err := find(ctx, c, *in)
	return route.ItemOf(e, err, toResponse)
}

// find returns the endpoint that a request names, if the caller may see it.
func find(ctx context.Context, c *route.Caller, in Named) (store.WebhookEndpoint, error) {
	workspace, err := c.VisibleWorkspace(ctx, in.Workspace)
	if err != nil {
		return store.WebhookEndpoint{}, err
	}
	e, err := c.DB().WebhookEndpoint(ctx, c.Organisation, workspace, in.Endpoint)
	return e, c.CheckFound(e.Workspace, e.ID, err, route.NotFound("endpoint", "webhook endpoint", in.Endpoint))
}

type updateInput struct {
	Named
	Body struct {
		Name        route.Optional[string]   `json:"name,omitempty"`
		URL         route.Optional[string]   `json:"url,omitempty"`
		Types       route.Optional[[]string] `json:"event_types,omitempty"`
		Description route.Optional[string]   `json:"description,omitempty"`
		Format      string                   `json:"format,omitempty" enum:"event,slack,teams" doc:"Also of deliveries that are still to be sent"`
		Status      string                   `json:"status,omitempty" enum:"enabled,disabled" doc:"Enabling an endpoint sends what is emitted from then on"`
	}
}

func (f family) update(ctx context.Context, c *route.Caller, in *updateInput) (*Item, error) {
	e, err := find(ctx, c, in.Named)
	if err != nil {
		return nil, err
	}
	c.SetAuditAction("update", e.ID)
	b := &in.Body
	e.Name, e.Description = b.Name.Or(e.Name), b.Description.Or(e.Description)
	if err := route.CheckLength("name", e.Name, 1, 255); err != nil {
		return nil, err
	}
	if err := route.CheckLength("description", e.Description, 0, 1024); err != nil {
		return nil, err
	}
	if b.URL.Set {
		if err := route.CheckLength("url", b.URL.Value, 1, 2048); err != nil {
			return nil, err
		}
		if err := f.setURL(&e, b.URL.Value); err != nil {
			return nil, err
		}
	}
	if b.Types.Set {
		if len(b.Types.Value) == 0 {
			return nil, route.Invalid("event_types", "must name at least one type")
		}
		if err := setTypes(&e, b.Types.Value); err != nil {
			return nil, err
		}
	}
	setFormat(&e, b.Format)
	if b.Status != "" {
		e.Status, e.Reason = b.Status, ""
	}
	read := e.UpdatedAt
	e.UpdatedAt = c.NextUpdateTime(read)
	err = change(ctx, c, e, read, func(tx *store.Tx) error { return tx.UpdateWebhookEndpoint(ctx, e) })
	return route.ItemOf(e, err, toResponse)
}

// change runs f unless the endpoint was changed after the request read it.
func change(ctx context.Context, c *route.Caller, e store.WebhookEndpoint, read time.Time, f func(*store.Tx) error) error {
	return c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.WebhookEndpoint(ctx, e.Organisation, e.Workspace, e.ID)
		if err := c.CheckIfMatch(read, now.UpdatedAt, err); err != nil {
			return err
		}
		return f(tx)
	})
}

// Deleted is the response to deleting an endpoint.
type Deleted struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}

func remove(ctx context.Context, c *route.Caller, in *Named) (*Deleted, error) {
	e, err := find(ctx, c, *in)
	if err != nil {
		return nil, err
	}
	err = change(ctx, c, e, e.UpdatedAt, func(tx *store.Tx) error { return tx.DeleteWebhookEndpoint(ctx, e.ID) })
	if err != nil {
		return nil, err
	}
	return &Deleted{e.ID, "webhook_endpoint.deleted", true}, nil
}

// rotationTime is how long the previous secret signs after a rotation that keeps it.
const rotationTime = 24 * time.Hour

type rotateInput struct {
	Named
	Body *struct {
		Keep bool `json:"keep_old_secret_active_for_24_hours,omitempty" doc:"Sign with both secrets for a day; otherwise only with the new one"`
	}
}

func (f family) rotate(ctx context.Context, c *route.Caller, in *rotateInput) (*Created, error) {
	e, err := find(ctx, c, in.Named)
	if err != nil {
		return nil, err
	}
	c.SetAuditAction("rotate", e.ID)
	previous, read := e.Sealed, e.UpdatedAt
	s, err := f.setSecret(ctx, &e)
	if err != nil {
		return nil, err
	}
	if e.Previous, e.PreviousUntil = "", (time.Time{}); in.Body != nil && in.Body.Keep {
		e.Previous, e.PreviousUntil = previous, c.Now.Add(rotationTime)
	}
	e.UpdatedAt = c.NextUpdateTime(read)
	if err := change(ctx, c, e, read, func(tx *store.Tx) error { return tx.UpdateWebhookEndpoint(ctx, e) }); err != nil {
		return nil, err
	}
	return &Created{toResponse(e), s.Reveal()}, nil
}

type typesInput struct{ route.LongPaging }

func eventTypes(_ context.Context, _ *route.Caller, in *typesInput) (*route.List[string], error) {
	return route.PageOf(store.EventTypes, in.LongPaging, nil, func(t string) string { return t })
}
