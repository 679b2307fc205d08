package directory

import (
	"context"
	"net/http"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

func addMappings(a *route.API) {
	f := route.Family{Path: "/scim/workspaces", Tag: "Directories", Scopes: []string{"directory"}, Resource: "directory_mapping"}
	route.Add(a, f.Route(http.MethodGet, "", "list-directory-mappings", "list", "List which groups give roles in workspaces"), listMappings)
	route.Add(a, f.Route(http.MethodPost, "", "create-directory-mapping", "create",
		"Give the members of a group a role in a workspace"), createMapping)
	route.Add(a, f.Route(http.MethodDelete, "/{mapping}", "delete-directory-mapping", "delete",
		"Take away the role that a group gives"), deleteMapping)
}

type mappingItem struct {
	ID        string     `json:"id"`
	Workspace string     `json:"workspace_id"`
	Group     string     `json:"scim_group" doc:"Name of the group"`
	GroupID   string     `json:"scim_group_id"`
	Role      string     `json:"role"`
	ByName    bool       `json:"by_name" doc:"Made by the name of the group, which it follows"`
	CreatedAt route.Time `json:"created_at"`
}

func toMappingItem(m store.DirectoryMapping) mappingItem {
	return mappingItem{m.ID, m.Workspace, m.GroupName, m.Group, m.Role, m.ByName, route.Time(m.CreatedAt)}
}

type mappingsInput struct {
	route.Paging
	Workspace string `query:"workspace_id" maxLength:"255" doc:"Id or slug"`
	Group     string `query:"scim_group_id" maxLength:"255"`
	Role      string `query:"role" enum:"admin,manager,member"`
}

type mappingList struct {
	Mappings []mappingItem `json:"mappings"`
	Total    int           `json:"total_count"`
}

func listMappings(ctx context.Context, c *route.Caller, in *mappingsInput) (*mappingList, error) {
	q := store.MappingQuery{Organisation: c.Organisation, Group: in.Group, Role: in.Role}
	if in.Workspace != "" {
		w, err := c.DB().Workspace(ctx, c.Organisation, in.Workspace)
		if apierr.IsNotFound(err) {
			return nil, route.Missing("workspace_id", "workspace", in.Workspace)
		}
		if err != nil {
			return nil, err
		}
		q.Workspace = w.ID
	}
	list, total, err := c.DB().DirectoryMappings(ctx, q, in.Rows())
	if err != nil {
		return nil, err
	}
	out := &mappingList{Mappings: make([]mappingItem, len(list)), Total: total}
	for i := range list {
		out.Mappings[i] = toMappingItem(list[i])
	}
	return out, nil
}

type mappingInput struct {
	Body struct {
		Workspace string `json:"workspace_id" minLength:"1" maxLength:"255" doc:"Id or slug"`
		Role      string `json:"role" enum:"admin,manager,member"`
		GroupID   string `json:"scim_group_id,omitempty" maxLength:"255" doc:"Either this or scim_group_name is required"`
		Group     string `json:"scim_group_name,omitempty" maxLength:"255" doc:"Name of the group, which the directory may send later"`
	}
}

func createMapping(ctx context.Context, c *route.Caller, in *mappingInput) (*mappingItem, error) {
	b := &in.Body
	if b.Group = strings.TrimSpace(b.Group); (b.Group == "") == (b.GroupID == "") {
		return nil, route.Invalid("scim_group_id", "or scim_group_name is required, and not both")
	}
	w, err := c.ActiveWorkspace(ctx, "workspace_id", b.Workspace)
	if err != nil {
		return nil, err
	}
	if err := c.CheckRole("", b.Role); err != nil {
		return nil, err
	}
	m := store.DirectoryMapping{ID: c.NewID(), Organisation: c.Organisation, Workspace: w.ID, Role: b.Role, Status: store.Active,
		CreatedBy: c.Actor(), CreatedAt: c.Now, UpdatedAt: c.Now}
	c.SetAuditSubject(w.ID, m.ID)
	err = c.Change(ctx, func(tx *store.Tx) error {
		g, err := mappedGroup(ctx, c, tx, in)
		if err != nil {
			return err
		}
		m.Group, m.GroupName = g.ID, g.Name
		if err := checkUnmapped(ctx, tx, m); err != nil {
			return err
		}
		if err := tx.CreateDirectoryMapping(ctx, m); err != nil {
			return err
		}
		return refreshMembers(ctx, c, tx, g.ID)
	})
	return route.ItemOf(m, err, toMappingItem)
}

// mappedGroup returns the group that a request names. A group that does not exist is created,
// so that the directory finds its mapping.
func mappedGroup(ctx context.Context, c *route.Caller, tx *store.Tx, in *mappingInput) (store.DirectoryGroup, error) {
	b := &in.Body
	if b.GroupID != "" {
		g, err := tx.DirectoryGroup(ctx, c.Organisation, b.GroupID)
		if apierr.IsNotFound(err) {
			err = route.Missing("scim_group_id", "group", b.GroupID)
		}
		return g, err
	}
	o, err := tx.Organisation(ctx, c.Organisation)
	if err != nil {
		return store.DirectoryGroup{}, err
	}
	if _, ok := parseName(b.Group, o.Settings.Directory.OrDefault()); ok && !c.Restores() {
		return store.DirectoryGroup{}, route.Invalid("scim_group_name", "must not have the form that itself names a workspace and a role")
	}
	g, err := tx.DirectoryGroupByName(ctx, c.Organisation, fold(b.Group))
	if !apierr.IsNotFound(err) {
		return g, err
	}
	g = store.DirectoryGroup{ID: c.NewID(), Organisation: c.Organisation, Name: b.Group, NameKey: fold(b.Group), Version: 1,
		CreatedAt: c.Now, UpdatedAt: c.Now}
	return g, tx.CreateDirectoryGroup(ctx, g)
}

// checkUnmapped returns an error if the group has a role in the workspace.
func checkUnmapped(ctx context.Context, tx *store.Tx, m store.DirectoryMapping) error {
	list, err := tx.GroupMappings(ctx, m.Group)
	for _, other := range list {
		if other.Workspace == m.Workspace {
			return apierr.New(apierr.Conflict, "the group %.60q has the role %s in this workspace; delete that mapping first",
				m.GroupName, other.Role)
		}
	}
	return err
}

func refreshMembers(ctx context.Context, c *route.Caller, tx *store.Tx, group string) error {
	members, err := tx.GroupMemberIDs(ctx, group)
	if err != nil {
		return err
	}
	return tx.RefreshRoles(ctx, c.Organisation, members, c.Now)
}

type mappingRef struct {
	Mapping string `path:"mapping" maxLength:"255"`
}

type deletedMapping struct {
	Success bool `json:"success"`
}

func deleteMapping(ctx context.Context, c *route.Caller, in *mappingRef) (*deletedMapping, error) {
	m, err := c.DB().DirectoryMapping(ctx, c.Organisation, in.Mapping)
	if err := c.CheckFound(m.Workspace, m.ID, err, route.NotFound("mapping", "mapping", in.Mapping)); err != nil {
		return nil, err
	}
	err = c.Change(ctx, func(tx *store.Tx) error {
		if _, err := tx.DirectoryMapping(ctx, c.Organisation, m.ID); err != nil { // deleted since
			return route.NotFound("mapping", "mapping", in.Mapping)
		}
		if err := tx.ArchiveDirectoryMapping(ctx, m, c.Now); err != nil {
			return err
		}
		return refreshMembers(ctx, c, tx, m.Group)
	})
	return &deletedMapping{true}, err
}

// Mapping is a mapping as a file describes it.
type Mapping struct{ Workspace, Group, Role string } // id of the workspace; name of the group

// PutMapping stores the mapping that a file describes instead of before; nil is a new one.
func PutMapping(ctx context.Context, c *route.Caller, before *store.DirectoryMapping, m Mapping) error {
	if before != nil {
		if err := RemoveMapping(ctx, c, *before); err != nil {
			return err
		}
	}
	in := new(mappingInput)
	in.Body.Workspace, in.Body.Role, in.Body.Group = m.Workspace, m.Role, m.Group
	_, err := createMapping(ctx, c, in)
	return err
}

// RemoveMapping removes a mapping that a file no longer has.
func RemoveMapping(ctx context.Context, c *route.Caller, m store.DirectoryMapping) error {
	_, err := deleteMapping(ctx, c, &mappingRef{m.ID})
	return err
}
