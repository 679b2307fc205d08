// Package responses keeps the responses and conversations of clients.
//
// A response that a managed provider stores has a record, so that it is found with the
// gateway key alone, and only in its workspace. For providers that store none, the gateway
// keeps responses itself, sealed with the data key of the organisation, and replaces a
// reference to an earlier response or a conversation by its items before the request is
// admitted. A response can be read by its id as soon as its client has it: it is stored
// before its last bytes are sent. A request that keeps nothing does not reach the database.
package responses

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/store"
)

// Prefixes of ids.
const (
	ownPrefix          = "resp_"    // of a response that the gateway keeps
	recordPrefix       = "gw_resp_" // of the record of a response that a provider keeps
	conversationPrefix = "conv_"
)

// Options configure a [Keeper]. They are complete: zero is used as it is.
type Options struct {
	// Keep is how long responses and their records are kept.
	Keep time.Duration
	// Own is true if the gateway keeps responses itself, which needs data keys.
	Own bool
	// Records is true if responses that a managed provider stores get records.
	Records bool
	// Refuse refuses requests that want to store a response that may not be kept, instead
	// of running them without.
	Refuse bool
	// DataKey returns the data key of an organisation.
	DataKey func(ctx context.Context, organisation string) (*secret.DataKey, error)
}

// Keeper keeps responses and conversations. It is safe for concurrent use.
type Keeper struct {
	Options
	deps    *kept.Deps
	group   group
	changes changes
	running sync.Map // the context.CancelFunc of each response that this node makes, by id
}

// New returns a keeper. The deps must not change any more when it is used.
func New(d *kept.Deps, o Options) *Keeper {
	return &Keeper{Options: o, deps: d, group: group{db: d.DB}}
}

// Serve serves a request below /responses or /conversations.
func (k *Keeper) Serve(q *kept.Request) error {
	rest, isConversation := strings.CutPrefix(q.From.Path, "/conversations")
	if isConversation {
		return k.serveConversation(&request{q, k}, strings.TrimPrefix(rest, "/"))
	}
	return k.serveResponse(&request{q, k}, strings.TrimPrefix(q.From.Path, "/responses/"))
}

// request is a request to a response or a conversation.
type request struct {
	*kept.Request
	keeper *Keeper
}

func (k *Keeper) serveResponse(q *request, rest string) error {
	id, action, _ := strings.Cut(rest, "/")
	method := q.HTTP.Method
	switch {
	case action == "" && method == http.MethodPost && (id == "input_tokens" || id == "compact"):
		return q.operation(id)
	case action == "" && method == http.MethodGet:
		return q.show(id)
	case action == "" && method == http.MethodDelete:
		return q.remove(id)
	case action == "cancel" && method == http.MethodPost:
		return q.cancel(id)
	case action == "input_items" && method == http.MethodGet:
		return q.inputItems(id)
	}
	return kept.NoRoute(q.Request)
}

func (k *Keeper) serveConversation(q *request, rest string) error {
	parts := strings.Split(rest, "/")
	method := q.HTTP.Method
	switch {
	case rest == "" && method == http.MethodPost:
		return q.createConversation()
	case len(parts) == 1 && rest != "":
		return q.conversation(parts[0])
	case len(parts) == 2 && parts[1] == "items" && method == http.MethodGet:
		return q.listItems(parts[0])
	case len(parts) == 2 && parts[1] == "items" && method == http.MethodPost:
		return q.addItems(parts[0])
	case len(parts) == 3 && parts[1] == "items" && parts[2] != "" && (method == http.MethodGet || method == http.MethodDelete):
		return q.item(parts[0], parts[2])
	}
	return kept.NoRoute(q.Request)
}

// found returns an object of the request's workspace. One whose time is over is not found.
func (q *request) found(kind, id string) (store.Object, error) {
	o, err := q.Find(kind, id)
	if err == nil && expired(&o, q.Deps.Now()) {
		return o, kept.NotFound(kind, "id")
	}
	return o, err
}

func expired(o *store.Object, now time.Time) bool {
	return !o.ExpiresAt.IsZero() && !now.Before(o.ExpiresAt)
}

// hasContent reports whether the gateway has the content of an object.
func hasContent(o *store.Object) bool { return o.ProviderID == "" }

// relay sends the request to the provider of an object, with the provider's id.
func (q *request) relay(o *store.Object) error {
	if _, _, err := q.Target(o.Provider); err != nil {
		return err
	}
	q.From.Relay(q.W, q.ForwardedTo(o), q.From.ClientCall())
	return nil
}

// relayDeletion deletes an object at its provider, and its record.
func (q *request) relayDeletion(o *store.Object) error {
	if _, _, err := q.Target(o.Provider); err != nil {
		return err
	}
	var res kept.Capture
	q.From.Relay(&res, q.ForwardedTo(o), q.From.ClientCall())
	if res.OK() || res.Status == http.StatusNotFound { // there it is gone already
		if err := q.delete(o); err != nil && !apierr.IsNotFound(err) {
			return err
		}
	}
	return res.Send(q.W)
}

// delete deletes the record of an object, with what the gateway keeps of it.
func (q *request) delete(o *store.Object) error {
	return q.Change(func(tx *store.Tx) error { return tx.DeleteObject(context.WithoutCancel(q.HTTP.Context()), o) })
}

// deletion is the wire format of a deleted object.
type deletion struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}

// content is what the gateway keeps of a response.
type content struct {
	Input        []json.RawMessage `json:"input,omitempty"` // the items of its own turn
	Conversation string            `json:"conversation,omitempty"`
	Response     json.RawMessage   `json:"response"` // as its client got it
	Work         *work             `json:"work,omitempty"`
}

// sealing returns the data key for the contents of an organisation.
func (k *Keeper) sealing(ctx context.Context, organisation string) (*secret.DataKey, error) {
	key, err := k.DataKey(ctx, organisation)
	return key, k.deps.DB.ClientError(err)
}

// Names of what is sealed. Contents of one object do not open as those of another.
func turnBound(id string) string               { return "response " + id }
func itemBound(conversation, id string) string { return "item " + conversation + " " + id }

// seal returns a content for the store.
func (c *content) seal(key *secret.DataKey, id string) ([]byte, error) {
	plain, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	return key.SealMessage(plain, turnBound(id)), nil
}

// openContent returns a content from the store.
func openContent(key *secret.DataKey, id string, sealed []byte) (c content, err error) {
	plain, err := key.OpenMessage(sealed, turnBound(id))
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(plain, &c)
}

// read returns the content of a response that the gateway keeps.
func (k *Keeper) read(ctx context.Context, o *store.Object) (c content, err error) {
	key, err := k.sealing(ctx, o.Organisation)
	if err != nil {
		return c, err
	}
	sealed, err := k.deps.DB.ResponseContent(ctx, o.ID)
	if apierr.IsNotFound(err) {
		return c, kept.NotFound(o.Kind, "id")
	}
	if err != nil {
		return c, k.deps.DB.ClientError(err)
	}
	return openContent(key, o.ID, sealed)
}

// output returns the items that a response has produced.
func output(response []byte) (items []json.RawMessage) {
	var doc jsonedit.Doc
	if doc.Scan(response) != nil {
		return nil
	}
	v, _ := doc.Find("output")
	for e := range v.Elements() {
		items = append(items, bytes.Clone(e.Raw()))
	}
	return items
}

// itemPrefixes are the beginnings of the ids of items, by type.
var itemPrefixes = map[string]string{
	"message": "msg_", "function_call": "fc_", "function_call_output": "fco_", "reasoning": "rs_", "web_search_call": "ws_",
	"file_search_call": "fs_", "computer_call": "cu_", "computer_call_output": "cuo_", "image_generation_call": "ig_",
	"code_interpreter_call": "ci_", "custom_tool_call": "ctc_", "custom_tool_call_output": "ctco_", "mcp_call": "mcp_",
}

// identify returns an item with an id and a type, and the id. The content of a message is
// a list afterwards, as clients read it.
func (k *Keeper) identify(item []byte, fresh bool) (out json.RawMessage, id string, err error) {
	var doc jsonedit.Doc
	if err := doc.Scan(item); err != nil {
		return nil, "", err
	}
	typ, id := textOf(&doc, "type"), textOf(&doc, "id")
	var edits []jsonedit.Edit
	if typ == "" {
		typ = "message"
		edits = append(edits, jsonedit.Edit{Name: "type", Value: []byte(`"message"`)})
	}
	if id == "" || fresh {
		prefix, ok := itemPrefixes[typ]
		if !ok {
			prefix = "item_"
		}
		id = prefix + k.newID()
		edits = append(edits, jsonedit.Edit{Name: "id", Value: jsonedit.AppendString(nil, id)})
	}
	if v, _ := doc.Find("content"); typ == "message" && v.Kind() == jsonedit.String {
		edits = append(edits, jsonedit.Edit{Name: "content", Value: textContent(v.Raw(), textOf(&doc, "role"))})
	}
	return doc.Apply(nil, edits...), id, nil
}

// textContent returns the content of a message that is one text, which is a JSON string.
func textContent(text []byte, role string) []byte {
	if role == "assistant" {
		return fmt.Appendf(nil, `[{"type":"output_text","text":%s,"annotations":[]}]`, text)
	}
	return fmt.Appendf(nil, `[{"type":"input_text","text":%s}]`, text)
}

func (k *Keeper) newID() string { return strings.ReplaceAll(k.deps.NewID(), "-", "") }

func textOf(d *jsonedit.Doc, name string) string {
	v, _ := d.Find(name)
	s, _ := v.Text()
	return s
}
