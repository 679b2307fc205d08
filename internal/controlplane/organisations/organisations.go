// Package organisations implements the control plane's routes for an organisation's
// settings.
//
// It guarantees that a caller reads and changes only their own organisation, that a
// change affects only what it names, and that a rejected change has no effect. It does
// not define permissions (see access), apply settings (see the packages that use them)
// or store rows (see store).
package organisations

import (
	"context"
	"net/http"
	"net/url"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
	"modelgate/internal/upstream"
)

// Routes are the routes of organisations.
type Routes struct {
	Retention route.Retention // as displayed
}

// Add adds the routes.
func (o Routes) Add(a *route.API) {
	f := &family{o.Retention, a.Off, a.CheckHost}
	if f.checkHost == nil {
		f.checkHost = upstream.New(upstream.Options{}).CheckHost
	}
	r := route.Family{Path: "/admin/organisation", Also: "/organisation", Tag: "Organisation",
		Scopes: []string{"organisation_settings"}, Resource: "organisation", Versioned: true}
	route.Add(a, r.Route(http.MethodGet, "", "get-organisation", "read", "Read the organisation with its settings"), f.get)
	route.Add(a, r.Route(http.MethodPut, "", "update-organisation", "update", "Change the organisation and its settings"), f.update)
	route.Add(a, r.Route(http.MethodGet, "/defaults", "get-organisation-defaults", "read",
		"Get the organisation's request defaults"), defaults)
	route.Add(a, r.Route(http.MethodPut, "/defaults", "update-organisation-defaults", "update",
		"Change the organisation's request defaults"), updateDefaults)
	addExclusions(a)
}

// family holds what the operator of the installation has configured at startup.
type family struct {
	retention route.Retention
	off       route.DisabledFeatures
	checkHost func(raw string) (*url.URL, error)
}

// Item is an organisation in a response.
type Item struct {
	ID        string          `json:"id"`
	Slug      string          `json:"slug"`
	Name      string          `json:"name"`
	Owner     *string         `json:"owner_id" doc:"Null until a user claims the organisation"`
	Status    string          `json:"status"`
	Settings  Settings        `json:"settings"`
	Features  map[string]bool `json:"features" doc:"Whether each feature is enabled, by the environment variable that disables it"`
	Logs      int             `json:"log_retention_display" doc:"Days; shown, not enforced"`
	Metrics   int             `json:"metrics_retention_display" doc:"Days; shown, not enforced"`
	CreatedAt route.Time      `json:"created_at"`
	UpdatedAt route.Time      `json:"last_updated_at"`
	Object    string          `json:"object"`
}

func (f *family) get(ctx context.Context, c *route.Caller, _ *struct{}) (*Item, error) {
	o, err := c.DB().Organisation(ctx, c.Organisation)
	if err != nil {
		return nil, err
	}
	out := &Item{
		ID: o.ID, Slug: o.Slug, Name: o.Name, Status: o.Status, Settings: toResponse(&o.Settings), Features: make(map[string]bool),
		Logs: f.retention.Logs, Metrics: f.retention.Metrics,
		CreatedAt: route.Time(o.CreatedAt), UpdatedAt: route.Time(o.UpdatedAt), Object: "organisation",
	}
	if o.OwnerID != "" {
		out.Owner = &o.OwnerID
	}
	for _, feature := range route.Features {
		out.Features[string(feature)] = !f.off[feature]
	}
	return out, nil
}

// Put stores o, which a file describes. The caller checks default guardrails at the end of its
// change, see [route.CheckGuardDefaults].
func Put(ctx context.Context, c *route.Caller, o store.Organisation) error {
	o.UpdatedAt = c.NextUpdateTime(o.UpdatedAt)
	return c.Change(ctx, func(tx *store.Tx) error {
		before, err := tx.Organisation(ctx, o.ID)
		if err == nil {
			err = checkSignIn(c, before.Settings, o.Settings)
		}
		if err == nil {
			err = setSignIn(ctx, tx, before.Settings, &o)
		}
		if err != nil {
			return err
		}
		return tx.UpdateOrganisation(ctx, o)
	})
}

// change runs f on the current state of the caller's organisation and stores the
// result.
func change(ctx context.Context, c *route.Caller, f func(*store.Tx, *store.Organisation) error) (*route.Empty, error) {
	c.SetAuditSubject("", c.Organisation)
	err := c.Change(ctx, func(tx *store.Tx) error {
		o, err := tx.Organisation(ctx, c.Organisation)
		if err := c.CheckIfMatch(o.UpdatedAt, o.UpdatedAt, err); err != nil {
			return err
		}
		if err := f(tx, &o); err != nil {
			return err
		}
		o.UpdatedAt = c.NextUpdateTime(o.UpdatedAt)
		if err := tx.UpdateOrganisation(ctx, o); err != nil {
			return err
		}
		return route.CheckGuardDefaults(ctx, tx.Queries, c.Guardrails(), o.ID)
	})
	return &route.Empty{}, err
}
