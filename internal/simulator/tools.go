package simulator

import (
	"encoding/json"
	"slices"
	"strconv"
)

// maxCalls is the maximum number of parallel tool calls.
const maxCalls = 4

// A toolCall is one call in a response.
type toolCall struct {
	id        string
	name      []byte // raw JSON
	arguments []byte // raw JSON string bytes, between quotes
}

// callable is a function of a request.
type callable struct {
	Name       string          `json:"name"`
	Parameters json.RawMessage `json:"parameters"`
}

// wantedCalls returns the tool calls that answer the request: of the first few
// tools, or of the chosen one. After a tool's result, and if calls are
// forbidden, there are none. legacy is true for function calls.
func (x *exchange) wantedCalls(q *chatRequest) (calls []toolCall, legacy bool) {
	if role := string(q.lastRole); role == "tool" || role == "function" {
		return nil, false
	}
	choice := q.choice
	offered := readTools(q.tools)
	if len(offered) == 0 {
		legacy, choice = true, q.call
		offered = readFunctions(q.functions)
	}
	if string(choice) == `"none"` {
		return nil, false
	}
	most, number := maxCalls, x.plan.calls
	if q.serial || legacy {
		most = 1
	}
	only := chosenName(choice)
	if only != "" {
		offered = slices.DeleteFunc(offered, func(f callable) bool { return f.Name != only })
	}
	if number == 0 {
		number = min(len(offered), maxCalls)
	} else if !q.serial && !legacy {
		most = number
	}
	for i := 0; i < min(number, most) && len(offered) > 0; i++ {
		f := offered[i%len(offered)]
		arguments := string(appendSample(nil, f.Parameters, plainText(q.lastUser)))
		calls = append(calls, toolCall{
			id:        x.callID(len(calls)),
			name:      appendRaw(nil, f.Name),
			arguments: appendRaw(nil, arguments),
		})
	}
	return calls, legacy
}

func readTools(raw []byte) []callable {
	var tools []struct {
		Type     string   `json:"type"`
		Function callable `json:"function"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &tools) != nil {
		return nil
	}
	var list []callable
	for _, t := range tools {
		if t.Type == "function" {
			list = append(list, t.Function)
		}
	}
	return list
}

func readFunctions(raw []byte) (list []callable) {
	if len(raw) == 0 || json.Unmarshal(raw, &list) != nil {
		return nil
	}
	return list
}

// chosenName returns the function named in a tool_choice or function_call, or
// nothing.
func chosenName(choice []byte) string {
	var c struct {
		Name     string `json:"name"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if len(choice) == 0 || choice[0] != '{' || json.Unmarshal(choice, &c) != nil {
		return ""
	}
	if c.Function.Name != "" {
		return c.Function.Name
	}
	return c.Name
}

func (x *exchange) callResponse(q *chatRequest, calls []toolCall, legacy bool) chatResponse {
	a := chatResponse{calls: calls, legacy: legacy, finish: "tool_calls"}
	if legacy {
		a.finish = "function_call"
	}
	for _, c := range calls {
		a.tokens += c.tokens()
	}
	if x.plan.preface {
		a.preface = []byte(prefaceText)
		a.tokens += tokensOf(len(prefaceText))
	}
	a.tokens *= q.n
	return a
}

// tokens counts the name and the arguments as text.
func (c *toolCall) tokens() int { return tokensOf(textLen(c.name)) + tokensOf(textLen(c.arguments)) }

// appendCalls appends the members of a message with the calls.
func (a *chatResponse) appendCalls(dst []byte) []byte {
	if a.legacy {
		return a.calls[0].appendFunction(append(dst, `,"function_call":`...), a.calls[0].arguments)
	}
	dst = append(dst, `,"tool_calls":[`...)
	for i := range a.calls {
		if i > 0 {
			dst = append(dst, ',')
		}
		c := &a.calls[i]
		dst = append(append(append(dst, `{"id":"`...), c.id...), `","type":"function","function":`...)
		dst = append(c.appendFunction(dst, c.arguments), '}')
	}
	return append(dst, ']')
}

func (c *toolCall) appendFunction(dst, arguments []byte) []byte {
	dst = append(append(append(dst, `{"name":"`...), c.name...), `","arguments":"`...)
	return append(append(dst, arguments...), `"}`...)
}

// callDeltas streams the calls: first the name with empty arguments, then the
// arguments in pieces.
func (c *chatStream) callDeltas() bool {
	for i := range c.q.n {
		if c.a.preface != nil && !c.pieces(i, "content", c.a.preface) {
			return false
		}
		if c.x.plan.interleave && !c.a.legacy {
			if !c.interleaved(i) {
				return false
			}
			continue
		}
		for j := range c.a.calls {
			if !c.callDelta(i, j) {
				return false
			}
		}
	}
	return true
}

// interleaved streams the calls together: all the names, then the interleaved
// arguments.
func (c *chatStream) interleaved(choice int) bool {
	at := make([]int, len(c.a.calls))
	for j := range c.a.calls {
		if !c.callName(choice, j) {
			return false
		}
	}
	for more := true; more; {
		more = false
		for j := range c.a.calls {
			raw := c.a.calls[j].arguments
			if at[j] == len(raw) {
				continue
			}
			to, _ := advance(raw, at[j], c.size)
			if !c.argumentDelta(choice, j, raw[at[j]:to]) {
				return false
			}
			at[j], more = to, true
		}
	}
	for j := range c.a.calls {
		c.x.served += tokensOf(textLen(c.a.calls[j].arguments))
	}
	return true
}

func (c *chatStream) callName(choice, index int) bool {
	call := &c.a.calls[index]
	b := c.openDelta(choice, index)
	if !c.a.legacy {
		b = append(append(append(b, `,"id":"`...), call.id...), `","type":"function","function":`...)
	}
	if !c.finish(c.closeDelta(call.appendFunction(b, nil))) {
		return false
	}
	c.x.served += tokensOf(textLen(call.name))
	return true
}

func (c *chatStream) argumentDelta(choice, index int, piece []byte) bool {
	b := c.openDelta(choice, index)
	if !c.a.legacy {
		b = append(b, `,"function":`...)
	}
	b = append(append(append(b, `{"arguments":"`...), piece...), `"}`...)
	return c.finish(c.closeDelta(b))
}

func (c *chatStream) callDelta(choice, index int) bool {
	if !c.callName(choice, index) {
		return false
	}
	call := &c.a.calls[index]
	for at, sent := 0, 0; at < len(call.arguments); {
		to, passed := advance(call.arguments, at, c.size)
		if !c.argumentDelta(choice, index, call.arguments[at:to]) {
			return false
		}
		c.x.served += tokensOf(sent+passed) - tokensOf(sent)
		at, sent = to, sent+passed
	}
	return true
}

func (c *chatStream) openDelta(choice, index int) []byte {
	b := c.chunk(choice)
	if c.a.legacy {
		return append(b, `"function_call":`...)
	}
	return strconv.AppendInt(append(b, `"tool_calls":[{"index":`...), int64(index), 10)
}

func (c *chatStream) closeDelta(b []byte) []byte {
	if c.a.legacy {
		return b
	}
	return append(b, `}]`...)
}

// deferred records a mistake for a cache mark on a tool that is not in the prompt.
// https://docs.claude.com/en/docs/agents-and-tools/tool-use/tool-search-tool
func (c *checker) deferred(tool map[string]any, name, path string) {
	if tool["defer_loading"] == true && tool["cache_control"] != nil {
		c.fail(at(path, "cache_control"),
			"Tool '%s' cannot have both defer_loading=true and cache_control set. Tools with defer_loading cannot use prompt caching.", name)
	}
}
