package directory

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/scim"
	"modelgate/internal/store"
)

// groupInput is a group as a request describes it.
type groupInput struct {
	name     string
	external string
	members  []string // ids of users
}

// readGroup returns the group with these attributes, without members.
func readGroup(attributes scim.Object) (in groupInput, err error) {
	in.name, in.external = strings.TrimSpace(scim.Text(attributes, "displayName")), scim.Text(attributes, "externalId")
	switch {
	case in.name == "":
		return in, scim.Errorf(scim.InvalidValue, "displayName is required")
	case utf8.RuneCountInString(in.name) > maxName:
		return in, scim.Errorf(scim.InvalidValue, "displayName must be at most %d characters long", maxName)
	}
	return in, nil
}

// decodeGroup reads the group that a request sends completely.
func (f *family) decodeGroup(c *route.Caller, r *http.Request) (in groupInput, err error) {
	if err := checkType(r); err != nil {
		return in, err
	}
	attributes, members, _, err := f.groups.DecodeGroup(c.Body())
	if err != nil {
		return in, err
	}
	in, err = readGroup(attributes)
	in.members = members
	return in, err
}

// addMembers adds users of the directory to a group and returns those who were not members. It
// ignores unknown ids: the server makes ids, so such a user was deleted or is a nested group, and
// an error would keep out the others. In user mode it adds none.
func (f *family) addMembers(ctx context.Context, c *route.Caller, tx *store.Tx, g store.DirectoryGroup, ids []string) ([]string, error) {
	if f.UserMode || len(ids) == 0 {
		return nil, nil
	}
	known, err := tx.DirectoryUserIDs(ctx, c.Organisation, ids)
	if err != nil {
		return nil, err
	}
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !known[id] })
	return tx.AddGroupMembers(ctx, g.ID, ids)
}

func (f *family) replaceGroup(ctx context.Context, c *route.Caller, w http.ResponseWriter, r *http.Request) error {
	in, err := f.decodeGroup(c, r)
	if err != nil {
		return answer(w, err)
	}
	if _, err := projection(r, f.groups); err != nil {
		return answer(w, err)
	}
	g, err := f.changeGroup(ctx, c, r, func(*store.Tx, store.DirectoryGroup) (groupInput, []scim.MemberChange, error) {
		return in, []scim.MemberChange{{Op: scim.Replace, IDs: in.members}}, nil
	})
	if err != nil {
		return answer(w, err)
	}
	return f.writeGroup(ctx, c, w, r, g)
}

// maxPatched is the number of members up to which the response to an operation has the group.
const maxPatched = 100

// patchGroup answers with the group if it is small. Entra, which spells operations in capitals,
// gets no body.
func (f *family) patchGroup(ctx context.Context, c *route.Caller, w http.ResponseWriter, r *http.Request) error {
	if err := checkType(r); err != nil {
		return answer(w, err)
	}
	operations, err := scim.DecodePatch(c.Body())
	if err != nil {
		return answer(w, err)
	}
	g, err := f.changeGroup(ctx, c, r, func(_ *store.Tx, before store.DirectoryGroup) (groupInput, []scim.MemberChange, error) {
		after, changes, err := f.groups.PatchGroup(groupObject(&before), operations)
		if err != nil {
			return groupInput{}, nil, err
		}
		in, err := readGroup(after)
		return in, changes, err
	})
	if err != nil {
		return answer(w, err)
	}
	counts, err := c.DB().CountGroupMembers(ctx, []string{g.ID})
	if err != nil {
		return err
	}
	capitals := slices.ContainsFunc(operations, func(o scim.Operation) bool { return o.Capital })
	if !capitals && counts[g.ID] <= maxPatched || r.URL.Query().Get("attributes") != "" {
		return f.writeGroup(ctx, c, w, r, g)
	}
	w.Header().Set("Etag", etag(g.Version))
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// changeGroup changes a group to what edit returns. It writes only what differs.
func (f *family) changeGroup(ctx context.Context, c *route.Caller, r *http.Request,
	edit func(*store.Tx, store.DirectoryGroup) (groupInput, []scim.MemberChange, error)) (g store.DirectoryGroup, err error) {
	id := r.PathValue("group")
	c.SetAuditSubject("", id)
	err = c.Change(ctx, func(tx *store.Tx) error {
		if g, err = findGroup(ctx, c, tx.Queries, id); err != nil {
			return err
		}
		if err := checkMatch(r, g.Version); err != nil {
			return err
		}
		in, changes, err := edit(tx, g)
		if err != nil {
			return err
		}
		before := g
		g.Name, g.NameKey, g.ExternalID = in.name, fold(in.name), in.external
		if err := checkGroupName(ctx, c, tx, g); err != nil {
			return err
		}
		affected, err := f.changeMembers(ctx, c, tx, g, changes)
		if err != nil || g == before && len(affected) == 0 {
			return err
		}
		g.Version, g.UpdatedAt = g.Version+1, c.NextUpdateTime(g.UpdatedAt)
		if err := tx.UpdateDirectoryGroup(ctx, g); err != nil {
			return err
		}
		if g.Name == before.Name {
			return tx.RefreshRoles(ctx, c.Organisation, affected, c.Now)
		}
		return follow(ctx, c, tx, g, affected)
	})
	return g, err
}

// checkGroupName returns an error if another group has the name.
func checkGroupName(ctx context.Context, c *route.Caller, tx *store.Tx, g store.DirectoryGroup) error {
	other, err := tx.DirectoryGroupByName(ctx, c.Organisation, g.NameKey)
	if err == nil && other.ID != g.ID {
		return conflict("a group with this displayName exists already")
	}
	if apierr.IsNotFound(err) {
		return nil
	}
	return err
}

// changeMembers applies changes of members in order and returns the users whose membership may
// differ. In user mode it changes nothing.
func (f *family) changeMembers(ctx context.Context, c *route.Caller, tx *store.Tx, g store.DirectoryGroup,
	changes []scim.MemberChange) (affected []string, err error) {
	if f.UserMode {
		return nil, nil
	}
	for _, change := range changes {
		var ids []string
		switch {
		case change.Op == scim.Replace, change.All:
			ids, err = f.replaceMembers(ctx, c, tx, g, change.IDs)
		case change.Op == scim.Remove:
			ids, err = tx.RemoveGroupMembers(ctx, g.ID, change.IDs)
		default:
			ids, err = f.addMembers(ctx, c, tx, g, change.IDs)
		}
		if err != nil {
			return nil, err
		}
		affected = append(affected, ids...)
	}
	slices.Sort(affected)
	return slices.Compact(affected), nil
}

// replaceMembers makes users the only members of a group and returns those who joined or left.
func (f *family) replaceMembers(ctx context.Context, c *route.Caller, tx *store.Tx, g store.DirectoryGroup,
	ids []string) ([]string, error) {
	have, err := tx.GroupMemberIDs(ctx, g.ID)
	if err != nil {
		return nil, err
	}
	want := make(map[string]bool, len(ids))
	for _, id := range ids {
		want[id] = true
	}
	var left []string
	for _, id := range have {
		if !want[id] {
			left = append(left, id)
		}
		delete(want, id)
	}
	var joined []string
	for id := range want {
		joined = append(joined, id)
	}
	slices.Sort(joined)
	if left, err = tx.RemoveGroupMembers(ctx, g.ID, left); err != nil {
		return nil, err
	}
	joined, err = f.addMembers(ctx, c, tx, g, joined)
	return append(left, joined...), err
}
