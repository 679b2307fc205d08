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
		c.fail("previous_response_id",
			"Mutually exclusive parameters: 'previous_response_id' and 'conversation'. Provide only one of them.")
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
				c.fail(path,
					"Invalid schema: 'additionalProperties' is required to be supplied and to be false, and 'required' to list every key in properties")
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
