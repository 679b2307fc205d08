package peer

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/jsonrpc"
	"modelgate/internal/upstream"
)

// mux is a connection that requests share: the stream of a session of the older HTTP with
// server-sent events, or a child process. Requests get ids and progress tokens of its own,
// since those of clients may be equal. It is safe for concurrent use.
type mux struct {
	peers *Peers
	key   eraKey // whose connection it is
	id    string // begins the ids of its sessions
	// shared says that several clients use the connection, so that a message of the server is
	// passed on only if it is known whom it concerns.
	shared bool
	// write sends a message. It does not keep it.
	write func(ctx context.Context, message []byte) *Failure

	mu        sync.Mutex
	last      uint64               // number given last; guarded by mu, as are the fields below
	calls     map[uint64]*muxReply // by number
	listeners map[*muxReply]bool
	used      time.Time // when a call or listener ended last
	lost      *Failure  // why it ended; nil while it is open
	done      chan struct{}
}

func (p *Peers) newMux(key eraKey, id string, shared bool) *mux {
	return &mux{peers: p, key: key, id: id, shared: shared, calls: map[uint64]*muxReply{}, listeners: map[*muxReply]bool{},
		used: time.Now(), done: make(chan struct{})}
}

// newSession returns the id of another session.
func (m *mux) newSession() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last++
	return m.id + "." + strconv.FormatUint(m.last, 10)
}

// send sends the message of a call.
func (m *mux) send(ctx context.Context, c *Call) (Reply, error) {
	e, failure := parseStrictly(c.Message)
	if failure != nil {
		return nil, failure
	}
	if !e.isRequest() {
		return m.notify(ctx, c, e)
	}
	r := m.newReply(ctx, c, timeouts(c.Server))
	r.id, r.token = bytes.Clone(e.id), bytes.Clone(findMember(e.params, "_meta", "progressToken"))
	if lost := m.add(r); lost != nil {
		r.watch.Stop()
		return nil, lost
	}
	number := strconv.AppendUint(nil, r.number, 10)
	text := replaceMembers(c.Message, e, number, m.tokenOf(r.number))
	if failure := m.write(r.watch.Context(), text); failure != nil {
		r.answered = failure.Unsent
		r.Close()
		return nil, failure
	}
	return r, nil
}

// parseStrictly reads the envelope of a message for a connection that others share. A member
// that the server could take for another id would lead its response to another client.
func parseStrictly(message []byte) (envelope, *Failure) {
	var d jsonedit.Doc
	if err := d.Scan(message); err != nil {
		return envelope{}, &Failure{Kind: Refused, Unsent: true, Err: err,
			Reason: "the message must be a JSON object whose members have different names"}
	}
	for key := range d.Members() {
		for _, name := range [...]string{"jsonrpc", "id", "method", "params", "result", "error"} {
			if text := key.String(); text != name && strings.EqualFold(text, name) {
				return envelope{}, &Failure{Kind: Refused, Unsent: true,
					Reason: "the members of the message must be written in small letters"}
			}
		}
	}
	e, _ := parseEnvelope(message)
	return e, nil
}

// tokenOf returns the progress token of a call. Clients cannot guess it, since the parameters
// of a message may have another one that the server takes instead.
func (m *mux) tokenOf(number uint64) []byte {
	return strconv.AppendQuote(nil, m.id+"-"+strconv.FormatUint(number, 10))
}

// notify sends a message that has no response.
func (m *mux) notify(ctx context.Context, c *Call, e envelope) (Reply, error) {
	text, ok := c.Message, !m.shared // it is about one client, and a shared server knows only one
	if textOf(e.method) == "notifications/cancelled" {
		text, ok = m.translateCancel(c, e)
	}
	if ok {
		if lost := m.failure(); lost != nil {
			return nil, lost
		}
		if failure := m.write(ctx, text); failure != nil {
			return nil, failure
		}
	}
	return endedReply{}, nil
}

// endedReply is the reply to a notification.
type endedReply struct{}

func (endedReply) Next() ([]byte, error) { return nil, errEnd }
func (endedReply) Status() int           { return 202 }
func (endedReply) Streams() bool         { return false }
func (endedReply) Close()                {}

// translateCancel returns the message that cancels a call, with the id that the server
// knows, and false if there is no such call.
func (m *mux) translateCancel(c *Call, e envelope) ([]byte, bool) {
	id := findMember(e.params, "requestId")
	m.mu.Lock()
	defer m.mu.Unlock()
	for number, r := range m.calls {
		if r.session == c.Session.ID && id != nil && bytes.Equal(r.id, id) {
			return cancelMessage(strconv.AppendUint(nil, number, 10)), true
		}
	}
	return nil, false
}

// listen returns the messages of the server that belong to no call.
func (m *mux) listen(ctx context.Context, c *Call) (Reply, error) {
	r := m.newReply(ctx, c, upstream.Timeouts{})
	r.listens = true
	if lost := m.add(r); lost != nil {
		r.watch.Stop()
		return nil, lost
	}
	return r, nil
}

// add adds a reply, or returns why the connection has ended.
func (m *mux) add(r *muxReply) *Failure {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lost != nil {
		return sessionLost()
	}
	m.last++
	r.number = m.last
	if r.listens {
		m.listeners[r] = true
	} else {
		m.calls[r.number] = r
	}
	return nil
}

// remove ends the interest of a reply, and reports whether its response is awaited.
func (m *mux) remove(r *muxReply) (awaited bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, awaited = m.calls[r.number]
	delete(m.calls, r.number)
	delete(m.listeners, r)
	m.used = time.Now()
	return awaited && m.lost == nil
}

// failure returns why nothing can be sent, or nil.
func (m *mux) failure() *Failure {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lost != nil {
		return sessionLost()
	}
	return nil
}

// fault returns why the connection ended, or nil if the gateway ended it.
func (m *mux) fault() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lost == nil || m.lost.Kind == SessionLost {
		return nil
	}
	return m.lost
}

// sessionLost returns the failure of a message in a session whose connection has ended.
func sessionLost() *Failure {
	return &Failure{Kind: SessionLost, Unsent: true, Reason: "the session with the tool server has ended"}
}

// end ends the connection: calls end with a failure.
func (m *mux) end(why *Failure) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.endLocked(why)
}

// endIfIdle ends the connection if nothing uses it since a time before now, and reports
// whether it did. It returns how long it remains in use otherwise, at least.
func (m *mux) endIfIdle(now time.Time, limit time.Duration) (ended bool, again time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.calls) > 0 || len(m.listeners) > 0 {
		return false, limit
	}
	if left := limit - now.Sub(m.used); left > 0 {
		return false, left
	}
	m.endLocked(sessionLost())
	return true, 0
}

func (m *mux) endLocked(why *Failure) {
	if m.lost != nil {
		return
	}
	m.lost = why
	close(m.done)
	for _, r := range m.calls {
		r.finish(why)
	}
	for r := range m.listeners {
		r.finish(errEnd)
	}
}

// receive passes on a message of the server. The message is copied where it is kept. It
// returns a response for the server, or nil.
func (m *mux) receive(text []byte) (answer []byte) {
	e, ok := parseEnvelope(text)
	if !ok {
		return nil // servers print other text, too
	}
	switch {
	case e.isResponse():
		m.respond(text, e)
	case !has(e.method):
	case e.isRequest():
		return m.receiveRequest(text, e)
	default:
		m.receiveNotification(text, e)
	}
	return nil
}

// respond passes a response to its call.
func (m *mux) respond(text []byte, e envelope) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.callOf(e.id)
	if r == nil {
		return
	}
	delete(m.calls, r.number)
	r.push(replaceAt(text, offsetIn(text, e.id), len(e.id), r.id), true)
}

// callOf returns the call with a number, as it is in a message. mu must be held.
func (m *mux) callOf(raw []byte) *muxReply {
	n, err := strconv.ParseUint(string(raw), 10, 64)
	if err != nil {
		return nil
	}
	return m.calls[n]
}

// receiveNotification passes on a notification: progress to its call, and others to those
// whom they concern.
func (m *mux) receiveNotification(text []byte, e envelope) {
	method := textOf(e.method)
	m.mu.Lock()
	defer m.mu.Unlock()
	if method == "notifications/progress" {
		token := findMember(e.params, "progressToken")
		number, ok := strings.CutPrefix(textOf(token), m.id+"-")
		if r := m.callOf([]byte(number)); ok && r != nil && r.token != nil {
			r.push(replaceAt(text, offsetIn(text, token), len(token), r.token), false)
		}
		return
	}
	if slices.Contains(commonNotifications, method) {
		for r := range m.listeners {
			r.push(bytes.Clone(text), false)
		}
		return
	}
	if r := m.recipient(); r != nil {
		r.push(bytes.Clone(text), false)
	}
}

// commonNotifications concern everybody who listens.
var commonNotifications = []string{"notifications/tools/list_changed", "notifications/prompts/list_changed",
	"notifications/resources/list_changed", "notifications/resources/updated"}

// recipient returns who gets a message that names no call, or nil. If several clients share
// the connection, that is the only call: a message of the call of one client must not reach
// another. mu must be held.
func (m *mux) recipient() *muxReply {
	if m.shared && len(m.calls) > 1 {
		return nil
	}
	if !m.shared {
		for r := range m.listeners {
			return r
		}
	}
	var newest *muxReply
	for _, r := range m.calls {
		if newest == nil || r.number > newest.number {
			newest = r
		}
	}
	return newest
}

// receiveRequest passes on a request of the server, or returns its response. No
// capabilities of clients are declared to a server that they share, so it must not ask.
func (m *mux) receiveRequest(text []byte, e envelope) (answer []byte) {
	method := textOf(e.method)
	if method == "ping" {
		return jsonrpc.Response(e.id, "result", []byte("{}"))
	}
	if !m.shared {
		m.mu.Lock()
		defer m.mu.Unlock()
		if r := m.recipient(); r != nil {
			r.push(bytes.Clone(text), false)
			return nil
		}
	}
	return (&jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "no client answers this request"}).Response(e.id)
}
