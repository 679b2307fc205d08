package directory

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/scim"
	"modelgate/internal/store"
)

// deactivated is the status of members whom the directory deactivated.
const deactivated = "disabled"

func (f *family) replaceUser(ctx context.Context, c *route.Caller, w http.ResponseWriter, r *http.Request) error {
	u, err := f.decodeUser(c, r)
	if err != nil {
		return answer(w, err)
	}
	return f.changeUser(ctx, c, w, r, func(*store.Tx, store.DirectoryUser) (user, error) {
		given := u
		given.hasGroups = f.UserMode // those that are left out are none
		return given, nil
	})
}

func (f *family) patchUser(ctx context.Context, c *route.Caller, w http.ResponseWriter, r *http.Request) error {
	if err := checkType(r); err != nil {
		return answer(w, err)
	}
	operations, err := scim.DecodePatch(c.Body())
	if err != nil {
		return answer(w, err)
	}
	return f.changeUser(ctx, c, w, r, func(tx *store.Tx, row store.DirectoryUser) (user, error) {
		current, err := f.current(ctx, c, tx, &row)
		if err != nil {
			return user{}, err
		}
		after, err := f.users.Patch(current, operations)
		if err != nil {
			return user{}, err
		}
		u, err := f.readUser(after)
		u.hasGroups = f.UserMode
		return u, err
	})
}

// current returns the attributes that operations change: in user mode, groups are among them.
func (f *family) current(ctx context.Context, c *route.Caller, tx *store.Tx, row *store.DirectoryUser) (scim.Object, error) {
	o, err := attributesOf(row)
	if err != nil || !f.UserMode {
		return o, err
	}
	list, err := tx.UserGroups(ctx, c.Organisation, []string{row.ID})
	var groups []any
	for _, m := range list {
		groups = append(groups, scim.Object{"value": m.Group})
	}
	if groups != nil {
		o["groups"] = groups
	}
	return o, err
}

// changeUser changes a user to what edit returns, and writes the response.
func (f *family) changeUser(ctx context.Context, c *route.Caller, w http.ResponseWriter, r *http.Request,
	edit func(*store.Tx, store.DirectoryUser) (user, error)) error {
	id := r.PathValue("user")
	c.SetAuditSubject("", id)
	if _, err := projection(r, f.users); err != nil {
		return answer(w, err)
	}
	var row store.DirectoryUser
	err := c.Change(ctx, func(tx *store.Tx) error {
		before, err := findUser(ctx, c, tx.Queries, id)
		if err == nil {
			err = checkMatch(r, before.Version)
		}
		if err != nil {
			return err
		}
		u, err := edit(tx, before)
		if err == nil {
			row, err = f.updateUser(ctx, c, tx, u, before)
		}
		return err
	})
	if err != nil {
		return answer(w, inUse(err))
	}
	return f.writeUser(ctx, c, w, r, row)
}

// updateUser stores what differs from before and returns the user after it. The access of a
// deactivated user ends first.
func (f *family) updateUser(ctx context.Context, c *route.Caller, tx *store.Tx, u user,
	before store.DirectoryUser) (store.DirectoryUser, error) {
	after, err := u.row(before)
	if err != nil {
		return before, err
	}
	if before.Active && !after.Active {
		if err := endAccess(ctx, c, tx, before.ID); err != nil {
			return before, err
		}
		if err := tx.SetMemberStatus(ctx, c.Organisation, before.ID, deactivated, c.Now); err != nil {
			return before, err
		}
	}
	if !before.Active && after.Active {
		if err := tx.SetMemberStatus(ctx, c.Organisation, before.ID, store.Active, c.Now); err != nil {
			return before, err
		}
	}
	if err := f.putGroups(ctx, c, tx, u, before.ID); err != nil {
		return before, err
	}
	if bytes.Equal(before.Attributes, after.Attributes) && before.Active == after.Active {
		return before, nil
	}
	account := u.account(c, before.ID)
	if err := f.checkFree(ctx, c, tx, after, account.Email); err != nil {
		return before, err
	}
	if err := tx.SetUserProfile(ctx, c.Organisation, account); err != nil {
		return before, err
	}
	after.Version, after.UpdatedAt = before.Version+1, c.NextUpdateTime(before.UpdatedAt)
	return after, tx.UpdateDirectoryUser(ctx, after)
}

// endAccess revokes the keys of a user and ends their sessions, unless they are the last owner.
// The service keys that they created are in the audit log, and are revoked too if the
// organisation asks for it.
func endAccess(ctx context.Context, c *route.Caller, tx *store.Tx, id string) error {
	m, err := tx.Membership(ctx, c.Organisation, id)
	if err != nil {
		return err
	}
	if m.Role == "owner" {
		if n, err := tx.OtherOwners(ctx, c.Organisation, id); err != nil || n == 0 {
			return orError(err, &scim.Error{Status: http.StatusConflict,
				Detail: "the last owner of the organisation cannot be deactivated or deleted; make somebody else owner first"})
		}
	}
	o, err := tx.Organisation(ctx, c.Organisation)
	if err != nil {
		return err
	}
	made, err := tx.MadeKeys(ctx, c.Organisation, id)
	if err != nil {
		return err
	}
	if err := tx.EndAccess(ctx, c.Organisation, id, c.Now); err != nil {
		return err
	}
	revoke := o.Settings.Directory.OrDefault().RevokeServiceKeys
	if revoke {
		if err := tx.RevokeMadeKeys(ctx, c.Organisation, made, c.Now); err != nil {
			return err
		}
	}
	return noteEnd(ctx, c, tx, id, endedAccess{made, revoke})
}

func orError(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// endedAccess is what the audit log stores of the end of a user's access.
type endedAccess struct {
	ServiceKeys []string `json:"service_keys"`
	Revoked     bool     `json:"service_keys_revoked"`
}

// noteEnd writes the event of the end of a user's access.
func noteEnd(ctx context.Context, c *route.Caller, tx *store.Tx, id string, ended endedAccess) error {
	if ended.ServiceKeys == nil {
		ended.ServiceKeys = []string{}
	}
	body, err := json.Marshal(ended)
	if err != nil {
		return err
	}
	return tx.Note(ctx, &store.Audit{
		ID: c.NewID(), Organisation: c.Organisation, Time: c.Now, Method: "SCIM", URI: base + "/Users/" + id, QueryParams: "{}",
		RequestHeaders: "{}", RequestBody: string(body), RequestID: c.RequestID, UserID: c.KeyID, UserType: "directory", Status: http.StatusOK,
		ResourceType: "user", ResourceID: id, Action: "end_access", ClientIP: c.ClientIP(),
	})
}

// putGroups makes a user a member of exactly the groups that a request names, in user mode.
func (f *family) putGroups(ctx context.Context, c *route.Caller, tx *store.Tx, u user, id string) error {
	if !f.UserMode || !u.hasGroups {
		return nil
	}
	want := make(map[string]bool, len(u.groups))
	for _, ref := range u.groups {
		g, err := groupByRef(ctx, c, tx, ref)
		if err != nil {
			return err
		}
		want[g.ID] = true
	}
	have, err := tx.UserGroups(ctx, c.Organisation, []string{id})
	if err != nil {
		return err
	}
	changed := false
	for _, m := range have {
		if want[m.Group] {
			delete(want, m.Group)
			continue
		}
		changed = true
		if _, err := tx.RemoveGroupMembers(ctx, m.Group, []string{id}); err != nil {
			return err
		}
	}
	for group := range want {
		changed = true
		if _, err := tx.AddGroupMembers(ctx, group, []string{id}); err != nil {
			return err
		}
	}
	if !changed {
		return nil
	}
	return tx.RefreshRoles(ctx, c.Organisation, []string{id}, c.Now)
}

// groupByRef returns the group of the directory with this id or name.
func groupByRef(ctx context.Context, c *route.Caller, tx *store.Tx, ref string) (store.DirectoryGroup, error) {
	g, err := tx.DirectoryGroup(ctx, c.Organisation, ref)
	if apierr.IsNotFound(err) {
		g, err = tx.DirectoryGroupByName(ctx, c.Organisation, fold(ref))
	}
	if apierr.IsNotFound(err) || err == nil && !g.Provisioned {
		return g, scim.Errorf(scim.InvalidValue, "groups: group %.60q not found", ref)
	}
	return g, err
}
