package ollama

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

var errNoResponse = errors.New("the response has no message")

// DecodeResponse reads a complete response, as a stream of one line.
func (Dialect) DecodeResponse(body []byte, r *llm.Request, to dialect.RequestTarget) (*llm.Response, error) {
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return nil, fmt.Errorf("reading a response of ollama: %w", err)
	}
	message, _ := v.Get("message")
	if message.Kind() != jsonedit.Object {
		if words := dialect.ErrorMessage(body); words != "" {
			return nil, fmt.Errorf("%w: %s", errNoResponse, words)
		}
		return nil, errNoResponse
	}
	l := lineOf(v)
	l.done = true
	var all dialect.Assembler
	for _, e := range newDecoder(r).add(nil, v, l) {
		all.Add(&e)
	}
	res, _, _ := all.Response()
	res.Dialect, res.Model = name, cmp.Or(res.Model, to.Model)
	return res, nil
}

// caller builds tool calls, with ids for those without one.
type caller struct {
	asked *llm.Request // may be nil
	calls int
}

func (c *caller) call(v jsonedit.Value) llm.ToolCall {
	function, _ := v.Get("function")
	arguments, _ := function.Get("arguments")
	call := llm.ToolCall{ID: v.TextOf("id"), Name: function.TextOf("name")}
	if kind := arguments.Kind(); kind == jsonedit.Object || kind == jsonedit.String {
		call.Arguments = dialect.Arguments(arguments)
	}
	if call.ID == "" {
		call.ID = c.id(&call)
	}
	if c.asked.IsCustom(call.Name) {
		call.Custom, call.Arguments = true, dialect.UnwrapText(call.Arguments)
	}
	c.calls++
	return call
}

// id returns an id for a call without one. It is the same for complete and
// streamed responses, and differs for each call and each turn of a
// conversation.
func (c *caller) id(call *llm.ToolCall) string {
	h, turn := fnv.New64a(), 0
	if c.asked != nil {
		turn = len(c.asked.Messages)
	}
	for _, s := range []string{strconv.Itoa(turn), strconv.Itoa(c.calls), call.Name, call.Arguments} {
		_, _ = h.Write([]byte(s))
		_, _ = h.Write([]byte{0})
	}
	return "call_" + hex.EncodeToString(h.Sum(nil))
}

// stopOf returns the neutral reason for a finish reason.
func stopOf(said string, called bool) llm.StopReason {
	stop := dialect.StopReasonOf(said)
	if called && (stop == llm.StopEnd || stop == "") {
		return llm.StopTool
	}
	return stop
}

// created returns the time of the response in unix seconds, zero if it is
// missing.
func created(v jsonedit.Value) int64 {
	t, err := time.Parse(time.RFC3339Nano, v.TextOf("created_at"))
	if err != nil || t.Unix() < 0 {
		return 0
	}
	return t.Unix()
}

// usageOf reads the token counts. The prompt's count is missing if Ollama had
// all of it in its cache.
func usageOf(v jsonedit.Value) llm.Usage {
	var c dialect.Counter
	u := llm.Usage{Input: c.ReadMember(v, "prompt_eval_count"), Output: c.ReadMember(v, "eval_count")}
	c.Mark(&u)
	return u
}

func logprobsOf(all jsonedit.Value) (list []llm.Logprob) {
	for item := range all.Elements() {
		one := logprobOf(item)
		top, _ := item.Get("top_logprobs")
		for other := range top.Elements() {
			one.Top = append(one.Top, logprobOf(other))
		}
		list = append(list, one)
	}
	return list
}

func logprobOf(v jsonedit.Value) llm.Logprob {
	out := llm.Logprob{Token: v.TextOf("token")}
	number, _ := v.Get("logprob")
	out.Logprob, _ = number.Float()
	list, _ := v.Get("bytes")
	for b := range list.Elements() {
		n, _ := b.Int()
		out.Bytes = append(out.Bytes, int(n))
	}
	return out
}
