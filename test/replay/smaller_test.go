package replay

// cohere reads a response of Cohere's second protocol.
type cohere struct {
	response
	said    string
	counted map[string]any
	texts   map[int64]string // arguments
}

// https://docs.cohere.com/v2/reference/chat
func readCohere(documents []string) response {
	c := cohere{texts: map[int64]string{}}
	for _, d := range documents {
		c.document(parse(d))
	}
	for i := range c.Calls {
		c.Calls[i].Arguments = arguments(c.texts[int64(i)])
	}
	c.finish(c.said, map[string]string{"MAX_TOKENS": "length"})
	if c.counted != nil {
		from := object(c.counted, "tokens")
		if from == nil {
			from = object(c.counted, "billed_units")
		}
		c.Usage = usage{Prompt: number64(from, "input_tokens"), Completion: number64(from, "output_tokens"),
			Cached: number64(c.counted, "cached_tokens")}.sum()
	}
	return c.response
}

func (c *cohere) document(v any) {
	m := object(v, "message")
	if m == nil {
		m = object(v, "delta.message")
	}
	for _, b := range append(list(m, "content"), object(m, "content")) {
		c.Text += text(b, "text")
		c.Thinking += text(b, "thinking")
	}
	c.Thinking += text(m, "tool_plan")
	for i, call := range list(m, "tool_calls") {
		c.call(int64(i), call)
	}
	if call := object(m, "tool_calls"); call != nil {
		c.call(number64(v, "index"), call)
	}
	c.said += text(v, "finish_reason") + text(v, "delta.finish_reason")
	for _, u := range []map[string]any{object(v, "usage"), object(v, "delta.usage")} {
		if u != nil {
			c.counted = u
		}
	}
}

func (c *cohere) call(i int64, call any) {
	if i == int64(len(c.Calls)) {
		c.Calls = append(c.Calls, toolCall{ID: text(call, "id"), Name: text(call, "function.name")})
	}
	c.texts[i] += text(call, "function.arguments")
}

// https://docs.ollama.com/api/chat
func readOllama(documents []string) (a response) {
	var said string
	for _, d := range documents {
		v := parse(d)
		a.Text += text(v, "message.content")
		a.Thinking += text(v, "message.thinking")
		for _, c := range list(v, "message.tool_calls") {
			a.Calls = append(a.Calls, toolCall{text(c, "id"), text(c, "function.name"), at(c, "function.arguments")})
		}
		if at(v, "done") == true {
			said = text(v, "done_reason")
			a.Usage = usage{Prompt: number64(v, "prompt_eval_count"), Completion: number64(v, "eval_count")}.sum()
		}
	}
	a.finish(said, map[string]string{"length": "length"})
	return a
}
