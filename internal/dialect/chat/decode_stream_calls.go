package chat

import (
	"hash/fnv"
	"strconv"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// openCall is the state of a tool call while it is read.
type openCall struct {
	index  int64
	id     string
	name   string
	custom bool
	sign   llm.Signature

	part  int // noPart until the name is known
	ended bool
	// free is true if the call is of a function that replaces a custom tool.
	// Its arguments are collected until they can be unwrapped.
	free     bool
	gathered []byte
	early    string // arguments that came before the name
	text     dialect.JSONEnd
}

// wireCall is a piece of a call as received.
type wireCall struct {
	index     int64 // negative if the piece has none
	id, name  string
	arguments string
	custom    bool
	sign      llm.Signature
}

// readCalls reads pieces of calls.
func (c *choice) readCalls(dst []llm.Event, i int, raw []byte) []llm.Event {
	v, err := jsonedit.ParseValue(raw)
	if err != nil {
		return dst
	}
	for e := range v.Elements() {
		piece := readCall(e)
		var call *openCall
		if call, dst = c.callFor(dst, i, &piece); call != nil {
			dst = c.growCall(dst, i, call, &piece)
		}
	}
	return dst
}

func readCall(v jsonedit.Value) wireCall {
	w := wireCall{index: -1}
	for key, m := range v.Fields() {
		switch key.String() {
		case "index":
			if n, ok := m.Int(); ok && n >= 0 {
				w.index = n
			}
		case "id":
			w.id, _ = m.Text()
		case "function":
			w.called(m)
		case "custom":
			if !m.IsNull() {
				w.custom = w.custom || w.name == ""
				w.called(m)
			}
		case "type":
			word, _ := m.TextBytes()
			w.custom = string(word) == "custom"
		case "extra_content":
			w.sign = googleSignature(m)
		}
	}
	return w
}

func (w *wireCall) called(v jsonedit.Value) {
	for key, m := range v.Fields() {
		switch key.String() {
		case "name":
			w.name, _ = m.Text()
		case "arguments", "input":
			w.arguments = dialect.Arguments(m)
		case "thought_signature":
			text, _ := m.Text()
			w.sign = dialect.ReadSignature(llm.Google, text)
		}
	}
}

// callFor returns the call that a piece belongs to. Some providers leave out
// the index, or use one index for several calls with different ids.
func (c *choice) callFor(dst []llm.Event, i int, w *wireCall) (*openCall, []llm.Event) {
	for n := len(c.calls) - 1; n >= 0; n-- {
		call := c.calls[n]
		fresh := w.name != "" && w.id != "" && call.id != "" && w.id != call.id
		switch {
		case w.index >= 0 && call.index == w.index && !fresh,
			w.index < 0 && w.id != "" && call.id == w.id && !w.begins(call),
			w.index < 0 && w.id == "" && w.name == "":
			if call.ended {
				return nil, dst
			}
			return call, dst
		}
	}
	if len(c.calls) >= maxCalls {
		return nil, dst
	}
	for _, call := range c.calls {
		if call.text.Complete() {
			dst = c.endCall(dst, i, call)
		}
	}
	call := &openCall{index: w.index, id: w.id, custom: w.custom, part: noPart}
	if w.index < 0 {
		call.index = int64(len(c.calls))
	}
	c.calls = append(c.calls, call)
	return call, dst
}

// begins reports whether the piece is a new call rather than a piece of call,
// which is complete.
func (w *wireCall) begins(call *openCall) bool {
	return w.name != "" && w.arguments != "" && call.text.Complete()
}

// maxCalls is the limit of calls in one choice.
const maxCalls = 1024

func (c *choice) growCall(dst []llm.Event, i int, call *openCall, w *wireCall) []llm.Event {
	if call.part == noPart {
		if call.id == "" {
			call.id = w.id
		}
		call.custom = call.custom || w.custom
		call.name += w.name
		call.early += w.arguments
		if w.sign.Value != "" {
			call.sign = w.sign
		}
		if call.name == "" {
			return dst
		}
		return c.openCall(dst, i, call)
	}
	if w.arguments != "" {
		dst = c.appendArguments(dst, i, call, w.arguments)
	}
	if w.sign.Value != "" && w.sign != call.sign {
		call.sign = w.sign
		dst = append(dst, llm.Event{Kind: llm.EventDelta, Choice: i, Part: call.part, Signature: w.sign})
	}
	return dst
}

// openCall begins the part of a call, once its name is known.
func (c *choice) openCall(dst []llm.Event, i int, call *openCall) []llm.Event {
	dst = c.endTextPart(dst, i)
	if call.id == "" {
		call.id = c.callID(call.name)
	}
	call.free = !call.custom && c.d.asked.IsCustom(call.name)
	dst, call.part = c.begin(dst, i, llm.ToolCall{ID: call.id, Name: call.name, Custom: call.custom || call.free, Signature: call.sign})
	if call.early != "" {
		dst = c.appendArguments(dst, i, call, call.early)
		call.early = ""
	}
	return dst
}

// appendArguments adds to the arguments of a call.
func (c *choice) appendArguments(dst []llm.Event, i int, call *openCall, piece string) []llm.Event {
	call.text.Read(piece)
	if call.free {
		call.gathered = append(call.gathered, piece...)
		return dst
	}
	return append(dst, llm.Event{Kind: llm.EventDelta, Choice: i, Part: call.part, Text: piece})
}

// callID returns an id for a call without one. It depends on the response's id,
// the number of messages and the call's position, so that no two calls of a
// conversation share an id.
func (c *choice) callID(name string) string {
	h := fnv.New64a()
	turns := 0
	if c.d.asked != nil {
		turns = len(c.d.asked.Messages)
	}
	for _, s := range [...]string{c.d.start.ID, name, strconv.Itoa(turns), strconv.Itoa(c.next)} {
		_, _ = h.Write([]byte(s))
		_, _ = h.Write([]byte{0})
	}
	return "call_" + strconv.FormatUint(h.Sum64(), 36)
}

func (c *choice) endCall(dst []llm.Event, i int, call *openCall) []llm.Event {
	if call.part == noPart || call.ended {
		return dst
	}
	call.ended = true
	if call.free {
		dst = append(dst, llm.Event{Kind: llm.EventDelta, Choice: i, Part: call.part, Text: dialect.UnwrapText(string(call.gathered))})
	}
	return append(dst, llm.Event{Kind: llm.EventPartEnd, Choice: i, Part: call.part})
}

// legacyCall reads a piece of a function_call. A response has at most one.
func (c *choice) legacyCall(dst []llm.Event, i int, raw []byte) []llm.Event {
	v, err := jsonedit.ParseValue(raw)
	if err != nil || v.Kind() != jsonedit.Object {
		return dst
	}
	w := wireCall{index: -1}
	w.called(v)
	if w.name == "" && w.arguments == "" {
		return dst
	}
	if len(c.calls) == 0 {
		c.calls = append(c.calls, &openCall{part: noPart})
	}
	return c.growCall(dst, i, c.calls[0], &w)
}
