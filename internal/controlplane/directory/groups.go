package directory

import (
	"context"
	"net/http"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/scim"
	"modelgate/internal/store"
)

// membersOnPage is the number of members after which a page of groups ends, so that a list of
// large groups is not read at once.
const membersOnPage = 20_000

// fold returns a name as names are compared.
func fold(name string) string { return strings.ToLower(strings.TrimSpace(name)) }

func (f *family) listGroups(ctx context.Context, c *route.Caller, w http.ResponseWriter, r *http.Request) error {
	p, err := readPage(r, f.groups)
	if err != nil {
		return answer(w, err)
	}
	rows, total, err := c.DB().DirectoryGroups(ctx, c.Organisation, p.filter, store.Span{Offset: p.start - 1, Limit: p.count})
	if err == nil && p.Selects("members") {
		rows, err = cutPage(ctx, c, rows)
	}
	if err != nil {
		return answer(w, err)
	}
	list, err := showGroups(ctx, c, rows, p.Projection)
	if err != nil {
		return err
	}
	return writeList(w, p.start, total, list)
}

// cutPage returns the first groups, at least one, that together have not too many members.
func cutPage(ctx context.Context, c *route.Caller, rows []store.DirectoryGroup) ([]store.DirectoryGroup, error) {
	counts, err := c.DB().CountGroupMembers(ctx, groupIDs(rows))
	n := 0
	for i := range rows {
		if n += counts[rows[i].ID]; n > membersOnPage && i > 0 {
			return rows[:i], err
		}
	}
	return rows, err
}

func groupIDs(rows []store.DirectoryGroup) []string {
	ids := make([]string, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	return ids
}

// showGroups returns groups as objects. Members are read only if the projection has them.
func showGroups(ctx context.Context, c *route.Caller, rows []store.DirectoryGroup, p scim.Projection) ([]scim.Object, error) {
	members := make(map[string][]any)
	if p.Selects("members") {
		list, err := c.DB().GroupMembers(ctx, groupIDs(rows))
		if err != nil {
			return nil, err
		}
		for _, m := range list {
			members[m.Group] = append(members[m.Group], scim.Object{"value": m.User, "type": "User", "$ref": location(c, "/Users/"+m.User)})
		}
	}
	out := make([]scim.Object, len(rows))
	for i := range rows {
		o := groupObject(&rows[i])
		if list := members[rows[i].ID]; list != nil {
			o["members"] = list
		}
		o["schemas"], o["id"] = []any{scim.GroupURN}, rows[i].ID
		o["meta"] = scim.Object{
			"resourceType": "Group", "created": stamp(rows[i].CreatedAt), "lastModified": stamp(rows[i].UpdatedAt),
			"version": etag(rows[i].Version), "location": location(c, "/Groups/"+rows[i].ID),
		}
		out[i] = p.Apply(o)
	}
	return out, nil
}

// groupObject returns the attributes that directories write, without members.
func groupObject(g *store.DirectoryGroup) scim.Object {
	o := scim.Object{"displayName": g.Name}
	if g.ExternalID != "" {
		o["externalId"] = g.ExternalID
	}
	return o
}

func (f *family) getGroup(ctx context.Context, c *route.Caller, w http.ResponseWriter, r *http.Request) error {
	g, err := findGroup(ctx, c, c.DB(), r.PathValue("group"))
	if err != nil {
		return answer(w, err)
	}
	return f.writeGroup(ctx, c, w, r, g)
}

// findGroup returns a group that the directory has sent.
func findGroup(ctx context.Context, c *route.Caller, q store.Queries, id string) (store.DirectoryGroup, error) {
	g, err := q.DirectoryGroup(ctx, c.Organisation, id)
	if apierr.IsNotFound(err) || err == nil && !g.Provisioned {
		return g, notFound("group", id)
	}
	return g, err
}

// writeGroup writes a group with the attributes that the request selects.
func (f *family) writeGroup(ctx context.Context, c *route.Caller, w http.ResponseWriter, r *http.Request, g store.DirectoryGroup) error {
	p, err := projection(r, f.groups)
	if err != nil {
		return answer(w, err)
	}
	list, err := showGroups(ctx, c, []store.DirectoryGroup{g}, p)
	if err != nil {
		return err
	}
	return writeOne(w, r, list[0], g.Version)
}

func (f *family) createGroup(ctx context.Context, c *route.Caller, w http.ResponseWriter, r *http.Request) error {
	in, err := f.decodeGroup(c, r)
	if err != nil {
		return answer(w, err)
	}
	p, err := projection(r, f.groups)
	if err != nil {
		return answer(w, err)
	}
	var g store.DirectoryGroup
	err = c.Change(ctx, func(tx *store.Tx) error {
		if g, err = insertGroup(ctx, c, tx, in); err != nil {
			return err
		}
		c.SetAuditSubject("", g.ID)
		ids, err := f.addMembers(ctx, c, tx, g, in.members)
		if err != nil {
			return err
		}
		return follow(ctx, c, tx, g, ids)
	})
	if err != nil {
		return answer(w, err)
	}
	list, err := showGroups(ctx, c, []store.DirectoryGroup{g}, p)
	if err != nil {
		return err
	}
	w.Header().Set("Location", location(c, "/Groups/"+g.ID))
	w.Header().Set("Etag", etag(g.Version))
	return write(w, http.StatusCreated, list[0])
}

// insertGroup adds a group. One that mappings named before keeps its id.
func insertGroup(ctx context.Context, c *route.Caller, tx *store.Tx, in groupInput) (store.DirectoryGroup, error) {
	g, err := tx.DirectoryGroupByName(ctx, c.Organisation, fold(in.name))
	switch {
	case err == nil && g.Provisioned:
		return g, conflict("a group with this displayName exists already")
	case err == nil:
		g.Name, g.ExternalID, g.Provisioned, g.UpdatedAt = in.name, in.external, true, c.NextUpdateTime(g.UpdatedAt)
		return g, tx.UpdateDirectoryGroup(ctx, g)
	case !apierr.IsNotFound(err):
		return g, err
	}
	g = store.DirectoryGroup{ID: c.NewID(), Organisation: c.Organisation, Name: in.name, NameKey: fold(in.name), ExternalID: in.external,
		Provisioned: true, Version: 1, CreatedAt: c.Now, UpdatedAt: c.Now}
	return g, tx.CreateDirectoryGroup(ctx, g)
}

func (f *family) deleteGroup(ctx context.Context, c *route.Caller, w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("group")
	c.SetAuditSubject("", id)
	err := c.Change(ctx, func(tx *store.Tx) error {
		g, err := findGroup(ctx, c, tx.Queries, id)
		if err == nil {
			err = checkMatch(r, g.Version)
		}
		if err != nil {
			return err
		}
		members, err := tx.GroupMemberIDs(ctx, g.ID)
		if err != nil {
			return err
		}
		if err := tx.DeleteDirectoryGroup(ctx, g, c.Now); err != nil {
			return err
		}
		return tx.RefreshRoles(ctx, c.Organisation, members, c.Now)
	})
	if err != nil {
		return answer(w, err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
