package route

import (
	"context"
	"slices"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/identity/access"
	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
	"modelgate/internal/records/logstore"
	"modelgate/internal/store"
)

// LogNames resolves ids and slugs in log filters within what a caller may see; anything
// else is not found. Deleted objects are found as long as the store or the log has them.
type LogNames struct {
	DB    store.Queries
	Files Declared
	Scope logstore.Scope

	// Caller is the sender of the names. Errors list only objects that it may list; for nil, only
	// those of the provider table.
	Caller *access.Identity

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
		return "", n.Missing(ctx, field, "workspace", ref)
	}
	return w.ID, nil
}

// AnyWorkspace is [LogNames.Workspace] for callers who see every organisation. Ref must
// be an id.
func (n LogNames) AnyWorkspace(ctx context.Context, field, ref string) (string, error) {
	w, err := n.DB.WorkspaceByID(ctx, ref)
	if apierr.IsNotFound(err) {
		return "", missingName(field, "workspace", ref)
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
		return m, missingAmong(field, "provider", service, slugsOf(table.All(), func(s *provider.Spec) string { return s.ID }))
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
	n := LogNames{DB: c.DB(), Caller: c.Identity, Scope: logstore.Scope{Organisation: c.Organisation, Workspace: c.Workspace}}
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
	return name, n.checkLogged(ctx, logstore.ByProvider, []string{name}, func() error { return n.Missing(ctx, field, "provider", ref) })
}

// loggedRange is how far back entries are searched to prove that an object existed.
const loggedRange = 366 * 24 * time.Hour

// checkLogged returns what missing returns, unless the log has entries with one of the values of a
// field.
func (n LogNames) checkLogged(ctx context.Context, field logstore.Field, values []string, missing func() error) error {
	if n.Sum == nil || n.Scope.Organisation == "" || slices.Contains(values, "") {
		return missing()
	}
	now := time.Now()
	sums, err := n.Sum(ctx, logstore.GroupQuery{
		Scope: n.Scope, From: now.Add(-loggedRange), To: now.Add(time.Minute), Is: map[logstore.Field][]string{field: values},
	})
	if err == nil && len(sums) == 0 {
		err = missing()
	}
	return err
}

// CheckKeys returns an error unless all are ids of keys, which may be revoked.
func (n LogNames) CheckKeys(ctx context.Context, field string, ids []string) error {
	if err := CheckKeyIDs(field, ids); err != nil {
		return err
	}
	place := func(k store.Key) (string, string, string) { return k.ID, k.Workspace, "" }
	for _, id := range ids {
		if n.Scope.Keys != nil && !slices.Contains(n.Scope.Keys, id) {
			return n.Missing(ctx, field, "API key", id) // of somebody else
		}
		if _, ok := FindDeclared(n.Files.Keys, n.Scope.Workspace, id, place); ok || id == bootstrapKey && n.seesDefault() {
			continue
		}
		known, err := n.DB.KeyExists(ctx, n.Scope.Organisation, n.Scope.Workspace, id)
		if err == nil && !known {
			err = n.checkLogged(ctx, logstore.ByKey, []string{id}, func() error { return n.Missing(ctx, field, "API key", id) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// KnowsActor reports whether the caller's organisation has or had a member or a key with
// this id, or its audit log has an event of it.
func (c *Caller) KnowsActor(ctx context.Context, id string) (bool, error) {
	n := LogNames{DB: c.DB(), Caller: c.Identity, Files: c.Files(), Scope: logstore.Scope{Organisation: c.Organisation}}
	if err := n.CheckKeys(ctx, "", []string{id}); !apierr.IsNotFound(err) {
		return err == nil, err
	}
	if m, err := c.DB().Membership(ctx, c.Organisation, id); err != nil || m.Role != "" {
		return m.Role != "", err
	}
	return c.DB().AuditHas(ctx, c.Organisation, "user_id", id)
}

// UnknownActor returns the error for a filter by a user or key that [Caller.KnowsActor]
// does not know.
func UnknownActor(field, id string) error {
	return apierr.New(apierr.NotFound, "user or key %.60q not found; GET /v1/admin/users and GET /v1/api-keys list those that exist", id).WithParam(field).WithCode("AB02")
}

// bootstrapKey is the id of the key in MODELGATE_BOOTSTRAP_KEY.
const bootstrapKey = "bootstrap"

// seesDefault reports whether the scope has the first workspace.
func (n LogNames) seesDefault() bool {
	return (n.Scope.Organisation == "" || n.Scope.Organisation == store.DefaultOrganisation) &&
		(n.Scope.Workspace == "" || n.Scope.Workspace == store.DefaultWorkspace)
}

// CheckPrompts returns an error unless all are slugs of prompts, which may be archived.
func (n LogNames) CheckPrompts(ctx context.Context, field string, slugs []string) error {
	for _, ref := range slugs {
		slug, version, err := cutVersion(field, ref)
		if err != nil {
			return err
		}
		known, err := n.DB.PromptExists(ctx, n.Scope.Organisation, n.Scope.Workspace, slug, 0)
		if err == nil && !known {
			err = n.checkLogged(ctx, logstore.ByPrompt, []string{slug}, func() error { return n.Missing(ctx, field, "prompt", slug) })
		}
		if err == nil && version > 0 {
			known, err = n.DB.PromptExists(ctx, n.Scope.Organisation, n.Scope.Workspace, slug, version)
			if err == nil && !known {
				err = n.checkLogged(ctx, logstore.ByPromptVersion, []string{ref}, missingVersion(field, "prompt", ref))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Configs resolves configs, given by id or slug, to what entries contain: ids, and
// slugs of declared configs. A ref with a version, such as main@3, has it afterwards too.
func (n LogNames) Configs(ctx context.Context, field string, refs []string) (list []string, err error) {
	place := func(c store.ConfigText) (string, string, string) { return c.ID, c.Workspace, c.Slug }
	for _, ref := range refs {
		whole := ref
		if ref, _, err = cutVersion(field, whole); err != nil {
			return nil, err
		}
		ids, err := n.DB.ConfigIDs(ctx, n.Scope.Organisation, n.Scope.Workspace, ref)
		if err != nil {
			return nil, err
		}
		if owned, ok := FindDeclared(n.Files.Configs, n.Scope.Workspace, ref, place); ok {
			ids = append(ids, owned.Slug)
		}
		if len(ids) == 0 { // an id, or an archived one
			if ids, err = n.DB.AnyConfigIDs(ctx, n.Scope.Organisation, n.Scope.Workspace, ref); err != nil {
				return nil, err
			}
		}
		if len(ids) == 0 {
			ids = []string{ref}
			missing := func() error { return n.Missing(ctx, field, "config", ref) }
			if err := n.checkLogged(ctx, logstore.ByConfig, ids, missing); err != nil {
				return nil, err
			}
		}
		if err := n.checkConfigVersion(ctx, field, whole, ids); err != nil {
			return nil, err
		}
		for _, id := range ids {
			list = append(list, id+whole[len(ref):])
		}
	}
	return list, nil
}
