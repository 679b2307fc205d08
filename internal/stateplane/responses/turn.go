package responses

import (
	"context"
	"encoding/json"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/store"
)

// Limits of what a request may continue.
const (
	maxDepth = 1000   // responses of a chain
	maxItems = 10_000 // of a conversation
)

// turn is a request that refers to something that is kept, or whose response is kept.
type turn struct {
	keeper       *Keeper
	store.Object // of the response, if the gateway keeps it

	items        []json.RawMessage // of the request itself
	before       []json.RawMessage // what precedes them
	previous     *store.Object     // nil for none
	conversation *store.Object     // nil for none
	retains      bool
	plane        *dataplane.Turn
}

// Begin implements [dataplane.ResponseKeeper].
func (k *Keeper) Begin(ctx context.Context, q *dataplane.TurnRequest) (*dataplane.Turn, error) {
	r, err := parseReferences(q.Body)
	if v, ok := q.Body.Find("metadata"); ok && !v.IsNull() && err == nil {
		_, err = parseMetadata(v)
	}
	refers := k.Own && mayReferToItems(q.Body)
	if err != nil || !r.store && r.previous == "" && r.conversation == "" && !refers {
		return nil, err
	}
	canKeep := k.Own && q.Retains
	if !k.Own && !k.Records && r.previous == "" && r.conversation == "" && !(r.asked && k.Refuse) {
		return nil, nil
	}
	if !canKeep && r.asked && k.Refuse {
		return nil, apierr.New(apierr.Invalid, "this gateway may not keep responses of this key; send store false, or leave it out").
			WithParam("store").WithCode("store_refused")
	}
	t := &turn{keeper: k, retains: canKeep}
	t.Object = k.object(store.ObjectResponse, ownPrefix, q)
	t.plane = &dataplane.Turn{Store: r.store, Asked: r.asked, Content: canKeep, Background: r.background, Keep: t.keep}
	if err := t.findPrevious(ctx, q, r.previous); err != nil {
		return nil, err
	}
	if err := t.findConversation(ctx, q, r.conversation); err != nil {
		return nil, err
	}
	t.items = inputItems(q.Body)
	if refers {
		resolved, err := t.resolveItems(ctx, q)
		if err != nil {
			return nil, err
		}
		if resolved {
			t.plane.Edits = []jsonedit.Edit{{Name: "input", Value: joinItems(t.items)}}
		}
	}
	if t.before != nil || t.conversation != nil && hasContent(t.conversation) {
		if t.plane.Edits, err = t.expand(q.MaxBody, r); err != nil {
			return nil, err
		}
	}
	t.plane.Shown = t.shownMembers(r)
	if r.background && canKeep {
		t.plane.Start = t.start
	}
	return t.plane, nil
}

// object returns a new object of the request's workspace.
func (k *Keeper) object(kind, prefix string, q *dataplane.TurnRequest) store.Object {
	id := q.Identity
	o := store.Object{ID: prefix + k.newID(), Kind: kind, Organisation: id.Organisation, Workspace: id.Workspace, KeyID: id.KeyID,
		CreatedAt: q.Time, UpdatedAt: q.Time, ExpiresAt: q.Time.Add(k.Keep)}
	return o
}

// findPrevious finds the response that the request continues.
func (t *turn) findPrevious(ctx context.Context, q *dataplane.TurnRequest, id string) error {
	if id == "" {
		return nil
	}
	o, err := t.find(ctx, q, store.ObjectResponse, id)
	switch {
	case apierr.IsNotFound(err):
		t.missing(newPreviousError(id))
		return nil
	case err != nil:
		return err
	}
	t.previous = &o
	if !hasContent(&o) {
		t.plane.Provider = o.Provider
		return nil
	}
	if o.State == stateQueued || o.State == stateInProgress {
		return apierr.New(apierr.Invalid, "the response %s is not complete yet; wait for it, or cancel it", o.ID).
			WithParam("previous_response_id").WithCode("previous_response_in_progress")
	}
	t.Parent = o.ID
	t.before, err = t.keeper.chain(ctx, &o, q.MaxBody)
	return err
}

// missing notes an unknown reference. A provider may know it if the operator lets
// ids without a record pass.
func (t *turn) missing(err error) {
	if !t.keeper.deps.Limits.Unrecorded {
		t.plane.Missing = err
	}
}

func (t *turn) find(ctx context.Context, q *dataplane.TurnRequest, kind, id string) (store.Object, error) {
	db := t.keeper.deps.DB
	o, err := db.Object(ctx, q.Identity.Workspace, kind, id)
	if err == nil && expired(&o, q.Time) {
		return o, kept.NotFound(kind, "id")
	}
	return o, db.ClientError(err)
}

func newPreviousError(id string) error {
	return apierr.New(apierr.Invalid, "previous response with id %.80q not found", id).
		WithParam("previous_response_id").WithCode("previous_response_not_found")
}

// chain returns the items of a chain of responses that the gateway keeps.
func (k *Keeper) chain(ctx context.Context, o *store.Object, limit int64) ([]json.RawMessage, error) {
	turns, err := k.deps.DB.ResponseChain(ctx, o.Workspace, o.ID, k.deps.Now(), maxDepth)
	if err != nil {
		return nil, k.deps.DB.ClientError(err)
	}
	switch {
	case len(turns) == 0:
		return nil, newPreviousError(o.ID)
	case turns[0].Parent != "" && len(turns) >= maxDepth:
		return nil, apierr.New(apierr.Invalid, "the response continues more than %d others; begin again, with a summary as input", maxDepth).
			WithParam("previous_response_id").WithCode("previous_response_too_deep")
	case turns[0].Parent != "":
		return nil, newPreviousError(turns[0].Parent)
	}
	key, err := k.sealing(ctx, o.Organisation)
	if err != nil {
		return nil, err
	}
	var items []json.RawMessage
	size := int64(0)
	for i := range turns {
		c, err := openContent(key, turns[i].ID, turns[i].Content)
		if err != nil {
			return nil, err
		}
		if size += int64(len(turns[i].Content)); size > 2*limit+maxDepth<<10 {
			return nil, tooLong(limit)
		}
		items = append(append(items, c.Input...), output(c.Response)...)
	}
	return items, nil
}

func tooLong(limit int64) error {
	return apierr.New(apierr.TooLarge, "the request and the turns before it are longer than the limit of %d bytes; begin again, with a summary as input", limit).
		WithParam("input")
}

// findConversation finds the conversation that the request continues.
func (t *turn) findConversation(ctx context.Context, q *dataplane.TurnRequest, id string) error {
	if id == "" {
		return nil
	}
	o, err := t.find(ctx, q, store.ObjectConversation, id)
	switch {
	case apierr.IsNotFound(err):
		t.missing(apierr.New(apierr.NotFound, "conversation with id %.80q not found", id).
			WithParam("conversation").WithCode("conversation_not_found"))
		return nil
	case err != nil:
		return err
	}
	t.conversation = &o
	if !hasContent(&o) {
		t.plane.Provider = o.Provider
		return nil
	}
	if !t.retains {
		return apierr.New(apierr.Invalid, "this gateway may not keep the content of this key's requests, so none is added to a conversation").
			WithParam("conversation").WithCode("store_refused")
	}
	t.plane.Effect = true
	t.before, err = t.keeper.conversationItems(ctx, &o, q.MaxBody)
	return err
}

// conversationItems returns the items of a conversation in their order.
func (k *Keeper) conversationItems(ctx context.Context, o *store.Object, limit int64) (items []json.RawMessage, err error) {
	key, err := k.sealing(ctx, o.Organisation)
	if err != nil {
		return nil, err
	}
	list, _, err := k.deps.DB.ConversationItems(ctx, store.ItemQuery{Conversation: o.ID, Ascending: true, Limit: maxItems})
	if err != nil {
		return nil, k.deps.DB.ClientError(err)
	}
	size := int64(0)
	for i := range list {
		plain, err := key.OpenMessage(list[i].Content, itemBound(o.ID, list[i].ID))
		if err != nil {
			return nil, err
		}
		if size += int64(len(plain)); size > limit {
			return nil, tooLong(limit)
		}
		items = append(items, plain)
	}
	return items, nil
}
