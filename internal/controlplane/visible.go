package controlplane

import (
	"context"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/records/logstore"
	"modelgate/internal/store"
)

// visibleScope returns the widest scope of entries that a caller may see.
func visibleScope(id *access.Identity) logstore.Scope {
	if id.Allows(access.ScopeAll) { // all of its organisation
		return logstore.Scope{Organisation: id.Organisation}
	}
	return logstore.Scope{Organisation: id.Organisation, Workspace: id.Workspace}
}

// visible returns the scope of a workspace's entries that a user may see. Users outside
// the workspace see none; entries of an archived workspace are visible only to the
// organisation's owner and admins.
func (l *LogHandler) visible(ctx context.Context, who *access.Identity, workspace string, right access.Permission) (logstore.Scope, error) {
	scope := logstore.Scope{Organisation: who.Organisation, Workspace: workspace}
	m, err := l.DB.Membership(ctx, who.Organisation, who.UserID)
	if err != nil || m.Role == "owner" || m.Role == "admin" {
		return scope, err
	}
	w, err := l.DB.Workspace(ctx, who.Organisation, workspace)
	if err != nil && !apierr.IsNotFound(err) {
		return scope, err
	}
	if w.Status != store.Active || m.RoleIn(workspace) == "" {
		scope.Keys = []string{}
		return scope, nil
	}
	if err := route.CheckPermission(ctx, l.DB.Queries, who, workspace, right); err != nil {
		return scope, err
	}
	scope.Keys, err = route.Visible(ctx, l.DB.Queries, who, workspace)
	return scope, err
}

// limit restricts q to what a caller may see and resolves the names in q. Right is the
// permission that users need.
func (l *LogHandler) limit(ctx context.Context, who *access.Identity, q *logstore.Query, right access.Permission) error {
	if err := l.limitScope(ctx, who, q, right); err != nil {
		return err
	}
	return l.resolve(ctx, who, q)
}

// limitScope is [LogHandler.limit] without resolving names.
func (l *LogHandler) limitScope(ctx context.Context, who *access.Identity, q *logstore.Query, right access.Permission) error {
	q.Scope = visibleScope(who)
	if !who.IsPerson() {
		return nil
	}
	return l.narrow(ctx, who, q, right)
}

// narrow restricts a list to what a user may see: to the workspace of their key, the
// workspace that they name, or the only one that they have.
func (l *LogHandler) narrow(ctx context.Context, who *access.Identity, q *logstore.Query, right access.Permission) error {
	m, err := l.DB.Membership(ctx, who.Organisation, who.UserID)
	if err != nil || who.Type == access.Session && (m.Role == "owner" || m.Role == "admin") {
		return err
	}
	workspace := who.Workspace
	if who.Type == access.Session {
		if workspace, err = l.named(ctx, who, m, q.Workspace); err != nil {
			return err
		}
		q.Workspace = ""
	}
	q.Scope, err = l.visible(ctx, who, workspace, right)
	return err
}

// named returns the id of the workspace that a user names by id or slug, or of their
// only workspace.
func (l *LogHandler) named(ctx context.Context, who *access.Identity, m store.Membership, ref string) (string, error) {
	if ref == "" && len(m.Workspaces) == 1 {
		for id := range m.Workspaces {
			ref = id
		}
	}
	if ref == "" {
		return "", route.Invalid("workspace", "is required because this session is not bound to one workspace")
	}
	w, err := l.DB.Workspace(ctx, who.Organisation, ref)
	if err != nil && !apierr.IsNotFound(err) {
		return "", err
	}
	if w.Status != store.Active || m.RoleIn(w.ID) == "" {
		return "", route.Missing("workspace", "workspace", ref)
	}
	return w.ID, nil
}
