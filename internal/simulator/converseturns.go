package simulator

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// readConverseTurns reads the conversation, whose roles must alternate.
func readConverseTurns(c *checker, q *turn, m map[string]any) {
	var calls toolCallChecker
	before := "assistant"
	for i, v := range c.needList(m, "messages", "") {
		path := nth("messages", i)
		message := c.object(v, path)
		c.checkMembers(message, path, "role", "content")
		role := c.word(message, "role", path, "user", "assistant")
		if role == before {
			c.fail(path, "A conversation must start with a user message and alternate between user and assistant roles. Make sure the conversation alternates between user and assistant roles and try again.")
		}
		if role == "assistant" && len(calls.open) > 0 {
			c.fail(path, "Expected toolResult blocks for the following Ids: %s", strings.Join(calls.open, ", "))
		}
		q.prefill, q.afterTool = role == "assistant", false
		b := converseBlocks{c: c, q: q, calls: &calls, role: role}
		for j, v := range c.needList(message, "content", path) {
			where := nth(at(path, "content"), j)
			b.block(c.object(v, where), where)
		}
		b.end(path)
		before = role
	}
	if q.prefill && q.trailing {
		c.fail("messages", "The model returned the following errors: messages: final assistant content cannot end with trailing whitespace")
	}
	if len(calls.open) > 0 {
		c.fail("messages", "Expected toolResult blocks for the following Ids: %s", strings.Join(calls.open, ", "))
	}
	if (len(q.seen.Calls) > 0 || len(q.seen.Results) > 0) && m["toolConfig"] == nil {
		c.fail("toolConfig", "The toolConfig field must be defined when using toolUse and toolResult content blocks.")
	}
}

// converseBlocks reads the blocks of one message.
type converseBlocks struct {
	c         *checker
	q         *turn
	calls     *toolCallChecker
	role      string
	said      strings.Builder
	texts     int
	images    int
	documents []string // names of documents
}

var (
	// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolUseBlock.html
	converseID   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`) })
	mistralID    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9]{9}$`) })
	documentName = regexp.MustCompile(`^[a-zA-Z0-9()\[\]-]+( [a-zA-Z0-9()\[\]-]+)*$`)
)

// end checks the complete message.
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Message.html
func (b *converseBlocks) end(path string) {
	switch media := b.images + len(b.documents); {
	case media > 0 && b.role != "user":
		b.c.fail(path, "images and documents can only be in messages of the user")
	case b.images > 20, len(b.documents) > 5:
		b.c.fail(path, "a message can have up to 20 images and 5 documents")
	}
	if len(b.documents) > 0 && b.texts == 0 {
		b.c.fail(path, "A text block must be provided when a document is in the message")
	}
	if b.role == "user" && len(b.calls.open) > 0 {
		b.c.fail(path, "Expected toolResult blocks for the following Ids: %s", strings.Join(b.calls.open, ", "))
	}
	b.q.trailing = endsInSpace(b.said.String())
	b.q.addMessage(b.role, b.said.String())
}

func (b *converseBlocks) block(m map[string]any, path string) {
	c, q := b.c, b.q
	kinds := []string{"text", "image", "document", "video", "audio", "cachePoint", "guardContent", "toolUse", "toolResult", "reasoningContent",
		"citationsContent", "searchResult"}
	c.checkMembers(m, path, kinds...)
	kind := c.one(m, path, kinds...)
	where := at(path, kind)
	switch kind {
	case "text":
		text := c.needText(m, "text", path)
		if strings.TrimSpace(text) == "" {
			c.fail(where, "The text field in the ContentBlock object is blank. Add text to the text field, and try again.")
		}
		b.texts++
		b.said.WriteString(text)
	case "image", "document", "video":
		b.media(c.object(m[kind], where), where, kind)
	case "cachePoint":
		readCachePoint(c, q, m, path)
	case "toolUse":
		b.toolUse(c.object(m[kind], where), where)
	case "toolResult":
		b.toolResult(c.object(m[kind], where), where)
	case "reasoningContent":
		b.reasoning(c.object(m[kind], where), where)
	}
}

var converseFormats = map[string][]string{
	"image":    {"png", "jpeg", "gif", "webp"},
	"document": {"pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md"},
	"video":    {"mkv", "mov", "mp4", "webm", "flv", "mpeg", "mpg", "wmv", "three_gp"},
}

func (b *converseBlocks) media(m map[string]any, path, kind string) {
	c := b.c
	names := []string{"format", "source"}
	switch kind {
	case "image":
		b.q.seen.Images++
		b.images++
	case "video":
		b.q.seen.Videos++
	case "document":
		b.q.seen.Documents++
		names = append(names, "name", "context", "citations")
		name := c.filled(m, "name", path)
		c.matches(name, at(path, "name"), documentName)
		if slices.Contains(b.documents, name) {
			c.fail(path, "document file names must be unique")
		}
		b.documents = append(b.documents, name)
	}
	c.checkMembers(m, path, names...)
	c.filled(m, "format", path)
	c.word(m, "format", path, converseFormats[kind]...)
	path = at(path, "source")
	source := c.object(m["source"], path)
	switch c.one(source, path, "bytes", "s3Location", "text", "content") {
	case "bytes":
		c.base64(source, "bytes", path)
	case "s3Location":
		uri := c.filled(c.object(source["s3Location"], path), "uri", path)
		if !strings.HasPrefix(uri, "s3://") {
			c.fail(path, "the URI must begin with s3://")
		}
	}
}

func (b *converseBlocks) toolUse(m map[string]any, path string) {
	c, q := b.c, b.q
	c.checkMembers(m, path, "toolUseId", "name", "input", "type")
	if b.role != "assistant" {
		c.fail(path, "toolUse blocks can only be in assistant messages")
	}
	id := c.filled(m, "toolUseId", path)
	c.matches(id, at(path, "toolUseId"), converseID())
	if strings.Contains(q.model, "mistral.") && !mistralID().MatchString(id) { // https://docs.mistral.ai/capabilities/function_calling
		c.fail(at(path, "toolUseId"), "Tool call id was %s but must be a-z, A-Z, 0-9, with a length of 9.", id)
	}
	name := c.filled(m, "name", path)
	c.matches(name, at(path, "name"), converseToolName())
	q.seen.Calls = append(q.seen.Calls, ReportedCall{ID: id, Name: name, Arguments: c.object(m["input"], at(path, "input"))})
	b.calls.call(id)
}

func (b *converseBlocks) toolResult(m map[string]any, path string) {
	c, q := b.c, b.q
	c.checkMembers(m, path, "toolUseId", "content", "status", "type")
	if b.role != "user" {
		c.fail(path, "toolResult blocks can only be in user messages")
	}
	id := c.filled(m, "toolUseId", path)
	if !b.calls.resolve(id) {
		c.fail(path, "The number of toolResult blocks exceeds the number of toolUse blocks of previous turn: %s", id)
	}
	q.afterTool = true
	var said strings.Builder
	if _, ok := m["content"].([]any); !ok {
		c.fail(at(path, "content"), "must be a list")
	}
	for i, v := range c.list(m, "content", path) {
		where := nth(at(path, "content"), i)
		part := c.object(v, where)
		switch kind := c.one(part, where, "text", "json", "image", "document", "video", "searchResult"); kind {
		case "text":
			said.WriteString(c.text(part, "text", where))
		case "image", "document", "video":
			inner := converseBlocks{c: c, q: q}
			inner.media(c.object(part[kind], where), at(where, kind), kind)
		case "json":
			c.object(part["json"], at(where, "json"))
		}
	}
	q.prompt += tokensOf(said.Len())
	q.seen.Results = append(q.seen.Results,
		ReportedResult{ID: id, Text: said.String(), Failed: c.word(m, "status", path, "success", "error") == "error"})
}

// reasoning checks that thinking came back unchanged.
func (b *converseBlocks) reasoning(m map[string]any, path string) {
	c, q := b.c, b.q
	if b.role != "assistant" {
		c.fail(path, "reasoningContent blocks can only be in assistant messages")
	}
	if c.one(m, path, "reasoningText", "redactedContent") == "redactedContent" {
		c.base64(m, "redactedContent", path)
		q.seen.Thinking = append(q.seen.Thinking, ReportedThought{Signature: c.text(m, "redactedContent", path), Redacted: true})
		return
	}
	path = at(path, "reasoningText")
	text := c.object(m["reasoningText"], path)
	c.checkMembers(text, path, "text", "signature")
	thought := ReportedThought{Text: c.needText(text, "text", path), Signature: c.needText(text, "signature", path)}
	q.seen.Thinking = append(q.seen.Thinking, thought)
	if thought.Signature != signature("anthropic", thought.Text) {
		c.fail(path, "Invalid `signature` in `thinking` block")
	}
}
