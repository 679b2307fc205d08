package directory

import (
	"context"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/people"
	"modelgate/internal/store"
)

// Assign gives a user the roles of groups that a source names, and takes away those that the
// same source gave before. It uses mappings, and names such as ws-Research-role-admin of
// workspaces that exist. Callers that do not know the groups of a user must not call it.
func Assign(ctx context.Context, tx *store.Tx, a people.Groups) error {
	o, err := tx.Organisation(ctx, a.Organisation)
	if err != nil {
		return err
	}
	settings := o.Settings.Directory.OrDefault()
	given := make(map[store.RoleGrant]bool)
	for _, name := range a.Names {
		grants, err := grantsOf(ctx, tx, a.Organisation, name, settings)
		if err != nil {
			return err
		}
		for _, g := range grants {
			given[g] = true
		}
	}
	changed, err := tx.ReplaceGrants(ctx, a.Organisation, a.User, a.Source, highest(given))
	if err != nil || !changed {
		return err
	}
	return tx.RefreshRoles(ctx, a.Organisation, []string{a.User}, a.Now)
}

// grantsOf returns the roles that a group gives.
func grantsOf(ctx context.Context, tx *store.Tx, organisation, name string,
	s store.DirectorySettings) (grants []store.RoleGrant, err error) {
	g, err := tx.DirectoryGroupByName(ctx, organisation, fold(name))
	if err == nil {
		mappings, err := tx.GroupMappings(ctx, g.ID)
		for _, m := range mappings {
			grants = append(grants, store.RoleGrant{Workspace: m.Workspace, Role: m.Role})
		}
		if err != nil || len(grants) > 0 {
			return grants, err
		}
	} else if !apierr.IsNotFound(err) {
		return nil, err
	}
	n, ok := parseName(name, s)
	if !ok {
		return nil, nil
	}
	if n.workspace == "" {
		return []store.RoleGrant{{Role: n.role}}, nil
	}
	id, err := findWorkspace(ctx, tx.Queries, organisation, n.workspace)
	if err != nil || id == "" {
		return nil, err
	}
	return []store.RoleGrant{{Workspace: id, Role: n.role}}, nil
}

// highest returns the highest role in each workspace.
func highest(given map[store.RoleGrant]bool) (list []store.RoleGrant) {
	best := make(map[string]string)
	for g := range given {
		best[g.Workspace] = store.HigherRole(g.Role, best[g.Workspace])
	}
	for workspace, role := range best {
		list = append(list, store.RoleGrant{Workspace: workspace, Role: role})
	}
	return list
}
