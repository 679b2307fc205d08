package simulator

import "strconv"

var cohereStops = [stopCount]string{"COMPLETE", "MAX_TOKENS", "STOP_SEQUENCE", "TOOL_CALL", "COMPLETE"}

func (x *exchange) appendCohereUsage(dst []byte, a *response) []byte {
	if x.plan.noUsage {
		return dst
	}
	input, output := itoa(x.prompt), itoa(a.tokens)
	dst = appendAll(dst, `,"usage":{"billed_units":{"input_tokens":`, input, `,"output_tokens":`, output,
		`},"tokens":{"input_tokens":`, input, `,"output_tokens":`, output, `}`)
	if x.plan.cached > 0 {
		dst = appendAll(dst, `,"cached_tokens":`, itoa(x.plan.cached))
	}
	return append(dst, '}')
}

// appendCohere appends the complete response. Text before calls is the plan.
func (x *exchange) appendCohere(dst []byte, a *response) []byte {
	dst = appendAll(dst, `{"id":"sim-`, x.idText(), `","message":{"role":"assistant"`)
	dst = a.appendCohereContent(dst)
	calls := 0
	for i := range a.parts {
		p := &a.parts[i]
		if p.kind != partCall {
			continue
		}
		if calls++; calls == 1 {
			dst = append(dst, `,"tool_calls":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = appendAll(dst, `{"id":"`, p.call.id, `","type":"function","function":`)
		dst = append(p.call.appendFunction(dst, p.call.arguments), '}')
	}
	if calls > 0 {
		dst = append(dst, ']')
	}
	dst = appendAll(dst, `},"finish_reason":"`, cohereStops[a.stop], `"`)
	return append(x.appendCohereUsage(dst, a), '}')
}

func (a *response) appendCohereContent(dst []byte) []byte {
	n := 0
	for i := range a.parts {
		p := &a.parts[i]
		if p.kind == partCall {
			continue
		}
		if p.kind == partText && a.stop == stopTools {
			dst = append(append(append(dst, `,"tool_plan":"`...), p.text...), '"')
			continue
		}
		if n++; n == 1 {
			dst = append(dst, `,"content":[`...)
		} else {
			dst = append(dst, ',')
		}
		member := p.cohereMember()
		dst = appendAll(dst, `{"type":"`, member, `","`, member, `":"`)
		dst = append(append(dst, p.text...), `"}`...)
	}
	if n > 0 {
		dst = append(dst, ']')
	}
	return dst
}

func (p *part) cohereMember() string {
	if p.kind == partThinking {
		return "thinking"
	}
	return "text"
}

func (x *exchange) streamCohere(t *stream, a *response) {
	b := appendAll(t.named("message-start"), `{"id":"sim-`, x.idText(),
		`","type":"message-start","delta":{"message":{"role":"assistant","content":[],"tool_plan":"","tool_calls":[],"citations":[]}}}`)
	if !t.send(b) {
		return
	}
	blocks, calls := 0, 0
	for i := range a.parts {
		p := &a.parts[i]
		ok := true
		switch {
		case p.kind == partCall:
			ok = x.cohereCall(t, p, calls)
			calls++
		case p.kind == partText && a.stop == stopTools:
			ok = x.coherePlan(t, p)
		default:
			ok = x.cohereBlock(t, p, blocks)
			blocks++
		}
		if !ok {
			return
		}
	}
	if x.plan.noDone {
		return
	}
	t.last = true
	b = appendAll(t.named("message-end"), `{"type":"message-end","delta":{"finish_reason":"`, cohereStops[a.stop], `"`)
	t.send(append(x.appendCohereUsage(b, a), `}}`...))
}

func (x *exchange) cohereBlock(t *stream, p *part, index int) bool {
	member := p.cohereMember()
	b := appendAll(t.named("content-start"), `{"type":"content-start","index":`, itoa(index),
		`,"delta":{"message":{"content":{"type":"`, member, `","`, member, `":""}}}}`)
	if !t.send(b) {
		return false
	}
	delta := func(piece []byte) bool {
		b := append(t.named("content-delta"), `{"type":"content-delta","index":`...)
		b = append(strconv.AppendInt(b, int64(index), 10), `,"delta":{"message":{"content":{"`...)
		b = append(append(b, member...), `":"`...)
		return t.send(append(append(b, piece...), `"}}}}`...))
	}
	return x.pieces(p.text, delta) && t.send(appendAll(t.named("content-end"), `{"type":"content-end","index":`, itoa(index), `}`))
}

func (x *exchange) coherePlan(t *stream, p *part) bool {
	return x.pieces(p.text, func(piece []byte) bool {
		b := append(t.named("tool-plan-delta"), `{"type":"tool-plan-delta","delta":{"message":{"tool_plan":"`...)
		return t.send(append(append(b, piece...), `"}}}`...))
	})
}

func (x *exchange) cohereCall(t *stream, p *part, index int) bool {
	x.served += tokensOf(textLen(p.call.name))
	b := appendAll(t.named("tool-call-start"), `{"type":"tool-call-start","index":`, itoa(index),
		`,"delta":{"message":{"tool_calls":{"id":"`, p.call.id, `","type":"function","function":`)
	if !t.send(append(p.call.appendFunction(b, nil), `}}}}`...)) {
		return false
	}
	delta := func(piece []byte) bool {
		b := append(t.named("tool-call-delta"), `{"type":"tool-call-delta","index":`...)
		b = append(strconv.AppendInt(b, int64(index), 10), `,"delta":{"message":{"tool_calls":{"function":{"arguments":"`...)
		return t.send(append(append(b, piece...), `"}}}}}`...))
	}
	return x.pieces(p.call.arguments, delta) &&
		t.send(appendAll(t.named("tool-call-end"), `{"type":"tool-call-end","index":`, itoa(index), `}`))
}
