package directory

import (
	"context"
	"slices"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// named is what the name of a group says: a role in a workspace, or in the organisation if
// there is no workspace.
type named struct {
	workspace string // name or slug
	role      string
}

// workspaceRoles and organisationRoles are the roles that names of groups may have.
var (
	workspaceRoles    = []string{access.Member, access.Manager, access.Admin}
	organisationRoles = []string{access.Member, access.Admin}
)

// parseName returns what the name of a group says, such as ws-Research-role-admin or, if the
// organisation has switched that on, org-role-admin. It reports false for other names.
func parseName(name string, s store.DirectorySettings) (n named, ok bool) {
	sep := strings.ToLower(s.GroupSeparator)
	lower := strings.ToLower(name)
	if len(lower) != len(name) { // letters whose lower case has another length
		return n, false
	}
	middle := sep + "role" + sep
	if role, ok := strings.CutPrefix(lower, "org"+middle); ok && s.OrganisationRoles && slices.Contains(organisationRoles, role) {
		return named{role: role}, true
	}
	start, at := len(s.GroupPrefix+sep), strings.LastIndex(lower, middle)
	if !strings.HasPrefix(lower, strings.ToLower(s.GroupPrefix)+sep) || at < start {
		return n, false
	}
	n.workspace, n.role = strings.TrimSpace(name[start:at]), lower[at+len(middle):]
	return n, n.workspace != "" && slices.Contains(workspaceRoles, n.role)
}

// findWorkspace returns the id of the active workspace with this slug or name, empty if there
// is none.
func findWorkspace(ctx context.Context, q store.Queries, organisation, name string) (string, error) {
	w, err := q.Workspace(ctx, organisation, strings.ToLower(name))
	if err == nil && w.Status == store.Active {
		return w.ID, nil
	}
	if err != nil && !apierr.IsNotFound(err) {
		return "", err
	}
	list, _, err := q.Workspaces(ctx, store.WorkspaceQuery{Organisation: organisation, ExactName: name, Statuses: []string{store.Active}},
		store.Page{Size: 1})
	if err != nil || len(list) == 0 {
		return "", err
	}
	return list[0].ID, nil
}

// makeWorkspace creates a workspace with the defaults of every other and returns its id.
func makeWorkspace(ctx context.Context, c *route.Caller, tx *store.Tx, name string) (string, error) {
	w := store.Workspace{
		ID: c.NewID(), Organisation: c.Organisation, Slug: route.NewSlug("ws", name), Name: name,
		Description: "Created for a group of the directory", Status: store.Active, CreatedBy: c.Actor(), CreatedAt: c.Now, UpdatedAt: c.Now,
	}
	if err := tx.CreateWorkspace(ctx, w); err != nil {
		return "", err
	}
	folder := store.PromptCollection{ID: c.NewID(), Slug: route.NewSlug("co", "default"), CreatedAt: c.Now}
	if err := tx.CreateDefaultPromptCollection(ctx, w, folder); err != nil {
		return "", err
	}
	return w.ID, credentials.GrantDefaults(ctx, tx, c, w)
}

// follow makes the mapping that the name of a group says the only one by name, and updates the
// roles of its members. If the mappings stay the same, only affected users are updated.
func follow(ctx context.Context, c *route.Caller, tx *store.Tx, g store.DirectoryGroup, affected []string) error {
	o, err := tx.Organisation(ctx, c.Organisation)
	if err != nil {
		return err
	}
	mappings, err := tx.GroupMappings(ctx, g.ID)
	if err != nil {
		return err
	}
	want := store.DirectoryMapping{ID: c.NewID(), Organisation: c.Organisation, Group: g.ID, ByName: true, Status: store.Active,
		CreatedBy: c.Actor(), CreatedAt: c.Now, UpdatedAt: c.Now}
	n, ok := parseName(g.Name, o.Settings.Directory.OrDefault())
	if want.Role = n.role; ok && n.workspace != "" {
		if want.Workspace, err = findWorkspace(ctx, tx.Queries, c.Organisation, n.workspace); err == nil && want.Workspace == "" {
			want.Workspace, err = makeWorkspace(ctx, c, tx, n.workspace)
		}
	}
	if err != nil {
		return err
	}
	changed := false
	for _, m := range mappings {
		switch {
		case ok && m.Workspace == want.Workspace && (!m.ByName || m.Role == want.Role): // as it is, or as somebody mapped it
			ok = false
		case m.ByName:
			changed = true
			if err := tx.ArchiveDirectoryMapping(ctx, m, c.Now); err != nil {
				return err
			}
		}
	}
	if ok {
		changed = true
		if err := tx.CreateDirectoryMapping(ctx, want); err != nil {
			return err
		}
	}
	if changed {
		if affected, err = withMembers(ctx, tx, g.ID, affected); err != nil {
			return err
		}
	}
	return tx.RefreshRoles(ctx, c.Organisation, affected, c.Now)
}

// withMembers returns users and the members of a group, each once.
func withMembers(ctx context.Context, tx *store.Tx, group string, users []string) ([]string, error) {
	members, err := tx.GroupMemberIDs(ctx, group)
	all := append(members, users...)
	slices.Sort(all)
	return slices.Compact(all), err
}
