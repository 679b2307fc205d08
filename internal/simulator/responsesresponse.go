package simulator

import (
	"encoding/json"
	"strconv"
)

// status returns the status of a finished response.
func (a *response) status() string {
	if a.stop == stopLength {
		return "incomplete"
	}
	return "completed"
}

// appendResponse appends the response object; it has no output while it is in
// progress.
func (x *exchange) appendResponse(dst []byte, q *turn, a *response, status string) []byte {
	s := q.state
	if s == nil {
		s = &responseState{created: created}
	}
	dst = appendAll(dst, `{"id":"`+responsePrefix, x.idText(), `","object":"response","created_at":`, s.created, `,"status":"`, status,
		`","background":`, strconv.FormatBool(s.background), `,"error":`)
	if status == "failed" {
		dst = appendAll(dst, `{"code":"server_error","message":`, quoted(midStream.message), `}`)
	} else {
		dst = append(dst, `null`...)
	}
	dst = append(dst, `,"incomplete_details":`...)
	if status == "incomplete" {
		dst = append(dst, `{"reason":"max_output_tokens"}`...)
	} else {
		dst = append(dst, `null`...)
	}
	dst = append(append(dst, `,"instructions":null,"max_output_tokens":null,"model":"`...), x.rawName...)
	dst = append(dst, `","output":[`...)
	if status == "completed" || status == "incomplete" {
		for i := range a.parts {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = x.appendItem(dst, q, &a.parts[i], i, status)
		}
	}
	dst = append(dst,
		`],"parallel_tool_calls":true,"reasoning":{"effort":null,"summary":null},"service_tier":"default","temperature":1,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_p":1,"truncation":"disabled","usage":`...)
	if (status == "completed" || status == "incomplete") && !x.plan.noUsage {
		dst = x.appendResponsesUsage(dst, a)
	} else {
		dst = append(dst, `null`...)
	}
	return append(s.append(append(dst, `,"user":null`...)), '}')
}

// append appends the members that say how the response is stored.
func (s *responseState) append(dst []byte) []byte {
	previous, thread := "null", "null"
	if s.previous != "" {
		previous = quoted(s.previous)
	}
	if s.thread != nil {
		thread = `{"id":` + quoted(s.thread.id) + `}`
	}
	metadata, err := json.Marshal(s.metadata)
	if err != nil || s.metadata == nil {
		metadata = []byte("{}")
	}
	return appendAll(dst, `,"previous_response_id":`, previous, `,"conversation":`, thread, `,"store":`, strconv.FormatBool(s.store),
		`,"metadata":`, string(metadata))
}

func (x *exchange) appendResponsesUsage(dst []byte, a *response) []byte {
	return appendAll(dst, `{"input_tokens":`, itoa(x.prompt), `,"input_tokens_details":{"cached_tokens":`, itoa(x.plan.cached),
		`,"cache_write_tokens":`, itoa(x.plan.written), `},"output_tokens":`, itoa(a.tokens),
		`,"output_tokens_details":{"reasoning_tokens":`, itoa(a.thought), `},"total_tokens":`, itoa(x.prompt+a.tokens), `}`)
}

// itemID returns the id of the item at an index.
func (x *exchange) itemID(p *part, index int) string {
	prefix := "msg_sim"
	switch p.kind {
	case partThinking:
		prefix = "rs_sim"
	case partCall:
		prefix = "fc_sim"
	}
	return prefix + x.idText() + itoa(index)
}

// appendItem appends an item of the output; it is empty while it is in
// progress.
func (x *exchange) appendItem(dst []byte, q *turn, p *part, index int, status string) []byte {
	full := status != "in_progress"
	dst = appendAll(dst, `{"id":"`, x.itemID(p, index), `",`)
	switch p.kind {
	case partThinking:
		dst = append(dst, `"type":"reasoning","summary":[`...)
		if full && (q.summary || x.plan.thinking > 0) {
			dst = p.appendContent(dst)
		}
		dst = append(dst, ']')
		if full && q.sealed {
			dst = appendAll(dst, `,"encrypted_content":"`, sealed("openai", string(p.text)), `"`)
		}
		return append(dst, '}')
	case partCall:
		dst = appendAll(dst, `"type":"function_call","status":"`, status, `","call_id":"`, p.call.id, `","name":"`, string(p.call.name),
			`","arguments":"`)
		if full {
			dst = append(dst, p.call.arguments...)
		}
		return append(dst, `"}`...)
	}
	dst = appendAll(dst, `"type":"message","status":"`, status, `","role":"assistant","content":[`)
	if full {
		dst = p.appendContent(dst)
	}
	return append(dst, `]}`...)
}

// appendContent appends the part of an item that holds its text.
func (p *part) appendContent(dst []byte) []byte {
	before, after := `{"type":"output_text","annotations":[],"logprobs":[],"text":"`, `"}`
	switch p.kind {
	case partThinking:
		before = `{"type":"summary_text","text":"`
	case partRefusal:
		before = `{"type":"refusal","refusal":"`
	}
	return append(append(append(dst, before...), p.text...), after...)
}

// responsesStream writes the numbered events of one response.
type responsesStream struct {
	*stream
	x *exchange
	q *turn
	a *response
}

func (x *exchange) streamResponses(t *stream, q *turn, a *response) {
	w := &responsesStream{stream: t, x: x, q: q, a: a}
	first, background := "in_progress", q.state.background
	if background {
		first = "queued"
	}
	ok := w.sendResponse("response.created", first) && (!background || w.sendResponse("response.queued", first)) &&
		w.sendResponse("response.in_progress", "in_progress")
	if background && x.plan.job == jobFails {
		_ = ok && w.sendResponse("response.failed", "failed")
		return
	}
	_ = ok && w.items() && !x.plan.noDone && w.finish()
}

// event begins an event, up to its own members.
func (w *responsesStream) event(name string) []byte {
	b := append(append(w.named(name), `{"type":"`...), name...)
	return strconv.AppendInt(append(b, `","sequence_number":`...), int64(w.n), 10)
}

func (w *responsesStream) sendResponse(name, status string) bool {
	b := append(w.event(name), `,"response":`...)
	return w.send(append(w.x.appendResponse(b, w.q, w.a, status), '}'))
}

func (w *responsesStream) finish() bool {
	w.last = true
	return w.sendResponse("response."+w.a.status(), w.a.status())
}

// items sends the items one after another; calls to interleave are sent
// together.
func (w *responsesStream) items() bool {
	for i := 0; i < len(w.a.parts); i++ {
		if w.x.plan.interleave && w.a.parts[i].kind == partCall {
			return w.together(i)
		}
		if !w.open(i) || !w.deltas(i) || !w.close(i) {
			return false
		}
	}
	return true
}

// together sends the calls from an index on, with interleaved arguments.
func (w *responsesStream) together(first int) bool {
	calls := w.a.parts[first:]
	at := make([]int, len(calls))
	for i := range calls {
		if !w.open(first + i) {
			return false
		}
	}
	for more := true; more; {
		more = false
		for i := range calls {
			raw := calls[i].call.arguments
			if at[i] == len(raw) {
				continue
			}
			to, _ := advance(raw, at[i], max(w.x.plan.size, bytesPerToken))
			if !w.delta(first+i, raw[at[i]:to]) {
				return false
			}
			at[i], more = to, true
		}
	}
	for i := range calls {
		w.x.served += tokensOf(textLen(calls[i].call.arguments))
		if !w.close(first + i) {
			return false
		}
	}
	return true
}

// kinds returns the event names of a part: of the element with its text, and of
// its deltas.
func (p *part) kinds() (holder, text string) {
	switch p.kind {
	case partThinking:
		return "response.reasoning_summary_part", "response.reasoning_summary_text"
	case partCall:
		return "", "response.function_call_arguments"
	case partRefusal:
		return "response.content_part", "response.refusal"
	}
	return "response.content_part", "response.output_text"
}

// hasText reports whether the text of an item is sent.
func (w *responsesStream) hasText(p *part) bool {
	return p.kind != partThinking || w.q.summary || w.x.plan.thinking > 0
}

func (w *responsesStream) open(i int) bool {
	p := &w.a.parts[i]
	b := appendAll(w.event("response.output_item.added"), `,"output_index":`, itoa(i), `,"item":`)
	if !w.send(append(w.x.appendItem(b, w.q, p, i, "in_progress"), '}')) {
		return false
	}
	if p.kind == partCall {
		w.x.served += tokensOf(textLen(p.call.name))
	}
	holder, _ := p.kinds()
	if holder == "" || !w.hasText(p) {
		return true
	}
	empty := part{kind: p.kind}
	b = append(w.place(w.event(holder+".added"), i), `,"part":`...)
	return w.send(append(empty.appendContent(b), '}'))
}

// place appends the members that identify an item and its part.
func (w *responsesStream) place(b []byte, i int) []byte {
	p := &w.a.parts[i]
	b = append(append(append(b, `,"item_id":"`...), w.x.itemID(p, i)...), `","output_index":`...)
	b = strconv.AppendInt(b, int64(i), 10)
	switch p.kind {
	case partThinking:
		b = append(b, `,"summary_index":0`...)
	case partCall:
	default:
		b = append(b, `,"content_index":0`...)
	}
	return b
}

func (w *responsesStream) deltas(i int) bool {
	p := &w.a.parts[i]
	text := p.text
	if p.kind == partCall {
		text = p.call.arguments
	}
	if !w.hasText(p) {
		w.x.served += p.tokens()
		return true
	}
	return w.x.pieces(text, func(piece []byte) bool { return w.delta(i, piece) })
}

func (w *responsesStream) delta(i int, piece []byte) bool {
	_, text := w.a.parts[i].kinds()
	b := append(w.place(w.event(text+".delta"), i), `,"delta":"`...)
	b = append(append(b, piece...), '"')
	if w.a.parts[i].kind == partText {
		b = append(b, `,"logprobs":[]`...)
	}
	return w.send(append(b, '}'))
}

// close ends an item: its text, the element with the text, the item.
func (w *responsesStream) close(i int) bool {
	p := &w.a.parts[i]
	holder, text := p.kinds()
	member, value := "text", p.text
	switch p.kind {
	case partCall:
		member, value = "arguments", p.call.arguments
	case partRefusal:
		member = "refusal"
	}
	if w.hasText(p) {
		b := appendAll(w.place(w.event(text+".done"), i), `,"`, member, `":"`)
		if !w.send(append(append(b, value...), `"}`...)) {
			return false
		}
	}
	if holder != "" && w.hasText(p) {
		b := append(w.place(w.event(holder+".done"), i), `,"part":`...)
		if !w.send(append(p.appendContent(b), '}')) {
			return false
		}
	}
	b := appendAll(w.event("response.output_item.done"), `,"output_index":`, itoa(i), `,"item":`)
	return w.send(append(w.x.appendItem(b, w.q, p, i, w.a.status()), '}'))
}
