package controlplane

import (
	"context"

	"modelgate/internal/access"
	"modelgate/internal/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/logstore"
	"modelgate/internal/store"
)

// visibleScope is whose entries a caller sees at most.
func visibleScope(id *access.Identity) logstore.Scope {
	if id.Allows(access.ScopeAll) { // all that its organisation has
		return logstore.Scope{Organisation: id.Organisation}
	}
	return logstore.Scope{Organisation: id.Organisation, Workspace: id.Workspace}
}

// visible returns what a person sees of a workspace's entries. Who is none of
// its people sees nothing, nor does anyone but the owner and the admins of the
// organisation when it is archived.
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
	if err := route.May(ctx, l.DB.Queries, who, workspace, right); err != nil {
		return scope, err
	}
	scope.Keys, err = route.Visible(ctx, l.DB.Queries, who, workspace)
	return scope, err
}

// limit puts into q what a caller sees at most, for which people need a right, and
// resolves the names in q.
func (l *LogHandler) limit(ctx context.Context, who *access.Identity, q *logstore.Query, right access.Permission) error {
	if err := l.limitScope(ctx, who, q, right); err != nil {
		return err
	}
	return l.resolve(ctx, who, q)
}

// limitScope is limit without the names.
func (l *LogHandler) limitScope(ctx context.Context, who *access.Identity, q *logstore.Query, right access.Permission) error {
	q.Scope = visibleScope(who)
	if !who.IsPerson() {
		return nil
	}
	return l.narrow(ctx, who, q, right)
}

// narrow limits a listing to what a person sees: of the workspace of their key,
// of the one that they name, or of the only one that they have.
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

// named returns the id of the workspace that a person names by id or slug, or of
// the only one that they have.
func (l *LogHandler) named(ctx context.Context, who *access.Identity, m store.Membership, ref string) (string, error) {
	if ref == "" && len(m.Workspaces) == 1 {
		for id := range m.Workspaces {
			ref = id
		}
	}
	if ref == "" {
		return "", route.Invalid("workspace", "is needed: this session belongs to no single workspace")
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
