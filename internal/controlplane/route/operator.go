package route

import (
	"encoding/json"
	"net/http"
	"net/url"

	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// fileActor is the creator of objects that come from a file.
const fileActor = "file"

// Operator returns the caller of handlers that run as part of one change of an
// organisation, without requests: they read and write in tx, and write no audit events.
// The operator of the database may do everything, and restores the state that a file
// describes; see [Caller.Restores].
func (a *API) Operator(tx *store.Tx, organisation string) *Caller {
	r := &http.Request{URL: &url.URL{}}
	c := a.caller(r, new(Route))
	c.tx = tx
	c.identify(&access.Identity{KeyID: fileActor, Type: access.OrganisationService, Name: fileActor,
		Organisation: organisation, Scopes: []access.Scope{access.ScopeAll}})
	return c
}

// Delegate returns the caller of a request as one who calls handlers for changes in tx, as an
// [API.Operator] does: their changes are part of the request's, whose audit event covers all.
// They have the request's rights and are made with the API's dependencies.
func (a *API) Delegate(tx *store.Tx, by *Caller) *Caller {
	c := *by
	c.api, c.tx = a, tx
	return &c
}

// ObjectEvent returns an audit event for a change of one object that the request makes among
// others. Kind is the type of the object, action what happens to it, and fields are the names
// of those that change.
func (c *Caller) ObjectEvent(kind, name, action string, fields []string) *store.Audit {
	row := c.audit
	row.ID, row.Workspace, row.ResourceType, row.ResourceID, row.Action = c.NewID(), "", kind, name, action
	row.QueryParams, row.RequestHeaders, row.RequestBody = "{}", "{}", string(fieldNames(fields))
	return &row
}

// fieldNames returns the body of an event about fields.
func fieldNames(fields []string) []byte {
	text, err := json.Marshal(map[string][]string{"fields": append([]string{}, fields...)})
	if err != nil {
		return []byte("{}")
	}
	return text
}

// Restores reports whether the caller restores a state. A state may be what a request
// cannot ask for: its times may lie in the past.
func (c *Caller) Restores() bool { return c.tx != nil }
