package dialect

import (
	"slices"
	"strings"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// ThinkingDisabledObject is the parameter thinking of a request that is sent without
// thinking, see [ThinkingDisabled].
var ThinkingDisabledObject = []byte(`{"type":"disabled"}`)

// turnReader finds the beginning of the turn that a conversation ends in. Results of tools
// continue a turn of the assistant.
//
// Claude with a budget for thinking refuses a conversation that ends in results of tools if the
// turn does not begin with its own thinking. Later calls of the turn need none, and neither
// does adaptive thinking.
//
//   - https://docs.claude.com/en/docs/build-with-claude/extended-thinking#extended-thinking-with-tool-use
//   - https://docs.claude.com/en/docs/build-with-claude/adaptive-thinking
type turnReader struct {
	begun    bool // the assistant has spoken in the turn
	thinks   bool // the turn begins with thinking
	results  bool // the last messages of the user begin with results
	lastUser bool // the last message is the user's
}

func (t *turnReader) assistant(thinks bool) {
	if !t.begun {
		t.begun, t.thinks = true, thinks
	}
	t.results, t.lastUser = false, false
}

func (t *turnReader) user(result bool) {
	switch {
	case result:
		t.results = true
	case !t.lastUser || !t.results: // words next to results continue the turn too
		t.begun, t.results = false, false
	}
	t.lastUser = true
}

func (t *turnReader) lacksThinking() bool { return t.begun && t.results && !t.thinks }

// LacksThinking reports whether messages end in results of tools, in a turn that does not
// begin with thinking which the target's models accept.
func LacksThinking(messages []llm.Message, accepted func(llm.Thinking) bool) bool {
	var t turnReader
	for i := range messages {
		switch m := &messages[i]; m.Role {
		case llm.System, llm.Developer:
		case llm.Assistant:
			t.assistant(beginsWithThinking(m.Parts, accepted))
		default:
			t.user(hasResult(m.Parts))
		}
	}
	return t.lacksThinking()
}

func beginsWithThinking(parts []llm.Part, accepted func(llm.Thinking) bool) bool {
	for _, p := range parts {
		switch p := p.(type) {
		case llm.Thinking:
			if accepted(p) {
				return true
			}
		case llm.Text:
			if strings.TrimSpace(p.Text) != "" {
				return false
			}
		default:
			return false
		}
	}
	return false
}

func hasResult(parts []llm.Part) bool {
	for _, p := range parts {
		if _, ok := p.(llm.ToolResult); ok {
			return true
		}
	}
	return false
}

// Blocks says where the blocks of a dialect's messages have their kind: in the text of the member
// Type, or in the name of their only member if it is empty.
type Blocks struct {
	Type     string
	Result   string
	Thinking []string
	// IsForeign reports whether a block of thinking is another vendor's, and not sent.
	IsForeign func(block jsonedit.Value) bool
}

// LackThinking is [LacksThinking] for the messages of a body. It reads the first block of each.
func (b *Blocks) LackThinking(messages jsonedit.Value) bool {
	var t turnReader
	c := jsonedit.NewCursor(messages.Raw())
	for ok := c.Enter('['); ok && c.Element(); {
		switch role, kind := b.readMessage(c); role {
		case "assistant":
			t.assistant(kind != "" && slices.Contains(b.Thinking, kind))
		case "user":
			t.user(kind == b.Result)
		}
	}
	return t.lacksThinking()
}

// readMessage reads the message that is next, and returns the kind of its first block.
func (b *Blocks) readMessage(c *jsonedit.Cursor) (role, kind string) {
	if !c.Enter('{') {
		c.Skip()
		return "", ""
	}
	for name, ok := c.Field(); ok; name, ok = c.Field() {
		switch string(name) {
		case "role":
			role, _ = c.Value().Text()
		case "content":
			kind = b.readContent(c)
		default:
			c.Skip()
		}
	}
	return role, kind
}

// readContent reads the content that is next, and returns the kind of its first block that is
// sent.
func (b *Blocks) readContent(c *jsonedit.Cursor) (kind string) {
	if !c.Enter('[') {
		c.Skip()
		return ""
	}
	for c.Element() {
		from := c.Offset()
		kind = b.readKind(c)
		if slices.Contains(b.Thinking, kind) {
			if block, err := jsonedit.ParseValue(c.Bytes()[from:c.Offset()]); err == nil && b.IsForeign(block) {
				continue
			}
		}
		c.Leave()
		return kind
	}
	return ""
}

// readKind reads the block that is next, and returns its kind.
func (b *Blocks) readKind(c *jsonedit.Cursor) (kind string) {
	if !c.Enter('{') {
		c.Skip()
		return ""
	}
	for name, ok := c.Field(); ok; name, ok = c.Field() {
		switch {
		case b.Type == "":
			kind = string(name)
			c.Skip()
		case string(name) == b.Type:
			kind, _ = c.Value().Text()
		default:
			c.Skip()
		}
	}
	return kind
}

// WithoutClearThinking returns the parameter context_management without the strategies that
// need thinking, nil if nothing is left.
// https://docs.claude.com/en/docs/build-with-claude/context-editing#thinking-block-clearing
func WithoutClearThinking(raw []byte) []byte {
	var d jsonedit.Doc
	if d.Scan(raw) != nil {
		return raw
	}
	list, _ := d.Find("edits")
	kept, changed := replaceElements(list, func(edit jsonedit.Value) []byte {
		of, _ := edit.Get("type")
		if kind, _ := of.Text(); strings.HasPrefix(kind, "clear_thinking_") {
			return nil
		}
		return edit.Raw()
	})
	switch {
	case !changed:
		return raw
	case string(kept) == "[]" && d.Len() == 1:
		return nil
	}
	return d.Apply(nil, jsonedit.Edit{Name: "edits", Value: kept})
}
