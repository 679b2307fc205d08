package dialect

import (
	"strings"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// messagesDialect is the dialect of [MessagesBlock].
const messagesDialect = "messages"

// MessagesBlock returns a block that only the messages dialect has. Clients of
// the chat dialect may send such blocks too.
// https://docs.claude.com/en/api/messages
func MessagesBlock(kind string, v jsonedit.Value, at string) llm.Native {
	n := llm.Native{Dialect: messagesDialect, Type: kind, Raw: v.Raw(), At: at}
	member := func(name string) string { m, _ := v.Get(name); return ReadableText(m) }
	switch kind {
	case "server_tool_use":
		n.Parts = Described("call of "+member("name"), member("input"))
	case "mcp_tool_use":
		n.Parts = Described("call of "+member("name")+" of "+member("server_name"), member("input"))
	case "compaction":
		if text := member("content"); text != "" {
			n.Parts = Described("summary of the conversation so far", text)
		}
	case "browser_state":
		n.Parts = Described("state of the browser", ReadableText(v))
	case "tool_reference":
		n.Parts = Described("tool", member("tool_name"))
	case "container_upload":
		n.Needed = "the file is in a container of its provider: send its content"
	default:
		if what, ok := strings.CutSuffix(kind, "_tool_result"); ok {
			n.Parts = Described("result of "+what, member("content"))
		}
	}
	return n
}
