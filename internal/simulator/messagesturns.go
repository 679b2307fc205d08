package simulator

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// A toolCallChecker matches tool calls with their results.
type toolCallChecker struct {
	open []string // ids of calls without a result
}

func (l *toolCallChecker) call(id string) { l.open = append(l.open, id) }

// resolve removes a call from the list, and reports whether there was such a
// call.
func (l *toolCallChecker) resolve(id string) bool {
	i := slices.Index(l.open, id)
	if i < 0 {
		return false
	}
	l.open = slices.Delete(l.open, i, i+1)
	return true
}

// readMessagesTurns reads the conversation. Consecutive messages of one role
// are one turn.
func readMessagesTurns(c *checker, q *turn, m map[string]any) {
	list := c.needList(m, "messages", "")
	var calls toolCallChecker
	before := ""
	for i, v := range list {
		path := nth("messages", i)
		message := c.object(v, path)
		c.checkMembers(message, path, "role", "content")
		role := c.word(message, "role", path, "user", "assistant", "system")
		if i == 0 && role == "assistant" {
			c.fail(path, "first message must use the \"user\" role")
		}
		if role == "system" {
			readMessagesSystem(c, q, message["content"], at(path, "content"))
			continue
		}
		if len(calls.open) > 0 && role == "assistant" && before == "user" {
			c.fail(path, "`tool_use` ids were found without `tool_result` blocks immediately after: %s", strings.Join(calls.open, ", "))
		}
		q.prefill = role == "assistant"
		q.afterTool = q.afterTool && before == role && role == "user"
		if isEmpty(message["content"]) && (role == "user" || i < len(list)-1) {
			c.fail(path, "all messages must have non-empty content except for the optional final assistant message")
		}
		readMessagesContent(c, q, message, path, &calls)
		before = role
	}
	if q.prefill && q.trailing {
		c.fail("messages", "final assistant content cannot end with trailing whitespace")
	}
	if len(calls.open) > 0 {
		c.fail("messages", "`tool_use` ids were found without `tool_result` blocks immediately after: %s", strings.Join(calls.open, ", "))
	}
}

// isEmpty reports whether content is an empty string or list.
func isEmpty(content any) bool {
	if list, ok := content.([]any); ok {
		return len(list) == 0
	}
	return content == ""
}

func readMessagesContent(c *checker, q *turn, message map[string]any, path string, calls *toolCallChecker) {
	role, _ := message["role"].(string)
	where := at(path, "content")
	if text, ok := message["content"].(string); ok {
		if len(calls.open) > 0 && role == "user" {
			c.fail(path, "`tool_use` ids were found without `tool_result` blocks immediately after: %s", strings.Join(calls.open, ", "))
		}
		q.trailing = endsInSpace(text)
		q.addMessage(role, text)
		return
	}
	if message["content"] == nil {
		c.fail(where, "Field required")
	}
	var said strings.Builder
	b := blocks{c: c, q: q, calls: calls, role: role}
	for i, v := range c.list(message, "content", path) {
		b.block(c.object(v, nth(where, i)), nth(where, i), &said)
	}
	q.trailing = b.last == "text" && endsInSpace(said.String())
	q.addMessage(role, said.String())
}

func endsInSpace(text string) bool { return text != strings.TrimRight(text, " \t\r\n") }

// blocks reads the blocks of one message.
type blocks struct {
	c      *checker
	q      *turn
	calls  *toolCallChecker
	role   string
	last   string // type of the previous block
	inside bool   // inside a tool result
}

var messagesID = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

func (b *blocks) block(m map[string]any, path string, said *strings.Builder) {
	c := b.c
	kind := c.needText(m, "type", path)
	if b.role == "user" && kind != "tool_result" && b.last != "tool_result" && len(b.calls.open) > 0 && !b.inside {
		c.fail(path, "`tool_use` ids were found without `tool_result` blocks immediately after: %s", strings.Join(b.calls.open, ", "))
	}
	markedMessages(c, b.q, m, path)
	switch kind {
	case "text":
		c.checkMembers(m, path, "type", "text", "cache_control", "citations")
		text := c.needText(m, "text", path)
		if strings.TrimSpace(text) == "" {
			c.fail("messages", "text content blocks must contain non-whitespace text")
		}
		said.WriteString(text)
	case "image":
		c.checkMembers(m, path, "type", "source", "cache_control", "transformations")
		b.q.seen.Images++
		b.source(m, path, "image/jpeg", "image/png", "image/gif", "image/webp")
	case "document":
		c.checkMembers(m, path, "type", "source", "cache_control", "title", "context", "citations")
		b.q.seen.Documents++
		b.source(m, path, "application/pdf")
	case "search_result", "container_upload", "server_tool_use", "mcp_tool_use", "mcp_tool_listing", "tool_reference", "fallback":
	case "tool_use", "thinking", "redacted_thinking":
		b.assistantBlock(m, path, kind)
	case "tool_result":
		b.result(m, path)
	default:
		if !strings.HasSuffix(kind, "_tool_result") && kind != "compaction" {
			c.fail(path, "Input tag '%s' found using 'type' does not match any of the expected tags", kind)
		}
	}
	b.last = kind
}

// source checks the source of an image or a document.
func (b *blocks) source(m map[string]any, path string, media ...string) {
	c := b.c
	path = at(path, "source")
	s := c.object(m["source"], path)
	switch kind := c.needText(s, "type", path); kind {
	case "base64":
		c.checkMembers(s, path, "type", "media_type", "data")
		c.word(s, "media_type", path, media...)
		c.filled(s, "media_type", path)
		c.base64(s, "data", path)
	case "url":
		c.checkMembers(s, path, "type", "url")
		if b.q.local {
			c.fail(path, "URL sources are not supported")
		}
		if url := c.filled(s, "url", path); !strings.HasPrefix(url, "http") {
			c.fail(at(path, "url"), "Only HTTP and HTTPS URLs are supported")
		}
	case "file":
		c.checkMembers(s, path, "type", "file_id")
		c.filled(s, "file_id", path)
	case "text", "content":
		if media[0] != "application/pdf" {
			c.fail(path, "Input tag '%s' does not match any of the expected tags", kind)
		}
		if kind == "text" {
			c.checkMembers(s, path, "type", "media_type", "data")
			c.word(s, "media_type", path, "text/plain")
			c.filled(s, "data", path)
		}
	default:
		c.fail(path, "Input tag '%s' does not match any of the expected tags", kind)
	}
}

func (b *blocks) assistantBlock(m map[string]any, path, kind string) {
	c, q := b.c, b.q
	if b.role != "assistant" {
		c.fail(path, "`%s` blocks can only be in `assistant` messages", kind)
	}
	switch kind {
	case "tool_use":
		c.checkMembers(m, path, "type", "id", "name", "input", "cache_control", "caller", "toolset_name")
		id := c.filled(m, "id", path)
		c.matches(id, at(path, "id"), messagesID)
		name := c.filled(m, "name", path)
		c.matches(name, at(path, "name"), messagesToolName())
		if slices.ContainsFunc(q.seen.Calls, func(r ReportedCall) bool { return r.ID == id }) {
			c.fail(path, "`tool_use` ids must be unique")
		}
		q.seen.Calls = append(q.seen.Calls, ReportedCall{ID: id, Name: name, Arguments: c.object(m["input"], at(path, "input"))})
		b.calls.call(id)
	case "thinking":
		c.checkMembers(m, path, "type", "thinking", "signature")
		thought := ReportedThought{Text: c.needText(m, "thinking", path), Signature: c.needText(m, "signature", path)}
		q.seen.Thinking = append(q.seen.Thinking, thought)
		if thought.Signature != signature("anthropic", thought.Text) {
			c.fail(path, "Invalid `signature` in `thinking` block")
		}
	case "redacted_thinking":
		c.checkMembers(m, path, "type", "data")
		data := c.needText(m, "data", path)
		q.seen.Thinking = append(q.seen.Thinking, ReportedThought{Signature: data, Redacted: true})
		if !unsealed("anthropic", data) {
			c.fail(path, "Invalid `data` in `redacted_thinking` block")
		}
	}
}

func (b *blocks) result(m map[string]any, path string) {
	c, q := b.c, b.q
	c.checkMembers(m, path, "type", "tool_use_id", "content", "is_error", "cache_control", "toolset_name")
	if b.role != "user" || b.inside {
		c.fail(path, "`tool_result` blocks can only be in `user` messages")
	}
	if b.last != "" && b.last != "tool_result" {
		c.fail(path, "`tool_result` blocks must come before other content")
	}
	id := c.filled(m, "tool_use_id", path)
	if !b.calls.resolve(id) {
		c.fail(path, "unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", id)
	}
	q.afterTool = true
	r := ReportedResult{ID: id, Failed: c.flag(m, "is_error", path)}
	if text, ok := m["content"].(string); ok {
		r.Text = text
	} else {
		var said strings.Builder
		inner := blocks{c: c, q: q, calls: b.calls, role: "user", inside: true}
		for i, v := range c.list(m, "content", path) {
			where := nth(at(path, "content"), i)
			inner.block(c.object(v, where), where, &said)
		}
		r.Text = said.String()
	}
	q.prompt += tokensOf(len(r.Text))
	q.seen.Results = append(q.seen.Results, r)
}

// decoded returns the value of JSON text, or the text if it is not JSON.
func decoded(text string) any {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return text
	}
	return v
}
