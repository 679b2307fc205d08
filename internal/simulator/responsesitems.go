package simulator

import (
	"strings"
)

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
		c.wrong = providerError{kind: invalidRequest, code: "invalid_encrypted_content",
			message: "The encrypted content could not be verified."}
	}
}
