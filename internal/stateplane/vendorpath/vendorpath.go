// Package vendorpath serves the files and batches of clients that speak another protocol
// than that of OpenAI: Anthropic's files and batches of messages, and Gemini's files and batches.
//
// They are at managed providers. Requests and responses stay as they are; a record says
// whose an object is, lists have the objects of the workspace only, and an object without a
// record is answered like an unknown one.
package vendorpath

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/provider"
	"modelgate/internal/stateplane/files"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/store"
)

// Serve serves a request of a client of another protocol, and reports whether its path is
// one of this package.
func Serve(q *kept.Request) (served bool, err error) {
	switch q.From.Protocol {
	case api.DialectGemini:
		if q.From.Operation == api.Batches {
			return true, serveGeminiBatches(q)
		}
		return true, serveGemini(q)
	case api.DialectMessages:
		if rest, ok := strings.CutPrefix(q.From.Path, "/messages/batches"); ok {
			return true, serveBatches(q, strings.TrimPrefix(rest, "/"))
		}
		if rest, ok := strings.CutPrefix(q.From.Path, "/files"); ok && !namesOther(q, api.DialectMessages) {
			return true, serveFiles(q, strings.TrimPrefix(rest, "/"))
		}
	}
	return false, nil
}

// namesOther reports whether a request names a managed provider that does not have the files
// of a dialect. One that does not exist is reported when it is asked.
func namesOther(q *kept.Request, d api.Dialect) bool {
	if q.From.Provider == "" {
		return false
	}
	t, _, err := q.Target(q.From.Provider)
	return err == nil && !offers(t, d)
}

// offers reports whether a provider has the files of a dialect.
func offers(t *provider.Target, d api.Dialect) bool {
	_, ok := t.Paths[api.Files]
	return ok && t.Dialect == d
}

// find returns an object of the workspace. If there is none, and the request may be one with
// credentials of the client, it is passed through.
func find(q *kept.Request, kind, id string) (o store.Object, passed bool, err error) {
	o, err = q.Find(kind, id)
	switch {
	case apierr.IsNotFound(err) && mayPass(q):
		return o, true, q.Pass(kind)
	case err == nil && o.ProviderID == "": // it is being created, or its provider never described it
		err = kept.NotFound(kind, "id")
	}
	return o, false, err
}

// mayPass reports whether a request for an object without a record may pass through.
func mayPass(q *kept.Request) bool { return q.Deps.Limits.Unrecorded || q.MayPass() }

// listsThere reports whether a list is that of the provider, with whatever its account has.
func listsThere(q *kept.Request) bool { return q.Deps.Limits.Unrecorded || q.MayPass() && q.Names() }

// create makes a provider create an object, which adopt reads from the response.
func create(q *kept.Request, kind, prefix string, adopt func(o *store.Object, body []byte) error) (*kept.Capture, error) {
	o := q.NewObject(kind, prefix)
	o.Provider = q.From.Provider
	if o.Provider != "" && q.From.Config == "" {
		_, integration, err := q.Target(o.Provider)
		if err != nil {
			return nil, err
		}
		o.Integration = integration
	}
	return q.Create(&o, q.Forwarded(q.From.Provider), func(body []byte) error { return adopt(&o, body) })
}

// relay passes the request on to the provider of an object.
func relay(q *kept.Request, o *store.Object) error {
	if _, _, err := q.Target(o.Provider); err != nil {
		return err
	}
	q.From.Relay(q.W, q.ForwardedTo(o), q.CallTo(o.Provider))
	return nil
}

// show asks the provider of an object for it, and stores what it says.
func show(q *kept.Request, o *store.Object, adopt func(o *store.Object, body []byte) error) error {
	if _, _, err := q.Target(o.Provider); err != nil {
		return err
	}
	var res kept.Capture
	q.From.Relay(&res, q.ForwardedTo(o), q.CallTo(o.Provider))
	if res.OK() {
		if err := update(q, o, res.Body, adopt); err != nil {
			return err
		}
	}
	return res.Send(q.W)
}

// update stores what a provider says of an object. If others have just changed its record,
// their change stays.
func update(q *kept.Request, o *store.Object, body []byte, adopt func(o *store.Object, body []byte) error) error {
	was := o.ProviderID
	if adopt(o, body) != nil || o.ProviderID != was { // the client gets what the provider sent
		return nil
	}
	o.UpdatedAt = q.Deps.Now()
	err := q.Change(func(tx *store.Tx) error { return tx.UpdateObject(context.WithoutCancel(q.HTTP.Context()), o) })
	if k := apierr.From(err); err != nil && (k.Kind == apierr.Conflict || k.Kind == apierr.NotFound) {
		return nil
	}
	return err
}

// descriptionOf returns an object as its provider described it.
func descriptionOf(o *store.Object) (json.RawMessage, error) {
	d, err := files.DetailsOf(o)
	return d.Shown, err
}

// describe stores the description of an object in its record.
func describe(o *store.Object, d files.Details, id, state, expires string) (err error) {
	o.ProviderID, o.State = id, state
	if at, err := time.Parse(time.RFC3339, expires); err == nil {
		o.ExpiresAt = at
	}
	o.Data, err = json.Marshal(d)
	return err
}

// cursorPage is a page of a list in the protocol of Anthropic.
type cursorPage struct {
	Data     []json.RawMessage `json:"data"`
	HasMore  bool              `json:"has_more"`
	FirstID  *string           `json:"first_id"`
	LastID   *string           `json:"last_id"`
	NextPage *string           `json:"next_page,omitempty"`
}

// pagePrefix is the beginning of a cursor that is not the id of an object.
const pagePrefix = "page_"

// listPage returns the objects that a query asks for: those after an id, or those right
// before one, both the newest first.
func listPage(q *kept.Request, kind string, query url.Values) (list []store.Object, more bool, err error) {
	x := store.ObjectQuery{Workspace: q.From.Identity.Workspace, Kind: kind, Provider: q.From.Provider, Limit: 20, AtProvider: true}
	if text := query.Get("limit"); query.Has("limit") {
		if x.Limit, err = strconv.Atoi(text); err != nil || x.Limit < 1 || x.Limit > 1000 {
			return nil, false, apierr.New(apierr.Invalid, "limit must be an integer from 1 to 1000, not %.40q", text).WithParam("limit")
		}
	}
	for _, name := range [...]string{"after_id", "before_id", "page"} {
		text := query.Get(name)
		if text == "" {
			continue
		}
		if x.After != "" {
			return nil, false, apierr.New(apierr.Invalid, "%s and another cursor exclude each other; send one of them", name).WithParam(name)
		}
		last, err := q.Find(kind, strings.TrimPrefix(text, pagePrefix))
		if err != nil {
			return nil, false, kept.NotFound(kind, name)
		}
		x.After, x.Ascending = last.ID, name == "before_id"
	}
	list, more, err = q.Deps.DB.Objects(q.HTTP.Context(), x)
	if x.Ascending {
		for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
			list[i], list[j] = list[j], list[i]
		}
	}
	return list, more, q.Deps.DB.ClientError(err)
}

// newPage returns a page of objects.
func newPage(list []store.Object, more bool) (p cursorPage, err error) {
	p = cursorPage{Data: make([]json.RawMessage, len(list)), HasMore: more}
	for i := range list {
		if p.Data[i], err = descriptionOf(&list[i]); err != nil {
			return p, err
		}
	}
	if len(list) > 0 {
		p.FirstID, p.LastID = &list[0].ProviderID, &list[len(list)-1].ProviderID
	}
	return p, nil
}

// noRoute returns the error for a path below a family that is not a route.
func noRoute(q *kept.Request) error {
	if mayPass(q) {
		return q.Pass("object")
	}
	return apierr.New(apierr.NotFound, "%s %.100s is not a route of objects that are kept; its documentation is at /reference",
		q.HTTP.Method, q.From.Path)
}
