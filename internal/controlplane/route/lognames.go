package route

import (
	"context"
	"slices"
	"strings"
	"time"

	"modelgate/internal/access"
	"modelgate/internal/apierr"
	"modelgate/internal/logstore"
	"modelgate/internal/provider/table"
	"modelgate/internal/store"
)

// LogNames resolves ids and slugs in log filters within what a caller may see; anything
// else is not found. Deleted managed providers are found as long as the store or the
// log has them.
type LogNames struct {
	DB    *store.DB
	Files Declared
	Scope logstore.Scope

	// Sum groups log entries. Nil finds none.
	Sum func(ctx context.Context, q logstore.GroupQuery) ([]logstore.Group, error)
}

// Workspace returns the id of the workspace that ref names by id or slug.
func (n LogNames) Workspace(ctx context.Context, field, ref string) (string, error) {
	if n.Scope.Workspace != "" && ref == n.Scope.Workspace {
		return ref, nil
	}
	w, err := n.DB.Workspace(ctx, n.Scope.Organisation, ref)
	if err != nil && !apierr.IsNotFound(err) {
		return "", err
	}
	if err != nil || n.Scope.Workspace != "" && w.ID != n.Scope.Workspace {
		return "", Missing(field, "workspace", ref)
	}
	return w.ID, nil
}

// AnyWorkspace is [LogNames.Workspace] for callers who see every organisation. Ref must
// be an id.
func (n LogNames) AnyWorkspace(ctx context.Context, field, ref string) (string, error) {
	w, err := n.DB.WorkspaceByID(ctx, ref)
	if apierr.IsNotFound(err) {
		return "", Missing(field, "workspace", ref)
	}
	return w.ID, err
}

// Provider returns the provider id if ref is one, otherwise the slug of the managed
// provider that ref names by id or slug. A ref with a leading @ is always a slug.
func (n LogNames) Provider(ctx context.Context, field, ref string) (id, slug string, err error) {
	if _, ok := table.Lookup(ref); ok {
		return ref, "", nil
	}
	slug, err = n.Slug(ctx, field, ref)
	return "", slug, err
}

// Providers is [LogNames.Provider] for a list. It returns nil for an empty one.
func (n LogNames) Providers(ctx context.Context, field string, refs []string) (list []logstore.Provider, err error) {
	for _, ref := range refs {
		var p logstore.Provider
		if p.Service, p.Slug, err = n.Provider(ctx, field, ref); err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

// ProviderModel parses a provider id and a requested model, written provider__model.
func ProviderModel(field, text string) (m logstore.ServedModel, err error) {
	service, model, ok := strings.Cut(text, "__")
	if !ok {
		return m, Invalid(field, "must be provider__model, not %.60q", text)
	}
	if _, ok := table.Lookup(service); !ok {
		return m, Missing(field, "provider", service)
	}
	return logstore.ServedModel{Service: service, Model: model}, nil
}

// CheckKeyIDs returns an error if gateway keys are given instead of their ids. The
// error does not contain them.
func CheckKeyIDs(field string, ids []string) error {
	if slices.ContainsFunc(ids, func(id string) bool { return strings.HasPrefix(id, access.KeyPrefix) }) {
		return Invalid(field, "must be ids of gateway keys, not the keys themselves; they are api_key.id in log entries")
	}
	return nil
}

// CheckFilters returns an error for a filter without a value, which would match
// everything.
func (c *Caller) CheckFilters() error {
	for name, values := range c.request.URL.Query() {
		if slices.Contains(values, "") {
			return Invalid(name, "must not be empty; leave it out to match all")
		}
	}
	return nil
}

// CheckOwnWorkspace returns an error if a workspace key names another workspace.
func (c *Caller) CheckOwnWorkspace(ctx context.Context, field, named string) error {
	if named == "" || c.Workspace == "" || c.Allows(access.ScopeAll) {
		return nil
	}
	n := LogNames{DB: c.DB(), Scope: logstore.Scope{Organisation: c.Organisation, Workspace: c.Workspace}}
	_, err := n.Workspace(ctx, field, named)
	return err
}

// Slug returns the slug of the managed provider that ref names by id or slug, with or
// without its @.
func (n LogNames) Slug(ctx context.Context, field, ref string) (string, error) {
	name := strings.TrimPrefix(ref, "@")
	place := func(p store.Provider) (string, string, string) { return p.ID, p.Workspace, p.Slug }
	if p, ok := FindDeclared(n.Files.Providers, n.Scope.Workspace, name, place); ok {
		return p.Slug, nil
	}
	found, err := n.DB.ProviderSlugs(ctx, n.Scope.Organisation, n.Scope.Workspace, name)
	if err != nil {
		return "", err
	}
	if slices.Contains(found, name) {
		return name, nil
	}
	if len(found) > 0 {
		return found[0], nil
	}
	logged, err := n.logged(ctx, name)
	if err == nil && !logged {
		err = Missing(field, "provider", ref)
	}
	return name, err
}

// loggedRange is how far back entries are searched to prove that a slug was a
// provider's.
const loggedRange = 366 * 24 * time.Hour

// logged reports whether the log has entries of a managed provider.
func (n LogNames) logged(ctx context.Context, slug string) (bool, error) {
	if n.Sum == nil || n.Scope.Organisation == "" || slug == "" {
		return false, nil
	}
	now := time.Now()
	sums, err := n.Sum(ctx, logstore.GroupQuery{
		Scope: n.Scope, From: now.Add(-loggedRange), To: now.Add(time.Minute), Is: map[logstore.Field][]string{logstore.ByProvider: {slug}},
	})
	return len(sums) > 0, err
}

// Configs resolves configs, given by id or slug, to what entries contain: ids, and
// slugs of declared configs.
func (n LogNames) Configs(ctx context.Context, refs []string) (list []string, err error) {
	place := func(c store.ConfigText) (string, string, string) { return c.ID, c.Workspace, c.Slug }
	for _, ref := range refs {
		if strings.Contains(ref, "@") {
			return nil, Invalid("config", "must not name a version; entries of all versions have the id of the config")
		}
		ids, err := n.DB.ConfigIDs(ctx, n.Scope.Organisation, n.Scope.Workspace, ref)
		if err != nil {
			return nil, err
		}
		if owned, ok := FindDeclared(n.Files.Configs, n.Scope.Workspace, ref, place); ok {
			ids = append(ids, owned.Slug)
		}
		if len(ids) == 0 {
			ids = []string{ref}
		}
		list = append(list, ids...)
	}
	return list, nil
}
