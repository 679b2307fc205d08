package attempt

import (
	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// maxMarks is how many cache marks a request may have at Anthropic and at Bedrock.
//
//   - https://docs.claude.com/en/docs/build-with-claude/prompt-caching
//   - https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html
const maxMarks = 4

// fitMarks removes the cache marks of a decoded request that targets of dialect d
// reject: those of deferred tools, and all but the first and the last three of more
// than four. The first is usually that of tools or the system prompt, the last ones
// grow with the conversation.
func fitMarks(r *llm.Request, d api.Dialect) (changes []dialect.ParamChange) {
	if d != api.DialectMessages && d != api.DialectConverse {
		return nil
	}
	for i := range r.Tools {
		if t := &r.Tools[i]; t.Cache != nil && isDeferred(t) {
			t.Cache = nil
			changes = append(changes, dialect.ParamChange{Name: r.NameOf(llm.FieldCache), Outcome: dialect.Dropped, Note: dialect.OfDeferredTool})
		}
	}
	room, total := maxMarks, 0
	if r.Cache != nil { // marks the end of the prompt
		room--
	}
	eachMark(r, func(c *llm.Cache) *llm.Cache { total++; return c })
	if total <= room {
		return changes
	}
	i := 0
	eachMark(r, func(c *llm.Cache) *llm.Cache {
		i++
		if i > 1 && i <= total-(room-1) {
			return nil
		}
		return c
	})
	return append(changes, dialect.ParamChange{Name: r.NameOf(llm.FieldCache), Outcome: dialect.Adapted,
		Note: dialect.FourMarks})
}

// isDeferred reports whether a tool is loaded only when the model searches for it.
// Such tools cannot be marked.
// https://docs.claude.com/en/docs/agents-and-tools/tool-use/tool-search-tool
func isDeferred(t *llm.Tool) bool {
	for _, m := range t.Extra {
		if m.Name == "defer_loading" {
			return string(m.Value) == "true"
		}
	}
	return false
}

// eachMark replaces each cache mark of tools and content with the result of f, in
// their order.
func eachMark(r *llm.Request, f func(*llm.Cache) *llm.Cache) {
	for i := range r.Tools {
		if t := &r.Tools[i]; t.Cache != nil {
			t.Cache = f(t.Cache)
		}
	}
	for i := range r.Messages {
		eachMarkOf(r.Messages[i].Parts, f)
	}
}

func eachMarkOf(parts []llm.Part, f func(*llm.Cache) *llm.Cache) {
	for i, p := range parts {
		switch p := p.(type) {
		case llm.Text:
			if p.Cache != nil {
				p.Cache = f(p.Cache)
				parts[i] = p
			}
		case llm.Media:
			if p.Cache != nil {
				p.Cache = f(p.Cache)
				parts[i] = p
			}
		case llm.ToolCall:
			if p.Cache != nil {
				p.Cache = f(p.Cache)
				parts[i] = p
			}
		case llm.ToolResult:
			eachMarkOf(p.Parts, f)
			if p.Cache != nil {
				p.Cache = f(p.Cache)
				parts[i] = p
			}
		}
	}
}

// markTools returns tools with a breakpoint on the last that is not deferred, or nil
// if there is none.
func markTools(tools jsonedit.Value) []byte {
	var last jsonedit.Value
	i, at := 0, 0
	for tool := range tools.Elements() {
		if tool.Kind() == jsonedit.Object && !isDeferredTool(tool) {
			last, at = tool, i
		}
		i++
	}
	if last.Kind() != jsonedit.Object {
		return nil
	}
	return tools.ReplaceElement(at, marked(last))
}

// loadedSize returns the size of the tools that are part of the prompt.
func loadedSize(tools jsonedit.Value) (n int) {
	if tools.Kind() != jsonedit.Array {
		return len(tools.Raw())
	}
	n = len(tools.Raw())
	for tool := range tools.Elements() {
		if isDeferredTool(tool) {
			n -= len(tool.Raw())
		}
	}
	return n
}

// isDeferredTool reports whether a tool of a messages body, or the tools of a server
// that it stands for, are loaded only when the model searches for them.
func isDeferredTool(tool jsonedit.Value) bool {
	v, _ := tool.Get("defer_loading")
	if v.IsNull() {
		config, _ := tool.Get("default_config")
		v, _ = config.Get("defer_loading")
	}
	return string(v.Raw()) == "true"
}
