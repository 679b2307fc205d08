package simulator

import "strconv"

var converseStops = [stopCount]string{"end_turn", "max_tokens", "stop_sequence", "tool_use", "content_filtered"}

func (x *exchange) appendConverseUsage(dst []byte, a *response) []byte {
	if x.plan.noUsage {
		return append(dst, `"metrics":{"latencyMs":12}`...)
	}
	fresh := x.prompt - x.plan.cached - x.plan.written
	dst = appendAll(dst, `"usage":{"inputTokens":`, itoa(fresh), `,"outputTokens":`, itoa(a.tokens),
		`,"totalTokens":`, itoa(x.prompt+a.tokens))
	if x.plan.cached+x.plan.written > 0 {
		dst = appendAll(dst, `,"cacheReadInputTokens":`, itoa(x.plan.cached), `,"cacheWriteInputTokens":`, itoa(x.plan.written))
	}
	return append(dst, `},"metrics":{"latencyMs":12}`...)
}

// appendConverse appends the complete response.
func (x *exchange) appendConverse(dst []byte, a *response) []byte {
	dst = append(dst, `{"output":{"message":{"role":"assistant","content":[`...)
	for i := range a.parts {
		p := &a.parts[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		switch p.kind {
		case partThinking:
			dst = append(append(dst, `{"reasoningContent":{"reasoningText":{"text":"`...), p.text...)
			dst = appendAll(dst, `","signature":"`, p.sign, `"}}}`)
		case partCall:
			dst = appendAll(dst, `{"toolUse":{"toolUseId":"`, p.call.id, `","name":"`, string(p.call.name),
				`","input":`, plainText(p.call.arguments), `}}`)
		default:
			dst = append(append(append(dst, `{"text":"`...), p.text...), `"}`...)
		}
	}
	dst = appendAll(dst, `]}},"stopReason":"`, converseStops[a.stop], `",`)
	return append(x.appendConverseUsage(dst, a), '}')
}

// streamConverse sends the response as messages of an event stream.
func (x *exchange) streamConverse(t *stream, a *response) {
	if !t.send(append(t.named("messageStart"), `{"role":"assistant"}`...)) {
		return
	}
	for i := range a.parts {
		if !x.converseBlock(t, &a.parts[i], i) {
			return
		}
	}
	if x.plan.noDone {
		return
	}
	stop := appendAll(t.named("messageStop"), `{"stopReason":"`, converseStops[a.stop], `"}`)
	if t.send(stop) {
		t.last = true
		t.send(append(x.appendConverseUsage(append(t.named("metadata"), '{'), a), '}'))
	}
}

func (x *exchange) converseBlock(t *stream, p *part, index int) bool {
	before, after, text := `{"text":"`, `"}`, p.text
	switch p.kind {
	case partThinking:
		before, after = `{"reasoningContent":{"text":"`, `"}}`
	case partCall:
		before, after, text = `{"toolUse":{"input":"`, `"}}`, p.call.arguments
		x.served += tokensOf(textLen(p.call.name))
		b := appendAll(t.named("contentBlockStart"), `{"contentBlockIndex":`, itoa(index), `,"start":{"toolUse":{"toolUseId":"`,
			p.call.id, `","name":"`, string(p.call.name), `"}}}`)
		if !t.send(b) {
			return false
		}
	}
	delta := func(piece []byte) bool {
		b := append(t.named("contentBlockDelta"), `{"contentBlockIndex":`...)
		b = append(strconv.AppendInt(b, int64(index), 10), `,"delta":`...)
		b = append(append(append(b, before...), piece...), after...)
		return t.send(append(b, '}'))
	}
	if !x.pieces(text, delta) {
		return false
	}
	if p.sign != "" {
		before = `{"reasoningContent":{"signature":"`
		if !delta([]byte(p.sign)) {
			return false
		}
	}
	return t.send(appendAll(t.named("contentBlockStop"), `{"contentBlockIndex":`, itoa(index), `}`))
}
