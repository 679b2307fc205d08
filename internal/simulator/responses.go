package simulator

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// responsesProtocol is the Responses protocol.
// https://platform.openai.com/docs/api-reference/responses
var responsesProtocol = protocol{
	name: "responses", index: responsesIndex, kind: framingEvents, stream: typeStream,
	fail: failResponses, unknown: unknownMember,
}

func failResponses(_ *exchange, dst []byte, _ int, e providerError) []byte { return e.append(dst) }

// breakResponses sends an error followed by the failure of the response, as the
// provider does.
func breakResponses(t *stream) []byte {
	b := appendAll(t.named("error"), `{"type":"error","sequence_number":`, itoa(t.n),
		`,"error":{"type":"server_error","code":"server_error","message":`,
		quoted(midStream.message), `,"param":null}}`)
	b = t.newline(t.newline(b))
	b = t.newline(append(b, "event: response.failed"...))
	b = appendAll(b, `data: {"type":"response.failed","sequence_number":`, itoa(t.n+1), `,"response":`)
	b = t.x.appendResponse(b, &turn{}, &response{}, "failed")
	return append(b, '}')
}

// serveResponses answers POST /responses.
func serveResponses(x *exchange) {
	body, ok := x.open(nil)
	if !ok {
		return
	}
	q := &turn{}
	c := newChecker(&responsesProtocol)
	c.checkMembers(body, "", responsesMembers...)
	state, gone := x.readState(c, body)
	q.state = state
	readResponses(c, q, body)
	if c.wrong.kind == "" && gone.kind != "" {
		x.refuse(http.StatusNotFound, gone)
		return
	}
	if !x.accept(q, c, body) {
		return
	}
	a := x.responseTo(q)
	x.nameResponse(q.state, body)
	r := x.keepResponse(q, a)
	switch {
	case r != nil && q.state.background:
		x.startBackground(q, r)
		return
	case r != nil && q.state.unique && x.plan.lost:
		x.resetConn()
		return
	}
	x.respond(q.stream, a, func(dst []byte) []byte { return x.appendResponse(dst, q, a, a.status()) },
		func(t *stream) { x.streamResponses(t, q, a) })
}

var responsesMembers = []string{
	"model", "input", "instructions", "background", "client_metadata", "conversation", "include", "max_output_tokens",
	"max_tool_calls", "metadata", "parallel_tool_calls", "previous_response_id", "prompt", "prompt_cache_key",
	"prompt_cache_retention", "reasoning", "safety_identifier", "service_tier", "store", "stream", "stream_options",
	"temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p", "truncation", "user", "context_management",
	"moderation", "access_programs", "prompt_cache_options", "image",
}

func readResponses(c *checker, q *turn, m map[string]any) {
	if q.model = "sim-1"; m["model"] != nil || m["prompt"] == nil { // a stored prompt may name the model
		q.model = c.filled(m, "model", "")
	}
	q.stream = c.flag(m, "stream", "")
	c.readSampling(q, m, responsesIndex)
	q.serial = m["parallel_tool_calls"] == false
	if text := c.text(m, "instructions", ""); text != "" {
		q.addSystem(text)
	}
	if reasoning := c.child(m, "reasoning", ""); reasoning != nil {
		c.checkMembers(reasoning, "reasoning", "effort", "summary", "generate_summary", "context")
		q.seen.Effort = c.word(reasoning, "effort", "reasoning", "none", "minimal", "low", "medium", "high", "xhigh", "max")
		q.summary = c.word(reasoning, "summary", "reasoning", "auto", "concise", "detailed") != ""
		q.thinks = q.seen.Effort != "none"
	}
	q.sealed = wantsSealed(m)
	c.word(m, "truncation", "", "auto", "disabled")
	c.word(m, "service_tier", "", "auto", "default", "flex", "priority", "scale")
	if m["previous_response_id"] != nil && m["conversation"] != nil {
		c.fail("previous_response_id", "Mutually exclusive parameters: 'previous_response_id' and 'conversation'. Provide only one of them.")
	}
	c.metadata(m)
	// https://platform.openai.com/docs/api-reference/responses/create
	for _, name := range [...]string{"user", "safety_identifier", "prompt_cache_key"} {
		c.short(m, name, "", 64)
	}
	readResponsesFormat(c, q, m)
	readResponsesTools(c, q, m)
	readResponsesInput(c, q, m)
}

// metadata checks the metadata of a request.
// https://platform.openai.com/docs/api-reference/responses/create
func (c *checker) metadata(m map[string]any) {
	pairs := c.child(m, "metadata", "")
	if len(pairs) > 16 {
		c.fail("metadata", "Too many properties. Expected an object with at most 16 properties")
	}
	for _, name := range sortedNames(pairs) {
		if len([]rune(name)) > 64 || len([]rune(c.text(pairs, name, "metadata"))) > 512 {
			c.fail(at("metadata", name), "must have a name of at most 64 characters and a value of at most 512")
		}
	}
}

// wantsSealed reports whether encrypted thinking is requested.
func wantsSealed(m map[string]any) bool {
	list, _ := m["include"].([]any)
	return slices.Contains(list, any("reasoning.encrypted_content"))
}

func readResponsesFormat(c *checker, q *turn, m map[string]any) {
	text := c.child(m, "text", "")
	c.checkMembers(text, "text", "format", "verbosity")
	c.word(text, "verbosity", "text", "low", "medium", "high")
	format := c.child(text, "format", "text")
	if format == nil {
		return
	}
	const path = "text.format"
	switch c.needText(format, "type", path) {
	case "text":
	case "json_object":
		q.format = "json"
	case "json_schema":
		c.checkMembers(format, path, "type", "name", "schema", "strict", "description")
		c.matches(c.filled(format, "name", path), path+".name", responsesName())
		q.format, q.schema = "schema", c.object(format["schema"], path+".schema")
		if c.flag(format, "strict", path) {
			strictSchema(c, q.schema, path+".schema")
		}
	default:
		c.fail(path+".type", "Supported values are: 'json_object', 'json_schema', and 'text'")
	}
}

var responsesName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`) })

// strictSchema records a mistake for what strict schemas must not have: objects
// with additional or optional members.
// https://platform.openai.com/docs/guides/structured-outputs
func strictSchema(c *checker, v any, path string) {
	switch s := v.(type) {
	case []any:
		for i := range s {
			strictSchema(c, s[i], nth(path, i))
		}
	case map[string]any:
		if s["type"] == "object" {
			properties, _ := s["properties"].(map[string]any)
			required, _ := s["required"].([]any)
			if s["additionalProperties"] != false || len(required) != len(properties) {
				c.fail(path, "Invalid schema: 'additionalProperties' is required to be supplied and to be false, and 'required' to list every key in properties")
			}
		}
		for _, name := range sortedNames(s) {
			strictSchema(c, s[name], at(path, name))
		}
	}
}

func readResponsesTools(c *checker, q *turn, m map[string]any) {
	for i, v := range c.list(m, "tools", "") {
		path := nth("tools", i)
		tool := c.object(v, path)
		if c.needText(tool, "type", path) != "function" {
			continue
		}
		c.checkMembers(tool, path, "type", "name", "description", "parameters", "strict", "defer_loading")
		name := c.filled(tool, "name", path)
		c.matches(name, at(path, "name"), responsesName())
		schema := c.child(tool, "parameters", path)
		if schema != nil && schema["type"] != "object" {
			c.fail(at(path, "parameters"), "Invalid schema for function '%s': schema must be a JSON Schema of 'type: \"object\"'", name)
		}
		if c.flag(tool, "strict", path) {
			strictSchema(c, schema, at(path, "parameters"))
		}
		q.addTool(name, any(schema))
	}
	switch choice := m["tool_choice"].(type) {
	case nil:
	case string:
		q.mode = map[string]string{"required": "any"}[choice]
		if q.mode == "" {
			q.mode = c.word(m, "tool_choice", "", "auto", "none", "required")
		}
	case map[string]any:
		if choice["type"] == "function" {
			c.checkMembers(choice, "tool_choice", "type", "name")
			q.mode, q.only = "tool", c.filled(choice, "name", "tool_choice")
		}
	default:
		c.fail("tool_choice", "Expected one of a string or an object")
	}
	if q.mode == "tool" && !slices.Contains(q.seen.Tools, q.only) || q.mode == "any" && m["tools"] == nil {
		c.fail("tool_choice", "Tool choice '%s' not found in 'tools' parameter.", q.only)
	}
}

func readResponsesInput(c *checker, q *turn, m map[string]any) {
	r := responsesItems{c: c, q: q}
	r.readEarlier(q.state.earlier)
	if text, ok := m["input"].(string); ok {
		q.addMessage("user", text)
		r.checkCalls()
		return
	}
	if m["input"] == nil {
		if m["prompt"] != nil || m["previous_response_id"] != nil || m["conversation"] != nil { // which hold the input
			return
		}
		c.wrong = providerError{kind: invalidRequest, param: "input", code: "missing_required_parameter",
			message: "Missing required parameter: 'input'."}
		return
	}
	list := c.list(m, "input", "")
	if len(list) == 0 && m["prompt"] == nil && m["previous_response_id"] == nil && m["conversation"] == nil {
		// https://platform.openai.com/docs/api-reference/responses/create#input
		c.wrong = providerError{kind: invalidRequest, param: "input", code: "missing_required_parameter",
			message: "One of \"input\" or \"previous_response_id\" or 'prompt' or 'conversation' must be provided."}
		return
	}
	for i, v := range list {
		path := "input[" + itoa(i) + "]"
		r.item(c.object(v, path), path)
	}
	if r.lone {
		c.fail("input", "Item of type 'reasoning' was provided without its required following item.")
	}
	r.checkCalls()
}

// checkCalls records a mistake for calls without a result.
func (r *responsesItems) checkCalls() {
	if len(r.calls.open) > 0 {
		r.c.fail("input", "No tool output found for function call %s.", strings.Join(r.calls.open, ", "))
	}
}

// readEarlier reads the items of a conversation before those of the request.
func (r *responsesItems) readEarlier(items []any) {
	for i, v := range items {
		path := "earlier[" + itoa(i) + "]"
		r.item(r.c.object(v, path), path)
	}
	r.lone = false
}

// responsesItems reads the items of the input.
type responsesItems struct {
	c     *checker
	q     *turn
	calls toolCallChecker
	lone  bool // thinking that nothing has followed
}

func (r *responsesItems) item(m map[string]any, path string) {
	c, q := r.c, r.q
	kind := c.text(m, "type", path)
	if kind == "" && m["role"] != nil {
		kind = "message"
	}
	r.lone = kind == "reasoning"
	q.afterTool = kind == "function_call_output" || kind == "custom_tool_call_output"
	switch kind {
	case "message":
		r.message(m, path)
	case "function_call":
		c.checkMembers(m, path, "type", "id", "call_id", "name", "arguments", "status", "namespace")
		checkItemID(c, m, path, "fc")
		id := c.filled(m, "call_id", path)
		c.short(m, "call_id", path, 64)
		name := c.filled(m, "name", path)
		c.matches(name, at(path, "name"), responsesName())
		arguments := decoded(c.needText(m, "arguments", path))
		q.seen.Calls = append(q.seen.Calls, ReportedCall{ID: id, Name: name, Arguments: arguments})
		r.calls.call(id)
	case "function_call_output":
		r.output(m, path)
	case "reasoning":
		r.reasoning(m, path)
	case "item_reference", "custom_tool_call", "custom_tool_call_output", "web_search_call", "file_search_call", "compaction",
		"image_generation_call", "code_interpreter_call", "computer_call", "computer_call_output", "local_shell_call",
		"local_shell_call_output", "mcp_call", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response":
	default:
		c.fail(path+".type", "Invalid value: '%s'", kind)
	}
}

// checkItemID records a mistake for ids that are long or without the prefix of their kind.
// https://platform.openai.com/docs/api-reference/responses/create
func checkItemID(c *checker, m map[string]any, path, prefix string) {
	c.short(m, "id", path, 64)
	if id := c.text(m, "id", path); m["id"] != nil && !strings.HasPrefix(id, prefix) {
		c.fail(at(path, "id"), "Invalid '%s': '%s'. Expected an ID that begins with '%s'.", at(path, "id"), id, prefix)
	}
}

func (r *responsesItems) message(m map[string]any, path string) {
	c, q := r.c, r.q
	c.checkMembers(m, path, "type", "role", "content", "id", "status", "phase")
	role := c.word(m, "role", path, "user", "assistant", "system", "developer")
	checkItemID(c, m, path, "msg")
	text, ok := m["content"].(string)
	if !ok {
		if m["content"] == nil {
			c.fail(at(path, "content"), "Missing required parameter")
		}
		for i, v := range c.list(m, "content", path) {
			where := at(path, "content") + "[" + itoa(i) + "]"
			text += r.part(c.object(v, where), where, role)
		}
	}
	q.prefill = role == "assistant"
	if role == "system" || role == "developer" {
		q.addSystem(text)
		return
	}
	q.addMessage(role, text)
}

// part reads one part of a message and returns its text.
func (r *responsesItems) part(m map[string]any, path, role string) string {
	c, q := r.c, r.q
	kinds := []string{"input_text", "input_image", "input_file", "input_audio"}
	if role == "assistant" {
		kinds = []string{"output_text", "refusal"}
	}
	c.needText(m, "type", path)
	switch c.word(m, "type", path, kinds...) {
	case "input_text":
		c.checkMembers(m, path, "type", "text")
		return c.needText(m, "text", path)
	case "output_text":
		c.checkMembers(m, path, "type", "text", "annotations", "logprobs")
		return c.needText(m, "text", path)
	case "refusal":
		c.needText(m, "refusal", path)
	case "input_image":
		c.checkMembers(m, path, "type", "image_url", "file_id", "detail")
		q.seen.Images++
		c.word(m, "detail", path, "low", "high", "auto", "original")
		if url := c.text(m, "image_url", path); url != "" {
			checkDataURL(c, url, at(path, "image_url"))
		} else {
			c.filled(m, "file_id", path)
		}
	case "input_file":
		c.checkMembers(m, path, "type", "file_data", "filename", "file_id", "file_url", "detail")
		q.seen.Documents++
		switch c.one(m, path, "file_data", "file_id", "file_url") {
		case "file_data":
			checkDataURL(c, c.filled(m, "file_data", path), at(path, "file_data"))
			c.filled(m, "filename", path)
		}
	case "input_audio":
		q.seen.Audio++
		c.base64(c.object(m["input_audio"], path), "data", path)
	}
	return ""
}

func (r *responsesItems) output(m map[string]any, path string) {
	c, q := r.c, r.q
	c.checkMembers(m, path, "type", "id", "call_id", "output", "status")
	c.short(m, "id", path, 64)
	id := c.filled(m, "call_id", path)
	c.short(m, "call_id", path, 64)
	if !r.calls.resolve(id) {
		c.fail("input", "No tool call found for function call output with call_id %s.", id)
	}
	text, ok := m["output"].(string)
	if !ok {
		for i, v := range c.list(m, "output", path) {
			where := at(path, "output") + "[" + itoa(i) + "]"
			text += r.part(c.object(v, where), where, "user")
		}
	}
	if m["output"] == nil {
		c.fail(at(path, "output"), "Missing required parameter")
	}
	q.prompt += tokensOf(len(text))
	q.seen.Results = append(q.seen.Results, ReportedResult{ID: id, Text: text})
}

// reasoning checks that thinking came back unchanged.
func (r *responsesItems) reasoning(m map[string]any, path string) {
	c, q := r.c, r.q
	c.checkMembers(m, path, "type", "id", "summary", "content", "encrypted_content", "status")
	checkItemID(c, m, path, "rs")
	if m["summary"] == nil {
		c.fail(at(path, "summary"), "Missing required parameter")
	}
	var thought ReportedThought
	for i, v := range c.list(m, "summary", path) {
		where := at(path, "summary") + "[" + itoa(i) + "]"
		part := c.object(v, where)
		c.word(part, "type", where, "summary_text")
		thought.Text += c.needText(part, "text", where)
	}
	thought.Signature = c.text(m, "encrypted_content", path)
	q.seen.Thinking = append(q.seen.Thinking, thought)
	if m["encrypted_content"] != nil && !unsealed("openai", thought.Signature) && c.wrong.kind == "" {
		c.wrong = providerError{kind: invalidRequest, code: "invalid_encrypted_content", message: "The encrypted content could not be verified."}
	}
}
