package agents

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
)

// cardKind is which card an operation reads.
type cardKind uint8

const (
	noCard       cardKind = iota
	publicCard            // at its well-known address
	extendedCard          // of the agent for those who have signed in
)

// operation is what clients ask of agents.
type operation struct {
	sends bool // a message
	task  bool // of a task that the request names
	lists bool // the tasks of a context
	push  bool // of push notifications, which are refused
	card  cardKind
}

var (
	sending  = operation{sends: true}
	onTask   = operation{task: true}
	listing  = operation{lists: true}
	pushing  = operation{push: true}
	extended = operation{card: extendedCard}
)

// methods are those of JSON-RPC, of 1.0 and of 0.3. No others are relayed: what their
// parameters mean is unknown.
// https://a2a-protocol.org/v1.0.0/specification/#53-method-mapping-reference
var methods = map[string]operation{
	"SendMessage": sending, "SendStreamingMessage": sending, "GetTask": onTask, "CancelTask": onTask, "SubscribeToTask": onTask,
	"ListTasks": listing, "GetExtendedAgentCard": extended,
	"CreateTaskPushNotificationConfig": pushing, "SetTaskPushNotificationConfig": pushing, "GetTaskPushNotificationConfig": pushing,
	"ListTaskPushNotificationConfigs": pushing, "ListTaskPushNotificationConfig": pushing, "DeleteTaskPushNotificationConfig": pushing,

	"message/send": sending, "message/stream": sending, "tasks/get": onTask, "tasks/cancel": onTask, "tasks/resubscribe": onTask,
	"tasks/list": listing, "agent/getAuthenticatedExtendedCard": extended,
	"tasks/pushNotificationConfig/set": pushing, "tasks/pushNotificationConfig/get": pushing,
	"tasks/pushNotificationConfig/list": pushing, "tasks/pushNotificationConfig/delete": pushing,
}

// call is a request of a client as it is sent on: its ids are those of the agent.
type call struct {
	kind    operation
	method  string         // of HTTP
	body    []byte         // as the client sent it; nil for none
	params  jsonedit.Value // in body: what guardrails read and what has ids
	path    string         // of HTTP+JSON, below the address of the agent, escaped
	query   string         // of HTTP+JSON
	context string         // that tasks are listed of, as the agent knows it
	tenant  string         // that the client names; empty for none
	edits   []splice       // of body
	id      jsonedit.Value // of JSON-RPC, in body
	sentID  []byte         // with which body is sent
	aside   []string       // text outside of params that reaches the agent
}

// read reads what the client asks for.
func (x *request) read() (*call, error) {
	switch below := x.tools.Path; {
	case below == "" && x.http.Method == http.MethodPost:
		return x.readRPC()
	case below == "":
		return nil, apierr.New(apierr.MethodNotAllowed, "an agent takes POST at its address")
	case below == ".well-known/agent-card.json" && x.http.Method == http.MethodGet:
		return &call{kind: operation{card: publicCard}}, nil
	}
	return x.readPath()
}

// readBody reads the body, which stays in use until the request ends.
func (x *request) readBody() (body []byte, err error) {
	body, x.release, err = x.tools.ReadMessage(x.http)
	return body, err
}

// readRPC reads a request of JSON-RPC.
func (x *request) readRPC() (*call, error) {
	body, err := x.readBody()
	if err != nil {
		return nil, err
	}
	var top jsonedit.Doc
	if err := top.Scan(body); err != nil {
		if jsonedit.KindOf(body) == jsonedit.Array {
			return nil, apierr.New(apierr.Invalid, "batches are not supported; send one message in a request")
		}
		return nil, apierr.New(apierr.Invalid, "the body must be a request of JSON-RPC: %v", err)
	}
	for key := range top.Members() {
		// Lenient parsers take a member in another spelling for one of these.
		if !key.Is("jsonrpc") && !key.Is("id") && !key.Is("method") && !key.Is("params") {
			return nil, apierr.New(apierr.Invalid, "the request has the member %.60q, which JSON-RPC does not; remove it", key.String())
		}
	}
	version, _ := top.Find("jsonrpc")
	id, _ := top.Find("id")
	if !version.IsText("2.0") || id.Kind() != jsonedit.String && id.Kind() != jsonedit.Number {
		return nil, apierr.New(apierr.Invalid, `the request must have "jsonrpc":"2.0" and an id, which is a string or a number`)
	}
	x.tools.MessageID = id.Raw()
	method, _ := top.Find("method")
	name, _ := method.Text()
	kind, ok := methods[name]
	if !ok {
		return nil, apierr.New(apierr.NotFound, "the method %.60q is not one of A2A that this gateway relays", name).
			WithCode("a2a_method_not_found")
	}
	c := &call{kind: kind, method: http.MethodPost, body: body, id: id, sentID: id.Raw()}
	if acts, _ := x.tools.Guards(); acts { // they do not read ids
		c.sentID = []byte("1")
	}
	c.params, _ = top.Find("params")
	return c, x.rewrite(c)
}

// verbs are the operations of HTTP+JSON on a task, by their method and their name after a
// colon. That of 0.3 for a subscription is POST.
var verbs = map[string]bool{"GET ": true, "POST cancel": true, "GET subscribe": true, "POST subscribe": true}

// readPath reads a request of HTTP+JSON. Its paths are those of 1.0, and below v1/ those of
// 0.3.
// https://a2a-protocol.org/v1.0.0/specification/#113-url-patterns-and-http-methods
func (x *request) readPath() (*call, error) {
	c := &call{method: x.http.Method, path: x.tools.Path}
	rest, old := strings.CutPrefix(c.path, "v1/")
	base := ""
	if old {
		base = "v1/"
	}
	id, isTask := strings.CutPrefix(rest, "tasks/")
	id, verb, _ := strings.Cut(id, ":")
	switch {
	case c.method == http.MethodPost && (rest == "message:send" || rest == "message:stream"):
		c.kind = sending
	case c.method == http.MethodGet && rest == "tasks":
		c.kind = listing
	case c.method == http.MethodGet && (rest == "extendedAgentCard" || old && rest == "card"):
		c.kind = extended
	case isTask && strings.Contains(id, "/pushNotificationConfigs"):
		return nil, errPush
	case isTask && verbs[c.method+" "+verb] && !strings.Contains(id, "/"):
		inner, err := x.ids.inner(taskID, id)
		if err != nil {
			return nil, err
		}
		c.kind, c.path = onTask, base+"tasks/"+url.PathEscape(inner)
		if verb != "" {
			c.path += ":" + verb
		}
	default:
		return nil, apierr.New(apierr.NotFound, "an agent has nothing at this path; the binding HTTP+JSON of A2A has message:send and tasks, for example").
			WithCode("a2a_method_not_found")
	}
	if err := x.readQuery(c); err != nil {
		return nil, err
	}
	if c.method != http.MethodPost {
		return c, nil
	}
	body, err := x.readBody()
	if err != nil {
		return nil, err
	}
	if len(body) == 0 && c.kind.task {
		return c, nil
	}
	var top jsonedit.Doc
	if err := top.Scan(body); err != nil {
		return nil, invalid("body", "the body must be an object of JSON: %v", err)
	}
	c.body = body
	if c.params, err = jsonedit.ParseValue(body); err != nil {
		return nil, err
	}
	return c, x.rewrite(c)
}

// readQuery reads the query of HTTP+JSON. Whatever names a task but the path, or a context
// but that of a list, is refused.
func (x *request) readQuery(c *call) error {
	values, err := url.ParseQuery(x.http.URL.RawQuery)
	if err != nil {
		return invalid("query", "the query cannot be read: %v", err)
	}
	for name, list := range values {
		switch known := plainName(name); {
		case x.tools.HoldsKey(append(slices.Clip(list), name)):
			return invalid(name, "the parameter %.60q of the query has a credential of the gateway, which no agent gets", name)
		case strings.Contains(known, "pushnotification"):
			return errPush
		case known == "contextid" && c.kind.lists && len(list) == 1 && c.context == "":
			if c.context, err = x.ids.inner(contextID, list[0]); err != nil {
				return err
			}
			values[name] = []string{c.context}
		case known == "contextid" || known == "taskid" || known == "id" || known == "name" || known == "tenant" || known == "parent":
			return invalid(name, "the parameter %.60q of the query has no meaning here; remove it", name)
		default:
			c.aside = append(append(c.aside, name), list...)
		}
	}
	c.query = values.Encode()
	if c.kind.lists && c.context == "" {
		return errNoContext
	}
	return nil
}

// errNoContext is why tasks are not listed: the agent would list those of all callers.
var errNoContext = invalid("contextId", "tasks are listed for a context; send the contextId of an answer to this key")
