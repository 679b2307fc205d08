package simulator

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	conversationFamily = "conversation"
	// maxNewItems is the limit of items in a request.
	// https://platform.openai.com/docs/api-reference/conversations/create
	maxNewItems = 20
)

// A conversation is a list of items that responses append to.
type conversation struct {
	id       string
	created  time.Time
	mu       sync.Mutex
	metadata map[string]any // guarded by mu
	items    []any          // guarded by mu, oldest first
}

// list returns the items, oldest first.
func (v *conversation) list() []any {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.items)
}

// add appends items.
func (v *conversation) add(s *Simulator, items []any) {
	v.mu.Lock()
	v.items = append(v.items, items...)
	v.mu.Unlock()
	raw, _ := json.Marshal(items) // they came from valid JSON
	s.stored.grow(conversationFamily, v.id, len(raw))
}

func noConversation(id string) providerError {
	return providerError{kind: invalidRequest, message: "Conversation with id '" + id + "' not found."}
}

func (v *conversation) describe() any {
	v.mu.Lock()
	defer v.mu.Unlock()
	metadata := v.metadata
	if metadata == nil {
		metadata = object{}
	}
	return object{"id": v.id, "object": "conversation", "created_at": v.created.Unix(), "metadata": metadata}
}

// newItems reads the items of a request.
func (x *exchange) newItems(c *checker, m map[string]any, earlier []any, needed bool) []any {
	list := c.list(m, "items", "")
	if needed && len(list) == 0 {
		c.fail("items", "Missing required parameter: 'items'.")
	}
	if len(list) > maxNewItems {
		c.fail("items",
			"Invalid 'items': array too long. Expected an array with maximum length %d, but got an array with length %d instead.",
			maxNewItems, len(list))
	}
	r := responsesItems{c: c, q: &turn{}}
	r.readEarlier(earlier)
	for i, v := range list {
		path := "items[" + itoa(i) + "]"
		r.item(c.object(v, path), path)
	}
	return itemsOf(any(list), strconv.FormatInt(x.number, 10))
}

// serveConversationCreate answers POST /conversations.
func serveConversationCreate(x *exchange) {
	if !x.readBody() {
		return
	}
	body := map[string]any{}
	if len(x.in) > 0 { // the body may be missing
		var ok bool
		if body, ok = x.decodeObject(); !ok {
			return
		}
	}
	if !x.begin(nil) {
		return
	}
	c := newChecker(x.protocol)
	c.checkMembers(body, "", "items", "metadata")
	c.metadata(body)
	v := &conversation{id: "conv_sim" + strconv.FormatInt(x.number, 10), created: x.began, metadata: c.child(body, "metadata", "")}
	v.items = x.newItems(c, body, nil, false)
	if c.wrong.kind != "" {
		x.refuse(statusOf, c.wrong)
		return
	}
	x.sim.stored.add(conversationFamily, v.id, len(x.in), v)
	x.sendCreated(http.StatusOK, v.describe())
}

// serveConversation answers the routes of one conversation.
func serveConversation(x *exchange) {
	if !x.readBody() || !x.begin(nil) {
		return
	}
	parts := x.segments("/conversations/")
	v, ok := findRecord[*conversation](&x.sim.stored, conversationFamily, parts[0])
	if !ok {
		x.refuse(http.StatusNotFound, noConversation(parts[0]))
		return
	}
	operation := x.r.Method
	if len(parts) > 1 {
		operation += " " + parts[1]
	}
	if len(parts) > 2 {
		operation += " item"
	}
	switch operation {
	case "GET":
		x.sendJSON(http.StatusOK, v.describe())
	case "POST":
		x.updateConversation(v)
	case "DELETE":
		x.sim.stored.remove(conversationFamily, v.id)
		x.sendJSON(http.StatusOK, object{"id": v.id, "object": "conversation.deleted", "deleted": true})
	case "GET items":
		x.listItems(v)
	case "POST items":
		x.addItems(v)
	case "GET items item", "DELETE items item":
		x.serveItem(v, strings.Join(parts[2:], "/"))
	default:
		x.refuse(http.StatusNotFound, noConversation(parts[0]))
	}
}

func (x *exchange) updateConversation(v *conversation) {
	body, ok := x.decodeObject()
	if !ok {
		return
	}
	c := newChecker(x.protocol)
	c.checkMembers(body, "", "metadata")
	c.metadata(body)
	metadata := c.child(body, "metadata", "")
	if _, ok := body["metadata"]; !ok {
		c.fail("metadata", "Missing required parameter: 'metadata'.")
	}
	if c.wrong.kind != "" {
		x.refuse(statusOf, c.wrong)
		return
	}
	v.mu.Lock()
	v.metadata = metadata
	v.mu.Unlock()
	x.sendJSON(http.StatusOK, v.describe())
}

func (x *exchange) listItems(v *conversation) {
	query, ok := x.query("after", "limit", "order", "include", "include[]")
	if !ok || !x.checkIncludes(query) {
		return
	}
	list := v.list()
	slices.Reverse(list)
	collection[any]{itemPages, list, itemKey, func(v any) any { return v }}.send(x, query)
}

func (x *exchange) addItems(v *conversation) {
	query, ok := x.query("include", "include[]")
	if !ok || !x.checkIncludes(query) {
		return
	}
	body, ok := x.decodeObject()
	if !ok {
		return
	}
	c := newChecker(x.protocol)
	c.checkMembers(body, "", "items")
	items := x.newItems(c, body, v.list(), true)
	if c.wrong.kind != "" {
		x.refuse(statusOf, c.wrong)
		return
	}
	v.add(x.sim, items)
	x.sendCreated(http.StatusOK, object{"object": "list", "data": items, "first_id": itemKey(items[0]),
		"last_id": itemKey(items[len(items)-1]), "has_more": false})
}

// serveItem answers GET and DELETE of an item.
func (x *exchange) serveItem(v *conversation, id string) {
	query, ok := x.query("include", "include[]")
	if !ok || !x.checkIncludes(query) {
		return
	}
	v.mu.Lock()
	i := slices.IndexFunc(v.items, func(item any) bool { return itemKey(item) == id })
	var item any
	if i >= 0 {
		if item = v.items[i]; x.r.Method == http.MethodDelete {
			v.items = slices.Delete(slices.Clone(v.items), i, i+1)
		}
	}
	v.mu.Unlock()
	switch {
	case i < 0:
		x.refuse(http.StatusNotFound, providerError{kind: invalidRequest, message: "Item with id '" + id + "' not found in conversation."})
	case x.r.Method == http.MethodDelete:
		x.sendJSON(http.StatusOK, v.describe())
	default:
		x.sendJSON(http.StatusOK, item)
	}
}
