package dialect

import (
	"strconv"

	"modelgate/api"
	"modelgate/internal/model/llm"
)

// CallIDs are ids of calls, each with the last number that made another call's id
// distinct from it. Some providers number the calls of each response from zero, or
// give one id to several calls.
type CallIDs map[string]int

// NewCallIDs returns the ids of all calls in messages.
func NewCallIDs(messages []llm.Message) CallIDs {
	ids := CallIDs{}
	for i := range messages {
		for _, p := range messages[i].Parts {
			if call, ok := p.(llm.ToolCall); ok {
				ids[call.ID] = 1
			}
		}
	}
	return ids
}

// Distinct returns id if neither c nor others has it, and otherwise id with a
// number. It adds what it returns to c. An empty id stays empty.
func (c CallIDs) Distinct(id string, others CallIDs) string {
	distinct := id
	for id != "" && c[distinct]+others[distinct] > 0 {
		c[id] = max(c[id], 1) + 1
		distinct = id + "_" + strconv.Itoa(c[id])
	}
	c[distinct] = max(c[distinct], 1)
	return distinct
}

// repeatsCallIDs reports whether two calls in messages have one id.
func repeatsCallIDs(messages []llm.Message) bool {
	var seen map[string]bool
	for i := range messages {
		for _, p := range messages[i].Parts {
			call, ok := p.(llm.ToolCall)
			switch {
			case !ok:
			case seen[call.ID]:
				return true
			case seen == nil:
				seen = map[string]bool{call.ID: true}
			default:
				seen[call.ID] = true
			}
		}
	}
	return false
}

// renamedCalls gives the calls of a conversation distinct ids, and results the ids
// of their calls.
type renamedCalls struct {
	ids  CallIDs
	sent map[string]*sentCalls // by the client's id
}

// sentCalls are the ids under which calls with one id are sent, from the first
// without a result on.
type sentCalls struct {
	ids       []string
	hasResult bool // the first has a result
}

func newRenamedCalls(messages []llm.Message) *renamedCalls {
	return &renamedCalls{ids: NewCallIDs(messages), sent: map[string]*sentCalls{}}
}

// call returns the id under which the next call with that id is sent.
func (r *renamedCalls) call(id string) string {
	s := r.sent[id]
	if s == nil {
		r.sent[id] = &sentCalls{ids: []string{id}}
		return id
	}
	if s.hasResult {
		s.ids, s.hasResult = s.ids[1:], false
	}
	s.ids = append(s.ids, r.ids.Distinct(id, nil))
	return s.ids[len(s.ids)-1]
}

// result returns the id under which the next result with that id is sent.
func (r *renamedCalls) result(id string) string {
	s := r.sent[id]
	switch {
	case s == nil:
		return id
	case s.hasResult && len(s.ids) > 1:
		s.ids = s.ids[1:]
	}
	s.hasResult = true
	return s.ids[0]
}

// ClientCallID returns the id of a call for clients of a dialect, so that their API takes it
// back: they send it with the next request, which another provider may get as it is.
func ClientCallID(client api.Dialect, id string) string {
	switch client {
	case api.DialectMessages, api.DialectInvoke, api.DialectConverse:
		return PlainShortCallID.Fit(id)
	case api.DialectChat, api.DialectResponses:
		return ShortCallID.Fit(id)
	}
	return id
}
