package simulator

import "strconv"

// created is the creation time in every response, so that responses to the same
// body are equal.
const created = "1767225600"

// A chatAnswer is the content of a response before it is written as a body or a
// stream.
type chatResponse struct {
	texts  [][]byte // per choice, raw JSON; stored in x.text
	calls  []toolCall
	legacy bool // the calls are function calls rather than tool calls
	finish string
	tokens int // of all choices

	reasoning []byte // of each choice, raw JSON; nil if none
	preface   []byte // text before the calls, raw JSON; nil if none
	refused   bool   // the choices are refusals
}

// compose returns the content of the response.
func (x *exchange) compose(q *chatRequest) chatResponse {
	a := x.chooseResponse(q)
	if x.plan.thinking > 0 {
		a.reasoning = appendFiller(nil, x.plan.thinking*bytesPerToken)
		a.tokens += x.plan.thinking * q.n
	}
	return a
}

func (x *exchange) chooseResponse(q *chatRequest) chatResponse {
	if fixed := x.scripted(q); fixed != nil {
		return x.fixedResponse(q, fixed)
	}
	if a, ok := x.directedChat(q); ok {
		return a
	}
	if calls, legacy := x.wantedCalls(q); len(calls) > 0 {
		return x.callResponse(q, calls, legacy)
	}
	a := chatResponse{finish: "stop"}
	fixed := formatted(q.format, q.lastUser)
	from := len(x.text)
	ends := make([]int, 0, 8)
	for i := range q.n {
		var cut bool
		var end int
		start := len(x.text)
		if fixed != nil {
			x.text = append(x.text, fixed...)
		} else {
			x.text, cut = x.appendEcho(x.text, i, q.lastUser, q.limit)
		}
		if len(q.stop) > 0 {
			var stopped string
			if end, stopped = cutAtStop(x.text[start:], stopsOf(q.stop)); stopped != "" {
				x.text, cut = x.text[:start+end], false
			}
		}
		if cut {
			a.finish = "length"
		}
		ends = append(ends, len(x.text))
		a.tokens += tokensOf(textLen(x.text[start:]))
	}
	for _, end := range ends {
		a.texts = append(a.texts, x.text[from:end:end])
		from = end
	}
	return a
}

// fixedResponse returns a response with the same text in every choice.
func (x *exchange) fixedResponse(q *chatRequest, text []byte) chatResponse {
	a := chatResponse{finish: "stop", refused: x.plan.refusal}
	for range q.n {
		a.texts = append(a.texts, text)
		a.tokens += tokensOf(textLen(text))
	}
	return a
}

// appendEcho appends the response to a text: the text itself after "echo: ", and
// filler. limit is the maximum number of tokens, 0 for no limit; cut reports
// whether it made the response shorter.
func (x *exchange) appendEcho(dst []byte, choice int, echo []byte, limit int) (_ []byte, cut bool) {
	start := len(dst)
	dst = append(dst, "echo"...)
	if choice > 0 {
		dst = strconv.AppendInt(append(dst, ' '), int64(choice), 10)
	}
	dst = append(append(dst, ": "...), echo...)
	size := textLen(dst[start:])
	want := max(x.sim.opts.Tokens*bytesPerToken, size)
	if x.plan.tokens > 0 {
		want = x.plan.tokens * bytesPerToken
	}
	if limit > 0 && limit < tokensOf(want) {
		want, cut = limit*bytesPerToken, true
	}
	if size > want {
		end, _ := advance(dst, start, want)
		return dst[:end], cut
	}
	if size < want {
		dst = append(dst, ' ')
	}
	return appendFiller(dst, want-size-1), cut
}

// appendHead appends the common beginning of response objects.
func (x *exchange) appendHead(dst []byte, prefix, object string) []byte {
	const digits = "0123456789abcdef"
	dst = append(append(append(dst, `{"id":"`...), prefix...), '-')
	for id, shift := x.id(), 60; shift >= 0; shift -= 4 {
		dst = append(dst, digits[id>>shift&15])
	}
	dst = append(append(dst, `","object":"`...), object...)
	dst = append(append(dst, `","created":`+created+`,"model":"`...), x.rawName...)
	return append(dst, `","service_tier":"default","system_fingerprint":"fp_simulator","choices":[`...)
}

// appendUsage appends the usage as an object.
func (x *exchange) appendUsage(dst []byte, completion, reasoning int) []byte {
	dst = strconv.AppendInt(append(dst, `{"prompt_tokens":`...), int64(x.prompt), 10)
	dst = strconv.AppendInt(append(dst, `,"completion_tokens":`...), int64(completion), 10)
	dst = strconv.AppendInt(append(dst, `,"total_tokens":`...), int64(x.prompt+completion), 10)
	dst = strconv.AppendInt(append(dst, `,"prompt_tokens_details":{"cached_tokens":`...), int64(x.plan.cached), 10)
	if x.plan.written > 0 {
		dst = strconv.AppendInt(append(dst, `,"cache_write_tokens":`...), int64(x.plan.written), 10)
	}
	dst = append(dst, `,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":`...)
	dst = strconv.AppendInt(dst, int64(reasoning), 10)
	return append(dst, `,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}`...)
}

// appendChat appends the complete response as one object.
func (x *exchange) appendChat(dst []byte, q *chatRequest, a *chatResponse) []byte {
	dst = x.appendHead(dst, "chatcmpl", "chat.completion")
	for i := range q.n {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(append(dst, `{"index":`...), int64(i), 10)
		dst = append(dst, `,"message":{"role":"assistant","content":`...)
		dst = a.appendMessage(dst, i)
		dst = append(dst, `,"annotations":[]},"logprobs":`...)
		dst = q.appendLogprobs(dst, a.text(i))
		dst = append(append(append(dst, `,"finish_reason":"`...), a.finish...), `"}`...)
	}
	dst = append(dst, ']')
	if !x.plan.noUsage {
		dst = x.appendUsage(append(dst, `,"usage":`...), a.tokens, x.plan.thinking*q.n)
	}
	return append(dst, '}')
}

// appendMessage appends the members of a message, from the value of content on.
func (a *chatResponse) appendMessage(dst []byte, choice int) []byte {
	switch {
	case a.calls != nil:
		if a.preface == nil {
			dst = append(dst, "null"...)
		} else {
			dst = append(append(append(dst, '"'), a.preface...), '"')
		}
		dst = append(a.appendCalls(dst), `,"refusal":null`...)
	case a.refused:
		dst = append(append(append(dst, `null,"refusal":"`...), a.texts[choice]...), '"')
	default:
		dst = append(append(append(dst, '"'), a.texts[choice]...), `","refusal":null`...)
	}
	if a.reasoning != nil {
		dst = append(append(append(dst, `,"reasoning_content":"`...), a.reasoning...), '"')
	}
	return dst
}

func (a *chatResponse) text(choice int) []byte {
	if a.calls != nil {
		return nil
	}
	return a.texts[choice]
}
