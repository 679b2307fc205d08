package policy

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
)

const (
	// maxHistory is the length in bytes up to which a body is searched for loops.
	maxHistory = 16 << 20
	// maxCalls is how many tool calls and tool results of a body are read.
	maxCalls = 10_000
	// maxArguments is the length in bytes up to which arguments are compared as JSON
	// and not as text.
	maxArguments = 64 << 10
	// maxCallName is the length in bytes of a tool's name in messages.
	maxCallName = 100
)

// history summarises the tool calls of a request body.
type history struct {
	name    string // of the tool that was called most often with the same arguments
	repeats int    // of that call
	stalled int    // last tool results in a row that repeat earlier ones

	calls   map[[sha256.Size]byte]int
	results map[[sha256.Size]byte]struct{}
	read    int // calls and results
}

// readHistory reads the tool calls and tool results of a body in any dialect: chat,
// messages, responses, gemini and converse. A body that is too long has none.
func readHistory(body []byte) *history {
	h := &history{calls: make(map[[sha256.Size]byte]int), results: make(map[[sha256.Size]byte]struct{})}
	if len(body) > maxHistory {
		return h
	}
	c := jsonedit.NewCursor(body)
	if !c.Enter('{') {
		return h
	}
	for {
		field, ok := c.Field()
		if !ok {
			return h
		}
		switch string(field) {
		case "messages", "input", "contents":
			h.items(c.Raw(), (*history).message)
		default:
			c.Skip()
		}
	}
}

// items calls read for each object of an array.
func (h *history) items(raw []byte, read func(*history, []byte)) {
	c := jsonedit.NewCursor(raw)
	if !c.Enter('[') {
		return
	}
	for c.Element() && !c.Failed() && h.read < maxCalls {
		item := c.Raw()
		if len(item) > 0 && item[0] == '{' {
			read(h, item)
		}
	}
}

// fields returns the raw values of the named fields of an object, in their order. A
// missing one is nil.
func fields(object []byte, names ...string) [][]byte {
	out := make([][]byte, len(names))
	c := jsonedit.NewCursor(object)
	if !c.Enter('{') {
		return out
	}
next:
	for {
		field, ok := c.Field()
		if !ok {
			return out
		}
		for i, name := range names {
			if string(field) == name {
				out[i] = c.Raw()
				continue next
			}
		}
		c.Skip()
	}
}

// message reads a message, or an item of the responses dialect.
func (h *history) message(raw []byte) {
	f := fields(raw, "role", "type", "content", "parts", "tool_calls", "function_call", "name", "arguments", "output")
	role, kind, content, parts, calls, legacy, name, arguments, output := f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7], f[8]
	switch {
	case is(kind, "function_call"), is(kind, "custom_tool_call"):
		h.call(name, arguments)
	case is(kind, "function_call_output"), is(kind, "custom_tool_call_output"):
		h.result(output)
	case is(role, "tool"), is(role, "function"):
		h.result(content)
	}
	if legacy != nil {
		h.function(legacy)
	}
	h.items(calls, func(h *history, raw []byte) { h.function(fields(raw, "function")[0]) })
	if !is(role, "tool") && !is(role, "function") {
		h.items(content, (*history).part)
	}
	h.items(parts, (*history).part)
}

// function reads a call of the chat dialect.
func (h *history) function(raw []byte) {
	f := fields(raw, "name", "arguments")
	h.call(f[0], f[1])
}

// part reads a part of a message's content.
func (h *history) part(raw []byte) {
	f := fields(raw, "type", "name", "input", "content", "functionCall", "functionResponse", "toolUse", "toolResult", "function_call",
		"function_response")
	if f[4] == nil { // gemini accepts both spellings
		f[4] = f[8]
	}
	if f[5] == nil {
		f[5] = f[9]
	}
	switch {
	case is(f[0], "tool_use"):
		h.call(f[1], f[2])
	case is(f[0], "tool_result"):
		h.result(f[3])
	case f[4] != nil:
		g := fields(f[4], "name", "args")
		h.call(g[0], g[1])
	case f[5] != nil:
		h.result(fields(f[5], "response")[0])
	case f[6] != nil:
		g := fields(f[6], "name", "input")
		h.call(g[0], g[1])
	case f[7] != nil:
		h.result(fields(f[7], "content")[0])
	}
}

// is reports whether raw is a JSON string with this text.
func is(raw []byte, text string) bool {
	return len(raw) == len(text)+2 && raw[0] == '"' && string(raw[1:len(raw)-1]) == text
}

// call counts a tool call.
func (h *history) call(name, arguments []byte) {
	if len(name) == 0 || h.read >= maxCalls {
		return
	}
	h.read++
	sum := sha256.Sum256(append(append(bytes.Clone(name), 0), canonical(arguments)...))
	h.calls[sum]++
	if n := h.calls[sum]; n > h.repeats {
		h.repeats, h.name = n, unquote(name)
	}
}

// result counts a tool result.
func (h *history) result(raw []byte) {
	if h.read >= maxCalls {
		return
	}
	h.read++
	sum := sha256.Sum256(bytes.TrimSpace(raw))
	if _, seen := h.results[sum]; !seen {
		h.results[sum] = struct{}{}
		h.stalled = 0
		return
	}
	h.stalled++
}

// canonical returns arguments in a form that does not depend on spaces, escapes and
// the order of fields. Arguments are an object, or a string that holds one.
func canonical(raw []byte) []byte {
	if len(raw) > maxArguments {
		return raw
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = []byte(text)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // so that large integers differ
	var v any
	if d.Decode(&v) != nil || d.More() {
		return raw
	}
	out, err := json.Marshal(v)
	if err != nil {
		return raw
	}
	return out
}

func unquote(raw []byte) string {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return "?"
	}
	return fmt.Sprintf("%.*s", maxCallName, text)
}

// check returns an error if the history reaches a threshold of the policy.
func (h *history) check(p *Policy) error {
	switch {
	case p.Loop.SameCalls > 0 && h.repeats >= p.Loop.SameCalls:
		return loopError("the tool %q was called %d times with the same arguments, and policy %q allows fewer than %d; use the result you have, call it with other arguments, or ask the user",
			h.name, h.repeats, name(p), p.Loop.SameCalls)
	case p.Loop.Stalled > 0 && h.stalled >= p.Loop.Stalled:
		return loopError("the last %d tool results repeat earlier ones, and policy %q allows fewer than %d; change the approach, or ask the user",
			h.stalled, name(p), p.Loop.Stalled)
	}
	return nil
}

func loopError(format string, args ...any) error {
	return apierr.New(apierr.RateLimited, "loop detected: "+format, args...).WithCode(CodeLoop)
}
