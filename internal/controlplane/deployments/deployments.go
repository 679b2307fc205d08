// Package deployments implements the control plane's routes for gateway deployments.
//
// It guarantees that the secret of a deployment is shown once and stored as a hash, and
// that a deployment names only workspaces of its own organisation. It does not decide
// what a deployment serves, which is the job of the gateway that authenticates as one.
package deployments

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	"modelgate/config"
	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// Add adds the routes of deployments.
func Add(a *route.API) {
	f := route.Family{Path: "/deployments", Tag: "Deployments", Scopes: []string{"deployments"}, Resource: "deployment", Versioned: true}
	route.Add(a, f.Route(http.MethodPost, "", "create-deployment", "create", "Create a deployment; its secret is shown only once"), create)
	route.Add(a, f.Route(http.MethodGet, "", "list-deployments", "list", "List deployments"), list)
	route.Add(a, f.Route(http.MethodGet, "/{deployment}", "get-deployment", "read", "Read a deployment"), get)
	route.Add(a, f.Route(http.MethodPut, "/{deployment}", "update-deployment", "update", "Change a deployment"), update)
	route.Add(a, f.Route(http.MethodDelete, "/{deployment}", "delete-deployment", "delete", "Remove a deployment"), remove)
}

// Auth holds the addresses of a deployment's gateways.
type Auth struct {
	Gateway    string `json:"gateway_base_url,omitempty" maxLength:"2048"`
	MCPGateway string `json:"mcp_gateway_base_url,omitempty" maxLength:"2048"`
}

type createInput struct {
	Body struct {
		Name          string     `json:"name" minLength:"1" maxLength:"255"`
		Type          string     `json:"type,omitempty" enum:"production,non-production" default:"production"`
		Slug          string     `json:"slug,omitempty" minLength:"1" maxLength:"255" pattern:"^[a-zA-Z0-9_-]+$"`
		Config        route.JSON `json:"config,omitempty" doc:"An object; the gateway does not interpret it"`
		AllWorkspaces *bool      `json:"allow_all_workspaces,omitempty" doc:"Defaults to true, or to false if workspaces are given"`
		Workspaces    []string   `json:"workspaces,omitempty" maxItems:"1000" doc:"Ids or slugs"`
		Auth          Auth       `json:"auth_settings,omitempty"`
	}
}

type created struct {
	ID     string `json:"id"`
	Slug   string `json:"slug"`
	Secret string `json:"client_auth" doc:"Shown only once"`
	Object string `json:"object"`
}

func create(ctx context.Context, c *route.Caller, in *createInput) (*created, error) {
	b := &in.Body
	d := store.GatewayDeployment{
		ID: c.NewID(), Organisation: c.Organisation, Slug: b.Slug, Name: b.Name, Type: b.Type, Status: store.Active,
		CreatedAt: c.Now, UpdatedAt: c.Now,
	}
	if d.Slug == "" {
		d.Slug = route.NewSlug("dp", b.Name)
	}
	if d.Type == "" {
		d.Type = store.Production
	}
	err := errors.Join(setConfig(&d, b.Config), setAuth(&d, b.Auth), setWorkspaces(ctx, c, &d, b.AllWorkspaces, b.Workspaces))
	if err != nil {
		return nil, firstOf(err)
	}
	secret := access.NewKey()
	d.ClientHash = access.HashKey(secret.Reveal()).String()
	c.SetAuditSubject("", d.ID)
	if err := c.Change(ctx, func(tx *store.Tx) error { return tx.CreateDeployment(ctx, d) }); err != nil {
		return nil, slugConflict(err, d.Slug)
	}
	return &created{d.ID, d.Slug, secret.Reveal(), "deployment"}, nil
}

// firstOf returns the first error that a client may see.
func firstOf(err error) error {
	if e, ok := errors.AsType[*apierr.Error](err); ok {
		return e
	}
	return err
}

// slugConflict turns a conflict into an error about the slug.
func slugConflict(err error, slug string) error {
	if e, ok := errors.AsType[*apierr.Error](err); ok && e.Kind == apierr.Conflict {
		return apierr.New(apierr.Conflict, "deployment slug %q already exists; choose another", slug).WithParam("slug")
	}
	return err
}

func setConfig(d *store.GatewayDeployment, raw route.JSON) error {
	if raw == nil {
		return nil
	}
	var o map[string]json.RawMessage
	if json.Unmarshal(raw, &o) != nil || o == nil {
		return route.Invalid("config", "must be an object")
	}
	if err := route.CheckExposed("config", raw); err != nil {
		return err
	}
	d.Config = json.RawMessage(raw)
	return nil
}

func setAuth(d *store.GatewayDeployment, a Auth) error {
	for field, address := range map[string]string{"auth_settings.gateway_base_url": a.Gateway,
		"auth_settings.mcp_gateway_base_url": a.MCPGateway} {
		if address == "" {
			continue
		}
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
			return route.Invalid(field, "must be an http or https address without a user")
		}
	}
	raw, err := json.Marshal(a)
	d.AuthSettings = raw
	return err
}

// setWorkspaces limits d to the named workspaces. All is the request's
// allow_all_workspaces, nil if it is not given.
func setWorkspaces(ctx context.Context, c *route.Caller, d *store.GatewayDeployment, all *bool, named []string) (err error) {
	d.Workspaces, d.AllWorkspaces, err = c.ChosenWorkspaces(ctx, "workspaces", all, named)
	return err
}

type item struct {
	ID            string     `json:"id"`
	Name          string     `json:"name"`
	Slug          string     `json:"slug"`
	Type          string     `json:"type"`
	Status        string     `json:"status"`
	Config        route.JSON `json:"config"`
	AllWorkspaces bool       `json:"allow_all_workspaces"`
	Workspaces    []string   `json:"workspaces"`
	Auth          route.JSON `json:"auth_settings"`
	LastSeenAt    route.Time `json:"last_seen_at"`
	CreatedAt     route.Time `json:"created_at"`
	UpdatedAt     route.Time `json:"last_updated_at"`
	Object        string     `json:"object"`
}

func toResponse(d store.GatewayDeployment) item {
	return item{
		ID: d.ID, Name: d.Name, Slug: d.Slug, Type: d.Type, Status: d.Status, Config: route.JSON(config.MaskExposed(d.Config)),
		AllWorkspaces: d.AllWorkspaces, Workspaces: append([]string{}, d.Workspaces...), Auth: route.JSON(d.AuthSettings),
		LastSeenAt: route.Time(d.LastSeenAt), CreatedAt: route.Time(d.CreatedAt), UpdatedAt: route.Time(d.UpdatedAt), Object: "deployment",
	}
}

type listInput struct {
	Type string `query:"type" enum:"production,non-production"`
	route.NamedPaging
}

func list(ctx context.Context, c *route.Caller, in *listInput) (*route.List[item], error) {
	found, total, err := c.DB().Deployments(ctx, c.Organisation, in.Type, in.Rows())
	return route.Listing(found, total, err, toResponse)
}

type oneInput struct {
	Deployment string `path:"deployment" maxLength:"255" doc:"Id or slug"`
}

func get(ctx context.Context, c *route.Caller, in *oneInput) (*item, error) {
	d, err := find(ctx, c, in.Deployment)
	return route.ItemOf(d, err, toResponse)
}

func find(ctx context.Context, c *route.Caller, ref string) (store.GatewayDeployment, error) {
	d, err := c.DB().Deployment(ctx, c.Organisation, ref)
	return d, c.CheckFound("", d.ID, err, route.NotFound("deployment", "deployment", ref))
}

type updateInput struct {
	Deployment string `path:"deployment" maxLength:"255" doc:"Id or slug"`
	Body       struct {
		Name          route.Optional[string]     `json:"name,omitempty"`
		Type          string                     `json:"type,omitempty" enum:"production,non-production"`
		Status        string                     `json:"status,omitempty" enum:"active,inactive"`
		Config        route.Optional[route.JSON] `json:"config,omitempty"`
		AllWorkspaces *bool                      `json:"allow_all_workspaces,omitempty"`
		Workspaces    route.Optional[[]string]   `json:"workspaces,omitempty"`
		Auth          route.Optional[Auth]       `json:"auth_settings,omitempty"`
	}
}

func update(ctx context.Context, c *route.Caller, in *updateInput) (*route.Empty, error) {
	d, err := find(ctx, c, in.Deployment)
	if err != nil {
		return nil, err
	}
	b := &in.Body
	d.Name = b.Name.Or(d.Name)
	if err := route.CheckLength("name", d.Name, 1, 255); err != nil {
		return nil, err
	}
	if b.Type != "" {
		d.Type = b.Type
	}
	if b.Status != "" {
		d.Status = b.Status
	}
	if b.Config.Set {
		d.Config = json.RawMessage("{}")
		err = setConfig(&d, b.Config.Value)
	}
	if b.Auth.Set {
		err = errors.Join(err, setAuth(&d, b.Auth.Value))
	}
	if b.Workspaces.Set || b.AllWorkspaces != nil {
		err = errors.Join(err, setWorkspaces(ctx, c, &d, b.AllWorkspaces, b.Workspaces.Value))
	}
	if err != nil {
		return nil, firstOf(err)
	}
	read := d.UpdatedAt
	d.UpdatedAt = c.NextUpdateTime(read)
	return &route.Empty{}, change(ctx, c, d.ID, read, func(tx *store.Tx) error { return tx.UpdateDeployment(ctx, d) })
}

// change runs f unless the deployment was changed after the request read it.
func change(ctx context.Context, c *route.Caller, id string, read time.Time, f func(*store.Tx) error) error {
	return c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.Deployment(ctx, c.Organisation, id)
		if err := c.CheckIfMatch(read, now.UpdatedAt, err); err != nil {
			return err
		}
		return f(tx)
	})
}

func remove(ctx context.Context, c *route.Caller, in *oneInput) (*route.Empty, error) {
	d, err := find(ctx, c, in.Deployment)
	if err != nil {
		return nil, err
	}
	return &route.Empty{}, Remove(ctx, c, d)
}

// Remove removes a deployment.
func Remove(ctx context.Context, c *route.Caller, d store.GatewayDeployment) error {
	return change(ctx, c, d.ID, d.UpdatedAt, func(tx *store.Tx) error { return tx.DeleteDeployment(ctx, d.ID) })
}

// Put stores d, which a file describes, instead of before; nil is a new deployment.
func Put(ctx context.Context, c *route.Caller, before *store.GatewayDeployment, d store.GatewayDeployment) error {
	var a Auth
	if err := json.Unmarshal(d.AuthSettings, &a); err != nil {
		return err
	}
	if err := cmp.Or(setConfig(&d, route.JSON(d.Config)), setAuth(&d, a)); err != nil {
		return err
	}
	write := (*store.Tx).UpdateDeployment
	if d.UpdatedAt = c.NextUpdateTime(d.UpdatedAt); before == nil {
		write, d.ID, d.CreatedAt = (*store.Tx).CreateDeployment, c.NewID(), c.Now
	}
	return c.Change(ctx, func(tx *store.Tx) error { return write(tx, ctx, d) })
}
