package responses

import (
	"cmp"
	"context"
	"encoding/json"

	"modelgate/internal/base/secret"
	"modelgate/internal/dataplane"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/store"
)

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
	isAppended := t.conversation != nil && hasContent(t.conversation) && (r.Status == stateCompleted || r.Status == stateIncomplete)
	if r.Content && t.retains || isAppended {
		if key, err = t.keeper.sealing(ctx, t.Organisation); err != nil {
			return nil, err
		}
	}
	switch {
	case r.AtProvider && t.keeper.Records:
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
		_, err := tx.AddMissingObject(ctx, o)
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
		if err := tx.PutResponseContent(ctx, o.ID, sealed); err != nil {
			return err
		}
		return c.putItems(ctx, tx, &o)
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
