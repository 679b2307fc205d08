package controlplane

import (
	"context"
	"net/http"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/cache/respcache"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// addCache adds the route that invalidates cached responses.
func addCache(a *route.API, cache *respcache.Invalidations) {
	route.Add(a, route.Route{
		Method: http.MethodPost, Path: "/cache/invalidate", Name: "invalidate-cache", Tag: "Cache",
		Summary: "Invalidate cached responses of a workspace",
		Scopes:  []access.Scope{"configs.update"}, Resource: "cache",
	}, cacheRoutes{cache, a.Now}.invalidate)
}

type cacheRoutes struct {
	cache *respcache.Invalidations // nil if no responses are cached
	now   func() time.Time
}

type invalidateInput struct {
	Body struct {
		Workspace string `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug; required unless the key belongs to one workspace"`
		Namespace string `json:"namespace,omitempty" maxLength:"256" doc:"Only responses to requests with this namespace"`
		Config    string `json:"config,omitempty" maxLength:"255" doc:"Only responses to requests with this saved config: id or slug"`
		KeyID     string `json:"api_key_id,omitempty" maxLength:"255" doc:"Only responses to requests of this gateway key"`
	}
}

type invalidated struct {
	Object string `json:"object" doc:"Always cache-invalidation"`
}

// invalidate makes the selected responses of a workspace unavailable.
func (r cacheRoutes) invalidate(ctx context.Context, c *route.Caller, in *invalidateInput) (*invalidated, error) {
	w, err := c.InWorkspace(ctx, in.Body.Workspace)
	if err != nil {
		return nil, err
	}
	if r.cache == nil {
		return nil, apierr.New(apierr.Unavailable, "the cache is disabled on this gateway")
	}
	sel := respcache.Selector{Namespace: in.Body.Namespace, Config: in.Body.Config, KeyID: in.Body.KeyID}
	if sel.Config != "" {
		if _, version, err := route.SplitVersion("config", sel.Config); err != nil || version != 0 {
			return nil, route.Invalid("config", "must not name a version; responses are invalidated for all versions of a config")
		}
		stored, err := c.DB().Config(ctx, c.Organisation, w.ID, sel.Config)
		if err == nil {
			sel.Config = stored.ID
		} else if !apierr.IsNotFound(err) {
			return nil, err
		} // otherwise it is in the settings file, or was deleted
	}
	c.SetAuditSubject(w.ID, w.ID)
	owner := respcache.Tenant{Organisation: c.Organisation, Workspace: w.ID}
	var mark respcache.Mark
	err = c.Change(ctx, func(tx *store.Tx) (err error) {
		mark, err = tx.InvalidateCache(ctx, owner, sel, r.now())
		return err
	})
	if err != nil {
		return nil, err
	}
	r.cache.Add(mark)
	return &invalidated{Object: "cache-invalidation"}, nil
}
