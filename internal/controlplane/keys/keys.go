// Package keys implements the control plane's routes for gateway keys.
//
// It guarantees that a key's secret is shown once, to the caller who created or rotated
// it; that no caller grants a key more than they have; that users see and change only
// what their role allows; and that a rejected change has no effect. It does not store
// rows (see store), define limits (see limits), apply keys to requests (see snapshot)
// or count usage (see dataplane).
package keys

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/budgets"
	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

const tag = "API keys"

// kinds are the key types that routes can create, each with the resource in its scopes.
var kinds = []struct {
	keyType  access.KeyType
	resource string
	path     string
	name     string
}{
	{access.OrganisationService, "organisation_service_api_keys", "/organisation/service", "create-organisation-service-key"},
	{access.WorkspaceService, "workspace_service_api_keys", "/workspace/service", "create-workspace-service-key"},
	{access.WorkspaceUser, "workspace_user_api_keys", "/workspace/user", "create-workspace-user-key"},
}

// scope returns the scope for verb on keys of type t.
func scope(t access.KeyType, verb string) access.Scope {
	for _, k := range kinds {
		if k.keyType == t {
			return access.Scope(k.resource + "." + verb)
		}
	}
	return access.ScopeAll
}

// scopes returns the scopes for verb on keys of any type.
func scopes(verb string) []access.Scope {
	list := make([]access.Scope, len(kinds))
	for i, k := range kinds {
		list[i] = scope(k.keyType, verb)
	}
	return list
}

// Add adds the routes of keys.
func Add(a *route.API) {
	for _, k := range kinds {
		route.Add(a, route.Route{Method: http.MethodPost, Path: "/api-keys" + k.path, Name: k.name, Tag: tag,
			Summary: "Create a key of type " + string(k.keyType) + "; only this response contains its secret",
			Scopes:  []access.Scope{scope(k.keyType, "create")}, Resource: "api_key"},
			func(ctx context.Context, c *route.Caller, in *createInput) (*secretResponse, error) {
				return create(ctx, c, k.keyType, in)
			})
	}
	route.Add(a, route.Route{Method: http.MethodPost, Path: "/api-keys/organisation/user", Name: "create-organisation-user-key", Tag: tag,
		Summary: "Always rejected: user keys belong to a workspace", Scopes: scopes("create")[:1], Resource: "api_key"}, refuse)
	route.Add(a, route.Route{Method: http.MethodGet, Path: "/api-keys", Name: "list-keys", Tag: tag,
		Summary: "List keys, the newest first", Scopes: scopes("list")}, list)
	route.Add(a, route.Route{Method: http.MethodGet, Path: "/api-keys/{key}", Name: "get-key", Tag: tag,
		Summary: "Read a key without its secret", Scopes: scopes("read")}, get)
	route.Add(a, route.Route{Method: http.MethodPut, Path: "/api-keys/{key}", Name: "update-key", Tag: tag,
		Summary: "Change a key; its type and user stay", Scopes: scopes("update"), Resource: "api_key", Versioned: true}, update)
	route.Add(a, route.Route{Method: http.MethodDelete, Path: "/api-keys/{key}", Name: "delete-key", Tag: tag,
		Summary: "Delete a key, effective immediately", Scopes: scopes("delete"), Resource: "api_key", Versioned: true}, remove)
	route.Add(a, route.Route{Method: http.MethodDelete, Path: "/api-keys", Name: "delete-keys", Tag: tag,
		Summary: "Revoke all keys that a user or key created", Scopes: scopes("delete"), Resource: "api_key"}, removeCreated)
	route.Add(a, route.Route{Method: http.MethodPost, Path: "/api-keys/{key}/rotate", Name: "rotate-key", Tag: tag,
		Summary: "Replace the secret of a key; the previous one is valid until the transition ends", Scopes: scopes("rotate"), Resource: "api_key", Versioned: true}, rotate)
	route.Add(a, route.Route{Method: http.MethodGet, Path: "/api-keys/self/details",
		Also: []string{"/api-keys/self", "/v2/api-keys/self/details"}, Name: "get-own-key", Tag: tag,
		Summary: "Read the key, token or session of this request and its permissions"}, self)
}

// refuse rejects the only combination of type and owner that does not exist.
func refuse(context.Context, *route.Caller, *createInput) (*secretResponse, error) {
	return nil, route.Invalid("type", "organisation/user is not a key type; use workspace/user for personal keys")
}

type listInput struct {
	Workspace   string `query:"workspace_id" maxLength:"255"`
	RotationDue bool   `query:"rotation_due" doc:"Only keys whose rotation is due"`
	CreatedBy   string `query:"created_by" maxLength:"255" doc:"Only keys created by the user or key with this id"`
	Name        string `query:"name" maxLength:"255" doc:"Case-sensitive substring of the name"`
	Status      string `query:"status" enum:"active,disabled,exhausted,expired"`
	route.Paging
}

func list(ctx context.Context, c *route.Caller, in *listInput) (*route.List[Item], error) {
	f := store.KeyFilter{Organisation: c.Organisation, CreatedBy: in.CreatedBy, Status: in.Status, Now: c.Now}
	if in.RotationDue {
		f.RotationDue = c.Now
	}
	p, err := visible(ctx, c, &f, in.Workspace, "list")
	if err != nil {
		return nil, err
	}
	found, total, err := c.DB().KeysOf(ctx, f, store.Page{Number: in.Page, Size: in.Size, Name: in.Name})
	if err != nil {
		return nil, err
	}
	if total == 0 && in.CreatedBy != "" {
		if known, err := c.KnowsActor(ctx, in.CreatedBy); err != nil || !known {
			return nil, cmp.Or(err, route.UnknownActor("created_by", in.CreatedBy))
		}
	}
	spent, err := spending(ctx, c, found...)
	if err != nil {
		return nil, err
	}
	owned := slices.DeleteFunc(ownedKeys(c, p, f), func(k store.Key) bool {
		return !strings.Contains(k.Name, in.Name) || in.Status != "" && in.Status != k.StatusAt(c.Now)
	})
	return route.ConvertDeclared(owned, found, in.Page, total,
		func(k store.Key) (Item, error) { return toResponse(k, spent[k.ID], c.Now) })
}

// visible restricts f to the keys that the caller may see and use verb on, in a
// workspace or, if named is empty, in all.
func visible(ctx context.Context, c *route.Caller, f *store.KeyFilter, named, verb string) (*person, error) {
	for _, k := range kinds {
		if c.Allows(scope(k.keyType, verb)) {
			f.Types = append(f.Types, k.keyType)
		}
	}
	workspace, err := limitingWorkspace(ctx, c, named)
	if err != nil {
		return nil, err
	}
	if workspace != "" {
		f.Workspaces = []string{workspace}
	}
	p, err := personOf(ctx, c, c.DB())
	if err != nil {
		return nil, err
	}
	if workspace != "" && p.role(workspace) == "" {
		return nil, route.Missing("workspace_id", "workspace", named)
	}
	return p, p.narrow(f, workspace, verb)
}

// fileKeyPlace returns where a declared key is. Keys have no slug.
func fileKeyPlace(k store.Key) (id, workspace, slug string) { return k.ID, k.Workspace, "" }

// ownedKeys returns the declared keys that belong in a list.
func ownedKeys(c *route.Caller, p *person, f store.KeyFilter) (list []store.Key) {
	for _, k := range c.Files().Keys {
		if slices.Contains(f.Types, k.Type) && (f.Workspaces == nil || slices.Contains(f.Workspaces, k.Workspace)) &&
			p.sees(k) && f.RotationDue.IsZero() && f.CreatedBy == "" {
			list = append(list, k)
		}
	}
	return list
}

// limitingWorkspace returns the workspace that a request is limited to, empty for none. Users need
// not name one, because their roles decide what they see in each.
func limitingWorkspace(ctx context.Context, c *route.Caller, named string) (string, error) {
	if named == "" && c.Type == access.Session && c.Workspace == "" {
		return "", nil
	}
	return c.WorkspaceFilter(ctx, named)
}

// Named identifies a key in a request. It is exported because the OpenAPI generator
// does not see embedded unexported fields.
type Named struct {
	Key       string `path:"key" maxLength:"255" doc:"Id"`
	Workspace string `query:"workspace_id" maxLength:"255"`
}

func get(ctx context.Context, c *route.Caller, in *Named) (*Item, error) {
	k, err := find(ctx, c, c.DB(), *in, "read")
	if err != nil {
		return nil, err
	}
	spent, err := spending(ctx, c, k)
	if err != nil {
		return nil, err
	}
	out, err := toResponse(k, spent[k.ID], c.Now)
	return &out, err
}

// find returns the key that a request names if the caller may use verb on it. A key
// that the caller may not see is not found.
func find(ctx context.Context, c *route.Caller, q store.Queries, in Named, verb string) (store.Key, error) {
	workspace, err := limitingWorkspace(ctx, c, in.Workspace)
	if err != nil {
		return store.Key{}, err
	}
	k, owned := route.FindDeclared(c.Files().Keys, workspace, in.Key, fileKeyPlace)
	if !owned {
		k, err = q.Key(ctx, c.Organisation, in.Key)
	}
	if apierr.IsNotFound(err) {
		return k, none(in)
	}
	if err != nil {
		return k, err
	}
	if k.Status == store.KeyRevoked || workspace != "" && k.Workspace != workspace {
		return k, none(in)
	}
	p, err := personOf(ctx, c, q)
	if err != nil {
		return k, err
	}
	if !p.sees(k) {
		return k, none(in)
	}
	c.SetAuditSubject(k.Workspace, k.ID)
	if s := scope(k.Type, verb); !c.Allows(s) {
		return k, forbidden("this key or session lacks the scope %q", string(s))
	}
	if err := p.checkPermission(verb, k.Workspace); err != nil {
		return k, err
	}
	return k, c.RefuseFileManaged(k.ID, "API key", k.Name)
}

func none(in Named) error {
	return route.NotFound("id", "API key", in.Key)
}

type removeInput struct {
	Named
	Keep bool `query:"keep_made" doc:"Keeps keys that this key created; by default they are revoked with it"`
}

// Revoke revokes the key with an id.
func Revoke(ctx context.Context, c *route.Caller, id string) error {
	_, err := remove(ctx, c, &removeInput{Named: Named{Key: id}})
	return err
}

func remove(ctx context.Context, c *route.Caller, in *removeInput) (*route.Empty, error) {
	return change(ctx, c, in.Named, "delete", func(tx *store.Tx, k *store.Key) error {
		revoke(k)
		if !in.Keep {
			return nil
		}
		return release(ctx, c, tx, k)
	})
}

// release detaches k from the keys it created so that they outlive it. They stay bound
// by the makers above k.
func release(ctx context.Context, c *route.Caller, tx *store.Tx, k *store.Key) error {
	rank, err := c.Rank(ctx, tx.Queries, k.Workspace)
	if err != nil {
		return err
	}
	if k.ID == c.KeyID || slices.Contains(c.Lineage, k.ID) || rank < k.Origin.Rank {
		return limits.NotAllowed("keep_made", "requires the rank of the caller who created the key, and is not allowed for the key itself and keys it created")
	}
	return tx.ReleaseKeys(ctx, k.ID)
}

// change runs f on the key that a request names and stores the result. Changes are
// serialised, so f sees the result of the previous one.
func change(ctx context.Context, c *route.Caller, in Named, verb string, f func(*store.Tx, *store.Key) error) (*route.Empty, error) {
	if _, err := find(ctx, c, c.DB(), in, verb); err != nil {
		return nil, err
	}
	err := c.Change(ctx, func(tx *store.Tx) error {
		k, err := tx.Key(ctx, c.Organisation, in.Key)
		if err != nil {
			return err
		}
		if k.Status == store.KeyRevoked { // changed since it was found
			return none(in)
		}
		if err := checkProtected(c, &k); err != nil {
			return err
		}
		if err := c.CheckIfMatch(k.UpdatedAt, k.UpdatedAt, nil); err != nil {
			return err
		}
		before := k
		if err := f(tx, &k); err != nil {
			return err
		}
		if err := checkLimits(ctx, c, tx, &before, &k); err != nil {
			return err
		}
		k.UpdatedAt = c.NextUpdateTime(k.UpdatedAt)
		if err := tx.UpdateKey(ctx, k); err != nil {
			return err
		}
		return budgets.Refresh(ctx, tx, store.KeyBudget, k.ID)
	})
	return &route.Empty{}, err
}

// checkProtected refuses changes of a key with a scope that only a key with the same
// scope may change.
func checkProtected(c *route.Caller, k *store.Key) error {
	for _, s := range []access.Scope{access.ScopeAll, access.ScopeInstallation} {
		if slices.Contains(k.Scopes, s) && !c.Allows(s) {
			return forbidden("a key with the scope %q can be changed only with a key that has it too", string(s))
		}
	}
	return nil
}

// checkLimits returns an error if the caller may not make a change of limits, and
// otherwise records who made it.
func checkLimits(ctx context.Context, c *route.Caller, tx *store.Tx, before, after *store.Key) error {
	of, err := limits.Compare(store.KeyBudget, after.ID, before, after, limitFields)
	if err != nil {
		return err
	}
	of.Workspace, of.User = after.Workspace, after.UserID
	changed := limits.Differing(of.Before, of.After)
	if len(changed) == 0 {
		return nil
	}
	if err := limits.Change(ctx, c, tx, of); err != nil {
		return err
	}
	b, err := boundsOf(ctx, c, tx.Queries, after)
	if err != nil {
		return err
	}
	return b.checkChange(c, before, after, changed)
}
