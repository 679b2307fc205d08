package simulator

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// cohereProtocol is version 2 of Cohere's protocol.
// https://docs.cohere.com/reference/chat
var cohereProtocol = protocol{
	name: "cohere", index: cohereIndex, kind: framingEvents, stream: typeStream,
	fail: failCohere, unknown: unknownCohere,
}

func unknownCohere(path, name string) providerError {
	return invalid(path+name, "invalid request: unknown field: parameter '"+path+name+"' is not a valid field")
}

func failCohere(x *exchange, dst []byte, _ int, e providerError) []byte {
	return appendAll(dst, `{"id":"sim-`, itoa(int(x.number)), `","message":`, quoted(e.message), `}`)
}

// breakCohere ends the response with the finish reason error.
func breakCohere(t *stream) []byte {
	return appendAll(t.named("message-end"), `{"type":"message-end","delta":{"finish_reason":"ERROR","error":`, quoted(midStream.message),
		`}}`)
}

// serveCohere answers POST /v2/chat.
func serveCohere(x *exchange) {
	body, ok := x.open(nil)
	if !ok {
		return
	}
	q := &turn{}
	c := newChecker(&cohereProtocol)
	readCohere(c, q, body)
	if !x.accept(q, c, body) {
		return
	}
	a := x.responseTo(q)
	x.respond(q.stream, a, func(dst []byte) []byte { return x.appendCohere(dst, a) },
		func(t *stream) { x.streamCohere(t, a) })
}

func readCohere(c *checker, q *turn, m map[string]any) {
	c.checkMembers(m, "", "model", "messages", "tools", "strict_tools", "documents", "citation_options", "response_format", "safety_mode",
		"max_tokens", "stop_sequences", "temperature", "seed", "frequency_penalty", "presence_penalty", "k", "p", "logprobs",
		"tool_choice", "thinking", "raw_prompting", "priority", "stream")
	q.model = c.filled(m, "model", "")
	q.stream = c.flag(m, "stream", "")
	c.word(m, "safety_mode", "", "CONTEXTUAL", "STRICT", "OFF")
	c.readSampling(q, m, cohereIndex)
	if think := c.child(m, "thinking", ""); think != nil {
		c.checkMembers(think, "thinking", "type", "token_budget")
		q.thinks = c.word(think, "type", "thinking", "enabled", "disabled") == "enabled"
		q.seen.Budget = c.integer(think, "token_budget", "thinking", 1)
	}
	q.seen.Documents = len(c.list(m, "documents", ""))
	readCohereFormat(c, q, m)
	readCohereTools(c, q, m)
	readCohereTurns(c, q, m)
}

func readCohereFormat(c *checker, q *turn, m map[string]any) {
	const path = "response_format"
	format := c.child(m, path, "")
	if format == nil {
		return
	}
	c.checkMembers(format, path, "type", "json_schema", "schema")
	if c.word(format, "type", path, "text", "json_object") != "json_object" {
		return
	}
	q.format = "json"
	for _, name := range []string{"json_schema", "schema"} {
		if schema := c.child(format, name, path); schema != nil {
			q.format, q.schema = "schema", schema
			if schema["type"] != "object" {
				c.fail(at(path, name), "the schema must be of type object at the top")
			}
		}
	}
}

func readCohereTools(c *checker, q *turn, m map[string]any) {
	for i, v := range c.list(m, "tools", "") {
		path := nth("tools", i)
		tool := c.object(v, path)
		c.checkMembers(tool, path, "type", "function")
		c.word(tool, "type", path, "function")
		path = at(path, "function")
		f := c.object(tool["function"], path)
		c.checkMembers(f, path, "name", "description", "parameters")
		name := c.filled(f, "name", path)
		checkCohereName(c, name, at(path, "name"))
		q.addTool(name, any(c.child(f, "parameters", path)))
	}
	switch c.word(m, "tool_choice", "", "REQUIRED", "NONE") {
	case "REQUIRED":
		q.mode = "any"
	case "NONE":
		q.mode = "none"
	}
	if q.mode != "" && len(q.tools) == 0 {
		c.fail("tool_choice", "tool_choice needs tools")
	}
	if q.format != "" && len(q.tools) > 0 {
		c.fail("response_format", "response_format is not supported with tools")
	}
}

var cohereName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`) })

// checkCohereName records a mistake for a name that no tool may have.
// https://docs.cohere.com/reference/errors
func checkCohereName(c *checker, name, path string) {
	if !cohereName().MatchString(name) {
		c.fail(path, "tool names can only contain certain characters (A-Za-z0-9_) and can't begin with a digit (provided name: '%s').", name)
	}
}

func readCohereTurns(c *checker, q *turn, m map[string]any) {
	if m["messages"] == nil {
		c.wrong = invalid("messages", "invalid request: messages is required")
		return
	}
	var calls toolCallChecker
	for i, v := range c.needList(m, "messages", "") {
		path := nth("messages", i)
		message := c.object(v, path)
		c.checkMembers(message, path, "role", "content", "tool_calls", "tool_call_id", "tool_plan", "citations")
		role := c.word(message, "role", path, "user", "assistant", "system", "tool")
		if role != "tool" && len(calls.open) > 0 {
			c.fail(path, "all tool calls must be followed by tool results; missing: %s", strings.Join(calls.open, ", "))
		}
		q.afterTool, q.prefill = role == "tool", role == "assistant"
		if role == "tool" {
			readCohereResult(c, q, message, path, &calls)
			continue
		}
		text := readCohereContent(c, q, message, path)
		if role == "assistant" {
			readCohereCalls(c, q, message, path, &calls)
		} else if message["content"] == nil || text == "" && q.seen.Images == 0 {
			c.fail(path, "all elements in messages must have content")
		}
		if role == "system" {
			q.addSystem(text)
		} else {
			q.addMessage(role, text)
		}
	}
	if len(calls.open) > 0 {
		c.fail("messages", "all tool calls must be followed by tool results; missing: %s", strings.Join(calls.open, ", "))
	}
	if len(q.seen.Roles) == 0 {
		c.fail("messages", "at least one message that is not the system's is required")
	}
}

// readCohereContent returns the text of a message.
func readCohereContent(c *checker, q *turn, m map[string]any, path string) string {
	if text, ok := m["content"].(string); ok {
		return text
	}
	role, _ := m["role"].(string)
	kinds := map[string][]string{"user": {"text", "image_url"}, "assistant": {"text", "thinking"}}[role]
	if kinds == nil {
		kinds = []string{"text"}
	}
	var said strings.Builder
	for i, v := range c.list(m, "content", path) {
		where := nth(at(path, "content"), i)
		part := c.object(v, where)
		kind := c.word(part, "type", where, kinds...)
		c.checkMembers(part, where, "type", kind)
		switch kind {
		case "text":
			said.WriteString(c.needText(part, "text", where))
		case "thinking":
			q.seen.Thinking = append(q.seen.Thinking, ReportedThought{Text: c.needText(part, "thinking", where)})
		case "image_url":
			image := c.object(part["image_url"], where)
			c.checkMembers(image, at(where, "image_url"), "url", "detail")
			checkDataURL(c, c.filled(image, "url", where), at(where, "image_url.url"))
			q.seen.Images++
		default:
			c.fail(where, "a part needs a type")
		}
	}
	return said.String()
}

func readCohereCalls(c *checker, q *turn, m map[string]any, path string, calls *toolCallChecker) {
	list := c.list(m, "tool_calls", path)
	for i, v := range list {
		where := nth(at(path, "tool_calls"), i)
		call := c.object(v, where)
		c.checkMembers(call, where, "id", "type", "function")
		c.word(call, "type", where, "function")
		f := c.object(call["function"], at(where, "function"))
		c.checkMembers(f, at(where, "function"), "name", "arguments")
		id := c.filled(call, "id", where)
		arguments := decoded(c.needText(f, "arguments", where))
		if _, ok := arguments.(map[string]any); !ok {
			c.fail(where, "arguments must be the JSON of an object")
		}
		name := c.filled(f, "name", where)
		checkCohereName(c, name, at(where, "name"))
		q.seen.Calls = append(q.seen.Calls, ReportedCall{ID: id, Name: name, Arguments: arguments})
		calls.call(id)
	}
	if len(list) == 0 && m["content"] == nil {
		c.fail(path, "an assistant message needs content or tool_calls")
	}
}

func readCohereResult(c *checker, q *turn, m map[string]any, path string, calls *toolCallChecker) {
	id := c.filled(m, "tool_call_id", path)
	if !calls.resolve(id) {
		c.fail(path, "tool call id '%s' not found in previous tool calls", id)
	}
	text, ok := m["content"].(string)
	if !ok {
		for i, v := range c.needList(m, "content", path) {
			where := nth(at(path, "content"), i)
			part := c.object(v, where)
			switch c.word(part, "type", where, "text", "document") {
			case "text":
				text += c.needText(part, "text", where)
			case "document":
				document := c.object(part["document"], where)
				c.checkMembers(document, at(where, "document"), "data", "id")
				if data, ok := document["data"].(string); ok {
					text += data
				}
			}
		}
	}
	q.prompt += tokensOf(len(text))
	q.seen.Results = append(q.seen.Results, ReportedResult{ID: id, Text: text})
}

// serveCohereEmbed answers POST /v2/embed.
func serveCohereEmbed(x *exchange) {
	if body, ok := x.open(nil); ok {
		x.embedCohere(body, true)
	}
}

// embedCohere answers an embeddings request. named is true if the body names
// the model.
func (x *exchange) embedCohere(m map[string]any, named bool) {
	c := newChecker(x.protocol)
	if named {
		c.filled(m, "model", "")
	}
	c.checkMembers(m, "", "model", "texts", "images", "inputs", "input_type", "embedding_types", "output_dimension", "truncate", "max_tokens",
		"priority")
	kind := c.one(m, "texts", "texts", "images", "inputs")
	list := c.needList(m, kind, "")
	c.filled(m, "input_type", "")
	c.word(m, "input_type", "", "search_document", "search_query", "classification", "clustering", "image")
	c.word(m, "truncate", "", "NONE", "START", "END")
	if len(list) > 96 {
		c.fail(kind, "at most 96 elements are allowed")
	}
	size := c.integer(m, "output_dimension", "", 256)
	if size != 0 && !slices.Contains([]int{256, 512, 1024, 1536}, size) {
		c.fail("output_dimension", "must be 256, 512, 1024 or 1536")
	}
	if size == 0 {
		size = 1536
	}
	types := c.texts(m, "embedding_types", "")
	for _, name := range types {
		if !slices.Contains([]string{"float", "int8", "uint8", "binary", "ubinary", "base64"}, name) {
			c.fail("embedding_types", "must be float, int8, uint8, binary, ubinary or base64")
		}
	}
	if len(types) == 0 {
		types = []string{"float"}
	}
	if c.wrong.kind != "" {
		x.refuse(statusOf, c.wrong)
		return
	}
	x.sendTyped(rawInputs(list), size, types)
}

// sendTyped answers with the vectors of the inputs in each of the types.
func (x *exchange) sendTyped(inputs []input, size int, types []string) {
	x.bill(sumTokens(inputs))
	x.out = appendAll(x.out[:0], `{"id":"sim-`, x.idText(), `","response_type":"embeddings_by_type","embeddings":{`)
	for i, name := range types {
		if i > 0 {
			x.out = append(x.out, ',')
		}
		x.out = appendAll(x.out, `"`, name, `":`)
		x.out = appendTyped(x.out, inputs, size, name)
	}
	x.out = append(x.out, `},"texts":[],"meta":{"api_version":{"version":"2"}`...)
	if !x.plan.noUsage {
		x.out = appendAll(x.out, `,"billed_units":{"input_tokens":`, itoa(x.prompt), `}`)
	}
	x.out = append(x.out, `}}`...)
	x.sendBody(http.StatusOK, typeJSON, x.out)
}

// serveCohereRerank answers POST /v2/rerank: the documents in the order of how
// much of the query they contain.
func serveCohereRerank(x *exchange) {
	m, ok := x.open(nil)
	if !ok {
		return
	}
	c := newChecker(&cohereProtocol)
	c.checkMembers(m, "", "model", "query", "documents", "top_n", "max_tokens_per_doc", "priority", "return_documents")
	c.filled(m, "model", "")
	query := c.filled(m, "query", "")
	documents := c.texts(m, "documents", "")
	c.needList(m, "documents", "")
	top := c.integer(m, "top_n", "", 1)
	if c.wrong.kind != "" {
		x.refuse(statusOf, c.wrong)
		return
	}
	x.out = appendAll(x.out[:0], `{"id":"sim-`, x.idText(), `",`)
	x.sendRanks(query, documents, top)
	x.out = append(x.out, `,"meta":{"api_version":{"version":"2"},"billed_units":{"search_units":1}}}`...)
	x.sendBody(http.StatusOK, typeJSON, x.out)
}
