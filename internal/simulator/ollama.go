package simulator

import (
	"net/http"
	"strings"
)

// ollamaProtocol is Ollama's own protocol, whose streams are lines of JSON.
// https://github.com/ollama/ollama/blob/main/docs/api.md
var ollamaProtocol = protocol{
	name: "ollama", index: ollamaIndex, kind: framingLines, stream: typeLines,
	fail: failOllama,
}

func failOllama(_ *exchange, dst []byte, _ int, e providerError) []byte {
	return appendAll(dst, `{"error":`, quoted(e.message), `}`)
}

func breakOllama(t *stream) []byte {
	return appendAll(t.named(""), `{"error":`, quoted(midStream.message), `}`)
}

// serveOllama answers POST /api/chat. It streams by default.
func serveOllama(x *exchange) {
	x.asked = true
	body, ok := x.open(nil)
	if !ok {
		return
	}
	q := &turn{}
	c := newChecker(&ollamaProtocol)
	readOllama(c, q, body)
	if !x.accept(q, c, body) {
		return
	}
	a := x.responseTo(q)
	x.respond(q.stream, a, func(dst []byte) []byte { return x.appendOllama(dst, a) },
		func(t *stream) { x.streamOllama(t, a) })
}

// readOllama reads a request. Unknown members are ignored, as by the provider.
func readOllama(c *checker, q *turn, m map[string]any) {
	q.model = c.text(m, "model", "")
	if q.model == "" {
		c.wrong = invalid("model", "model is required")
	}
	q.stream = m["stream"] == nil || c.flag(m, "stream", "")
	switch think := m["think"].(type) {
	case nil, bool:
		q.thinks = think == true
	case string:
		q.thinks, q.seen.Effort = true, c.word(m, "think", "", "low", "medium", "high", "max")
	default:
		c.fail("think", "must be a boolean or one of low, medium, high")
	}
	switch format := m["format"].(type) {
	case nil:
	case string:
		if c.word(m, "format", "", "", "json") != "" {
			q.format = "json"
		}
	default:
		q.format, q.schema = "schema", c.object(format, "format")
	}
	readOllamaOptions(c, q, m)
	for i, v := range c.list(m, "tools", "") {
		path := nth("tools", i)
		tool := c.object(v, path)
		f := c.object(tool["function"], at(path, "function"))
		q.addTool(c.filled(f, "name", path), any(c.child(f, "parameters", path)))
	}
	readOllamaTurns(c, q, m)
}

func readOllamaOptions(c *checker, q *turn, m map[string]any) {
	c.readSampling(q, c.child(m, "options", ""), ollamaIndex)
}

func readOllamaTurns(c *checker, q *turn, m map[string]any) {
	for i, v := range c.needList(m, "messages", "") {
		path := nth("messages", i)
		message := c.object(v, path)
		role := c.filled(message, "role", path)
		c.word(message, "role", path, "user", "assistant", "system", "tool")
		text := c.text(message, "content", path) // an array is rejected
		for j := range c.list(message, "images", path) {
			c.base64(map[string]any{"image": c.texts(message, "images", path)[j]}, "image", nth(at(path, "images"), j))
			q.seen.Images++
		}
		if thinking := c.text(message, "thinking", path); thinking != "" {
			q.seen.Thinking = append(q.seen.Thinking, ReportedThought{Text: thinking})
		}
		for j, v := range c.list(message, "tool_calls", path) {
			where := nth(at(path, "tool_calls"), j)
			call := c.object(v, where)
			f := c.object(call["function"], at(where, "function"))
			q.seen.Calls = append(q.seen.Calls, ReportedCall{ID: c.text(call, "id", where), Name: c.filled(f, "name", where),
				Arguments: c.object(f["arguments"], at(where, "function.arguments"))})
		}
		q.afterTool, q.prefill = role == "tool", role == "assistant"
		switch role {
		case "system":
			q.addSystem(text)
		case "tool":
			if len(q.seen.Calls) <= len(q.seen.Results) {
				c.fail(path, "there is no tool call for this result")
			}
			q.prompt += tokensOf(len(text))
			q.seen.Results = append(q.seen.Results,
				ReportedResult{ID: c.text(message, "tool_call_id", path), Name: c.text(message, "tool_name", path), Text: text})
		default:
			q.addMessage(role, text)
		}
	}
}

// ollamaTime is the creation time in every response, like created.
const ollamaTime = "2026-01-01T00:00:00Z"

func (x *exchange) appendOllamaHead(dst []byte) []byte {
	dst = append(append(dst, `{"model":"`...), x.rawName...)
	return append(dst, `","created_at":"`+ollamaTime+`","message":{"role":"assistant","content":"`...)
}

// appendOllamaTail ends a response.
func (x *exchange) appendOllamaTail(dst []byte, a *response) []byte {
	reason := "stop"
	if a.stop == stopLength {
		reason = "length"
	}
	dst = appendAll(dst, `,"done":true,"done_reason":"`, reason, `","total_duration":12000000,"load_duration":1000000`)
	if !x.plan.noUsage {
		dst = appendAll(dst, `,"prompt_eval_count":`, itoa(x.prompt), `,"prompt_eval_duration":1000000,"eval_count":`, itoa(a.tokens),
			`,"eval_duration":10000000`)
	}
	return append(dst, '}')
}

// appendOllama appends the complete response.
func (x *exchange) appendOllama(dst []byte, a *response) []byte {
	dst = x.appendOllamaHead(dst)
	var calls, thoughts []byte
	for i := range a.parts {
		switch p := &a.parts[i]; p.kind {
		case partThinking:
			thoughts = p.text
		case partCall:
			if len(calls) > 0 {
				calls = append(calls, ',')
			}
			calls = p.appendOllamaCall(calls)
		default:
			dst = append(dst, p.text...)
		}
	}
	dst = append(dst, '"')
	if thoughts != nil {
		dst = append(append(append(dst, `,"thinking":"`...), thoughts...), '"')
	}
	if calls != nil {
		dst = append(append(append(dst, `,"tool_calls":[`...), calls...), ']')
	}
	return x.appendOllamaTail(append(dst, '}'), a)
}

func (p *part) appendOllamaCall(dst []byte) []byte {
	return appendAll(dst, `{"id":"`, p.call.id, `","function":{"name":"`, string(p.call.name), `","arguments":`, plainText(p.call.arguments),
		`}}`)
}

func (x *exchange) streamOllama(t *stream, a *response) {
	for i := range a.parts {
		p := &a.parts[i]
		if p.kind == partCall {
			x.served += p.tokens()
			b := append(x.appendOllamaHead(t.named("")), `","tool_calls":[`...)
			if !t.send(append(p.appendOllamaCall(b), `]},"done":false}`...)) {
				return
			}
			continue
		}
		before := ""
		if p.kind == partThinking {
			before = `","thinking":"`
		}
		sent := x.pieces(p.text, func(piece []byte) bool {
			b := append(x.appendOllamaHead(t.named("")), before...)
			return t.send(append(append(b, piece...), `"},"done":false}`...))
		})
		if !sent {
			return
		}
	}
	if !x.plan.noDone {
		t.last = true
		t.send(x.appendOllamaTail(append(x.appendOllamaHead(t.named("")), `"}`...), a))
	}
}

// serveOllamaEmbed answers POST /api/embed.
func serveOllamaEmbed(x *exchange) {
	m, ok := x.open(nil)
	if !ok {
		return
	}
	c := newChecker(&ollamaProtocol)
	c.filled(m, "model", "")
	list := []any{m["input"]}
	if _, ok := m["input"].(string); !ok {
		c.texts(m, "input", "")
		list = c.needList(m, "input", "")
	}
	size := c.integer(m, "dimensions", "", 1)
	if size == 0 || size > maxDimensions {
		size = 768
	}
	if c.wrong.kind != "" {
		x.refuse(statusOf, c.wrong)
		return
	}
	inputs := rawInputs(list)
	x.bill(sumTokens(inputs))
	x.out = append(append(x.out[:0], `{"model":"`...), x.rawName...)
	x.out = appendTyped(append(x.out, `","embeddings":`...), inputs, size, "float")
	x.out = append(x.out, `,"total_duration":12000000,"load_duration":1000000`...)
	if !x.plan.noUsage {
		x.out = appendAll(x.out, `,"prompt_eval_count":`, itoa(x.prompt))
	}
	x.out = append(x.out, '}')
	x.sendBody(http.StatusOK, typeJSON, x.out)
}

// words returns the words of a text in lower case.
func words(text string) []string { return strings.Fields(strings.ToLower(text)) }
