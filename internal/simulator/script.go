package simulator

import "encoding/json"

// A ScriptedResponse is a response chosen by Options.Script: a text, and calls of
// offered tools after it. The thinking before it is the usual one.
type ScriptedResponse struct {
	Text  string
	Calls []ScriptedCall
}

// A ScriptedCall is a call of a tool. Arguments is encoded as JSON.
type ScriptedCall struct {
	Name      string
	Arguments any
}

// calls returns the calls with ids that begin at number first.
func (s *ScriptedResponse) calls(x *exchange, first int) []toolCall {
	list := make([]toolCall, len(s.Calls))
	for i, c := range s.Calls {
		raw, _ := json.Marshal(c.Arguments) // maps of strings
		list[i] = toolCall{id: x.callID(first + i), name: appendRaw(nil, c.Name), arguments: appendRaw(nil, string(raw))}
	}
	return list
}

// directed adds the scripted response to a turn, and reports whether there is
// one.
func (x *exchange) directed(q *turn, a *response) bool {
	if x.sim.opts.Script == nil {
		return false
	}
	s := x.sim.opts.Script(&q.seen)
	if s == nil {
		return false
	}
	if s.Text != "" {
		a.add(partText, appendRaw(nil, s.Text))
	}
	for _, c := range s.calls(x, len(q.seen.Calls)) {
		a.stop = stopTools
		a.parts = append(a.parts, part{kind: partCall, call: c})
	}
	return true
}

// directedChat returns the scripted response to a chat request, and whether there
// is one.
func (x *exchange) directedChat(q *chatRequest) (chatResponse, bool) {
	if x.sim.opts.Script == nil {
		return chatResponse{}, false
	}
	r := x.chatReport(q)
	s := x.sim.opts.Script(r)
	switch {
	case s == nil:
		return chatResponse{}, false
	case len(s.Calls) == 0:
		return x.fixedResponse(q, appendRaw(nil, s.Text)), true
	}
	a := chatResponse{calls: s.calls(x, len(r.Calls)), finish: "tool_calls", preface: appendRaw(nil, s.Text)}
	for _, c := range a.calls {
		a.tokens += c.tokens()
	}
	return a, true
}
