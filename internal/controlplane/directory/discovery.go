package directory

import (
	"context"
	"net/http"
	"strings"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/scim"
)

// config answers what the server supports.
func (f *family) config(_ context.Context, c *route.Caller, w http.ResponseWriter, _ *http.Request) error {
	supported := func(yes bool) scim.Object { return scim.Object{"supported": yes} }
	filter, bulk := supported(true), supported(false)
	filter["maxResults"] = maxCount
	bulk["maxOperations"], bulk["maxPayloadSize"] = 0, 0
	return write(w, http.StatusOK, scim.Object{
		"schemas": []string{scim.ConfigURN}, "patch": supported(true), "bulk": bulk, "filter": filter,
		"changePassword": supported(false), "sort": supported(false), "etag": supported(true),
		"authenticationSchemes": []scim.Object{{
			"type": "oauthbearertoken", "name": "Bearer token", "primary": true,
			"description": "A token of the organisation's directory, in the header Authorization",
			"specUri":     "https://www.rfc-editor.org/rfc/rfc6750",
		}},
		"meta": scim.Object{"resourceType": "ServiceProviderConfig", "location": location(c, "/ServiceProviderConfig")},
	})
}

// described is what the server announces.
type described struct {
	id     string
	object scim.Object
}

func (f *family) schemas(c *route.Caller) (list []described) {
	for _, s := range scim.Schemas(f.users, f.groups) {
		list = append(list, described{s.URN, s.Describe(location(c, ""))})
	}
	return list
}

func (f *family) types(c *route.Caller) []described {
	return []described{{f.users.Name, f.users.Describe(location(c, ""))}, {f.groups.Name, f.groups.Describe(location(c, ""))}}
}

func (f *family) listSchemas(_ context.Context, c *route.Caller, w http.ResponseWriter, r *http.Request) error {
	return writeDescribed(w, r, f.schemas(c))
}

func (f *family) getSchema(_ context.Context, c *route.Caller, w http.ResponseWriter, r *http.Request) error {
	return writeOneDescribed(w, r.PathValue("schema"), f.schemas(c))
}

func (f *family) listTypes(_ context.Context, c *route.Caller, w http.ResponseWriter, r *http.Request) error {
	return writeDescribed(w, r, f.types(c))
}

func (f *family) getType(_ context.Context, c *route.Caller, w http.ResponseWriter, r *http.Request) error {
	return writeOneDescribed(w, r.PathValue("type"), f.types(c))
}

// writeDescribed writes a list that cannot be filtered.
// https://www.rfc-editor.org/rfc/rfc7644#section-4
func writeDescribed(w http.ResponseWriter, r *http.Request, list []described) error {
	if r.URL.Query().Get("filter") != "" {
		writeSCIMError(w, &scim.Error{Status: http.StatusForbidden, Detail: "this list cannot be filtered"})
		return nil
	}
	objects := make([]scim.Object, len(list))
	for i := range list {
		objects[i] = list[i].object
	}
	return writeList(w, 1, len(objects), objects)
}

func writeOneDescribed(w http.ResponseWriter, id string, list []described) error {
	for _, d := range list {
		if strings.EqualFold(d.id, id) {
			return write(w, http.StatusOK, d.object)
		}
	}
	writeSCIMError(w, notFound("object", id))
	return nil
}
