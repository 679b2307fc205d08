package simulator

import "strings"

// unthinkingTurn is the message of the error for results of tools that continue a turn which
// does not begin with thinking, while thinking has a budget. Later calls of a turn need none.
// https://docs.claude.com/en/docs/build-with-claude/extended-thinking#extended-thinking-with-tool-use
const unthinkingTurn = "Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks)."

// turnThinks reports whether the turn of the assistant in which a conversation of messages or
// converse ends begins with thinking.
func turnThinks(m map[string]any) bool {
	messages, _ := m["messages"].([]any)
	begun, thinks, results := false, false, false
	before := ""
	for _, v := range messages {
		message, _ := v.(map[string]any)
		role, _ := message["role"].(string)
		first := firstBlock(message)
		switch {
		case role == "assistant" && !begun:
			begun, thinks = true, first == "thinking" || first == "redacted_thinking" || first == "reasoningContent"
		case role != "user":
		case first == "tool_result" || first == "toolResult":
			results = true
		case before != "user" || !results:
			begun, results = false, false
		}
		if role != "user" {
			results = false
		}
		before = role
	}
	return thinks
}

// firstBlock returns the type of the first block of a message, which in converse is a name.
func firstBlock(message map[string]any) string {
	blocks, _ := message["content"].([]any)
	if len(blocks) == 0 {
		return ""
	}
	first, _ := blocks[0].(map[string]any)
	if kind, ok := first["type"].(string); ok {
		return kind
	}
	for name := range first {
		return name
	}
	return ""
}

// clearsThinking records a mistake for a request without thinking that clears it.
// https://docs.claude.com/en/docs/build-with-claude/context-editing#thinking-block-clearing
func clearsThinking(c *checker, m map[string]any, path string) {
	management, _ := m["context_management"].(map[string]any)
	edits, _ := management["edits"].([]any)
	for _, v := range edits {
		edit, _ := v.(map[string]any)
		if kind, _ := edit["type"].(string); strings.HasPrefix(kind, "clear_thinking_") {
			c.fail(at(path, "context_management"), "`%s` strategy requires `thinking` to be enabled or adaptive", kind)
		}
	}
}
