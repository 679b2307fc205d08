package dialect

import (
	"strings"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// malformedArguments is the only member of the object that holds arguments of a
// call which are no JSON object, in the form that Anthropic recommends.
// https://docs.claude.com/en/docs/agents-and-tools/tool-use/fine-grained-tool-streaming
const malformedArguments = "INVALID_JSON"

// isMalformed reports whether the arguments of a call are no JSON object. A model
// wrote them so, or a client did; most providers reject them.
func isMalformed(c *llm.ToolCall) bool {
	if c.Custom || strings.TrimSpace(c.Arguments) == "" {
		return false
	}
	v, err := jsonedit.ParseValue([]byte(c.Arguments))
	return err != nil || v.Kind() != jsonedit.Object
}

// wrapMalformed returns malformed arguments as text in an object.
func wrapMalformed(arguments string) string {
	return textObject(malformedArguments, arguments)
}

// Arguments returns the arguments of a call as text. They are text of JSON in some
// dialects and an object in others, and clients mix these up.
func Arguments(v jsonedit.Value) string {
	if text, ok := v.Text(); ok {
		return text
	}
	if v.IsNull() {
		return ""
	}
	return string(v.Raw())
}
