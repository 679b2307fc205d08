package route

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// Operation is a request that is made without HTTP, by the operator of the database.
type Operation struct {
	Organisation string // id
	Method, Path string // the path without /v1
	Body         json.RawMessage
	Entry        Entry
}

// Entry is what an entry of a file sets in addition to the members of a request.
type Entry struct {
	SecretHash, Mask string   // of a secret that exists already, instead of a new one
	Providers        []string // to which a key is limited
	MadeByGrant      bool     // the provider came with the access to its integration
}

// fileActor is the creator of objects that come from a file.
const fileActor = "file"

// Do runs the handler of a route as part of a change: it reads and writes in tx, and
// writes no audit event. An error of the handler is returned as it is; other errors are
// *apierr.Error.
func (a *API) Do(ctx context.Context, tx *store.Tx, o Operation) error {
	r, err := http.NewRequestWithContext(ctx, o.Method, api.BasePath+o.Path, bytes.NewReader(o.Body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	pattern, _ := a.mux.find(r)
	route := a.routes[pattern]
	if route == nil {
		return apierr.New(apierr.NotFound, "no route %s %s", o.Method, o.Path)
	}
	c := a.caller(r, route)
	c.identify(&access.Identity{
		KeyID: fileActor, Type: access.OrganisationService, Name: fileActor, Organisation: o.Organisation, Scopes: []access.Scope{access.ScopeAll},
	})
	c.body, c.tx, c.entry = o.Body, tx, &o.Entry
	if err := a.checkBody(r, route, c); err != nil {
		return err
	}
	out := &bufferedResponse{header: make(http.Header), status: http.StatusOK}
	a.mux.ServeHTTP(out, r.WithContext(withCaller(ctx, c)))
	if c.failed != nil || out.status == http.StatusOK {
		return c.failed
	}
	return decodeFailure(out.body.Bytes())
}

// Entry returns the entry of a file that the request is about, nil for a request of a
// client. An entry restores a state, so its times may lie in the past.
func (c *Caller) Entry() *Entry { return c.entry }

// decodeFailure returns the error that a response describes.
func decodeFailure(body []byte) error {
	var f struct {
		Data struct {
			Code string `json:"errorCode"`
		} `json:"data"`
		Error struct{ Message, Param string } `json:"error"`
	}
	if err := json.Unmarshal(body, &f); err != nil {
		return err
	}
	return apierr.New(apierr.Invalid, "%s", strings.TrimPrefix(f.Error.Message, f.Data.Code+": ")).WithParam(f.Error.Param)
}
