// Package directory implements SCIM 2.0, by which the directory of an organisation writes its
// users and groups, and the control plane's routes for the tokens of directories and for the
// roles that groups give.
//
// It guarantees that a directory reads and writes only what it has created in its own
// organisation, that the keys and sessions of a deactivated user end before the response, that
// the last owner stays, and that no membership set by hand is removed. It does not sign users in
// (see sessions) or parse filters and paths (see identity/scim).
package directory

import (
	"context"
	"net/http"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/identity/scim"
	"modelgate/internal/store"
)

// Routes are the routes of directories.
type Routes struct {
	// UserMode makes the attribute groups of users writable, and ignores members that requests
	// send for groups.
	UserMode bool

	// CheckEmail returns an error, for clients, unless the directory of an organisation may
	// create users with an e-mail address. Nil allows every address.
	CheckEmail func(ctx context.Context, q store.Queries, organisation, email string) error
}

const (
	base        = "/scim/v2"
	maxGroupReq = 16 << 20 // of a body with members, in bytes
)

// family is what handlers of SCIM need.
type family struct {
	Routes
	users  *scim.Type
	groups *scim.Type
}

// Add adds the routes.
func (r Routes) Add(a *route.API) {
	f := &family{Routes: r, users: scim.NewUserType(r.UserMode), groups: scim.NewGroupType()}
	addTokens(a)
	addMappings(a)
	for _, d := range f.declarations() {
		d.Tag, d.Also = "SCIM", []string{base + d.Path}
		d.Path = base + d.Path
		protocol.Add(a, d.Route, d.handler)
	}
}

// protocol is SCIM.
var protocol = &route.Protocol{Holder: access.Directory, WriteError: writeError}

// declaration is a route of SCIM with its handler. Its path is relative to the base.
type declaration struct {
	route.Route
	handler route.Handler
}

func (f *family) declarations() []declaration {
	const user, group = "user", "directory_group"
	list := []declaration{
		declare(http.MethodGet, "/Users", "", "List the users of the directory", f.listUsers),
		declare(http.MethodPost, "/Users", user, "Create a user", f.createUser),
		declare(http.MethodPost, "/Users/.search", "", "Search users with parameters in the body", searched(f.listUsers)),
		declare(http.MethodGet, "/Users/{user}", "", "Read a user", f.getUser),
		declare(http.MethodPut, "/Users/{user}", user, "Replace a user", f.replaceUser),
		declare(http.MethodPatch, "/Users/{user}", user, "Change a user", f.patchUser),
		declare(http.MethodDelete, "/Users/{user}", user, "Remove a user from the organisation", f.deleteUser),
		declare(http.MethodPost, "/.search", "", "Search users and groups", searched(f.listAll)),
		declare(http.MethodGet, "/Groups", "", "List the groups of the directory", f.listGroups),
		declare(http.MethodPost, "/Groups", group, "Create a group", f.createGroup),
		declare(http.MethodPost, "/Groups/.search", "", "Search groups with parameters in the body", searched(f.listGroups)),
		declare(http.MethodGet, "/Groups/{group}", "", "Read a group", f.getGroup),
		declare(http.MethodPut, "/Groups/{group}", group, "Replace a group", f.replaceGroup),
		declare(http.MethodPatch, "/Groups/{group}", group, "Change a group and its members", f.patchGroup),
		declare(http.MethodDelete, "/Groups/{group}", group, "Delete a group", f.deleteGroup),
		declare(http.MethodGet, "/ServiceProviderConfig", "", "Read what the server supports", f.config),
		declare(http.MethodGet, "/Schemas", "", "List the schemas", f.listSchemas),
		declare(http.MethodGet, "/Schemas/{schema}", "", "Read a schema", f.getSchema),
		declare(http.MethodGet, "/ResourceTypes", "", "List the types of objects", f.listTypes),
		declare(http.MethodGet, "/ResourceTypes/{type}", "", "Read a type of objects", f.getType),
	}
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		list = append(list, declare(method, "/{rest...}", "", "Report what is not supported", refuseUnknown))
	}
	for i := range list {
		if list[i].Resource == group {
			list[i].MaxBody = maxGroupReq
		}
		list[i].Bulk = "members"
	}
	return list
}

func declare(method, path, resource, summary string, h route.Handler) declaration {
	name := "scim " + method + " " + path
	return declaration{route.Route{Method: method, Path: path, Name: name, Resource: resource, Summary: summary}, h}
}
