package responses

import (
	"bytes"
	"context"
	"encoding/json"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/store"
)

// itemReference is the type of an input item that stands for an earlier one.
// https://platform.openai.com/docs/api-reference/responses/create
const itemReference = "item_reference"

// maxReferences limits the references to items in a request.
const maxReferences = 100

// mayReferToItems reports whether a body can have a reference to an item.
func mayReferToItems(body *jsonedit.Doc) bool {
	return bytes.Contains(body.Bytes(), []byte(itemReference))
}

// resolveItems replaces references among the items of the request by the items that the
// gateway keeps, and reports whether there were any. Others stay: a provider with the protocol
// of responses may keep them.
func (t *turn) resolveItems(ctx context.Context, q *dataplane.TurnRequest) (resolved bool, err error) {
	found := 0
	for i, item := range t.items {
		id := referenceIn(item)
		if id == "" {
			continue
		}
		if found++; found > maxReferences {
			return false, apierr.New(apierr.Invalid, "input has more than %d references to items; send the items themselves", maxReferences).
				WithParam("input")
		}
		known, err := t.item(ctx, q, id)
		if err != nil {
			return false, err
		}
		if known == nil {
			t.plane.MissingItem = apierr.New(apierr.Invalid, "item with id %.80q not found; send the item itself", id).
				WithParam("input").WithCode("item_not_found")
			continue
		}
		t.items[i], resolved = known, true
	}
	return resolved, nil
}

// referenceIn returns the id of the item that an item stands for, empty if it is another one.
func referenceIn(item []byte) string {
	var doc jsonedit.Doc
	if doc.Scan(item) != nil || textOf(&doc, "type") != itemReference {
		return ""
	}
	return textOf(&doc, "id")
}

// item returns an item of the workspace that the gateway keeps, nil if there is none.
func (t *turn) item(ctx context.Context, q *dataplane.TurnRequest, id string) (json.RawMessage, error) {
	if item := itemIn(t.before, id); item != nil {
		return item, nil
	}
	db := t.keeper.deps.DB
	response, err := db.ResponseWithItem(ctx, q.Identity.Workspace, id, q.Time)
	if apierr.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, db.ClientError(err)
	}
	o, err := t.find(ctx, q, store.ObjectResponse, response)
	if apierr.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c, err := t.keeper.read(ctx, &o)
	if err != nil {
		return nil, err
	}
	return itemIn(append(c.Input, output(c.Response)...), id), nil
}

// itemIn returns the item with an id, nil if there is none.
func itemIn(items []json.RawMessage, id string) json.RawMessage {
	for _, item := range items {
		var doc jsonedit.Doc
		if doc.Scan(item) == nil && textOf(&doc, "id") == id {
			return item
		}
	}
	return nil
}

// putItems stores by which items requests may refer to a response.
func (c *content) putItems(ctx context.Context, tx *store.Tx, o *store.Object) error {
	for _, item := range append(append([]json.RawMessage(nil), c.Input...), output(c.Response)...) {
		var doc jsonedit.Doc
		if doc.Scan(item) != nil || textOf(&doc, "id") == "" {
			continue
		}
		if err := tx.PutResponseItem(ctx, o, textOf(&doc, "id")); err != nil {
			return err
		}
	}
	return nil
}
