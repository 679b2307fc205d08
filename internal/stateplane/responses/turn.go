package responses

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
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
	if err != nil || !r.store && r.previous == "" && r.conversation == "" {
		return nil, err
	}
	canKeep := k.Own && q.Retains
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
	if t.before != nil || t.conversation != nil && isKept(t.conversation) {
		if t.plane.Edits, err = t.expand(q.MaxBody, r); err != nil {
			return nil, err
		}
	}
	t.plane.Shown = t.shown(r)
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

// references is what a body says of keeping.
type references struct {
	store, asked, background bool
	previous, conversation   string
}

// parseReferences reads a body, whose form has been checked.
func parseReferences(body *jsonedit.Doc) (r references, err error) {
	v, ok := body.Find("store")
	r.store, r.asked = true, ok && !v.IsNull()
	if r.asked {
		r.store, _ = v.Bool()
		r.asked = r.store
	}
	v, _ = body.Find("background")
	r.background, _ = v.Bool()
	r.previous = textOf(body, "previous_response_id")
	if v, ok = body.Find("conversation"); ok {
		if r.conversation, ok = v.Text(); !ok {
			r.conversation = v.TextOf("id")
		}
		if r.conversation == "" && !v.IsNull() {
			return r, apierr.New(apierr.Invalid, "conversation must be the id of a conversation, or an object with its id").WithParam("conversation")
		}
	}
	switch {
	case r.previous != "" && r.conversation != "":
		return r, apierr.New(apierr.Invalid, "previous_response_id and conversation exclude each other; send one of them").
			WithParam("previous_response_id").WithCode("mutually_exclusive_parameters")
	case r.background && !r.store:
		return r, apierr.New(apierr.Invalid, "background needs a stored response; leave store out, or send store true").WithParam("background")
	}
	return r, nil
}

// findPrevious finds the response that the request continues.
func (t *turn) findPrevious(ctx context.Context, q *dataplane.TurnRequest, id string) error {
	if id == "" {
		return nil
	}
	o, err := t.find(ctx, q, store.ObjectResponse, id)
	switch {
	case apierr.IsNotFound(err):
		t.missing(previousNotFound(id))
		return nil
	case err != nil:
		return err
	}
	t.previous = &o
	if !isKept(&o) {
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

// missing notes that a reference is not known. A provider may know it if the operator lets
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

func previousNotFound(id string) error {
	return apierr.New(apierr.Invalid, "previous response with id %.80q not found", id).WithParam("previous_response_id").WithCode("previous_response_not_found")
}

// chain returns the items of a chain of responses that the gateway keeps.
func (k *Keeper) chain(ctx context.Context, o *store.Object, limit int64) ([]json.RawMessage, error) {
	turns, err := k.deps.DB.ResponseChain(ctx, o.Workspace, o.ID, k.deps.Now(), maxDepth)
	if err != nil {
		return nil, k.deps.DB.ClientError(err)
	}
	switch {
	case len(turns) == 0:
		return nil, previousNotFound(o.ID)
	case turns[0].Parent != "" && len(turns) >= maxDepth:
		return nil, apierr.New(apierr.Invalid, "the response continues more than %d others; begin again, with a summary as input", maxDepth).
			WithParam("previous_response_id").WithCode("previous_response_too_deep")
	case turns[0].Parent != "":
		return nil, previousNotFound(turns[0].Parent)
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
		t.missing(apierr.New(apierr.NotFound, "conversation with id %.80q not found", id).WithParam("conversation").WithCode("conversation_not_found"))
		return nil
	case err != nil:
		return err
	}
	t.conversation = &o
	if !isKept(&o) {
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

// inputItems returns the items of a body. A text is a message of the user.
func inputItems(body *jsonedit.Doc) (items []json.RawMessage) {
	v, _ := body.Find("input")
	if v.Kind() == jsonedit.String {
		var b jsonedit.Builder
		b.Open('{')
		b.Name("type")
		b.String("message")
		b.Name("role")
		b.String("user")
		b.Name("content")
		b.Open('[')
		b.Open('{')
		b.Name("type")
		b.String("input_text")
		b.Name("text")
		b.Raw(v.Raw())
		b.Close('}')
		b.Close(']')
		b.Close('}')
		return []json.RawMessage{b.Bytes()}
	}
	for e := range v.Elements() {
		items = append(items, bytes.Clone(e.Raw()))
	}
	return items
}

// expand returns the edits that put the earlier items into the input.
func (t *turn) expand(limit int64, r references) ([]jsonedit.Edit, error) {
	all := append(append([]json.RawMessage(nil), t.before...), t.items...)
	size := int64(2)
	for _, item := range all {
		size += int64(len(item)) + 1
	}
	if size > limit {
		return nil, tooLong(limit)
	}
	input := append(bytes.Join(append([][]byte(nil), raws(all)...), []byte(",")), ']')
	edits := []jsonedit.Edit{{Name: "input", Value: append([]byte("["), input...)}}
	if r.previous != "" {
		return append(edits, jsonedit.Edit{Name: "previous_response_id"}), nil
	}
	return append(edits, jsonedit.Edit{Name: "conversation"}), nil
}

func raws(list []json.RawMessage) [][]byte {
	out := make([][]byte, len(list))
	for i := range list {
		out[i] = list[i]
	}
	return out
}

// shown returns the members of the response that the gateway knows better than the provider.
func (t *turn) shown(r references) []jsonedit.Edit {
	text := func(name, s string) jsonedit.Edit {
		if s == "" {
			return jsonedit.Edit{Name: name, Value: []byte("null")}
		}
		return jsonedit.Edit{Name: name, Value: jsonedit.AppendString(nil, s)}
	}
	edits := []jsonedit.Edit{text("id", t.ID), {Name: "store", Value: []byte("true")}, text("previous_response_id", r.previous)}
	if t.conversation != nil {
		edits = append(edits, jsonedit.Edit{Name: "conversation", Value: append(jsonedit.AppendString([]byte(`{"id":`), t.conversation.ShownID()), '}')})
	}
	if r.background {
		edits = append(edits, jsonedit.Edit{Name: "background", Value: []byte("true")})
	}
	return edits
}

// keep stores an ended response.
func (t *turn) keep(ctx context.Context, r *dataplane.EndedResponse) error {
	var doc jsonedit.Doc
	if err := doc.Scan(r.Body); err != nil {
		return err
	}
	changes, err := t.changes(ctx, r, &doc)
	if err != nil || len(changes) == 0 {
		return err
	}
	return t.keeper.group.do(ctx, func(ctx context.Context, tx *store.Tx) error {
		for _, change := range changes {
			if err := change(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	})
}

type change = func(ctx context.Context, tx *store.Tx) error

// changes returns what is stored of an ended response.
func (t *turn) changes(ctx context.Context, r *dataplane.EndedResponse, doc *jsonedit.Doc) (list []change, err error) {
	var key *secret.DataKey
	isAppended := t.conversation != nil && isKept(t.conversation) && (r.Status == stateCompleted || r.Status == stateIncomplete)
	if r.Content && t.retains || isAppended {
		if key, err = t.keeper.sealing(ctx, t.Organisation); err != nil {
			return nil, err
		}
	}
	switch {
	case r.AtProvider:
		list = t.record(r, doc)
	case r.Content && t.retains:
		add, err := t.content(key, r)
		if err != nil {
			return nil, err
		}
		list = append(list, add)
	}
	if isAppended {
		list = append(list, t.append(key, append(append([]json.RawMessage(nil), t.items...), output(r.Body)...)))
	}
	return list, nil
}

// record returns the change that records a response that a managed provider stores.
func (t *turn) record(r *dataplane.EndedResponse, doc *jsonedit.Doc) []change {
	o := t.Object
	o.ID, o.ProviderID, o.Provider = recordPrefix+t.ID[len(ownPrefix):], textOf(doc, "id"), r.Provider
	o.Parent, o.State = "", cmp.Or(r.Status, stateInProgress)
	if o.ProviderID == "" || o.Provider == "" {
		return nil
	}
	return []change{func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.AddObjectOnce(ctx, o)
		return err
	}}
}

// content returns the change that keeps a response.
func (t *turn) content(key *secret.DataKey, r *dataplane.EndedResponse) (change, error) {
	c := content{Response: r.Body}
	for _, item := range t.items {
		named, _, err := t.keeper.identify(item, false)
		if err != nil {
			return nil, err
		}
		c.Input = append(c.Input, named)
	}
	if t.conversation != nil {
		c.Conversation = t.conversation.ID
	}
	sealed, err := c.seal(key, t.ID)
	if err != nil {
		return nil, err
	}
	o := t.Object
	o.State, o.EndedAt = cmp.Or(r.Status, stateIncomplete), t.keeper.deps.Now()
	return func(ctx context.Context, tx *store.Tx) error {
		if err := tx.AddObject(ctx, o); err != nil {
			return err
		}
		return tx.PutResponseContent(ctx, o.ID, sealed)
	}, nil
}

// append returns the change that adds items to the conversation. If a client repeats the id
// of an item, the new item gets another one.
func (t *turn) append(key *secret.DataKey, items []json.RawMessage) change {
	return func(ctx context.Context, tx *store.Tx) error {
		list := make([]store.ConversationItem, 0, len(items))
		for _, item := range items {
			named, id, err := t.keeper.identify(item, false)
			if err != nil {
				return err
			}
			if _, err := tx.ConversationItem(ctx, t.conversation.ID, id); err == nil || repeats(list, id) {
				if named, id, err = t.keeper.identify(item, true); err != nil {
					return err
				}
			}
			list = append(list, store.ConversationItem{ID: id, Content: key.SealMessage(named, itemBound(t.conversation.ID, id))})
		}
		return tx.AppendConversation(ctx, t.conversation.ID, list, maxItems)
	}
}

func repeats(list []store.ConversationItem, id string) bool {
	for i := range list {
		if list[i].ID == id {
			return true
		}
	}
	return false
}

// States of responses.
const (
	stateQueued     = "queued"
	stateInProgress = "in_progress"
	stateCompleted  = "completed"
	stateIncomplete = "incomplete"
	stateFailed     = "failed"
	stateCancelled  = "cancelled"
)
