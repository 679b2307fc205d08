package directory

import (
	"context"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/identity/scim"
	"modelgate/internal/store"
)

// Limits of names, in characters.
const maxName = 255

// user is a user as a request describes them.
type user struct {
	attributes scim.Object
	groups     []string // ids or names; only in user mode
	hasGroups  bool
}

// readUser returns the user with these attributes. It adds what is left out.
func (f *family) readUser(attributes scim.Object) (u user, err error) {
	name := scim.Text(attributes, "userName")
	switch {
	case name == "":
		return u, scim.Errorf(scim.InvalidValue, "userName is required")
	case utf8.RuneCountInString(name) > maxName:
		return u, scim.Errorf(scim.InvalidValue, "userName must be at most %d characters long", maxName)
	}
	if attributes["active"] == nil {
		attributes["active"] = true
	}
	u.attributes = attributes
	if _, u.hasGroups = attributes["groups"]; u.hasGroups {
		for _, g := range scim.Elements(attributes, "groups") {
			u.groups = append(u.groups, scim.Text(g, "value"))
		}
		delete(attributes, "groups")
	}
	return u, nil
}

// row returns the user in stored form, on top of the fields that the row before has.
func (u user) row(before store.DirectoryUser) (store.DirectoryUser, error) {
	raw, err := json.Marshal(u.attributes)
	if err != nil {
		return before, err
	}
	fold := func(path ...string) string { return strings.ToLower(scim.Text(u.attributes, path...)) }
	out := before
	out.NameKey, out.ExternalID, out.DisplayKey = fold("userName"), scim.Text(u.attributes, "externalId"), fold("displayName")
	out.GivenKey, out.FamilyKey = fold("name", "givenName"), fold("name", "familyName")
	out.Active, out.Attributes, out.Emails = u.attributes["active"] == true, raw, nil
	for _, e := range scim.Elements(u.attributes, "emails") {
		out.Emails = append(out.Emails, store.DirectoryEmail{Value: strings.ToLower(scim.Text(e, "value")),
			Type: strings.ToLower(scim.Text(e, "type")), Primary: e["primary"] == true})
	}
	return out, nil
}

// email returns the address with which the user signs in: of those that the directory sends,
// the primary one or that of work, otherwise the user name. A user without any has one that
// receives nothing.
func (u user) email(id string) string {
	best, rank := "", 0
	for _, e := range scim.Elements(u.attributes, "emails") {
		address, err := access.ParseEmail(scim.Text(e, "value"))
		r := 1
		if e["primary"] == true {
			r += 2
		}
		if strings.EqualFold(scim.Text(e, "type"), "work") {
			r++
		}
		if err == nil && r > rank {
			best, rank = address, r
		}
	}
	if best != "" {
		return best
	}
	if address, err := access.ParseEmail(scim.Text(u.attributes, "userName")); err == nil {
		return address
	}
	return id + "@directory.invalid"
}

// account returns the user of the organisation that the directory describes.
func (u user) account(c *route.Caller, id string) store.User {
	first, last := scim.Text(u.attributes, "name", "givenName"), scim.Text(u.attributes, "name", "familyName")
	if first == "" && last == "" {
		first = scim.Text(u.attributes, "displayName")
	}
	return store.User{ID: id, Email: u.email(id), FirstName: cut(first), LastName: cut(last), Status: store.Active, Role: access.Member,
		CreatedAt: c.Now, UpdatedAt: c.Now}
}

// cut returns at most maxName characters.
func cut(s string) string {
	if utf8.RuneCountInString(s) <= maxName {
		return s
	}
	return string([]rune(s)[:maxName])
}

// attributesOf returns the stored attributes of a user.
func attributesOf(row *store.DirectoryUser) (scim.Object, error) {
	var o scim.Object
	if err := json.Unmarshal(row.Attributes, &o); err != nil {
		return nil, err
	}
	o["active"] = row.Active
	return o, nil
}

// showUsers returns users as objects. Groups are read only if the projection has them.
func (f *family) showUsers(ctx context.Context, c *route.Caller, rows []store.DirectoryUser, p scim.Projection) ([]scim.Object, error) {
	groups := make(map[string][]any)
	if p.Selects("groups") {
		ids := make([]string, len(rows))
		for i := range rows {
			ids[i] = rows[i].ID
		}
		list, err := c.DB().UserGroups(ctx, c.Organisation, ids)
		if err != nil {
			return nil, err
		}
		for _, m := range list {
			groups[m.User] = append(groups[m.User], scim.Object{"value": m.Group, "display": m.GroupName, "type": "direct",
				"$ref": location(c, "/Groups/"+m.Group)})
		}
	}
	out := make([]scim.Object, len(rows))
	for i := range rows {
		o, err := attributesOf(&rows[i])
		if err != nil {
			return nil, err
		}
		if list := groups[rows[i].ID]; list != nil {
			o["groups"] = list
		}
		out[i] = p.Apply(withMeta(c, o, &rows[i]))
	}
	return out, nil
}

// withMeta adds what the server sets.
func withMeta(c *route.Caller, o scim.Object, row *store.DirectoryUser) scim.Object {
	urns := []any{scim.UserURN}
	if o[scim.EnterpriseURN] != nil {
		urns = append(urns, scim.EnterpriseURN)
	}
	o["schemas"], o["id"] = urns, row.ID
	o["meta"] = scim.Object{
		"resourceType": "User", "created": stamp(row.CreatedAt), "lastModified": stamp(row.UpdatedAt), "version": etag(row.Version),
		"location": location(c, "/Users/"+row.ID),
	}
	return o
}
