package simulator

import "strconv"

var messagesStops = [stopCount]string{"end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"}

// appendMessagesHead appends a message up to its content.
func (x *exchange) appendMessagesHead(dst []byte) []byte {
	dst = appendAll(dst, `{"id":"msg_sim`, x.idText(), `","type":"message","role":"assistant","model":"`)
	return append(append(dst, x.rawName...), `","content":[`...)
}

func (x *exchange) appendMessagesUsage(dst []byte, output int, a *response) []byte {
	fresh := x.prompt - x.plan.cached - x.plan.written
	dst = appendAll(dst, `{"input_tokens":`, itoa(fresh), `,"cache_creation_input_tokens":`, itoa(x.plan.written),
		`,"cache_read_input_tokens":`, itoa(x.plan.cached),
		`,"cache_creation":{"ephemeral_5m_input_tokens":`, itoa(x.plan.written), `,"ephemeral_1h_input_tokens":0},"output_tokens":`, itoa(output))
	if a.thought > 0 {
		dst = appendAll(dst, `,"output_tokens_details":{"thinking_tokens":`, itoa(min(a.thought, output)), `}`)
	}
	return append(dst, `,"service_tier":"standard"}`...)
}

// appendMessagesStop appends the stop reason.
func (a *response) appendMessagesStop(dst []byte) []byte {
	dst = appendAll(dst, `"stop_reason":"`, messagesStops[a.stop], `","stop_sequence":`)
	if a.stop == stopSequence {
		dst = appendAll(dst, quoted(a.stopped))
	} else {
		dst = append(dst, `null`...)
	}
	if a.stop == stopRefusal {
		dst = appendAll(dst, `,"stop_details":{"type":"refusal","category":null,"explanation":`, quoted(refusalText), `}`)
	}
	return dst
}

// appendMessages appends the complete response.
func (x *exchange) appendMessages(dst []byte, a *response) []byte {
	dst = x.appendMessagesHead(dst)
	n := 0
	for i := range a.parts {
		p := &a.parts[i]
		if p.kind == partRefusal {
			continue // a refusal has no content
		}
		if n++; n > 1 {
			dst = append(dst, ',')
		}
		switch p.kind {
		case partThinking:
			dst = append(append(dst, `{"type":"thinking","thinking":"`...), p.text...)
			dst = appendAll(dst, `","signature":"`, p.sign, `"}`)
		case partCall:
			dst = appendAll(dst, `{"type":"tool_use","id":"`, p.call.id, `","name":"`, string(p.call.name),
				`","input":`, plainText(p.call.arguments), `}`)
		default:
			dst = append(append(append(dst, `{"type":"text","text":"`...), p.text...), `"}`...)
		}
	}
	dst = a.appendMessagesStop(append(dst, `],`...))
	if !x.plan.noUsage {
		dst = x.appendMessagesUsage(append(dst, `,"usage":`...), a.tokens, a)
	}
	return append(dst, '}')
}

// streamMessages sends the response as events.
func (x *exchange) streamMessages(t *stream, a *response) {
	_ = x.startMessages(t, a) && x.messagesBlocks(t, a) && x.finishMessages(t, a)
}

func (x *exchange) startMessages(t *stream, a *response) bool {
	b := append(t.named("message_start"), `{"type":"message_start","message":`...)
	b = append(x.appendMessagesHead(b), `],"stop_reason":null,"stop_sequence":null`...)
	if !x.plan.noUsage {
		b = x.appendMessagesUsage(append(b, `,"usage":`...), min(a.tokens, 1), a)
	}
	return t.send(append(b, `}}`...))
}

func (x *exchange) messagesBlocks(t *stream, a *response) bool {
	n := 0
	for i := range a.parts {
		if a.parts[i].kind == partRefusal {
			x.served += a.parts[i].tokens()
			continue
		}
		if !x.messagesBlock(t, &a.parts[i], n) {
			return false
		}
		if n++; n == 1 && !t.send(append(t.named("ping"), `{"type": "ping"}`...)) {
			return false
		}
	}
	return true
}

// messagesBlock sends one block: its start, its deltas, its end.
func (x *exchange) messagesBlock(t *stream, p *part, index int) bool {
	b := appendAll(t.named("content_block_start"), `{"type":"content_block_start","index":`, itoa(index), `,"content_block":`)
	kind, member, text := "text_delta", "text", p.text
	switch p.kind {
	case partThinking:
		kind, member = "thinking_delta", "thinking"
		b = append(b, `{"type":"thinking","thinking":"","signature":""}`...)
	case partCall:
		kind, member, text = "input_json_delta", "partial_json", p.call.arguments
		x.served += tokensOf(textLen(p.call.name))
		b = appendAll(b, `{"type":"tool_use","id":"`, p.call.id, `","name":"`, string(p.call.name), `","input":{}}`)
	default:
		b = append(b, `{"type":"text","text":""}`...)
	}
	if !t.send(append(b, '}')) {
		return false
	}
	delta := func(piece []byte) bool {
		b := append(t.named("content_block_delta"), `{"type":"content_block_delta","index":`...)
		b = strconv.AppendInt(b, int64(index), 10)
		b = append(append(b, `,"delta":{"type":"`...), kind...)
		b = append(append(append(b, `","`...), member...), `":"`...)
		return t.send(append(append(b, piece...), `"}}`...))
	}
	if !x.pieces(text, delta) {
		return false
	}
	if p.sign != "" {
		kind, member = "signature_delta", "signature"
		if !delta([]byte(p.sign)) {
			return false
		}
	}
	return t.send(appendAll(t.named("content_block_stop"), `{"type":"content_block_stop","index":`, itoa(index), `}`))
}

func (x *exchange) finishMessages(t *stream, a *response) bool {
	t.last = x.plan.noDone
	b := a.appendMessagesStop(append(t.named("message_delta"), `{"type":"message_delta","delta":{`...))
	b = append(b, '}')
	if !x.plan.noUsage {
		b = x.appendMessagesUsage(append(b, `,"usage":`...), a.tokens, a)
	}
	if !t.send(append(b, '}')) || x.plan.noDone {
		return false
	}
	t.last = true
	return t.send(append(t.named("message_stop"), `{"type":"message_stop"}`...))
}
