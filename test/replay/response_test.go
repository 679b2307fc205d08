package replay

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// response is what a recorded response says, in the terms of the chat protocol: the
// one that the provider gave, or the one that the client got.
type response struct {
	Text, Refusal string
	Thinking      string
	Calls         []toolCall
	Finish        string
	Usage         *usage // nil when none is reported
	Failed        string // message of an error inside the stream
}

// toolCall is a call of a tool. Arguments are the value that their text is, or
// the text itself where it is none.
type toolCall struct {
	ID, Name  string
	Arguments any
}

// arguments reads the text of a call's arguments; no text means no arguments.
func arguments(text string) any {
	if text == "" {
		return map[string]any{}
	}
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return text
	}
	return v
}

// object, list, text and number read what v has under a name, or nothing.
func object(v any, name string) map[string]any {
	m, _ := at(v, name).(map[string]any)
	return m
}

func list(v any, name string) []any {
	l, _ := at(v, name).([]any)
	return l
}

func text(v any, name string) string {
	s, _ := at(v, name).(string)
	return s
}

func number64(v any, name string) int64 {
	f, _ := at(v, name).(float64)
	return int64(f)
}

// at follows a path with dots between its names.
func at(v any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// sum fills in the total of counters.
func (u usage) sum() *usage {
	u.Total = u.Prompt + u.Completion
	return &u
}

// finish is the word of the chat protocol for the end of a response that the
// provider ended with said; words hold those that are neither the proper end
// nor tools.
func (a *response) finish(said string, words map[string]string) {
	switch word, ok := words[said]; {
	case a.Failed != "":
	case ok:
		a.Finish = word
	case len(a.Calls) > 0:
		a.Finish = "tool_calls"
	default:
		a.Finish = "stop"
	}
}

// chat reads a response of the chat protocol.
type chat struct {
	response
	calls map[int64]*toolCall
	texts map[int64]string // arguments
}

// readChat reads the response that the client of the chat protocol got.
func readChat(documents []string) response {
	c := chat{calls: map[int64]*toolCall{}, texts: map[int64]string{}}
	for _, d := range documents {
		c.document(parse(d))
	}
	for _, n := range slices.Sorted(maps.Keys(c.calls)) {
		c.calls[n].Arguments = arguments(c.texts[n])
		c.Calls = append(c.Calls, *c.calls[n])
	}
	return c.response
}

func (c *chat) document(v any) {
	if e := object(v, "error"); e != nil {
		c.Failed = text(e, "message")
	}
	if u := object(v, "usage"); u != nil {
		c.Usage = &usage{number64(u, "prompt_tokens"), number64(u, "completion_tokens"), number64(u, "total_tokens"),
			number64(u, "prompt_tokens_details.cached_tokens"), number64(u, "completion_tokens_details.reasoning_tokens")}
	}
	for _, choice := range list(v, "choices") {
		if number64(choice, "index") == 0 {
			c.choice(choice)
		}
	}
}

func (c *chat) choice(choice any) {
	m := object(choice, "message")
	if m == nil {
		m = object(choice, "delta")
	}
	c.Text += text(m, "content")
	c.Refusal += text(m, "refusal")
	c.Thinking += text(m, "reasoning_content")
	if reason := text(choice, "finish_reason"); reason != "" {
		c.Finish = reason
	}
	for i, call := range list(m, "tool_calls") {
		n := int64(i)
		if at(call, "index") != nil {
			n = number64(call, "index")
		}
		if c.calls[n] == nil {
			c.calls[n] = &toolCall{}
		}
		c.calls[n].ID += text(call, "id")
		c.calls[n].Name += text(call, "function.name") + text(call, "custom.name")
		c.texts[n] += text(call, "function.arguments") + text(call, "custom.input")
	}
}

func parse(document string) map[string]any {
	var v map[string]any
	json.Unmarshal([]byte(document), &v)
	return v
}
