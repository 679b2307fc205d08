package responses

import (
	"context"
	"encoding/json"
	"net/http"

	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/store"
)

// maxAdded limits the items that one request adds to a conversation.
// https://platform.openai.com/docs/api-reference/conversations/create
const maxAdded = 20

// conversation is the wire format of a conversation.
type conversation struct {
	ID        string            `json:"id"`
	Object    string            `json:"object"` // conversation
	CreatedAt int64             `json:"created_at"`
	Metadata  map[string]string `json:"metadata"`
}

// conversationData is what the record of a conversation that the gateway keeps has beyond
// that of other objects.
type conversationData struct {
	Metadata map[string]string `json:"metadata,omitempty"`
}

func showConversation(o *store.Object) (c conversation, err error) {
	var d conversationData
	if err := json.Unmarshal(o.Data, &d); err != nil {
		return c, err
	}
	if d.Metadata == nil {
		d.Metadata = map[string]string{}
	}
	return conversation{o.ID, "conversation", o.CreatedAt.Unix(), d.Metadata}, nil
}

// createConversation creates a conversation: at the provider that the request names, or in
// the gateway.
func (q *request) createConversation() error {
	if q.Names() {
		return q.relayConversation()
	}
	b, err := q.Body()
	if err != nil {
		return err
	}
	c, err := parseConversation(b, "metadata", "items")
	if err != nil {
		return err
	}
	o := q.NewObject(store.ObjectConversation, conversationPrefix)
	if o.Data, err = json.Marshal(conversationData{c.Metadata}); err != nil {
		return err
	}
	items, _, err := q.sealItems(&o, c.Items)
	if err != nil {
		return err
	}
	err = q.Change(func(tx *store.Tx) error {
		ctx := context.WithoutCancel(q.HTTP.Context())
		if err := tx.AddObject(ctx, o); err != nil || len(items) == 0 {
			return err
		}
		return tx.AppendConversation(ctx, o.ID, items, maxItems)
	})
	if err != nil {
		return err
	}
	shown, err := showConversation(&o)
	if err != nil {
		return err
	}
	return q.JSON(http.StatusOK, shown)
}

// relayConversation creates a conversation at a provider.
func (q *request) relayConversation() error {
	o := q.NewObject(store.ObjectConversation, "gw_conv_")
	o.Provider = q.From.Provider
	res, err := q.Create(&o, q.Forwarded(q.From.Provider), func(body []byte) error {
		var c struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(body, &c); err != nil || c.ID == "" {
			return kept.RefuseUnreadable("conversation")
		}
		o.ProviderID, o.State = c.ID, "active"
		return nil
	})
	if err != nil {
		return err
	}
	return res.Send(q.W)
}

// sealItems returns items for the store, and as clients see them.
func (q *request) sealItems(o *store.Object, list []json.RawMessage) (sealed []store.ConversationItem, shown []json.RawMessage, err error) {
	if len(list) == 0 {
		return nil, nil, nil
	}
	if !q.keeper.Own {
		return nil, nil, apierr.New(apierr.Unsupported, "this gateway keeps no content: it has no master key, or responses.store is provider").WithCode("store_refused")
	}
	key, err := q.keeper.sealing(q.HTTP.Context(), o.Organisation)
	if err != nil {
		return nil, nil, err
	}
	for _, item := range list {
		named, id, err := q.keeper.identify(item, false)
		if err != nil {
			return nil, nil, apierr.New(apierr.Invalid, "an item is not an object: %v", err).WithParam("items")
		}
		sealed = append(sealed, store.ConversationItem{ID: id, Content: key.SealMessage(named, itemBound(o.ID, id))})
		shown = append(shown, named)
	}
	return sealed, shown, nil
}

// withConversation calls f for a conversation that the gateway keeps. Requests to those of
// a provider are sent there.
func (q *request) withConversation(id string, f func(o *store.Object) error) error {
	o, err := q.found(store.ObjectConversation, id)
	switch {
	case apierr.IsNotFound(err) && q.MayPass():
		return q.Pass(store.ObjectConversation)
	case err != nil:
		return err
	case !hasContent(&o):
		return q.relay(&o)
	}
	return f(&o)
}

// conversation serves a request to a conversation itself.
func (q *request) conversation(id string) error {
	switch q.HTTP.Method {
	case http.MethodGet:
		return q.withConversation(id, q.sendConversation)
	case http.MethodPost:
		return q.withConversation(id, q.updateConversation)
	case http.MethodDelete:
		return q.deleteConversation(id)
	}
	return kept.NoRoute(q.Request)
}

func (q *request) sendConversation(o *store.Object) error {
	c, err := showConversation(o)
	if err != nil {
		return err
	}
	return q.JSON(http.StatusOK, c)
}

// updateConversation replaces the metadata.
func (q *request) updateConversation(o *store.Object) error {
	b, err := q.Body()
	if err != nil {
		return err
	}
	c, err := parseConversation(b, "metadata")
	if err != nil {
		return err
	}
	data, err := json.Marshal(conversationData{c.Metadata})
	if err != nil {
		return err
	}
	ctx := context.WithoutCancel(q.HTTP.Context())
	err = q.Change(func(tx *store.Tx) error {
		now, err := tx.ObjectByID(ctx, o.ID) // items may have been added since
		if err != nil {
			return err
		}
		now.Data, now.UpdatedAt = data, q.Deps.Now()
		*o = now
		return tx.UpdateObject(ctx, o)
	})
	if apierr.IsNotFound(err) {
		return kept.NotFound(store.ObjectConversation, "id")
	}
	if err != nil {
		return err
	}
	return q.sendConversation(o)
}

// deleteConversation deletes a conversation with its items.
func (q *request) deleteConversation(id string) error {
	o, err := q.found(store.ObjectConversation, id)
	switch {
	case apierr.IsNotFound(err) && q.MayPass():
		return q.Pass(store.ObjectConversation)
	case err != nil:
		return err
	case !hasContent(&o):
		return q.relayDeletion(&o)
	}
	if err := q.delete(&o); err != nil {
		if apierr.IsNotFound(err) {
			return kept.NotFound(store.ObjectConversation, "id")
		}
		return err
	}
	return q.JSON(http.StatusOK, deletion{o.ID, "conversation.deleted", true})
}

// addItems adds items to a conversation.
func (q *request) addItems(id string) error {
	return q.withConversation(id, func(o *store.Object) error {
		if err := checkInclude(q.HTTP.URL.Query()); err != nil {
			return err
		}
		b, err := q.Body()
		if err != nil {
			return err
		}
		c, err := parseConversation(b, "items")
		if err != nil {
			return err
		}
		if len(c.Items) == 0 {
			return apierr.New(apierr.Invalid, "items must have at least one item").WithParam("items").WithCode("missing_required_parameter")
		}
		sealed, shown, err := q.sealItems(o, c.Items)
		if err != nil {
			return err
		}
		ctx := context.WithoutCancel(q.HTTP.Context())
		err = q.Change(func(tx *store.Tx) error { return tx.AppendConversation(ctx, o.ID, sealed, maxItems) })
		if apierr.IsNotFound(err) {
			return kept.NotFound(store.ObjectConversation, "id")
		}
		if err != nil {
			return err
		}
		ids := make([]string, len(sealed))
		for i := range sealed {
			ids[i] = sealed[i].ID
		}
		return q.JSON(http.StatusOK, newItemList(shown, ids, false))
	})
}

// listItems lists the items of a conversation.
func (q *request) listItems(id string) error {
	return q.withConversation(id, func(o *store.Object) error {
		query := q.HTTP.URL.Query()
		if err := checkInclude(query); err != nil {
			return err
		}
		p, err := kept.ParsePage(query, 100, 20)
		if err != nil {
			return err
		}
		x := store.ItemQuery{Conversation: o.ID, Ascending: p.Ascending, Limit: p.Limit}
		if p.After != "" {
			last, err := q.Deps.DB.ConversationItem(q.HTTP.Context(), o.ID, p.After)
			if apierr.IsNotFound(err) {
				return kept.NotFound("item", "after")
			}
			if err != nil {
				return q.Deps.DB.ClientError(err)
			}
			x.After = last.Position
		}
		list, more, err := q.Deps.DB.ConversationItems(q.HTTP.Context(), x)
		if err != nil {
			return q.Deps.DB.ClientError(err)
		}
		items, ids, err := q.openItems(o, list)
		if err != nil {
			return err
		}
		return q.JSON(http.StatusOK, newItemList(items, ids, more))
	})
}

func (q *request) openItems(o *store.Object, list []store.ConversationItem) (items []json.RawMessage, ids []string, err error) {
	if len(list) == 0 {
		return nil, nil, nil
	}
	key, err := q.keeper.sealing(q.HTTP.Context(), o.Organisation)
	if err != nil {
		return nil, nil, err
	}
	for i := range list {
		plain, err := key.OpenMessage(list[i].Content, itemBound(o.ID, list[i].ID))
		if err != nil {
			return nil, nil, err
		}
		items, ids = append(items, plain), append(ids, list[i].ID)
	}
	return items, ids, nil
}

// item returns or deletes an item of a conversation.
func (q *request) item(conversation, id string) error {
	return q.withConversation(conversation, func(o *store.Object) error {
		if err := checkInclude(q.HTTP.URL.Query()); err != nil {
			return err
		}
		ctx := context.WithoutCancel(q.HTTP.Context())
		if q.HTTP.Method == http.MethodDelete {
			err := q.Change(func(tx *store.Tx) error { return tx.DeleteConversationItem(ctx, o.ID, id) })
			if apierr.IsNotFound(err) {
				return kept.NotFound("item", "id")
			}
			if err != nil {
				return err
			}
			return q.sendConversation(o)
		}
		found, err := q.Deps.DB.ConversationItem(ctx, o.ID, id)
		if apierr.IsNotFound(err) {
			return kept.NotFound("item", "id")
		}
		if err != nil {
			return q.Deps.DB.ClientError(err)
		}
		items, _, err := q.openItems(o, []store.ConversationItem{found})
		if err != nil {
			return err
		}
		return q.JSON(http.StatusOK, items[0])
	})
}
