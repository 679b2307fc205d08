// Package calls serves realtime calls, whose media flow between a client and a provider
// directly.
//
// A call has a record of its workspace, without which nobody joins, accepts or ends it. A job
// counts what the call uses, by a connection of its own, and ends the call when its key may
// not go on. The data plane serves connections of clients that join a call.
package calls

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/store"
)

// Keeper keeps the calls of clients. It is safe for concurrent use.
type Keeper struct {
	deps  *kept.Deps
	meter bool
}

// New returns a keeper. If meter is false, nobody counts what calls use: the data plane
// refuses them for keys with limits.
func New(d *kept.Deps, meter bool) *Keeper { return &Keeper{deps: d, meter: meter} }

// States of a call.
const (
	stateInProgress = "in_progress"
	stateEnded      = "ended"
)

// keepFor is how long the record of a call is kept. Vendors end calls after an hour or two.
const keepFor = 24 * time.Hour

// details is what the record of a call contains.
type details struct {
	Root    string `json:"root"`            // path of its kind of calls, below /v1
	Model   string `json:"model,omitempty"` // without the provider
	Key     string `json:"key,omitempty"`   // hash of the gateway key
	Metered bool   `json:"metered,omitempty"`
	TraceID string `json:"trace_id,omitempty"`
	Reason  string `json:"reason,omitempty"` // why the gateway has ended it
}

func detailsOf(o *store.Object) (d details, err error) {
	err = json.Unmarshal(o.Data, &d)
	return d, err
}

func (d *details) text() json.RawMessage {
	b, err := json.Marshal(d)
	if err != nil {
		panic(err) // of texts
	}
	return b
}

// roots are the paths of calls, and the paths of the connections that join them.
var roots = map[string]string{"/realtime/calls": "/realtime", "/realtime/translations/calls": "/realtime/translations"}

// verbs are the requests to one call.
var verbs = map[string]bool{"accept": true, "refer": true, "reject": true, "hangup": true}

// Serve serves a request to calls.
func (k *Keeper) Serve(q *kept.Request) error {
	for root := range roots {
		rest, ok := strings.CutPrefix(q.From.Path, root)
		id, verb, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
		switch {
		case !ok || q.HTTP.Method != http.MethodPost:
		case rest == "":
			return k.create(q, root)
		case id != "" && verbs[verb]:
			return k.act(q, id, verb)
		}
	}
	return kept.NoRoute(q)
}

// Find returns a call of a workspace, for a connection that joins it.
func (k *Keeper) Find(ctx context.Context, workspace, id string) (dataplane.KeptCall, error) {
	o, err := k.deps.DB.Object(ctx, workspace, store.ObjectCall, id)
	switch {
	case apierr.IsNotFound(err) || err == nil && o.ProviderID == "":
		return dataplane.KeptCall{}, kept.NotFound(store.ObjectCall, "id")
	case err != nil:
		return dataplane.KeptCall{}, k.deps.DB.ClientError(err)
	}
	d, err := detailsOf(&o)
	return dataplane.KeptCall{Provider: o.Provider, ID: o.ProviderID, Metered: d.Metered}, err
}

// create begins a call. The client gets the answer once it is certain that somebody counts
// what the call uses: without the answer, no media flow.
func (k *Keeper) create(q *kept.Request, root string) error {
	offer, err := readOffer(q)
	if err != nil {
		return err
	}
	provider := q.From.Provider
	if provider == "" && !q.Names() && offer.provider != "" {
		provider = offer.provider
	}
	d := details{Root: root, Model: offer.model, Metered: k.meter, TraceID: q.From.TraceID}
	if k.meter {
		if _, err := k.deps.KeyOwner(q.From.Identity.Hash, k.deps.Now()); err != nil {
			return apierr.New(apierr.Invalid, "a call needs a gateway key: a session or a token may end before the call does").
				WithParam("x-gateway-api-key").WithCode("call_needs_key")
		}
		d.Key = q.From.Identity.Hash.String()
	}
	o := q.NewObject(store.ObjectCall, "rtc_")
	o.Provider, o.Data, o.ExpiresAt = provider, d.text(), o.CreatedAt.Add(keepFor)
	if _, integration, err := q.Target(provider); err == nil { // the call reports another
		o.Integration = integration
	}
	r := offer.request(q, provider)
	call := q.CallTo(provider)
	call.Metered = k.meter
	res, err := q.CreateBy(&o, r, call, func(res *kept.Capture) error {
		return adopt(&o, res.Header().Get("Location"))
	})
	switch {
	case err != nil:
		return err
	case o.State == kept.StateUnknown:
		return kept.RefuseUnreadable(store.ObjectCall)
	case o.State != stateInProgress: // refused, or one of the client's own account
		return res.Send(q.W)
	}
	if k.meter {
		if err := k.startFollowing(q, &o); err != nil {
			return err
		}
	}
	res.Header().Set("Location", q.From.Address(q.HTTP)+api.BasePath+root+"/"+url.PathEscape(o.ShownID()))
	return res.Send(q.W)
}

// adopt completes the record of a call by the address that the provider has given it.
func adopt(o *store.Object, location string) error {
	location, _, _ = strings.Cut(location, "?")
	_, id, found := strings.Cut(location, "/calls/")
	if id = strings.Trim(id, "/"); !found || id == "" || len(id) > maxID || strings.ContainsAny(id, "/%\\") {
		return kept.RefuseUnreadable(store.ObjectCall)
	}
	o.ProviderID, o.State = id, stateInProgress
	return nil
}

// maxID limits the ids of providers in bytes.
const maxID = 200

// startFollowing queues the job that counts what a call uses. If that fails, the call ends.
func (k *Keeper) startFollowing(q *kept.Request, o *store.Object) error {
	j := store.Job{ID: k.deps.NewID(), Kind: store.JobCall, Subject: o.ID, Organisation: o.Organisation, Workspace: o.Workspace,
		NextAt: o.CreatedAt, CreatedAt: o.CreatedAt}
	ctx := context.WithoutCancel(q.HTTP.Context())
	if err := q.Change(func(tx *store.Tx) error { return tx.AddJob(ctx, j) }); err != nil {
		if e := k.hangUp(ctx, o); e != nil {
			k.deps.Logger.Error("a call is not counted and could not be ended", "call", o.ID, "err", e.Error())
		}
		return k.deps.DB.ClientError(err)
	}
	k.deps.Queued()
	return nil
}

// act passes a request to a call of the workspace on.
func (k *Keeper) act(q *kept.Request, id, verb string) error {
	o, err := q.Find(store.ObjectCall, id)
	switch {
	case apierr.IsNotFound(err) && q.MayPass():
		return q.Pass(store.ObjectCall)
	case err != nil:
		return err
	case o.ProviderID == "":
		return kept.NotFound(store.ObjectCall, "id")
	}
	if _, _, err := q.Target(o.Provider); err != nil {
		return err
	}
	var res kept.Capture
	call := q.CallTo(o.Provider)
	call.Manages, call.Metered = true, true // the record says so, or that its workspace needs no count
	q.From.Relay(&res, q.ForwardedTo(&o), call)
	if res.OK() && (verb == "hangup" || verb == "reject") {
		if err := k.end(context.WithoutCancel(q.HTTP.Context()), &o, ""); err != nil {
			k.deps.Logger.Warn("the end of a call was not stored", "call", o.ID, "err", err.Error())
		}
	}
	return res.Send(q.W)
}

// end stores that a call has ended, and why if the gateway has ended it.
func (k *Keeper) end(ctx context.Context, o *store.Object, reason string) error {
	d, err := detailsOf(o)
	if err != nil {
		return err
	}
	d.Reason = reason
	o.State, o.EndedAt, o.UpdatedAt, o.Data = stateEnded, k.deps.Now(), k.deps.Now(), d.text()
	return k.deps.DB.Transact(ctx, func(tx *store.Tx) error { return tx.UpdateObject(ctx, o) })
}

// hangUp asks the provider to end a call. One that has ended is not an error.
func (k *Keeper) hangUp(ctx context.Context, o *store.Object) error {
	d, err := detailsOf(o)
	if err != nil {
		return err
	}
	out := kept.Outgoing{Provider: o.Provider, TraceID: d.TraceID, Method: http.MethodPost,
		Path: d.Root + "/" + url.PathEscape(o.ProviderID) + "/hangup", Body: bytes.NewReader(nil)}
	r, err := out.Request(ctx)
	if err != nil {
		return err
	}
	var res kept.Capture
	k.deps.Call(&res, r, &dataplane.Call{Identity: actor(o), Manages: true, Metered: true})
	if res.OK() || res.Status == http.StatusNotFound || res.Status == http.StatusGone {
		return nil
	}
	return apierr.New(apierr.UpstreamFailed, "the provider %s answers the end of the call with status %d", o.Provider, res.Status)
}

// readAll reads a body of at most limit bytes.
func readAll(r io.Reader, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, apierr.New(apierr.Invalid, "the request body is incomplete; send it again").WithCode("body_incomplete").WithCause(err)
	}
	if int64(len(b)) > limit {
		return nil, apierr.New(apierr.TooLarge, "the request body is larger than the limit of %d bytes", limit)
	}
	return b, nil
}
