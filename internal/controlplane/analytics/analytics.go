// Package analytics implements the control plane's analytics routes: totals of the
// request log by group, over time and for the cache.
//
// It guarantees that totals include only entries that the caller may read one by one:
// no entries of other organisations or workspaces, none of archived workspaces unless
// the caller administers the organisation, and only the caller's own keys if their role
// is limited to them. An unknown value, such as the cost of a model without a price, is
// null and never zero. The totals are computed by logstore.
package analytics

import (
	"context"
	"net/http"
	"slices"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/records/logstore"
	"modelgate/internal/store"
)

const tag = "Analytics"

// Routes are the analytics routes.
type Routes struct {
	// Log is the request log, GroupEntries groups its entries. Nil finds none.
	Log          *logstore.Store
	GroupEntries func(context.Context, logstore.GroupQuery) ([]logstore.Group, error)
}

// Add adds the routes.
func (f Routes) Add(a *route.API) {
	get := func(path, name, summary string, scope access.Scope) route.Route {
		return route.Route{Method: http.MethodGet, Path: path, Name: name, Tag: tag, Summary: summary, Scopes: []access.Scope{scope}}
	}
	const scope = "analytics.view"
	route.Add(a, get("/analytics/groups/{groupBy}", "group-analytics", "Sum requests by what they have in common", scope), f.groups)
	route.Add(a, get("/logs/groups/{groupBy}", "group-logs", "Sum requests by what they have in common, for readers of the log",
		"logs.list"), f.groups)
	route.Add(a, get("/analytics/groups/users", "group-analytics-users", "Sum requests by the user that their metadata names", scope), f.users)
	route.Add(a, get("/analytics/groups/ai-models", "group-analytics-models", "Count requests by model", scope), f.models)
	route.Add(a, get("/analytics/groups/metadata/{key}", "group-analytics-metadata",
		"Sum requests by the values of a key of their metadata", scope), f.metadata)
	for i := range graphs {
		g := &graphs[i]
		route.Add(a, get("/analytics/graphs/"+g.path, g.name, g.summary, scope), f.graph(g))
	}
	route.Add(a, get("/analytics/graphs/errors/stacks", "graph-error-stacks", "Count errors by status over time", scope), f.stacks)
	route.Add(a, get("/analytics/graphs/errors/status-codes", "graph-status-codes", "Count errors by status", scope), f.statusCodes)
	route.Add(a, get("/analytics/graphs/users", "graph-users", "Count users over time", scope), f.userCount)
	f.addFeedback(a)
	route.Add(a, get("/analytics/summary/cache", "summarise-cache", "Cache savings", scope), f.cache)
}

// sum returns the groups of q, limited to the filters and to what the caller may see.
func (f Routes) sum(ctx context.Context, c *route.Caller, in *Filters, q logstore.GroupQuery) ([]logstore.Group, error) {
	if err := c.CheckFilters(); err != nil {
		return nil, err
	}
	if err := in.apply(&q, c.Now); err != nil {
		return nil, err
	}
	if err := restrictToVisible(ctx, c, in, &q); err != nil {
		return nil, err
	}
	if err := f.resolve(ctx, c, in, &q); err != nil {
		return nil, err
	}
	if f.GroupEntries == nil {
		return nil, nil
	}
	return f.GroupEntries(ctx, q)
}

// restrictToVisible limits q to what the caller may see.
func restrictToVisible(ctx context.Context, c *route.Caller, in *Filters, q *logstore.GroupQuery) (err error) {
	q.Scope.Organisation = c.Organisation
	named := in.Workspace
	isAdmin, err := administers(ctx, c)
	if err != nil {
		return err
	}
	if isAdmin {
		if named == "" {
			return nil
		}
		w, err := c.DB().Workspace(ctx, c.Organisation, named)
		if apierr.IsNotFound(err) {
			return route.LogNames{DB: c.DB(), Caller: c.Identity, Scope: q.Scope}.Missing(ctx, "workspace", "workspace", named)
		}
		q.Scope.Workspace = w.ID
		return err
	}
	if q.Scope.Workspace, err = c.VisibleWorkspace(ctx, named); err != nil {
		return err
	}
	if err := c.CheckOwnWorkspace(ctx, "workspace", named); err != nil {
		return err
	}
	if q.Scope.Workspace == "" {
		q.Without, err = archived(ctx, c)
		return err
	}
	if err := c.CheckPermission(ctx, q.Scope.Workspace, access.ViewAnalytics); err != nil {
		return err
	}
	q.Scope.Keys, err = route.Visible(ctx, c.DB(), c.Identity, q.Scope.Workspace)
	return err
}

// resolve adds the filters by provider and config, given by id or slug, to q, and checks
// those by key and prompt.
func (f Routes) resolve(ctx context.Context, c *route.Caller, in *Filters, q *logstore.GroupQuery) error {
	names := route.LogNames{DB: c.DB(), Caller: c.Identity, Scope: q.Scope, Files: c.Files(), Sum: f.GroupEntries}
	if len(in.Configs) > 0 {
		list, err := names.Configs(ctx, "config", in.Configs)
		if err != nil {
			return err
		}
		addFilter(q, logstore.ByConfig, list)
	}
	if len(in.Slugs) > 0 {
		list := make([]string, len(in.Slugs))
		for i, ref := range in.Slugs {
			var err error
			if list[i], err = names.Slug(ctx, "virtual_keys", ref); err != nil {
				return err
			}
		}
		addFilter(q, logstore.ByProvider, list)
	}
	if err := names.CheckKeys(ctx, "api_key", in.Keys); err != nil {
		return err
	}
	if err := names.CheckPrompts(ctx, "prompt", in.Prompts); err != nil {
		return err
	}
	if err := names.CheckErrorCodes(ctx, "error_code", in.Codes); err != nil {
		return err
	}
	if len(in.Users) > 0 {
		keys, err := names.UserKeys(ctx, "user", in.Users)
		if err != nil {
			return err
		}
		if len(in.Keys) > 0 {
			keys = slices.DeleteFunc(keys, func(id string) bool { return !slices.Contains(in.Keys, id) })
		}
		addFilter(q, logstore.ByKey, keys)
	}
	var err error
	q.Providers, err = names.Providers(ctx, "provider", in.Providers)
	return err
}

// administers reports whether the caller may see the complete organisation, including
// archived workspaces: its owner, its admins and installation keys may.
func administers(ctx context.Context, c *route.Caller) (bool, error) {
	if c.Type != access.Session {
		return c.Allows(access.ScopeAll), nil
	}
	m, err := c.DB().Membership(ctx, c.Organisation, c.UserID)
	return m.Role == "owner" || m.Role == "admin", err
}

func archived(ctx context.Context, c *route.Caller) (ids []string, err error) {
	list, _, err := c.DB().Workspaces(ctx, store.WorkspaceQuery{Organisation: c.Organisation, Statuses: []string{store.Archived}},
		store.Page{})
	for i := range list {
		ids = append(ids, list[i].ID)
	}
	return ids, err
}

// milliseconds returns d in milliseconds, with fractions.
func milliseconds(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
}
