package simulator

import (
	"net/http"
	"strconv"
)

// A textRequest is the part of a completion request that the simulator uses.
type textRequest struct {
	prompts             []input
	n, limit, logprobs  int // logprobs is -1 if not requested
	echo, stream, usage bool
	options             bool // stream_options was sent
}

// serveCompletion answers POST /completions.
func serveCompletion(x *exchange) {
	q := textRequest{n: 1, logprobs: -1}
	var wrong providerError
	if !x.readObject(&wrong, func(s *scanner, key []byte) { q.read(x, s, key, &wrong) }, q.needed) {
		return
	}
	if !x.needsModel() {
		return
	}
	x.prompt = sumTokens(q.prompts)
	texts, finish := x.composeText(&q)
	if x.plan.streams(q.stream) {
		x.streamText(&q, texts, finish)
		return
	}
	x.out = x.appendHead(x.out[:0], "cmpl", "text_completion")
	completion := 0
	for i, text := range texts {
		if i > 0 {
			x.out = append(x.out, ',')
		}
		x.out = q.appendChoice(x.out, i, text, finish)
		completion += tokensOf(textLen(text))
	}
	x.out = append(x.out, ']')
	if !x.plan.noUsage {
		x.out = x.appendUsage(append(x.out, `,"usage":`...), completion, 0)
	}
	x.served = completion
	x.out = append(x.out, '}')
	x.sendBody(http.StatusOK, typeJSON, x.out)
}

func (q *textRequest) read(x *exchange, s *scanner, key []byte, wrong *providerError) {
	switch string(key) {
	case "prompt":
		q.prompts = s.inputsOf("prompt", wrong)
	case "n":
		q.n = s.integerOf("n", 1, wrong)
	case "max_tokens":
		q.limit = s.integerOf("max_tokens", 0, wrong)
	case "logprobs":
		q.logprobs = s.integerOf("logprobs", -1, wrong)
	case "echo":
		q.echo = s.boolOf("echo", wrong)
	case "stream":
		q.stream = s.boolOf("stream", wrong)
		x.asked = q.stream
	case "stream_options":
		q.options, q.usage = s.streamOptions()
	default:
		s.skip()
	}
}

func (q *textRequest) needed() providerError {
	switch {
	case len(q.prompts) == 0:
		return missing("prompt")
	case q.n < 1 || q.n > 128:
		return mistyped("n", "an integer from 1 to 128")
	case q.options && !q.stream:
		return optionsWithoutStream
	case q.limit < 0:
		return mistyped("max_tokens", "an integer, not negative")
	}
	return providerError{}
}

// composeText returns the text of each choice: n for each prompt.
func (x *exchange) composeText(q *textRequest) (texts [][]byte, finish string) {
	finish = "stop"
	for _, p := range q.prompts {
		said := p.raw
		if !p.text {
			said = strconv.AppendInt(nil, int64(p.tokens), 10)
			said = append(said, " tokens"...)
		}
		for i := range q.n {
			var text []byte
			if q.echo {
				text = append(text, said...)
			}
			response, cut := x.appendEcho(nil, i, said, q.limit)
			if cut {
				finish = "length"
			}
			texts = append(texts, append(text, response...))
		}
	}
	return texts, finish
}

// appendChoice appends one choice; an empty finish is written as null.
func (q *textRequest) appendChoice(dst []byte, index int, text []byte, finish string) []byte {
	dst = append(append(append(dst, `{"text":"`...), text...), `","index":`...)
	dst = strconv.AppendInt(dst, int64(index), 10)
	dst = q.appendLogprobs(append(dst, `,"logprobs":`...), text)
	if finish == "" {
		return append(dst, `,"finish_reason":null}`...)
	}
	return append(append(append(dst, `,"finish_reason":"`...), finish...), `"}`...)
}

func (q *textRequest) appendLogprobs(dst, text []byte) []byte {
	if q.logprobs < 0 {
		return append(dst, "null"...)
	}
	var tokens, offsets, probs, tops []byte
	for at, sent := 0, 0; at < len(text); {
		to, passed := advance(text, at, bytesPerToken)
		if at > 0 {
			tokens, offsets, probs, tops = append(tokens, ','), append(offsets, ','), append(probs, ','), append(tops, ',')
		}
		tokens = append(append(append(tokens, '"'), text[at:to]...), '"')
		offsets = strconv.AppendInt(offsets, int64(sent), 10)
		probs = append(probs, "-0.01"...)
		tops = append(append(append(tops, `{"`...), text[at:to]...), `":-0.01}`...)
		at, sent = to, sent+passed
	}
	dst = append(append(append(dst, `{"tokens":[`...), tokens...), `],"token_logprobs":[`...)
	dst = append(append(append(dst, probs...), `],"top_logprobs":[`...), tops...)
	return append(append(append(dst, `],"text_offset":[`...), offsets...), `]}`...)
}

// streamText sends the choices one after another in pieces, then the finish
// reasons, the usage if requested, and [DONE].
func (x *exchange) streamText(q *textRequest, texts [][]byte, finish string) {
	t, ok := x.openStream()
	if !ok {
		return
	}
	x.head = x.appendHead(x.head[:0], "cmpl", "text_completion")
	_ = x.textFrames(t, q, texts) && x.textFinishes(t, q, texts, finish)
	t.close()
}

func (x *exchange) textFrames(t *stream, q *textRequest, texts [][]byte) bool {
	size := x.plan.size
	if size == 0 {
		size = bytesPerToken
	}
	for i, text := range texts {
		for at, sent := 0, 0; at < len(text); {
			to, passed := advance(text, at, size)
			b := q.appendChoice(append(t.frame(), x.head...), i, text[at:to], "")
			if !t.send(append(b, `]}`...)) {
				return false
			}
			x.served += tokensOf(sent+passed) - tokensOf(sent)
			at, sent = to, sent+passed
		}
	}
	return true
}

func (x *exchange) textFinishes(t *stream, q *textRequest, texts [][]byte, finish string) bool {
	usage := q.usage && !x.plan.noUsage
	completion := 0
	for i, text := range texts {
		completion += tokensOf(textLen(text))
		t.last = x.plan.noDone && !usage && i == len(texts)-1
		b := q.appendChoice(append(t.frame(), x.head...), i, nil, finish)
		if !t.send(append(b, `]}`...)) {
			return false
		}
	}
	if !usage {
		return true
	}
	t.last = x.plan.noDone
	b := x.appendUsage(append(append(t.frame(), x.head...), `],"usage":`...), completion, 0)
	return t.send(append(b, '}'))
}
