package simulator

import "strconv"

// chatStream writes the chunks of one chat response.
type chatStream struct {
	*stream
	q    *chatRequest
	a    *chatResponse
	size int    // bytes of text in a frame
	tail string // end of a chunk after its choices
}

// streamChat sends the response as a stream: a role chunk, the text or the calls
// in small pieces, a finish chunk, the usage if requested, [DONE].
func (x *exchange) streamChat(q *chatRequest, a *chatResponse) {
	t, ok := x.openStream()
	if !ok {
		return
	}
	x.head = x.appendHead(x.head[:0], "chatcmpl", "chat.completion.chunk")
	c := chatStream{stream: t, q: q, a: a, size: max(x.plan.size, 0), tail: "]}"}
	if c.size == 0 {
		c.size = bytesPerToken
	}
	if q.usage && !x.plan.noUsage {
		c.tail = `],"usage":null}`
	}
	_ = c.roles() && c.reasons() && c.body() && c.finishes() && c.usage()
	t.close()
}

// chunk begins a chunk with one choice.
func (c *chatStream) chunk(choice int) []byte {
	b := append(c.frame(), c.x.head...)
	b = strconv.AppendInt(append(b, `{"index":`...), int64(choice), 10)
	return append(b, `,"delta":{`...)
}

// finish ends a chunk without a finish reason, and sends it.
func (c *chatStream) finish(b []byte) bool {
	return c.send(append(append(b, `},"logprobs":null,"finish_reason":null}`...), c.tail...))
}

func (c *chatStream) roles() bool {
	for i := range c.q.n {
		b := append(c.chunk(i), `"role":"assistant","content":`...)
		if c.a.calls != nil {
			b = append(b, `null`...)
		} else {
			b = append(b, `"","refusal":null`...)
		}
		if !c.finish(b) {
			return false
		}
	}
	return true
}

// reasons sends the reasoning before the response.
func (c *chatStream) reasons() bool {
	if c.a.reasoning == nil {
		return true
	}
	for i := range c.q.n {
		if !c.pieces(i, "reasoning_content", c.a.reasoning) {
			return false
		}
	}
	return true
}

// pieces sends a text of one choice under a name.
func (c *chatStream) pieces(choice int, member string, text []byte) bool {
	for at, sent := 0, 0; at < len(text); {
		to, passed := advance(text, at, c.size)
		b := append(append(append(c.chunk(choice), '"'), member...), `":"`...)
		if !c.finish(append(append(b, text[at:to]...), '"')) {
			return false
		}
		c.x.served += tokensOf(sent+passed) - tokensOf(sent)
		at, sent = to, sent+passed
	}
	return true
}

func (c *chatStream) body() bool {
	if c.a.calls != nil {
		return c.callDeltas()
	}
	if c.a.refused {
		for i, text := range c.a.texts {
			if !c.pieces(i, "refusal", text) {
				return false
			}
		}
		return true
	}
	at, sent := make([]int, c.q.n), make([]int, c.q.n)
	for more := true; more; {
		more = false
		for i, text := range c.a.texts {
			if at[i] >= len(text) {
				continue
			}
			to, passed := advance(text, at[i], c.size)
			if !c.content(i, text[at[i]:to]) {
				return false
			}
			c.x.served += tokensOf(sent[i]+passed) - tokensOf(sent[i])
			at[i], sent[i] = to, sent[i]+passed
			more = more || to < len(text)
		}
	}
	return true
}

func (c *chatStream) content(choice int, text []byte) bool {
	b := append(append(append(c.chunk(choice), `"content":"`...), text...), '"')
	if !c.q.logprobs {
		return c.finish(b)
	}
	b = c.q.appendLogprobs(append(b, `},"logprobs":`...), text)
	return c.send(append(append(b, `,"finish_reason":null}`...), c.tail...))
}

func (c *chatStream) finishes() bool {
	for i := range c.q.n {
		c.last = c.x.plan.noDone && !c.q.usage && i == c.q.n-1
		b := append(c.chunk(i), `},"logprobs":null,"finish_reason":"`...)
		b = append(append(append(b, c.a.finish...), `"}`...), c.tail...)
		if !c.send(b) {
			return false
		}
	}
	return true
}

func (c *chatStream) usage() bool {
	if !c.q.usage || c.x.plan.noUsage {
		return true
	}
	c.last = c.x.plan.noDone
	b := append(c.frame(), c.x.head...)
	b = c.x.appendUsage(append(b, `],"usage":`...), c.a.tokens, c.x.plan.thinking*c.q.n)
	return c.send(append(b, '}'))
}
